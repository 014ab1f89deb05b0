from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from support import annotation, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.facts.host.distortion import find_distortion
from torchprof_magic.findings.overview import overview_facts
from torchprof_magic.findings.verdict.diagnosis import diagnose
from torchprof_magic.model.meta import TwoPass
from torchprof_magic.model.trace import Trace

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.model.shapes import Fact


def codes(trace: Trace) -> dict[str, int]:
    return {problem.code: problem.count for problem in diagnose(trace)}


def test_an_ordinary_recording_has_no_problems() -> None:
    assert codes(make_trace()) == {}
    assert codes(make_trace(span("aten::mm", 1, 2), launch(1, 1, 5), kernel("gemm", 4, 2, 5))) == {}


def test_a_data_loader_with_worker_processes_is_distinguished_from_one_without() -> None:
    name = "enumerate(DataLoader)#_{}DataLoaderIter.__next__"
    fetches = [annotation(name.format("MultiProcessing"), at, 1) for at in (1, 5, 9)]
    assert codes(make_trace(*fetches)) == {"run.workers_unseen": 3}
    assert codes(make_trace(annotation(name.format("SingleProcess"), 1, 1))) == {}


def test_nested_compilation_is_counted_and_timed_once() -> None:
    trace = make_trace(
        annotation("_compile.compile_inner (dynamo_timed)", 0, 500),
        annotation("bytecode_tracing (dynamo_timed)", 100, 300),
        span("aten::mm", 600, 5),
        annotation("_compile.compile_inner (dynamo_timed)", 1000, 250),
    )
    (problem,) = diagnose(trace)
    assert (problem.code, problem.count) == ("run.compiled", 2)
    assert "for 750 µs" in problem.message


def test_compilation_in_a_recorded_step_is_found() -> None:
    compiled = torch.compile(lambda x: x.relu().sum(), backend="eager")
    with tp.profile() as p:
        compiled(torch.ones(4))
    assert [problem.count for problem in p.report.problems if problem.code == "run.compiled"] == [1]
    with tp.profile() as p:
        compiled(torch.ones(4))
    assert "run.compiled" not in [problem.code for problem in p.report.problems]


def test_launches_without_any_device_work_say_that_the_device_was_not_recorded() -> None:
    trace = make_trace(span("aten::mm", 0, 9), launch(1, 1, 5), launch(3, 1, 6))
    assert codes(trace) == {"run.no_kernels": 2}
    assert codes(make_trace(span("cudaDeviceSynchronize", 0, 9, cat="cuda_runtime"))) == {}


def distorted(plain_ns: tuple[int, ...], *recorded_us: float) -> Trace:
    steps = [annotation(f"ProfilerStep#{number}", 1000 * number, us) for number, us in enumerate(recorded_us)]
    trace = make_trace(*steps)
    return replace(trace, meta=replace(trace.meta, plain_step_ns=plain_ns))


def facts_of(trace: Trace) -> dict[str, Fact]:
    return {fact.label: fact for section in overview_facts(trace).sections for fact in section.facts}


def test_recorded_steps_are_compared_with_those_that_ran_without_profiler() -> None:
    # Without the outliers: 95 us of 90, 100 and 400; 115 us of 110, 120 and 500.
    trace = distorted((90_000, 400_000, 100_000), 110, 120, 500)
    found = find_distortion(trace)
    assert found is not None
    assert found.ratio == pytest.approx(115 / 95)
    facts = facts_of(trace)
    plain, longer = facts["Step without profiler"], facts["Longer when recorded"]
    assert (plain.value, plain.note) == (95_000, "mean without outliers")
    assert longer.value == pytest.approx(20 / 95)
    assert longer.note == "mean of 2 recorded steps against 3 without the profiler"
    assert codes(trace) == {}


def test_recorded_steps_that_were_shorter_by_chance_are_shown_as_shorter() -> None:
    facts = facts_of(distorted((100_000, 100_000), 80))
    assert facts["Shorter when recorded"].value == pytest.approx(0.2)
    assert "Longer when recorded" not in facts


def test_a_recording_that_slows_steps_down_a_lot_says_so() -> None:
    (problem,) = diagnose(distorted((100_000, 100_000), 250))
    assert problem.code == "run.distorted"
    assert "took 2.50 times as long as steps without the profiler" in problem.message


def test_the_overhead_is_not_measured_from_interrupted_steps_or_without_any() -> None:
    trace = distorted((100_000, 100_000), 500)
    cut = replace(trace, steps=trace.steps.with_columns(complete=False))
    assert find_distortion(cut) is None
    assert find_distortion(distorted(())) is None
    assert find_distortion(distorted((), 500)) is None
    assert find_distortion(distorted((1_000,), 500)) is None  # one step may have done nothing
    assert find_distortion(distorted((0, 0), 500)) is None


