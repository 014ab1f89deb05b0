"""Waits for events, by what they say of the call that recorded the event."""

from __future__ import annotations

from typing import Any

from support import make_trace, span

from torchprof_magic.model.trace import Trace


def wait(at: float, record: Any, kind: str = "Stream Wait Event") -> dict[str, Any]:
    return span(kind, at, 1, cat="cuda_sync", cuda_sync_kind=kind, wait_on_cuda_event_record_corr_id=record, stream=7)


def record(at: float, number: int) -> dict[str, Any]:
    return span("cudaEventRecord", at, 1, cat="cuda_runtime", correlation=number)


def problems(trace: Trace) -> dict[str, int]:
    return {problem.code: problem.count for problem in trace.problems}


def test_a_wait_for_an_event_that_was_recorded_before_is_fine() -> None:
    assert problems(make_trace(record(0, 5), wait(10, 5), wait(20, 5, "Event Sync"))) == {}


def test_a_wait_for_an_event_that_is_recorded_later_is_counted() -> None:
    assert problems(make_trace(wait(10, 5), wait(10, 6), record(20, 5), record(5, 6))) == {"chrome.early_wait": 1}


def test_waits_that_name_no_event_are_counted() -> None:
    assert problems(make_trace(wait(0, -1), wait(10, None), wait(20, "x"), wait(30, 5))) == {"chrome.unknown_wait": 3}


def test_an_event_from_before_the_recording_is_no_problem() -> None:
    assert problems(make_trace(wait(10, 77))) == {}
