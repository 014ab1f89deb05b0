from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from support import allocation, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA
from torchprof_magic.report.trace_report import Report
from torchprof_magic.tables.ops.op_table import ops_by, ops_table


def rows(*events: dict[str, object], by: tuple[str, ...], columns: tuple[str, ...], stack_n: int = 1) -> set[object]:
    return set(ops_by(make_trace(*events), *by, stack_n=stack_n).frame.select(*columns).rows())


def mm(start: float, dur: float, dims: list[list[int]], dtype: str = "float") -> dict[str, object]:
    return span("mm", start, dur, **{"Input Dims": dims, "Input type": [dtype]})


def test_ops_are_split_by_the_shapes_and_types_of_their_inputs() -> None:
    calls = (mm(0, 5, [[2, 3]]), mm(10, 7, [[2, 3]]), mm(20, 9, [[4, 4]]), mm(30, 1, [[4, 4]], "c10::Half"))
    assert rows(*calls, by=("shapes",), columns=("shapes", "calls", "total_cpu_ns")) == {
        ("[[2, 3]]", 2, 12_000),
        ("[[4, 4]]", 2, 10_000),
    }
    assert rows(*calls, by=("shapes", "dtypes"), columns=("shapes", "dtypes", "calls")) == {
        ("[[2, 3]]", '["float"]', 2),
        ("[[4, 4]]", '["float"]', 1),
        ("[[4, 4]]", '["c10::Half"]', 1),
    }


def test_a_recursive_op_counts_once_in_each_row_that_it_is_split_into() -> None:
    calls = (mm(0, 10, [[9]]), mm(1, 8, [[3]]), mm(2, 4, [[9]]))
    assert rows(*calls, by=("shapes",), columns=("shapes", "total_cpu_ns", "self_cpu_ns")) == {
        ("[[9]]", 10_000, 2000 + 4000),
        ("[[3]]", 8000, 4000),
    }
    assert ops_table(make_trace(*calls)).frame["total_cpu_ns"].to_list() == [10_000]


def test_ops_are_split_by_the_innermost_python_frames() -> None:
    calls = (
        frame("a.py(1): main", 0, 100),
        frame("a.py(5): left", 10, 20),
        span("mul", 12, 3),
        frame("a.py(9): right", 40, 20),
        span("mul", 42, 5),
        span("mul", 80, 7),
    )
    assert rows(*calls, by=("stack",), columns=("stack", "self_cpu_ns")) == {
        ("a.py(5): left", 3000),
        ("a.py(9): right", 5000),
        ("a.py(1): main", 7000),
    }
    assert rows(*calls, by=("stack",), columns=("stack",), stack_n=2) == {
        ("a.py(5): left ← a.py(1): main",),
        ("a.py(9): right ← a.py(1): main",),
        ("a.py(1): main",),
    }


def test_a_short_stack_is_one_row_whatever_its_callers() -> None:
    calls = (
        frame("a.py(1): one", 0, 10),
        frame("b.py(2): leaf", 1, 8),
        span("mul", 2, 1),
        frame("a.py(7): two", 20, 10),
        frame("b.py(2): leaf", 21, 8),
        span("mul", 22, 1),
    )
    assert rows(*calls, by=("stack",), columns=("stack", "calls")) == {("b.py(2): leaf", 2)}
    assert len(rows(*calls, by=("stack",), columns=("stack", "calls"), stack_n=9)) == 2


def test_ops_without_frames_have_no_stack() -> None:
    assert rows(span("mul", 0, 1), by=("stack",), columns=("name", "stack")) == {("mul", None)}


def test_ops_are_split_by_thread_and_threads_of_one_name_stay_apart() -> None:
    calls = (span("mul", 0, 1, tid=1), span("mul", 0, 2, tid=2))
    assert rows(*calls, by=("thread",), columns=("thread", "total_cpu_ns")) == {("thread 1", 1000), ("thread 2", 2000)}
    names = [{"ph": "M", "name": "thread_name", "pid": 7, "tid": tid, "args": {"name": "python"}} for tid in (1, 2)]
    assert rows(*calls, *names, by=("thread",), columns=("thread",)) == {("python (7/1)",), ("python (7/2)",)}


def test_ops_are_split_by_step_and_phase() -> None:
    calls = (
        annotation("ProfilerStep#4", 0, 50),
        span("mul", 1, 2),
        span("autograd::engine::evaluate_function: MulBackward0", 10, 20),
        span("mul", 12, 4),
        annotation("ProfilerStep#5", 60, 50),
        span("mul", 61, 8),
        span("mul", 200, 16),
    )
    split = rows(*calls, by=("step", "phase"), columns=("name", "step", "phase", "self_cpu_ns"))
    assert {row[1:] for row in split if row[0] == "mul"} == {  # type: ignore[index]
        (4, "forward", 2000),
        (4, "backward", 4000),
        (5, "forward", 8000),
        (None, "forward", 16_000),
    }


