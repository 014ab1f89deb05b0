"""What went wrong during a run, each kind counted once?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchprof_magic.meta import Problem

if TYPE_CHECKING:
    from torchprof_magic.meta import Severity


class ProblemLog:
    """Problems in the order first met; a second one with the same code and message only counts."""

    def __init__(self) -> None:
        self._problems: dict[tuple[str, str], Problem] = {}

    def note(self, code: str, severity: Severity, message: str, fix: str = "") -> None:
        """Record one more occurrence."""
        self.add(Problem(code=code, severity=severity, count=1, message=message, fix=fix))

    def add(self, problem: Problem) -> None:
        """Record a problem that was made elsewhere."""
        key = (problem.code, problem.message)
        known = self._problems.get(key)
        self._problems[key] = problem if known is None else replace(known, count=known.count + problem.count)

    @property
    def has_loss(self) -> bool:
        """True when any of them lost data."""
        return any(problem.severity == "data_loss" for problem in self._problems.values())

    def as_tuple(self) -> tuple[Problem, ...]:
        """Return all problems."""
        return tuple(self._problems.values())
