"""Self time, idle time and queue depth of every event, and which events empty the launch queue, as torch defines them.

The definitions are those of ``torch.profiler._utils.BasicEvaluation``. An event's idle time is the union of the idle
intervals within it; torch's own sum skips some of several intervals that overlap each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.ops.calls import nest_among
from torchprof_magic.facts.shared import in_category, is_named, once_per_trace
from torchprof_magic.facts.source.places import places_of
from torchprof_magic.model.intervals import IntArray, covered_ns, self_time
from torchprof_magic.model.rows import filled
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.vendors import LAUNCH

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.model.trace import DType, Trace

# A queue that falls to 0 from at least this depth was emptied by what ran meanwhile.
LEAST_PEAK = 4
# The weight of self time beside the share of idle time in the score.
SELF_WEIGHT = 0.6
RANKED = ("cpu_op", "user_annotation", "python_function")
COLUMNS = (
    Column(name="event", title="Event", unit="count", definition="Row of `events`."),
    Column(name="name", title="Name", unit="code", definition="Name of the event."),
    Column(name="file", title="File", unit="text", definition="File of the user's line or function, if known."),
    Column(name="line", title="Line", unit="count", definition="Line that ran, or at which the function is defined."),
    Column(name="self_ns", title="Self", unit="ns", definition="Duration minus that of the events directly inside."),
    Column(
        name="idle_ns",
        title="Idle",
        unit="ns",
        definition="Time within it in which the launch queue was empty: from the end of the launch or kernel at which "
        "it became empty to the next launch.",
    ),
    Column(name="idle_ratio", title="Idle share", unit="ratio", definition="Idle time divided by the duration."),
    Column(
        name="queue_depth",
        title="Queue",
        unit="count",
        definition="Number of launched kernels that had not begun when it began.",
    ),
    Column(
        name="score",
        title="Score",
        unit="count",
        definition="Idle share plus 0.6 times self time, each in standard deviations from its mean over these events.",
    ),
)
SCHEMA: dict[str, DType] = {
    "event": pl.Int64,
    "name": pl.String,
    "file": pl.String,
    "line": pl.Int32,
    "self_ns": pl.Int64,
    "idle_ns": pl.Int64,
    "idle_ratio": pl.Float64,
    "queue_depth": pl.Int64,
    "score": pl.Float64,
}


class Metrics(NamedTuple):
    """Values of every op, annotation and Python frame, whose rows in ``trace.events`` are ``row``."""

    row: IntArray
    dur_ns: IntArray
    self_ns: IntArray
    idle_ns: IntArray
    queue_depth: IntArray


class _Queue(NamedTuple):
    """The launches and kernels in order of time, with the depth of the queue at the start of each."""

    start_ns: IntArray
    end_ns: IntArray
    depth: IntArray


@once_per_trace
def event_metrics(trace: Trace) -> Metrics:
    """Return the metrics of every event."""
    events = trace.events
    found = nest_among(trace, in_category(trace, *RANKED))
    start, dur = (events[name].to_numpy()[found.row] for name in ("start_ns", "dur_ns"))
    idle_start, idle_end = _idle_intervals(trace, start, start + dur)
    return Metrics(
        row=found.row,
        dur_ns=dur,
        self_ns=self_time(found.parent, dur),
        idle_ns=covered_ns(idle_start, idle_end, start, start + dur) if len(idle_start) else np.zeros_like(dur),
        queue_depth=_depth_at(trace, start),
    )


@once_per_trace
def _launches(trace: Trace) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return the rows of launches and of kernels by start, and for each launch its kernel's place, -1 for none."""
    events = trace.events
    start, correlation = events["start_ns"].to_numpy(), filled(events["correlation"], -1)
    is_launch = is_named(trace, LAUNCH)
    launch = np.flatnonzero(is_launch & in_category(trace, "runtime"))
    kernel = np.flatnonzero(in_category(trace, "kernel"))
    launch, kernel = (rows[np.argsort(start[rows], kind="stable")] for rows in (launch, kernel))
    numbers, first = np.unique(correlation[kernel], return_index=True)
    at = np.searchsorted(numbers, correlation[launch])
    is_known = (at < len(numbers)) & (correlation[launch] >= 0)
    is_known[is_known] = numbers[at[is_known]] == correlation[launch][is_known]
    place = np.full(len(launch), -1, np.int64)
    place[is_known] = first[at[is_known]]
    return launch, kernel, place, start[kernel]


