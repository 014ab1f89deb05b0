from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from amount import sampled
from support import Event, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.facts.device.idle_pieces import DETAILS, idle_pieces
from torchprof_magic.facts.device.window import windows_of
from torchprof_magic.facts.time_range import WHOLE, TimeRange
from torchprof_magic.model.intervals import covered_ns
from torchprof_magic.model.trace import Trace
from torchprof_magic.tables.steps import device_intervals
from torchprof_magic.tables.waiting.idle import STATES, idle_sums, idle_table

STEP = annotation("ProfilerStep#1", 0, 1000)


def call(name: str, start_us: float, dur_us: float, tid: int = 1) -> Event:
    return span(name, start_us, dur_us, cat="cuda_runtime", tid=tid)


def work(
    start_us: float, dur_us: float, correlation: int, launched_us: float, device: int = 0, tid: int = 1
) -> list[Event]:
    """A kernel and its launch, which takes 2 us."""
    return [launch(launched_us, 2, correlation, tid), kernel("k", start_us, dur_us, correlation, device=device)]


def idle_us(*events: Event, of: str = "detail", device: int = 0) -> dict[str, float]:
    """Return the idle time of a device in a step of 1 ms, in us, by one column."""
    table = idle_table(make_trace(STEP, *events)).frame.filter(pl.col("device") == device)
    sums = table.group_by(of).agg(pl.col("idle_ns").sum()).rows()
    return {name: ns / 1000 for name, ns in sums}


# Busy from 0 to 100 and from 600 to the end of the step, so that the gap lasts from 100 to 600.
BEFORE = [launch(0, 0, 1), kernel("a", 0, 100, 1)]


def until_600(launched_us: float) -> list[Event]:
    return work(600, 400, 2, launched_us)


def test_a_gap_is_the_hosts_until_the_launch_then_the_calls_then_its_latency() -> None:
    found = idle_us(*BEFORE, span("aten::mm", 100, 300), *until_600(500))
    # in an op from 100 to 400, nothing but the step until 500, then 2 us of launch and 98 us until the kernel begins
    assert found == {"op dispatch": 300, "python or other": 100, "launch call": 2, "launch latency": 98}
    causes = idle_us(*BEFORE, span("aten::mm", 100, 300), *until_600(500), of="cause")
    assert causes == {"op dispatch": 302, "python": 100, "queued": 98}


def test_gaps_at_the_start_and_the_end_of_the_window_count() -> None:
    found = idle_table(make_trace(STEP, *work(300, 100, 1, 290))).frame
    assert found.select("start_ns", "idle_ns").rows() == [
        (0, 290_000),
        (290_000, 2_000),
        (292_000, 8_000),
        (400_000, 600_000),
    ]
    assert found["detail"].to_list() == ["python or other", "launch call", "launch latency", "python or other"]


def test_work_outside_the_window_is_neither_busy_nor_the_end_of_a_gap_in_it() -> None:
    outside = [*work(1100, 50, 3, 1050), span("late", 1000, 200)]
    assert idle_us(*BEFORE, *until_600(598), *outside) == {"python or other": 498, "launch call": 2}


def test_each_device_has_its_own_gaps() -> None:
    events = [*BEFORE, *until_600(598), *work(0, 500, 3, 0, device=1)]
    assert sum(idle_us(*events).values()) == 500
    assert sum(idle_us(*events, device=1).values()) == 500
    assert sum(idle_us(*BEFORE, *work(50, 900, 3, 0, device=1), device=1).values()) == 100


def test_a_device_idles_only_while_all_of_its_streams_do() -> None:
    other = [launch(1, 1, 3), kernel("b", 50, 250, 3, stream=8)]
    assert sum(idle_us(*BEFORE, *other, *until_600(598)).values()) == 300


def test_work_that_was_launched_before_the_gap_was_queued() -> None:
    assert idle_us(*BEFORE, *until_600(50)) == {"queued, not started": 500}
    assert idle_us(*BEFORE, *until_600(50), of="cause") == {"queued": 500}


