from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from support import allocation, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.tables.ops.op_table import ops_table

if TYPE_CHECKING:
    from torchprof_magic.model.shapes import Table


def by_name(table: Table) -> dict[str, dict[str, object]]:
    return {str(row["name"]): row for row in table.frame.to_dicts()}


def test_self_time_leaves_out_what_is_directly_inside() -> None:
    ops = by_name(ops_table(make_trace(span("outer", 0, 10), span("inner", 2, 3), span("inner", 6, 1))))
    assert (ops["outer"]["self_cpu_ns"], ops["outer"]["total_cpu_ns"]) == (6000, 10000)
    assert (ops["inner"]["calls"], ops["inner"]["self_cpu_ns"], ops["inner"]["mean_cpu_ns"]) == (2, 4000, 2000)


def test_a_recursive_op_counts_once_a_stack_in_its_total() -> None:
    ops = by_name(ops_table(make_trace(span("f", 0, 10), span("f", 2, 6), span("g", 3, 4), span("f", 4, 1))))
    assert ops["f"]["total_cpu_ns"] == 10_000
    assert ops["f"]["self_cpu_ns"] == 4000 + 2000 + 1000
    assert ops["f"]["calls"] == 3


def test_device_time_goes_to_the_innermost_op_around_the_launch() -> None:
    trace = make_trace(
        span("aten::linear", 0, 20),
        span("aten::mm", 2, 10),
        launch(4, 2, correlation=1),
        kernel("gemm", 100, 50, correlation=1),
        kernel("gemm", 150, 30, correlation=1, stream=8),
    )
    ops = by_name(ops_table(trace))
    assert (ops["aten::mm"]["self_device_ns"], ops["aten::mm"]["total_device_ns"]) == (80_000, 80_000)
    assert (ops["aten::linear"]["self_device_ns"], ops["aten::linear"]["total_device_ns"]) == (0, 80_000)
    assert ops_table(trace).sort_by == "self_device_ns"


def test_bytes_go_to_the_op_that_allocated_them_on_its_own_thread() -> None:
    trace = make_trace(
        span("aten::empty", 0, 10), span("elsewhere", 0, 10, tid=2), allocation(5, 64, 64), allocation(6, -16, 48)
    )
    ops = by_name(ops_table(trace))
    assert ops["aten::empty"]["self_cpu_bytes"] == 48
    assert ops["elsewhere"]["self_cpu_bytes"] == 0


def test_columns_of_what_was_not_recorded_are_left_out() -> None:
    names = [column.name for column in ops_table(make_trace(span("a", 0, 1))).columns]
    assert "self_device_ns" not in names
    assert "self_cpu_bytes" not in names


def test_annotations_are_ops_but_steps_are_not() -> None:
    ops = by_name(ops_table(make_trace(annotation("ProfilerStep#1", 0, 9), annotation("mine", 1, 5), span("a", 2, 1))))
    assert set(ops) == {"mine", "a"}
    assert ops["mine"]["self_cpu_ns"] == 4000


def test_the_phase_is_where_the_op_spent_most_of_its_time() -> None:
    trace = make_trace(
        span("aten::mul", 0, 2),
        span("autograd::engine::evaluate_function: MulBackward0", 10, 20),
        span("aten::mul", 12, 9),
    )
    assert by_name(ops_table(trace))["aten::mul"]["phase"] == "backward"


def test_an_empty_trace_has_an_empty_table() -> None:
    assert ops_table(make_trace()).frame.height == 0


def test_a_launch_belongs_to_the_op_around_it_despite_an_overlapping_frame_between_them() -> None:
    trace = make_trace(
        span("aten::mm", 0, 100),
        frame("a.py(1): leave", 10, 100),  # outlives the op
        launch(20, 5, correlation=1),
        kernel("gemm", 200, 30, correlation=1),
        allocation(30, 64, 64),
        span("aten::inner", 40, 10),
    )
    ops = by_name(ops_table(trace))
    assert ops["aten::mm"]["self_device_ns"] == 30_000
    assert ops["aten::mm"]["self_cpu_bytes"] == 64
    assert ops["aten::mm"]["self_cpu_ns"] == 90_000


