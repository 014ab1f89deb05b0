from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchprof_magic as tp
from torchprof_magic.capture.parts import Parts
from torchprof_magic.capture.watch import functions
from torchprof_magic.capture.watch.functions import CALLED, ENDED, MOST_CALLS_OF_STEP, RETURNED, FunctionLines

SOURCE = """\
def inner(x):
    y = x + 1
    return y

def outer():
    a = inner(1)
    b = inner(a)
    return b
"""


def defined(name: str = "<ipython-input-7-abc>") -> dict[str, Any]:
    names: dict[str, Any] = {}
    linecache.cache[name] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), name)
    exec(compile(SOURCE, name, "exec"), names)  # noqa: S102 - as a cell defines them
    return names


def noted(watch: FunctionLines) -> list[int]:
    """Lines, calls and returns in order."""
    marks = watch.take().tolist()[1::2]
    return [mark if mark < 0 else watch.sites[mark - 1].line for mark in marks]


def test_lines_of_the_users_functions_are_noted_with_calls_and_returns() -> None:
    names, watch = defined(), FunctionLines(Parts())
    watch.switch(is_on=True)
    names["outer"]()
    watch.switch(is_on=False)
    inner = [CALLED, 2, 3, RETURNED]
    found = noted(watch)
    start = found.index(6) - 1
    assert found[start : start + 13] == [CALLED, 6, *inner, 7, *inner, 8, RETURNED]


def test_libraries_are_not_watched() -> None:
    names, watch = defined(sys.modules["json"].__file__ or ""), FunctionLines(Parts())
    watch.switch(is_on=True)
    names["outer"]()
    watch.switch(is_on=False)
    assert not [site for site in watch.sites if "json" in site.file]


def test_tracing_ends_with_it() -> None:
    watch = FunctionLines(Parts())
    watch.switch(is_on=True)
    assert sys.gettrace() is not None
    watch.switch(is_on=False)
    assert sys.gettrace() is None
    assert sys._getframe().f_trace is None


def test_a_debugger_that_traces_already_is_left_alone() -> None:
    def debugger(frame: object, event: str, arg: object) -> None:
        del frame, event, arg

    watch = FunctionLines(Parts())
    before = sys.gettrace()
    sys.settrace(debugger)
    try:
        watch.switch(is_on=True)
        is_kept = sys.gettrace() is debugger
        watch.switch(is_on=False)
        is_kept_after = sys.gettrace() is debugger
    finally:
        sys.settrace(before)
    assert (is_kept, is_kept_after, watch.is_refused, watch.is_on) == (True, True, True, False)


OFTEN = """\
def add(x):
    return x + 1

def total(count):
    a = sum(x for x in range(count))
    for x in range(count):
        add(x)
    return a
"""


def test_functions_that_are_called_too_often_are_left_to_the_lines_that_call_them() -> None:
    names: dict[str, Any] = {}
    exec(compile(OFTEN, "<ipython-input-9-abc>", "exec"), names)  # noqa: S102 - as a cell defines them
    watch = FunctionLines(Parts())
    watch.switch(is_on=True)
    names["total"](MOST_CALLS_OF_STEP + 100)
    watch.end_step(is_kept=False)
    watch.take()
    names["total"](10)
    watch.switch(is_on=False)
    found = noted(watch)
    # The generator of line 5 and the function of line 2 are watched no more, also in the next step.
    assert [mark for mark in found if mark in range(1, 9)] == [5, *[6, 7] * 10, 6, 8]
    assert found.count(CALLED) <= found.count(RETURNED) + 1


LONG = """\
def short(x):
    return x + 1

def long(count):
    total = short(count)
    for x in range(count):
        total += x
    return short(total)
"""


def long_function(count: int) -> tuple[FunctionLines, list[int]]:
    """Return the watch of a call whose loop runs ``count`` times, and what it noted."""
    names: dict[str, Any] = {}
    exec(compile(LONG, "<ipython-input-9-abc>", "exec"), names)  # noqa: S102 - as a cell defines them
    watch = FunctionLines(Parts())
    watch.switch(is_on=True)
    names["long"](count)
    watch.switch(is_on=False)
    return watch, noted(watch)


def test_a_function_with_a_long_loop_is_left_to_the_line_that_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "MOST_LINES_OF_STEP", 10)
    watch, found = long_function(1_000)
    # Its first line, and nine in the loop; the function that it calls is timed before and after.
    assert [mark for mark in found if mark in range(1, 9)] == [5, 2, 6, 7, 6, 7, 6, 7, 6, 7, 6, 2]
    assert {site.first_line for site in watch.sites if site.is_left_out} == {4}
    assert watch.too_long == ["long"]
    assert found.count(RETURNED) == 3


def test_no_more_lines_are_noted_once_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "MAX_MARKS", 20)
    watch, found = long_function(1_000)
    assert len(found) == 20
    assert found[-1] == ENDED
    assert watch.lost
    assert sys.gettrace() is None


STEPS = """\
def steps(act):
    act(0)
    act(1)
    act(2)
"""


def walk(act: Callable[[int], None]) -> None:
    """Call ``act`` in three lines of a function, so that recordings can begin and end while it runs."""
    names: dict[str, Any] = {}
    exec(compile(STEPS, "<ipython-input-8-abc>", "exec"), names)  # noqa: S102 - as a cell defines them
    names["steps"](act)


def of_steps(watch: FunctionLines) -> list[int]:
    """Return the noted lines of ``steps``."""
    marks = watch.take().tolist()[1::2]
    sites = [watch.sites[mark - 1] for mark in marks if mark > 0]
    return [site.line for site in sites if site.file == "<ipython-input-8-abc>"]


def test_a_function_that_was_called_in_an_earlier_recording_is_noted_in_the_next() -> None:
    first, second = FunctionLines(Parts()), FunctionLines(Parts())

    def act(number: int) -> None:
        if number == 1:
            first.switch(is_on=False)
            second.switch(is_on=True)

    first.switch(is_on=True)
    walk(act)
    second.switch(is_on=False)
    # Where it is when the second one begins, and the line after.
    assert (of_steps(first), of_steps(second)) == ([1, 2, 3], [3, 4])


def test_a_function_that_was_called_in_an_earlier_cycle_is_noted_in_the_next() -> None:
    watch = FunctionLines(Parts())

    def act(number: int) -> None:
        if number < 2:
            watch.switch(is_on=number == 1)

    watch.switch(is_on=True)
    walk(act)
    watch.switch(is_on=False)
    assert of_steps(watch) == [1, 2, 3, 4]


def test_the_lines_around_the_steps_of_a_block_that_calls_a_function_are_known() -> None:
    def train() -> None:
        for _ in tp.steps(range(8)):
            x = torch.randn(4, 4)
            x.sum()

    with tp.profile(lines=True) as p:
        train()
    first = train.__code__.co_firstlineno
    hits = {row["line"] - first: row["hits"] for row in p.report.lines.rows(named=True) if row["hits"]}
    assert {line: hits.get(line) for line in (2, 3)} == {2: 3, 3: 3}
