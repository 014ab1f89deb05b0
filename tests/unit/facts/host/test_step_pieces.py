"""Tests of what each step is made of, where a live run tells more than its trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from IPython.core.interactiveshell import InteractiveShell
from support import annotation, make_trace, span

import torchprof_magic as tp
from torchprof_magic.facts.host.step_pieces import fetched_ns, step_pieces
from torchprof_magic.ipython import extension
from torchprof_magic.model.meta import StepMark

SETUP = """
import time
import torch
def late(count):
    for _ in range(count):
        time.sleep(0.02)
        yield torch.ones(8, 8)
def train(batch):
    time.sleep(0.002)
    batch @ batch
"""


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    InteractiveShell.clear_instance()
    found = InteractiveShell.instance()
    extension.load(found)
    found.run_cell(SETUP)
    yield found
    extension.unload(found)
    InteractiveShell.clear_instance()


def test_fetching_ends_when_the_loop_has_its_item() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100), annotation("ProfilerStep#1", 100, 50), span("aten::mm", 0, 9)
    )
    assert fetched_ns(trace).tolist() == [100_000, 150_000]  # not known: their ends
    marks = tuple(StepMark(number=n, cycle=0, is_complete=True, fetch_ns=(30_000, None)[n]) for n in range(2))
    known = replace(trace, meta=replace(trace.meta, recorded_steps=marks))
    assert fetched_ns(known).tolist() == [30_000, 150_000]
    pieces = step_pieces(known)
    assert pieces.dur_ns.sum() == 150_000
    assert 30_000 in pieces.end_ns  # a piece is cut there, in the middle of Python


@pytest.mark.parametrize("body", [" train(batch)", "\n    train(batch)"], ids=["on the line of the loop", "below it"])
def test_only_what_the_iterator_does_is_data(shell: InteractiveShell, body: str) -> None:
    shell.run_cell(f"%%torchprof -q\nfor batch in late(12):{body}")
    late = tp.last
    data, whole = late.steps["data_ns"].sum(), late.steps["dur_ns"].sum()
    fetched = sum(mark.fetch_ns or 0 for mark in late.trace.meta.recorded_steps if mark.is_complete)
    assert late.verdict.kind == "data"
    assert 0.5 * fetched < data <= whole
    shell.run_cell(f"%%torchprof -q\nbatches = [torch.ones(8, 8)] * 12\nfor batch in batches:{body}")
    ready = tp.last
    assert ready.trace.meta.stepping.how == "loop"
    assert ready.verdict.kind != "data"
    assert ready.steps["data_ns"].sum() < 0.5 * ready.steps["dur_ns"].sum()


def test_an_iterator_that_trains_does_not_load_data(shell: InteractiveShell) -> None:
    shell.run_cell(
        "model = torch.nn.Linear(8, 8)\nopt = torch.optim.SGD(model.parameters(), 0.1)\n"
        "def training():\n    for _ in range(8):\n        model(torch.ones(4, 8)).sum().backward(); opt.step()\n"
        "        yield 1"
    )
    shell.run_cell("%%torchprof -q\nfor loss in training():\n    pass")
    assert tp.last.trace.meta.stepping.line == 2
    assert tp.last.steps["data_ns"].to_list() == [0, 0, 0]
    assert tp.last.verdict.kind != "data"


def test_a_while_loop_fetches_nothing_that_is_measured(shell: InteractiveShell) -> None:
    shell.run_cell("%%torchprof -q\nleft = 8\nwhile left: train(torch.ones(8, 8)); left -= 1")
    assert {mark.fetch_ns for mark in tp.last.trace.meta.recorded_steps} == {None}
