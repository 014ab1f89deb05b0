"""Tests of the times at which Python collected garbage."""

from __future__ import annotations

import gc
import sys
from types import FrameType

import pytest

from torchprof_magic.capture.watch.garbage import GarbageTimes


def test_the_start_and_the_end_of_each_collection_are_noted() -> None:
    times = GarbageTimes()
    times.begin()
    try:
        gc.collect()
        gc.collect()
    finally:
        times.end()
    gc.collect()
    found = times.take()
    assert len(found) >= 2
    edges = [edge for pair in found for edge in pair]
    assert edges == sorted(edges)
    assert times.take() == []


def test_the_youngest_objects_are_collected_only_where_python_does_so_by_itself() -> None:
    generations: list[int] = []

    def note(phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            generations.append(about["generation"])

    thresholds = gc.get_threshold()
    gc.disable()
    gc.callbacks.append(note)
    try:
        GarbageTimes.collect_young()
        gc.set_threshold(0)
        gc.enable()
        GarbageTimes.collect_young()
        assert generations == []
        gc.set_threshold(1_000_000)
        GarbageTimes.collect_young()
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*thresholds)
        gc.enable()
    assert generations == [0]


def test_the_collections_since_a_moment_are_added_up() -> None:
    times = GarbageTimes()
    times.times_ns.extend((10, 15, 20, 27, 40, 41))
    assert times.since_ns(20) == 8
    assert times.since_ns(0) == 13
    assert times.since_ns(50) == 0
    times.drop()
    assert times.since_ns(0) == 0


def test_no_code_of_python_runs_in_a_collection_where_an_interrupt_would_be_lost() -> None:
    times, seen = GarbageTimes(), []

    def note(frame: FrameType, event: str, _: object) -> None:
        seen.append((event, frame.f_code.co_filename))

    times.begin()
    sys.setprofile(note)
    try:
        gc.collect()
    finally:
        sys.setprofile(None)
        times.end()
    assert times.take()
    assert not [name for event, name in seen if event == "call" and "torchprof_magic" in name]


def test_ending_does_nothing_where_the_program_has_removed_the_callback() -> None:
    times, before = GarbageTimes(), list(gc.callbacks)
    times.begin()
    gc.callbacks.clear()
    times.end()
    gc.callbacks.extend(before)
    times.end()
    assert gc.callbacks == before


@pytest.mark.parametrize("steps", [1, 3])
def test_nothing_is_left_in_the_list_of_callbacks(steps: int) -> None:
    times, before = GarbageTimes(), list(gc.callbacks)
    for _ in range(steps):
        times.begin()
        times.end()
    assert gc.callbacks == before


def test_times_of_which_one_is_missing_are_dropped_and_earlier_ones_kept() -> None:
    times = GarbageTimes()
    times.times_ns.extend((10, 15))
    times.begin()
    times.times_ns.extend((20, 25, 30))
    times.end()
    assert len(times.times_ns) % 2 == 0
    assert times.take()[0] == (10, 15)
