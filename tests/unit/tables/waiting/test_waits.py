from __future__ import annotations

from dataclasses import replace

import polars as pl
from support import Event, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.facts.time_range import TimeRange
from torchprof_magic.model.meta import StepMark
from torchprof_magic.model.trace import FRAME_SCHEMAS, SCOPES_SCHEMA, SITES_SCHEMA, Trace
from torchprof_magic.tables.waiting.waits import waits_table

STEP = annotation("ProfilerStep#1", 0, 1000)


def wait(start_us: float, dur_us: float, name: str = "cudaStreamSynchronize", tid: int = 1) -> Event:
    return span(name, start_us, dur_us, cat="cuda_runtime", tid=tid)


def rows(trace: Trace, *columns: str) -> list[tuple[object, ...]]:
    return waits_table(trace).frame.select(columns).rows()


def test_waits_of_one_cause_are_one_row_the_longest_total_first() -> None:
    short = span("aten::item", 0, 40), wait(10, 20)
    long = span("aten::copy_", 100, 200), wait(110, 50), wait(170, 60)
    busy = launch(0, 1, 1), kernel("k", 20, 120, 1)
    found = rows(
        make_trace(STEP, *short, *long, *busy),
        "call",
        "rule",
        "op",
        "count",
        "total_ns",
        "device_busy_ns",
        "longest_ns",
    )
    assert found == [
        # the device works until 140, of which the first wait sees 110 to 140
        ("cudaStreamSynchronize", "sync", "aten::copy_", 2, 110_000, 30_000, 60_000),
        ("cudaStreamSynchronize", "sync", "aten::item", 1, 20_000, 10_000, 20_000),
    ]


def test_equal_waits_stand_in_the_order_of_time_each_time() -> None:
    around = [span("aten::copy_", at, 10) for at in range(0, 600, 20)]
    within = [annotation(f"part {number}", number * 20, 15) for number in range(30)]
    trace = make_trace(STEP, *around, *within, *(wait(at + 1, 5) for at in range(0, 600, 20)))
    assert rows(trace, "annotation") == [(f"part {number}",) for number in range(30)]


def test_a_wait_is_charged_to_the_innermost_op_and_annotation_around_it() -> None:
    around = (
        annotation("outer", 0, 100),
        annotation("inner", 5, 90),
        span("aten::to", 10, 80),
        span("aten::copy_", 20, 60),
    )
    assert rows(make_trace(STEP, *around, wait(30, 10)), "op", "annotation") == [("aten::copy_", "inner")]


def test_a_step_is_no_annotation_and_a_wait_outside_of_all_has_no_cause() -> None:
    trace = make_trace(STEP, wait(30, 10))
    assert rows(trace, "op", "annotation", "module", "file", "line") == [(None, None, None, None, None)]


def test_waits_of_two_threads_are_two_rows() -> None:
    found = rows(make_trace(STEP, wait(0, 30), wait(0, 20, tid=2)), "thread", "total_ns")
    assert found == [("7/1", 30_000), ("7/2", 20_000)]


def test_waits_are_cut_off_at_the_ends_of_the_window() -> None:
    step = annotation("ProfilerStep#1", 100, 100)
    busy = launch(0, 1, 1), kernel("k", 0, 120, 1)
    calls = wait(0, 50), wait(90, 40), wait(190, 60), wait(300, 10)
    trace = make_trace(span("op", 0, 400, tid=2), step, *busy, *calls)
    # 100 to 130, during which the device works until 120, and 190 to 200
    columns = ("count", "total_ns", "longest_ns", "device_busy_ns")
    assert rows(trace, *columns) == [(2, 40_000, 30_000, 20_000)]


def test_waits_between_two_cycles_do_not_count() -> None:
    steps = annotation("ProfilerStep#1", 0, 100), annotation("ProfilerStep#5", 300, 100)
    trace = make_trace(*steps, wait(10, 20), wait(150, 20), wait(310, 30), launch(390, 1, 1), kernel("k", 395, 1, 1))
    trace = replace(trace, steps=trace.steps.with_columns(cycle=pl.Series([0, 1], dtype=pl.Int32)))
    assert rows(trace, "count", "total_ns") == [(2, 50_000)]


def test_the_profilers_own_waits_are_left_out() -> None:
    frames = frame("torch/profiler/profiler.py(9): step", 0, 100)
    assert rows(make_trace(STEP, frames, wait(10, 50, "cudaDeviceSynchronize")), "call") == []


def test_a_wait_has_the_line_of_the_users_function_around_it() -> None:
    frames = (
        frame("train.py(10): main", 0, 500),
        frame("model.py(20): forward", 10, 400),
        frame("torch/_tensor.py(5): item", 20, 300),
    )
    assert rows(make_trace(STEP, *frames, wait(30, 10)), "file", "line") == [("model.py", 20)]


def test_a_wait_has_the_module_whose_frame_is_around_it() -> None:
    frames = frame("nn.Module: Net_0", 0, 500), frame("f.py(1): forward", 5, 400), frame("nn.Module: Linear_1", 10, 100)
    trace = make_trace(STEP, *frames, wait(20, 10), wait(300, 5))
    assert rows(trace, "module", "total_ns") == [("Net_0.Linear_1", 10_000), ("Net_0", 5_000)]


