from __future__ import annotations

import tracemalloc
from typing import Any

from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.facts.device.unlaunched import NONE, unlaunched
from torchprof_magic.findings.verdict.diagnosis import diagnose
from torchprof_magic.findings.verdict.doubts import find_doubts
from torchprof_magic.model.trace import Trace

Event = dict[str, Any]


def step(number: int, *lost: int, ops: int = 10) -> list[Event]:
    """A step of 1 ms with ops that launch a kernel each, but for those that lost both."""
    begin = 1_000 * number
    events = [annotation(f"ProfilerStep#{number}", begin, 990)]
    for op in range(ops):
        at, correlation = begin + 90 * op, 100 * number + op + 1
        events.append(span("aten::mm", at, 30))
        if op not in lost:
            events += [launch(at + 5, 5, correlation), kernel("gemm", at + 20, 50, correlation)]
    return events


def three_steps(*lost: int, ops: int = 10) -> Trace:
    """Three steps, of which the second lost launches with their kernels."""
    return make_trace(*step(0, ops=ops), *step(1, *lost, ops=ops), *step(2, ops=ops))


def test_launches_that_are_lost_together_with_their_kernels_are_missing_by_the_other_steps() -> None:
    found = unlaunched(three_steps(2, 5, 6))
    assert (found.launches, found.of, found.steps.tolist()) == (3, 30, [1])


def test_steps_that_launch_alike_miss_nothing() -> None:
    assert unlaunched(three_steps()) is NONE


def test_one_or_two_ops_with_nothing_to_do_are_no_loss() -> None:
    assert unlaunched(three_steps(2, 5)) is NONE


def test_ops_that_launch_in_the_minority_of_steps_miss_nothing_in_the_others() -> None:
    trace = make_trace(*step(0), *step(1, 2, 5, 6), *step(2, 2, 5, 6))
    assert unlaunched(trace) is NONE


def test_ops_that_launch_in_another_order_miss_nothing() -> None:
    trace = make_trace(*step(0, 0, 1, 2), *step(1, 0, 1, 2), *step(2, 5, 6, 7))
    assert unlaunched(trace) is NONE


def test_half_of_the_steps_that_launch_nothing_are_how_the_program_works() -> None:
    rest = tuple(range(10))
    assert unlaunched(make_trace(*step(0), *step(1, *rest), *step(2), *step(3, *rest))) is NONE


def test_steps_with_other_ops_are_not_compared() -> None:
    trace = make_trace(*step(0), *step(1, 2, 5, 6, ops=9), *step(2))
    assert unlaunched(trace) is NONE


def test_a_single_step_has_none_to_compare_it_with() -> None:
    assert unlaunched(make_trace(*step(0, 2, 5, 6))) is NONE


def test_ops_that_launch_fewer_kernels_than_usual_miss_the_rest() -> None:
    def extra(number: int) -> list[Event]:
        at = 1_000 * number + 13
        more = [launch(at + 90 * op, 5, 100 * number + 50 + op) for op in range(3)]
        return more + [kernel("gemm", at + 70 + 90 * op, 10, 100 * number + 50 + op) for op in range(3)]

    trace = make_trace(*step(0), *extra(0), *step(1), *step(2), *extra(2))
    found = unlaunched(trace)
    assert (found.launches, found.of, found.steps.tolist()) == (3, 39, [1])


def test_the_verdict_doubts_steps_that_launch_less_and_a_problem_counts_what_is_missing() -> None:
    trace = three_steps(2, 5, 6)
    (problem,) = (each for each in diagnose(trace) if each.code == "run.launches_missing")
    assert problem.count == 3
    assert "At least 3 of 30 launches are probably not in the file, in step 1" in problem.message
    assert any("At least 3 of 30 launches (10 %)" in doubt for doubt in find_doubts(trace))
    assert not any("launches" in doubt for doubt in find_doubts(three_steps()))


def test_many_names_take_no_more_memory_than_many_ops() -> None:
    names = 1_500
    events = [event for number in range(3) for event in step(number)]
    for number in range(names):
        at = 4_000 + 10 * number
        events += [
            span(f"outer{number}", at, 9, tid=2 + number % 7),
            span(f"inner{number}", at + 1, 5, tid=2 + number % 7),
        ]
    events.append(annotation("ProfilerStep#4", 4_000, 10 * names))
    trace = make_trace(*events)
    tracemalloc.start()
    unlaunched(trace)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
