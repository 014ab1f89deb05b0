"""The problems of one run, each counted once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchprof_magic.model.problems import problem

if TYPE_CHECKING:
    from torchprof_magic.model.meta import Problem


class ProblemLog:
    """The problems of a run in the order of their first occurrence; a repeated one only raises its count."""

    def __init__(self) -> None:
        self._problems: dict[tuple[str, str], Problem] = {}

    def note(self, code: str, **values: object) -> None:
        """Add the problem ``code`` of ``PROBLEMS``, with ``values`` in its text."""
        found = problem(code, **values)  # type: ignore[arg-type]  # no value is named count (tested)
        known = self._problems.get((code, found.message))
        self._problems[code, found.message] = found if known is None else replace(found, count=known.count + 1)

    def forget(self, *codes: str) -> None:
        """Drop the problems with these codes."""
        self._problems = {key: found for key, found in self._problems.items() if key[0] not in codes}

    @property
    def has_loss(self) -> bool:
        """True if any of them lost data."""
        return any(problem.severity == "data_loss" for problem in self._problems.values())

    def has(self, *codes: str) -> bool:
        """Return whether one of these codes was noted."""
        return any(code in codes for code, _ in self._problems)

    def as_tuple(self) -> tuple[Problem, ...]:
        """Return all problems."""
        return tuple(self._problems.values())
