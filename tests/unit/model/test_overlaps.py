"""Overlaps that a step causes are none of the trace's."""

from __future__ import annotations

import pytest
from support import annotation, frame, make_trace, span

from torchprof_magic.model.overlaps import count_overlaps


def counted(*events: dict[str, object]) -> int:
    trace = make_trace(*events)
    assert trace.events["overlaps"].any()
    return count_overlaps(trace.events, trace.steps)


def test_a_step_that_ends_inside_a_range_is_no_overlap_nor_is_the_next_one() -> None:
    first, second = annotation("ProfilerStep#0", 0, 100), annotation("ProfilerStep#1", 105, 100)
    assert counted(first, second, annotation("Optimizer.step#SGD.step", 80, 40)) == 0


def test_ops_that_overlap_within_a_step_or_without_steps_are_counted() -> None:
    assert counted(annotation("ProfilerStep#0", 0, 100), span("aten::mm", 10, 20), span("aten::add", 20, 30)) == 1
    assert counted(span("aten::mm", 10, 20), span("aten::add", 20, 30)) == 1


EXIT = "torch/autograd/profiler.py(932): __exit__"


@pytest.mark.parametrize(
    "call",
    [
        EXIT,
        "/usr/lib/python3/dist-packages/torch/autograd/profiler.py(789): __exit__",
        r"C:\Python\Lib\site-packages\torch\autograd\profiler.py(806): __exit__",
        "<built-in method __exit__ of torch._C._profiler.RecordFunctionFast object at 0x78ba5f5a0300>",
        "contextlib.py(141): __exit__",
    ],
)
def test_the_call_that_leaves_a_range_is_no_overlap(call: str) -> None:
    assert counted(frame("train.py(3): step", 0, 100), annotation("mine", 10, 50), frame(call, 55, 10)) == 0


def test_the_call_that_enters_a_range_is_no_overlap() -> None:
    entering = frame(EXIT.replace("exit", "enter"), 5, 10)
    assert counted(frame("train.py(3): step", 0, 100), entering, annotation("mine", 10, 50)) == 0


def test_ranges_that_overlap_and_functions_that_a_range_outlives_are_counted_beside_these_calls() -> None:
    leaving = annotation("mine", 10, 50), frame(EXIT, 55, 10)
    assert counted(*leaving, annotation("task 1", 100, 20), annotation("task 2", 110, 20)) == 1
    # A generator that yields inside its range: the range outlives the frame.
    assert counted(*leaving, frame("data.py(7): batches", 100, 20), annotation("loading", 110, 30)) == 1
