"""Ops and kernels in a part of the time: cut at its edges, and parts add up to the whole."""

from __future__ import annotations

import polars as pl
import pytest
from support import allocation, annotation, kernel, launch, make_trace, span

from torchprof_magic.facts.time_range import WHOLE, TimeRange
from torchprof_magic.model.trace import Trace
from torchprof_magic.tables.ops.kernels import kernels_table
from torchprof_magic.tables.ops.op_groups import ops_view
from torchprof_magic.tables.ops.op_table import OUTSIDE_OPS, ops_by, ops_table

FIRST, SECOND = TimeRange(0, 100_000), TimeRange(100_000, 200_000)


def two_steps() -> Trace:
    """An op of 60 us has one of 20 us inside and launches a kernel that ends 30 us into the second step."""
    return make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("outer", 10, 60),
        span("inner", 20, 20),
        launch(45, 1, correlation=1),
        kernel("gemm", 80, 50, correlation=1),
        annotation("ProfilerStep#1", 100, 100),
        span("outer", 90, 40),
        span("outer", 95, 20),
        kernel("copy", 150, 20, correlation=9, bytes=4000) | {"cat": "gpu_memcpy"},
        allocation(30, 512, 512),
        allocation(98, 256, 768),
    )


def by_name(frame: pl.DataFrame, *columns: str) -> dict[str, tuple[object, ...]]:
    return {row[0]: row[1:] for row in frame.select(pl.col("name").cast(pl.String), *columns).rows()}


def test_a_part_cuts_ops_and_what_is_inside_them_and_a_recursive_call_counts_once() -> None:
    found = by_name(ops_table(two_steps(), FIRST).frame, "calls", "self_cpu_ns", "total_cpu_ns")
    # The first call has 40 us of its own; of the second, 5 us lie before the call in it, which has the other 5.
    assert found["outer"] == (3, 50_000, 70_000)
    assert found["inner"] == (1, 20_000, 20_000)


def test_device_time_counts_where_it_runs_for_the_op_that_launched_it() -> None:
    trace = two_steps()
    assert by_name(ops_table(trace, FIRST).frame, "self_device_ns")["outer"] == (20_000,)
    second = by_name(ops_table(trace, SECOND).frame, "calls", "self_cpu_ns", "self_device_ns")
    assert second["outer"] == (2, 30_000, 30_000)
    assert second[OUTSIDE_OPS] == (0, 0, 20_000)
    late = by_name(ops_table(trace, TimeRange(130_000, 200_000)).frame, "calls", "self_device_ns")
    assert late == {OUTSIDE_OPS: (0, 20_000)}


def test_bytes_count_when_they_are_allocated() -> None:
    trace = two_steps()
    assert by_name(ops_table(trace, TimeRange(0, 50_000)).frame, "self_cpu_bytes")["inner"] == (512,)
    assert by_name(ops_table(trace, TimeRange(50_000, 100_000)).frame, "self_cpu_bytes")["outer"] == (256,)


@pytest.mark.parametrize(
    "column", ["self_cpu_ns", "total_cpu_ns", "self_device_ns", "total_device_ns", "self_cpu_bytes"]
)
def test_parts_add_up_to_the_whole(column: str) -> None:
    trace = two_steps()
    whole = by_name(ops_table(trace).frame, column)
    parts = [by_name(ops_table(trace, part).frame, column) for part in (FIRST, SECOND)]
    added = {name: sum(part.get(name, (0,))[0] for part in parts) for name in whole}  # type: ignore[misc]
    assert added == {name: value for name, (value,) in whole.items()}


def test_the_whole_is_the_part_that_holds_everything() -> None:
    trace, everything = two_steps(), TimeRange(-1, 10**9)
    assert ops_table(trace, everything).frame.equals(ops_table(trace, WHOLE).frame)
    assert kernels_table(trace, everything).frame.equals(kernels_table(trace).frame)
    assert ops_by(trace, "phase", part=everything).frame.equals(ops_by(trace, "phase").frame)


def test_kernels_are_cut_at_the_edges_with_the_bytes_of_copies() -> None:
    trace = two_steps()
    assert by_name(kernels_table(trace, FIRST).frame, "calls", "sum_ns", "max_ns") == {"gemm": (1, 20_000, 20_000)}
    half = kernels_table(trace, TimeRange(120_000, 160_000)).frame
    assert by_name(half, "sum_ns", "bytes", "bytes_per_s") == {
        "gemm": (10_000, None, None),
        "copy": (10_000, 2000, 2e8),
    }
    assert by_name(half, "sum_ratio") == {"gemm": (0.5,), "copy": (0.5,)}


def test_the_view_of_a_part_has_the_ops_alone() -> None:
    trace = two_steps()
    assert ops_view(trace, FIRST).outline is None
    assert ops_view(trace).outline is not None
