"""The graph of a step and its critical path, on traces whose paths are worked out by hand, and on real ones."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from amount import sampled
from support import annotation, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.facts.step_graph.graph import step_graph
from torchprof_magic.facts.step_graph.path import critical_path
from torchprof_magic.facts.step_graph.replay import replay
from torchprof_magic.facts.step_graph.spans import spans_of_steps
from torchprof_magic.report.trace_report import Report
from torchprof_magic.tables.timeline.slices import timeline_slices

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.model.trace import Trace

STEP = annotation("ProfilerStep#0", 0, 1_000)


def sync(start_us: float, dur_us: float, name: str = "cudaDeviceSynchronize") -> dict[str, Any]:
    return span(name, start_us, dur_us, cat="cuda_runtime", correlation=900)


def path_of(trace: Trace) -> list[tuple[str, int, int]]:
    """What ran on the path, with its start and duration in µs; of edges their kind."""
    frame = Report(trace).critical_path
    names = frame.select(pl.coalesce("name", "category"), pl.col("start_ns", "dur_ns") // 1_000)
    return [row for row in names.rows() if row[2]]


def replayed_us(trace: Trace, **own_us: float) -> float:
    """How long the only step takes if events of some names take so long."""
    graph = step_graph(trace)
    own = graph.own_ns.copy()
    names = trace.events["name"].cast(pl.String).to_numpy()
    for name, us in own_us.items():
        own[np.isin(graph.pieces.row, np.flatnonzero(names == name))] = round(us * 1_000)
    return float(spans_of_steps(trace).replayed_ns(replay(graph, own))[0]) / 1_000


# A step whose host launches two kernels, and waits for the device: the long kernel decides.
WAITS = (
    STEP,
    span("aten::mm", 0, 20),
    launch(5, 10, correlation=1),
    kernel("gemm", 20, 600, correlation=1),
    span("aten::add", 30, 20),
    launch(35, 10, correlation=2),
    kernel("add", 622, 200, correlation=2),
    sync(100, 730),
)


def test_the_path_goes_from_the_wait_over_the_stream_to_the_launch() -> None:
    assert path_of(make_trace(*WAITS)) == [
        ("aten::mm", 0, 5),
        ("cudaLaunchKernel", 5, 10),
        ("launch", 15, 5),
        ("gemm", 20, 600),
        ("stream", 620, 2),
        ("add", 622, 200),
        ("wait", 822, 8),
        ("ProfilerStep#0", 830, 170),
    ]


def test_a_faster_kernel_on_the_path_shortens_the_step_until_the_host_decides() -> None:
    trace = make_trace(*WAITS)
    assert replayed_us(trace) == 1_000
    assert replayed_us(trace, gemm=300) == 700
    # The second kernel is launched at 45 µs and begins 5 µs later: 250 µs for it, the return, and the rest of the host.
    assert replayed_us(trace, gemm=0) == 50 + 200 + 8 + 170
    # Without both, the call that waits takes what it takes itself, 8 µs.
    assert replayed_us(trace, gemm=0, add=0) == 100 + 8 + 170


def test_a_faster_op_beside_the_path_changes_nothing() -> None:
    trace = make_trace(*WAITS)
    assert replayed_us(trace, **{"aten::add": 1}) == 1_000


def test_slack_is_what_can_become_shorter_until_another_path_decides() -> None:
    frame = Report(make_trace(*WAITS)).critical_path
    slack = dict(zip(frame["name"].to_list(), (frame["slack_ns"] // 1_000).to_list(), strict=True))
    # The second kernel could begin at 50 µs, 572 earlier; the wait would be over at 108 instead of 830.
    assert (slack["gemm"], slack["add"]) == (572, 200)


def test_work_of_two_streams_runs_side_by_side_and_the_longer_one_is_on_the_path() -> None:
    trace = make_trace(
        STEP,
        span("aten::mm", 0, 40),
        launch(0, 10, correlation=1),
        launch(20, 10, correlation=2),
        kernel("long", 15, 700, correlation=1, stream=7),
        kernel("short", 35, 300, correlation=2, stream=8),
        sync(100, 620),
    )
    ran = [name for name, _, _ in path_of(trace)]
    assert "long" in ran
    assert "short" not in ran
    assert replayed_us(trace, long=100) == 1_000 - (715 - 335)


def test_work_after_a_wait_for_an_event_waits_for_the_other_stream() -> None:
    trace = make_trace(
        STEP,
        span("aten::mm", 0, 90),
        launch(0, 10, correlation=1),
        kernel("made", 15, 400, correlation=1, stream=7),
        span("cudaStreamWaitEvent", 20, 5, cat="cuda_runtime", correlation=3),
        launch(30, 10, correlation=2),
        kernel("used", 415, 100, correlation=2, stream=8),
        sync(100, 420),
    )
    assert step_graph(trace).counts["event"] == 1
    assert [name for name, _, _ in path_of(trace)] == [
        "cudaLaunchKernel", "launch", "made", "used", "wait", "ProfilerStep#0",
    ]  # fmt: skip
    assert replayed_us(trace, made=300) == 900


@pytest.mark.parametrize("node", ["autograd::engine::evaluate_function: MmBackward0", "MmBackward"])
def test_the_caller_of_backward_waits_for_autograds_thread(node: str) -> None:
    trace = make_trace(
        STEP,
        span("aten::mm", 0, 100),
        span(node, 150, 300, tid=2),
        span("aten::mm", 160, 200, tid=2),
        span("aten::add_", 500, 100, tid=1),
    )
    assert path_of(trace) == [
        ("aten::mm", 0, 100),
        ("ProfilerStep#0", 100, 50),
        (node, 150, 10),
        ("aten::mm", 160, 200),
        (node, 360, 90),
        ("ProfilerStep#0", 450, 50),
        ("aten::add_", 500, 100),
        ("ProfilerStep#0", 600, 400),
    ]
    assert replayed_us(trace, **{node: 0}) == 900


def test_batches_of_workers_follow_one_another_however_fast_the_program_is() -> None:
    fetch = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    events = [
        event
        for step in range(3)
        for event in (
            annotation(f"ProfilerStep#{step}", step * 20_000, 20_000),
            annotation(fetch, step * 20_000, 15_000),
            span("aten::mm", step * 20_000 + 15_000, 5_000),
        )
    ]
    trace = make_trace(*events)
    graph = step_graph(trace)
    assert graph.counts["workers"] == 2
    is_mm = np.isin(graph.pieces.row, np.flatnonzero((trace.events["name"] == "aten::mm").to_numpy()))
    faster = np.where(is_mm, 0, graph.own_ns)
    # A batch is ready every 20 ms, so the steps still take so long; only the last op of the last one is gone.
    times = spans_of_steps(trace).replayed_ns(replay(graph, faster))
    assert times[1] == 20_000_000


def test_edges_back_in_time_are_left_out_and_counted() -> None:
    # The second kernel ends before the first one that was launched before it on another stream began.
    events = [event for event in WAITS if event.get("name") != "add"]
    trace = make_trace(*events, kernel("add", 1, 2, correlation=2, stream=9))
    graph = step_graph(trace)
    assert np.isfinite(replay(graph).start_ns).all()
    assert sum(path[2] for path in path_of(trace)) == 1_000


def test_a_copy_that_its_own_call_waits_for_begins_when_it_did() -> None:
    copied = kernel("Memcpy HtoD (Pageable -> Device)", 300, 500, correlation=1) | {"cat": "gpu_memcpy"}
    call = span("cudaMemcpyAsync", 100, 800, cat="cuda_runtime", correlation=1)
    trace = make_trace(STEP, span("aten::copy_", 0, 950), call, copied)
    assert replayed_us(trace) == 1_000
    # The call returns 100 us after the copy, however long that takes.
    assert replayed_us(trace, **{"Memcpy HtoD (Pageable -> Device)": 100}) == 600


def test_work_without_a_launch_is_held_by_an_assumed_edge() -> None:
    trace = make_trace(STEP, span("aten::mm", 0, 20), kernel("lost", 300, 400, correlation=77), sync(100, 605))
    assert step_graph(trace).counts["assumed"] == 1
    assert ("lost", 300, 400) in path_of(trace)


def test_a_recording_without_events_has_no_path() -> None:
    frame = Report(make_trace()).critical_path
    assert frame.height == 0
    assert {"step", "order", "event", "category", "start_ns", "dur_ns", "slack_ns"} <= {*frame.columns}


def test_without_steps_the_path_is_that_of_the_recording() -> None:
    trace = make_trace(span("aten::mm", 0, 20), launch(5, 10, correlation=1), kernel("gemm", 20, 600, correlation=1))
    assert path_of(trace) == [
        ("aten::mm", 0, 5), ("cudaLaunchKernel", 5, 10), ("launch", 15, 5), ("gemm", 20, 600),
    ]  # fmt: skip
    assert Report(trace).critical_path["step"].null_count() == 4


def test_the_time_on_the_path_is_a_column_of_ops_and_kernels() -> None:
    report = Report(make_trace(*WAITS))
    kernels = dict(report.kernels.select("name", "on_path_ns").rows())
    assert kernels == {"gemm": 600_000, "add": 200_000}
    ops = dict(report.ops.select("name", "on_path_ns").rows())
    # Its first 5 µs, and its launch call of 10 µs, with the kernel.
    assert ops == {"aten::mm": 615_000, "aten::add": 200_000}


REAL = ("01_cpu*", "02_a100*", "03_h100*", "05_v100*", "06_v100*/rank0*", "06_v100*/rank3*", "18_synthetic/s0*")


@pytest.mark.parametrize("pattern", REAL)
def test_a_step_replayed_as_it_is_takes_as_long_as_it_took(traces: Path, pattern: str) -> None:
    trace = tp.load(next(iter(sorted(traces.glob(pattern))))).as_analysed
    spans = spans_of_steps(trace)
    replayed = spans.replayed_ns(replay(step_graph(trace)))
    error = np.abs(replayed / spans.dur_ns - 1)
    assert float(np.median(error)) < 0.03
    assert float(error.max()) < 0.05


@pytest.mark.parametrize("pattern", REAL)
def test_the_path_of_a_real_step_takes_the_whole_step_without_a_pause(traces: Path, pattern: str) -> None:
    trace = tp.load(next(iter(sorted(traces.glob(pattern))))).as_analysed
    path, spans = critical_path(trace), spans_of_steps(trace)
    assert np.bincount(path.span, path.dur_ns).tolist() == spans.dur_ns.tolist()
    within = np.diff(path.span) == 0
    assert (path.start_ns[1:][within] == path.end_ns[:-1][within]).all()
    assert (path.slack_ns >= 0).all()
    assert (path.slack_ns <= path.dur_ns).all()


def test_tables_leave_the_path_out_of_recordings_that_are_too_large_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchprof_magic.facts.step_graph.on_path.MOST_EVENTS", 3)
    report = Report(make_trace(*WAITS))
    assert "on_path_ns" not in report.ops.columns
    for table in (report.kernels, report.lines, report.modules):
        assert table["on_path_ns"].null_count() == table.height
    assert "Critical path" not in {lane.title for lane in timeline_slices(report.trace).lanes}
    assert report.critical_path["dur_ns"].sum() == 1_000_000


def test_a_path_of_which_much_is_assumed_is_not_drawn() -> None:
    # No launch tells why the kernel begins at 700 us: most of the path is a wait for what the file does not say.
    report = Report(make_trace(span("aten::mm", 0, 100), kernel("gemm", 700, 290, correlation=7)))
    assert "on_path_ns" not in report.ops.columns
    assert "Critical path" not in {lane.title for lane in timeline_slices(report.trace).lanes}


def test_where_steps_overlap_each_path_takes_all_of_its_step() -> None:
    # The second begins 10 us before the first ends, and an op lasts over both edges: it ends on its thread at 232 us.
    late = span("aten::mm", 211, 21)
    events = (
        annotation("ProfilerStep#0", 0, 122),
        span("aten::mm", 96, 67),
        annotation("ProfilerStep#1", 112, 169),
        late,
    )
    found = Report(make_trace(*events)).critical_path.group_by("step").agg(pl.col("dur_ns").sum()).sort("step")
    assert found.rows() == [(0, 122_000), (1, 169_000)]
    assert path_of(make_trace(*events))[-1] == ("assumed", 232, 49)


@pytest.mark.parametrize("seed", sampled(range(25)))
def test_whatever_the_times_say_paths_add_up_and_less_to_do_takes_no_longer(seed: int) -> None:
    report = Report(make_trace(*contradictory(random.Random(seed))))  # noqa: S311 - times of a test
    trace = report.as_analysed
    spans, path = spans_of_steps(trace), critical_path(trace)
    sums = np.bincount(path.span, path.dur_ns, minlength=len(spans.step))
    assert np.abs(sums - spans.dur_ns).max(initial=0) <= 1
    assert path.dur_ns.min(initial=0) >= 0
    faster = report.what_if(faster={"aten::mm": 2})
    assert -1 <= faster.saving_ns <= report.what_if(without="aten::mm").saving_ns + 1
    assert 0 <= faster.low_ns <= faster.step_ns <= faster.high_ns


def contradictory(chance: random.Random) -> list[dict[str, Any]]:
    """Return steps that overlap, and events of three threads and two streams at any time."""
    events, at = [span("aten::mm", 5, 20)], 0
    for number in range(4):
        start, dur = max(0, at - chance.choice((0, 0, 80))), chance.randint(50, 300)
        step = annotation(f"ProfilerStep#{number}", start, dur)
        events.append(step | {"tid": step["tid"] + chance.choice((0, 0, 1))})
        at = start + dur
    for number in range(1, 12):
        when, tid = chance.randint(0, at), chance.randint(0, 2)
        made = [
            span("aten::mm", when, chance.randint(1, 80)),
            launch(when, chance.randint(1, 9), correlation=number),
            sync(when, chance.randint(1, 60)) | {"args": {"correlation": 100 + number}},
        ]
        events += [each | {"tid": each["tid"] + tid} for each in made]
        late = when + chance.randint(-20, 100)
        events.append(kernel("gemm", late, chance.randint(1, 90), correlation=number, stream=chance.choice((7, 8))))
    return events