@pytest.mark.parametrize(("start_us", "detail"), [(109.999, "queued, short gap"), (110, "queued, not started")])
def test_a_queued_gap_of_less_than_10_us_is_short(start_us: float, detail: str) -> None:
    assert idle_us(*BEFORE, *work(start_us, 1000 - start_us, 2, 50)) == {detail: pytest.approx(start_us - 100)}


def test_a_call_that_ends_with_the_last_work_had_launched_before_the_gap() -> None:
    assert idle_us(*BEFORE, *until_600(98)) == {"queued, not started": 500}
    assert idle_us(*BEFORE, *until_600(98.001)) == {"launch call": 0.001, "launch latency": 499.999}


def test_a_gap_between_two_works_of_one_launch_is_inside_a_graph() -> None:
    graph = span("cudaGraphLaunch", 0, 10, cat="cuda_runtime", correlation=1)
    assert idle_us(graph, kernel("a", 0, 100, 1), kernel("b", 600, 400, 1)) == {"inside a graph": 500}


def test_work_whose_launch_is_not_in_the_file_says_nothing() -> None:
    assert idle_us(*BEFORE, kernel("b", 600, 400, 99)) == {"not recorded": 500}
    assert idle_us(*BEFORE, kernel("b", 600, 400, 99), of="cause") == {"unknown": 500}
    assert idle_us(*BEFORE, kernel("b", 600, 400, 99), of="host") == {"no host activity": 500}


def test_of_works_that_begin_together_the_one_launched_first_ends_the_gap() -> None:
    late = [launch(590, 2, 3), kernel("b", 600, 10, 3, stream=8)]
    assert idle_us(*BEFORE, *late, *until_600(50)) == {"queued, not started": 500}


def test_the_hosts_state_counts_throughout_in_the_other_view() -> None:
    events = [*BEFORE, span("aten::mm", 40, 400), *until_600(50)]
    assert idle_us(*events) == {"queued, not started": 500}
    assert idle_us(*events, of="host") == {"op dispatch": 340, "python or other": 160}


@pytest.mark.parametrize(
    ("held", "detail", "cause"),
    [
        ([call("cudaStreamSynchronize", 150, 300)], "blocked", "waiting"),
        ([call("cudaMemcpyAsync", 150, 300)], "blocked", "waiting"),
        ([call("cudaMalloc", 150, 300)], "blocked", "allocation"),
        ([call("cuModuleLoadData", 150, 300)], "blocked", "initialisation"),
        ([call("cudaFuncGetAttributes", 150, 300)], "runtime call", "op dispatch"),
        ([span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 150, 300)], "data", "data"),
        ([annotation("## wait_for_training_batch ##", 150, 300)], "data", "data"),
        ([annotation("entire_frame_compile (dynamo_timed)", 150, 300)], "compile", "compile"),
        ([frame("torch/_dynamo/convert_frame.py(9): compile", 150, 300)], "compile", "compile"),
        ([annotation("gloo:all_reduce", 150, 300)], "host communication", "communication"),
        ([frame("torch/profiler/profiler.py(7): step", 150, 300)], "profiler", "profiler"),
        ([span("aten::mm", 150, 300)], "op dispatch", "op dispatch"),
        ([frame("mine.py(3): think", 150, 300)], "python or other", "python"),
    ],
)  # fmt: skip
def test_what_the_host_does_in_a_gap_is_its_cause(held: list[Event], detail: str, cause: str) -> None:
    found = idle_table(make_trace(STEP, *BEFORE, *held, *until_600(598))).frame
    named = found.filter(pl.col("name") == held[0]["name"])
    assert named.select("cause", "detail", "idle_ns").rows() == [(cause, detail, 300_000)]
    # the step is open in the rest
    rest = found.filter(pl.col("name") == "ProfilerStep#1")
    assert (rest["idle_ns"].sum(), found["idle_ns"].sum()) == (198_000, 500_000)


