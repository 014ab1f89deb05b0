"""Advice on what only training needs, in two steps of 100 us."""

from __future__ import annotations

import pytest
from support import Event, annotation, kernel, launch, make_trace, span

from torchprof_magic.findings.advice import Advice
from torchprof_magic.findings.advice.rules.inference import LEAST_NODES, eval_mode, inference_mode
from torchprof_magic.report.trace_report import Report

STEPS = (annotation("ProfilerStep#1", 0, 100), annotation("ProfilerStep#2", 100, 100))
NODES = 10


def ops(nodes: int = NODES) -> list[Event]:
    """Ops that each add a node in either step: the next one sees the number after its own."""
    return [
        span("aten::relu", 100 * step + at, 1, **{"Sequence number": 50 * step + at + 1})
        for step in range(2)
        for at in range(nodes + 1)
    ]


def dropout(at: float, *, draws: bool = True) -> list[Event]:
    drawing = [span("aten::bernoulli_", at + 1, 5)] if draws else []
    return [span("aten::dropout", at, 10), *drawing]


def only(events: list[Event], rule: str) -> Advice:
    (found,) = (each for each in Report(make_trace(*STEPS, *events)).advice if each.rule == rule)
    return found


def test_a_graph_that_no_step_uses_is_told_with_its_nodes() -> None:
    found = only(ops(), "inference_mode")
    assert (found.certainty, found.saving_ns, found.op) == ("guess", None, "aten::relu")
    assert found.evidence.startswith("No recorded step runs backward, but its ops build a graph of 10 nodes per step,")


def test_few_nodes_are_not_worth_a_word() -> None:
    assert inference_mode(make_trace(*STEPS, *ops(LEAST_NODES - 1))) is None
    assert inference_mode(make_trace(*STEPS, *ops(LEAST_NODES))) is not None


def test_it_stands_at_the_ops_that_make_nodes() -> None:
    # The longest op makes none: the one after it has the same number.
    first = [span("aten::randn", 100 * step + 20, 60, **{"Sequence number": 50 * step + 11}) for step in range(2)]
    assert only([*ops(), *first], "inference_mode").op == "aten::relu"


def test_numbers_of_other_threads_are_no_nodes() -> None:
    threads = [
        span("aten::relu", 100 * step + 10, 5, tid=tid, **{"Sequence number": tid})
        for step in range(2)
        for tid in range(1, 12)
    ]
    assert inference_mode(make_trace(*STEPS, *threads)) is None


def test_ops_that_see_the_same_number_again_add_no_nodes() -> None:
    same = [span("aten::relu", 100 * step + at, 1, **{"Sequence number": 7}) for step in range(2) for at in range(30)]
    assert inference_mode(make_trace(*STEPS, *same)) is None


@pytest.mark.parametrize(
    "training",
    [
        span("autograd::engine::evaluate_function: ReluBackward0", 80, 5),
        span("ReluBackward0", 80, 5, **{"Sequence number": 3, "Fwd thread id": 1}),
        annotation("Optimizer.step#SGD.step", 80, 5),
    ],
)
def test_a_single_backward_or_step_of_an_optimizer_says_that_something_is_trained(training: Event) -> None:
    trace = make_trace(*STEPS, *ops(), *dropout(40), training)
    assert inference_mode(trace) is None
    assert eval_mode(trace) is None


def test_dropout_without_training_is_told_with_its_time() -> None:
    found = only([*ops(), *dropout(40), *dropout(140)], "eval_mode")
    assert (found.certainty, found.saving_ns, found.op) == ("estimated", 10_000, "aten::dropout")
    assert "dropout takes 10 µs per step" in found.evidence


def test_dropout_that_draws_nothing_is_already_off() -> None:
    assert eval_mode(make_trace(*STEPS, *ops(), *dropout(40, draws=False))) is None


def test_dropout_on_a_device_that_limits_the_step_costs_its_kernels() -> None:
    events: list[Event] = []
    for step in range(2):
        at = 100 * step
        events += [span("aten::native_dropout", at + 1, 4), launch(at + 2, 1, correlation=2 * step + 1)]
        events += [kernel("fused_dropout", at + 4, 60, correlation=2 * step + 1)]
        events += [span("aten::mm", at + 6, 4), launch(at + 7, 1, correlation=2 * step + 2)]
        events += [kernel("gemm", at + 64, 34, correlation=2 * step + 2)]
        events += [span("cudaDeviceSynchronize", at + 12, 87, cat="cuda_runtime", correlation=100 + step)]
    found = eval_mode(make_trace(*STEPS, *events))
    assert found is not None
    assert "dropout takes 60 µs per step" in found.evidence
