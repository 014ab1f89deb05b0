"""Tests of when the thread of the steps sleeps or waits, where no device was recorded."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
from support import annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.model.trace import FRAME_SCHEMAS, Trace
from torchprof_magic.tables.flame.call_tree import flame_tree
from torchprof_magic.tables.timeline.slices import timeline_slices

STEPS = (annotation("ProfilerStep#1", 0, 100), annotation("ProfilerStep#2", 100, 100))


def waited(trace: Trace, *waits: tuple[str, str | None, int | None, int, int]) -> Trace:
    """The trace with waits of its host: kind, call, line of train.py, start and duration in us."""
    rows = [(kind, call, "train.py", line, 0, at * 1000, dur * 1000, 0) for kind, call, line, at, dur in waits]
    return replace(trace, waits=pl.DataFrame(rows, schema=FRAME_SCHEMAS["waits"], orient="row"))


def lane_of_waits(trace: Trace) -> list[tuple[int, int, str]]:
    """Start and duration in us, and name, of the slices in the lane of waits."""
    slices = timeline_slices(trace)
    lanes = [at for at, lane in enumerate(slices.lanes) if lane.kind == "host_waits"]
    rows = slices.frame.filter(pl.col("lane").is_in(lanes))
    times = rows.select(pl.col("start_ns", "dur_ns") // 1000, pl.col("name").cast(pl.String))
    return times.rows()


def test_waits_that_were_seen_are_named_by_their_call_and_line() -> None:
    trace = make_trace(*STEPS, span("aten::mm", 0, 10))
    trace = waited(trace, ("wait", "time.sleep", 7, 20, 30), ("wait", "Queue.get", None, 120, 40))
    assert lane_of_waits(trace) == [(20, 30, "time.sleep · train.py:7"), (120, 40, "Queue.get")]


def test_neighbors_with_one_name_are_one_and_steps_divide_them() -> None:
    waits = [("wait", "time.sleep", 7, at, 20) for at in (40, 60, 80, 100)]
    assert lane_of_waits(waited(make_trace(*STEPS, span("aten::mm", 0, 10)), *waits)) == [
        (40, 60, "time.sleep · train.py:7"),
        (100, 20, "time.sleep · train.py:7"),
    ]


def test_what_seems_to_be_left_of_a_wait_behind_the_op_that_follows_it_is_none() -> None:
    steps = annotation("ProfilerStep#1", 0, 5_000), annotation("ProfilerStep#2", 5_000, 5_000)
    trace = make_trace(*steps, span("aten::item", 4_100, 10))
    # A sleep of 4 ms seems to end 6 us behind the op; the next begins in the last 20 us of the step, and goes on.
    trace = waited(trace, ("wait", "time.sleep", 7, 100, 4_016), ("wait", "time.sleep", 9, 4_980, 4_000))
    assert lane_of_waits(trace) == [
        (100, 4_000, "time.sleep · train.py:7"),
        (4_980, 20, "time.sleep · train.py:9"),
        (5_000, 3_980, "time.sleep · train.py:9"),
    ]


def test_a_wait_that_an_op_divides_is_there_with_both_parts() -> None:
    trace = make_trace(*STEPS, span("aten::item", 50, 10))
    found = lane_of_waits(waited(trace, ("wait", "time.sleep", 7, 20, 45)))
    assert found == [(20, 30, "time.sleep · train.py:7"), (60, 5, "time.sleep · train.py:7")]


def test_a_wait_of_which_nothing_is_known_is_there_too_and_collecting_garbage_is_none() -> None:
    trace = make_trace(*STEPS, span("aten::mm", 0, 10))
    found = waited(trace, ("wait", None, None, 20, 30), ("collection", None, None, 60, 30))
    assert [(start, dur) for start, dur, _ in lane_of_waits(found)] == [(20, 30)]


def test_a_sleep_that_was_recorded_as_a_call_of_python_has_its_name() -> None:
    trace = make_trace(*STEPS, frame("train.py(3): main", 0, 100), frame("<built-in function sleep>", 20, 50))
    assert lane_of_waits(trace) == [(20, 50, "<built-in function sleep>")]


def test_there_is_no_such_lane_without_waits_or_with_a_device_that_has_its_own() -> None:
    assert lane_of_waits(make_trace(*STEPS, span("aten::mm", 0, 10))) == []
    work = launch(2, 2, correlation=1), kernel("k", 10, 5, correlation=1)
    trace = make_trace(*STEPS, span("aten::mm", 0, 10), *work)
    assert lane_of_waits(waited(trace, ("wait", "time.sleep", 7, 20, 30))) == []


def test_a_function_that_sleeps_is_waiting_in_the_flame_graph_and_so_is_what_calls_it() -> None:
    calls = frame("train.py(3): main", 0, 90), frame("log.py(1): log", 10, 70)
    trace = make_trace(*STEPS, *calls, span("aten::mm", 12, 5), frame("log.py(9): pause", 20, 55))
    tree = flame_tree(waited(trace, ("wait", "time.sleep", 9, 21, 54))).frame
    phases = dict(tree.select(pl.col("name", "phase").cast(pl.String)).rows())
    assert {phases[name] for name in phases if name.startswith(("train", "log"))} == {"waiting"}
    assert phases["aten::mm"] == "forward"


def test_a_function_that_blocks_is_waiting_in_the_flame_graph_and_in_the_timeline_but_not_an_op_that_blocks() -> None:
    block = {"cat": "cuda_runtime", "correlation": 7}
    trace = make_trace(
        *STEPS,
        frame("torch/cuda/__init__.py(975): synchronize", 0, 60),
        frame("<built-in function _cuda_synchronize>", 1, 58),
        span("cudaDeviceSynchronize", 2, 56, **block),
        span("aten::item", 62, 30),
        span("cudaStreamSynchronize", 63, 28, **block | {"correlation": 8}),
        kernel("gemm", 0, 90, 1),
    )
    slices = timeline_slices(trace).frame.filter(pl.col("kind").cast(pl.String).is_in(["python", "op"]))
    for frame_of in (flame_tree(trace).frame, slices):
        phases = dict(frame_of.select(pl.col("name", "phase").cast(pl.String)).rows())
        assert {phases[name] for name in phases if "synchronize" in name} == {"waiting"}
        assert phases["aten::item"] == "forward"
