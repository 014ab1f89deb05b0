"""Averages and their table are torch's own for every combination of flags, groupings and arguments."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
import torch
from amount import thorough
from support import allocation, kernel, launch, make_trace, span
from test_parity import TOLERANCE_US
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, record_function

import torchprof_magic as tp
from torchprof_magic.report.trace_report import Report
from torchprof_magic.tables.ops.groups import FRAME_BREAK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FLAGS = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
PRODUCTS = ("aten::mm", "aten::bmm")
CONFIGS = {
    "plain": {},
    "verbose": {"verbose": True},
    "overloads": {"capture_overload_names": True},
    "everything": {"verbose": True, "capture_overload_names": True},
}
GROUPINGS: tuple[dict[str, Any], ...] = tuple(
    {"group_by_input_shape": by_shape, "group_by_stack_n": depth, "group_by_overload_name": by_overload}
    for by_shape, depth, by_overload in ((False, 0, False), (True, 0, False), (False, 2, True), (True, 2, False))
)


def multiply() -> None:
    """Run ops of several shapes, in and outside of a range, and twice the same from two lines."""
    wide = torch.ones(4, 3)
    with record_function("products"):
        torch.mm(wide, torch.ones(3, 5))
        torch.mm(wide.t(), wide)
    torch.bmm(torch.ones(2, 3, 4), torch.ones(2, 4, 3))
    wide.pow(2).pow(wide)
    torch.cat([wide, torch.ones(2, 3)])
    torch.mm(wide, torch.ones(3, 5))


def recorded(folder: Path, config: str, **flags: bool) -> tuple[tp.Report, profile]:
    with profile(
        activities=[ProfilerActivity.CPU], experimental_config=_ExperimentalConfig(**CONFIGS[config]), **flags
    ) as profiler:
        for _ in range(2):
            multiply()
            profiler.step()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    return tp.load(folder / "trace.json"), profiler


def place(row: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(map(str, row[:5]))


def ours_of(report: tp.Report, **how: Any) -> list[tuple[Any, ...]]:
    """Return key, kind of range, shapes, stack and overload of every row, then its numbers, times in us."""
    rows = [
        (
            row["key"],
            row["kind"] == "user_annotation",
            row.get("shapes", ""),
            row.get("stack", ""),
            row.get("overload", ""),
            row["count"],
            row["self_cpu_ns"] / 1e3,
            row["total_cpu_ns"] / 1e3,
            row.get("self_cpu_bytes", 0),
            row.get("total_cpu_bytes", 0),
            (row.get("flops") or 0) if row["key"] in PRODUCTS and report.trace.meta.has_flops else 0,
        )
        for row in report.key_averages(**how).to_dicts()
    ]
    return sorted(rows, key=place)


def theirs_of(profiler: profile, **how: Any) -> list[tuple[Any, ...]]:
    rows = [
        (
            row.key,
            bool(row.is_user_annotation),
            str(row.input_shapes),
            FRAME_BREAK.join(row.stack),
            row.overload_name,
            row.count,
            row.self_cpu_time_total,
            row.cpu_time_total,
            row.self_cpu_memory_usage,
            row.cpu_memory_usage,
            row.flops if row.key in PRODUCTS else 0,
        )
        for row in profiler.key_averages(**how)
    ]
    return sorted(rows, key=place)


def check_same(ours: Sequence[tuple[Any, ...]], theirs: Sequence[tuple[Any, ...]]) -> None:
    assert [(*place(row), row[5]) for row in ours] == [(*place(row), row[5]) for row in theirs]
    for row, other in zip(ours, theirs, strict=True):
        near = TOLERANCE_US * other[5]
        assert row[6:8] == pytest.approx(other[6:8], abs=near), row
        assert row[8:] == other[8:], row


@pytest.mark.filterwarnings("ignore:with_modules is deprecated:FutureWarning")
@pytest.mark.parametrize(
    ("config", "with_stack"), [("plain", False), ("plain", True), pytest.param("verbose", True, marks=thorough)]
)
def test_averages_equal_torchs_for_every_combination_of_flags_and_groupings(
    tmp_path: Path, config: str, *, with_stack: bool
) -> None:
    for others in product([False, True], repeat=len(FLAGS) - 1):
        flags = dict(zip((name for name in FLAGS if name != "with_stack"), others, strict=True))
        check_groupings(*recorded(tmp_path, config, with_stack=with_stack, **flags))


@pytest.mark.parametrize("config", ["overloads", "everything"])
def test_averages_by_overload_equal_torchs(tmp_path: Path, config: str) -> None:
    for record_shapes, with_stack in product([False, True], repeat=2):
        report, profiler = recorded(tmp_path, config, record_shapes=record_shapes, with_stack=with_stack)
        check_groupings(report, profiler)
        overloads = report.key_averages(group_by_overload_name=True).filter(pl.col("key") == "aten::pow")["overload"]
        assert sorted(overloads) == ["Tensor_Scalar", "Tensor_Tensor"]


def check_groupings(report: tp.Report, profiler: profile) -> None:
    for how in GROUPINGS:
        check_same(ours_of(report, **how), theirs_of(profiler, **how))


def test_overloads_are_a_column_and_a_grouping_and_no_part_of_names(tmp_path: Path) -> None:
    report, _ = recorded(tmp_path, "overloads")
    assert "aten::pow" in report.ops["name"].to_list()
    rows = report.ops_by("overload").filter(pl.col("name") == "aten::pow").select("overload", "calls").rows()
    assert sorted(rows) == [("Tensor_Scalar", 2), ("Tensor_Tensor", 2)]
    for copy in (report.export(tmp_path / "copy.json"), report.save(tmp_path / "copy.torchprof")):
        assert tp.load(copy).events["overload"].to_list() == report.events["overload"].to_list()


ARGUMENTS: tuple[dict[str, Any], ...] = (
    {},
    {"row_limit": 3},
    {"row_limit": 0},
    {"header": "what ran"},
    {"top_level_events_only": True},
    {"header": "what ran", "top_level_events_only": True, "row_limit": 1},
    {"max_name_column_width": 12},
    {"max_name_column_width": None},
    {"max_shapes_column_width": 9},
    {"max_shapes_column_width": None},
    {"max_src_column_width": 20},
    {"max_src_column_width": None},
    {"sort_by": "count", "row_limit": -1},
    {"sort_by": "key"},
    {"sort_by": "self_cpu_memory_usage"},
    {"sort_by": "flops"},
)


@pytest.mark.parametrize(
    ("with_stack", "with_flops"),
    [
        (True, False),
        (False, True),
        pytest.param(False, False, marks=thorough),
        pytest.param(True, True, marks=thorough),
    ],
)
def test_the_table_takes_every_argument_of_torchs_with_the_same_result(
    tmp_path: Path, *, with_stack: bool, with_flops: bool
) -> None:
    flags = {"with_stack": with_stack, "with_flops": with_flops, "profile_memory": with_stack}
    report, profiler = recorded(tmp_path, "everything", record_shapes=True, **flags)
    for arguments, how in product(ARGUMENTS, GROUPINGS):
        # Nothing lasts a ms, so that no time is rounded in another way than torch rounds it.
        theirs = profiler.key_averages(**how).table(time_unit="s", **arguments)
        ours = report.key_averages_table(time_unit="s", **arguments, **how)
        if with_flops and with_stack and how["group_by_stack_n"]:
            continue  # torch has the titles of these two columns the wrong way round
        assert ours.splitlines() == theirs.splitlines(), (arguments, how)


def test_memory_that_was_asked_for_has_its_columns_also_where_nothing_was_allocated(tmp_path: Path) -> None:
    x = torch.ones(3)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        x.neg_()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    theirs = profiler.key_averages().table(time_unit="s")
    assert tp.load(tmp_path / "trace.json").key_averages_table(time_unit="s") == theirs
    assert "Self CPU Mem" in theirs


@pytest.mark.parametrize(("device_type", "title"), [(1, "CUDA"), (6, "CUDA"), (12, "XPU")])
def test_the_device_is_called_as_torch_calls_it(device_type: int, title: str) -> None:
    allocated = allocation(3, 64)
    allocated["args"] |= {"Device Type": device_type, "Device Id": 0}
    work = (launch(2, 1, correlation=1), kernel("gemm", 4, 5, correlation=1))
    table = Report(make_trace(span("aten::mm", 0, 10), allocated, *work)).key_averages_table()
    assert {f"Self {title}", f"{title} Mem"} <= set(re.split(r"  +", table.splitlines()[1]))


def test_flops_stand_before_the_source_and_where_none_are_known_there_are_none(tmp_path: Path) -> None:
    report, _ = recorded(tmp_path, "verbose", with_stack=True, with_flops=True)
    lines = report.key_averages_table(group_by_stack_n=2, row_limit=-1).splitlines()
    title = lines[1]
    flops, source = title.index("Total FLOPs"), title.index("Source Location")
    assert flops < source
    product_of_wide = next(line for line in lines if line.startswith(" ") and " aten::mm " in line)
    assert product_of_wide[:source].split()[-1] == "624.000"  # in two steps: 4 * (2 * 4 * 3 * 5) + 2 * (2 * 3 * 4 * 3)
    assert product_of_wide[source:].split()[0].startswith("<built-in")


def test_positional_arguments_are_in_torchs_order() -> None:
    from inspect import signature  # noqa: PLC0415 - of this test alone

    from torch.autograd.profiler_util import EventList  # noqa: PLC0415

    theirs = list(signature(EventList.table).parameters.values())
    ours = list(signature(tp.Report.key_averages_table).parameters.values())[: len(theirs)]
    assert [(each.name, each.default) for each in ours] == [(each.name, each.default) for each in theirs]