def test_the_overhead_is_measured_if_some_steps_ran_without_the_profiler() -> None:
    for schedule, is_measured in (({"wait": 3, "warmup": 1, "active": 2}, True), ({"active": 2}, False)):
        with tp.profile(repeat=1, **schedule) as p:
            for _ in range(sum(schedule.values())):
                torch.ones(64, 64).mm(torch.ones(64, 64))
                p.step()
        assert (find_distortion(p.report.trace) is not None) == is_measured
        assert len(p.report.trace.meta.plain_step_ns) == (2 if is_measured else 0)


def graph(at_us: float, correlation: int, kernels: int, name: str = "cudaGraphLaunch") -> list[Any]:
    """Return one launch of a graph with its kernels, each 2 us long."""
    call = span(name, at_us, 1, cat="cuda_runtime", correlation=correlation)
    return [call, *(kernel(f"gemm{n}", at_us + 2 + 3 * n, 2, correlation) for n in range(kernels))]


@pytest.mark.parametrize("name", ["cudaGraphLaunch", "hipGraphLaunch", "cuGraphLaunch"])
def test_device_work_that_graphs_started_is_said_to_have_no_ops_of_its_own(name: str) -> None:
    own = [span("aten::mm", 0, 9), launch(1, 1, 5), kernel("alone", 3, 2, 5)]
    (problem,) = diagnose(make_trace(*own, *graph(20, 6, 4, name), *graph(60, 7, 3, name)))
    assert (problem.code, problem.severity, problem.count) == ("run.graph_launches", "info", 2)
    assert problem.message.startswith("7 kernels of 8 ran in CUDA graphs, each started by one launch.")
    assert "but not the ops they come from" in problem.message


def test_a_graph_that_is_a_small_part_of_the_work_gives_no_note() -> None:
    own = [event for n in range(5) for event in (launch(100 + 10 * n, 1, n), kernel("alone", 103 + 10 * n, 2, n))]
    assert codes(make_trace(*own, *graph(20, 50, 4))) == {}  # 4 of 9
    assert codes(make_trace(*own, *graph(20, 50, 5))) == {"run.graph_launches": 1}  # 5 of 10


def test_kernels_of_one_ordinary_launch_each_are_no_graph() -> None:
    assert codes(make_trace(launch(1, 1, 5), kernel("a", 3, 2, 5), kernel("b", 6, 2, 5))) == {}
    assert codes(make_trace(*graph(0, 5, 1))) == {}  # nobody misses the ops of a single kernel


def test_a_real_trace_of_graphs_is_distinguished_from_one_without(traces: Path) -> None:
    found = [p for p in tp.load(traces / "04_amd_vllm_decode_graph.json.gz").problems if p.code == "run.graph_launches"]
    assert [problem.count for problem in found] == [1]
    assert found[0].message.startswith("421 kernels of 434 ")  # 425 kernels and 9 copies, 13 with launches of their own
    plain = tp.load(traces / "02_a100_ddp_rank0of2.json.gz")
    assert "run.graph_launches" not in [problem.code for problem in plain.problems]


def test_advice_does_not_tell_to_leave_out_details_that_were_not_recorded() -> None:
    trace = distorted((100_000, 100_000), 250)
    slow = replace(trace, meta=replace(trace.meta, has_stacks=True, has_shapes=True))
    two_pass = TwoPass(times_cycle=0, details_cycle=1, detail_steps=(5,))
    (alone,), (apart,) = diagnose(slow), diagnose(replace(slow, meta=replace(slow.meta, two_pass=two_pass)))
    assert "or record without --stack and --shapes" in alone.fix
    assert "record without" not in apart.fix


def test_nodes_of_one_thread_that_share_a_sequence_number_are_counted() -> None:
    def node(name: str, at: float, number: int, thread: int = 1) -> dict[str, Any]:
        ids = {"Sequence number": number, "Fwd thread id": thread}
        return span(f"autograd::engine::evaluate_function: {name}", at, 5, **ids)

    assert codes(make_trace(node("MulBackward0", 0, 3), node("AddBackward0", 10, 3))) == {"run.shared_sequence": 1}
    assert codes(make_trace(node("MulBackward0", 0, 3), node("MulBackward0", 10, 3))) == {}
    assert codes(make_trace(node("MulBackward0", 0, 3), node("AddBackward0", 10, 3, thread=2))) == {}


def test_collectives_that_lack_what_others_say_are_counted() -> None:
    whole = {"Collective name": "allreduce", "In msg nelems": 4, "Out msg nelems": 4, "dtype": "Float", "Group size": 2}
    part = {key: value for key, value in whole.items() if key != "Group size"}
    calls = [span("record_param_comms", 10 * n, 5, **args) for n, args in enumerate((whole, part, {}))]
    assert codes(make_trace(*calls)) == {"run.collective_unnamed": 2}
    assert codes(make_trace(*calls[2:])) == {}  # older versions of torch say nothing
    nameless = {key: value for key, value in whole.items() if key != "Collective name"}
    assert codes(make_trace(span("record_param_comms", 0, 5, **nameless))) == {"run.collective_unnamed": 1}
