"""What lies in a range of time, in the flame graph, the lines and the modules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from support import allocation, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.facts.time_range import WHOLE, TimeRange
from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA
from torchprof_magic.tables.flame.call_tree import flame_tree
from torchprof_magic.tables.source.lines import lines_table
from torchprof_magic.tables.source.module_outline import modules_view
from torchprof_magic.tables.source.modules import modules_table
from torchprof_magic.tables.source.source_view import source_view

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

FORWARD = {"Sequence number": 1}
NODE = {"Sequence number": 1, "Fwd thread id": 1}
FIRST, SECOND = TimeRange(0, 100_000), TimeRange(100_000, 200_000)
LINES = ["for batch in loader:", "    model(batch)", "    loss.backward()"]


def two_steps(*more: Any) -> Trace:
    """The first step has a forward op of 20 us, its node of 30 us and two kernels, of which the second ends 20 us into
    the second step. There a forward op of 40 us has a kernel of 10 us.
    """
    return make_trace(
        frame("train.py(1): main", 0, 200),
        annotation("ProfilerStep#0", 0, 100),
        span("aten::mm", 12, 20, **FORWARD),
        launch(13, 1, correlation=1),
        kernel("gemm", 14, 30, correlation=1),
        span("cudaStreamSynchronize", 34, 4, cat="cuda_runtime"),
        span("autograd::engine::evaluate_function: MmBackward0", 50, 30, **NODE),
        span("MmBackward0", 52, 20, **NODE),
        launch(54, 1, correlation=2),
        kernel("gemm_grad", 70, 50, correlation=2),
        annotation("ProfilerStep#1", 100, 100),
        span("aten::mm", 110, 40),
        launch(111, 1, correlation=3),
        kernel("gemm", 130, 10, correlation=3),
        allocation(15, 512, 512),
        allocation(55, -128, 384),
        allocation(115, 256, 640),
        *more,
    )


def watched(trace: Trace) -> Trace:
    """The trace with lines, and a module with one inside it, on its first thread."""
    sites = [
        {"kind": "line", "parent": -1, "name": text, "file": "cell", "line": line}
        for line, text in enumerate(LINES, start=1)
    ]
    sites += [
        {"kind": "module", "parent": -1, "name": "", "class_name": "Net"},
        {"kind": "module", "parent": 3, "name": "layer", "class_name": "Linear"},
    ]
    runs = [(0, 0, 10), (1, 10, 35), (3, 11, 30), (4, 12, 20), (2, 45, 50), (0, 95, 10), (1, 105, 95), (3, 105, 90)]
    rows = [(site, 0, start * 1000, dur * 1000, 0) for site, start, dur in runs]
    return replace(
        trace,
        sites=pl.DataFrame(sites, schema=SITES_SCHEMA),
        scopes=pl.DataFrame(rows, schema=SCOPES_SCHEMA, orient="row"),
    )


def boxes(trace: Trace, part: TimeRange) -> dict[str, dict[str, float]]:
    """Return every box of the flame graph in a range by its path, such as ``all/step/aten::mm``."""
    rows = flame_tree(trace, part).frame.to_dicts()
    names: list[str] = []
    for row in rows:
        names.append(f"{names[row['parent']]}/{row['name']}" if row["parent"] >= 0 else row["name"])
    return dict(zip(names, rows, strict=True))


def by_line(trace: Trace, part: TimeRange, *columns: str) -> dict[int, Any]:
    found = lines_table(trace, part).frame
    return {row[0]: row[1:] for row in found.select("line", *columns).rows()}


def test_intervals_are_cut_at_the_edges_and_nested_ones_stay_nested() -> None:
    start, dur = np.array([0, 5, 8, 20, 30]), np.array([40, 10, 2, 4, 0])
    cut_start, cut_dur = TimeRange(10, 22).cut(start, dur)
    assert cut_start.tolist() == [10, 10, 10, 20, 22]
    assert cut_dur.tolist() == [12, 5, 0, 2, 0]


def test_an_interval_touches_a_range_if_any_of_it_lies_inside() -> None:
    start, dur = np.array([0, 5, 20, 10, 22]), np.array([10, 6, 4, 0, 0])
    assert TimeRange(10, 22).touches(start, dur).tolist() == [False, True, True, True, False]
    assert TimeRange(10, 22).holds(np.array([9, 10, 21, 22])).tolist() == [False, True, True, False]


def test_the_whole_recording_is_a_range_that_changes_nothing() -> None:
    trace = watched(two_steps())
    assert flame_tree(trace, WHOLE).frame.equals(flame_tree(trace).frame)
    assert flame_tree(trace, TimeRange(-1, 10**9)).frame.equals(flame_tree(trace).frame)
    assert lines_table(trace, TimeRange(-1, 10**9)).frame.equals(lines_table(trace).frame)
    assert modules_table(trace, TimeRange(-1, 10**9)).frame.equals(modules_table(trace).frame)


def test_the_flame_graph_of_a_step_has_its_calls_alone() -> None:
    second = boxes(two_steps(), SECOND)
    step = "all/train.py(1): main/ProfilerStep"
    assert second["all/train.py(1): main"]["self_calls"] == 1
    assert second[step]["total_cpu_ns"] == 100_000
    assert second[step]["self_calls"] == 1
    assert second[f"{step}/aten::mm"]["total_cpu_ns"] == 40_000
    assert second[f"{step}/aten::mm"]["self_calls"] == 1
    assert second[f"{step}/aten::mm"]["total_bytes"] == 256


def test_work_that_runs_in_the_range_hangs_under_its_launch_before_it() -> None:
    second = boxes(two_steps(), SECOND)
    kernels = {path.rpartition("/")[2]: row["total_device_ns"] for path, row in second.items() if "gemm" in path}
    assert kernels == {"gemm": 10_000, "gemm_grad": 20_000}
    above = next(row for path, row in second.items() if path.endswith("/MmBackward0"))
    assert (above["total_cpu_ns"], above["self_calls"], above["total_device_ns"]) == (0, 0, 20_000)
    assert second["all"]["total_device_ns"] == 30_000


def test_a_range_inside_a_call_cuts_it() -> None:
    part = boxes(two_steps(), TimeRange(20_000, 60_000))
    step = "all/train.py(1): main/ProfilerStep"
    assert part["all"]["total_cpu_ns"] == 40_000
    assert part[f"{step}/aten::mm"]["total_cpu_ns"] == 12_000
    assert part[f"{step}/aten::mm/gemm"]["total_device_ns"] == 24_000
    assert part[step]["self_cpu_ns"] == 40_000 - 12_000 - 10_000


def test_a_range_in_which_nothing_ran_has_the_root_alone() -> None:
    found = flame_tree(two_steps(), TimeRange(900_000, 950_000)).frame
    assert found["name"].to_list() == ["all"]
    assert found["total_cpu_ns"].to_list() == [0]


def test_the_times_of_ranges_that_follow_one_another_add_up() -> None:
    trace = watched(two_steps())
    parts = [TimeRange(0, 37_000), TimeRange(37_000, 115_000), TimeRange(115_000, 10**9)]
    for weight in ("cpu_ns", "device_ns", "idle_ns", "bytes"):
        whole = flame_tree(trace).frame[f"total_{weight}"][0]
        assert sum(flame_tree(trace, part).frame[f"total_{weight}"][0] for part in parts) == whole
    for column in ("self_cpu_ns", "total_cpu_ns", "wait_ns", "device_ns", "backward_cpu_ns", "bytes"):
        whole = lines_table(trace).frame[column].sum()
        assert sum(lines_table(trace, part).frame[column].sum() for part in parts) == whole


def test_the_lines_of_a_step_are_its_own() -> None:
    columns = ("hits", "self_cpu_ns", "device_ns", "wait_ns", "backward_cpu_ns", "backward_device_ns", "bytes")
    trace = watched(two_steps())
    assert by_line(trace, FIRST, *columns) == {
        1: (2, 15_000, 0, 0, 0, 0, 0),
        2: (1, 35_000, 30_000, 4_000, 30_000, 30_000, 512),
        3: (1, 50_000, 0, 0, 0, 0, -128),
    }
    # 20 us of the backward kernel of the first step run in the second.
    assert by_line(trace, SECOND, *columns) == {
        1: (1, 5_000, 0, 0, 0, 0, 0),
        2: (1, 95_000, 10_000, 0, 0, 20_000, 256),
        3: (0, 0, 0, 0, 0, 0, 0),
    }
    assert source_view(trace, SECOND).frame["line"].head(3).to_list() == [1, 2, 3]


def test_functions_and_lines_of_ops_follow_too() -> None:
    assert lines_table(two_steps(), SECOND).frame.select("hits", "self_cpu_ns").rows() == [(1, 100_000)]
    # Older torch writes stacks at the ops alone: no Python frame is an event.
    old = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("aten::mm", 10, 20, **{"Call stack": "train.py(3): main"}),
        annotation("ProfilerStep#1", 100, 100),
        span("aten::mm", 110, 40, **{"Call stack": "train.py(3): main"}),
        launch(111, 1, correlation=3),
        kernel("gemm", 190, 20, correlation=3),
    )
    columns = ("line", "hits", "self_cpu_ns", "device_ns")
    assert lines_table(old, FIRST).frame.select(columns).rows() == [(3, 1, 20_000, 0)]
    assert lines_table(old, SECOND).frame.select(columns).rows() == [(3, 1, 40_000, 10_000)]


def test_the_modules_of_a_step_are_those_with_work_in_it() -> None:
    trace = watched(two_steps())
    columns = ("path", "calls", "self_cpu_ns", "total_cpu_ns", "device_ns", "backward_cpu_ns", "backward_device_ns")
    first = modules_table(trace, FIRST).frame.select(columns).rows()
    assert first == [
        ("", 1, 10_000, 30_000, 30_000, 30_000, 30_000),
        ("layer", 1, 20_000, 20_000, 30_000, 30_000, 30_000),
    ]
    # The layer does not run in the second step, but 20 us of its backward kernel do.
    second = modules_table(trace, SECOND).frame.select(columns).rows()
    assert second == [("", 1, 90_000, 90_000, 10_000, 0, 20_000), ("layer", 0, 0, 0, 0, 0, 20_000)]
    third = modules_table(trace, TimeRange(150_000, 200_000)).frame.select(columns).rows()
    assert third == [("", 1, 45_000, 45_000, 0, 0, 0)]
    assert modules_view(trace, TimeRange(150_000, 200_000)).frame["path"].to_list() == ["Net"]


@pytest.mark.parametrize("part", [FIRST, SECOND])
def test_flops_count_in_the_range_in_which_the_op_begins(part: TimeRange) -> None:
    shapes = {"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}
    ops = (span("aten::mm", 90, 20, **shapes), span("aten::mm", 150, 20, **shapes))
    trace = make_trace(annotation("all steps", 0, 200), *ops)
    found = boxes(trace, part)
    assert found["all"]["total_flops"] == 2 * 2 * 3 * 4
    assert found["all/all steps/aten::mm"]["self_calls"] == {FIRST: 1, SECOND: 2}[part]
