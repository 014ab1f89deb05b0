"""A step is what the user's code took: without the recording's own work between two steps, and with all of its own."""

from __future__ import annotations

from array import array
from dataclasses import replace
from pathlib import Path

import polars as pl
from support import annotation, kernel, launch, make_trace, recording, span

from torchprof_magic.model.meta import StepMark
from torchprof_magic.model.problems import problem
from torchprof_magic.model.recording import ProgramMarks
from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA
from torchprof_magic.run.transitions import with_whole_steps, without_transitions

BASE = 10**15
RANGES = (annotation("ProfilerStep#5", 0, 100), annotation("ProfilerStep#6", 110, 90))


def at(us: int) -> int:
    """A moment of the trace by our own clock, which is BASE ahead."""
    return BASE + us * 1000


# Both of our readings around the beginning of a range are the same, so that the clocks are known to the ns.
CLOCK = ((5, at(0), at(0)), (6, at(110), at(110)))


def steps_of(
    *events: dict[str, object], steps: tuple[tuple[int, int, int], ...], **marks: object
) -> list[tuple[int, ...]]:
    """Number, start and end in us of the steps of a trace with these events, in which the user's code ran so."""
    noted = ProgramMarks(cycle=0, lines=array("q"), calls=array("q"), functions=array("q"), steps=steps, clock=CLOCK)
    run = replace(recording(Path()), program=(replace(noted, **marks),))  # type: ignore[arg-type]
    found = without_transitions(make_trace(*RANGES, *events), run).steps
    return [
        (number, start // 1000, end // 1000)
        for number, start, end in found.select("number", "start_ns", "end_ns").rows()
    ]


def test_a_step_is_what_the_users_code_took_of_torchs_range() -> None:
    steps = ((5, at(30), at(70)), (6, at(115), at(180)))
    assert steps_of(span("aten::mm", 40, 20), steps=steps) == [(5, 30, 70), (6, 115, 180)]


def test_a_step_is_never_longer_than_torchs_range_nor_of_negative_length() -> None:
    assert steps_of(steps=((5, at(-9), at(130)), (6, at(300), at(250)))) == [(5, 0, 100), (6, 200, 200)]


def test_a_step_of_which_nothing_was_noted_is_torchs_range() -> None:
    assert steps_of(steps=((6, at(120), at(190)),)) == [(5, 0, 100), (6, 120, 190)]
    assert steps_of(steps=((6, at(120), at(190)),), clock=()) == [(5, 0, 100), (6, 110, 200)]


def test_steps_in_which_a_device_works_meanwhile_are_torchs_ranges() -> None:
    device = (launch(10, 5, 1), kernel("gemm", 20, 50, 1))
    assert steps_of(*device, steps=((5, at(30), at(70)),)) == [(5, 0, 100), (6, 110, 200)]
    trace = make_trace(*RANGES, *device)
    marks = tuple(StepMark(number=number, cycle=0, is_complete=True) for number in (5, 6))
    noted = ProgramMarks(
        cycle=0,
        lines=array("q"),
        calls=array("q"),
        functions=array("q"),
        steps=((5, at(30), at(70)),),
        clock=CLOCK,
    )
    run = replace(recording(Path()), program=(noted,))
    found = without_transitions(replace(trace, meta=replace(trace.meta, recorded_steps=marks)), run)
    assert [(mark.lead_ns, mark.tail_ns) for mark in found.meta.recorded_steps] == [(30_000, 30_000), (0, 0)]


def test_what_a_line_does_beside_the_steps_is_not_its_own() -> None:
    trace = make_trace(*RANGES)
    before, after, beside, around = (60, 35), (112, 10), (80, 20), (35, 140)
    rows = [(site, 0, start * 1000, dur * 1000, 0) for site, (start, dur) in enumerate((before, after, beside, around))]
    rows.append((4, *rows[0][1:]))  # a module is no line
    sites = [("line", "cell.py", line, "") for line in (1, 2, 3, 4)] + [("module", "", 0, "")]
    trace = replace(
        trace,
        sites=pl.DataFrame(
            [
                dict.fromkeys(SITES_SCHEMA) | dict(zip(("kind", "file", "line", "name"), one, strict=True))
                for one in sites
            ],
            schema=SITES_SCHEMA,
        ),
        scopes=pl.DataFrame(rows, schema=SCOPES_SCHEMA, orient="row"),
    )
    noted = ProgramMarks(
        cycle=0,
        lines=array("q"),
        calls=array("q"),
        functions=array("q"),
        steps=((5, at(30), at(70)), (6, at(115), at(180))),
        clock=CLOCK,
    )
    found = without_transitions(trace, replace(recording(Path()), program=(noted,))).scopes
    times = [(start // 1000, (start + dur) // 1000) for start, dur in found.select("start_ns", "dur_ns").rows()]
    assert (times[0], times[1], times[3], times[4]) == ((60, 70), (115, 122), (35, 175), (60, 95))
    assert found["dur_ns"][2] == 0


def test_a_step_that_torch_moved_behind_its_ops_begins_with_the_users_code() -> None:
    """Step 5 was put back to its first op, at 30 us, and step 6 to the end of step 5."""
    moved = (annotation("ProfilerStep#5", 30, 70), annotation("ProfilerStep#6", 100, 100))
    trace = replace(make_trace(*moved), problems=(problem("chrome.moved_step", count=2),))
    trace = replace(trace, steps=trace.steps.with_columns(pl.col("start_ns", "end_ns") + 30_000))  # from time 0 on
    noted = ProgramMarks(
        cycle=0,
        lines=array("q"),
        calls=array("q"),
        functions=array("q"),
        steps=((5, at(2), at(95)), (6, at(104), at(195))),
        clock=((5, at(0), at(1)), (6, at(101), at(103))),
        unix_ns=trace.meta.start_unix_ns - BASE,
    )
    run = replace(recording(Path()), program=(noted,))
    begins = with_whole_steps(trace, run).steps.select("number", "start_ns", "end_ns").rows()
    assert begins == [(5, 2_000, 100_000), (6, 100_000, 200_000)]
    unmoved = replace(trace, problems=())
    assert with_whole_steps(unmoved, run) is unmoved
