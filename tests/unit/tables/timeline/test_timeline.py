"""The slices of the timeline."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from amount import sampled
from support import Event, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.facts.device.busy import device_intervals
from torchprof_magic.facts.device.idle_pieces import CAUSE_TITLES
from torchprof_magic.model.intervals import union_ns
from torchprof_magic.model.meta import CellSource
from torchprof_magic.model.shapes import Slices
from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA, Trace
from torchprof_magic.tables.steps import steps_table
from torchprof_magic.tables.timeline import slices as timeline
from torchprof_magic.tables.timeline.slices import timeline_slices
from torchprof_magic.tables.waiting.idle import idle_table
from torchprof_magic.tables.waiting.queue import queue_series

NODE = {"Sequence number": 1, "Fwd thread id": 1}


def call(name: str, start_us: float, dur_us: float, tid: int = 1) -> Event:
    return span(name, start_us, dur_us, cat="cuda_runtime", tid=tid)


def device_range(name: str, start_us: float, dur_us: float, **args: Any) -> Event:
    place = {"device": 0, "stream": 7}
    return span(name, start_us, dur_us, cat="gpu_user_annotation", **place, **args) | {"pid": 0, "tid": 7}


def thread_name(tid: int, name: str) -> Event:
    return {"ph": "M", "name": "thread_name", "pid": 7, "tid": tid, "args": {"name": name}}


def lanes(slices: Slices) -> list[tuple[str, str]]:
    return [(lane.title, lane.kind) for lane in slices.lanes]


def rows(slices: Slices, *columns: str, **where: str | int) -> list[tuple[Any, ...]]:
    """Return columns of the slices that are equal in some others; ``on`` is the title of their lane."""
    frame = slices.frame.with_columns(
        pl.Series("on", [slices.lanes[lane].title for lane in slices.frame["lane"]], dtype=pl.String),
        (pl.col("start_ns") / 1000).alias("start_us"),
        (pl.col("dur_ns") / 1000).alias("dur_us"),
        pl.col("name", "kind", "phase", "note").cast(pl.String),
    )
    for column, value in where.items():
        frame = frame.filter(pl.col(column) == value)
    return frame.select(columns).rows()


def name_at(slices: Slices, row: int) -> str:
    return str(slices.frame["name"][row]) if row >= 0 else ""


def linked(slices: Slices, name: str) -> list[tuple[str, str]]:
    """Return what each slice of a name links to: its source and the op around that; not waits, and not the path."""
    links = rows(slices, "kind", "source", "op", name=name)
    return [
        (name_at(slices, source), name_at(slices, op)) for kind, source, op in links if kind not in ("idle", "path")
    ]


EVERYTHING = (
    annotation("ProfilerStep#3", 0, 100),
    span("aten::mm", 10, 20),
    launch(12, 2, correlation=1),
    kernel("gemm", 20, 30, correlation=1),
    kernel("other", 130, 5, correlation=3, stream=8, device=1),
    device_range("my range", 20, 30),
    # More is done in ops of this thread.
    span("MmBackward0", 105, 120, tid=2),
    launch(115, 2, correlation=2, tid=2),
    kernel("gemm", 120, 25, correlation=2, stream=9),
    # Of this one there are only calls.
    call("cudaStreamSynchronize", 50, 1, tid=3),
)


def test_the_lanes_are_the_steps_the_threads_and_their_calls_and_the_devices_and_their_streams() -> None:
    slices = timeline_slices(make_trace(*EVERYTHING))
    assert [(lane.title, lane.kind, lane.group) for lane in slices.lanes] == [
        ("Steps", "steps", ""),
        ("thread 2", "thread", "thread 2"),
        ("calls", "calls", "thread 2"),
        ("thread 1", "thread", "thread 1"),
        ("calls", "calls", "thread 1"),
        ("thread 3", "thread", "thread 3"),
        ("calls", "calls", "thread 3"),
        ("Device 0", "waits", "Device 0"),
        ("annotations", "annotations", "Device 0"),
        ("stream 7", "stream", "Device 0"),
        ("stream 9", "stream", "Device 0"),
        ("queue", "queue", "Device 0"),
        ("Device 1", "waits", "Device 1"),
        ("stream 8", "stream", "Device 1"),
    ]
    assert rows(slices, "name", "start_us", "dur_us", kind="kernel") == [
        ("gemm", 20, 30),
        ("gemm", 120, 25),
        ("other", 130, 5),
    ]
    assert rows(slices, "on", "name", "depth", start_us=20, dur_us=30, kind="annotation") == [
        ("annotations", "my range", 0)
    ]


def test_slices_are_sorted_by_lane_and_start() -> None:
    frame = timeline_slices(make_trace(*EVERYTHING)).frame
    order = frame.select("lane", "start_ns").rows()
    assert order == sorted(order)
    assert len(order) == frame.height > len(EVERYTHING)


def test_threads_are_called_by_their_names_without_numbers_where_these_tell_them_apart() -> None:
    trace = make_trace(
        *(span("op", 0, 10 - tid, tid=tid) for tid in (1, 2, 3)),
        *(thread_name(tid, f"thread {tid} ({name})") for tid, name in ((1, "python"), (2, "loader"), (3, "loader"))),
    )
    titles = [title for title, kind in lanes(timeline_slices(trace)) if kind == "thread"]
    assert titles == ["python", "thread 2 (loader)", "thread 3 (loader)"]


def test_lanes_beyond_their_number_are_left_out_with_all_that_is_on_them(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100, tid=9),
        *(span("op", 0, 50 + tid, tid=tid) for tid in range(9)),
        *(launch(1, 1, correlation=tid, tid=tid) for tid in range(9)),
        *(kernel("k", 10, 5, correlation=stream, stream=stream) for stream in range(9)),
        *(kernel("k", 10, 5, correlation=9, device=device) for device in range(1, 30)),
    )
    monkeypatch.setattr(timeline, "MAX_LANES", 16)
    slices = timeline_slices(trace)
    # A quarter of the lanes are threads with the most time, and there are no more lanes than can be numbered.
    assert [title for title, kind in lanes(slices) if kind == "thread"] == [
        "thread 9",
        *(f"thread {tid}" for tid in (8, 7, 6)),
    ]
    assert len(slices.lanes) <= 16
    assert rows(slices, "name", on="Steps", kind="op") == []
    on = Counter(title for (title,) in rows(slices, "on"))
    assert on["thread 8"] == on["stream 0"] == on["stream 4"] == 1
    assert on["stream 5"] == 0
    assert on["Steps"] == 1 + len(rows(slices, "name", kind="phase"))
    assert slices.frame["lane"].max() == len(slices.lanes) - 1


# Of 256 us, so that each of the parts that steps are drawn in is one of 1 us.
STEP = annotation("ProfilerStep#7", 0, 256)


def test_below_a_step_are_the_phases_that_it_is_made_of() -> None:
    backward = "autograd::engine::evaluate_function: MmBackward0"
    trace = make_trace(STEP, span("aten::mm", 10, 20), call("cudaStreamSynchronize", 40, 15), span(backward, 60, 100))
    slices = timeline_slices(trace)
    assert rows(slices, "name", "start_us", "dur_us", "depth", "count", kind="step") == [("Step 7", 0, 256, 0, 7)]
    assert rows(slices, "name", "phase", "start_us", "dur_us", "depth", kind="phase") == [
        ("python", "python", 0, 10, 1),
        ("forward", "forward", 10, 20, 1),
        ("python", "python", 30, 10, 1),
        ("waiting", "waiting", 40, 15, 1),
        ("python", "python", 55, 5, 1),
        ("backward", "backward", 60, 100, 1),
        ("python", "python", 160, 96, 1),
    ]


def test_a_part_of_a_step_has_the_phase_of_most_of_it() -> None:
    trace = make_trace(STEP, span("aten::mm", 10, 0.4), span("aten::mm", 20.25, 1.5), span("aten::mm", 30.375, 0.625))
    slices = timeline_slices(trace)
    # 0.4 us of an op, 0.75 us of the next in each of two parts, and 0.625 us of the last.
    assert rows(slices, "start_us", "dur_us", kind="phase", name="forward") == [(20, 2), (30, 1)]


@pytest.mark.parametrize("seed", sampled(range(30)))
def test_the_phases_of_a_step_follow_each_other_and_add_up_to_it(seed: int) -> None:
    chance = np.random.default_rng(seed)
    lengths_us = [int(ns) / 1000 for ns in chance.choice([1, 7, 300, 5_000, 999_999], 6)]
    starts_us = np.concatenate(([0], np.cumsum(lengths_us)))
    ops = [
        span("aten::mm" if chance.random() < 0.5 else "MmBackward0", start, int(chance.integers(1, 90_000)) / 1000)
        for start in chance.integers(0, int(starts_us[-1] * 1000) + 1, 40) / 1000
    ]
    steps = [annotation(f"ProfilerStep#{at}", starts_us[at], length) for at, length in enumerate(lengths_us)]
    trace = make_trace(*steps, *ops)
    phases = timeline_slices(trace).frame.filter(pl.col("kind") == "phase").select("start_ns", "dur_ns", "phase")
    assert (phases["dur_ns"] > 0).all()
    for start, end in trace.steps.select("start_ns", "end_ns").rows():
        inside = phases.filter((pl.col("start_ns") >= start) & (pl.col("start_ns") < end))
        ends = (inside["start_ns"] + inside["dur_ns"]).to_list()
        assert [start, *ends] == [*inside["start_ns"], end]
        assert (inside["phase"][1:] != inside["phase"][:-1]).all()
    # Drawn in parts, every phase is about as long as it is in the table of steps: half a part is lost at each edge.
    table, edges = steps_table(trace).frame, 2 * (len(ops) + len(steps))
    for name in ("forward", "backward", "python"):
        drawn = int(phases.filter(pl.col("phase") == name)["dur_ns"].sum())
        assert abs(drawn - int(table[f"{name}_ns"].sum())) <= max(table["dur_ns"]) / timeline.STEP_PARTS / 2 * edges


LINE = {"kind": "line", "parent": -1, "name": "    loss = model(x)", "file": "cell", "line": 2}
MODULE = {"kind": "module", "parent": -1, "name": "", "class_name": "Net"}


def watched(*events: Event, scopes: tuple[tuple[int, float, float], ...]) -> Trace:
    """A trace in which a line (0) and a module (1) are watched; scopes have a start and a duration in us."""
    trace = make_trace(*events)
    spans = [(site, 0, int(start * 1000), int(dur * 1000), 0) for site, start, dur in scopes]
    return replace(
        trace,
        sites=pl.DataFrame([LINE, MODULE], schema=SITES_SCHEMA),
        scopes=pl.DataFrame(spans, schema=SCOPES_SCHEMA, orient="row"),
        meta=replace(trace.meta, cell=CellSource(filename="cell", label="In [1]", source="")),
    )


def test_each_layer_nests_what_it_shows_and_hides_the_rest() -> None:
    trace = watched(
        STEP,
        frame("train.py(1): main", 5, 200),
        span("aten::linear", 20, 50),
        frame("torch/functional.py(9): linear", 21, 40),
        span("aten::mm", 30, 20),
        scopes=((0, 10, 100), (1, 15, 60)),
    )
    slices = timeline_slices(trace)
    assert [layer.title for layer in slices.layers] == ["Ops", "Lines, modules", "Python"]
    columns = [layer.column for layer in slices.layers]
    assert rows(slices, "name", "kind", *columns, on="thread 1") == [
        ("ProfilerStep", "annotation", 0, 0, 0),
        ("train.py(1): main", "python", -1, -1, 1),
        ("line 2: loss = model(x)", "line", -1, 1, 2),
        ("Net", "module", -1, 2, 3),
        ("aten::linear", "op", 1, 3, 4),
        ("torch/functional.py(9): linear", "python", -1, -1, 5),
        ("aten::mm", "op", 2, 4, 6),
    ]
    # What is on no thread is at the same place in all of them.
    assert {row for row in rows(slices, *columns, on="Steps") if len(set(row)) > 1} == set()


@pytest.mark.parametrize(
    ("events", "titles"),
    [
        ([span("aten::mm", 0, 1)], ["Ops"]),
        ([span("aten::mm", 0, 1), frame("a.py(1): f", 0, 5)], ["Ops", "Python"]),
    ],
)
def test_a_recording_has_layers_for_what_is_in_it(events: list[Event], titles: list[str]) -> None:
    assert [layer.title for layer in timeline_slices(make_trace(*events)).layers] == titles


def test_calls_that_hold_the_host_are_marked() -> None:
    slices = timeline_slices(
        make_trace(
            launch(0, 1, correlation=1),
            call("cudaStreamSynchronize", 5, 2),
            call("cudaMemcpyAsync", 10, 20),
            call("cudaMemcpyAsync", 40, 60),
            call("cudaMalloc", 120, 1),
            call("cudaGetDevice", 130, 1),
            span("cudaStreamSynchronize", 140, 5),  # an op of this name is none
        )
    )
    assert rows(slices, "name", "start_us", on="calls", kind="blocking") == [
        ("cudaStreamSynchronize", 5),
        ("cudaMemcpyAsync", 40),
        ("cudaMalloc", 120),
    ]
    assert len(rows(slices, "name", on="calls", kind="runtime")) == 3
    assert rows(slices, "kind", start_us=140) == [("op",)]


def check_waits(slices: Slices, trace: Trace, device: int) -> None:
    """Assert that the waits of a device are those of ``report.idle``, and that it is busy in between."""
    start, end = next(times for number, *times in device_intervals(trace) if number == device)
    title = f"Device {device}"
    busy = rows(slices, "start_ns", "dur_ns", on=title, kind="busy")
    assert sum(dur for _, dur in busy) == union_ns(start, end)
    covered = {ns for at, dur in busy for ns in (at, at + dur)}
    assert covered <= set(start.tolist()) | set(end.tolist())
    both = rows(slices, "start_ns", "dur_ns", "kind", "name", "note", on=title)
    for (start_ns, dur_ns, *before), (next_ns, _, *after) in zip(both, both[1:], strict=False):
        assert start_ns + dur_ns <= next_ns
        assert start_ns + dur_ns < next_ns or before != after
    idle = idle_table(trace).frame.filter(pl.col("device") == device)
    sums: Counter[str] = Counter()
    for note, dur_ns in rows(slices, "note", "dur_ns", on=title, kind="idle"):
        sums[note.partition("\t")[0]] += dur_ns
    by_cause = idle.group_by("cause").agg(pl.col("idle_ns").sum()).rows()
    assert sums == {CAUSE_TITLES[cause]: ns for cause, ns in by_cause}


def test_a_device_shows_when_it_was_busy_and_why_it_waited() -> None:
    trace = make_trace(
        STEP,
        frame("train.py(1): main", 0, 256),
        launch(0, 1, correlation=1),
        kernel("a", 10, 30, correlation=1),
        kernel("b", 20, 40, correlation=1, stream=8),
        span("aten::mm", 70, 50),
        launch(100, 2, correlation=2),
        kernel("c", 110, 90, correlation=2),
        kernel("other", 0, 250, correlation=9, device=1),
    )
    slices = timeline_slices(trace)
    assert rows(slices, "start_us", "dur_us", "depth", on="Device 0", kind="busy") == [(10, 50, 1), (110, 90, 1)]
    assert rows(slices, "name", "note", "start_us", "dur_us", "depth", "phase", on="Device 0", kind="idle") == [
        ("cudaLaunchKernel", "op dispatch\ttrain.py:1", 0, 1, 0, "idle"),
        ("train.py(1): main", "launch latency\ttrain.py:1", 1, 9, 0, "idle"),
        ("train.py(1): main", "Python between ops\ttrain.py:1", 60, 10, 0, "idle"),
        ("aten::mm", "op dispatch\ttrain.py:1", 70, 32, 0, "idle"),
        ("aten::mm", "launch latency\ttrain.py:1", 102, 8, 0, "idle"),
        ("train.py(1): main", "Python between ops\ttrain.py:1", 200, 56, 0, "idle"),
    ]
    assert rows(slices, "start_us", "dur_us", on="Device 1", kind="busy") == [(0, 250)]
    check_waits(slices, trace, 0)
    check_waits(slices, trace, 1)


def test_the_queue_shows_how_many_launches_had_not_begun() -> None:
    trace = make_trace(
        launch(0, 1, correlation=1),
        launch(10, 1, correlation=2),
        kernel("a", 5, 20, correlation=1),
        kernel("b", 25, 5, correlation=2),
        kernel("b", 30, 40, correlation=2),
    )
    assert rows(timeline_slices(trace), "start_us", "dur_us", "count", "name", on="queue") == [
        (0, 5, 1, "waiting to run"),
        (10, 15, 2, "waiting to run"),
        (25, 5, 1, "waiting to run"),
    ]


def test_a_kernel_links_to_its_launch_and_the_op_around_that_even_below_python_frames() -> None:
    slices = timeline_slices(
        make_trace(
            STEP,
            span("aten::linear", 10, 50),
            span("aten::mm", 12, 40),
            frame("torch/a.py(1): inner", 14, 30),
            frame("torch/b.py(2): innermost", 15, 20),
            launch(16, 2, correlation=1),
            kernel("gemm", 60, 30, correlation=1),
            frame("train.py(1): main", 70, 50),
            launch(80, 2, correlation=2),
            kernel("in no op", 100, 30, correlation=2),
            kernel("unknown", 140, 30, correlation=77),
            with_stack=1,
        )
    )
    assert linked(slices, "gemm") == [("cudaLaunchKernel", "aten::mm")]
    # Around the second launch there is only the step.
    assert linked(slices, "in no op") == [("cudaLaunchKernel", "ProfilerStep")]
    assert linked(slices, "unknown") == [("", "")]
    assert linked(slices, "cudaLaunchKernel") == [("", "aten::mm"), ("", "ProfilerStep")]
    at = rows(slices, "source", name="in no op")[0][0]
    assert slices.frame["start_ns"][at] == 80_000
    assert linked(slices, "aten::mm") == [("", "")]


def test_lines_and_modules_are_no_ops_around_a_launch() -> None:
    trace = watched(
        span("aten::mm", 12, 40),
        launch(16, 2, correlation=1),
        kernel("gemm", 60, 30, correlation=1),
        launch(75, 2, correlation=2),
        kernel("graph", 100, 30, correlation=2),
        scopes=((0, 10, 100), (1, 11, 80), (1, 14, 10)),
    )
    slices = timeline_slices(trace)
    assert linked(slices, "gemm") == [("cudaLaunchKernel", "aten::mm")]
    assert linked(slices, "graph") == [("cudaLaunchKernel", "")]


def test_an_op_of_backward_links_to_the_op_of_forward_that_made_it() -> None:
    slices = timeline_slices(
        make_trace(
            span("aten::mm", 0, 10, **{"Sequence number": 1}),
            span("aten::mm", 10, 10),
            span("MmBackward0", 40, 20, tid=2, **NODE),
            launch(45, 2, correlation=1, tid=2),
            kernel("gemm", 60, 30, correlation=1),
        )
    )
    assert linked(slices, "MmBackward0") == [("aten::mm", "")]
    assert rows(slices, "start_us", name="aten::mm")[0] == (0,)
    assert slices.frame["start_ns"][rows(slices, "source", name="MmBackward0", kind="op")[0][0]] == 0
    assert linked(slices, "gemm") == [("cudaLaunchKernel", "MmBackward0")]
    assert rows(slices, "phase", name="gemm", kind="kernel") == [("backward",)]


def test_a_range_on_a_device_has_the_phase_of_its_range_on_the_host() -> None:
    host = span("backward", 0, 30, cat="user_annotation", **{"External id": 5})
    slices = timeline_slices(
        make_trace(
            host,
            launch(1, 1, correlation=1),
            kernel("k", 40, 9, 1),
            device_range("backward", 40, 9, **{"External id": 5}),
        )
    )
    assert rows(slices, "on", "phase", "depth", name="backward", kind="annotation") == [
        ("thread 1", "backward", 0),
        ("annotations", "backward", 0),
    ]


def test_recorded_details_are_beside_the_slices() -> None:
    stack = [frame(f"a.py({at}): f{at}", at, 100 - 2 * at) for at in range(20)]
    copy = [
        span("cudaMemcpyAsync", 30, 5, cat="cuda_runtime", correlation=9),
        span("Memcpy HtoD", 110, 4, cat="gpu_memcpy", correlation=9, device=0, stream=7, bytes=8_000)
        | {"pid": 0, "tid": 7},
    ]
    op = span("aten::mm", 25, 40, **{"Input Dims": [[2, 3], []], "Input type": ["float", "Scalar"]})
    slices = timeline_slices(make_trace(*stack, op, span("aten::t", 26, 2), *copy, with_stack=1))
    assert [column.name for column in slices.columns] == ["shapes", "dtypes", "bandwidth", "stack"]
    assert rows(slices, "shapes", "dtypes", name="aten::mm", kind="op") == [("[[2, 3], []]", '["float", "Scalar"]')]
    assert rows(slices, "shapes", "dtypes", "bandwidth", name="aten::t", kind="op") == [(None, None, None)]
    # 8,000 B in 4 us.
    assert rows(slices, "bandwidth", "note", "shapes", kind="memcpy") == [("2 GB/s", "7.81 KiB", None)]
    # The copy has the stack of the call that launched it; only the innermost of 20 frames are kept.
    innermost = "\n".join(f"f{at} a.py:{at}" for at in range(19, 3, -1))
    assert rows(slices, "stack", name="aten::mm", kind="op") == rows(slices, "stack", kind="memcpy") == [(innermost,)]
    assert len(innermost.split("\n")) == timeline.STACK_FRAMES
    assert rows(slices, "stack", name="a.py(1): f1", kind="python") == [("f1 a.py:1\nf0 a.py:0",)]


def test_details_that_were_not_recorded_have_no_column() -> None:
    assert timeline_slices(make_trace(*EVERYTHING)).columns == ()


def test_a_recording_without_events_has_no_slices() -> None:
    slices = timeline_slices(make_trace())
    assert (slices.frame.height, slices.lanes, [layer.title for layer in slices.layers]) == (0, (), ["Ops"])
    assert set(timeline_slices(make_trace(span("op", 0, 1))).frame.columns) == set(slices.frame.columns)


def test_a_recording_of_the_host_alone_has_no_devices() -> None:
    slices = timeline_slices(make_trace(STEP, span("aten::mm", 10, 20)))
    assert lanes(slices) == [("Steps", "steps"), ("thread 1", "thread")]
    assert rows(slices, "name", "dur_us", on="thread 1") == [("ProfilerStep", 256), ("aten::mm", 20)]
    assert slices.frame["source"].to_list() == slices.frame["op"].to_list() == [-1] * slices.frame.height


def test_a_recording_of_a_device_alone_has_no_threads() -> None:
    slices = timeline_slices(make_trace(kernel("k", 0, 20, correlation=1)))
    assert lanes(slices) == [("Device 0", "waits"), ("stream 7", "stream"), ("queue", "queue")]
    assert rows(slices, "name", "start_us", "dur_us", kind="kernel") == [("k", 0, 20)]


def test_events_that_outlive_the_one_around_them_are_beside_it() -> None:
    slices = timeline_slices(
        make_trace(
            annotation("outer", 0, 100),
            annotation("late", 50, 100),
            span("in both", 60, 10),
            span("in late", 120, 10),
            kernel("a", 0, 50, correlation=1),
            kernel("b", 30, 50, correlation=2),
            kernel("in b", 40, 10, correlation=3),
        )
    )
    assert rows(slices, "name", "depth", on="thread 1") == [("outer", 0), ("late", 0), ("in both", 1), ("in late", 1)]
    assert rows(slices, "name", "depth", on="stream 7") == [("a", 0), ("b", 0), ("in b", 1)]
    assert rows(slices, "start_us", "dur_us", kind="busy") == [(0, 80)]


def depths_by_hand(spans: list[tuple[int, int]]) -> list[int]:
    """Return how many of the spans that are still open hold each one; one that outlives them closes them."""
    open_ends: list[int] = []
    found = []
    for start, end in spans:
        while open_ends and (start >= open_ends[-1] or end > open_ends[-1]):
            open_ends.pop()
        found.append(len(open_ends))
        open_ends.append(end)
    return found


SHOWN = {"depth": {"op", "annotation"}, "depth_python": {"op", "annotation", "python"}}
MADE = (
    ("aten::mm", "cpu_op", "op"),
    ("my range", "user_annotation", "annotation"),
    ("mine.py(1): f", "python_function", "python"),
    ("cudaLaunchKernel", "cuda_runtime", ""),
    ("cudaStreamSynchronize", "cuda_runtime", ""),
)


def random_events(seed: int) -> list[Event]:
    chance = np.random.default_rng(seed)
    events = [frame("mine.py(9): main", 0, 1, tid=tid) for tid in (1, 2, 3)]
    events += [span("aten::add", 0, 1, tid=tid) for tid in (1, 2, 3)]
    for _ in range(int(chance.integers(1, 80))):
        name, category, _ = MADE[int(chance.integers(len(MADE)))]
        tid, correlation = int(chance.integers(1, 4)), int(chance.integers(30))
        start, dur = (int(each) for each in chance.integers(1, 200, 2))
        events.append(span(name, start, dur, category, tid, correlation=correlation))
    for _ in range(int(chance.integers(20))):
        device, stream, correlation = (int(each) for each in chance.integers((2, 3, 30)))
        start, dur = (int(each) for each in chance.integers(1, 200, 2))
        events.append(kernel("k", start, dur, correlation, stream=stream, device=device))
    return events


@pytest.mark.parametrize("seed", sampled(range(60)))
def test_the_time_on_every_lane_and_depth_is_that_of_its_events(seed: int) -> None:
    events = random_events(seed)
    trace = make_trace(*events)
    slices = timeline_slices(trace)
    for column, kinds in SHOWN.items():
        expected: Counter[tuple[str, int]] = Counter()
        for tid in (1, 2, 3):
            kind_of = {category: kind for _, category, kind in MADE}
            mine = [each for each in events if each["tid"] == tid and kind_of.get(each["cat"]) in kinds]
            spans = sorted(((each["ts"], each["ts"] + each["dur"]) for each in mine), key=lambda at: (at[0], -at[1]))
            for depth, (start, end) in zip(depths_by_hand(spans), spans, strict=True):
                expected[f"thread {tid}", depth] += end - start
        found: Counter[tuple[str, int]] = Counter()
        for on, depth, kind, dur_us in rows(slices, "on", column, "kind", "dur_us"):
            if on.startswith("thread") and depth >= 0:
                assert kind in kinds
                found[on, depth] += dur_us
        assert found == expected
    on_streams = sum(each["dur"] for each in events if each["cat"] == "kernel")
    assert sum(dur for (dur,) in rows(slices, "dur_us", kind="kernel")) == on_streams
    calls = sum(each["dur"] for each in events if each["cat"] == "cuda_runtime")
    assert sum(dur for (dur,) in rows(slices, "dur_us", on="calls")) == calls


@pytest.mark.parametrize("seed", sampled(range(60)))
def test_the_lanes_of_devices_are_those_of_other_views_in_random_traces(seed: int) -> None:
    trace = make_trace(*random_events(seed))
    slices = timeline_slices(trace)
    for device, *_ in device_intervals(trace):
        check_waits(slices, trace, device)
    queue = queue_series(trace).frame.filter(pl.col("lane") == "all streams")
    times, depths = queue["time_ns"].to_list(), queue["work"].to_list()
    area = sum(depth * (until - at) for at, until, depth in zip(times, times[1:], depths, strict=False))
    assert sum(dur * count for dur, count in rows(slices, "dur_ns", "count", on="queue")) == area


@pytest.mark.parametrize("seed", sampled(range(60)))
def test_links_of_random_traces_lead_to_the_launch_and_the_innermost_op_that_holds_it(seed: int) -> None:
    slices = timeline_slices(make_trace(*random_events(seed)))
    found = slices.frame.to_dicts()
    for row in found:
        if row["kind"] == "path":
            assert row["op"] == -1 or found[row["op"]]["name"] == row["name"]
            continue
        call = found[row["source"]] if row["source"] >= 0 else None
        if row["kind"] == "kernel":
            assert call is None or call["kind"] in ("runtime", "blocking")
        held = call if row["kind"] == "kernel" else row if row["kind"] in ("runtime", "blocking") else None
        if held is None:
            assert row["op"] == -1
            continue
        group = slices.lanes[held["lane"]].group
        around = [
            each["start_ns"]
            for each in found
            if each["kind"] in ("op", "annotation") and slices.lanes[each["lane"]].title == group
            and each["start_ns"] <= held["start_ns"]
            and each["start_ns"] + each["dur_ns"] >= held["start_ns"] + held["dur_ns"]
        ]  # fmt: skip
        assert (found[row["op"]]["start_ns"] if row["op"] >= 0 else None) == max(around, default=None)


def test_the_step_that_is_shown_first_is_the_median_of_those_that_count() -> None:
    # The outlier and the step that is cut off do not count; of 100, 120 and 140 us the second is in the middle.
    durations = (100, 900, 140, 120)
    starts = (0, 1_000, 2_000, 3_000)
    steps = [
        annotation(f"ProfilerStep#{n}", start, dur)
        for n, (start, dur) in enumerate(zip(starts, durations, strict=True))
    ]
    trace = make_trace(*steps, *(span("aten::mm", start, 50) for start in starts))
    assert timeline_slices(trace).typical_step == 3
    assert timeline_slices(make_trace(span("aten::mm", 0, 50))).typical_step is None


def test_whether_devices_wait_is_known_from_the_first_op_on_without_steps_and_else_from_the_first_step() -> None:
    work = kernel("queued before", 0, 90, 1), span("aten::mm", 100, 50)
    assert timeline_slices(make_trace(*work)).waits_from_ns == 100_000
    assert timeline_slices(make_trace(*work, annotation("ProfilerStep#1", 95, 70))).waits_from_ns == 95_000
    assert timeline_slices(make_trace()).waits_from_ns == 0
