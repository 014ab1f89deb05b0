from __future__ import annotations

import numpy as np
import pytest
from support import Event, annotation, frame, make_trace, span

from torchprof_magic.analysis.host_nest import HostNest, host_nest, lanes_of, segments_of
from torchprof_magic.model.trace import Trace


def described(trace: Trace) -> set[tuple[str, int, int, str]]:
    """Name, start, end and parent's name of every host event, in us."""
    nest, names = host_nest(trace), trace.events["name"]
    return {
        (
            str(names[int(row)]),
            int(start) // 1000,
            int(end) // 1000,
            str(names[int(nest.row[parent])]) if parent >= 0 else "",
        )
        for row, start, end, parent in zip(nest.row, nest.start_ns, nest.end_ns, nest.parent, strict=True)
    }


def test_an_annotation_that_outlives_the_frame_it_began_in_begins_where_that_ends() -> None:
    trace = make_trace(
        frame("train.py(1): step", 0, 100),
        frame("torch/autograd/profiler.py(7): __enter__", 10, 10),
        annotation("forward", 15, 60),
        span("aten::mm", 25, 10),
    )
    assert described(trace) == {
        ("train.py(1): step", 0, 100, ""),
        ("torch/autograd/profiler.py(7): __enter__", 10, 20, "train.py(1): step"),
        ("forward", 20, 75, "train.py(1): step"),
        ("aten::mm", 25, 35, "forward"),
    }


def test_anything_else_that_outlives_the_event_around_it_is_cut_off_there() -> None:
    trace = make_trace(span("outer", 0, 50), span("inner", 40, 30), span("innermost", 45, 100))
    assert described(trace) == {
        ("outer", 0, 50, ""),
        ("inner", 40, 50, "outer"),
        ("innermost", 45, 50, "inner"),
    }


def test_events_that_nest_properly_stay_as_they_are() -> None:
    trace = make_trace(span("a", 0, 50), span("b", 10, 20), span("c", 30, 20), span("other", 5, 90, tid=2))
    assert described(trace) == {("a", 0, 50, ""), ("b", 10, 30, "a"), ("c", 30, 50, "a"), ("other", 5, 95, "")}


def test_the_innermost_event_at_each_moment() -> None:
    trace = make_trace(span("a", 0, 50), span("b", 10, 20), span("empty", 15, 0), span("c", 30, 10), span("d", 60, 5))
    nest = host_nest(trace)
    ((_, rows),) = lanes_of(nest)
    segments = segments_of(nest, rows)
    names = [str(trace.events["name"][int(nest.row[event])]) if event >= 0 else "-" for event in segments.event]
    assert list(zip((segments.start_ns // 1000).tolist(), names, strict=True)) == [
        (0, "a"), (10, "b"), (30, "c"), (40, "a"), (50, "-"), (60, "d"), (65, "-"),
    ]  # fmt: skip


def random_events(seed: int) -> list[Event]:
    rng = np.random.default_rng(seed)
    events = []
    for number in range(30):
        start, dur, tid = int(rng.integers(0, 60)), int(rng.integers(0, 30)), int(rng.integers(1, 3))
        make = (span, frame, annotation)[int(rng.integers(0, 3))]
        events.append(make(f"event {number}", start, dur, tid=tid))
    return events


def slow_innermost(nest: HostNest, lane: int, time_ns: int) -> int:
    """The deepest event that covers a moment, found by looking at all of them."""
    found, best = -1, -1
    for index in range(len(nest.row)):
        if nest.lane[index] == lane and nest.start_ns[index] <= time_ns < nest.end_ns[index]:
            depth, above = 0, int(nest.parent[index])
            while above >= 0:
                depth, above = depth + 1, int(nest.parent[above])
            if depth > best:
                found, best = index, depth
    return found


@pytest.mark.parametrize("seed", range(60))
def test_whatever_overlaps_is_nested_so_that_every_moment_has_one_innermost_event(seed: int) -> None:
    nest = host_nest(make_trace(*random_events(seed)))
    inner = np.flatnonzero(nest.parent >= 0)
    outer = nest.parent[inner]
    assert (outer < inner).all()
    assert (nest.start_ns[outer] <= nest.start_ns[inner]).all()
    assert (nest.end_ns[outer] >= nest.end_ns[inner]).all()
    assert (nest.end_ns >= nest.start_ns).all()
    for lane, rows in lanes_of(nest):
        segments = segments_of(nest, rows)
        for time_ns in range(0, 95_000, 1000):
            at = int(np.searchsorted(segments.start_ns, time_ns, side="right")) - 1
            found = int(segments.event[at]) if at >= 0 else -1
            assert found == slow_innermost(nest, lane, time_ns)