def _depth_at(trace: Trace, time_ns: IntArray) -> IntArray:
    """Return the depth of the queue at some moments: kernels up to that of the last launch, minus those that began."""
    launch, _, place, kernel_start = _launches(trace)
    known = np.flatnonzero(place >= 0)
    launched_ns = trace.events["start_ns"].to_numpy()[launch[known]]
    last = np.searchsorted(launched_ns, time_ns, side="right") - 1
    spawned = np.where(last >= 0, np.append(place[known], -1)[last], -1)
    begun = np.searchsorted(kernel_start, time_ns, side="right")
    return np.maximum(spawned - begun + 1, 0)


@once_per_trace
def _queue(trace: Trace) -> _Queue:
    launch, kernel, _, _ = _launches(trace)
    rows = np.concatenate((launch, kernel))
    start, dur = (trace.events[name].to_numpy()[rows] for name in ("start_ns", "dur_ns"))
    order = np.argsort(start, kind="stable")
    start, end = start[order], (start + dur)[order]
    return _Queue(start, end, _depth_at(trace, start))


def _idle_intervals(trace: Trace, start_ns: IntArray, end_ns: IntArray) -> tuple[IntArray, IntArray]:
    """Return the intervals in which the queue was empty, with those before the first and after the last launch."""
    queue = _queue(trace)
    if len(queue.start_ns) == 0 or len(start_ns) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    is_empty = queue.depth == 0
    begins = np.flatnonzero(is_empty & ~np.concatenate(([False], is_empty[:-1])))
    ends = np.flatnonzero(~is_empty & np.concatenate(([False], is_empty[:-1])))
    begins = begins[: len(ends)]
    last = np.argsort(start_ns, kind="stable")[-1]
    starts = np.concatenate(([start_ns.min(), queue.end_ns[-1]], queue.end_ns[begins]))
    stops = np.concatenate(([queue.start_ns[0], end_ns[last]], queue.start_ns[ends]))
    kept = stops > starts
    return starts[kept], stops[kept]


def _falling_intervals(queue: _Queue) -> tuple[IntArray, IntArray]:
    """Return the intervals in which the queue fell to 0 from a peak of at least ``LEAST_PEAK``, the last first."""
    depth = queue.depth[::-1].tolist()
    start = queue.start_ns[::-1].tolist()
    found: list[tuple[int, int]] = []
    bottom: int | None = None
    peak = -1
    for place, level in enumerate(depth):
        if level > 0:
            if bottom is not None and (peak < 0 or level > depth[peak]):
                peak = place
            continue
        if bottom is not None and peak >= 0 and depth[peak] >= LEAST_PEAK:
            found.append((start[peak], start[bottom]))
            bottom, peak = None, -1  # torch goes on behind this zero
            continue
        bottom, peak = place if bottom is None else bottom, -1
    if bottom is not None and peak >= 0 and depth[peak] >= LEAST_PEAK:
        found.append((start[peak], start[bottom]))
    table = np.array(found, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


@once_per_trace
def ranking_table(trace: Trace) -> Table:
    """Return the events that ran while the queue emptied, those with the most idle and self time first."""
    metrics, chosen = event_metrics(trace), _while_queue_falls(trace)
    idle = metrics.idle_ns[chosen] / np.maximum(metrics.dur_ns[chosen], 1)
    score = _standard(idle) + SELF_WEIGHT * _standard(metrics.self_ns[chosen])
    order = np.argsort(-score, kind="stable")
    ranked = chosen[order]
    row = metrics.row[ranked]
    frame = pl.DataFrame(
        {
            "event": row,
            "name": trace.events["name"].gather(row).cast(pl.String),
            "self_ns": metrics.self_ns[ranked],
            "idle_ns": metrics.idle_ns[ranked],
            "idle_ratio": idle[order],
            "queue_depth": metrics.queue_depth[ranked],
            "score": score[order],
        }
    ).hstack(list(places_of(trace, row).columns()))
    return Table(frame=frame.select(SCHEMA.keys()).cast(SCHEMA), columns=COLUMNS)  # type: ignore[arg-type]


def _while_queue_falls(trace: Trace) -> IntArray:
    """Return which of the events of ``event_metrics`` ran at least in part while the queue fell to 0."""
    row = event_metrics(trace).row
    from_ns, to_ns = _falling_intervals(_queue(trace))
    start, dur = (trace.events[name].to_numpy()[row] for name in ("start_ns", "dur_ns"))
    if len(from_ns) == 0:
        return np.empty(0, np.int64)
    return np.flatnonzero(covered_ns(from_ns, to_ns, start, start + dur) > 0)


def _standard(values: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    """Return how many standard deviations values are above their mean; 0 where all are equal."""
    if len(values) < 2:  # noqa: PLR2004 - one value has no spread
        return np.zeros(len(values))
    spread = values.std(ddof=1)
    return (values - values.mean()) / spread if spread else np.zeros(len(values))
