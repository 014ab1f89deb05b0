"""Which steps count, what the typical step is, and the time that belongs to the steps that count."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.facts.counted_steps import counted_part, counted_steps, step_ns_of, strictly_counted, typical_of
from torchprof_magic.facts.time_range import WHOLE, TimeRange
from torchprof_magic.tables.ops.kernels import kernels_table
from torchprof_magic.tables.ops.op_table import ops_table
from torchprof_magic.tables.waiting.waits import waits_table

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


def steps_of(*us: float, every_us: int = 1000) -> Trace:
    """A recording of steps of some durations, each with an op of half its length and a kernel in its last 10 us."""
    events = []
    for number, length in enumerate(us):
        at = every_us * number
        events += [
            annotation(f"ProfilerStep#{number}", at, length),
            span("aten::mm", at, length / 2),
            launch(at + 1, 2, correlation=number + 1),
            kernel("gemm", at + length - 10, 20, correlation=number + 1),
            span("cudaStreamSynchronize", at + length / 2, 8, cat="cuda_runtime"),
        ]
    return make_trace(*events)


def test_the_typical_step_is_the_mean_of_those_that_are_no_outliers() -> None:
    trace = steps_of(100, 120, 400)
    assert counted_steps(trace).row.tolist() == [0, 1]
    assert counted_steps(trace).outliers.tolist() == [2]
    assert step_ns_of(trace) == 110_000
    assert typical_of([100, 120, 400]) == 110


def test_of_two_steps_neither_is_an_outlier() -> None:
    assert step_ns_of(steps_of(100, 400)) == 250_000


def test_an_interrupted_step_does_not_count_unless_all_are() -> None:
    trace = steps_of(100, 120, 60)
    cut = replace(trace, steps=trace.steps.with_columns(complete=trace.steps["number"] < 2))
    assert counted_steps(cut).row.tolist() == [0, 1]
    none = replace(trace, steps=trace.steps.with_columns(complete=False))
    assert counted_steps(none).row.tolist() == [0, 1, 2]
    assert math.isnan(step_ns_of(none))


def test_the_steps_that_were_chosen_count_whatever_they_are() -> None:
    trace = steps_of(100, 120, 400)
    chosen = replace(trace, meta=replace(trace.meta, chosen_steps=(1, 2)))
    assert counted_steps(chosen).row.tolist() == [1, 2]
    assert step_ns_of(chosen) == 260_000


def test_without_steps_the_recording_counts_as_one() -> None:
    trace = make_trace(span("aten::mm", 0, 10))
    assert (counted_steps(trace).steps, counted_steps(trace).mean_ns) == (1, 10_000)
    assert counted_part(trace) == WHOLE
    assert math.isnan(step_ns_of(trace))


def test_what_runs_after_a_step_belongs_to_it_until_the_next_one_begins() -> None:
    # Each kernel runs 10 us beyond its step. That of the long step is left out with it, to the last ns.
    trace = steps_of(100, 400, 120)
    part = counted_part(trace)
    assert [(start, end) for start, end in part.left_out] == [(1_000_000, 2_000_000)]
    assert kernels_table(trace, part).frame.select("calls", "sum_ns").row(0) == (2, 40_000)
    assert kernels_table(trace).frame.select("calls", "sum_ns").row(0) == (3, 60_000)
    mm = ops_table(trace, part).frame.row(0, named=True)
    assert (mm["name"], mm["calls"], mm["total_cpu_ns"], mm["self_device_ns"]) == ("aten::mm", 2, 110_000, 40_000)
    assert waits_table(trace, part).frame["total_ns"].sum() == 16_000


def test_nothing_is_cut_where_all_steps_count() -> None:
    assert counted_part(steps_of(100, 120)) == WHOLE


def test_the_time_of_the_steps_alone_ends_with_each() -> None:
    assert strictly_counted(steps_of(100, 400, 120)) == TimeRange(0, 2_120_000, ((100_000, 2_000_000),))


@pytest.mark.parametrize(
    ("start", "dur", "cut", "touches"),
    [
        (0, 5, (0, 5), True),
        (5, 10, (5, 5), True),  # until 15, of which 10 to 15 is left out
        (8, 24, (8, 10), True),  # 8 to 10, 20 to 28
        (12, 3, (10, 0), False),
        (15, 10, (10, 5), True),
        (20, 0, (10, 0), True),
        (10, 0, (10, 0), False),
        (28, 10, (18, 0), False),
    ],
)
def test_the_clock_of_a_part_stands_still_in_what_is_left_out(
    start: int, dur: int, cut: tuple[int, int], *, touches: bool
) -> None:
    part = TimeRange(WHOLE.start_ns, WHOLE.end_ns, ((10, 20), (28, 40)))
    starts, durs = np.array([start]), np.array([dur])
    assert tuple(int(each[0]) for each in part.cut(starts, durs)) == cut
    assert bool(part.touches(starts, durs)[0]) == touches
    assert bool(part.holds(starts)[0]) == (not (10 <= start < 20 or 28 <= start < 40))
