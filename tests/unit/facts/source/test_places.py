from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from support import annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.facts.source.places import module_of_events, places_of, places_that_ran
from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA, Trace


def place_of(trace: Trace, name: str) -> tuple[str | None, int | None]:
    row = np.flatnonzero((trace.events["name"].cast(pl.String) == name).to_numpy())
    file, line = places_of(trace, row).columns()
    return file[0], line[0]


def test_the_place_is_that_of_the_innermost_users_frame() -> None:
    frames = frame("a.py(1): f", 0, 100), frame("b.py(2): g", 10, 80), frame("torch/x.py(3): h", 20, 60)
    builtin = frame("<built-in method run>", 25, 40)
    trace = make_trace(*frames, builtin, span("op", 30, 10), span("outside", 200, 5))
    assert place_of(trace, "op") == ("b.py", 2)
    assert place_of(trace, "outside") == (None, None)


def test_work_on_a_device_has_the_place_of_its_launch() -> None:
    trace = make_trace(frame("a.py(1): f", 0, 20), launch(5, 1, 1), kernel("k", 50, 10, 1))
    assert place_of(trace, "k") == ("a.py", 1)


def test_an_annotation_that_cuts_through_a_frame_does_not_hide_the_frames_around_it() -> None:
    frames = frame("a.py(1): f", 0, 200), frame("torch/enter.py(2): __enter__", 10, 10)
    trace = make_trace(*frames, annotation("range", 15, 100), frame("torch/x.py(3): g", 30, 50), span("op", 40, 10))
    assert place_of(trace, "op") == ("a.py", 1)
    lost = make_trace(
        frame("a.py(1): f", 0, 50), frame("nn.Module: N_0", 5, 40), span("op", 20, 10), annotation("r", 30, 90)
    )
    assert place_of(lost, "op") == ("a.py", 1)
    row = np.flatnonzero((lost.events["name"].cast(pl.String) == "op").to_numpy())
    assert module_of_events(lost, row).to_list() == ["N_0"]


def test_a_call_has_the_stack_that_old_torch_wrote_at_the_op_around_it() -> None:
    op = span("op", 0, 100, **{"Call stack": "torch/x.py(3): h;b.py(2): g;a.py(1): f"})
    trace = make_trace(op, launch(10, 5, 1), span("inner", 30, 5))
    assert place_of(trace, "cudaLaunchKernel") == ("b.py", 2)
    assert place_of(trace, "inner") == ("b.py", 2)


def test_a_row_of_no_event_has_no_place() -> None:
    trace = make_trace(frame("a.py(1): f", 0, 20), span("op", 5, 1))
    places = places_of(trace, np.array([-1], np.int64))
    assert [column.to_list() for column in places.columns()] == [[None], [None]]
    assert places_of(make_trace(), np.empty(0, np.int64)).file.tolist() == []


def test_what_runs_in_backward_belongs_to_the_line_of_its_forward_op_and_ran_in_the_one_that_calls_backward() -> None:
    node = {"Sequence number": 1, "Fwd thread id": 1}
    trace = make_trace(
        frame("train.py(1): step", 0, 100),
        frame("model.py(5): forward", 5, 20),
        span("aten::mm", 6, 10, **{"Sequence number": 1}),
        span("MmBackward0", 50, 20, **node),
        span("cudaStreamSynchronize", 52, 4, cat="cuda_runtime"),
        span("AccumulateGrad", 80, 5, **{"Sequence number": 9, "Fwd thread id": 1}),
        with_stack=1,
    )
    assert place_of(trace, "aten::mm") == ("model.py", 5)
    assert place_of(trace, "cudaStreamSynchronize") == ("model.py", 5)
    # No op in forward has its number.
    assert place_of(trace, "AccumulateGrad") == ("train.py", 1)
    rows = np.arange(trace.events.height)
    assert (places_that_ran(trace, rows).line[rows[trace.events["start_ns"].to_numpy() >= 50_000]] == 1).all()


def test_what_a_checkpoint_computes_again_belongs_to_the_line_of_the_first_time() -> None:
    trace = make_trace(
        frame("train.py(1): step", 0, 100),
        frame("model.py(5): forward", 0, 20),
        span("CheckpointFunction", 1, 8, **{"Sequence number": 1}),
        span("CheckpointFunctionBackward", 30, 50, **{"Sequence number": 1, "Fwd thread id": 1}),
        span("aten::mm", 32, 5, **{"Sequence number": 7}),
        span("MmBackward0", 50, 20, **{"Sequence number": 7, "Fwd thread id": 1}),
        with_stack=1,
    )
    assert place_of(trace, "aten::mm") == place_of(trace, "MmBackward0") == ("model.py", 5)


def test_the_range_of_a_step_has_no_line_although_old_torch_wrote_where_it_began() -> None:
    stack = "torch/profiler/profiler.py(1): step;train.py(9): <module>"
    trace = make_trace(
        span("ProfilerStep#0", 0, 100, cat="Operator", **{"Call stack": stack}),
        span("aten::zeros", 2, 3, cat="Operator", **{"Call stack": stack}),
        span("aten::mm", 10, 20, cat="Operator"),
    )
    assert place_of(trace, "aten::zeros") == ("train.py", 9)
    assert place_of(trace, "ProfilerStep#0") == place_of(trace, "aten::mm") == (None, None)


def test_what_begins_as_the_last_line_ends_is_not_in_it() -> None:
    trace = make_trace(annotation("ProfilerStep#0", 0, 100), span("aten::mm", 10, 5), span("aten::add", 40, 5))
    site = {"kind": "line", "parent": -1, "name": "x", "file": "cell", "line": 1}
    sites = pl.DataFrame([site], schema=SITES_SCHEMA)
    scopes = pl.DataFrame([(0, 0, 0, 40_000, 0)], schema=SCOPES_SCHEMA, orient="row")
    trace = replace(trace, sites=sites, scopes=scopes)
    assert place_of(trace, "aten::mm") == ("cell", 1)
    assert place_of(trace, "aten::add") == (None, None)
