"""The answer to what a step would take, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from torchprof_magic.model.units import format_ns, format_ratio, printable

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WhatIf:
    """What a step would take with some changes.

    Attributes:
        change: What would be different, in words.
        before_ns: The typical step as it was recorded, in ns; that of the whole recording without steps.
        step_ns: What it would take, in ns.
        low_ns: It would hardly take less, in ns.
        high_ns: It would hardly take more, in ns.
        limit: What would then decide how long it takes.
        path: Its critical path then, with the columns of ``report.critical_path``; times are those of the replay.
        certainty: estimated, or guess where the answer rests on more than the recording.
        has_steps: Whether steps were recorded; else the times are those of the whole recording.
        rests_on: What it rests on, in sentences.
    """

    change: str
    before_ns: float
    step_ns: float
    low_ns: float
    high_ns: float
    limit: str
    certainty: Literal["estimated", "guess"]
    rests_on: tuple[str, ...] = ()
    has_steps: bool = True
    path: pl.DataFrame = field(compare=False)

    @property
    def saving_ns(self) -> float:
        """How much shorter a step would be, in ns; negative if it were longer."""
        return self.before_ns - self.step_ns

    @property
    def speedup(self) -> float:
        """How many times as many steps a second there would be."""
        return self.before_ns / self.step_ns if self.step_ns > 0 else float("inf")

    @property
    def headline(self) -> str:
        """Both times in a few words: ``222 ms → 187 ms``."""
        return f"{format_ns(self.before_ns)} → {format_ns(self.step_ns)}"

    @property
    def each(self) -> str:
        """What the times are of, to stand behind them: `` per step``, empty without steps."""
        return " per step" if self.has_steps else ""

    def __repr__(self) -> str:
        low, high = format_ns(self.low_ns), format_ns(self.high_ns)
        between = f"About {low}" if low == high else f"Between {low} and {high}"
        lines = [
            f"{self.change}: {self.headline}{self.each}, {self._difference}",
            f"{between}, {self.certainty}. {self.limit}",
            *(f"It rests on this: {text}." for text in self.rests_on),
        ]
        return "\n".join(map(printable, lines))

    @property
    def _difference(self) -> str:
        if round(self.saving_ns) == 0:
            return "no difference"
        share = f" ({format_ratio(abs(self.saving_ns) / self.before_ns)})" if self.before_ns else ""
        return f"{format_ns(abs(self.saving_ns))} {'less' if self.saving_ns > 0 else 'more'}{share}"
