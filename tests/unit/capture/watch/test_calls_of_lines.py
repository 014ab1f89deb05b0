"""Tests of what a running line of the user's is said to call."""

from __future__ import annotations

import _thread
import asyncio
import dis
import linecache
import queue
import socket
import subprocess
import sys
import time
from types import CodeType

import pytest

from torchprof_magic.capture.watch.calls_of_lines import Callee, RunningLine, name_of_call

CALLS = ("CALL", "CALL_FUNCTION", "CALL_METHOD", "BEFORE_WITH")
has_positions = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 knows no columns")


def running(source: str, callee: Callee | None = None, number: int = 0, **names: object) -> RunningLine:
    """A place in some code: one of its calls, by number, in the order in which they are made."""
    linecache.cache["cell"] = (len(source), None, source.splitlines(keepends=True), "cell")
    code = compile(source, "cell", "exec")
    calls = [each.offset for each in dis.get_instructions(code) if each.opname in CALLS]
    return RunningLine(code, calls[number], callee, names)


def test_a_function_of_c_has_the_name_of_its_module_whatever_the_program_calls_it() -> None:
    assert name_of_call(running("time.sleep(1)\n", time=time)) == "time.sleep"
    assert name_of_call(running("t.sleep(1)\n", t=time)) in {"time.sleep", "t.sleep"}
    assert running("time.sleep(1)\n").line == 1


@has_positions
def test_another_name_of_a_module_or_function_is_looked_up() -> None:
    assert name_of_call(running("t.sleep(1)\n", t=time)) == "time.sleep"
    assert name_of_call(running("nap(1)\n", nap=time.sleep)) == "time.sleep"
    assert name_of_call(running("nap(1)\n", nap=lambda _: None)) == "nap"
    assert name_of_call(running("lock.acquire()\n", lock=_thread.allocate_lock())) == "lock.acquire"


@has_positions
def test_of_several_calls_on_a_line_the_one_that_runs_is_named() -> None:
    source = "work(); q.put(1); time.sleep(2)\n"
    assert [name_of_call(running(source, number=number)) for number in range(3)] == ["work", "q.put", "time.sleep"]


@has_positions
def test_a_call_may_stand_on_several_lines_and_be_inside_another() -> None:
    source = "f(\n  g(1),\n  2)\n"
    assert [(name_of_call(running(source, number=n)), running(source, number=n).line) for n in (0, 1)] == [
        ("g", 2),
        ("f", 1),
    ]
    assert name_of_call(running("x = 'é'; é.sleep(1)\n")) == "é.sleep"


@has_positions
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="there it is a call like others")
def test_what_a_with_statement_enters_is_named() -> None:
    assert name_of_call(running("with lock:\n    pass\n")) == "with lock"


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (queue.Queue.get, "Queue.get"),
        (subprocess.run, "subprocess.run"),
        (asyncio.sleep, "asyncio.sleep"),  # defined in asyncio.tasks
        (socket.create_connection, "socket.create_connection"),
        (asyncio.wait_for, "asyncio.wait_for"),
    ],
)
@has_positions
def test_a_function_of_python_has_the_name_by_which_its_outermost_package_offers_it(
    function: object, name: str
) -> None:
    code, module = function.__code__, function.__module__  # type: ignore[attr-defined]
    assert isinstance(code, CodeType)
    assert name_of_call(running("anything(1)\n", callee=Callee(code, module))) == name


def test_what_has_no_source_has_no_name() -> None:
    at = running("time.sleep(1)\n", time=time)
    linecache.cache.pop("cell")
    assert name_of_call(at) == ""


def test_an_import_is_called_so() -> None:
    code = compile("pass", "<frozen importlib._bootstrap>", "exec")
    assert name_of_call(running("anything(1)\n", callee=Callee(code, "importlib._bootstrap"))) == "import"
