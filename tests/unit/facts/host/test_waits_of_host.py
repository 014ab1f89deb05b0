"""Tests of what waits that a live run saw make of the steps."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from support import annotation, make_trace, span

from torchprof_magic.facts.host.host_waits import wait_timelines
from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.facts.host.seen_waits import seen_waits
from torchprof_magic.facts.host.step_pieces import step_pieces
from torchprof_magic.facts.host.unseen_waits import idle_of_steps
from torchprof_magic.facts.source.line_times import line_times
from torchprof_magic.facts.time_range import WHOLE, TimeRange
from torchprof_magic.model.meta import StepMark
from torchprof_magic.model.trace import FRAME_SCHEMAS, SCOPES_SCHEMA, SITES_SCHEMA, Trace
from torchprof_magic.tables.waiting.waits import waits_table

STEP = annotation("ProfilerStep#1", 0, 100_000)


def waited(
    *waits: tuple[str, str | None, int | None, int, int], trace: Trace | None = None, cpu_ns: int | None = None
) -> Trace:
    """A step of 100 ms with an op in its first 10 ms, and waits: kind, call, line, start and duration in us."""
    found = make_trace(STEP, span("aten::mm", 0, 10_000)) if trace is None else trace
    rows = [(kind, call, "cell", line, 0, start * 1000, dur * 1000, 0) for kind, call, line, start, dur in waits]
    marks = (StepMark(number=1, cycle=0, is_complete=True, cpu_ns=cpu_ns),)
    frame = pl.DataFrame(rows, schema=FRAME_SCHEMAS["waits"], orient="row")
    return replace(found, waits=frame, meta=replace(found.meta, recorded_steps=marks))


def phases(trace: Trace) -> dict[str, int]:
    """The time of each phase in us."""
    pieces = step_pieces(trace)
    frame = pl.DataFrame({"phase": pieces.phase, "ns": pieces.dur_ns}).group_by("phase").agg(pl.col("ns").sum())
    return {PHASES[phase]: ns // 1000 for phase, ns in frame.rows()}


def test_a_wait_between_ops_is_idle_and_a_collection_is_python() -> None:
    trace = waited(("wait", "time.sleep", 3, 20_000, 30_000), ("collection", "gc.collect", 4, 60_000, 5_000))
    assert phases(trace) == {"forward": 10_000, "idle": 30_000, "python": 60_000}


def test_a_wait_inside_an_op_is_the_ops() -> None:
    # 2 ms of it are after the op.
    trace = waited(("wait", "loss.backward", 3, 4_000, 8_000))
    assert phases(trace) == {"forward": 10_000, "idle": 2_000, "python": 88_000}
    assert seen_waits(trace).start_ns.tolist() == [10_000_000]


def test_time_without_cpu_that_was_seen_in_an_op_is_not_counted_again_between_ops() -> None:
    waits = ("wait", "f", 3, 0, 8_000), ("wait", "time.sleep", 4, 20_000, 30_000)
    # 100 ms, of which 60 used the CPU: 8 in the op and 30 between were seen, 2 were not.
    assert idle_of_steps(waited(*waits, cpu_ns=60_000_000)).tolist() == [2_000_000]


def test_short_waits_that_were_seen_stand_for_those_that_were_not() -> None:
    short = [("wait", "time.sleep", 3, 20_000 + 5_000 * number, 1_000) for number in range(5)]
    seen = seen_waits(waited(*short, cpu_ns=90_000_000))  # 10 ms asleep, 5 of them seen
    assert seen.scale.tolist() == [2.0] * 5
    long = "wait", "time.sleep", 3, 20_000, 40_000
    assert seen_waits(waited(long, cpu_ns=55_000_000)).scale.tolist() == [1.0]  # the other 5 ms are of short ones
    assert seen_waits(waited(long, cpu_ns=40_000_000)).scale.tolist() == [1.5]  # nobody looked for 20 ms
    few = seen_waits(waited(short[0], cpu_ns=50_000_000))  # one of 50 ms tells nothing of the others
    assert few.scale.tolist() == [1.0]


def test_a_step_of_which_no_wait_was_seen_waits_as_others_did() -> None:
    steps = [annotation(f"ProfilerStep#{number}", 100_000 * (number - 1), 100_000) for number in (1, 2, 3)]
    ops = [span("aten::mm", 100_000 * number, 10_000) for number in range(3)]
    sleeps = [("wait", "time.sleep", 3, 20_000, 4_000), ("wait", "time.sleep", 3, 220_000, 4_000)]
    trace = waited(*sleeps, trace=make_trace(*steps, *ops))
    # Each thread slept for 4 ms; in step 2 nobody looked.
    marks = tuple(StepMark(number=number, cycle=0, is_complete=True, cpu_ns=96_000_000) for number in (1, 2, 3))
    trace = replace(trace, meta=replace(trace.meta, recorded_steps=marks))
    seen = seen_waits(trace)
    assert seen.is_seen.tolist() == [True, True, False]
    assert ((seen.end_ns - seen.start_ns) * seen.scale).tolist() == [4_000_000] * 3
    assert seen.times.tolist() == [1.0] * 3
    for part, count in ((WHOLE, 3), (TimeRange(100_000_000, 200_000_000), 1)):
        (row,) = waits_table(trace, part).frame.select("call", "count", "total_ns").rows()
        assert row == ("time.sleep", count, count * 4_000_000)
    assert waits_table(trace).frame["longest_ns"].to_list() == [4_000_000]


def two_lines(*waits: tuple[str, int, int, int], asleep_ms: tuple[int, ...]) -> Trace:
    """Three steps of 100 ms: line 3 runs from 10 to 40 ms in each, line 4 to 60, then nothing that is watched."""
    steps = [annotation(f"ProfilerStep#{number}", 100_000 * (number - 1), 100_000) for number in (1, 2, 3)]
    trace = make_trace(*steps, *(span("aten::mm", 100_000 * number, 10_000) for number in range(3)))
    lines = [{"kind": "line", "parent": -1, "name": f"line {line}", "file": "cell", "line": line} for line in (3, 4)]
    scopes = [
        (site, 0, (100 * step + start) * 1_000_000, dur * 1_000_000, 0)
        for step in range(3)
        for site, start, dur in ((0, 10, 30), (1, 40, 20))
    ]
    trace = replace(
        trace,
        sites=pl.DataFrame(lines, schema=SITES_SCHEMA),
        scopes=pl.DataFrame(scopes, schema=SCOPES_SCHEMA, orient="row"),
    )
    found = waited(*(("wait", call, line, start * 1_000, dur * 1_000) for call, line, start, dur in waits), trace=trace)
    marks = tuple(
        StepMark(number=number + 1, cycle=0, is_complete=True, cpu_ns=(100 - ms) * 1_000_000)
        for number, ms in enumerate(asleep_ms)
    )
    return replace(found, meta=replace(found.meta, recorded_steps=marks))


def test_a_sleep_that_was_not_seen_is_at_the_line_that_sleeps_in_other_steps() -> None:
    # Each step sleeps for 30 ms in line 3 and for 20 in line 4; of the third, only the sleep in line 4 was seen.
    seen = [("a", 3, 10, 30), ("b", 4, 40, 20), ("a", 3, 110, 30), ("b", 4, 140, 20), ("b", 4, 240, 20)]
    trace = two_lines(*seen, asleep_ms=(50, 50, 50))
    rows = waits_table(trace, WHOLE).frame.select("call", "line", "count", "total_ns").rows()
    assert rows == [("a", 3, 3, 90_000_000), ("b", 4, 3, 60_000_000)]
    found = seen_waits(trace)
    assert found.start_ns[~found.is_seen].tolist() == [210_000_000]


def test_a_line_that_sleeps_in_other_steps_only_does_not_sleep_where_the_thread_computes() -> None:
    trace = two_lines(("a", 3, 10, 30), ("b", 4, 40, 20), ("b", 4, 140, 20), ("b", 4, 240, 20), asleep_ms=(50, 20, 26))
    rows = waits_table(trace, WHOLE).frame.select("call", "count", "total_ns").rows()
    # The 6 ms more of the third step are not a sleep of 30 ms; they are as short as waits that nobody sees.
    assert rows == [("b", 3, 60_000_000), ("a", 1, 30_000_000)]


def test_a_line_that_took_as_long_as_it_sleeps_slept_although_data_was_loaded_without_cpu_too() -> None:
    # Without CPU for 40 ms, which a fetch of data may have used; line 3 takes 30 ms, as long as it slept in step 1.
    trace = two_lines(("a", 3, 10, 30), asleep_ms=(30, 40, 20))
    fetches = [annotation("enumerate(DataLoader)#_It.__next__", 100_000 * step + 60_000, 40_000) for step in range(3)]
    made = make_trace(*(annotation(f"ProfilerStep#{n}", 100_000 * (n - 1), 100_000) for n in (1, 2, 3)), *fetches)
    trace = replace(made, waits=trace.waits, sites=trace.sites, scopes=trace.scopes, meta=trace.meta)
    assert phases(trace)["data"] == 120_000
    assert idle_of_steps(trace).tolist() == [0, 30_000_000, 0]  # in step 3, it cannot have slept for so long
    assert waits_table(trace, WHOLE).frame.select("call", "count", "total_ns").rows() == [("a", 2, 60_000_000)]
    lines = line_times(trace, WHOLE).filter(line=3)
    assert lines.select("wait_ns", "own_cpu_ns").rows() == [(60_000_000, 30_000_000)]


def test_a_line_slept_as_long_as_it_took_where_the_cpu_time_of_the_step_has_a_little_of_its_end_too() -> None:
    # Line 3 takes 30 ms, as long as it slept in step 1. By its CPU time the thread slept for 27 ms, and then for 20.
    trace = two_lines(("a", 3, 10, 30), asleep_ms=(30, 27, 20))
    assert idle_of_steps(trace).tolist() == [0, 30_000_000, 20_000_000]
    assert waits_table(trace, WHOLE).frame.select("call", "total_ns").rows() == [("a", 80_000_000)]


def test_of_waits_that_overlap_the_later_one_counts_from_its_start() -> None:
    trace = waited(("wait", "a", 3, 20_000, 30_000), ("wait", "b", 4, 40_000, 30_000))
    line = wait_timelines(trace)[0]
    assert (line.start_ns // 1_000_000).tolist() == [20, 40, 70]
    assert line.cause.tolist() == [0, 1, -1]


def test_a_trace_of_another_program_has_none() -> None:
    trace = make_trace(STEP, span("aten::mm", 0, 10_000))
    assert wait_timelines(trace) == {}
    assert len(seen_waits(trace).row) == 0
    assert (step_pieces(trace).wait == -1).all()


def at_lines(trace: Trace, *lines: tuple[str, int, int]) -> Trace:
    """The trace with lines of the cell: text, start and duration in us."""
    sites = [
        {"kind": "line", "parent": -1, "name": text, "file": "cell", "line": number}
        for number, (text, _, _) in enumerate(lines, start=3)
    ]
    scopes = [(site, 0, start * 1000, dur * 1000, 0) for site, (_, start, dur) in enumerate(lines)]
    return replace(
        trace,
        sites=pl.DataFrame(sites, schema=SITES_SCHEMA),
        scopes=pl.DataFrame(scopes, schema=SCOPES_SCHEMA, orient="row"),
    )


@pytest.mark.parametrize(
    ("text", "start_ms", "end_ms"),
    [
        ("    time.sleep(0.02)", 20, 40),
        ("time.sleep(delay)  # rest", 20, 40),
        ("await asyncio.sleep(0.02)", 23, 38),  # others run meanwhile
        ("llm.sleep(level=1)", 23, 38),
        ("sleep(batch)", 23, 38),
        ("time.sleep(next_delay())", 23, 38),  # it may compute
        ("log(loss); time.sleep(0.02)", 23, 38),
    ],
)
def test_a_line_that_only_sleeps_sleeps_as_long_as_it_runs(text: str, start_ms: int, end_ms: int) -> None:
    # Who looks for waits has seen this one from 23 to 38 ms.
    trace = at_lines(waited(("wait", "time.sleep", 3, 23_000, 15_000)), (text, 20_000, 20_000))
    pieces = step_pieces(trace)
    idle = pieces.phase == PHASES.index("idle")
    assert pieces.start_ns[idle].min() == start_ms * 1_000_000
    assert pieces.end_ns[idle].max() == end_ms * 1_000_000
    assert int(pieces.dur_ns[idle].sum()) == (end_ms - start_ms) * 1_000_000


def test_a_run_of_the_line_in_which_no_wait_was_seen_is_left_as_it_is() -> None:
    lines = ("time.sleep(0.02)", 20_000, 20_000), ("time.sleep(0.03)", 50_000, 30_000)
    pieces = step_pieces(at_lines(waited(("wait", "time.sleep", 3, 23_000, 15_000)), *lines))
    idle = pieces.phase == PHASES.index("idle")
    assert int(pieces.dur_ns[idle].sum()) == 20_000_000


def test_a_line_of_which_little_was_seen_asleep_is_left_as_it_is() -> None:
    pieces = step_pieces(
        at_lines(waited(("wait", "time.sleep", 3, 23_000, 9_000)), ("time.sleep(0.02)", 20_000, 20_000))
    )
    assert int(pieces.dur_ns[pieces.phase == PHASES.index("idle")].sum()) == 9_000_000


def test_garbage_that_is_collected_while_a_line_sleeps_stays_a_collection() -> None:
    waits = ("wait", "time.sleep", 3, 20_000, 12_000), ("collection", "gc.collect", 3, 32_000, 5_000)
    trace = at_lines(waited(*waits), ("time.sleep(0.02)", 20_000, 20_000))
    # The last 3 ms are asleep, too.
    assert phases(trace)["idle"] == 15_000