def test_device_time_follows_the_split() -> None:
    calls = (
        mm(0, 10, [[2]]),
        launch(1, 1, correlation=1),
        kernel("gemm", 20, 30, correlation=1),
        mm(50, 10, [[3]]),
        launch(51, 1, correlation=2),
        kernel("gemm", 70, 5, correlation=2),
    )
    assert rows(*calls, by=("shapes",), columns=("shapes", "self_device_ns", "total_device_ns")) == {
        ("[[2]]", 30_000, 30_000),
        ("[[3]]", 5000, 5000),
    }


def test_another_key_is_refused_by_name() -> None:
    report = Report(make_trace(span("mul", 0, 1)))
    with pytest.raises(ValueError, match="grouped by 'color'; choose from shapes, dtypes, overload, stack"):
        report.ops_by("color")
    with pytest.raises(ValueError, match="stack_n must be at least 1"):
        report.ops_by("stack", stack_n=0)


def test_an_empty_recording_splits_into_no_rows() -> None:
    assert ops_by(make_trace(), "shapes", "stack", "thread", "phase", "step").frame.height == 0


def test_overlapping_calls_are_counted_and_never_make_self_time_negative() -> None:
    trace = make_trace(
        annotation("outer", 0, 100),
        annotation("wait", 10, 60),
        annotation("wait", 20, 70),
        annotation("wait", 30, 65),
    )
    table = {row["name"]: row for row in ops_table(trace).frame.to_dicts()}
    # Together the three cover 10..95; torch's plain sum would leave 100 - 60 - 70 - 65 = -95.
    assert table["outer"]["self_cpu_ns"] == 15_000
    assert table["wait"]["overlapping_calls"] == 2
    assert table["outer"]["overlapping_calls"] == 0


def test_what_an_op_allocated_freed_and_held_at_most() -> None:
    trace = make_trace(
        span("outer", 0, 100),
        allocation(5, 100),
        span("inner", 10, 50),
        allocation(20, 400),
        allocation(30, -300),
        allocation(70, -150),
        span("other", 0, 100, tid=2),
        allocation(25, 9000, tid=2),
    )
    table = {row["name"]: row for row in ops_table(trace).frame.to_dicts()}
    picked = ("self_alloc_bytes", "self_free_bytes", "net_bytes", "peak_bytes", "self_cpu_bytes")
    # On its own thread outer sees 100, 500, 200, 50; inner sees 400, 100.
    assert [table["outer"][name] for name in picked] == [100, 150, 50, 500, -50]
    assert [table["inner"][name] for name in picked] == [400, 300, 100, 400, 100]
    assert [table["other"][name] for name in picked] == [9000, 0, 9000, 9000, 9000]


def test_the_peak_inside_an_op_is_that_of_its_largest_call_and_never_below_zero() -> None:
    trace = make_trace(
        span("op", 0, 10), allocation(1, 70), span("op", 20, 10), allocation(21, 30), span("free", 40, 5),
        allocation(41, -100),
    )  # fmt: skip
    table = {row["name"]: row for row in ops_table(trace).frame.to_dicts()}
    assert (table["op"]["peak_bytes"], table["op"]["net_bytes"]) == (70, 100)
    assert (table["free"]["peak_bytes"], table["free"]["net_bytes"]) == (0, -100)


def test_damaged_sizes_do_not_overflow() -> None:
    trace = make_trace(span("op", 0, 10), *(allocation(1 + at, 1) for at in range(4)))
    trace = replace(trace, memory=trace.memory.with_columns(pl.lit(2**62).alias("delta_bytes")))
    assert ops_table(trace).frame.select("self_alloc_bytes", "net_bytes").row(0) == (2**62, 2**62)


def test_ops_are_split_by_watched_line_and_module_and_backward_goes_with_its_forward_op() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("aten::mm", 5, 10, **{"Sequence number": 1}),
        span("aten::mm", 25, 10, **{"Sequence number": 2}),
        span("MmBackward0", 50, 20, **{"Sequence number": 2, "Fwd thread id": 1}),
        span("aten::mm", 52, 10),
    )
    line = {"kind": "line", "parent": -1, "file": "cell"}
    module = {"kind": "module", "parent": -1, "name": "head", "class_name": "Linear"}
    sites = [line | {"name": "a", "line": 1}, line | {"name": "b", "line": 2}, module]
    scopes = [(0, 0, 0, 20_000, 0), (1, 0, 20_000, 20_000, 0), (2, 0, 24_000, 12_000, 0)]
    watched = replace(
        trace,
        sites=pl.DataFrame(sites, schema=SITES_SCHEMA),
        scopes=pl.DataFrame(scopes, schema=SCOPES_SCHEMA, orient="row"),
    )
    by_line = ops_by(watched, "line").frame.filter(pl.col("name") == "aten::mm").sort("line")
    # The last mm runs within the node of the second one, so it is of line 2.
    assert by_line.select("line", "calls", "self_cpu_ns").rows() == [("cell:1", 1, 10_000), ("cell:2", 2, 20_000)]
    by_module = ops_by(watched, "module").frame.filter(pl.col("name") == "aten::mm").sort("calls")
    assert by_module.select("module", "calls").rows() == [(None, 1), ("head", 2)]
