"""What autograd calls of the user's code counts where it is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest
from support import annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.facts.source.forward_of import first_forward_of_events
from torchprof_magic.facts.source.line_times import called_lines, line_times, moved_backward
from torchprof_magic.facts.source.own_lines import forward_by_lines
from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA
from torchprof_magic.tables.source.lines import lines_table
from torchprof_magic.tables.waiting.idle import idle_table

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

NODE = {"Sequence number": 1, "Fwd thread id": 1}
# Line 1 is in backward of the user's function; lines 8 and 9 are those of the loop.
FORWARD_LINE, BACKWARD_LINE = (8, 5, 30), (9, 50, 50)


def with_lines(trace: Trace, *runs: tuple[int, float, float]) -> Trace:
    """The trace with runs of lines, by their numbers, in us on lane 0."""
    numbers = sorted({line for line, _, _ in runs})
    sites = [{"kind": "line", "parent": -1, "name": f"line {at}", "file": "cell", "line": at} for at in numbers]
    rows = [(numbers.index(line), 0, int(start * 1000), int(dur * 1000), 0) for line, start, dur in runs]
    return replace(
        trace,
        sites=pl.DataFrame(sites, schema=SITES_SCHEMA),
        scopes=pl.DataFrame(rows, schema=SCOPES_SCHEMA, orient="row"),
    )


def custom_function() -> Trace:
    """A function of the user: 20 us forward, and a node of 30 us, 20 of them in line 1 with an op of 10."""
    return make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("Slow", 10, 20, **{"Sequence number": 1}),
        span("SlowBackward", 60, 30, **NODE),
        span("aten::mul", 70, 10),
        launch(72, 2, correlation=1),
        kernel("mul", 74, 40, correlation=1),
    )


def times_of(trace: Trace) -> dict[int, tuple[int, int]]:
    frame = line_times(trace, WHOLE).drop_nulls("line")
    return {line: (own, back) for line, own, back in frame.select("line", "own_cpu_ns", "backward_cpu_ns").iter_rows()}


def test_backward_that_the_user_wrote_counts_at_its_lines_and_the_rest_of_the_node_at_the_forward_line() -> None:
    trace = with_lines(custom_function(), FORWARD_LINE, BACKWARD_LINE, (1, 65, 20))
    times = times_of(trace)
    assert times[1] == (0, 20_000)
    assert times[8] == (30_000, 10_000)
    # Of its 50 us, 30 are those of the node.
    assert sum(times[9]) == 20_000
    device = dict(lines_table(trace, WHOLE).frame.select("line", "backward_device_ns").iter_rows())
    assert device == {1: 40_000, 8: 0, 9: 0}


def test_the_line_that_calls_backward_points_to_the_lines_that_autograd_ran_and_to_those_of_the_forward_ops() -> None:
    trace = with_lines(custom_function(), FORWARD_LINE, BACKWARD_LINE, (1, 65, 20))
    moved = moved_backward(trace).select("line", "forward_line", "ns").rows()
    assert moved == [(9, 8, 10_000)]
    assert called_lines(trace, WHOLE).select("line", "called_line", "ns").rows() == [(9, 1, 20_000)]


def test_lines_that_run_before_a_node_begins_leave_it_to_the_forward_line() -> None:
    # The line that calls backward is inside a function of the user, in which the loop's line lies as well.
    trace = with_lines(custom_function(), FORWARD_LINE, BACKWARD_LINE, (1, 55, 40))
    times = times_of(trace)
    assert times[8] == (30_000, 30_000)
    assert (forward_by_lines(trace) == first_forward_of_events(trace)).all()


def test_what_a_checkpoint_computes_again_in_watched_lines_counts_there() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("CheckpointFunction", 10, 20, **{"Sequence number": 1}),
        span("CheckpointFunctionBackward", 55, 40, **NODE),
        span("aten::mm", 60, 10, **{"Sequence number": 7}),
        span("MmBackward0", 75, 15, **{"Sequence number": 7, "Fwd thread id": 1}),
    )
    times = times_of(with_lines(trace, FORWARD_LINE, BACKWARD_LINE, (1, 58, 14)))
    # Of the 40 us of the outer node, it computes again for 14; the node of that op is no line's.
    assert times[1] == (0, 14_000)
    assert times[8] == (30_000, 26_000)


def test_without_watched_lines_it_counts_at_the_users_functions() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        frame("train.py(1): step", 0, 100),
        frame("train.py(20): forward", 9, 22),
        span("Slow", 10, 20, **{"Sequence number": 1}),
        span("SlowBackward", 60, 30, **NODE),
        frame("torch/autograd/function.py(300): apply", 62, 26),
        frame("train.py(30): backward", 65, 20),
        span("aten::mul", 70, 10),
        with_stack=1,
    )
    times = times_of(trace)
    assert times[30] == (0, 20_000)
    assert times[20] == (22_000, 10_000)


def test_a_hook_of_the_user_in_a_node_counts_at_its_line() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("aten::mm", 10, 20, **{"Sequence number": 1}),
        span("autograd::engine::evaluate_function: MmBackward0", 60, 30),
        span("aten::clone", 62, 6),
        span("MmBackward0", 72, 15, **NODE),
    )
    times = times_of(with_lines(trace, FORWARD_LINE, BACKWARD_LINE, (1, 61, 9)))
    assert times[1] == (0, 9_000)
    assert times[8] == (30_000, 21_000)


@pytest.mark.parametrize("tid", [1, 2])
def test_a_device_that_idles_in_it_waits_for_its_line_on_either_thread(tid: int) -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 150),
        frame("train.py(1): step", 0, 150),
        frame("train.py(20): forward", 9, 22),
        span("Slow", 10, 20, **{"Sequence number": 1}),
        launch(12, 2, correlation=1),
        kernel("slow", 14, 6, correlation=1),
        span("SlowBackward", 40, 100, tid=tid, **NODE),
        frame("train.py(30): backward", 45, 90, tid),
        launch(130, 2, tid=tid, correlation=2),
        kernel("last", 132, 5, correlation=2),
        with_stack=1,
    )
    idle = idle_table(trace, WHOLE).frame.filter(pl.col("idle_ns") > 50_000)
    assert idle.select("file", "line").rows() == [("train.py", 30)]