def test_a_launch_that_blocks_is_a_wait_and_not_the_launchs_own_cost() -> None:
    slow = span("cudaLaunchKernel", 300, 200, cat="cuda_runtime", correlation=2)
    found = idle_us(*BEFORE, slow, kernel("b", 600, 400, 2))
    assert found == {"python or other": 200, "blocked": 200, "launch latency": 100}


def test_the_strongest_state_of_other_threads_counts_while_the_launching_one_says_nothing() -> None:
    other = [
        span("autograd::engine::evaluate_function: X", 200, 100, tid=2),
        call("cudaEventSynchronize", 350, 50, tid=2),
    ]
    assert idle_us(*BEFORE, *other, *until_600(598)) == {
        "op dispatch": 100,
        "blocked": 50,
        "python or other": 348,
        "launch call": 2,
    }
    # The launching thread is in an op of its own: what the other one waits for does not matter.
    assert idle_us(*BEFORE, span("aten::mm", 100, 400), *other, *until_600(598))["op dispatch"] == 400


def test_a_thread_that_only_runs_collectives_counts() -> None:
    gloo = annotation("gloo:all_reduce", 200, 100, tid=2)
    assert idle_us(*BEFORE, gloo, *until_600(598))["host communication"] == 100


def test_a_parked_thread_of_python_frames_does_not_count() -> None:
    parked = frame("threading.py(3): wait", 0, 1000, tid=3)
    assert idle_us(*BEFORE, parked, *until_600(598)) == {"python or other": 498, "launch call": 2}


def test_nested_ops_are_named_by_the_outermost_that_does_more_than_stand_around_others() -> None:
    region = span("Torch-Compiled Region: 0/0", 100, 490), span("aten::linear", 150, 400), span("aten::mm", 200, 300)
    found = idle_us(*BEFORE, *region, *until_600(598), of="name")
    assert found["aten::linear"] == 400
    assert found["Torch-Compiled Region: 0/0"] == 90


def test_idle_time_belongs_to_the_step_in_which_it_began() -> None:
    steps = annotation("ProfilerStep#1", 0, 300), annotation("ProfilerStep#2", 300, 300)
    trace = make_trace(*steps, *work(0, 100, 1, 0), *work(500, 50, 2, 498))
    sums = dict(idle_table(trace).frame.group_by("step").agg(pl.col("idle_ns").sum()).rows())
    assert sums == {1: 200_000, 2: 250_000}


def test_time_between_two_cycles_is_not_idle() -> None:
    steps = annotation("ProfilerStep#1", 0, 200), annotation("ProfilerStep#9", 800, 200)
    trace = make_trace(*steps, *work(50, 100, 1, 48), *work(900, 50, 2, 898), span("op", 0, 1000, tid=2))
    trace = replace(trace, steps=trace.steps.with_columns(cycle=pl.Series([0, 1], dtype=pl.Int32)))
    assert idle_table(trace).frame["idle_ns"].sum() == 100_000 + 150_000


def test_no_device_has_no_idle_time() -> None:
    assert idle_table(make_trace(STEP, span("aten::mm", 0, 10))).frame.height == 0


NAMES = (
    ("aten::mm", "cpu_op"),
    ("enumerate(DataLoader)#x", "cpu_op"),
    ("gloo:all_reduce", "user_annotation"),
    ("ProfilerStep#3", "user_annotation"),
    ("mine.py(1): f", "python_function"),
    ("torch/profiler/profiler.py(1): f", "python_function"),
    ("cudaStreamSynchronize", "cuda_runtime"),
    ("cudaMalloc", "cuda_runtime"),
    ("cudaLaunchKernel", "cuda_runtime"),
)


