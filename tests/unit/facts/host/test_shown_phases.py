"""In which phase's color events are drawn."""

from __future__ import annotations

from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.facts.host.phases import EVENT_PHASES
from torchprof_magic.facts.host.shown_phases import phases_shown
from torchprof_magic.model.trace import Trace


def shown(trace: Trace) -> list[tuple[str, str]]:
    names = [str(name) for name in trace.events["name"]]
    return [(name, EVENT_PHASES[phase]) for name, phase in zip(names, phases_shown(trace).tolist(), strict=True)]


def test_an_op_that_mostly_loads_a_kernel_is_initialisation_as_its_launch_is_and_later_calls_are_forward() -> None:
    found = shown(
        make_trace(
            annotation("ProfilerStep#0", 0, 90_000),
            span("aten::mm", 10, 30_100),
            launch(20, 30_000, correlation=1),
            kernel("gemm", 30_200, 50, correlation=1),
            span("aten::mm", 60_000, 100),
            launch(60_010, 10, correlation=2),
            kernel("gemm", 60_200, 50, correlation=2),
            span("aten::add", 70_000, 100),
            launch(70_010, 10, correlation=3),
            kernel("sum", 70_200, 50, correlation=3),
        )
    )
    assert [phase for name, phase in found if name == "aten::mm"] == ["initialisation", "forward"]
    assert [phase for name, phase in found if name == "cudaLaunchKernel"] == ["initialisation", "forward", "forward"]
    # What the op launched is work of the forward pass.
    assert {phase for name, phase in found if name in ("gemm", "sum", "aten::add")} == {"forward"}
