from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from support import Event, annotation, frame, launch, make_trace, span

from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.host_states import (
    BLOCKED,
    DISPATCH,
    NOTHING,
    OTHER,
    RUNTIME_CALL,
    STATES,
    Timeline,
    called_ops,
    does_more_than_python,
    host_states,
    pieces_of,
    strongest_of,
    thread_timelines,
)


def states(*events: Event) -> dict[str, tuple[str, str]]:
    """Return the state of each event by its name, and the name of the event that puts its thread there."""
    trace = make_trace(*events)
    found, names = host_states(trace), trace.events["name"].cast(pl.String).gather(host_nest(trace).row).to_list()
    pairs = zip(found.state.tolist(), found.cause.tolist(), strict=True)
    return {name: (STATES[state], names[cause]) for name, (state, cause) in zip(names, pairs, strict=True)}


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (span("aten::mm", 0, 10), "op dispatch"),
        (span("cudaGetLastError", 0, 10, "cuda_runtime"), "runtime call"),
        (span("cudaStreamSynchronize", 0, 10, "cuda_runtime"), "blocked"),
        (span("cudaMemcpyAsync", 0, 10, "cuda_runtime"), "runtime call"),
        (span("cudaStreamBeginCapture", 0, 10, "cuda_runtime"), "compile"),
        (annotation("x", 0, 10), "python or other"),
        (frame("a.py(1): f", 0, 10), "python or other"),
        (span("enumerate(DataLoader)#_Iter.__next__", 0, 10), "data"),
        (annotation("data_load", 0, 10), "data"),
        (annotation("CUDAGraphNode.record (dynamo_timed)", 0, 10), "compile"),
        (frame("torch/_inductor/cudagraph_trees.py(1): _record", 0, 10), "compile"),
        (frame("torch/cuda/graphs.py(1): capture_begin", 0, 10), "compile"),
        (frame("triton/compiler/compiler.py(1): compile", 0, 10), "compile"),
        (annotation("gloo:all_reduce", 0, 10), "host communication"),
        (annotation("my gloo:all_reduce", 0, 10), "python or other"),
        (frame("torch/profiler/profiler.py(1): step", 0, 10), "profiler"),
        (annotation("torch/profiler/", 0, 10), "python or other"),
    ],
)
def test_the_name_and_category_of_an_event_say_what_the_host_does(event: Event, state: str) -> None:
    assert states(event, span("op", 500, 1))[event["name"]][0] == state


def test_the_strongest_state_of_all_events_around_counts() -> None:
    loader = span("enumerate(DataLoader)#x", 0, 100)
    found = states(loader, span("aten::stack", 10, 50), span("cudaStreamSynchronize", 20, 10, "cuda_runtime"))
    assert found["aten::stack"] == ("data", "enumerate(DataLoader)#x")
    assert found["cudaStreamSynchronize"] == ("blocked", "cudaStreamSynchronize")


def test_of_equal_states_the_innermost_event_is_the_cause() -> None:
    found = states(annotation("outer", 0, 100), frame("a.py(1): f", 10, 50), span("op", 20, 30), span("inner", 25, 5))
    assert found["a.py(1): f"] == ("python or other", "a.py(1): f")
    assert found["inner"] == ("op dispatch", "inner")


def test_the_called_op_is_the_outermost_one_that_is_not_a_wrapper() -> None:
    wrapper = span("autograd::engine::evaluate_function: MmBackward0", 0, 100)
    trace = make_trace(wrapper, span("MmBackward0", 5, 90), span("aten::mm", 10, 50), launch(20, 5, 1))
    names = trace.events["name"].cast(pl.String).gather(host_nest(trace).row).to_list()
    found = {name: names[at] if at >= 0 else None for name, at in zip(names, called_ops(trace).tolist(), strict=True)}
    assert found == {
        wrapper["name"]: None,
        "MmBackward0": "MmBackward0",
        "aten::mm": "MmBackward0",
        "cudaLaunchKernel": "MmBackward0",
    }


def test_threads_that_only_run_python_count_for_themselves_alone() -> None:
    trace = make_trace(
        span("op", 0, 10), launch(0, 5, 1, tid=2), annotation("gloo:send", 0, 5, tid=3),
        frame("a.py(1): f", 0, 5, tid=4),
        annotation("x", 0, 5, tid=5),
    )  # fmt: skip
    lines = thread_timelines(trace)
    assert sorted(trace.lanes["tid"][lane] for lane in lines) == ["1", "2", "3", "4", "5"]
    counting = [lane for lane in lines if does_more_than_python(lines[lane])]
    assert sorted(trace.lanes["tid"][lane] for lane in counting) == ["1", "2", "3"]


def line(*changes: tuple[int, int]) -> Timeline:
    start, state = (np.array(column, np.int64) for column in zip(*changes, strict=True))
    return Timeline(start, state, np.where(state == NOTHING, -1, start))


def test_the_strongest_of_several_threads_counts_at_every_moment() -> None:
    one = line((0, OTHER), (10, DISPATCH), (20, NOTHING))
    other = line((5, BLOCKED), (15, OTHER), (30, NOTHING))
    both = strongest_of([one, other])
    found = list(zip(both.start_ns.tolist(), both.state.tolist(), both.cause.tolist(), strict=True))
    assert found == [
        (0, OTHER, 0),
        (5, BLOCKED, 5),
        (10, BLOCKED, 5),
        (15, DISPATCH, 10),
        (20, OTHER, 15),
        (30, NOTHING, -1),
    ]
    assert len(strongest_of([]).start_ns) == 0


def test_intervals_are_cut_where_the_state_changes() -> None:
    states = line((10, DISPATCH), (20, RUNTIME_CALL), (30, NOTHING))
    pieces = pieces_of(states, np.array([0, 12, 25, 40]), np.array([15, 12, 50, 45]))
    found = list(zip(*(column.tolist() for column in pieces[:4]), strict=True))
    assert found == [
        (0, 0, 10, NOTHING),
        (0, 10, 15, DISPATCH),
        (2, 25, 30, RUNTIME_CALL),
        (2, 30, 50, NOTHING),
        (3, 40, 45, NOTHING),
    ]


def test_a_thread_without_events_is_in_no_state() -> None:
    empty = strongest_of([])
    assert pieces_of(empty, np.array([3]), np.array([9])).state.tolist() == [NOTHING]
