from __future__ import annotations

from array import array
from dataclasses import replace
from pathlib import Path

import polars as pl
from support import annotation, make_trace, recording, span

from torchprof_magic.model.recording import ProgramMarks, WaitSite
from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA, Trace
from torchprof_magic.run.waits import with_waits

BASE = 10**15
STEP = annotation("ProfilerStep#5", 0, 100)
TRACE = make_trace(STEP, span("aten::mm", 10, 5))
SITES = (
    WaitSite(kind="wait", call="time.sleep", file="train.py", line=7),
    WaitSite(kind="wait", call="", file="train.py", line=8),
    WaitSite(kind="collection", call="garbage collection", file="", line=0),
)


def waits(*times: tuple[float, float, int], trace: Trace = TRACE, clock: bool = True) -> list[tuple[object, ...]]:
    """Rows of waits: what was noted are starts and ends in us by our own clock, which is BASE ahead, and sites."""
    numbers = [
        number for start, end, site in times for number in (BASE + int(start * 1e3), BASE + int(end * 1e3), site)
    ]
    marks = ProgramMarks(
        cycle=0,
        clock=((5, BASE, BASE),) if clock else (),
        lines=array("q"),
        calls=array("q"),
        functions=array("q"),
        waits=array("q", numbers),
    )
    run = replace(recording(Path()), program=(marks,), wait_sites=SITES)
    return with_waits(trace, run).waits.select("kind", "call", "file", "line", "lane", "start_ns", "dur_ns").rows()


def with_line(text: str) -> Trace:
    """The trace with a watched line 3 of the cell, which ran from 20 to 60 us."""
    site = {"kind": "line", "parent": -1, "name": text, "file": "cell", "line": 3}
    scopes = pl.DataFrame([(0, 0, 20_000, 40_000, 0)], schema=SCOPES_SCHEMA, orient="row")
    return replace(TRACE, sites=pl.DataFrame([site], schema=SITES_SCHEMA), scopes=scopes)


def test_waits_are_on_the_clock_of_the_trace_and_within_its_steps() -> None:
    assert waits((20, 50, 1), (90, 130, 2), (-30, -10, 1)) == [
        ("wait", "time.sleep", "train.py", 7, 0, 20_000, 30_000),
        ("wait", None, "train.py", 8, 0, 90_000, 10_000),
    ]


def test_a_collection_whose_line_is_not_known_has_the_watched_line_that_ran() -> None:
    rows = waits((30, 40, 3), (70, 80, 3), trace=with_line("keep.append([])"))
    assert [row[1:4] for row in rows] == [
        ("garbage collection", "cell", 3),
        ("garbage collection", None, None),
    ]


def test_a_collection_on_a_line_that_asks_for_one_is_called_so() -> None:
    assert waits((30, 40, 3), trace=with_line("gc.collect()"))[0][1] == "gc.collect"
    assert waits((30, 40, 3), trace=with_line("x = gc.collector"))[0][1] == "garbage collection"


def test_a_watched_line_does_not_replace_one_that_is_known() -> None:
    assert waits((30, 40, 1), trace=with_line("gc.collect()"))[0][1:4] == ("time.sleep", "train.py", 7)


def test_without_a_common_clock_or_steps_there_are_no_waits() -> None:
    assert waits((20, 50, 1), clock=False) == []
    assert waits((20, 50, 1), trace=make_trace(span("aten::mm", 10, 5))) == []
    assert waits() == []
