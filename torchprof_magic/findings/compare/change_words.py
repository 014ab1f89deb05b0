"""A change between two runs in words: a title, one sentence of evidence, and one line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.findings.compare.step_change import CONFIDENCE, LIKELY_P
from torchprof_magic.findings.compare.work_change import WAITING
from torchprof_magic.model.units import format_change, format_count, format_ns, format_ratio, printable

if TYPE_CHECKING:
    from torchprof_magic.findings.compare.run_change import RunChange
    from torchprof_magic.findings.compare.work_change import WorkChange
    from torchprof_magic.model.shapes import Table

SIGNS = {"faster": "▼", "slower": "▲", "unclear": "≈"}
# The machine or its load changed if what both runs do took this much longer or shorter.
NOTED_DRIFT = 0.05
# What changed so many times as much is another change.
MOST_APART = 1.5
# A change from this share on is told, also where it is not clear.
NOTED_CHANGE = 0.05


def change_title(change: RunChange) -> str:
    """Return the change in a few words, such as ``20 % faster, likely``, or ``More work per step, sure``."""
    if change.certainty == "too few steps":
        return "Too few steps to say"
    if change.kind == "unclear" and not abs(change.ratio - 1) >= NOTED_CHANGE:
        return "No clear change"
    if change.kind == "unclear":
        way = "slower" if change.ratio > 1 else "faster"
        return f"{format_ratio(abs(change.ratio - 1))} {way}, which may be chance"
    if change.basis == "work":
        went_that_way = {"slower": change.after_ns > change.before_ns, "faster": change.after_ns < change.before_ns}
        but = "" if went_that_way[change.kind] else f", but not {change.kind}"
        return f"{_more(change)} per step, {change.certainty}{but}"
    by = f" by {_more(change).lower()}" if change.basis == "waits" else ""
    return f"{format_ratio(abs(change.ratio - 1))} {change.kind}{by}, {change.certainty}"


def _more(change: RunChange) -> str:
    """Return what a step does more or less of."""
    is_waiting = change.work is not None and change.work.name == WAITING
    return f"{'More' if change.kind == 'slower' else 'Less'} {'waiting' if is_waiting else 'work'}"


def change_numbers(change: RunChange) -> str:
    """Return the typical steps and the interval of the change: ``175 → 140 ms per step, 98 % interval −36 to −5 %``."""
    return ", ".join(part for part in (change_times(change), change_interval(change)) if part)


def change_times(change: RunChange) -> str:
    """Return the typical steps, or which run has none: ``175 ms → 140 ms per step``.

    Where the work tells the change, the title has no percentage, so that of the steps follows them.
    """
    without = [which for which, ns in (("before", change.before_ns), ("after", change.after_ns)) if math.isnan(ns)]
    if without:
        return f"no complete step in {f'the run {without[0]}' if len(without) == 1 else 'either run'}"
    return f"{_times(change)} per step{_plainly(change)}{_percentage(change)}"


def change_interval(change: RunChange) -> str:
    """Return the interval of the change, ``98 % interval −36 to −5 %``; empty if it is open."""
    low, high = change.interval
    if not math.isfinite(high) or math.isnan(change.before_ns) or math.isnan(change.after_ns):
        return ""
    of = f" of the {_more(change).split(' ')[1]} alone" if change.basis == "work" else ""
    return f"{format_ratio(CONFIDENCE)} interval{of} {format_change(low - 1)} to {format_change(high - 1)}"


def change_line(change: RunChange) -> str:
    """Return the change as one line, by how much the step changed: ``▼ 42 ms faster per step than before (−19 %)``.

    Where the steps cannot tell it, or went the other way than the work, it is the title with the times of the steps.
    """
    if math.isnan(change.before_ns) or math.isnan(change.after_ns):
        return ""
    longer_ns = change.after_ns - change.before_ns
    if not change.before_ns or {"slower": longer_ns > 0, "faster": longer_ns < 0}.get(change.kind) is not True:
        return f"{SIGNS[change.kind]} {change_title(change)}: step {_times(change)}{_percentage(change)}"
    by = format_change(longer_ns / change.before_ns)
    likely = "" if change.certainty == "sure" else f", {change.certainty}"
    return f"{SIGNS[change.kind]} {format_ns(abs(longer_ns))} {change.kind} per step than before ({by}){likely}"


def largest_change(changes: Table, ratio: float) -> str:
    """Return the row that changed most in the direction of ``ratio`` as a sentence: faster where it is below 1.

    Rows are compared by the column that they are sorted by; empty if none changed that way.
    """
    main = changes.sort_by
    if main is None or not main.endswith("_ns"):
        return ""
    rows = changes.frame.filter(pl.col(main) * (1 if ratio > 1 else -1) > 0)
    if rows.height == 0:
        return ""
    row = rows.sort(pl.col(main).abs(), descending=True, maintain_order=True).row(0, named=True)
    before, after = (time_or_zero(row[main.replace("delta", side)]) for side in ("before", "after"))
    where = "on the device" if main.startswith("device") else "on the host"
    return f"Largest change: {printable(row['name'])}, {before} → {after} per step {where}."


def time_or_zero(value_ns: float) -> str:
    """Return a time; nothing has no unit."""
    return format_ns(value_ns) if value_ns else "0"


def change_evidence(change: RunChange) -> str:
    """Return why the change is known or not, as sentences."""
    if change.certainty == "too few steps":
        few = "At least 4 complete steps of each run are needed to tell a change from noise. Record more with --active."
        return " ".join((few, *_of_machine(change)))
    said = [_decided(change)]
    if change.is_plain:
        said.append(f"{_why_plain(change)} the steps that ran without the profiler are compared.")
    if _is_interrupted(change):
        what = "The fastest steps" if change.is_plain else "The fastest runs of all ops, added up,"
        by = format_change(change.fastest_ratio - 1)
        said.append(f"{what} changed by only {by}: other programs may have interrupted the others.")
    if change.others_shares is not None:
        said.append(_crowded(change, *change.others_shares))
    said += _of_machine(change)
    said.append("This is about these steps only: the same code can differ by 10 % from one session to another.")
    return " ".join(said)


def _crowded(change: RunChange, before_share: float, after_share: float) -> str:
    """Return that the machine had fewer cores free for the slower run, which also depends on how many it wanted."""
    which = "after" if change.after_ns > change.before_ns else "before"
    return (
        f"The machine had fewer free cores {which}, which alone makes the steps longer: other programs used "
        f"{format_ratio(before_share)} of them before, {format_ratio(after_share)} after."
    )


def _is_interrupted(change: RunChange) -> bool:
    """Return whether the steps changed, but not what ran without an interruption."""
    by_steps, by_fastest = (abs(math.log(ratio)) for ratio in (change.ratio, change.fastest_ratio))
    return change.kind == "unclear" and by_steps >= NOTED_DRIFT and by_fastest < by_steps / 2


def _of_machine(change: RunChange) -> list[str]:
    """Return how much longer what both runs do took, and what that means for the rows of the tables."""
    if not change.same_inputs:
        return ["The inputs have other shapes, which changes how long the same ops take."]
    drift = change.shown_drift
    if min(abs(drift - 1), abs(change.drift - 1)) < NOTED_DRIFT:
        return []
    by = f"{format_ratio(abs(drift - 1))} {'longer' if drift > 1 else 'less time'}"
    # Recording more in one run makes its ops longer, too.
    cause = ", as on a busier or slower machine" if drift > 1 and change.same_details else ""
    so = "" if change.basis == "steps" else ". A change of about that size in a table says nothing about that op alone"
    return [f"Ops that both runs call equally often took {by} after{cause}{so}."]


def _times(change: RunChange) -> str:
    return f"{format_ns(change.before_ns)} → {format_ns(change.after_ns)}"


def _percentage(change: RunChange) -> str:
    """Return by how much the typical steps changed, where the title does not say it: ``(+86.2 %)``."""
    is_said = change.basis != "work" or not change.before_ns
    return "" if is_said else f" ({format_change(change.after_ns / change.before_ns - 1)})"


def recorded_words(before_ns: float, after_ns: float, cause: str) -> str:
    """Return what the cause and the tables compare where the title is of steps that ran without the profiler."""
    what = "The cause and the tables are" if cause else "The tables are"
    if math.isnan(before_ns) or math.isnan(after_ns):
        return f"{what} of the recorded steps."
    return f"{what} of the recorded steps: {format_ns(before_ns)} → {format_ns(after_ns)}."


def of_recorded(words: str, change: RunChange, before_ns: float, after_ns: float) -> str:
    """Return what made a change, with the recorded steps where these changed far more or less than the title says."""
    said_ns, recorded_ns = change.after_ns - change.before_ns, after_ns - before_ns
    if not words or not change.is_plain or not min(before_ns, after_ns) > 0:
        return words
    if said_ns and 1 / MOST_APART <= recorded_ns / said_ns <= MOST_APART:
        return words
    times = f"{format_ns(before_ns)} → {format_ns(after_ns)}"
    return f"In the recorded steps ({times}), {words[0].lower()}{words[1:]}"


def _plainly(change: RunChange) -> str:
    return " without the profiler" if change.is_plain else ""


def _why_plain(change: RunChange) -> str:
    return "Too few steps were recorded, so" if change.same_details else "Recording more takes time in the steps, so"


def _decided(change: RunChange) -> str:
    if change.basis == "work" and change.work is not None:
        return f"{_of_work(change, change.work)} {_vary(change)}"
    if change.basis == "waits" and change.work is not None:
        how = "longer" if change.work.difference > 0 else "less"
        return f"Every recorded step sleeps or waits {how} after than before, by more than the waits of one run vary."
    if change.kind == "unclear" and change.p < LIKELY_P:
        return "The fastest quarter of the steps changed, but the typical step did not change in the same direction."
    if change.kind == "unclear":
        differs = format_change(change.after_ns / change.before_ns - 1)
        return (
            f"The typical step changed by {differs}, but the steps vary so much that two runs of the same code would "
            f"differ as much in {format_ratio(change.p)} of all comparisons."
        )
    return "The steps differ by more than those of one run do from each other."


def _of_work(change: RunChange, work: WorkChange) -> str:
    """Return what one run does more of, and what that alone makes of a step."""
    more = "more" if work.difference > 0 else "less"
    alone = f"{format_ratio(abs(change.ratio - 1))} {'longer' if change.kind == 'slower' else 'shorter'}"
    alone = f"By that alone a step would be {alone}."
    if work.name == WAITING:
        return f"A step waits {more} after than before. {alone}"
    said = f"A step does {more} after than before: mostly {printable(work.name)}"
    if work.calls_before == work.calls_after:
        return f"{said}. {alone}"
    return f"{said}, {format_count(work.calls_before)} → {format_count(work.calls_after)} calls per step. {alone}"


def _vary(change: RunChange) -> str:
    """Return what the times of the steps say beside the work that differs."""
    by = format_change(change.after_ns / change.before_ns - 1)
    is_longer = change.after_ns > change.before_ns
    steps = "The steps" if is_longer == (change.ratio > 1) else "Even so, the steps"
    is_of_machine = abs(change.drift - 1) >= NOTED_DRIFT and (change.drift > 1) == is_longer
    slower = "slower" if is_longer else "faster"
    why = f": the machine may have been {slower}" if is_of_machine else ", but they vary too much to be sure of that"
    return f"{steps} became {'longer' if is_longer else 'shorter'}, {_times(change)} ({by}){why}."
