"""The problems that were found while reading a file, and how often each was found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torchprof_magic.model.problems import problem

if TYPE_CHECKING:
    from torchprof_magic.model.meta import Problem


@dataclass
class Findings:
    """Counts of problems by code, each with the byte of the text where it was first found, if known."""

    counts: dict[str, int] = field(default_factory=dict)
    first_at: dict[str, int] = field(default_factory=dict)

    def add(self, code: str, count: int = 1, at: int | None = None) -> None:
        """Count a problem of ``PROBLEMS``; ``at`` is a byte offset into the unpacked text."""
        if count == 0:
            return
        self.counts[code] = self.counts.get(code, 0) + count
        if at is not None:
            self.first_at[code] = min(at, self.first_at.get(code, at))

    def update(self, others: Findings) -> None:
        """Add the counts of ``others``."""
        for code, count in others.counts.items():
            self.add(code, count, others.first_at.get(code))

    def problems(self) -> tuple[Problem, ...]:
        """Return one problem per code, with its count."""
        return tuple(self._problem(code, count) for code, count in self.counts.items())

    def _problem(self, code: str, count: int) -> Problem:
        found = problem(code, count=count)
        at = self.first_at.get(code)
        return found if at is None else replace(found, message=f"{found.message} First at byte {at:,} of the text.")
