from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import traceback
from textwrap import dedent
from typing import Any

import pytest

from torchprof_magic.capture import LineMarks
from torchprof_magic.run.line_marks import mark_lines, with_marks


def run(source: str, *, is_on: bool = True) -> tuple[dict[str, Any], list[int], str]:
    """Run a marked cell; return its variables, the lines that were noted in order, and what it printed."""
    marks = LineMarks()
    tree = mark_lines(ast.parse(dedent(source)), None)
    code = with_marks(compile(ast.fix_missing_locations(tree), "cell", "exec"), marks)
    marks.switch(is_on=is_on)
    names: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)  # noqa: S102 - what a cell does
    noted = list(marks.pending)
    assert all(time > 2**31 for time in noted[::2])
    return names, noted[1::2], printed.getvalue()


def lines(source: str) -> list[int]:
    return run(source)[1]


def test_every_statement_that_runs_is_noted_in_order() -> None:
    assert lines("a = 1\nb = 2\n\nc = (a +\n     b)\n") == [1, 2, 4]


def test_the_header_of_a_loop_is_noted_whenever_the_next_item_is_fetched() -> None:
    assert lines("for i in range(2):\n    x = i\ny = 1\n") == [1, 2, 1, 2, 1, 3]


def test_continue_goes_on_with_the_header_and_break_leaves() -> None:
    source = "for i in range(3):\n    if i == 0:\n        continue\n    break\nelse:\n    x = 1\n"
    assert lines(source) == [1, 2, 1, 2, 4]


def test_while_if_with_try_and_match_are_noted_where_they_run() -> None:
    source = """\
    i = 0
    while i < 1:
        i += 1
    if i:
        a = 1
    else:
        a = 2
    import contextlib
    with contextlib.nullcontext():
        b = 1
    try:
        c = 1 / 0
    except ZeroDivisionError:
        c = 2
    finally:
        d = 3
    match d:
        case 3:
            e = 4
    """
    assert lines(source) == [1, 2, 3, 2, 4, 5, 8, 9, 10, 9, 11, 12, 14, 16, 17, 19]


def test_functions_classes_and_comprehensions_are_not_marked_inside() -> None:
    source = "def f():\n    x = 1\n    return x\nclass C:\n    y = 2\nz = [f() for _ in range(3)]\n"
    assert lines(source) == [1, 4, 6]


def test_nothing_is_noted_while_marks_are_off() -> None:
    assert run("for i in range(3):\n    x = i\n", is_on=False)[1] == []


def test_inner_loops_have_a_switch_of_their_own() -> None:
    marks = LineMarks()
    source = "for i in range(2):\n    for j in range(2):\n        x = j\n"
    tree = ast.parse(source)
    loop = tree.body[0]
    assert isinstance(loop, ast.For)
    code = with_marks(compile(ast.fix_missing_locations(mark_lines(tree, loop)), "cell", "exec"), marks)
    marks.switch(is_on=True)
    marks.is_inner_on = False
    exec(code, {})  # noqa: S102 - the same
    assert list(marks.pending)[1::2] == [1, 2, 1, 2, 1]


PROGRAMS = [
    '"""A docstring."""\nx = __doc__\n',
    "from __future__ import annotations\nx: undefined = 1\nprint(__annotations__)\n",
    "import sys\nprint(sys._getframe().f_lineno)\n",
    "x = 1\ndel x\nprint('x' in globals())\n",
    "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n    g()\n    return n\nprint(f())\n",
    "def f():\n    global g\n    g = 5\nf()\nprint(g)\n",
    "for i in range(5):\n    if i == 3:\n        break\n    print(i)\nelse:\n    print('else')\nprint(i)\n",
    "n = 3\nwhile n:\n    n -= 1\n    if n == 1:\n        continue\n    print(n)\nelse:\n    print('done')\n",
    "try:\n    raise KeyError('a')\nexcept KeyError as e:\n    print(e)\nfinally:\n    print('f')\n",
    "x = 5\nx += 1; y = x if x else 0; print(x, y)\n",
    "print((lambda a: a + 1)(1), [i for i in range(3)], sorted({1: 2}))\n",
    "import types\nprint(type((lambda: (yield))()) is types.GeneratorType)\n",
    "assert True\npass\nprint(sum(i * i for i in range(4)))\n",
]


@pytest.mark.parametrize("source", PROGRAMS)
def test_a_marked_cell_does_and_prints_what_it_does_without_marks(source: str) -> None:
    plain: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "cell", "exec"), plain)  # noqa: S102 - the same
    names, _, found = run(source)
    assert found == printed.getvalue()
    assert {name for name in names if name != "__builtins__"} == {name for name in plain if name != "__builtins__"}


def test_a_traceback_has_the_lines_of_the_cell_and_no_frame_of_ours() -> None:
    with pytest.raises(ZeroDivisionError) as failure:
        run("for i in range(2):\n    x = 1\n    y = (2 *\n         i / 0)\n")
    frames = traceback.extract_tb(failure.value.__traceback__)
    assert [(frame.filename, frame.lineno) for frame in frames[-1:]] == [("cell", 3)]
    assert [frame.filename for frame in frames].count("cell") == 1


def test_a_cell_that_awaits_is_marked_around_it() -> None:
    marks = LineMarks()
    source = "import asyncio\nfor i in range(2):\n    await asyncio.sleep(0)\nx = i\n"
    tree = ast.fix_missing_locations(mark_lines(ast.parse(source), None))
    code = with_marks(compile(tree, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), marks)
    marks.switch(is_on=True)
    names: dict[str, Any] = {}

    async def main() -> None:
        await eval(code, names)  # noqa: S307 - the same

    asyncio.run(main())
    assert names["x"] == 1
    assert list(marks.pending)[1::2] == [1, 2, 3, 2, 3, 2, 4]
