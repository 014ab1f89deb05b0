"""The verdict names the line and the call in which a written cell waits, without any flag."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from IPython.core.interactiveshell import InteractiveShell

import torchprof_magic as tp
from torchprof_magic.capture.watch.waits import WaitWatch
from torchprof_magic.ipython import extension

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11) or not WaitWatch.is_possible, reason="calls are known by line alone"
)
SLEPT_NS = 80_000_000
SETUP = """
import asyncio, gc, queue, socket, subprocess, threading, time, urllib.request
import torch
torch.set_num_threads(1)
layer, batch = torch.nn.Linear(64, 64), torch.randn(32, 64)
def work():
    layer(batch).sum().backward()
def helper():
    time.sleep(0.08)
class Trainer:
    def step(self):
        work()
        self.rest()
    def rest(self):
        time.sleep(0.08)
trainer = Trainer()
async def one():
    work()
    await asyncio.sleep(0.08)
from time import sleep as nap
event, lock, items = threading.Event(), threading.Lock(), queue.Queue()
def later(then):
    timer = threading.Timer(0.08, then)
    timer.start()
    return timer
def locked():
    lock.acquire()
    later(lock.release)
ends = socket.socketpair()
"""


class Cell(NamedTuple):
    """A cell, what is called, and the line with it: of the cell with the magic, or of the one before."""

    body: str
    call: str
    line: int
    is_elsewhere: bool = False


LOOP = "for i in range(6):\n    work()\n    "
CELLS = {
    "in the body": Cell(f"{LOOP}time.sleep(0.08)", "time.sleep", 4),
    "by another name": Cell(f"{LOOP}nap(0.08)", "time.sleep", 4),
    "beside other calls": Cell("for i in range(6):\n    work(); print(end=''); time.sleep(0.08)", "time.sleep", 3),
    "in a comprehension": Cell(f"{LOOP}[time.sleep(0.02) for _ in range(4)]", "time.sleep", 4),
    "in a function": Cell(f"{LOOP}helper()", "time.sleep", 8, is_elsewhere=True),
    "in a method": Cell(
        "trainer = Trainer()\nfor i in range(6):\n    trainer.step()", "time.sleep", 14, is_elsewhere=True
    ),
    "awaited": Cell(f"{LOOP}await asyncio.sleep(0.08)", "asyncio.sleep", 4),
    "awaited in a function": Cell("for i in range(6):\n    await one()", "asyncio.sleep", 18, is_elsewhere=True),
    "for a queue": Cell(f"{LOOP}later(lambda: items.put(1))\n    items.get()", "Queue.get", 5),
    "for an event": Cell(f"{LOOP}event.wait(0.08)", "Event.wait", 4),
    "for a thread": Cell(f"{LOOP}thread = later(int); thread.join()", "Thread.join", 4),
    "for a lock": Cell(f"{LOOP}locked()\n    lock.acquire(); lock.release()", "lock.acquire", 5),
    "with a lock": Cell(f"{LOOP}locked()\n    with lock:\n        pass", "with lock", 5),
    "for a program": Cell(f"{LOOP}subprocess.run(['sleep', '0.08'])", "subprocess.run", 4),
    "for the network": Cell(f"{LOOP}later(lambda: ends[0].send(b'x'))\n    ends[1].recv(1)", "ends[1].recv", 5),
    "in a single step": Cell("work()\ntime.sleep(0.2)\nwork()", "time.sleep", 3),
}


@pytest.fixture(scope="module")
def shell() -> Iterator[InteractiveShell]:
    InteractiveShell.clear_instance()
    found = InteractiveShell.instance()
    extension.load(found)
    found.run_cell(SETUP, store_history=True)
    yield found
    extension.unload(found)
    InteractiveShell.clear_instance()


def run(shell: InteractiveShell, body: str) -> tp.Report:
    shell.run_cell(f"%%torchprof -q\n{body}", store_history=True).raise_error()
    return tp.last


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_a_wait_is_named_by_its_line_and_call(shell: InteractiveShell, cell: Cell) -> None:
    report = run(shell, cell.body)
    verdict = report.verdict
    assert (verdict.kind, verdict.name, verdict.line) == ("waiting", cell.call, cell.line), str(verdict)
    assert cell.call in str(verdict)
    assert f"line {cell.line}." in str(verdict)
    assert cell.call in report.summary()
    own = report.trace.meta.cell
    assert own is not None
    assert (verdict.file == own.filename) is not cell.is_elsewhere
    if report.trace.waits.height == 0:
        return  # on a busy machine nobody looked in time, and the code alone tells the call
    row = report.waits.filter((report.waits["call"] == cell.call) & (report.waits["line"] == cell.line)).row(
        0, named=True
    )
    assert row["rule"] == "wait"
    # A sleep lasts as long as it was asked to or longer, and is part of its steps.
    steps = report.steps.height
    least_ns = 0 if "lock" in cell.call or "Queue" in cell.call or "recv" in cell.call else 0.9 * steps * SLEPT_NS
    assert least_ns < row["total_ns"] <= report.steps["dur_ns"].sum()


@pytest.mark.parametrize(
    "body",
    [f"{LOOP}sum(number * number for number in range(400_000))", f"{LOOP}sorted(range(1_000_000, 0, -1), key=str)"],
    ids=["Python", "a function of C"],
)
def test_what_computes_does_not_sleep(shell: InteractiveShell, body: str) -> None:
    report = run(shell, body)
    assert report.verdict.kind == "python"
    assert "sleeps" not in str(report.verdict)
    assert report.waits.filter(report.waits["rule"] == "wait")["total_ns"].sum() < 0.5 * report.steps["dur_ns"].sum()


def test_garbage_collection_is_named(shell: InteractiveShell) -> None:
    shell.user_ns["kept"] = [[] for _ in range(500_000)]
    report = run(shell, f"{LOOP}gc.collect()")
    del shell.user_ns["kept"]
    verdict = report.verdict
    assert (verdict.kind, verdict.name, verdict.line) == ("python", "gc.collect", 4), str(verdict)
    found = report.waits.filter(report.waits["rule"] == "garbage")
    assert found["call"].to_list()[0] == "gc.collect"
    assert found["count"][0] >= report.steps.height


def test_a_wait_for_the_next_item_is_still_data(shell: InteractiveShell) -> None:
    report = run(
        shell,
        "def late():\n    for _ in range(6):\n        time.sleep(0.08)\n        yield 1\nfor _ in late():\n    work()",
    )
    assert report.verdict.kind == "data"
