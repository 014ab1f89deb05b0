"""A kernel for failing cells, and checks for after every failure."""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from kernels import Cell, Kernel

FIRST = """
%load_ext torchprof_magic
%config TorchProfMagics.preset = 'quick'
import os, signal, sys, threading, time
import torch, torch._inductor.config
import torchprof_magic as tp
from concurrent.futures import ThreadPoolExecutor
from torchprof_magic.capture import busy_profiler, live_session
handler = signal.getsignal(signal.SIGINT)

def hang():
    print("here", flush=True)
    while True:
        time.sleep(0.001)

def interrupt_in(owner, name, times=1):
    "Send Ctrl-C to this kernel when a function is called the next time, before it does anything."
    original = getattr(owner, name)
    def interrupted(*arguments, **named):
        setattr(owner, name, original)
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
        return original(*arguments, **named)
    setattr(owner, name, interrupted)
"""
LOOP = "for i in range(8):\n    y = torch.ones(16).mul(2).sum()\n"
# Without flags, a loop of eight steps waits in step 0, warms up in step 1 and records steps 2, 3 and 4.
RECORDED = "[2, 3, 4]"
TORCH = "torch.profiler.profiler._KinetoProfile"


def assert_recovered(kernel: Kernel) -> None:
    """Assert that no profiler is on, no session is live and Ctrl-C works, and that the next cell is recorded."""
    state = "torch.autograd._profiler_enabled(), busy_profiler(), live_session()"
    assert kernel.run(f"print({state}, signal.getsignal(signal.SIGINT) is handler)").text == "False None None True\n"
    cell = kernel.run(f"%%torchprof -q -o following\n{LOOP}")
    assert (cell.reply["status"], cell.text) == ("ok", "")
    asked = "following.steps.filter('complete')['number'].to_list(), 'aten::mul' in list(following.ops['name'])"
    assert kernel.run(f"print({asked})").text == f"{RECORDED} True\n"


def let_torch_finish_talking(kernel: Kernel) -> None:
    """Wait for the lines that torch logs about a profiler of the user's own.

    A kernel reads descriptor 2 beside its cells, and shows what it has read with whatever cell then runs, or between
    two, where nobody looks: so lines of our own go after them, until one is shown by the cell that wrote it.
    """
    text = ""
    for attempt in range(100):
        last = f"torch has said it all ({attempt})"
        shown = kernel.run(f"os.write(2, b'{last}\\n'); time.sleep(0.1)").text
        if last in shown:
            return
        text += shown
    pytest.fail(f"what was written to descriptor 2 is not shown: {text!r}")


def warnings_of(cell: Cell) -> list[str]:
    """Return the warnings in the report that a cell shows."""
    (static,) = cell.static
    return [html.unescape(text).strip() for text in re.findall(r"<p>⚠ (.*?)</p>", static)]


def warned(cell: Cell, words: str) -> bool:
    return any(words in text for text in warnings_of(cell))


def notes(kernel: Kernel) -> list[str]:
    """Return the messages of the last report's Notes."""
    return json.loads(kernel.run("import json; print(json.dumps([p.message for p in tp.last.problems]))").text)


def steps(kernel: Kernel) -> str:
    """Return the steps of the last report, and whether each was complete."""
    return kernel.run("print(tp.last.steps['number', 'complete'].rows())").text.strip()


def ops(kernel: Kernel, report: str = "tp.last") -> set[str]:
    return set(json.loads(kernel.run(f"import json; print(json.dumps({report}.ops['name'].to_list()))").text))


def outcome(cell: Cell) -> str:
    """Return the name of the one error that the cell shows, or ``ok``. A UsageError is printed without a traceback."""
    name = str(cell.reply.get("ename", cell.reply["status"]))
    assert len(cell.of("error")) == (name not in ("ok", "UsageError"))
    return name


def op_names(path: Path) -> set[str]:
    events = json.loads(path.read_bytes())["traceEvents"]
    return {event["name"] for event in events if event.get("cat") == "cpu_op"}
