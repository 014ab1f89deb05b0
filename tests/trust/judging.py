"""What is said of a mutation, judged by what was done to the file."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trust.mutations import Mutation

    from torchprof_magic import Report

ALARMS = (
    "run.work_missing", "run.graph_work_missing", "run.clock", "run.before_launch", "run.after_wait", "run.over_next",
    "run.over_steps", "chrome.zero_time",
)  # fmt: skip
LOST = ("run.work_missing", "run.work_after_end", "run.no_kernels")
LONG = ("run.after_wait", "run.over_next", "run.over_steps", "chrome.absurd_duration")
# How close the estimate of a clock comes.
CLOCK_US = 100.0


class Row(NamedTuple):
    """One file with one change: what was asked, and what was answered."""

    file: str
    mutation: str
    counts: bool
    is_said: bool
    is_right: bool
    detail: str

    @property
    def passes(self) -> bool:
        """Whether nothing is wrong with the answer."""
        return self.counts and self.is_said and self.is_right

    def __str__(self) -> str:
        marks = "".join("+" if good else "-" for good in (self.counts, self.is_said, self.is_right))
        return f"{marks}  {self.file[:34]:34}  {self.mutation:22}  {self.detail}"


def codes_of(report: Report) -> dict[str, int]:
    """Return how often each kind of problem occurs."""
    return {problem.code: problem.count for problem in report.problems}


def missing_in(report: Report) -> int:
    """Return how many launches have no work, whether that is lost, or may have run later, or in a graph."""
    whole = report.coverage.head(1)
    return int(whole["missing"].sum() + whole["after_the_end"].sum() + whole["captured"].sum())


def judged_original(path: Path, report: Report) -> Row:
    """Judge a trace that nothing was done to: it must raise no alarm."""
    alarms = {code: count for code, count in codes_of(report).items() if code in ALARMS}
    return Row(path.name, "original", not alarms, not alarms, is_right=True, detail=str(alarms or ""))


def judged(path: Path, original: Report, mutation: Mutation, report: Report) -> Row:
    """Judge what is said of a mutation."""
    found, codes = report.verdict, codes_of(report)
    unchanged = found.kind == original.verdict.kind
    is_doubtful = bool(found.doubts) or found.kind == "none"
    expected = missing_in(original) + mutation.missing
    counts, is_said = True, True
    if mutation.is_host_only:
        counts, is_said, unchanged = True, "run.no_kernels" in codes, found.kind == "none"
    elif mutation.shift_us:
        counts = abs(_clock_us(report) - mutation.shift_us) < CLOCK_US
        is_said = "run.clock" in codes
    elif mutation.lengthened:
        is_said = any(code in codes for code in LONG)
    else:
        counts = missing_in(report) == expected
        is_said = mutation.missing == 0 or any(code in codes for code in LOST)
        is_said &= not mutation.zeroed or codes.get("chrome.zero_time") == mutation.zeroed
    detail = f"{original.verdict.kind} -> {found.kind}, {len(found.doubts)} doubts, "
    detail += f"missing {missing_in(report)} of {expected}, clock {_clock_us(report):+.0f} us, "
    detail += ", ".join(f"{code} {count}" for code, count in codes.items() if code in ALARMS or code in LONG)
    return Row(path.name, mutation.name, counts, is_said, unchanged or is_doubtful, detail)


def _clock_us(report: Report) -> float:
    """Return by how much the clock of the device was said to be ahead, from the trace that it was moved in."""
    recorded = report.trace.events
    moved = report.as_analysed.events
    shift = (recorded["start_ns"] - moved["start_ns"]).abs().arg_max()
    return float(recorded["start_ns"][shift] - moved["start_ns"][shift]) / 1e3 if shift is not None else 0.0


def table_of(rows: Sequence[Row]) -> str:
    """Return a table with a line per mutation: how many files it was tried on, and what held."""
    by: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by[row.mutation].append(row)
    lines = [f"{'mutation':24}{'files':>6}{'count exact':>13}{'said':>6}{'verdict':>9}{'all':>6}"]
    for name, found in by.items():
        held = [
            sum(values) for values in zip(*((r.counts, r.is_said, r.is_right, r.passes) for r in found), strict=True)
        ]
        lines.append(f"{name:24}{len(found):6}{held[0]:13}{held[1]:6}{held[2]:9}{held[3]:6}")
    return "\n".join(lines)
