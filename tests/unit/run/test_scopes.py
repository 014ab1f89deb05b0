from __future__ import annotations

from array import array
from dataclasses import replace
from pathlib import Path

import pytest
from support import annotation, make_trace, recording, span

from torchprof_magic.exporters.saved import write_saved
from torchprof_magic.loading import load
from torchprof_magic.model.meta import CellSource
from torchprof_magic.model.problems import problem
from torchprof_magic.model.recording import LineSite, ModuleSite, ProgramMarks
from torchprof_magic.model.trace import Trace
from torchprof_magic.run.scopes import with_scopes

BASE = 10**15
CELL = CellSource(label="In [4]", filename="cell", source="for x in y:\n    f(x)\n")
TRACE = make_trace(
    annotation("ProfilerStep#5", 0, 100), annotation("ProfilerStep#6", 100, 100), span("aten::mm", 10, 5)
)
THREAD = 1  # of make_trace


def at(us: float) -> int:
    """A moment of the trace by our own clock, which is BASE ahead."""
    return BASE + int(us * 1000)


# Torch's range began 1 to 3 us after we looked before, and 2 to 1 us before we looked after.
CLOCK = ((5, at(-1), at(2)), (6, at(97), at(101)))


def scopes(
    lines: list[tuple[float, int]] = (),  # type: ignore[assignment]
    calls: list[tuple[float, int, int]] = (),  # type: ignore[assignment]
    functions: list[tuple[float, int]] = (),  # type: ignore[assignment]
    modules: tuple[ModuleSite, ...] = (),
    function_lines: tuple[LineSite, ...] = (),
    clock: tuple[tuple[int, int, int], ...] = CLOCK,
    unix_ns: int | None = None,
    ended: int | None = None,
    trace: Trace = TRACE,
) -> list[tuple[str, int, int, int]]:
    """Name, lane, start and duration in us of the scopes."""
    marks = ProgramMarks(
        cycle=0,
        clock=clock,
        unix_ns=unix_ns,
        steps=() if ended is None else ((0, at(0), at(ended)),),
        lines=array("q", [number for us, line in lines for number in (at(us), line)]),
        calls=array("q", [number for us, thread, module in calls for number in (at(us), thread, module)]),
        functions=array("q", [number for us, line in functions for number in (at(us), line)]),
    )
    run = replace(recording(Path()), program=(marks,), modules=modules, function_lines=function_lines)
    sites, found, _ = with_scopes(trace, run, CELL)
    names = sites["name"].cast(str)
    return [
        (names[site].strip(), lane, start // 1000, dur // 1000)
        for site, lane, start, dur in found.select("site", "lane", "start_ns", "dur_ns").rows()
    ]


def site(path: str, class_name: str, parent: int = -1) -> ModuleSite:
    return ModuleSite(path=path, class_name=class_name, parent=parent, parameters=1, size_bytes=4)


def test_a_line_lasts_until_the_next_one_begins_and_0_is_none_of_the_cell() -> None:
    assert scopes(lines=[(10, 1), (20, 2), (50, 0), (60, 1), (70, 0)]) == [
        ("for x in y:", 0, 10, 10),
        ("f(x)", 0, 20, 30),
        ("for x in y:", 0, 60, 10),
    ]


def test_the_clocks_are_compared_by_the_steps_that_bound_them_best() -> None:
    # Step 5 allows -2..1 us, step 6 allows -1..3 us: together -1..1, in the middle 0.
    assert scopes(lines=[(10, 1), (20, 0)])[0][2] == 10


@pytest.mark.parametrize(("moved_us", "start_us"), [(0.5, 10.5), (-0.9, 9.1), (40, 11), (-40, 9)])
def test_the_time_since_1970_says_more_exactly_where_torchs_range_began(moved_us: float, start_us: float) -> None:
    # The steps allow -1..1 us.
    unix_ns = TRACE.meta.start_unix_ns - at(0) + int(moved_us * 1000)
    assert scopes(lines=[(10, 1), (20, 0)], unix_ns=unix_ns)[0][2] == int(start_us)


def test_steps_that_were_put_back_to_their_first_ops_began_before_them() -> None:
    """The ops of step 5 began 30 us after it; the range of step 6 begins where that of step 5 ended."""
    clock = ((5, at(-31), at(-28)), (6, at(97), at(101)))
    unix_ns = TRACE.meta.start_unix_ns - at(0) + 500
    moved = replace(TRACE, problems=(problem("chrome.moved_step", count=2),))
    assert scopes(lines=[(10, 1), (20, 0)], unix_ns=unix_ns, clock=clock, trace=moved)[0][2] == 10
    # Of a step that nobody has moved, the range tells more than such a clock.
    assert scopes(lines=[(10, 1), (20, 0)], unix_ns=unix_ns, clock=clock)[0][2] > 10


def test_what_lies_outside_of_the_recorded_steps_is_cut_off() -> None:
    assert scopes(lines=[(-50, 1), (20, 2), (150, 1), (250, 0)]) == [
        ("for x in y:", 0, 0, 20),
        ("f(x)", 0, 20, 130),
        ("for x in y:", 0, 150, 50),
    ]


def test_without_a_step_in_both_there_is_no_common_clock() -> None:
    assert scopes(lines=[(10, 1), (20, 0)], clock=((9, at(0), at(1)),)) == []


def test_calls_of_modules_are_on_their_thread_and_one_that_did_not_end_is_left_out() -> None:
    modules = (site("model", "Net"), site("layers.0", "Linear", parent=0))
    calls = [
        (10, THREAD, 0),
        (20, THREAD, 1),
        (30, THREAD, -2),
        (40, THREAD, -1),
        (50, 77, 1),
        (60, 77, -2),
        (70, 1, 0),
    ]
    assert scopes(calls=calls, modules=modules) == [
        ("", 0, 10, 30),
        ("layers.0", 0, 20, 10),
        ("layers.0", 1, 50, 10),  # a thread that is not in the trace gets a lane
    ]


def test_paths_of_two_models_begin_with_their_variables() -> None:
    modules = (site("gen", "Net"), site("0", "Linear", parent=0), site("", "Net"), site("0", "Linear", parent=2))
    calls = [(n * 10 + d, THREAD, m) for n in range(4) for d, m in ((0, n), (5, -n - 1))]
    assert [name for name, *_ in scopes(calls=calls, modules=modules)] == ["gen", "gen.0", "Net", "Net.0"]


def test_lines_of_functions_lie_inside_the_line_that_called_them() -> None:
    watched = (LineSite(file="cell", line=1, first_line=1), LineSite(file="cell", line=2, first_line=1))
    functions = [(20, -1), (21, 1), (25, 2), (27, -1), (28, 1), (29, -2), (32, -2)]
    found = scopes(lines=[(10, 2), (40, 0)], functions=functions, function_lines=watched)
    assert found == [
        ("f(x)", 0, 10, 30),
        ("for x in y:", 0, 21, 4),
        ("f(x)", 0, 25, 7),
        ("for x in y:", 0, 28, 1),
    ]


def test_a_line_of_a_function_in_which_the_last_step_ends_lasts_until_then() -> None:
    """As that which calls the optimizer, whose step ends the step."""
    watched = (LineSite(file="cell", line=1, first_line=1), LineSite(file="cell", line=2, first_line=1))
    found = scopes(functions=[(20, -1), (21, 1), (25, 2)], function_lines=watched, ended=60)
    assert found == [("for x in y:", 0, 21, 4), ("f(x)", 0, 25, 35)]


def test_lines_of_a_function_that_was_left_out_are_left_to_the_line_that_calls_it() -> None:
    watched = (LineSite(file="cell", line=1, first_line=1, is_left_out=True), LineSite(file="f", line=2, first_line=2))
    functions = [(20, -1), (21, 1), (25, -1), (26, 2), (28, -2), (32, -2)]
    found = scopes(lines=[(10, 2), (40, 0)], functions=functions, function_lines=watched)
    assert found == [("f(x)", 0, 10, 30), ("", 0, 26, 2)]


def test_lines_that_go_on_when_no_more_is_noted_end_there() -> None:
    watched = (LineSite(file="cell", line=1, first_line=1), LineSite(file="cell", line=2, first_line=1))
    found = scopes(functions=[(20, -1), (21, 1), (22, -1), (23, 2), (25, -3)], function_lines=watched, ended=60)
    assert found == [("for x in y:", 0, 21, 4), ("f(x)", 0, 23, 2)]


def test_lines_are_those_of_python_whatever_characters_are_in_them() -> None:
    source = "x = 'a\x0cb\u2028c\x1cd'\r\nfor y in x:\r    f(y)\n\ng()\n"
    cell = CellSource(label="In [4]", filename="cell", source=source)
    sites, _, _ = with_scopes(TRACE, recording(Path()), cell)
    assert sites["name"].to_list() == ["x = 'a\x0cb\u2028c\x1cd'", "for y in x:", "    f(y)", "", "g()"]


def test_a_line_of_a_hundred_kilobytes_is_kept_as_far_as_a_saved_run_may_hold_it(tmp_path: Path) -> None:
    cell = CellSource(label="In [4]", filename="cell", source=f"x = '{'a' * 100_000}'\nf(x)")
    sites, found, lanes = with_scopes(TRACE, recording(Path()), cell)
    trace = replace(TRACE, sites=sites, scopes=found, lanes=lanes)
    assert load(write_saved(trace, tmp_path / "run.torchprof")).trace.sites["name"].to_list()[1] == "f(x)"


def test_the_line_that_calls_a_loop_has_a_part_in_each_of_its_steps() -> None:
    watched = (LineSite(file="cell", line=1, first_line=1), LineSite(file="cell", line=2, first_line=1))
    # One call, whose first line goes on from before the first step until after the second, which the other is inside.
    functions = [(-20, -1), (-19, 1), (30, -1), (31, 2), (40, -2), (250, -2)]
    found = scopes(functions=functions, function_lines=watched)
    assert found == [("for x in y:", 0, 0, 100), ("f(x)", 0, 31, 9), ("for x in y:", 0, 100, 100)]
