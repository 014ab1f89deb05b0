"""The problems that were found while reading a file, and how often each was found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from torchprof_magic.model.meta import encodable, shortened
from torchprof_magic.model.problems import problem
from torchprof_magic.model.units import format_count

if TYPE_CHECKING:
    from torchprof_magic.model.meta import Problem


MAX_VALUE_CHARS = 60


@dataclass
class Findings:
    """Counts of problems by code, each with the byte of the text where it was first found, and an example, if known."""

    counts: dict[str, int] = field(default_factory=dict)
    first_at: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, code: str, count: int = 1, at: int | None = None, example: str = "") -> None:
        """Count a problem of ``PROBLEMS``; ``at`` is a byte offset into the unpacked text.

        ``example`` says what was found where; the first one is kept.
        """
        if count == 0:
            return
        if example:
            self.examples.setdefault(code, example)
        self.counts[code] = self.counts.get(code, 0) + count
        if at is not None:
            self.first_at[code] = min(at, self.first_at.get(code, at))

    def update(self, others: Findings) -> None:
        """Add the counts of ``others``."""
        for code, count in others.counts.items():
            self.add(code, count, others.first_at.get(code), others.examples.get(code, ""))

    def problems(self) -> tuple[Problem, ...]:
        """Return one problem per code, with its count."""
        return tuple(self._problem(code, count) for code, count in self.counts.items())

    def _problem(self, code: str, count: int) -> Problem:
        found = problem(code, count=count)
        at = self.first_at.get(code)
        place = "" if at is None else f" First at byte {format_count(at)} of the text."
        example = f" For example, {self.examples[code]}." if code in self.examples else ""
        return replace(found, message=f"{found.message}{example}{place}")


def value_text(value: object) -> str:
    """Return a value of a file as a short text for an example, as it is written there."""
    text = bytes(value).decode(errors="replace") if isinstance(value, (bytes, msgspec.Raw)) else repr(value)
    return encodable(shortened(text, MAX_VALUE_CHARS))


def example_of(field_name: str, value: object, event_name: object) -> str:
    """Return an example of an odd value: the field, the value, and the event that it is in."""
    event = f" in the event {value_text(event_name)}" if event_name not in (None, "") else ""
    return f'"{field_name}" is {value_text(value)}{event}'
