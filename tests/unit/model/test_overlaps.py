"""Overlaps that a step causes are none of the trace's."""

from __future__ import annotations

from support import annotation, make_trace, span

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
