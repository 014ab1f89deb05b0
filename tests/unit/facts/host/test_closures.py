"""Forward and backward in the closure of an optimizer, which are no part of the optimizer's own work."""

from __future__ import annotations

import numpy as np
import pytest
from support import annotation, make_trace, span

from torchprof_magic.facts.host.closures import closures_of, own_starts
from torchprof_magic.facts.host.phases import EVENT_PHASES, phase_of_events
from torchprof_magic.findings.advice.rules.optimizer import single_tensor_optimizer
from torchprof_magic.tables.steps import steps_table

STEP = "Optimizer.step#Adam.step"


def made(number: int, at: float, dur: float) -> dict[str, object]:
    """Return an op that makes a node of autograd."""
    return span("aten::mm", at, dur, **{"Sequence number": number})


def node(number: int, at: float, dur: float, tid: int = 1) -> dict[str, object]:
    """Return a node that runs backward."""
    name = "autograd::engine::evaluate_function: MmBackward0"
    return span(name, at, dur, tid=tid, **{"Sequence number": number, "Fwd thread id": 1})


# A closure that prepares, clears, and runs forward and backward; then the update of two parameters.
ADAM = (
    annotation("ProfilerStep#1", 0, 1000),
    annotation(STEP, 0, 900),
    span("aten::rand", 10, 20),
    annotation("Optimizer.zero_grad#Adam.zero_grad", 50, 10),
    made(1, 100, 100),
    node(1, 300, 200),
    *(span(name, 600 + 20 * at, 10) for at, name in enumerate(2 * ["aten::lerp_", "aten::addcdiv_"])),
)


def test_what_a_closure_does_is_not_the_optimizers() -> None:
    trace = make_trace(*ADAM)
    names, phases = trace.events["name"].to_list(), phase_of_events(trace).tolist()
    found = {str(name): EVENT_PHASES[phase] for name, phase in zip(names, phases, strict=True)}
    assert found["aten::rand"] == found["aten::mm"] == "forward"
    assert found["autograd::engine::evaluate_function: MmBackward0"] == "backward"
    assert found["Optimizer.zero_grad#Adam.zero_grad"] == "optimizer"
    assert found["aten::lerp_"] == found[STEP] == "optimizer"


def test_python_between_the_ops_of_a_closure_is_python() -> None:
    row = steps_table(make_trace(*ADAM)).frame.row(0, named=True)
    # Its ops take 20 and 100 us, its node 200, clearing 10 and what follows the closure 400; the rest is Python.
    assert (row["forward_ns"], row["backward_ns"]) == (120_000, 200_000)
    assert row["optimizer_ns"] == 410_000
    assert row["python_ns"] == 1_000_000 - 120_000 - 200_000 - 410_000


def test_each_closure_of_a_step_is_found_also_where_other_threads_run_backward() -> None:
    trace = make_trace(
        annotation("ProfilerStep#1", 0, 1000),
        annotation("Optimizer.step#LBFGS.step", 0, 900),
        *(made(1, 100, 50), node(1, 200, 50, tid=2)),
        span("aten::dot", 300, 50),
        *(made(2, 400, 50), made(3, 460, 20), node(3, 500, 20, tid=2), node(2, 530, 30, tid=2)),
        span("aten::dot", 600, 50),
    )
    closures = closures_of(trace)
    assert list(zip(closures.start_ns.tolist(), closures.end_ns.tolist(), strict=True)) == [
        (0, 250_000),
        (400_000, 560_000),
    ]
    assert own_starts(trace, np.unique(closures.step)).tolist() == [560_000]
    row = steps_table(trace).frame.row(0, named=True)
    assert row["optimizer_ns"] == 150_000 + 340_000


@pytest.mark.parametrize("inside", [(made(1, 100, 50),), (node(1, 100, 50),), ()])
def test_a_step_without_forward_and_backward_has_no_closure(inside: tuple[dict[str, object], ...]) -> None:
    trace = make_trace(annotation("ProfilerStep#1", 0, 1000), annotation(STEP, 0, 900), *inside)
    assert len(closures_of(trace).step) == 0


def test_an_optimizer_that_is_fused_saves_nothing_of_its_closure() -> None:
    (advice,) = single_tensor_optimizer(make_trace(*ADAM))
    assert "calls 4 ops" in advice.evidence
    assert advice.spans is not None
    assert (advice.spans.start_ns.tolist(), advice.spans.end_ns.tolist()) == ([500_000], [900_000])
