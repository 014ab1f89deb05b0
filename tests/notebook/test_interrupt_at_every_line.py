"""Ctrl-C at any line of this package loses nothing.

A trace function counts the lines of the functions that run around a cell, and sends SIGINT at one of them. The tests
use a sample of the lines, which is the same as long as the code is the same.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from amount import sampled
from IPython.core.interactiveshell import InteractiveShell

import torchprof_magic
from torchprof_magic.capture import busy_profiler, live_session, switch_off
from torchprof_magic.ipython import extension
from torchprof_magic.runs import this_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

PACKAGE = str(Path(torchprof_magic.__file__).parent)
# Functions that run once or a few times per cell; tests/stress/interrupts.py covers the steps between.
FUNCTIONS = {
    "torchprof", "_record", "run_cell", "_finish", "_read", "_remember", "assign", "remember", "read_recording",
    "sweep", "open", "prepare", "start", "stop", "release", "finish", "cell_labels",
}  # fmt: skip
EVERY = 11
MOST_LINES = 1000
CELLS = {
    "loop": "%%torchprof -q\nfor i in range(7):\n    begun.append(i)\n    y = (a @ a).relu()\nover = True\n",
    "cell": "%%torchprof -q --step cell\nbegun.append(0)\ny = (a @ a).relu()\nover = True\n",
}
RECORDED = {"loop": {2, 3, 4}, "cell": {0}}


class Interrupter:
    """Sends one SIGINT at the n-th line of the functions."""

    def __init__(self, number: int) -> None:
        self.place = ""
        self._left = number

    def __call__(self, frame: FrameType, _event: str, _argument: object) -> Any:
        code = frame.f_code
        return self._line if code.co_name in FUNCTIONS and code.co_filename.startswith(PACKAGE) else None

    def _line(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event in ("line", "return"):
            self._left -= 1
            if self._left == 0:
                sys.settrace(None)
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name}, {event})"
                os.kill(os.getpid(), signal.SIGINT)
        return self._line


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    found = InteractiveShell()
    extension.load(found)
    found.run_cell("import torch\na = torch.ones(8, 8)")
    yield found
    extension.unload(found)
    switch_off()


def interrupted(shell: InteractiveShell, cell: str, interrupter: Interrupter) -> BaseException | None:
    """Run a cell and return its output."""
    traced = sys.gettrace()
    try:
        sys.settrace(interrupter)
        result = shell.run_cell(cell, store_history=True)
    except KeyboardInterrupt as error:
        return error
    finally:
        sys.settrace(traced)
    return result.error_in_exec or result.error_before_exec


@pytest.mark.parametrize("kind", CELLS)
def test_an_interrupt_at_any_line_ends_the_cell_and_loses_no_step(
    shell: InteractiveShell, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in sampled(range(1, MOST_LINES, EVERY), 4):
        shell.user_ns |= {"begun": [], "over": False}
        before, interrupter = this_process.last(), Interrupter(number)
        error = interrupted(shell, CELLS[kind], interrupter)
        said = capsys.readouterr().out
        if not interrupter.place:
            break
        where = interrupter.place
        assert isinstance(error, KeyboardInterrupt), where
        assert gc.isenabled(), where
        assert not torch.autograd._profiler_enabled(), where
        assert (busy_profiler(), live_session()) == (None, None), where
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, where
        assert "_torchprof_steps_" not in shell.user_ns, where
        begun: list[int] = shell.user_ns["begun"]
        ended = set(begun if shell.user_ns["over"] else begun[:-1])
        report = this_process.last()
        kept = set() if report is before or report is None else set(report.steps.filter("complete")["number"])
        assert (ended & RECORDED[kind]) <= kept or "The trace is kept in" in said, where
    assert number > 60