def random_trace(seed: int) -> Trace:
    chance = np.random.default_rng(seed)

    def between(low: int, high: int) -> float:
        return int(chance.integers(low * 8, high * 8)) / 8  # in 125 ns

    events: list[Event] = []
    for _ in range(int(chance.integers(1, 30))):
        name, category = NAMES[int(chance.integers(len(NAMES)))]
        tid, correlation = int(chance.integers(1, 4)), int(chance.integers(0, 12))
        events.append(span(name, between(0, 300), between(0, 150), category, tid, correlation=correlation))
    for _ in range(int(chance.integers(1, 12))):
        device, stream, correlation = int(chance.integers(2)), int(chance.integers(2)), int(chance.integers(0, 12))
        events.append(kernel("k", between(0, 400), between(0, 40), correlation, stream, device))
    return make_trace(*events)


@pytest.mark.parametrize("seed", sampled(range(200)))
def test_the_pieces_of_random_traces_add_up_to_the_window_minus_the_busy_time(seed: int) -> None:
    trace = random_trace(seed)
    windows, pieces = windows_of(trace), idle_pieces(trace)
    length = pieces.end_ns - pieces.start_ns
    assert (length > 0).all()
    for device, start, end in device_intervals(trace):
        busy = int(covered_ns(start, end, windows.start_ns, windows.end_ns).sum())
        chosen = pieces.device == device
        assert length[chosen].sum() == windows.whole_ns - busy
        # Pieces follow one another without overlap, inside the windows and outside of all work.
        assert (pieces.start_ns[chosen][1:] >= pieces.end_ns[chosen][:-1]).all()
        assert covered_ns(start, end, pieces.start_ns[chosen], pieces.end_ns[chosen]).sum() == 0
        inside = covered_ns(windows.start_ns, windows.end_ns, pieces.start_ns[chosen], pieces.end_ns[chosen])
        assert (inside == length[chosen]).all()
    assert ((pieces.host >= 0) & (pieces.host < len(STATES))).all()
    assert ((pieces.detail >= 0) & (pieces.detail < len(DETAILS))).all()


@pytest.mark.parametrize("seed", sampled(range(0, 200, 5)))
def test_the_table_of_a_random_trace_has_the_same_sums_as_its_pieces(seed: int) -> None:
    trace = random_trace(seed)
    pieces, table = idle_pieces(trace), idle_table(trace).frame
    for column, numbers, names in (("detail", pieces.detail, DETAILS), ("host", pieces.host, STATES)):
        expected: Counter[tuple[int, str]] = Counter()
        for device, number, start, end in zip(pieces.device, numbers, pieces.start_ns, pieces.end_ns, strict=True):
            expected[int(device), names[number]] += int(end - start)
        sums = table.group_by("device", column).agg(pl.col("idle_ns").sum())
        assert {(device, name): ns for device, name, ns in sums.rows()} == expected
    assert table.select("device", "start_ns").rows() == sorted(table.select("device", "start_ns").rows())


@pytest.mark.parametrize("seed", sampled(range(0, 200, 5)))
def test_the_sums_of_a_device_are_those_of_its_rows_in_the_table(seed: int) -> None:
    trace = random_trace(seed)
    key = ["cause", "name", "file", "line"]
    for part in (WHOLE, TimeRange(200_000, 900_000, ((400_000, 500_000),))):
        rows = idle_table(trace, part).frame
        for device in (0, 1, 7):
            own = rows.filter(pl.col("device") == device).group_by(key).agg(pl.col("idle_ns").sum())
            assert sorted(idle_sums(trace, device, part).rows(), key=str) == sorted(own.rows(), key=str)


def test_a_part_has_the_idle_time_in_it_with_the_cause_of_the_whole_gap() -> None:
    trace = make_trace(STEP, *BEFORE, span("aten::mm", 100, 300), *until_600(500))
    found = idle_table(trace, TimeRange(250_000, 550_000)).frame
    # The op until 400, Python until the launch at 500, which takes 2 us, and 48 us of the latency after it.
    assert found.select("detail", "start_ns", "idle_ns").rows() == [
        ("op dispatch", 250_000, 150_000),
        ("python or other", 400_000, 100_000),
        ("launch call", 500_000, 2_000),
        ("launch latency", 502_000, 48_000),
    ]
    assert idle_table(trace, TimeRange(0, 100_000)).frame.height == 0