def test_a_launch_that_outlives_the_op_belongs_to_the_next_one_around_it() -> None:
    trace = make_trace(
        annotation("outer", 0, 100),
        span("aten::mm", 0, 20),
        launch(10, 15, correlation=1),
        kernel("gemm", 200, 30, correlation=1),
    )
    ops = by_name(ops_table(trace))
    assert (ops["outer"]["self_device_ns"], ops["aten::mm"]["self_device_ns"]) == (30_000, 0)


def test_results_are_computed_once_per_trace() -> None:
    trace = make_trace(span("a", 0, 1))
    assert ops_table(trace) is ops_table(trace)
    assert ops_table(trace) is not ops_table(make_trace(span("a", 0, 1)))


def test_device_work_of_no_op_has_a_row_of_its_own_so_that_the_column_adds_up() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("aten::mm", 0, 20),
        launch(5, 1, correlation=1),
        kernel("gemm", 10, 30, correlation=1),
        launch(50, 1, correlation=2),  # inside the step, but in no op
        kernel("fused", 60, 15, correlation=2),
        kernel("earlier", 80, 5, correlation=99),  # launched before the recording
    )
    ops = ops_table(trace).frame.select("name", "kind", "calls", "self_device_ns", "self_cpu_ns").rows()
    assert ops == [("aten::mm", "cpu_op", 1, 30_000, 20_000), ("outside of recorded ops", "no op", 0, 20_000, 0)]


SPREAD = ("median_cpu_ns", "p95_cpu_ns", "max_cpu_ns")


def test_an_op_has_the_spread_of_its_calls() -> None:
    # 1, 2, ... 20 us, and one of 100 us: of 21 calls, that at 0.95 * 20 = 19 is the 20th.
    lengths = [*range(1, 21), 100]
    calls = [span("aten::mm", 200 * at, length) for at, length in enumerate(lengths)]
    table = ops_table(make_trace(*calls, annotation("aten::mm", 9_000, 7)))
    assert table.frame.select("kind", "calls", *SPREAD).rows() == [
        ("cpu_op", 21, 11_000, 20_000, 100_000),
        ("user_annotation", 1, 7_000, 7_000, 7_000),
    ]
    assert all(column.unit == "ns" and not column.is_sum for column in table.columns if column.name in SPREAD)


def test_the_spread_is_that_of_whole_calls_with_what_is_inside() -> None:
    ops = by_name(ops_table(make_trace(span("f", 0, 10), span("f", 2, 6), span("g", 3, 4))))
    assert [ops["f"][name] for name in SPREAD] == [8_000, 10_000, 10_000]


def test_the_spread_is_that_of_an_independent_count() -> None:
    random = np.random.default_rng(5)
    lengths = {f"op{count}": random.integers(0, 900, count) for count in (1, 2, 7, 20, 21, 40, 41, 100, 101, 999)}
    calls = [
        span(name, at * 10_000 + 1_000 * number, int(us))
        for number, (name, durations) in enumerate(lengths.items())
        for at, us in enumerate(durations)
    ]
    ops = by_name(ops_table(make_trace(*calls)))
    for name, durations in lengths.items():
        ns = durations * 1_000
        expected = [np.median(ns), np.percentile(ns, 95, method="higher"), ns.max()]
        assert [ops[name][column] for column in SPREAD] == expected


def test_device_work_of_no_op_has_no_calls_and_so_no_spread() -> None:
    ops = by_name(ops_table(make_trace(span("a", 0, 5), kernel("gemm", 10, 50, correlation=9))))
    assert [ops["outside of recorded ops"][name] for name in SPREAD] == [0, 0, 0]
