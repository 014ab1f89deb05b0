"""What makes a verdict doubtful: few, uneven or distorted steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from torchprof_magic.facts.host.crowding import crowding
from torchprof_magic.facts.host.distortion import find_distortion
from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.findings.verdict.accounts import chosen_steps
from torchprof_magic.model.units import counted, format_count, format_ns, format_ratio
from torchprof_magic.tables.steps import steps_table

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

LEAST_STEPS = 3
LOUD_DISTORTION = 1.5
LOUD_SPREAD = 0.2
LOUD_TREND = 0.2
LEAST_STEPS_WITH_TREND = 5
LOUD_COMPILE = 0.05
LOUD_CROWDING = 0.25


def find_doubts(trace: Trace) -> tuple[str, ...]:
    """Return sentences about what makes the verdict doubtful, the gravest first; empty if nothing does."""
    doubts = (_distorted, _compiled, _crowded, _warming_up, _outliers, _uneven, _few)
    found = [doubt(trace) for doubt in doubts]
    return tuple(sentence for sentence in found if sentence)


def _distorted(trace: Trace) -> str:
    found = find_distortion(trace)
    if found is None or found.ratio < LOUD_DISTORTION:
        return ""
    return (
        f"Recorded steps took {format_count(found.ratio)} times as long as others, so shares may differ without "
        f"the profiler."
    )


def _compiled(trace: Trace) -> str:
    steps = steps_table(trace).frame
    share = float(steps["compile_ns"].sum()) / max(float(steps["dur_ns"].sum()), 1)
    if share < LOUD_COMPILE:
        return ""
    return f"{format_ratio(share)} of the recorded time is compilation or graph capture; record later steps too."


def _crowded(trace: Trace) -> str:
    share = trace.meta.others_share
    if share is None or (crowding(trace.meta) or 0) < LOUD_CROWDING:
        return ""
    return f"Other programs used {format_ratio(share)} of the machine's cores meanwhile, which makes steps longer."


def _durations(trace: Trace) -> IntArray:
    steps = trace.steps.filter("complete")
    return (steps["end_ns"] - steps["start_ns"]).to_numpy()


def _warming_up(trace: Trace) -> str:
    """Return that steps became steadily shorter, or longer."""
    dur = _durations(trace)
    if len(dur) < LEAST_STEPS_WITH_TREND:
        return ""
    change = np.diff(dur)
    third = max(len(dur) // 3, 1)
    ratio = np.median(dur[-third:]) / max(np.median(dur[:third]), 1)
    mostly = 0.75 * len(change)
    if ratio < 1 - LOUD_TREND and (change < 0).sum() >= mostly:
        return f"Steps became {format_ratio(1 - ratio)} shorter during the recording, so the warm-up was not over."
    if ratio > 1 + LOUD_TREND and (change > 0).sum() >= mostly:
        return f"Steps became {format_ratio(ratio - 1)} longer during the recording."
    return ""


def _outliers(trace: Trace) -> str:
    chosen = chosen_steps(trace)
    if len(chosen.outliers) == 0:
        return ""
    dur = (trace.steps["end_ns"] - trace.steps["start_ns"]).to_numpy()
    worst = int(chosen.outliers[dur[chosen.outliers].argmax()])
    typical = float(np.median(dur[chosen.row])) if len(chosen.row) else 0.0
    number, ratio = trace.steps["number"][worst], dur[worst] / max(typical, 1)
    several = len(chosen.outliers) > 1
    rest = f" ({counted(len(chosen.outliers), 'step')} of this kind left out)" if several else "; it is left out"
    return (
        f"Step {number} took {format_count(ratio)} times as long as the "
        f"median{_difference(trace, worst, chosen.row)}{rest}."
    )


def _difference(trace: Trace, outlier: int, typical: IntArray) -> str:
    """Return in which phase an outlier spent most of its additional time."""
    frame = steps_table(trace).frame
    more = {
        phase: int(frame[f"{phase}_ns"][outlier]) - float(np.median(frame[f"{phase}_ns"].to_numpy()[typical]))
        for phase in PHASES
    }
    phase = max(more, key=more.__getitem__)
    return f", {format_ns(more[phase])} of it more in {phase}" if more[phase] > 0 and len(typical) else ""


def _uneven(trace: Trace) -> str:
    chosen = chosen_steps(trace)
    dur = chosen.end_ns - chosen.start_ns
    if len(chosen.row) < LEAST_STEPS or dur.mean() <= 0:
        return ""
    spread = float(dur.std() / dur.mean())
    return f"Steps differ by {format_ratio(spread)} (standard deviation)." if spread > LOUD_SPREAD else ""


def _few(trace: Trace) -> str:
    chosen = chosen_steps(trace)
    count = chosen.row
    if trace.steps.height == 0 or len(count) >= LEAST_STEPS:
        return ""
    found = f"Only {counted(len(count), 'complete step')} recorded"
    if len(chosen.outliers):
        found = f"Only {counted(len(count), 'typical step')} left"
    return f"{found}, too few to tell how much steps differ."
