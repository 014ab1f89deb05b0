from __future__ import annotations

from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.analysis.steps import steps_table


def test_a_step_is_split_by_phase_and_the_rest_is_other() -> None:
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
    split = {name: row[f"{name}_ns"] for name in ("data", "forward", "backward", "optimizer", "communication", "other")}
    assert split == {
        "data": 10_000, "forward": 20_000, "backward": 25_000, "optimizer": 15_000, "communication": 0, "other": 30_000,
    }  # fmt: skip


def test_time_in_which_threads_overlap_counts_once() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("aten::mm", 0, 60),
        span("autograd::engine::evaluate_function: X", 40, 40, tid=2),
        annotation("nccl:all_reduce", 70, 20, tid=3),
    )
    row = steps_table(trace).frame.row(0, named=True)
    # communication 70..90, backward 40..70, forward 0..40, nothing 90..100
    assert [row[f"{name}_ns"] for name in ("communication", "backward", "forward", "other")] == [
        20_000, 30_000, 40_000, 10_000,
    ]  # fmt: skip


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
