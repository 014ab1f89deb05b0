"""The tables of a run that was watched as a whole."""

from __future__ import annotations

from dataclasses import replace

from support import annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.model.meta import SlowLine, SlowStep, Stretch, WatchedRun
from torchprof_magic.model.trace import Trace
from torchprof_magic.tables.watched import slow_steps_table, strip_table


def stretch(step: int, steps: int = 1, recorded: int = 0, data_ns: int | None = None) -> Stretch:
    return Stretch(
        step=step,
        steps=steps,
        start_ns=100 * step,
        sum_ns=90 * steps,
        longest_ns=95,
        data_ns=data_ns,
        memory_bytes=None,
        recorded=recorded,
    )


def watched(trace: Trace, *stretches: Stretch, slow: tuple[SlowStep, ...] = ()) -> Trace:
    run = WatchedRun(stretches=stretches, slow=slow, steps=9, recorded=2, cost_ns=5)
    return replace(trace, meta=replace(trace.meta, watched=run))


def test_a_stretch_has_the_mean_of_its_steps_and_the_device_time_of_those_that_were_recorded() -> None:
    # Steps 4 and 5 take 100 us, of which a kernel runs for 60 and for 20 us.
    trace = make_trace(
        annotation("ProfilerStep#4", 0, 100),
        annotation("ProfilerStep#5", 100, 100),
        span("aten::mm", 0, 10),
        launch(1, 1, 1),
        kernel("k", 10, 60, 1),
        span("aten::mm", 100, 10),
        launch(101, 1, 2),
        kernel("k", 120, 20, 2),
    )
    table = strip_table(watched(trace, stretch(0, 4), stretch(4, 3, 2, data_ns=60), stretch(7))).frame
    assert table["step"].to_list() == [0, 4, 7]
    assert table["step_ns"].to_list() == [90, 90, 90]
    assert table["data_ns"].to_list() == [None, 20, None]
    assert table["device_busy_ratio"].to_list() == [None, 0.4, None]
    assert table["recorded"].to_list() == [0, 2, 0]


def test_a_slow_step_has_the_line_that_was_seen_most_often() -> None:
    lines = (SlowLine(file="a.py", line=3, call="f", share=0.75), SlowLine(file="b.py", line=1, call="", share=0.25))
    slow = SlowStep(step=7, step_ns=900, usual_ns=90, lines=lines)
    (row,) = slow_steps_table(watched(make_trace(span("aten::mm", 0, 1)), slow=(slow,))).frame.rows(named=True)
    assert row == {
        "step": 7,
        "step_ns": 900,
        "usual_ns": 90,
        "file": "a.py",
        "line": 3,
        "call": "f",
        "seen_ratio": 0.75,
    }


def test_a_slow_step_that_was_recorded_has_the_line_with_the_most_time_in_the_trace() -> None:
    trace = make_trace(
        annotation("ProfilerStep#4", 0, 100),
        frame("train.py(3): load", 0, 20),
        frame("train.py(9): wait", 20, 70),
        span("aten::mm", 90, 5),
        with_stack=1,
    )
    slow = (SlowStep(step=4, step_ns=900, usual_ns=90), SlowStep(step=5, step_ns=900, usual_ns=90))
    recorded, unknown = slow_steps_table(watched(trace, slow=slow)).frame.rows(named=True)
    assert (recorded["file"], recorded["line"], recorded["call"], recorded["seen_ratio"]) == ("train.py", 9, "", None)
    assert (unknown["file"], unknown["line"]) == (None, None)


def test_there_are_none_in_other_recordings() -> None:
    trace = make_trace(span("aten::mm", 0, 1))
    assert strip_table(trace).frame.height == slow_steps_table(trace).frame.height == 0