def test_watched_lines_and_modules_win_over_frames() -> None:
    frames = frame("nn.Module: Net_0", 0, 500), frame("f.py(1): forward", 5, 400)
    trace = make_trace(STEP, *frames, wait(20, 10), wait(300, 5))
    lane = int(trace.events["lane"][0])
    sites = pl.DataFrame(
        {
            "kind": ["line", "module", "module"],
            "parent": [-1, -1, 1],
            "name": ["loss.item()", "", "encoder.layers.0"],
            "file": ["cell.py", None, None],
            "line": [7, None, None],
            "class_name": [None, "Net", "Linear"],
            "parameters": [None, 0, 0],
            "bytes": [None, 0, 0],
        },
        schema_overrides=SITES_SCHEMA,
    )
    scopes = pl.DataFrame(
        {
            "site": [1, 0, 2],
            "lane": [lane] * 3,
            "start_ns": [0, 10_000, 15_000],
            "dur_ns": [200_000, 90_000, 50_000],
            "cycle": [0] * 3,
        },
        schema_overrides=SCOPES_SCHEMA,
    )
    watched = replace(trace, sites=sites, scopes=scopes)
    assert rows(watched, "file", "line", "module", "total_ns") == [
        ("cell.py", 7, "encoder.layers.0", 10_000),
        ("f.py", 1, None, 5_000),
    ]


def test_no_wait_is_an_empty_table() -> None:
    assert waits_table(make_trace()).frame.height == 0
    assert waits_table(make_trace(STEP, span("aten::mm", 0, 10))).frame.height == 0


def test_a_part_has_the_time_of_its_waits_and_counts_each_that_it_touches() -> None:
    waits = wait(100, 300), wait(500, 100)
    trace = make_trace(STEP, *waits, launch(0, 1, 1), kernel("k", 300, 150, 1))
    columns = ("count", "total_ns", "device_busy_ns", "longest_ns")
    # Until 350, the first wait takes 250 us, in the last 50 of which the device works; the other 50 come after.
    first = waits_table(trace, TimeRange(0, 350_000)).frame.select(columns).rows()
    assert first == [(1, 250_000, 50_000, 250_000)]
    rest = waits_table(trace, TimeRange(350_000, 2_000_000)).frame.select(columns).rows()
    assert rest == [(2, 150_000, 50_000, 100_000)]
    assert waits_table(trace, TimeRange(420_000, 480_000)).frame.height == 0


def slept(*waits: tuple[str, str | None, int | None, float, float]) -> Trace:
    """A step of 1 ms with an op in its first 100 us, and waits of the host: kind, call, line, start, duration in us."""
    trace = make_trace(STEP, span("aten::mm", 0, 100))
    rows = [(kind, call, "cell", line, 0, int(at * 1000), int(dur * 1000), 0) for kind, call, line, at, dur in waits]
    return replace(trace, waits=pl.DataFrame(rows, schema=FRAME_SCHEMAS["waits"], orient="row"))


def test_waits_of_the_host_are_rows_by_line_and_call() -> None:
    trace = slept(
        ("wait", "time.sleep", 3, 200, 50),
        ("wait", "time.sleep", 3, 300, 150),
        ("wait", "Queue.get", 3, 500, 20),
        ("collection", "gc.collect", 4, 600, 90),
        ("wait", None, 5, 900, 5),
    )
    columns = "call", "rule", "file", "line", "count", "total_ns", "longest_ns", "device_busy_ns", "thread"
    assert rows(trace, *columns) == [
        ("time.sleep", "wait", "cell", 3, 2, 200_000, 150_000, 0, "7/1"),
        ("gc.collect", "garbage", "cell", 4, 1, 90_000, 90_000, 0, "7/1"),
        ("Queue.get", "wait", "cell", 3, 1, 20_000, 20_000, 0, "7/1"),
        (None, "wait", "cell", 5, 1, 5_000, 5_000, 0, "7/1"),
    ]


def test_waits_of_the_host_in_parts_add_up_to_the_whole() -> None:
    trace = slept(("wait", "time.sleep", 3, 200, 333.333))
    marks = (StepMark(number=1, cycle=0, is_complete=True, cpu_ns=300_000),)
    trace = replace(trace, meta=replace(trace.meta, recorded_steps=marks))
    whole = waits_table(trace).frame["total_ns"].sum()
    assert whole == 700_000  # of 1 ms, 0.3 used the CPU; a third was seen, which stands for the rest
    edges = [0, 250_001, 400_003, 1_000_000]
    parts = [TimeRange(start, end) for start, end in zip(edges, edges[1:], strict=False)]
    assert sum(waits_table(trace, part).frame["total_ns"].sum() for part in parts) == whole


def test_a_wait_inside_an_op_is_no_row() -> None:
    assert rows(slept(("wait", "loss.backward", 3, 20, 60)), "call") == []
