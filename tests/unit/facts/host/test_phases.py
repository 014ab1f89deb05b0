"""Which phase of a step the ops of each thread belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.facts.host.phases import EVENT_PHASES, phase_of_events, with_one_wait

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

NODE = {"Sequence number": 1, "Fwd thread id": 1}


def phases(trace: Trace) -> dict[str, str]:
    names = [str(name) for name in trace.events["name"]]
    return {name: EVENT_PHASES[phase] for name, phase in zip(names, phase_of_events(trace).tolist(), strict=True)}


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


def test_the_phase_of_work_that_no_op_launched_is_not_known() -> None:
    found = phases(
        make_trace(
            span("aten::mm", 5, 10),
            launch(6, 1, correlation=1),
            kernel("of an op", 10, 5, correlation=1),
            launch(20, 1, correlation=2),
            kernel("of a call outside of ops", 25, 5, correlation=2),
            kernel("from before", 30, 5, correlation=99),
            kernel("ncclDevKernel_AllReduce", 40, 5, correlation=98),
        )
    )
    assert found["of an op"] == "forward"
    assert found["of a call outside of ops"] == found["from before"] == "unknown"
    assert found["ncclDevKernel_AllReduce"] == "communication"


def test_sleeping_is_shown_with_the_waiting_for_calls() -> None:
    assert with_one_wait({"waiting": 2, "python": 5, "idle": 3}) == {"waiting": 5, "python": 5}
    assert with_one_wait({"idle": 3}) == {"waiting": 3}
    assert with_one_wait({"python": 5}) == {"python": 5}
