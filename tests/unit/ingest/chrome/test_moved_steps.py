"""Steps that torch 2.5 moved behind their ops are put back; all others stay where they are."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from torchprof_magic.ingest import read_chrome
from torchprof_magic.model.meta import Meta
from torchprof_magic.model.trace import Trace

# In microseconds: steps of 100 each, the first from 0; two ops in each, and a Python call around both.
OPS = [("aten::mm", "cpu_op", 100 * step + at, 20) for step in range(3) for at in (10, 40)]
CALLS = [("train", "python_function", 100 * step + 5, 60) for step in range(3)]
# Each keeps its end, and begins with the call of step().
MOVED = [(f"ProfilerStep#{step + 5}", "user_annotation", 100 * step + 90, 10) for step in range(3)]
RIGHT = [(f"ProfilerStep#{step + 5}", "user_annotation", 100 * step, 100) for step in range(3)]


def read(*threads: Iterable[tuple[str, str, int, int]], torch_version: str = "") -> Trace:
    rows: list[dict[str, Any]] = [
        {"ph": "X", "name": name, "cat": category, "ts": ts, "dur": dur, "pid": 1, "tid": tid}
        for tid, events in enumerate(threads)
        for name, category, ts, dur in events
    ]
    return read_chrome([json.dumps({"traceEvents": rows}).encode()], Meta(torch_version=torch_version))


def steps_of(trace: Trace) -> list[tuple[int, int]]:
    return trace.steps.select("start_ns", "end_ns").rows()


def codes(trace: Trace) -> list[str]:
    return [problem.code for problem in trace.problems]


def test_steps_begin_where_the_one_before_ended_and_the_first_with_its_first_op() -> None:
    trace = read([*OPS, *CALLS, *MOVED])
    # Times count from the first call, which begins at 5 us; the first op of all begins at 10 us.
    assert steps_of(trace) == [(5_000, 95_000), (95_000, 195_000), (195_000, 295_000)]
    ops = trace.events.filter(category="cpu_op").sort("start_ns")
    assert ops["step"].to_list() == [5, 5, 6, 6, 7, 7]
    (found,) = [problem for problem in trace.problems if problem.code == "chrome.moved_step"]
    assert (found.severity, found.count) == ("info", 3)


@pytest.mark.parametrize(("version", "begin_ns"), [("2.5.1+cpu", 5_000), ("2.6.0+cpu", 90_000 - 5_000)])
def test_a_single_step_begins_with_its_first_op_in_a_live_run_of_the_torch_that_moves_steps(
    version: str, begin_ns: int
) -> None:
    trace = read([*OPS[:2], *CALLS[:1], MOVED[0]], torch_version=version)
    assert steps_of(trace) == [(begin_ns, 95_000)]


def test_the_annotation_of_the_step_is_moved_as_well() -> None:
    annotations = read([*OPS, *CALLS, *MOVED]).events.filter(category="user_annotation")
    assert annotations.sort("start_ns")["dur_ns"].to_list() == [90_000, 100_000, 100_000]
    assert annotations["depth"].to_list() == [0, 0, 0]


@pytest.mark.parametrize(
    "events",
    [
        (*OPS, *CALLS, *RIGHT),
        (*OPS, *MOVED),  # without Python calls, torch moves nothing
        (*OPS[:2], *CALLS, MOVED[0]),  # of a single step, it cannot be told
        (*CALLS, *MOVED),
        (*OPS, *CALLS, *RIGHT[:2], ("ProfilerStep#7", "user_annotation", 150, 140)),  # steps that overlap
        (*OPS, *CALLS, *RIGHT, *((name, cat, ts + 1_000, dur) for name, cat, ts, dur in OPS)),  # work after the steps
    ],
)
def test_other_steps_stay_where_they_are(events: tuple[tuple[str, str, int, int], ...]) -> None:
    first_us = min(ts for _, _, ts, _ in events)
    found = [((ts - first_us) * 1_000, (ts + dur - first_us) * 1_000) for name, _, ts, dur in events if "Step" in name]
    trace = read(events)
    assert steps_of(trace) == sorted(found)
    assert "chrome.moved_step" not in codes(trace)


def test_ops_of_another_thread_do_not_move_steps() -> None:
    assert "chrome.moved_step" not in codes(read([*CALLS, *MOVED], OPS))
