"""Waits that the watch saw as one are divided where the watched line changes. Times are in us."""

from __future__ import annotations

from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
from support import annotation, make_trace, recording, span

from torchprof_magic.model.recording import ProgramMarks, WaitSite
from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA, Trace
from torchprof_magic.run.waits import with_waits

LOG, SLEEP, COLLECTION = 1, 2, 3
SITES = (
    WaitSite(kind="wait", call="time.sleep", file="train.py", line=7),  # in a function that line 3 calls
    WaitSite(kind="wait", call="time.sleep", file="cell", line=4),
    WaitSite(kind="collection", call="garbage collection", file="", line=0),
)


def made(*ops: dict[str, Any]) -> Trace:
    """A step of 20 ms, in which line 3 runs from 0 to 4 ms and line 4 to 7 ms, and again 10 ms later."""
    lines = [{"kind": "line", "parent": -1, "name": f"line {line}", "file": "cell", "line": line} for line in (3, 4)]
    rows = [
        (site, 0, (start + at) * 1_000, dur * 1_000, 0)
        for at in (0, 10_000)
        for site, start, dur in ((0, 0, 4_000), (1, 4_000, 3_000))
    ]
    scopes = pl.DataFrame(rows, schema=SCOPES_SCHEMA, orient="row")
    trace = make_trace(annotation("ProfilerStep#5", 0, 20_000), *ops)
    return replace(trace, sites=pl.DataFrame(lines, schema=SITES_SCHEMA), scopes=scopes)


def waits(*times: tuple[int, int, int], ops: tuple[dict[str, Any], ...] = ()) -> list[tuple[object, ...]]:
    numbers = [number for start, end, site in times for number in (start * 1_000, end * 1_000, site)]
    marks = ProgramMarks(
        cycle=0,
        clock=((5, 0, 0),),
        lines=array("q"),
        calls=array("q"),
        functions=array("q"),
        waits=array("q", numbers),
    )
    run = replace(recording(Path()), program=(marks,), wait_sites=SITES)
    found = with_waits(made(*ops), run).waits
    return [(*row[:3], row[3] // 1_000, row[4] // 1_000) for row in found[:, [1, 2, 3, 5, 6]].rows()]


def test_a_part_in_another_line_belongs_to_what_is_known_to_wait_there() -> None:
    assert waits((500, 3_800, LOG), (10_100, 16_900, SLEEP)) == [
        ("time.sleep", "train.py", 7, 500, 3_300),
        ("time.sleep", "train.py", 7, 10_100, 3_900),
        ("time.sleep", "cell", 4, 14_000, 2_900),
    ]


def test_a_part_in_a_line_in_which_nothing_is_known_to_wait_belongs_to_the_line() -> None:
    assert waits((10_100, 16_900, SLEEP)) == [
        (None, "cell", 3, 10_100, 3_900),
        ("time.sleep", "cell", 4, 14_000, 2_900),
    ]


def test_a_line_that_runs_ops_does_not_wait_when_another_one_did() -> None:
    ops = span("aten::mm", 10_200, 1_800), span("aten::relu", 12_100, 1_500)
    assert waits((10_100, 16_900, SLEEP), ops=ops) == [("time.sleep", "cell", 4, 14_000, 2_900)]
    # A place that is known to wait in the line does, whatever else runs in it.
    assert waits((500, 3_800, LOG), (10_100, 16_900, SLEEP), ops=ops)[1] == ("time.sleep", "train.py", 7, 10_100, 3_900)


def test_a_wait_that_goes_on_after_its_line_is_divided_too() -> None:
    rows = waits((500, 3_800, LOG), (4_500, 6_900, SLEEP), (10_100, 16_900, LOG))
    assert rows[2:] == [("time.sleep", "train.py", 7, 10_100, 3_900), ("time.sleep", "cell", 4, 14_000, 2_900)]


def test_parts_that_are_too_short_to_be_seen_are_no_waits() -> None:
    assert waits((3_900, 6_900, SLEEP)) == [("time.sleep", "cell", 4, 4_000, 2_900)]
    # In a line that is not known to wait, 0.9 ms may as well be of the line after it.
    assert waits((3_100, 6_900, SLEEP)) == [("time.sleep", "cell", 4, 4_000, 2_900)]


def test_waits_within_a_line_and_collections_stay_as_they_are() -> None:
    assert waits((500, 3_800, LOG), (3_900, 4_100, COLLECTION), (4_500, 6_900, LOG)) == [
        ("time.sleep", "train.py", 7, 500, 3_300),
        ("garbage collection", "cell", 3, 3_900, 200),
        ("time.sleep", "train.py", 7, 4_500, 2_400),
    ]


def test_no_time_is_counted_twice_or_lost_but_short_parts() -> None:
    rows = waits((100, 6_950, SLEEP), (7_500, 9_500, LOG), (10_050, 16_980, LOG))
    assert sum(int(str(row[4])) for row in rows) == 6_850 + 2_000 + 6_930


def test_a_part_at_once_after_a_wait_at_its_place_is_the_rest_of_it() -> None:
    assert waits((500, 3_800, LOG), (10_100, 13_000, LOG), (13_050, 16_900, SLEEP)) == [
        ("time.sleep", "train.py", 7, 500, 3_300),
        ("time.sleep", "train.py", 7, 10_100, 3_900),
        ("time.sleep", "cell", 4, 14_000, 2_900),
    ]
