"""What went wrong during a run, each kind counted once?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.model.meta import Problem

if TYPE_CHECKING:
    from torchprof_magic.model.meta import Severity


class ProblemLog:
    """Problems in the order first met; a second one with the same code and message only counts."""

    def __init__(self) -> None:
        self._problems: dict[tuple[str, str], Problem] = {}

    def note(self, code: str, severity: Severity, message: str, fix: str = "") -> None:
        """Record one more occurrence."""
        known = self._problems.get((code, message))
        count = 1 if known is None else known.count + 1
        self._problems[code, message] = Problem(code=code, severity=severity, count=count, message=message, fix=fix)

    @property
    def has_loss(self) -> bool:
        """True when any of them lost data."""
        return any(problem.severity == "data_loss" for problem in self._problems.values())

    def has(self, *codes: str) -> bool:
        """Return whether one of these was noted."""
        return any(code in codes for code, _ in self._problems)

    def as_tuple(self) -> tuple[Problem, ...]:
        """Return all problems."""
        return tuple(self._problems.values())
