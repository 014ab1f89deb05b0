"""The recording's own work around each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.host.lanes_of_steps import lanes_of_steps
from torchprof_magic.facts.shared import in_category, is_named, once_per_trace
from torchprof_magic.model.intervals import IntArray  # noqa: TC001 - a field of a named tuple
from torchprof_magic.model.trace import STEP_PATTERN

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


@once_per_trace
def transitions_ns(trace: Trace) -> IntArray:
    """Return how much of torch's range of each step is not in the step, in ns.

    A live run leaves out what the recording itself does there to end a step and to begin the next; in other traces this
    is 0.
    """
    is_range = is_named(trace, STEP_PATTERN) & in_category(trace, "user_annotation")
    ranges = trace.events.filter(is_range).select(
        "cycle",
        pl.col("name").cast(pl.String).str.extract(STEP_PATTERN).cast(pl.Int32).alias("number"),
        pl.col("dur_ns").alias("range_ns"),
    )
    ranges = ranges.unique(["cycle", "number"], keep="first", maintain_order=True)
    steps = trace.steps.join(ranges, on=["cycle", "number"], how="left", maintain_order="left")
    around = (pl.col("range_ns") - (pl.col("end_ns") - pl.col("start_ns"))).fill_null(0).clip(0)
    return steps.select(around.alias("ns"))["ns"].to_numpy()


class OwnWork(NamedTuple):
    """The recording's own work in steps: intervals on lanes."""

    lane: IntArray
    start_ns: IntArray
    end_ns: IntArray


@once_per_trace
def own_work(trace: Trace) -> OwnWork:
    """Return when the recording itself worked at the begin and the end of the steps, where these hold that."""
    own = {(mark.cycle, mark.number): mark for mark in trace.meta.recorded_steps if mark.lead_ns or mark.tail_ns}
    found: list[tuple[int, int, int]] = []
    if not own:
        return OwnWork(*np.empty((3, 0), np.int64))
    rows = trace.steps.select("cycle", "number", "start_ns", "end_ns").rows()
    for lane, (cycle, number, start, end) in zip(lanes_of_steps(trace).tolist(), rows, strict=True):
        if (mark := own.get((cycle, number))) is not None:
            found += [(lane, start, start + mark.lead_ns), (lane, end - mark.tail_ns, end)]
    return OwnWork(*np.array(found, np.int64).reshape(-1, 3).T)
