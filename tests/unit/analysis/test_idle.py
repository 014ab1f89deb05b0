from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from support import Event, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.analysis.idle import gaps_of, idle_pieces, idle_table
from torchprof_magic.analysis.steps import device_intervals
from torchprof_magic.analysis.window import windows_of
from torchprof_magic.model.intervals import covered_ns

STEP = annotation("ProfilerStep#3", 0, 100)


def runtime(name: str, start_us: float, dur_us: float, **args: Any) -> Event:
    return span(name, start_us, dur_us, cat="cuda_runtime", **args)


def idle(*events: Event) -> dict[tuple[str, str], int]:
    """Idle time in us by cause and detail."""
    frame = idle_table(make_trace(STEP, *events)).frame
    sums = frame.group_by("cause", "detail").agg(pl.col("idle_ns").sum())
    return {(cause, detail): ns // 1000 for cause, detail, ns in sums.rows()}


BEFORE = (launch(0, 1, correlation=1), kernel("first", 0, 10, correlation=1))
AFTER = (launch(60, 2, correlation=2), kernel("last", 65, 35, correlation=2))
# The device idles 10..65: the call 60..62, its latency 62..65, and before that whatever the host does.
REST = {("op dispatch", "launch call"): 2, ("queued", "launch latency"): 3}


def test_until_the_next_launch_the_state_of_the_host_counts() -> None:
    assert idle(*BEFORE, span("aten::mm", 12, 30), *AFTER) == {
        ("op dispatch", "op dispatch"): 30,
        ("python", "python or other"): 20,
        **REST,
    }


@pytest.mark.parametrize(
    ("event", "cause", "detail"),
    [
        (span("enumerate(DataLoader)#x", 10, 50), "data", "data"),
        (runtime("cudaStreamSynchronize", 10, 50), "waiting", "blocked"),
        (runtime("cudaMemcpyAsync", 8.9, 51.1), "waiting", "blocked"),
        (runtime("cudaMalloc", 10, 50), "allocation", "blocked"),
        (runtime("cuModuleLoad", 10, 50), "initialisation", "blocked"),
        (annotation("CUDAGraphNode.record (dynamo_timed)", 10, 50), "compile", "compile"),
        (frame("torch/_dynamo/convert_frame.py(5): compile", 10, 50), "compile", "compile"),
        (annotation("gloo:all_reduce", 10, 50), "communication", "host communication"),
        (runtime("cudaEventQuery", 10, 50), "op dispatch", "runtime call"),
        (frame("torch/profiler/profiler.py(5): step", 10, 50), "profiler", "profiler"),
        (annotation("tokenize", 10, 50), "python", "python or other"),
    ],
)
def test_each_state_of_the_host_has_its_cause(event: Event, cause: str, detail: str) -> None:
    found = idle(*BEFORE, event, *AFTER)
    assert found == {(cause, detail): 50, **REST}


def test_a_row_names_what_the_host_was_in_and_the_outermost_of_nested_ops() -> None:
    trace = make_trace(STEP, *BEFORE, span("aten::linear", 10, 50), span("aten::addmm", 20, 30), *AFTER)
    rows = idle_table(trace).frame.filter(cause="op dispatch", detail="op dispatch").select("step", "name", "idle_ns")
    assert rows.rows() == [(3, "aten::linear", 50_000)]


def test_work_that_was_launched_before_the_gap_was_queued() -> None:
    early = (launch(2, 1, correlation=2), kernel("last", 65, 35, correlation=2))
    assert idle(*BEFORE, *early) == {("queued", "queued, not started"): 55}
    near = (launch(2, 1, correlation=2), kernel("last", 19.999, 80.001, correlation=2))
    assert idle(*BEFORE, *near) == {("queued", "queued, short gap"): 9}


def test_a_gap_between_kernels_of_one_graph_is_inside_the_graph() -> None:
    graph = (
        runtime("cudaGraphLaunch", 0, 5, correlation=1),
        kernel("a", 5, 20, correlation=1),
        kernel("b", 60, 40, correlation=1),
    )
    assert idle(span("aten::mm", 0, 5), *graph) == {
        ("op dispatch", "launch call"): 5,
        ("queued", "inside a graph"): 35,
    }


def test_work_whose_launch_is_not_in_the_file_is_unknown() -> None:
    assert idle(*BEFORE, kernel("stray", 40, 60, correlation=77)) == {("unknown", "not recorded"): 30}


def test_a_launch_that_blocks_is_waiting_and_not_a_launch() -> None:
    slow = (launch(20, 150, correlation=2), kernel("last", 180, 20, correlation=2))
    trace = make_trace(annotation("ProfilerStep#0", 0, 200), *BEFORE, *slow)
    sums = dict(idle_table(trace).frame.group_by("cause").agg(pl.col("idle_ns").sum()).rows())
    assert sums == {"python": 10_000, "waiting": 150_000, "queued": 10_000}


def test_another_thread_decides_where_the_launching_thread_does_nothing_that_counts() -> None:
    backward = span("autograd::engine::evaluate_function: X", 20, 30, tid=2)
    assert idle(*BEFORE, backward, *AFTER) == {
        ("op dispatch", "op dispatch"): 30,
        ("python", "python or other"): 20,
        **REST,
    }


def test_a_gap_at_the_end_is_the_hosts_and_each_device_has_its_own() -> None:
    trace = make_trace(
        STEP,
        span("aten::mm", 0, 90),
        launch(0, 1, correlation=1),
        kernel("a", 1, 49, correlation=1),
        kernel("b", 0, 100, correlation=5, device=3),
    )
    rows = idle_table(trace).frame.select("device", "cause", "start_ns", "idle_ns").rows()
    assert rows == [
        (0, "op dispatch", 0, 1_000),
        (0, "op dispatch", 50_000, 40_000),
        (0, "python", 90_000, 10_000),
    ]


def random_events(seed: int) -> list[Event]:
    rng = np.random.default_rng(seed)
    events: list[Event] = [STEP]
    for number in range(25):
        start, dur = int(rng.integers(0, 95)), int(rng.integers(0, 20))
        kind = int(rng.integers(0, 6))
        tid = int(rng.integers(1, 4))
        if kind == 0:
            events.append(span(f"op {number}", start, dur, tid=tid))
        elif kind == 1:
            events.append(frame(f"train.py({number}): f", start, dur, tid=tid))
        elif kind == 2:
            events.append(runtime("cudaStreamSynchronize", start, dur, tid=tid))
        else:
            delay = int(rng.integers(-2, 30))
            correlation = number if rng.random() < 0.8 else 1000
            events.append(launch(start, int(rng.integers(0, 4)), correlation=number, tid=tid))
            device = int(rng.integers(0, 2))
            events.append(kernel("k", max(start + delay, 0), dur, correlation=correlation, device=device))
    return events


@pytest.mark.parametrize("seed", range(80))
def test_the_pieces_of_any_trace_fill_its_idle_time_exactly(seed: int) -> None:
    trace = make_trace(*random_events(seed))
    windows, pieces, frame = windows_of(trace), idle_pieces(trace), idle_table(trace).frame
    for device, start, end in device_intervals(trace):
        idle_ns = windows.whole_ns - int(covered_ns(start, end, windows.start_ns, windows.end_ns).sum())
        here = np.flatnonzero(pieces.device == device)
        assert int((pieces.end_ns - pieces.start_ns)[here].sum()) == idle_ns
        assert frame.filter(pl.col("device") == device)["idle_ns"].sum() == idle_ns
        order = here[np.argsort(pieces.start_ns[here])]
        assert (pieces.start_ns[order][1:] >= pieces.end_ns[order][:-1]).all()
    gap_start = np.concatenate([gaps.start_ns for gaps in gaps_of(trace)])
    gap_end = np.concatenate([gaps.end_ns for gaps in gaps_of(trace)])
    assert (pieces.start_ns >= gap_start[pieces.gap]).all()
    assert (pieces.end_ns <= gap_end[pieces.gap]).all()
