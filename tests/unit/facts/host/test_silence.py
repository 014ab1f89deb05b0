"""Tests of the times of which a file does not say what the host does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import Event, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.facts.host.silence import silences
from torchprof_magic.findings.verdict.decision import find_verdict
from torchprof_magic.model.meta import StepMark
from torchprof_magic.model.trace import Trace
from torchprof_magic.tables.waiting.idle import idle_table

STEP_US = 50_000


def steps(*inside: Event, count: int = 3) -> list[Event]:
    """Steps of 50 ms, each with 1 ms of an op at its begin and its end, and with ``inside``."""
    events = []
    for number in range(count):
        at = number * STEP_US
        events += [annotation(f"ProfilerStep#{number}", at, STEP_US), span("aten::mm", at, 1_000)]
        events += [span("aten::add", at + 49_000, 1_000), *(event | {"ts": event["ts"] + at} for event in inside)]
    return events


def silent_ms(trace: Trace) -> list[float]:
    start_ns, end_ns = silences(trace)
    return ((end_ns - start_ns) / 1e6).tolist()


def test_a_long_time_without_any_event_is_a_silence() -> None:
    assert silent_ms(make_trace(*steps())) == [48.0, 48.0, 48.0]


def test_ranges_that_torch_puts_around_ops_say_nothing() -> None:
    assert silent_ms(make_trace(*steps(annotation("## backward ##", 1_000, 48_000)))) == [48.0, 48.0, 48.0]


@pytest.mark.parametrize(
    "inside",
    [
        annotation("tokenize", 1_000, 48_000),
        span("aten::mul", 10_900, 28_200, tid=2),
        frame("train.py(3): load", 1_000, 48_000),
    ],
    ids=["a range of the user's own", "an op on another thread", "a Python function"],
)
def test_what_has_an_event_of_its_own_is_no_silence(inside: Event) -> None:
    assert silent_ms(make_trace(*steps(inside))) == []


def test_the_cpu_time_of_a_step_tells_that_it_was_python() -> None:
    trace = make_trace(*steps())
    mark = StepMark(number=0, cycle=0, is_complete=True, cpu_ns=49_000_000)
    assert silent_ms(replace(trace, meta=replace(trace.meta, recorded_steps=(mark,)))) == []


def test_what_the_file_does_not_say_is_not_called_python() -> None:
    verdict = find_verdict(make_trace(*steps()))
    assert (verdict.kind, verdict.title) == ("none", "Not known")
    assert "No thread has an event for 48 ms of 50 ms per step (96 %)." in str(verdict)


def test_a_device_that_waits_meanwhile_waits_for_an_unknown_cause() -> None:
    work = [launch(100, 10, 1), kernel("gemm", 200, 800, 1)]
    numbered = [
        event | {"args": event["args"] | {"correlation": 10 * number + 1}, "ts": event["ts"] + number * STEP_US}
        for number in range(3)
        for event in work
    ]
    trace = make_trace(*steps(), *numbered)
    by_cause = idle_table(trace).frame.group_by("cause").agg(idle="idle_ns").rows()
    idle_ns = {str(cause): sum(ns) for cause, ns in by_cause}
    assert idle_ns["unknown"] == 3 * 48_000_000
    assert "python" not in idle_ns
