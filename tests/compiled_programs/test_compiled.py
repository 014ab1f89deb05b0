"""Reasons, lines and counts of `report.compilations`, for written programs and beside the counters of the compiler."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch._dynamo
from amount import sampled
from torch._dynamo import utils

import torchprof_magic as tp
from torchprof_magic.capture.torch_api import features
from torchprof_magic.report.views import VIEWS

sys.path.insert(0, str(Path(__file__).parent))
from compiled import PROGRAMS, STEPS, Numbered, Program

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    _reset()
    yield
    _reset()


def _reset() -> None:
    torch._dynamo.reset()
    utils.counters.clear()
    utils.clear_compilation_metrics()


def counted() -> dict[str, Any]:
    """Return all counts of the compiler, by their names, and how many graphs broke."""
    found = {f"{kind}: {name}": count for kind, names in utils.counters.items() for name, count in names.items()}
    frames = {name: found.get(name, 0) for name in ("frames: total", "frames: ok")}
    return {**found, **frames, "breaks": len(utils.graph_break_reasons)}


def run_plain(program: Program) -> dict[str, Any]:
    step = program.make()
    for at in range(program.steps):
        step(at)
    return counted()


def run_recorded(program: Program) -> tuple[dict[str, Any], tp.Report]:
    step = program.make()
    with tp.profile() as run:
        for at in tp.steps(range(program.steps)):
            step(at)
    assert run.report is not None
    return counted(), run.report


def compilations(report: tp.Report) -> pl.DataFrame:
    return report.compilations


@pytest.mark.filterwarnings("ignore:.*recompile")
@pytest.mark.parametrize("program", sampled(PROGRAMS, 3), ids=lambda program: program.name)
def test_reasons_lines_and_counts_are_those_of_the_program(program: Program) -> None:
    plain = run_plain(program)
    _reset()
    recorded, report = run_recorded(program)
    assert recorded == plain
    table = compilations(report)
    if not features.is_known(features.RECOMPILE_REASON) and (program.failed or program.code is Numbered):
        assert table["again"].sum() >= STEPS - 1  # it tells neither what is given up nor of other instances
        return
    assert table.height == plain["frames: total"]
    assert table.filter(table["failed"] == "").height == plain["frames: ok"]
    assert table["breaks"].sum() == plain["breaks"] == len(program.breaks)
    # torch does not count an `if` on a tensor under "graph_break".
    told = sum(count for name, count in plain.items() if name.startswith("graph_break: "))
    assert told == plain["breaks"] or "branching" in program.breaks[0]

    again = table.filter(table["again"])
    assert again["cause"].to_list() == [each.cause for each in program.again]
    for row, expected in zip(again.iter_rows(named=True), program.again, strict=True):
        assert expected.guard in row["guard"]
        assert row["value"] == expected.value
        assert row["function"] in (program.code.__name__, "forward")
        assert row["guard_line"] in (None, program.line_of("guards"))
    broken = table.filter(table["breaks"] > 0)
    for row, reason in zip(broken.iter_rows(named=True), program.breaks, strict=True):
        assert reason in row["break_reason"]
        assert row["break_line"] == program.line_of("breaks")
        assert row["break_file"] == row["file"] == PROGRAMS[0].code.__code__.co_filename
    assert [program.failed in failed for failed in table["failed"] if failed] == [True] * bool(program.failed)


def test_compilations_have_their_steps_and_their_times() -> None:
    program = PROGRAMS[0]
    _, report = run_recorded(program)
    table, steps = compilations(report), report.steps
    assert table["step"].to_list() == list(range(program.steps))
    parts = table.select("dynamo_ns", "backend_ns", "inductor_ns", "codegen_ns").sum_horizontal()
    assert parts.to_list() == table["dur_ns"].to_list()
    both = table.join(steps.select("number", "start_ns", "dur_ns", "compile_ns"), left_on="step", right_on="number")
    assert both.height == steps.height > 0
    assert (both["start_ns"] >= both["start_ns_right"]).all()
    assert (abs(both["dur_ns"] - both["compile_ns"]) < 0.2 * both["dur_ns"]).all()
    assert (table["step_ratio"] > 0.1).all()


def test_what_was_compiled_before_the_run_is_not_listed() -> None:
    program = PROGRAMS[0]
    step = program.make()
    step(0)
    with tp.profile() as run:
        for at in tp.steps(range(program.steps)):
            step(at)
    assert run.report is not None
    table = compilations(run.report)
    assert table["again"].to_list() == [True] * (program.steps - 1)
    assert table["step"].to_list() == [1, 2, 3]


def test_a_saved_run_keeps_them(tmp_path: object) -> None:
    _, report = run_recorded(PROGRAMS[0])
    loaded = tp.load(report.save(f"{tmp_path}/run.torchprof"))
    assert compilations(loaded).equals(compilations(report))
    assert compilations(loaded).height > 0


def test_nothing_is_left_in_the_compiler_after_a_run() -> None:
    handler: Any = torch._dynamo.callback_handler
    before = list(handler.start_callbacks), list(handler.end_callbacks)
    run_recorded(PROGRAMS[0])
    assert (handler.start_callbacks, handler.end_callbacks) == before


def test_the_page_lists_them_where_something_was_compiled() -> None:
    _, report = run_recorded(PROGRAMS[0])
    with tp.profile() as run:
        for _ in tp.steps(range(4)):
            torch.ones(3).sin()
    assert run.report is not None
    view = next(each for each in VIEWS if each.name == "compilations")
    assert view.is_there is not None
    assert [view.is_there(each.trace) for each in (report, run.report)] == [True, False]
