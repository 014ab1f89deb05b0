"""The sentence above a table names the rows with the most time, with the numbers that the table shows."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from support import annotation, frame, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.facts.time_range import TimeRange
from torchprof_magic.model.shapes import Table
from torchprof_magic.model.trace import Trace
from torchprof_magic.render.text import column_text
from torchprof_magic.report.analysis import Analysis
from torchprof_magic.report.trace_report import Report
from torchprof_magic.report.views import VIEWS

STEPS = annotation("ProfilerStep#0", 0, 100), annotation("ProfilerStep#1", 100, 100)
OPS = span("aten::mm", 0, 30), span("aten::add", 40, 10), span("aten::mm", 100, 40), span("aten::add", 150, 10)


def answer(trace: Trace, view: str = "ops") -> str:
    table = Analysis(trace)[view]
    assert isinstance(table, Table)
    return table.answer


def test_the_largest_is_named_with_its_time_per_step_as_the_table_has_it() -> None:
    assert answer(make_trace(*STEPS, *OPS)) == "`aten::mm` takes the most self CPU time, 35.00 µs per step."


def test_without_steps_times_are_of_all_and_in_a_range_of_that() -> None:
    trace = make_trace(*OPS)
    assert answer(trace) == "`aten::mm` takes the most self CPU time, 70.00 µs."
    (ops,) = (view for view in VIEWS if view.name == "ops")
    assert ops.build is not None
    table = ops.build(trace, part=TimeRange(0, 60_000))
    assert isinstance(table, Table)
    assert table.answer == "`aten::mm` takes the most self CPU time, 30.00 µs in this range."


def test_a_scope_is_no_op_but_what_it_takes_itself_is_told() -> None:
    ops = span("aten::mm", 0, 30), span("aten::add", 40, 20)
    assert answer(make_trace(STEPS[0], annotation("train", 0, 100), *ops)) == (
        "`train` takes the most self CPU time, 50.00 µs per step, but is not an op. "
        "Of the ops, `aten::mm` takes the most self CPU time, 30.00 µs."
    )
    # With 80 us in ops, its 10 us are less than those of the first.
    ops = span("aten::mm", 0, 50), span("aten::add", 50, 30)
    said = "`aten::mm` takes the most self CPU time, 50.00 µs per step."
    assert answer(make_trace(STEPS[0], annotation("train", 0, 90), *ops)) == said


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "DataLoader"),
        ("CUDAGraphNode.record (dynamo_timed)", "CUDAGraphNode.record"),
        ("(dynamo_timed)", "(dynamo_timed)"),
        ("x" * 40, "x" * 31 + "…"),
    ],
)
def test_the_name_of_a_scope_is_short(name: str, shown: str) -> None:
    ops = span("aten::stack", 0, 20), span("aten::mm", 60, 30), span("aten::add", 90, 10)
    said = answer(make_trace(STEPS[0], annotation(name, 0, 60), *ops))
    assert said.startswith(f"`{shown}` takes the most self CPU time, 40.00 µs per step, but is not an op. Of the ops, ")


def test_of_what_is_mostly_done_once_the_sentence_says_so() -> None:
    # The call that loads the module takes 50 of the 55 us of the op.
    loading = span("cudaModuleLoadData", 2, 50, cat="cuda_runtime")
    said = answer(make_trace(STEPS[0], span("aten::mm", 0, 55), loading, span("aten::add", 60, 10)))
    assert "`aten::mm` takes the most self CPU time" in said
    assert said.endswith(", mostly initialisation that is done once.")


def test_the_range_around_loading_is_a_scope_also_where_it_was_written_as_an_op() -> None:
    fetch = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    ops = span(fetch, 0, 60), span("aten::stack", 0, 20), span("aten::mm", 60, 30), span("aten::add", 90, 10)
    assert answer(make_trace(STEPS[0], *ops)).startswith(
        "`DataLoader` takes the most self CPU time, 40.00 µs per step, but"
    )


def test_the_op_with_most_work_of_a_device_is_named_too_where_the_host_decides() -> None:
    launches = launch(10, 1, correlation=1), launch(60, 1, correlation=2)
    ops = span("aten::mm", 0, 50), span("aten::conv2d", 55, 40), *launches
    conv = make_trace(STEPS[0], *ops, kernel("a", 12, 2, correlation=1), kernel("b", 62, 5, correlation=2))
    said = "The host limits this run: `aten::mm` takes the most self CPU time, 50.00 µs per step"
    assert answer(conv) == f"{said}. On the device, `aten::conv2d` takes the most, 5.000 µs."
    same = make_trace(STEPS[0], *ops, kernel("a", 12, 6, correlation=1), kernel("b", 62, 5, correlation=2))
    assert answer(same) == f"{said}, and most on the device, 6.000 µs."


def test_where_a_scope_takes_most_of_the_host_no_third_name_follows_its_op() -> None:
    ops = span("aten::mm", 50, 30), launch(52, 1, correlation=1)
    trace = make_trace(STEPS[0], annotation("train", 0, 100), *ops, kernel("a", 60, 2, correlation=1))
    # Without the call of 1 us.
    assert answer(trace) == (
        "The host limits this run: `train` takes the most self CPU time, 70.00 µs per step, but is not an op. "
        "Of the ops, `aten::mm` takes the most self CPU time, 30.00 µs."
    )


def by_kernels(op_us: int, early_us: int) -> Trace:
    """A step in which the device works all the time: for an op, and for what was launched before."""
    return make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("aten::mm", 0, 20),
        launch(1, 1, correlation=1),
        kernel("early", 2, early_us, correlation=99),
        kernel("gemm", 2 + early_us, op_us, correlation=1),
    )


def test_work_of_no_op_is_told_where_it_is_more_than_that_of_any() -> None:
    assert answer(by_kernels(40, 55)) == (
        "55.00 µs of device work per step was launched outside of the recorded ops; of the ops `aten::mm` takes the "
        "most self device time, 40.00 µs."
    )


def test_where_no_op_is_known_the_kernel_is_named() -> None:
    early = kernel("early", 2, 95, correlation=99)
    said = answer(make_trace(annotation("ProfilerStep#0", 0, 100), span("aten::mm", 0, 20), early))
    taken = "The kernel `early` takes the most self device time, 95.00 µs per step"
    assert said == f"{taken}; all of it was launched outside of the recorded ops."
    kernels = answer(by_kernels(40, 55), "kernels")
    assert kernels == "`early` takes the most time, 55.00 µs per step."


def test_the_unit_is_that_of_the_table() -> None:
    mm, add = span("aten::mm", 0, 685), span("aten::add", 700, 12)
    said = answer(make_trace(mm, add, annotation("train", 0, 3_000)))
    # The scope takes 2.303 ms, so that the column is in ms.
    assert (
        said == "`train` takes the most self CPU time, 2.303 ms, but is not an op. "
        "Of the ops, `aten::mm` takes the most self CPU time, 0.685 ms."
    )


def test_a_single_row_needs_no_sentence() -> None:
    assert answer(make_trace(*STEPS, span("aten::mm", 0, 30))) == ""
    assert answer(make_trace(*STEPS)) == ""


def test_functions_are_called_by_their_names_and_files() -> None:
    stacks = [
        frame("/home/me/train.py(7): step", 0, 100),
        frame("/home/me/model.py(21): forward", 10, 70),
        span("aten::mm", 15, 20),
    ]
    trace = make_trace(annotation("ProfilerStep#0", 0, 100), *stacks, with_stack=1)
    said = "`forward` at `me/model.py:21` takes the most CPU time, 70.00 µs per step."
    assert answer(trace, "source") == said


def test_a_name_cannot_end_the_code_that_it_stands_in() -> None:
    said = answer(make_trace(*STEPS, span("a`b\u202ec", 0, 30), span("aten::mm", 40, 10)))
    assert said.startswith("`a'b\\u202ec` takes the most")


@pytest.mark.parametrize("name", ["02_a100_ddp_rank0of2.json.gz", "03_h100_qwen_stacks_memory.json.gz"])
def test_the_numbers_are_those_of_the_tables(traces: Path, name: str) -> None:
    report = tp.load(traces / name)
    found = Analysis(report.trace)
    steps = report.steps.height
    for view, rows, value in (("ops", report.ops.filter(kind="cpu_op"), ""), ("kernels", report.kernels, "sum_ns")):
        table = found[view]
        assert isinstance(table, Table)
        first, *_ = rows.sort(value or table.sort_by, descending=True)[value or table.sort_by]
        (column,) = (each for each in table.columns if each.name == (value or table.sort_by))
        title, write = column_text(column, table.frame, steps)
        unit = title.split()[-1]
        assert re.search(rf", {write(first)} {unit}( per step)?[.;,]", table.answer)


def test_a_scope_that_only_waits_for_autograd_competes_with_no_op() -> None:
    node = "autograd::engine::evaluate_function: MmBackward0"
    trace = make_trace(
        STEPS[0],
        annotation("## backward ##", 0, 90),
        span(node, 5, 80, tid=2),
        span("aten::mm", 10, 60, tid=2),
        span("aten::detach", 0, 2),
    )
    # The scope waits for 88 us.
    assert answer(trace) == "`aten::mm` takes the most self CPU time, 60.00 µs per step."
    (row,) = Report(trace).ops.filter(pl.col("name") == "## backward ##").to_dicts()
    assert row["phase"] == "waiting"
