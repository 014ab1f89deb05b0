"""The Python export writes names as they were recorded, also where Kineto got others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from torchprof_magic.capture.torch_api.exact_names import exact_names


class Event:
    """An event as torch has it in ``events()``."""

    def __init__(self, start_ns: int, name: str) -> None:
        self.start_ns = lambda: start_ns
        self.name = lambda: name


class Activity:
    """An event as Kineto has it."""

    def __init__(self, start_ns: int, name: str) -> None:
        self.timestamp = lambda: start_ns
        self.name = lambda: name
        self.duration = lambda: 5


def profiler_of(recorded: list[tuple[int, str]], given: list[tuple[int, str]]) -> Any:
    results = SimpleNamespace(
        events=lambda: [Event(*each) for each in recorded],
        trace_activities=lambda: [Activity(*each) for each in given],
        trace_start_ns=lambda: 1,
    )
    return SimpleNamespace(kineto_results=results)


def names_within(profiler: Any) -> list[str]:
    with exact_names(profiler):
        return [activity.name() for activity in profiler.kineto_results.trace_activities()]


def test_names_of_which_kineto_got_another_are_the_recorded_ones() -> None:
    recorded = [(10, 'say "hi"'), (20, "say 'hi'"), (30, "plain")]
    profiler = profiler_of(recorded, [(10, "say 'hi'"), (20, "say 'hi'"), (30, "plain"), (40, "say 'hi'")])
    assert names_within(profiler) == ['say "hi"', "say 'hi'", "plain", "say 'hi'"]


def test_everything_else_is_torchs_own_and_stays_so_after_the_export() -> None:
    profiler = profiler_of([(10, 'a"b')], [(10, "a'b")])
    results = profiler.kineto_results
    with exact_names(profiler):
        (activity,) = profiler.kineto_results.trace_activities()
        assert (activity.duration(), profiler.kineto_results.trace_start_ns()) == (5, 1)
    assert profiler.kineto_results is results
    with pytest.raises(ZeroDivisionError), exact_names(profiler):
        raise ZeroDivisionError
    assert profiler.kineto_results is results


def test_results_without_double_quotes_are_handed_to_torch_as_they_are() -> None:
    profiler = profiler_of([(10, "it's")], [(10, "it's")])
    results = profiler.kineto_results
    with exact_names(profiler):
        assert profiler.kineto_results is results
