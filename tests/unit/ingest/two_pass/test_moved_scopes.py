"""Lines of functions move from the step in which they were timed to those whose times count."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from support import Event, annotation, chrome, span

from torchprof_magic.ingest import moved_scopes, read_chrome
from torchprof_magic.model.meta import Meta
from torchprof_magic.model.trace import SCOPES_SCHEMA, Trace


def step(number: int, start_us: float, dur_us: float) -> Event:
    return annotation(f"ProfilerStep#{number}", start_us, dur_us)


# Two steps of 100 us, in which mm runs from 40 to 60; and one of 1000 us, traced, in which it runs from 400 to 500.
TIMES = [step(2, 0, 100), span("mm", 40, 20), step(3, 100, 100), span("mm", 140, 20)]
LINES = [step(9, 5000, 1000), span("mm", 5400, 100)]


def trace_of(times: list[Event], lines: list[Event]) -> Trace:
    return read_chrome([chrome(*times), chrome(*lines)], Meta(), cycles=[0, 2])


def scopes_of(trace: Trace, *runs: tuple[int, float, float], cycle: int = 2) -> pl.DataFrame:
    """Return scopes of sites from and to moments in us, on the lane of the ops."""
    lane = trace.events.filter(pl.col("name").cast(pl.String) == "mm")["lane"][0]
    rows = [(site, lane, int(1000 * start), int(1000 * (end - start)), cycle) for site, start, end in runs]
    frame = pl.DataFrame(rows, schema=["site", "lane", "start_ns", "dur_ns", "cycle"], orient="row")
    return frame.cast(SCOPES_SCHEMA)  # type: ignore[arg-type]


def moved(trace: Trace, scopes: pl.DataFrame) -> list[tuple[int, float, float]]:
    found = moved_scopes(trace, scopes, 2, 0)
    assert found.scopes["cycle"].unique().to_list() in ([], [0])
    rows = found.scopes.select("site", "start_ns", end=pl.col("start_ns") + pl.col("dur_ns")).rows()
    return [(site, start / 1000, end / 1000) for site, start, end in rows]


def test_each_line_gets_its_part_of_the_time_between_two_ops() -> None:
    trace = trace_of(TIMES, LINES)
    # Before the op, 400 us are 40: so a line of 100 us gets 10. The other runs from amid the op to 300 of the 500 us
    # after it, which are 40.
    scopes = scopes_of(trace, (0, 5100, 5200), (1, 5450, 5800))
    expected = [(0, 10, 20), (1, 50, 84)]
    assert moved(trace, scopes) == [*expected, *((site, start + 100, end + 100) for site, start, end in expected)]
    assert moved_scopes(trace, scopes, 2, 0).steps == (9,)


def test_a_line_that_began_before_its_op_still_does() -> None:
    trace = trace_of(TIMES, LINES)
    (_, start, end), _ = moved(trace, scopes_of(trace, (0, 5399, 5500)))
    assert start < 40
    assert end == 60


def test_a_line_that_runs_through_the_step_is_cut_at_its_ends() -> None:
    trace = trace_of(TIMES, LINES)
    assert moved(trace, scopes_of(trace, (0, 4000, 7000))) == [(0, 0, 100), (0, 100, 200)]


def test_a_step_that_did_other_work_gets_no_lines() -> None:
    trace = trace_of([*TIMES[:3], span("conv", 140, 20)], LINES)
    assert moved(trace, scopes_of(trace, (0, 5100, 5200))) == [(0, 10, 20)]
    other = trace_of([step(2, 0, 100), span("conv", 40, 20)], LINES)
    found = moved_scopes(other, scopes_of(other, (0, 5100, 5200)), 2, 0)
    assert (found.scopes.height, found.steps) == (0, ())


def test_runs_that_both_have_are_known_moments_too() -> None:
    trace = trace_of(TIMES, LINES)
    # A line of the cell runs from 20 to 90 of the first step, and from 100 to 900 of the traced one.
    known = pl.concat([scopes_of(trace, (7, 20, 90), cycle=0), scopes_of(trace, (7, 5100, 5900))])
    trace = replace(trace, scopes=known)
    assert moved(trace, scopes_of(trace, (0, 5100, 5250)))[0] == (0, 20, 30)


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_step_that_did_not_end_gives_no_lines(*, is_complete: bool) -> None:
    trace = trace_of(TIMES, LINES)
    complete = pl.when(pl.col("cycle") == 2).then(is_complete).otherwise(pl.col("complete"))
    steps = trace.steps.with_columns(complete.alias("complete"))
    trace = replace(trace, steps=steps)
    assert bool(moved(trace, scopes_of(trace, (0, 5100, 5200)))) is is_complete
