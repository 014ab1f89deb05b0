"""Tests of what imports and lines that a live run noted make of the steps, and of what is said of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.facts.host.host_lines import imports_of, line_seen_in
from torchprof_magic.facts.host.one_time import one_time_spans
from torchprof_magic.findings.verdict.decision import find_verdict
from torchprof_magic.findings.verdict.doubts import find_doubts
from torchprof_magic.findings.verdict.once import one_time_work
from torchprof_magic.model.meta import StepMark
from torchprof_magic.model.trace import FRAME_SCHEMAS, Trace
from torchprof_magic.tables.steps import steps_table

Line = tuple[str | None, str | None, int | None, int, int]
STEP = annotation("ProfilerStep#0", 0, 100_000)


def noted(trace: Trace, *lines: Line, cpu_ns: int = 100_000_000) -> Trace:
    """A live run with lines of its thread: a module or None, a call, a line of train.py, start and duration in us."""
    rows = [
        (module, call, None if line is None else "train.py", line, 0, start * 1000, dur * 1000, 0)
        for module, call, line, start, dur in lines
    ]
    marks = tuple(StepMark(number=n, cycle=0, is_complete=True, cpu_ns=cpu_ns) for n in trace.steps["number"])
    frame = pl.DataFrame(rows, schema=FRAME_SCHEMAS["host_lines"], orient="row")
    return replace(trace, host_lines=frame, meta=replace(trace.meta, recorded_steps=marks))


def phases(trace: Trace) -> dict[str, int]:
    """The phases of the first step in us."""
    row = steps_table(trace).frame.row(0, named=True)
    found = {name[:-3]: row[name] // 1000 for name in row if name.endswith("_ns") and row[name]}
    return {name: us for name, us in found.items() if name not in ("start", "dur")}


def test_an_import_is_initialisation_with_the_ops_in_it_and_has_its_module_and_line() -> None:
    trace = make_trace(STEP, span("aten::mm", 0, 10_000), span("aten::ones", 30_000, 1_000))
    trace = noted(trace, ("sqlite3", None, 3, 20_000, 60_000))
    assert phases(trace) == {"forward": 10_000, "initialisation": 60_000, "python": 30_000}
    verdict = find_verdict(trace)
    assert (verdict.kind, verdict.name, verdict.file, verdict.line) == (
        "initialisation",
        "import sqlite3",
        "train.py",
        3,
    )
    assert "takes 60 ms of 100 ms per step (60 %), mostly in import sqlite3, at train.py:3." in verdict.statement
    imports = "most of it imports (import sqlite3, train.py:3)"
    once = f"For 60 % of the recorded time the host does work that is done once, {imports}"
    assert find_doubts(trace)[0] == f"{once}; record later steps too."


def test_an_import_that_is_made_again_is_not_done_once() -> None:
    again = (("slow", None, 3, 20_000, 30_000), ("slow", None, 3, 60_000, 30_000))
    trace = noted(make_trace(STEP, span("aten::mm", 0, 10_000)), *again)
    assert len(imports_of(trace)) == 0
    assert phases(trace) == {"forward": 10_000, "python": 90_000}
    assert find_verdict(trace).kind == "python"


def test_an_import_in_compilation_is_part_of_it() -> None:
    compiling = annotation("_compile.compile_inner (dynamo_timed)", 20_000, 70_000)
    trace = noted(make_trace(STEP, compiling, span("aten::mm", 0, 10_000)), ("torch._x", None, 3, 30_000, 20_000))
    assert phases(trace) == {"compile": 70_000, "forward": 10_000, "python": 20_000}
    assert one_time_work(trace)[2:4] == ("compilation or graph capture", "_compile.compile_inner (dynamo_timed)")


def test_an_import_that_sleeps_is_no_waiting() -> None:
    trace = noted(make_trace(STEP, span("aten::mm", 0, 30_000)), ("slow", None, 3, 30_000, 60_000), cpu_ns=40_000_000)
    assert phases(trace) == {"forward": 30_000, "initialisation": 60_000, "python": 10_000}


def test_an_import_while_the_loop_fetches_is_not_data() -> None:
    fetch = span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 80_000)
    trace = noted(make_trace(STEP, fetch, span("aten::mm", 80_000, 20_000)), ("sqlite3", None, 9, 10_000, 60_000))
    assert phases(trace) == {"data": 20_000, "forward": 20_000, "initialisation": 60_000}


def test_what_a_device_waits_for_during_an_import_is_initialisation_with_its_line() -> None:
    events = [span("aten::mm", at, 100) for at in (0, 90_000)]
    events += [launch(10, 10, 1), kernel("gemm", 50, 950, 1), launch(90_010, 10, 2), kernel("gemm", 90_050, 9_950, 2)]
    trace = noted(make_trace(STEP, *events), ("sqlite3", None, 3, 2_000, 80_000))
    verdict = find_verdict(trace)
    assert (verdict.kind, verdict.name, verdict.line) == ("initialisation", "import sqlite3", 3)
    why = "for initialisation: imports, mostly in import sqlite3, at train.py:3."
    assert f"80 ms of 100 ms per step (80 %) {why}" in str(verdict)


@pytest.mark.parametrize(
    ("seen", "place"),
    [
        (((None, None, 7, 30_000, 0),), ", train.py:7"),  # within the op
        (((None, None, 7, 95_000, 0),), ""),  # after it
        ((), ""),
    ],
)
def test_the_first_call_of_an_op_has_a_line_that_was_seen_meanwhile(seen: tuple[Line, ...], place: str) -> None:
    ops = [span("aten::svd", 100_000 * n, 90_000 if n == 0 else 1_000) for n in range(4)]
    steps = [annotation(f"ProfilerStep#{n}", 100_000 * n, 100_000 if n == 0 else 2_000) for n in range(4)]
    doubt = find_doubts(noted(make_trace(*steps, *ops), *seen))[0]
    assert f"90 ms of it for work that is done once: the first call of an op (aten::svd{place})" in doubt


def test_an_outlier_in_python_has_a_line_that_was_seen_meanwhile() -> None:
    steps = [annotation(f"ProfilerStep#{n}", 100_000 * n, 90_000 if n == 1 else 2_000) for n in range(4)]
    ops = [span("aten::mm", 100_000 * n, 1_000) for n in range(4)]
    trace = noted(make_trace(*steps, *ops), (None, None, 6, 100_500, 0), (None, "torch.load", 7, 150_000, 0))
    assert "88 ms longer in python (torch.load, train.py:7); it is left out." in find_doubts(trace)[0]


def test_lines_are_sought_in_intervals_and_imports_without_a_line_are_none() -> None:
    lines = (("a", None, None, 10, 5), (None, None, 4, 20, 0), ("b", None, 5, 30, 5))
    trace = noted(make_trace(STEP), *lines)
    start, end = np.array([[0, 20], [0, 40], [21, 30], [25, 31]]).T * 1000
    assert line_seen_in(trace, start, end).tolist() == [-1, 0, -1, 1]
    assert [ends.tolist() for ends in one_time_spans(trace)] == [[10_000, 30_000], [15_000, 35_000]]
