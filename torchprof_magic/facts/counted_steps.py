"""The steps that count, and the typical step: the one place that decides both.

Everything that is given per step is a sum over the steps that count, divided by their number: the verdict, the phases,
the tables of the page, the text, the advice, a comparison, the history and ``report.step_ns``. What runs between two
steps, or after the last one, belongs to the step before it, and what runs before the first to the first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.device.coverage import launches_of, launches_per_step
from torchprof_magic.facts.device.window import windows_of
from torchprof_magic.facts.server_steps import are_of_server
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.time_range import WHOLE, TimeRange
from torchprof_magic.model.outliers import LEAST_STEPS_WITH_OUTLIERS, are_outliers
from torchprof_magic.model.rows import in_time, rows_where
from torchprof_magic.model.trace import MAX_SUM

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

# Steps that launch less than this part of the median are left out, if they are at most one in so many and the median is
# at least so much.
SPARSE_RATIO = 0.5
MANY_TO_SPARSE = 4
LEAST_LAUNCHES = 4


_NONE = np.empty(0, np.int64)


class CountedSteps(NamedTuple):
    """The steps that count: their times, and which rows of ``trace.steps`` they are; the windows if there are none.

    Left out are ``outliers``, which are far longer than others, ``sparse`` ones, which launch far less, and, where none
    that counts would have memory of two passes, those ``without_details``; in a watched run those ``with_details``,
    which take longer than they would have. None is known of steps that were chosen.
    ``with_memory`` is how many of those that count have memory, if not all have.
    """

    start_ns: IntArray
    end_ns: IntArray
    row: IntArray
    outliers: IntArray
    sparse: IntArray
    without_details: IntArray
    with_memory: int | None = None
    with_details: IntArray = _NONE

    @property
    def memory_steps(self) -> int:
        """How many steps the memory of ops is of."""
        return self.steps if self.with_memory is None else max(self.with_memory, 1)

    @property
    def whole_ns(self) -> int:
        """Their time together."""
        return int((self.end_ns - self.start_ns).sum())

    @property
    def steps(self) -> int:
        """How many steps count; 1 for a recording without steps."""
        return max(len(self.row), 1)

    @property
    def mean_ns(self) -> float:
        """The typical step: the mean of those that count; that of the windows of a recording without steps."""
        return self.whole_ns / self.steps


@once_per_trace
def counted_steps(trace: Trace) -> CountedSteps:
    """Return the steps that were chosen, else the complete ones that are no outliers and launch as much as others.

    Those of a server all count: they differ in what they serve.

    If no step is complete, all count. Without steps these are the windows of the recording.
    """
    steps, nothing = trace.steps, np.empty(0, np.int64)
    if steps.height == 0:
        windows = windows_of(trace)
        return CountedSteps(windows.start_ns, windows.end_ns, nothing, nothing, nothing, nothing)
    start, end = (steps[name].to_numpy() for name in ("start_ns", "end_ns"))
    if trace.meta.chosen_steps:
        row = np.array(trace.meta.chosen_steps, np.int64)
        return CountedSteps(start[row], end[row], row, nothing, nothing, nothing, _with_memory(trace, row))
    row = np.flatnonzero(steps["complete"].to_numpy())
    row = row if len(row) else np.arange(steps.height)
    if are_of_server(trace):
        return CountedSteps(start[row], end[row], row, nothing, nothing, nothing, _with_memory(trace, row))
    is_detailed = _recorded_with_details(trace)[row]
    if is_detailed.any() and not is_detailed.all():
        return _by_rules(trace, start, end, row[~is_detailed])._replace(with_details=row[is_detailed])
    found = _by_rules(trace, start, end, row)
    if found.with_memory == 0:
        has_details = _has_details(trace)[row]
        return _by_rules(trace, start, end, row[has_details])._replace(without_details=row[~has_details])
    return found


def _recorded_with_details(trace: Trace) -> BoolArray:
    """Return which rows of the steps have details in a watched run."""
    detailed = [mark.number for mark in trace.meta.recorded_steps if mark.has_details]
    found: BoolArray = np.isin(trace.steps["number"].to_numpy(), detailed)
    return found


def _by_rules(trace: Trace, start: IntArray, end: IntArray, row: IntArray) -> CountedSteps:
    sparse = _are_sparse(launches_per_step(trace, launches_of(trace).counts)[row])
    outliers = np.zeros(len(row), np.bool_)
    outliers[~sparse] = are_outliers((end - start)[row][~sparse].astype(np.float64), len(row))
    counts = ~(outliers | sparse)
    chosen, nothing = row[counts], row[:0]
    return CountedSteps(
        *(start[chosen], end[chosen], chosen, row[outliers], row[sparse], nothing), _with_memory(trace, chosen)
    )


def with_chosen_steps(trace: Trace, rows: Sequence[int]) -> Trace:
    """Return the trace in which these steps count, by their rows; without a choice if the rules say the same."""
    by_rules = replace(trace, meta=replace(trace.meta, chosen_steps=())) if trace.meta.chosen_steps else trace
    if sorted(rows) == sorted(counted_steps(by_rules).row.tolist()):
        return by_rules
    return replace(by_rules, meta=replace(by_rules.meta, chosen_steps=tuple(sorted(rows))))


def typical_of(dur_ns: Sequence[float]) -> float:
    """Return the typical one of the durations of steps, as of those without the profiler; nan without any."""
    dur = np.asarray(dur_ns, np.float64)
    return float(dur[~are_outliers(dur)].mean()) if len(dur) else float("nan")


@once_per_trace
def whole_steps(trace: Trace) -> pl.DataFrame:
    """Return the complete steps in order of time, or all if none is; outliers as well, which statistics must see."""
    steps = trace.steps
    if trace.meta.chosen_steps:
        steps = steps[list(trace.meta.chosen_steps)]
    elif steps["complete"].any() and not steps["complete"].all():
        steps = rows_where(steps, steps["complete"].to_numpy())
    return in_time(steps)


def left_out_of_whole(trace: Trace) -> IntArray:
    """Return which rows of ``whole_steps`` do not count."""
    counts = trace.steps[counted_steps(trace).row.tolist()]["start_ns"]
    found: IntArray = np.flatnonzero(~whole_steps(trace)["start_ns"].is_in(counts.implode()).to_numpy())
    return found


def step_ns_of(trace: Trace) -> float:
    """Return the typical step in ns; nan if no step is complete, as of a recording without steps."""
    is_known = bool(trace.meta.chosen_steps) or bool(trace.steps["complete"].any())
    return counted_steps(trace).mean_ns if is_known else float("nan")


def has_counted_steps(trace: Trace) -> bool:
    """Return whether times are per step; otherwise they are those of the whole recording."""
    return trace.steps.height > 0


def strictly_counted(trace: Trace) -> TimeRange:
    """Return the time of the steps that count without what lies between them; that of the windows without steps."""
    counted = counted_steps(trace)
    order = np.argsort(counted.start_ns, kind="stable")
    start, end = counted.start_ns[order], np.maximum.accumulate(counted.end_ns[order])
    if len(start) == 0:
        return WHOLE
    gaps = np.flatnonzero(start[1:] > end[:-1])
    return TimeRange(int(start[0]), int(end[-1]), tuple((int(end[at]), int(start[at + 1])) for at in gaps))


@once_per_trace
def counted_part(trace: Trace) -> TimeRange:
    """Return the time of the steps that count, each until the next one begins; everything if no step is left out."""
    counted, steps = counted_steps(trace), trace.steps
    if len(counted.row) == steps.height:
        return WHOLE
    order = np.argsort(steps["start_ns"].to_numpy(), kind="stable")
    edges = np.concatenate(([-MAX_SUM], steps["start_ns"].to_numpy()[order][1:], [MAX_SUM]))
    left_out = np.flatnonzero(~np.isin(order, counted.row))
    return TimeRange(WHOLE.start_ns, WHOLE.end_ns, tuple((int(edges[at]), int(edges[at + 1])) for at in left_out))


def _has_details(trace: Trace) -> BoolArray:
    """Return which steps have details of a second pass of their own; all of them if there is none."""
    passes, place = trace.meta.two_pass, np.arange(trace.steps.height)
    if passes is None or not passes.detail_steps:
        return place >= 0
    return (place >= passes.details_begin) & (place < passes.details_begin + len(passes.detail_steps))


def _with_memory(trace: Trace, row: IntArray) -> int | None:
    """Return how many of these steps have memory; None if all have, or none was recorded."""
    has_details = _has_details(trace)
    if has_details.all() or not trace.meta.has_memory:
        return None
    return int(has_details[row].sum())


def _are_sparse(launches: IntArray) -> BoolArray:
    """Return which steps, few among the others, launch less than half of what most do: part of them may be lost."""
    usual = float(np.median(launches)) if len(launches) >= LEAST_STEPS_WITH_OUTLIERS else 0.0
    sparse = launches < SPARSE_RATIO * usual
    is_rare = int(sparse.sum()) <= max(1, len(launches) // MANY_TO_SPARSE)
    return sparse if usual >= LEAST_LAUNCHES and is_rare else np.zeros(len(launches), np.bool_)
