"""Checks for after every failure: no profiler is on, and the next cell is recorded as usual."""

from __future__ import annotations

import gzip
import json
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from kernels import Cell, Kernel

SETUP = """%load_ext torchprof_magic
%config TorchProfMagics.preset = 'quick'
import asyncio, os, sys, warnings
import torch
import torchprof_magic as tp
from torch.profiler import record_function
def work():
    torch.ones(16).mul(2).sum()
"""
PATIENCE_SECONDS = 60.0
# Eight steps: one idle, one warm-up, steps 2 to 4 recorded.
LOOP = "for i in range(8):\n    work()\n"
# A failure may have changed the names in the kernel, so this imports everything again.
IS_OFF = """import torch as _torch
from torchprof_magic.capture import busy_profiler as _busy, live_session as _live
print(_torch.autograd._profiler_enabled(), _busy(), _live())
"""
RECORDED = "print(_after.steps['number'].to_list(), _after.steps['complete'].to_list(), _after.ops.height > 2)"
PROBLEMS = (
    "import torchprof_magic as _tp\nprint(*(f'{p.code} {p.message} {p.fix}' for p in _tp.last.problems), sep='\\n')"
)


def assert_off_and_usable(kernel: Kernel) -> None:
    """Assert that no profiler is on, no session is live, and the next cell is recorded completely."""
    assert kernel.run(IS_OFF).text == "False None None\n"
    cell = kernel.run(f"%%torchprof -o _after\nimport torch\n{LOOP.replace('work()', 'torch.ones(16).mul(2).sum()')}")
    assert (cell.reply["status"], cell.of("error"), len(cell.static)) == ("ok", [], 1)
    assert kernel.run(RECORDED).text == "[2, 3, 4] [True, True, True] True\n"
    assert kernel.run(IS_OFF).text == "False None None\n"


def problems(kernel: Kernel) -> str:
    """Return code, message and fix of every problem of the last report, one per line."""
    return kernel.run(PROBLEMS).text


def assert_ended_well(cell: Cell) -> None:
    """Assert that the cell ended as without the magic, and that its report is there."""
    assert (cell.reply["status"], cell.reply.get("evalue"), len(cell.static)) == ("ok", None, 1), cell.text


def assert_is_trace(path: Path) -> None:
    """Assert that the file is a complete trace of these cells."""
    data = path.read_bytes()
    names = {
        event.get("name")
        for event in json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)["traceEvents"]
    }
    assert "aten::mul" in names


def wait_for_end(kernel: Kernel) -> None:
    """Wait until the kernel's process has ended."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while kernel.manager.is_alive():
        assert time.monotonic() < deadline, "the kernel does not end"
        time.sleep(0.05)
