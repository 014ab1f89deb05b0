"""Counters as curves in the timeline: which lanes they have, on which scale, and from when to when values hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from support import Event, annotation, counter, kernel, launch, make_trace, span

from torchprof_magic.model.shapes import MOST_LEVEL, Slices
from torchprof_magic.tables.timeline import counter_lanes
from torchprof_magic.tables.timeline.counter_lanes import MAX_NAME_CHARS, MAX_TITLE_CHARS, MOST_CURVES, MOST_OPEN
from torchprof_magic.tables.timeline.slice_search import Search, find_slices
from torchprof_magic.tables.timeline.slice_windows import SliceWindows
from torchprof_magic.tables.timeline.slices import timeline_slices

OP = span("aten::mm", 0, 100)
WORK = (annotation("ProfilerStep#3", 0, 100), OP, launch(12, 2, 1), kernel("gemm", 20, 50, 1))


def of_device(name: str, at_us: float, value: float, device: int = 0) -> Event:
    return counter(name, at_us, pid=f"GPU {device} Counters", **{"": value})


def slices_of(*events: Event) -> Slices:
    return timeline_slices(make_trace(*events))


def lanes(slices: Slices) -> list[tuple[str, str, str]]:
    """Return title, kind and group of the lanes of counters."""
    return [(lane.title, lane.kind, lane.group) for lane in slices.lanes if lane.kind in ("counters", "counter")]


def curve(slices: Slices, title: str) -> list[tuple[Any, ...]]:
    """Return start and duration in us, and value, of the slices of a counter."""
    number, lane = next((at, lane) for at, lane in enumerate(slices.lanes) if lane.title == title)
    scale = lane.scale
    assert scale is not None
    rows = slices.frame.filter(pl.col("lane") == number).select("start_ns", "dur_ns", "count").rows()
    step = (scale.high - scale.low) / MOST_LEVEL
    return [(start / 1000, dur / 1000, pytest.approx(scale.low + level * step, abs=1e-6)) for start, dur, level in rows]


def test_the_counters_of_a_device_stand_below_its_streams_and_the_others_behind_all_devices() -> None:
    slices = slices_of(
        *WORK,
        of_device("Power (W)", 1, 300),
        of_device("SM Active (%)", 1, 50),
        of_device("Power (W)", 1, 90, device=2),
        counter("batches", 5, value=1),
    )
    kinds = [lane.kind for lane in slices.lanes]
    assert kinds[-8:] == ["queue", "counters", "counter", "counter", "counters", "counter", "counters", "counter"]
    assert lanes(slices) == [
        ("2 counters: Power, SM Active", "counters", "Device 0"),
        ("Power", "counter", "Device 0"),
        ("SM Active", "counter", "Device 0"),
        ("1 counter: Power", "counters", "Device 2"),
        ("Power", "counter", "Device 2"),
        ("1 counter: batches", "counters", "Counters"),
        ("batches", "counter", "Counters"),
    ]


def test_a_value_holds_until_the_next_and_the_last_until_the_end_of_the_events() -> None:
    slices = slices_of(OP, *(of_device("Power (W)", at, value) for at, value in ((10, 300), (40, 350), (70, 90))))
    assert curve(slices, "Power") == [(10, 30, 300), (40, 30, 350), (70, 30, 90)]


def test_values_from_before_the_events_hold_at_their_start_and_those_after_them_are_not_shown() -> None:
    times = ((-80, 1), (-20, 2), (50, 3), (100, 4), (5_000, 5))
    events = [span("aten::mm", 1_000, 100), *(of_device("Power (W)", 1_000 + at, value) for at, value in times)]
    assert curve(slices_of(*events), "Power") == [(0, 50, 2), (50, 50, 3)]
    whole = make_trace(*events)
    assert whole.counters.height == 5
    assert (whole.events["start_ns"].to_list(), whole.counters["time_ns"][0]) == ([0], -80_000)


def test_of_several_values_at_one_moment_the_last_one_holds() -> None:
    slices = slices_of(OP, *(of_device("load", at, value) for at, value in ((10, 1), (10, 7), (60, 2))))
    assert curve(slices, "load") == [(10, 50, 7), (60, 40, 2)]


@pytest.mark.parametrize(
    ("name", "values", "low", "high"),
    [
        ("Power (W)", (80, 300), 0, 300),
        ("SM Active (%)", (10, 40), 0, 100),
        ("SM Active (%)", (10, 140), 0, 140),
        ("balance", (-5, 20), -5, 20),
        ("balance", (-5, -2), -5, 0),
        ("Fan Speed", (0, 0), 0, 1),
        ("wide", (-1e300, 1e300), -1e300, 1e300),
    ],
)
def test_a_scale_goes_from_zero_to_the_largest_value(
    name: str, values: tuple[float, float], low: float, high: float
) -> None:
    slices = slices_of(OP, *(of_device(name, 10 * at, value) for at, value in enumerate(values, 1)))
    scale = slices.lanes[-1].scale
    assert scale is not None
    assert (scale.low, scale.high) == (low, high)
    assert (scale.least, scale.most) == (min(values), max(values))
    levels = slices.frame.filter(pl.col("kind") == "counter")["count"].to_list()
    assert levels == [round((value - low) / (high - low) * MOST_LEVEL) for value in values]


def test_more_curves_than_anyone_reads_at_once_are_folded_at_first() -> None:
    def folded(count: int) -> list[bool]:
        found = slices_of(OP, *(of_device(f"c{number}", 1, 1, number % 2) for number in range(count)))
        return [lane.is_folded for lane in found.lanes if lane.kind == "counters"]

    assert folded(MOST_OPEN) == [False, False]
    assert folded(MOST_OPEN + 1) == [True, True]


def test_of_very_many_counters_those_with_the_most_values_are_shown_in_their_order() -> None:
    few = [of_device(f"few {number}", 1, number) for number in range(100)]
    often = [of_device(f"often {number}", at, number) for at in (2, 3) for number in range(MOST_CURVES)]
    slices = slices_of(OP, *few, *often)
    assert [lane.title for lane in slices.lanes if lane.kind == "counter"] == [
        f"often {number}" for number in range(MOST_CURVES)
    ]
    head = next(lane.title for lane in slices.lanes if lane.kind == "counters")
    assert head.startswith("32 of 132 counters: often 0, often 1, ")


def test_names_of_lanes_are_short_and_those_of_slices_whole() -> None:
    name = "sm__" + "x" * 500
    slices = slices_of(OP, of_device(name, 1, 1))
    head, lane = slices.lanes[-2:]
    assert (len(lane.title), len(head.title)) == (MAX_NAME_CHARS, len("1 counter: ") + MAX_NAME_CHARS)
    assert slices.frame.filter(pl.col("kind") == "counter")["name"].to_list() == [name]
    many = slices_of(OP, *(of_device(f"{number} {name}", 1, 1) for number in range(20)))
    assert len(next(each.title for each in many.lanes if each.kind == "counters")) == MAX_TITLE_CHARS


def test_a_file_of_counters_alone_is_shown_from_its_first_value_to_its_last() -> None:
    slices = slices_of(*(counter("load", at, value=at) for at in (10, 30, 40)))
    assert lanes(slices) == [("1 counter: load", "counters", "Counters"), ("load", "counter", "Counters")]
    assert curve(slices, "load") == [(0, 20, 10), (20, 10, 30), (30, 0.001, 40)]


def test_a_recording_without_counters_has_no_such_lane() -> None:
    assert lanes(slices_of(*WORK)) == []


def test_lanes_of_counters_beyond_the_number_of_lanes_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchprof_magic.tables.timeline.slices.MAX_LANES", 8)
    slices = slices_of(*WORK, *(of_device(f"c{number}", 1, 1) for number in range(20)))
    assert lanes(slices) == []
    assert slices.frame.height > 0


def test_the_highest_value_stands_for_those_that_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchprof_magic.tables.timeline.slice_levels.COARSEST_BUCKETS", 16)
    values = np.random.default_rng(0).integers(0, 1_000, 4_000)
    events = [of_device("load", at / 100, value) for at, value in enumerate(values.tolist())]
    slices = slices_of(span("aten::mm", 0, 40), *events)
    found = SliceWindows(slices).window("depth", 0, 40_000, 10).slices.frame.filter(pl.col("kind") == "counter")
    assert found.height < 100
    assert found["merged"].sum() == len(values)
    assert found["count"].max() == MOST_LEVEL
    whole = slices.frame["count"].to_numpy()
    first = np.flatnonzero((slices.frame["kind"] == "counter").to_numpy())[0]
    at = first
    for count, merged in found.select("count", "merged").rows():
        assert count == whole[at : at + merged].max()
        at += merged


def test_a_search_finds_no_counters() -> None:
    slices = slices_of(OP, of_device("aten::mm", 10, 1))
    found = find_slices(SliceWindows(slices), Search(layer="depth", text="aten::mm"))
    assert slices.frame["kind"].gather(found).to_list() == ["op"]


def test_no_curve_is_computed_without_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_lanes, "extent_of", lambda _: pytest.fail("nothing is to be shown"))
    assert counter_lanes.curve_groups(make_trace(OP)) == {}
