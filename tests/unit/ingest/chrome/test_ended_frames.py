"""Frames that were open when stacks ended last as long as is known; torch lets them last to the end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from torchprof_magic.ingest import read_chrome
from torchprof_magic.model.trace import Trace

# In microseconds: a cell that calls f, which calls an op; stacks end at 50, within the op; the recording ends at 100.
BASE_NS = 1_700_000_000_000_000_000
FRAMES = [("cell", 0, 100), ("f", 10, 90), ("g", 20, 10)]
OPS = [("aten::mm", 40, 30), ("aten::add", 80, 5)]


def read(
    frames: list[tuple[str, int, int]], ops: list[tuple[str, int, int]], ended_ns: object = BASE_NS + 50_000
) -> Trace:
    rows: list[dict[str, Any]] = [
        {"ph": "X", "name": name, "cat": category, "ts": ts, "dur": dur, "pid": 1, "tid": 1}
        for category, events in (("python_function", frames), ("cpu_op", ops))
        for name, ts, dur in events
    ]
    head = {"baseTimeNanoseconds": BASE_NS, "torchprofStacksEnd": ended_ns}
    return read_chrome([json.dumps({**head, "traceEvents": rows}).encode()])


def lengths(trace: Trace) -> dict[str, int]:
    """Return how long each event lasts, in us."""
    return {name: dur // 1000 for name, dur in trace.events.select("name", "dur_ns").iter_rows()}


def parents(trace: Trace) -> dict[str, str | None]:
    names = trace.events["name"].to_list()
    return {
        name: names[parent] if parent >= 0 else None for name, parent in zip(names, trace.events["parent"], strict=True)
    }


def test_an_open_frame_lasts_as_long_as_the_op_that_it_called() -> None:
    trace = read(FRAMES, OPS)
    # The op ends at 70: the frames around it, which begin at 0 and 10, last until then.
    assert lengths(trace) == {"cell": 70, "f": 60, "g": 10, "aten::mm": 30, "aten::add": 5}
    assert parents(trace) == {"cell": None, "f": "cell", "g": "f", "aten::mm": "f", "aten::add": None}
    assert not any(problem.code == "chrome.partial_overlap" for problem in trace.problems)


def test_a_frame_in_which_nothing_is_open_ends_with_what_was_last_seen_in_it() -> None:
    # f calls g, which returns at 47; stacks end at 50, and f may have returned before that.
    frames = [("cell", 0, 100), ("f", 45, 55), ("g", 46, 1)]
    assert lengths(read(frames, [])) == {"cell": 47, "f": 2, "g": 1}


def test_the_length_of_a_builtin_that_seems_open_is_unknown() -> None:
    # torch lets the last call of a builtin last to the end, although the function that it returned to is over.
    frames = [("cell", 0, 100), ("ours", 5, 2), ("<built-in function perf_counter_ns>", 6, 94), ("f", 20, 1)]
    trace = read(frames, [("aten::mm", 22, 3), ("aten::add", 80, 5)])
    assert lengths(trace) == {
        "cell": 25,
        "ours": 2,
        "<built-in function perf_counter_ns>": 0,
        "f": 1,
        "aten::mm": 3,
        "aten::add": 5,
    }
    assert parents(trace)["f"] == parents(trace)["aten::mm"] == "cell"


def test_a_frame_that_seems_to_begin_later_lasts_no_time() -> None:
    assert lengths(read([("cell", 0, 100), ("f", 51, 49)], []))["f"] == 0


@pytest.mark.parametrize("ended_ns", [None, "soon", -1, 1.5, 10**30, [1]])
def test_without_a_time_frames_stay_as_they_are(ended_ns: object) -> None:
    assert lengths(read(FRAMES, OPS, ended_ns)) == {"cell": 100, "f": 90, "g": 10, "aten::mm": 30, "aten::add": 5}


def test_the_time_may_be_written_as_text() -> None:
    assert lengths(read(FRAMES, OPS, str(BASE_NS + 50_000)))["cell"] == 70


def test_frames_of_another_thread_end_with_what_they_called_themselves() -> None:
    rows: list[dict[str, Any]] = [
        {"ph": "X", "name": name, "cat": category, "ts": ts, "dur": dur, "pid": 1, "tid": tid}
        for category, name, ts, dur, tid in (
            ("python_function", "here", 0, 100, 1),
            ("python_function", "there", 0, 100, 2),
            ("cpu_op", "aten::mm", 40, 30, 2),
        )
    ]
    head = {"baseTimeNanoseconds": BASE_NS, "torchprofStacksEnd": BASE_NS + 50_000}
    trace = read_chrome([json.dumps({**head, "traceEvents": rows}).encode()])
    assert lengths(trace) == {"here": 0, "there": 70, "aten::mm": 30}
