"""Work of graphs gets the launches of their capture; expected matches are worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from support import annotation, frame, kernel, make_trace, span

from torchprof_magic.facts.device.captures_beside import with_captures
from torchprof_magic.facts.device.graph_captures import captured_graphs
from torchprof_magic.facts.device.graph_work import graph_work, is_captured, origins, replayed_calls
from torchprof_magic.facts.source.attribution import shares_of, watched_runs
from torchprof_magic.facts.source.fx_nodes import model_lines
from torchprof_magic.facts.source.places import module_of_events, places_of
from torchprof_magic.facts.time_range import WHOLE, TimeRange
from torchprof_magic.model.cycle_filter import of_cycle, without_captures
from torchprof_magic.model.meta import GraphCapture
from torchprof_magic.model.trace import FRAME_SCHEMAS
from torchprof_magic.report.trace_report import Report

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

Event = dict[str, Any]
BLOCK = [256, 1, 1]


def call(name: str, start_us: float, dur_us: float = 1, **args: Any) -> Event:
    return span(name, start_us, dur_us, cat="cuda_runtime", correlation=int(start_us * 10), **args)


def launched(name: str, start_us: float, grid: int | None = 1) -> Event:
    """A launch that says what it launches, as HIP writes it."""
    extent = {} if grid is None else {"grid": [grid, 1, 1], "block": BLOCK}
    return call("hipLaunchKernel", start_us, kernel=name, **extent)


def capture_of(*launches: tuple[str, str, int], start_us: float = 0, name: str = "capture") -> list[Event]:
    """A capture of ops, each with one launch: their names, the kernels and the grids. Every op takes 10 µs."""
    end_us = start_us + 20 + 10 * len(launches)
    events = [
        annotation(name, start_us, end_us - start_us + 10),
        call("hipStreamBeginCapture", start_us + 5),
        call("hipStreamEndCapture", end_us),
    ]
    for number, (op, kernel_name, grid) in enumerate(launches):
        at_us = start_us + 10 + 10 * number
        events += [span(op, at_us, 8, **{"Input Dims": [[grid, 8]]}), launched(kernel_name, at_us + 2, grid)]
    return events


def replay_of(*kernels: str | tuple[str, int], start_us: float = 0, correlation: int = 1) -> list[Event]:
    """A replay, whose kernels take 10 µs one after another: their names, or names and grids."""
    launch = span("hipGraphLaunch", start_us, 5, cat="cuda_runtime", correlation=correlation)
    events = [annotation("serve", start_us - 1, 10), launch]
    for number, each in enumerate(kernels):
        name, extent = (each, {}) if isinstance(each, str) else (each[0], {"grid": [each[1], 1, 1], "block": BLOCK})
        events.append(kernel(name, start_us + 10 + 10 * number, 8, correlation, **extent))
    return events


def joined(replay: list[Event], *captures: list[Event]) -> Trace:
    trace = make_trace(*replay)
    for capture in captures:
        trace = with_captures(trace, make_trace(*capture))
    return trace


def ops_of_kernels(trace: Trace) -> list[str | None]:
    """Return for each kernel, in order of time, the op around the captured launch that it comes from, if any."""
    events, origin = trace.events, graph_work(trace).origin
    rows = np.flatnonzero((events["category"] == "kernel").to_numpy())
    rows = rows[np.argsort(events["start_ns"].to_numpy()[rows], kind="stable")]
    parents = events["parent"].to_list()
    return [events["name"][parents[origin[row]]] if origin[row] >= 0 else None for row in rows.tolist()]


MLP = (("aten::addmm", "gemm", 4), ("aten::relu", "relu", 2), ("aten::addmm", "gemm", 4))


def test_each_kernel_of_a_replay_comes_from_the_launch_at_its_place() -> None:
    trace = joined(replay_of("gemm", "relu", "gemm"), capture_of(*MLP))
    found = graph_work(trace)
    (graph,) = captured_graphs(trace)
    assert ops_of_kernels(trace) == ["aten::addmm", "aten::relu", "aten::addmm"]
    assert found.origin[found.is_graph].tolist() == graph.launches.tolist()
    assert (found.unsure, found.by_order) == (0, 0)


def test_a_capture_in_the_same_recording_needs_no_other_file() -> None:
    trace = make_trace(*capture_of(*MLP), *replay_of("gemm", "relu", "gemm", start_us=500))
    assert ops_of_kernels(trace) == ["aten::addmm", "aten::relu", "aten::addmm"]


def test_a_replay_before_a_capture_is_not_of_it() -> None:
    trace = make_trace(*replay_of("gemm", "relu", "gemm"), *capture_of(*MLP, start_us=500))
    assert ops_of_kernels(trace) == [None, None, None]


def test_a_missing_kernel_leaves_the_others_at_their_places() -> None:
    trace = joined(replay_of("relu", "gemm"), capture_of(*MLP))
    assert ops_of_kernels(trace) == ["aten::relu", "aten::addmm"]


def test_a_kernel_that_was_not_captured_has_no_op() -> None:
    trace = joined(replay_of("gemm", "odd", "relu", "gemm"), capture_of(*MLP))
    assert ops_of_kernels(trace) == ["aten::addmm", None, "aten::relu", "aten::addmm"]
    found = graph_work(trace)
    assert (int(found.is_graph.sum()), int(found.is_matched.sum())) == (4, 3)


def test_a_graph_of_which_less_than_half_fits_is_another_one() -> None:
    trace = joined(replay_of("gemm", "a", "b"), capture_of(*MLP))
    assert ops_of_kernels(trace) == [None, None, None]


def test_kernels_that_ran_in_another_order_on_several_streams_find_their_launches() -> None:
    side = [("aten::mm", "gemm", 4), ("aten::sin", "sin", 1), ("aten::cos", "cos", 1), ("aten::add", "add", 1)]
    events = replay_of("gemm", "cos", "sin", "add")
    for event in events[3:4]:  # cos runs on a stream of its own
        event["tid"] = event["args"]["stream"] = 8
    trace = joined(events, capture_of(*side))
    assert ops_of_kernels(trace) == ["aten::mm", "aten::cos", "aten::sin", "aten::add"]


def test_each_replay_of_several_graphs_finds_its_own_by_the_grid() -> None:
    small = capture_of(("aten::mm", "gemm", 1), ("aten::relu", "relu", 1), name="batch 1")
    large = capture_of(("aten::addmm", "gemm", 8), ("aten::relu_", "relu", 8), name="batch 8")
    replays = [
        *replay_of(("gemm", 8), ("relu", 8), start_us=10, correlation=1),
        *replay_of(("gemm", 1), ("relu", 1), start_us=100, correlation=2),
        *replay_of(("gemm", 8), ("relu", 8), start_us=200, correlation=3),
    ]
    trace = joined(replays, small, large)
    assert graph_work(trace).graph.tolist() == [1, 0, 1]
    assert ops_of_kernels(trace) == [
        "aten::addmm", "aten::relu_", "aten::mm", "aten::relu", "aten::addmm", "aten::relu_",
    ]  # fmt: skip


def test_a_replay_with_another_grid_than_all_captures_has_no_ops() -> None:
    trace = joined(
        replay_of(("gemm", 16), ("relu", 16)), capture_of(("aten::mm", "gemm", 1), ("aten::relu", "relu", 1))
    )
    assert ops_of_kernels(trace) == [None, None]


def test_captures_that_fit_equally_well_are_told_if_their_ops_differ() -> None:
    small, large = (capture_of(("aten::mm", "gemm", grid), ("aten::relu", "relu", grid)) for grid in (1, 8))
    trace = joined(replay_of("gemm", "relu"), small, large)
    assert graph_work(trace).unsure == 1
    assert graph_work(trace).graph.tolist() == [1]
    assert graph_work(joined(replay_of("gemm", "relu"), small, small)).unsure == 0


def test_the_graph_with_the_fewest_other_launches_is_the_one() -> None:
    longer = capture_of(*MLP, ("aten::sin", "sin", 1))
    trace = joined(replay_of("gemm", "relu", "gemm"), capture_of(*MLP), longer)
    assert (graph_work(trace).graph.tolist(), graph_work(trace).unsure) == ([0], 0)


def cuda_capture(*ops: str) -> list[Event]:
    """A capture as CUDA writes it: the calls do not say which kernel they launch."""
    events = [call("cudaStreamBeginCapture", 5), call("cudaStreamEndCapture", 90)]
    for number, op in enumerate(ops):
        events += [span(op, 10 + 10 * number, 8), call("cudaLaunchKernel", 12 + 10 * number)]
    return events


def test_launches_without_names_are_matched_by_order_if_the_graph_has_exactly_them() -> None:
    trace = joined(replay_of("a", "b"), cuda_capture("aten::mm", "aten::relu"))
    assert ops_of_kernels(trace) == ["aten::mm", "aten::relu"]
    assert graph_work(trace).by_order == 1


@pytest.mark.parametrize("ops", [("aten::mm",), ("aten::mm", "aten::relu", "aten::mm")])
def test_launches_without_names_match_nothing_if_there_are_more_or_fewer(ops: tuple[str, ...]) -> None:
    trace = joined(replay_of("a", "b"), cuda_capture(*ops))
    assert ops_of_kernels(trace) == [None, None]


def test_launches_without_names_match_nothing_on_several_streams() -> None:
    events = replay_of("a", "b")
    events[-1]["tid"] = events[-1]["args"]["stream"] = 8
    assert ops_of_kernels(joined(events, cuda_capture("aten::mm", "aten::relu"))) == [None, None]


def test_launches_without_names_that_fit_two_captures_match_none() -> None:
    trace = joined(replay_of("a", "b"), cuda_capture("aten::mm", "aten::relu"), cuda_capture("aten::mm", "aten::sin"))
    assert ops_of_kernels(trace) == [None, None]


def test_copies_and_fills_of_a_graph_are_matched_by_their_kind() -> None:
    capture = [
        *capture_of(("aten::mm", "gemm", 1)),
        span("aten::copy_", 21, 3), call("hipMemcpyAsync", 22),
        span("aten::zero_", 25, 3), call("hipMemsetAsync", 26),
    ]  # fmt: skip
    replay = replay_of("gemm", "Memcpy DtoD (Device -> Device)", "Memset (Device)")
    replay[-2]["cat"], replay[-1]["cat"] = "gpu_memcpy", "gpu_memset"
    trace = joined(replay, capture)
    found = graph_work(trace)
    parents = trace.events["parent"].to_numpy()[found.origin[found.is_graph]]
    assert trace.events["name"].gather(parents).to_list() == ["aten::mm", "aten::copy_", "aten::zero_"]


def test_work_that_no_graph_launched_comes_from_its_launch() -> None:
    trace = make_trace(launched("gemm", 0), kernel("gemm", 10, 5, 0), *replay_of("relu", start_us=100))
    source = [trace.events["name"][row] for row in origins(trace).tolist() if row >= 0]
    assert sorted(source) == ["hipGraphLaunch", "hipLaunchKernel"]


def test_ops_are_called_once_per_replay() -> None:
    replays = [
        *replay_of("gemm", "relu", "gemm", start_us=10, correlation=1),
        *replay_of("gemm", "relu", "gemm", start_us=100, correlation=2),
    ]
    trace = joined(replays, capture_of(*MLP))
    names = trace.events["name"].to_list()
    calls = replayed_calls(trace, WHOLE)
    assert [calls[names.index(name)] for name in ("aten::relu", "capture", "serve")] == [2, 0, 0]
    first = TimeRange(0, 50_000)
    assert replayed_calls(trace, first)[names.index("aten::relu")] == 1
    assert is_captured(trace)[names.index("aten::relu")]
    assert not is_captured(trace)[names.index("capture")]  # it began before


def test_a_capture_beside_a_recording_takes_no_time_of_it() -> None:
    trace = joined(replay_of("gemm", "relu", "gemm", start_us=10), capture_of(*MLP))
    own = make_trace(*replay_of("gemm", "relu", "gemm", start_us=10))
    (capture,) = trace.meta.graph_captures
    beside = trace.events.filter(trace.events["lane"].is_in(capture.lanes))
    launch_ns = own.events.filter(own.events["name"] == "hipGraphLaunch")["start_ns"][0]
    assert (beside["start_ns"] >= launch_ns).all()
    assert int((beside["start_ns"] + beside["dur_ns"]).max()) < launch_ns + 1_000  # type: ignore[operator, arg-type]
    assert beside["step"].null_count() == beside.height
    assert (capture.name, capture.file) == ("capture", "")


def test_without_its_captures_a_recording_is_as_it_was() -> None:
    own = make_trace(*replay_of("gemm", "relu", "gemm"), frame("serve.py(1): run", 0, 50))
    trace = with_captures(own, make_trace(*capture_of(*MLP)))
    found = without_captures(trace)
    for name in ("events", "lanes", "flows", "memory", "scopes"):
        assert getattr(found, name).equals(getattr(own, name)), name
    assert found.meta.graph_captures == found.meta.captures_from == ()


def test_one_cycle_of_a_recording_keeps_the_captures() -> None:
    trace = joined(replay_of("gemm", "relu", "gemm"), capture_of(*MLP))
    assert ops_of_kernels(of_cycle(trace, 0)) == ["aten::addmm", "aten::relu", "aten::addmm"]


def test_a_capture_without_its_bounds_consists_of_all_launches_without_work() -> None:
    cut_off = [event for event in capture_of(*MLP) if "Capture" not in event["name"]]
    assert ops_of_kernels(joined(replay_of("gemm", "relu", "gemm"), cut_off)) == [
        "aten::addmm", "aten::relu", "aten::addmm",
    ]  # fmt: skip


def test_a_file_without_captured_launches_adds_nothing_but_its_name() -> None:
    own = make_trace(*replay_of("gemm"))
    trace = with_captures(own, make_trace(span("aten::mm", 0, 5)))
    assert trace.events.equals(own.events)
    assert (trace.meta.graph_captures, trace.meta.captures_from) == ((), ("",))


def test_work_of_a_graph_has_the_nodes_of_compiled_code_that_was_captured() -> None:
    marks = [span("## a.py ##", 6, 43), span("## 5 ##", 6.5, 42)]
    node = ("a.py", 5, "mlp", None, -1, None, "model.py", 9, "mlp(x)", None, None)
    fx_nodes = pl.DataFrame([node], schema=FRAME_SCHEMAS["fx_nodes"], orient="row")
    capture = replace(make_trace(*capture_of(*MLP), *marks), fx_nodes=fx_nodes)
    trace = with_captures(make_trace(*replay_of("gemm", "relu", "gemm", start_us=10)), capture)
    file, line = model_lines(trace, np.flatnonzero((trace.events["category"] == "kernel").to_numpy()))
    assert list(zip(file.to_list(), line.to_list(), strict=True)) == [("model.py", 9)] * 3


def test_stacks_of_the_capture_are_those_of_its_own_frames() -> None:
    capture = [*capture_of(*MLP), frame("model.py(7): forward", 6, 43)]
    trace = joined([*replay_of("gemm", "relu", "gemm", start_us=10), frame("serve.py(1): run", 0, 200)], capture)
    found = graph_work(trace)
    stacks = trace.events["stack"].gather(found.origin[found.is_graph])
    assert trace.stacks["name"].gather(stacks).to_list() == ["model.py(7): forward"] * 3


def test_steps_of_the_capture_are_no_steps_of_the_replay() -> None:
    capture = [*capture_of(*MLP, start_us=10), annotation("ProfilerStep#7", 9, 200), frame("run.py(1): run", 8, 300)]
    trace = joined(replay_of("gemm", "relu", "gemm", start_us=10), capture)
    assert "ProfilerStep#7" not in trace.events["name"].to_list()
    (graph,) = trace.meta.graph_captures
    assert graph.name == "capture"
    parents, names = trace.events["parent"].to_list(), trace.events["name"].to_list()
    row = names.index("aten::relu")
    path, depth = [], trace.events["depth"][row]
    while row >= 0:
        path.append(names[row])
        row = parents[row]
    assert path == ["aten::relu", "capture", "run.py(1): run"]
    assert depth == len(path) - 1


def test_watched_lines_and_modules_of_the_capture_come_with_it() -> None:
    capture = make_trace(*capture_of(*MLP))
    lane = int(capture.events["lane"][0])
    sites = [("line", "y = model(x)", "serve.py", 7, None), ("module", "mlp.0", None, None, "Linear")]
    capture = replace(
        capture,
        sites=pl.DataFrame(
            [
                {"kind": kind, "parent": -1, "name": name, "file": file, "line": line, "class_name": class_name}
                for kind, name, file, line, class_name in sites
            ],
            schema=FRAME_SCHEMAS["sites"],
        ),
        scopes=pl.DataFrame(
            # The line runs all of it, the module the first op, and once more before the capture.
            [(1, lane, 1_000, 2_000, 0), (0, lane, 5_500, 60_000, 0), (1, lane, 10_000, 9_000, 0)],
            schema=FRAME_SCHEMAS["scopes"],
            orient="row",
        ),
    )
    trace = with_captures(make_trace(*replay_of("gemm", "relu", "gemm", start_us=10)), capture)
    assert trace.scopes.height == 2
    calls = origins(trace)[(trace.events["category"] == "kernel").to_numpy()].astype(np.int64)
    file, line = places_of(trace, calls).columns()
    assert list(zip(file.to_list(), line.to_list(), strict=True)) == [("serve.py", 7)] * 3
    assert module_of_events(trace, calls).to_list() == ["mlp.0", None, None]
    shares = shares_of(trace, watched_runs(trace, "module"))
    assert shares.device_ns.tolist() == [0, 8_000]
    assert shares.total_ns.tolist() == [0, 0]


def test_lanes_that_are_not_there_are_ignored() -> None:
    trace = joined(replay_of("gemm", "relu", "gemm"), capture_of(*MLP))
    odd = GraphCapture(name="odd", file="odd", lanes=(-5, 99, 2**61))
    trace = replace(trace, meta=replace(trace.meta, graph_captures=(odd, *trace.meta.graph_captures)))
    assert ops_of_kernels(trace) == ["aten::addmm", "aten::relu", "aten::addmm"]
    assert ops_of_kernels(of_cycle(trace, 0)) == ["aten::addmm", "aten::relu", "aten::addmm"]
    assert without_captures(trace).events.height == 5
    assert Report(trace).summary()
    assert Report(trace)._forms.page.data


def test_thousands_of_kernels_are_matched_at_once() -> None:
    kernels = [f"kernel {number % 7}" for number in range(40)]
    capture = capture_of(*(("aten::mm", name, 1) for name in kernels))
    replays: list[Event] = []
    for number in range(200):
        replays += replay_of(*kernels, start_us=10 + 1_000 * number, correlation=number + 1)
    found = graph_work(joined(replays, capture))
    assert int(found.is_matched.sum()) == 200 * 40
