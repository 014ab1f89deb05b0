from __future__ import annotations

from dataclasses import replace

import polars as pl
from support import annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.tables.steps import counted_rows, steps_table


def test_a_step_is_split_by_phase_and_the_rest_is_python() -> None:
    trace = make_trace(
        annotation("ProfilerStep#2", 0, 100),
        span("enumerate(DataLoader)#_Iter.__next__", 0, 10),
        span("aten::mm", 12, 20),
        span("autograd::engine::evaluate_function: MmBackward0", 40, 25),
        annotation("Optimizer.step#SGD.step", 70, 15),
        span("aten::add_", 72, 5),
    )
    row = steps_table(trace).frame.row(0, named=True)
    assert (row["number"], row["dur_ns"]) == (2, 100_000)
    split = {
        name: row[f"{name}_ns"] for name in ("data", "forward", "backward", "optimizer", "communication", "python")
    }
    assert split == {
        "data": 10_000, "forward": 20_000, "backward": 25_000, "optimizer": 15_000,
        "communication": 0, "python": 30_000,
    }  # fmt: skip


def test_time_in_which_threads_overlap_counts_once() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("aten::mm", 0, 60),
        span("autograd::engine::evaluate_function: X", 40, 40, tid=2),
        annotation("gloo:all_reduce", 70, 20, tid=3),
    )
    row = steps_table(trace).frame.row(0, named=True)
    # The first thread runs the step: forward 0..60; then a collective 70..90 comes before the node that ends at 80.
    assert [row[f"{name}_ns"] for name in ("communication", "backward", "forward", "python")] == [
        20_000, 10_000, 60_000, 10_000,
    ]  # fmt: skip


def test_a_range_that_the_user_calls_backward_is_backward_only_where_ops_run() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100), annotation("my backward", 0, 90), span("aten::mul", 20, 30)
    )
    row = steps_table(trace).frame.row(0, named=True)
    assert (row["backward_ns"], row["python_ns"]) == (30_000, 70_000)


def test_an_op_that_makes_a_node_is_forward_whatever_the_user_calls_the_range_around_it() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        annotation("backward", 0, 50),
        span("aten::mul", 10, 30, **{"Sequence number": 5}),
        span("MulBackward0", 60, 20, **{"Sequence number": 5, "Fwd thread id": 1}),
    )
    row = steps_table(trace).frame.row(0, named=True)
    assert (row["forward_ns"], row["backward_ns"]) == (30_000, 20_000)


def test_the_main_thread_that_waits_for_autograds_thread_is_in_backward() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        annotation("## backward ##", 10, 80),
        span("autograd::engine::evaluate_function: X", 20, 50, tid=2),
    )
    row = steps_table(trace).frame.row(0, named=True)
    assert (row["backward_ns"], row["python_ns"]) == (50_000, 50_000)


def test_blocking_calls_and_graph_capture_have_phases_of_their_own() -> None:
    wait = span("cudaDeviceSynchronize", 15, 20, cat="cuda_runtime")
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("aten::item", 10, 30),
        wait,
        annotation("CUDAGraphNode.record (dynamo_timed)", 50, 40),
        span("aten::mm", 55, 5),
    )
    row = steps_table(trace).frame.row(0, named=True)
    assert [row[f"{name}_ns"] for name in ("waiting", "forward", "compile", "python")] == [
        20_000, 10_000, 40_000, 30_000,
    ]  # fmt: skip


def test_time_in_a_python_function_that_sleeps_is_idle() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        frame("train.py(3): step", 0, 90),
        frame("<built-in function sleep>", 10, 60),
        with_stack=1,
    )
    row = steps_table(trace).frame.row(0, named=True)
    assert (row["idle_ns"], row["python_ns"]) == (60_000, 40_000)


def test_device_time_is_the_union_within_the_step_on_the_busiest_device() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        launch(1, 1, correlation=1),
        kernel("a", 10, 20, correlation=1),
        kernel("b", 20, 30, correlation=1, stream=8),
        kernel("c", 90, 30, correlation=1),
        kernel("d", 0, 5, correlation=1, device=1),
    )
    assert steps_table(trace).frame["device_busy_ns"].to_list() == [50_000]


def test_a_trace_without_steps_has_an_empty_table() -> None:
    assert steps_table(make_trace(span("a", 0, 1))).frame.height == 0


def test_a_step_counts_the_launches_whose_work_is_missing() -> None:
    trace = make_trace(
        *(annotation(f"ProfilerStep#{number}", 100 * number, 100) for number in range(3)),
        *(launch(100 * n + at, 5, 100 * n + at) for n in range(3) for at in (10, 30)),
        *(kernel("gemm", 100 * n + at + 10, 5, 100 * n + at) for n in range(3) for at in (10, 30) if n != 1),
    )
    table = steps_table(trace)
    assert table.frame["missing"].to_list() == [0, 2, 0]
    assert table.bars is not None
    assert table.bars.lost == "missing"


def test_no_step_is_marked_where_nothing_is_missing() -> None:
    trace = make_trace(annotation("ProfilerStep#0", 0, 100), launch(10, 5, 1), kernel("gemm", 20, 5, 1))
    table = steps_table(trace)
    assert table.frame["missing"].to_list() == [0]
    assert table.bars is not None
    assert table.bars.lost is None


def test_what_the_recording_took_beside_a_step_is_a_column_where_it_is_known() -> None:
    trace = make_trace(annotation("ProfilerStep#2", 0, 100), span("aten::mm", 20, 60))
    assert "recording_ns" not in steps_table(trace).frame.columns
    inside = trace.steps.with_columns(pl.col("start_ns") + 15_000, pl.col("end_ns") - 5_000)
    table = steps_table(replace(trace, steps=inside))
    row = table.frame.row(0, named=True)
    assert (row["dur_ns"], row["forward_ns"], row["python_ns"], row["recording_ns"]) == (80_000, 60_000, 20_000, 20_000)
    assert [column.name for column in table.columns] == table.frame.columns


def test_a_step_that_does_not_count_says_why() -> None:
    trace = make_trace(
        *(annotation(f"ProfilerStep#{n}", 1000 * n, us) for n, us in enumerate((100, 400, 100, 120, 50)))
    )
    trace = replace(trace, steps=trace.steps.with_columns(complete=trace.steps["number"] != 4))
    assert steps_table(trace).frame["left_out"].to_list() == ["", "4 times the median", "", "", "not complete"]
    assert counted_rows(trace)["number"].to_list() == [0, 2, 3]


def test_steps_that_are_not_chosen_are_left_out() -> None:
    trace = make_trace(*(annotation(f"ProfilerStep#{n}", 1000 * n, 100) for n in range(3)))
    trace = replace(trace, meta=replace(trace.meta, chosen_steps=(1,)))
    assert steps_table(trace).frame["left_out"].to_list() == ["left out by you", "", "left out by you"]
