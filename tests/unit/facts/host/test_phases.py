"""Which phase of a step the ops of each thread belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support import annotation, make_trace, span

from torchprof_magic.facts.host.phases import PHASES, phase_of_events

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

NODE = {"Sequence number": 1, "Fwd thread id": 1}


def phases(trace: Trace) -> dict[str, str]:
    names = [str(name) for name in trace.events["name"]]
    return {name: PHASES[phase] for name, phase in zip(names, phase_of_events(trace).tolist(), strict=True)}


def test_what_a_thread_of_autograd_runs_beside_its_nodes_is_backward() -> None:
    found = phases(
        make_trace(
            annotation("ProfilerStep#1", 0, 100),
            span("aten::mm", 5, 10, **{"Sequence number": 1}),
            span("aten::relu", 20, 5),
            span("autograd::engine::evaluate_function: MmBackward0", 30, 20, tid=2, **NODE),
            # As DistributedDataParallel does after the last node.
            span("aten::copy_", 55, 10, tid=2),
        )
    )
    assert found["aten::mm"] == found["aten::relu"] == "forward"
    assert found["aten::copy_"] == "backward"


def test_on_the_thread_of_the_program_ops_beside_nodes_are_forward() -> None:
    # On a CPU, backward runs on the thread that calls it.
    found = phases(
        make_trace(
            annotation("ProfilerStep#1", 0, 100),
            span("autograd::engine::evaluate_function: MmBackward0", 30, 20, **NODE),
            span("aten::copy_", 55, 10),
        )
    )
    assert found["aten::copy_"] == "forward"


def test_a_recording_of_one_thread_alone_is_that_of_the_program() -> None:
    found = phases(
        make_trace(
            span("autograd::engine::evaluate_function: MmBackward0", 30, 20, **NODE),
            span("aten::copy_", 55, 10),
        )
    )
    assert found["aten::copy_"] == "forward"
