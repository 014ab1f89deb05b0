from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from amount import sampled
from support import Event, annotation, frame, launch, make_trace, span

from torchprof_magic.facts.host.host_nest import HostNest, host_nest, lanes_of, segments_of
from torchprof_magic.model.trace import Trace


def nested(trace: Trace) -> dict[str, tuple[float, float, str | None]]:
    """Return for each event, by name, its start and end in us and the name of the event around it."""
    nest = host_nest(trace)
    names = trace.events["name"].cast(pl.String).gather(nest.row).to_list()
    rows = zip(names, nest.start_ns.tolist(), nest.end_ns.tolist(), nest.parent.tolist(), strict=True)
    return {name: (start / 1000, end / 1000, names[above] if above >= 0 else None) for name, start, end, above in rows}


def test_events_of_all_host_categories_are_nested_in_one_another() -> None:
    trace = make_trace(
        frame("f", 0, 100), annotation("a", 10, 80), span("op", 20, 60), launch(30, 10, 1), span("x", 0, 9, "overhead")
    )
    assert nested(trace) == {
        "f": (0, 100, None),
        "a": (10, 90, "f"),
        "op": (20, 80, "a"),
        "cudaLaunchKernel": (30, 40, "op"),
    }


def test_an_annotation_that_outlives_the_frame_it_begins_in_begins_when_that_frame_ends() -> None:
    trace = make_trace(frame("outer", 0, 100), frame("enter", 10, 5), annotation("a", 12, 50), span("op", 20, 10))
    assert nested(trace) == {
        "outer": (0, 100, None),
        "enter": (10, 15, "outer"),
        "a": (15, 62, "outer"),
        "op": (20, 30, "a"),
    }


def test_of_annotations_that_are_moved_to_one_moment_the_longest_is_around_the_others() -> None:
    trace = make_trace(frame("enter", 0, 10), annotation("short", 2, 20), annotation("long", 4, 30))
    found = nested(trace)
    assert found["long"] == (10, 34, None)
    assert found["short"] == (10, 22, "long")


def test_another_event_that_outlives_the_one_around_it_is_cut_off_there() -> None:
    trace = make_trace(span("op", 0, 50), frame("f", 40, 30), span("later", 60, 5))
    assert nested(trace) == {"op": (0, 50, None), "f": (40, 50, "op"), "later": (60, 65, None)}


def test_a_frame_that_never_returned_ends_with_the_frame_around_it() -> None:
    trace = make_trace(frame("caller", 0, 30), frame("lost", 10, 90), span("op", 20, 5), frame("next", 40, 10))
    assert nested(trace) == {
        "caller": (0, 30, None),
        "lost": (10, 30, "caller"),
        "op": (20, 25, "lost"),
        "next": (40, 50, None),
    }


def test_an_event_that_is_not_nested_itself_hides_nothing_when_it_cuts_through_others() -> None:
    cutting = span("overhead", 40, 100, "overhead")
    trace = make_trace(span("op", 0, 100), cutting, span("inner", 60, 10))
    assert nested(trace)["inner"] == (60, 70, "op")


def test_equal_intervals_nest_from_the_annotation_to_the_runtime_call() -> None:
    call = span("call", 0, 10, cat="cuda_runtime")
    trace = make_trace(call, span("op", 0, 10), annotation("a", 0, 10))
    assert nested(trace) == {"a": (0, 10, None), "op": (0, 10, "a"), "call": (0, 10, "op")}


def test_threads_are_nested_apart() -> None:
    trace = make_trace(span("one", 0, 100), span("two", 10, 10, tid=2))
    assert nested(trace) == {"one": (0, 100, None), "two": (10, 20, None)}
    assert len(lanes_of(host_nest(trace))) == 2


def test_segments_name_the_innermost_event_at_each_moment() -> None:
    trace = make_trace(span("a", 0, 10), span("b", 2, 3), span("zero", 6, 0), span("c", 10, 5), span("d", 20, 5))
    nest = host_nest(trace)
    segments = segments_of(nest, slice(0, len(nest.row)))
    names = [*trace.events["name"].cast(pl.String).gather(nest.row).to_list(), None]
    found = list(zip((segments.start_ns // 1000).tolist(), (names[i] for i in segments.event.tolist()), strict=True))
    assert found == [(0, "a"), (2, "b"), (5, "a"), (10, "c"), (15, None), (20, "d"), (25, None)]


def test_a_trace_without_host_events_has_an_empty_nest() -> None:
    nest = host_nest(make_trace())
    assert len(nest.row) == 0
    assert lanes_of(nest) == []


def random_events(seed: int, categories: list[str]) -> list[Event]:
    chance = np.random.default_rng(seed)
    events = []
    for number in range(int(chance.integers(1, 25))):
        start, dur = int(chance.integers(0, 40)), int(chance.integers(0, 25))
        category = str(chance.choice(categories))
        events.append(span(f"{category} {number}", start, dur, cat=category, tid=int(chance.integers(1, 3))))
    return events


def innermost_slowly(nest: HostNest, rows: range, at_ns: int) -> int:
    """Return the latest of the events of a thread that are open at a moment."""
    return max((row for row in rows if nest.start_ns[row] <= at_ns < nest.end_ns[row]), default=-1)


@pytest.mark.parametrize("seed", sampled(range(150)))
def test_random_events_nest_properly_and_every_moment_has_one_innermost_event(seed: int) -> None:
    trace = make_trace(
        *random_events(seed, ["cpu_op", "user_annotation", "python_function", "cuda_runtime", "overhead"])
    )
    nest = host_nest(trace)
    above = nest.parent >= 0
    assert (nest.parent < np.arange(len(nest.row))).all()
    assert (nest.start_ns[above] >= nest.start_ns[nest.parent[above]]).all()
    assert (nest.end_ns[above] <= nest.end_ns[nest.parent[above]]).all()
    assert (nest.lane[above] == nest.lane[nest.parent[above]]).all()
    assert (nest.end_ns >= nest.start_ns).all()
    assert len(np.unique(nest.row)) == len(nest.row)
    for _, rows in lanes_of(nest):
        segments = segments_of(nest, rows)
        for at_ns in range(0, 70_000, 500):
            index = int(np.searchsorted(segments.start_ns, at_ns, side="right")) - 1
            found = int(segments.event[index]) if index >= 0 else -1
            assert found == innermost_slowly(nest, range(rows.start, rows.stop), at_ns)


@pytest.mark.parametrize("seed", sampled(range(100)))
def test_random_ops_are_cut_as_by_a_stack_that_is_walked_event_by_event(seed: int) -> None:
    """Without annotations nothing is moved, so each event ends with the nearest open one at the latest."""
    trace = make_trace(*random_events(seed, ["cpu_op", "python_function", "cuda_runtime"]))
    expected = []
    for lane in range(trace.lanes.height):
        open_events: list[tuple[int, str]] = []
        for row in trace.events.filter(pl.col("lane") == lane).to_dicts():
            while open_events and open_events[-1][0] <= row["start_ns"]:
                open_events.pop()
            end, caller = row["start_ns"] + row["dur_ns"], open_events[-1] if open_events else None
            end = min(end, caller[0]) if caller else end
            expected.append((row["name"], end / 1000, caller[1] if caller else None))
            open_events.append((end, row["name"]))
    assert sorted((name, end, caller) for name, (_, end, caller) in nested(trace).items()) == sorted(expected)
