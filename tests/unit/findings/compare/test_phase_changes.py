"""Waiting that changed for sure is said, also where the steps themselves cannot tell a change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
from support import annotation, make_trace, span

from torchprof_magic.findings.compare.phase_changes import phase_words, sure_phases
from torchprof_magic.model.meta import StepMark
from torchprof_magic.model.trace import FRAME_SCHEMAS
from torchprof_magic.report.trace_report import Report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.model.trace import Trace

# How long the op of each of twelve steps takes, in ms: too noisy to tell anything.
NOISE = (20, 70, 25, 40, 22, 65, 30, 24, 50, 21, 60, 28)


def run(sleep_ms: float, ops_ms: Sequence[float] = NOISE) -> Trace:
    """Steps in which an op runs, and then the thread sleeps, a little longer each time."""
    events, waits, marks, at = [], [], [], 0.0
    for number, op_ms in enumerate(ops_ms):
        slept = sleep_ms + 0.05 * (number % 3)
        whole = op_ms + slept + 1
        events += [
            annotation(f"ProfilerStep#{number}", at * 1000, whole * 1000),
            span("aten::mm", at * 1000, op_ms * 1000),
        ]
        waits.append(("wait", "time.sleep", "cell", 3, 0, int((at + op_ms) * 1e6), int(slept * 1e6), 0))
        marks.append(StepMark(number=number, cycle=0, is_complete=True, cpu_ns=int((op_ms + 1) * 1e6)))
        at += whole
    trace = make_trace(*events)
    frame = pl.DataFrame(waits, schema=FRAME_SCHEMAS["waits"], orient="row")
    return replace(trace, waits=frame, meta=replace(trace.meta, recorded_steps=tuple(marks)))


def test_a_longer_sleep_in_every_step_is_sure_whatever_the_ops_do() -> None:
    before, after = run(30), run(45, NOISE[::-1])
    (change,) = sure_phases(before, after)
    assert change.phase == "idle"
    assert round(change.before_ns / 1e6, 1) == 30.0
    assert round(change.after_ns / 1e6, 1) == 45.0
    compared = Report(after).compare(Report(before))
    assert compared.evidence.startswith("Mostly waiting in time.sleep: 30 ms → 45.1 ms per step.")
    assert "The waiting per step changed for sure: sleeping or waiting 30" in compared.evidence
    assert compared.words[1] == compared.evidence


def test_the_same_sleep_is_no_change() -> None:
    assert sure_phases(run(30), run(30, NOISE[::-1])) == []
    assert phase_words([]) == ""


def test_a_change_of_less_than_a_fiftieth_of_a_step_is_not_said() -> None:
    assert sure_phases(run(1.0), run(1.3, NOISE[::-1])) == []


def test_a_few_steps_tell_nothing() -> None:
    assert sure_phases(run(30, NOISE[:3]), run(45, NOISE[:3])) == []
