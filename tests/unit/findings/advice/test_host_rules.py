"""Rules about the host, on traces whose numbers are worked out by hand: two steps of 10 ms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from support import allocation, annotation, frame, make_trace, span

from torchprof_magic.findings.advice import Advice
from torchprof_magic.model.meta import Compilation, CompiledFrame, GraphBreak, StepMark
from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA, Trace
from torchprof_magic.report.trace_report import Report

STEPS = (annotation("ProfilerStep#0", 0, 10_000), annotation("ProfilerStep#1", 10_000, 10_000))
CALLER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
CODE = frame("train.py(4): epoch", 0, 20_000)


def each_step(*events: dict[str, Any]) -> list[dict[str, Any]]:
    return [event | {"ts": event["ts"] + start} for start in (0, 10_000) for event in events]


def advice(*events: dict[str, Any], **meta: Any) -> list[Advice]:
    found: Trace = make_trace(*STEPS, *each_step(*events))
    return Report(replace(found, meta=replace(found.meta, **meta))).advice


def only(*events: dict[str, Any], **meta: Any) -> Advice:
    (found,) = advice(*events, **meta)
    return found


def test_a_loader_without_workers_is_told_how_many_hide_its_time() -> None:
    found = only(CODE, annotation(CALLER, 0, 8_000), span("aten::mm", 8_000, 1_900))
    # 8 ms beside 2 ms: four workers load as fast as the rest runs, but for half a ms to hand a batch over.
    assert (found.rule, found.saving_ns, found.certainty) == ("dataloader_workers", 7_500_000, "measured")
    assert (found.fix, found.file, found.line) == ("`num_workers=4` in the DataLoader", "train.py", 4)


def test_more_than_eight_workers_are_not_advised_and_what_remains_is_said() -> None:
    found = only(annotation(CALLER, 0, 9_800), span("aten::mm", 9_800, 100))
    # An eighth of 9.8 ms is 1.225 ms, 1.025 ms more than the rest of 0.2 ms.
    assert found.saving_ns == 8_775_000
    assert "With 8 workers 1.03 ms would remain" in found.evidence


def test_a_loader_that_takes_less_than_two_ms_is_left_alone() -> None:
    assert advice(annotation(CALLER, 0, 1_999), span("aten::mm", 2_000, 1_000)) == []


def test_workers_that_do_not_keep_up_are_told_so() -> None:
    found = only(annotation(WORKERS, 0, 3_000), span("aten::mm", 3_000, 1_000))
    assert (found.rule, found.saving_ns) == ("dataloader_workers", 3_000_000)
    assert "no batch was ready 2 of 2 times" in found.evidence
    assert advice(annotation(WORKERS, 0, 500), span("aten::mm", 3_000, 1_000)) == []


def adam(parameters: int, op_us: float = 50) -> list[dict[str, Any]]:
    names = ("lerp_", "mul_", "addcmul_", "sqrt", "add_", "addcdiv_")
    ops = [span(f"aten::{name}", 1_000 + at * 100, op_us) for at, name in enumerate(names * parameters)]
    return [annotation("Optimizer.step#Adam.step", 1_000, 600 * parameters), *ops]


def test_an_optimizer_of_single_ops_is_fused_by_the_share_of_tensors_that_it_reads() -> None:
    found = only(*adam(3))
    # 1.8 ms, of which 18 ops take 0.9 ms, and what comes before and after them 50 us, which remains. A fused call takes
    # 5 us and 0.7 us for each of three parameters, and 35 % of the ops' time: 372.1 us in all.
    assert (found.rule, found.saving_ns, found.certainty) == ("single_tensor_optimizer", 1_427_900, "estimated")
    assert found.fix == "`torch.optim.Adam(..., fused=True)`"


def test_what_comes_before_and_after_the_ops_of_an_optimizer_is_not_saved() -> None:
    shifted = [each | {"ts": each["ts"] + 3_000} for each in adam(3)[1:]]
    wrapped = [annotation("Optimizer.step#Adam.step", 1_000, 7_000), *shifted]
    # 3 ms before and 2.25 ms after the same ops.
    assert only(*wrapped).saving_ns == only(*adam(3)).saving_ns == 1_427_900


def test_an_op_that_lost_the_core_in_one_step_counts_as_in_the_others() -> None:
    first, second = adam(3), adam(3)
    second[0] = annotation("Optimizer.step#Adam.step", 1_000, 1_800 + 4_000)
    second[9] = second[9] | {"dur": 50 + 4_000}
    second[10:] = [each | {"ts": each["ts"] + 4_000} for each in second[10:]]
    later = [each | {"ts": each["ts"] + 10_000} for each in second]
    (found,) = Report(make_trace(*STEPS, *first, *later)).advice
    # 4 ms more in the ninth op of one step of two: 1.8 ms are what a step takes.
    assert found.saving_ns == 1_427_900
    assert (
        "which takes 3.80 ms per step, 1.80 ms of it with each op at its quickest. Fused it would take about 372 µs"
        in found.evidence
    )


def test_the_evidence_says_what_the_tables_show_and_which_part_of_it_counts_if_that_is_not_nearly_all() -> None:
    found = only(*adam(3), plain_step_ns=(9_000_000,) * 5)
    # Recording the 18 ops and their range takes at most 1.2 us each: 1.8 ms less 22.8 us.
    assert "takes 1.80 ms per step. Fused" in found.evidence
    assert "18 ops, one parameter after the other, which takes 1.80 ms per step. Fused" in only(*adam(3)).evidence


def test_the_evidence_says_that_the_median_step_counts() -> None:
    steps = [annotation(f"ProfilerStep#{at}", at * 10_000, 10_000) for at in range(3)]
    grad = "Optimizer.zero_grad#SGD.zero_grad"
    calls = [annotation(grad, at * 10_000 + 1_000, 900) for at in range(3)]
    zeros = [span("aten::zero_", at * 10_000 + 1_100, dur) for at, dur in enumerate((100, 100, 700))]
    (found,) = Report(make_trace(*steps, *calls, *zeros)).advice
    assert found.saving_ns == 100_000
    assert found.evidence == "Gradients are filled with zeros: 300 µs per step, 100 µs of it in the median step."


def test_threads_make_each_parameter_of_a_fused_optimizer_dearer() -> None:
    found = only(*adam(3), cpu_threads=4, cpu_cores=4)
    assert found.saving_ns == 1_427_900 - 3 * 2_000


SGD = {
    "momentum": (("mul_", "add_", "add_"), 0.7),
    "weight decay": (("add", "mul_", "add_", "add_"), 0.6),
    "nesterov": (("mul_", "add_", "add", "add_"), 0.6),
}


@pytest.mark.parametrize("kind", SGD)
def test_sgd_gains_as_much_as_its_settings_let_it_read_less(kind: str) -> None:
    names, share = SGD[kind]
    ops = [span(f"aten::{name}", 1_000 + at * 100, 90) for at, name in enumerate(names * 4)]
    found = only(annotation("Optimizer.step#SGD.step", 1_000, 100 * len(ops)), *ops)
    # The ops stand 10 us apart, which is saved but for the last: that comes after them.
    before_us = 100 * len(ops)
    after_us = 10 + 5 + 4 * 0.7 + share * 90 * len(ops)
    assert found.saving_ns == pytest.approx((before_us - after_us) * 1_000, abs=1)


def test_plain_sgd_gains_nothing_but_its_calls() -> None:
    ops = [span("aten::add_", 1_000 + at * 500, 490) for at in range(4)]
    assert advice(annotation("Optimizer.step#SGD.step", 1_000, 2_000), *ops) == []


def test_no_more_workers_are_advised_than_the_process_may_use_cores() -> None:
    loading = annotation(CALLER, 0, 8_000), span("aten::mm", 8_000, 1_900)
    found = only(*loading, cpu_cores=2)
    # Two workers load in 4 ms, 2 ms longer than the rest takes.
    assert (found.fix, found.saving_ns) == ("`num_workers=2` in the DataLoader", 6_000_000)
    assert "The process may use 2 cores. With 2 workers 2 ms would remain." in found.evidence
    late = only(annotation(WORKERS, 0, 3_000), span("aten::mm", 3_000, 1_000), cpu_cores=2)
    assert late.fix == "a larger `num_workers`, of at most 2, or less work for each sample"


def test_work_that_fills_the_only_core_is_not_moved_to_a_worker() -> None:
    loading = annotation(CALLER, 0, 8_000), span("aten::mm", 8_000, 1_900)
    busy = tuple(StepMark(number=at, cycle=0, is_complete=True, cpu_ns=10_000_000) for at in range(2))
    waiting = tuple(replace(mark, cpu_ns=2_000_000) for mark in busy)
    assert advice(*loading, cpu_cores=1, recorded_steps=busy) == []
    # Both cores share 10 ms of work, so that 5 ms remain of the step, 3 ms more than its rest.
    assert only(*loading, cpu_cores=2, recorded_steps=busy).saving_ns == 5_000_000
    # 8 ms of waiting for a disk beside 2 ms of work: one worker waits meanwhile, and 6 ms are left of it.
    assert only(*loading, cpu_cores=1, recorded_steps=waiting).saving_ns == 2_000_000


@pytest.mark.parametrize(
    "events",
    [
        adam(1),  # one parameter
        [annotation("Optimizer.step#Adam.step", 0, 2_000), span("aten::_fused_adam_", 0, 1_900)],
        [annotation("Optimizer.step#LBFGS.step", 0, 2_000), *adam(3)[1:]],
    ],
)
def test_an_optimizer_that_is_fused_or_cannot_be_is_left_alone(events: list[dict[str, Any]]) -> None:
    assert advice(*events) == []


def test_zeros_in_gradients_cost_their_filling_and_what_backward_adds() -> None:
    node = "torch::autograd::AccumulateGrad"
    added = span(f"autograd::engine::evaluate_function: {node}", 2_000, 120), span(node, 2_005, 110)
    zero = annotation("Optimizer.zero_grad#SGD.zero_grad", 1_000, 300), span("aten::zero_", 1_100, 100)
    found = only(*zero, *added, span("aten::add_", 2_010, 100))
    # 100 us to fill them and 100 us to add to them; the call of `zero_grad` itself remains.
    assert (found.rule, found.saving_ns) == ("zero_grad_set_to_none", 200_000)
    assert "backward adds to zeros 1 time" in found.evidence
    assert advice(zero[0]) == []


def test_a_loop_over_elements_costs_all_turns_but_two() -> None:
    rows = [span("aten::select", 100 * at, 10) for at in range(80)]
    found = only(CODE, *rows)
    # Without watched lines only the ops count: 80 x 10 us, of which two remain.
    assert (found.rule, found.saving_ns, found.line) == ("python_loop", 780_000, 4)
    assert advice(CODE, *rows[:47]) == []


def test_a_loop_over_elements_in_backward_that_the_user_wrote_is_one_too() -> None:
    events = [CODE]
    for step, start in enumerate((0, 10_000)):
        number = {"Sequence number": step + 1}
        events += [
            span("Slow", start + 100, 50, **number),
            span("autograd::engine::evaluate_function: SlowBackward", start + 1_000, 8_500),
            span("SlowBackward", start + 1_010, 8_400, **number, **{"Fwd thread id": 1}),
            *(span("aten::select", start + 1_100 + 100 * at, 10) for at in range(80)),
        ]
    assert not [each for each in Report(make_trace(*STEPS, *events)).advice if each.rule == "python_loop"]
    own = each_step(frame("train.py(30): backward", 1_050, 8_100))
    (found,) = (each for each in Report(make_trace(*STEPS, *events, *own)).advice if each.rule == "python_loop")
    assert (found.file, found.line) == ("train.py", 30)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("print(model.weight)", "Print numbers in place of tensors"),
        ("logger.info('%s', w)", "Print numbers in place of tensors"),
        ("text = str(model.weight)", "Print numbers in place of tensors"),
        ("log.append(float(w[i]))", "Replace a loop over elements by ops on whole tensors"),
        ("rows = [str(int(t)) for t in ids]", "Replace a loop over elements by ops on whole tensors"),
        ("blueprint(w)", "Replace a loop over elements by ops on whole tensors"),
        ("y = torch.log(w)", "Replace a loop over elements by ops on whole tensors"),
    ],
)
def test_a_line_that_prints_a_tensor_is_told_to_print_less_of_it(text: str, title: str) -> None:
    rows = [span("aten::select", 100 * at, 10) for at in range(80)]
    trace = make_trace(*STEPS, *each_step(*rows))
    site = {"kind": "line", "parent": -1, "name": text, "file": "cell", "line": 3}
    runs = [(0, 0, start, end - start, 0) for start, end in trace.steps.select("start_ns", "end_ns").rows()]
    sites = pl.DataFrame([site], schema=SITES_SCHEMA)
    trace = replace(trace, sites=sites, scopes=pl.DataFrame(runs, schema=SCOPES_SCHEMA, orient="row"))
    assert [each.title for each in Report(trace).advice if each.rule == "python_loop"] == [title]


def test_a_loop_that_multiplies_is_no_loop_over_elements() -> None:
    rows = [span("aten::select", 100 * at, 90) for at in range(80)]
    products = [span("aten::mm", 100 * at + 5, 60) for at in range(80)]
    assert advice(CODE, *rows, *products) == []


def test_masks_and_positions_that_each_step_makes_are_kept() -> None:
    mask = span("aten::ones", 1_000, 200), span("aten::tril", 1_300, 300)
    found = only(CODE, *mask)
    assert (found.rule, found.saving_ns, found.title) == ("rebuilt_constant", 500_000, "Make a mask once and keep it")
    positions = only(CODE, span("aten::arange", 1_000, 200))
    assert (positions.saving_ns, positions.title) == (200_000, "Make positions once and keep them")
    # A triangle of something that was computed is no constant.
    assert advice(CODE, span("aten::mm", 1_000, 200), span("aten::tril", 1_300, 300)) == []


ATTENTION = ("matmul", 400), ("div", 100), ("softmax", 300), ("matmul", 400)


def chain(*ops: tuple[str, float]) -> list[dict[str, Any]]:
    return [span(f"aten::{name}", 500 * at, dur) for at, (name, dur) in enumerate(ops)]


def test_attention_in_single_ops_costs_what_stands_between_its_products() -> None:
    found = only(*chain(*ATTENTION))
    assert (found.rule, found.saving_ns, found.certainty) == ("attention_unfused", 400_000, "estimated")


@pytest.mark.parametrize(
    "ops",
    [
        (("linear", 400), ("softmax", 300), ("matmul", 400)),
        (("matmul", 400), ("softmax", 300)),
        (("matmul", 400), ("relu", 100), ("softmax", 300), ("matmul", 400)),
        (("matmul", 400), ("log_softmax", 300), ("matmul", 400)),
    ],
)
def test_a_softmax_elsewhere_is_no_attention(ops: tuple[tuple[str, float], ...]) -> None:
    assert advice(*chain(*ops)) == []


def test_biases_before_batch_norms_have_no_effect() -> None:
    layer = span("aten::linear", 1_000, 800, **{"Input Dims": [[8, 4], [6, 4], [6]]})
    norm = span("aten::batch_norm", 2_000, 400, **{"Input Dims": [[8, 6], [6]]})
    head = {"record_shapes": 1}
    found = Report(make_trace(*STEPS, *each_step(layer, norm), **head)).advice
    assert [(each.rule, each.certainty, each.saving_ns) for each in found] == [("bias_before_batchnorm", "guess", None)]
    without = layer | {"args": {"Input Dims": [[8, 4], [6, 4], []]}}
    between = span("aten::relu", 1_850, 50)
    for events in ((without, norm), (layer, between, norm), (layer,)):
        assert Report(make_trace(*STEPS, *each_step(*events), **head)).advice == []


def test_threads_are_compared_with_cores_where_ops_are_long_enough() -> None:
    work = span("aten::mm", 0, 9_000)
    assert only(work, cpu_cores=8, cpu_threads=2).rule == "undersubscribed_threads"
    assert only(work, cpu_cores=2, cpu_threads=8).fix == "`torch.set_num_threads(2)`"
    assert advice(work, cpu_cores=2, cpu_threads=2) == []
    assert advice(work) == []
    assert advice(*(span("aten::add", 100 * at, 90) for at in range(90)), cpu_cores=8, cpu_threads=2) == []


def region(name: str, start: float, dur: float) -> dict[str, Any]:
    return span(f"Torch-Compiled Region: {name}", start, dur)


def test_a_compiled_region_in_another_one_is_a_graph_break() -> None:
    found = only(region("1/0", 0, 4_000), region("2/0", 1_000, 2_000))
    assert (found.rule, found.certainty) == ("graph_breaks", "guess")
    assert "takes 40 % of the time. Each call of it breaks 1 time" in found.evidence
    assert found.evidence.endswith('`TORCH_LOGS="graph_breaks"` says why.')
    assert advice(region("1/0", 0, 2_000), region("2/0", 2_000, 2_000)) == []  # one after the other
    assert advice(region("1/0", 0, 800), region("2/0", 100, 200)) == []  # a small share


BREAK = GraphBreak(reason="Dynamo does not know how to trace `print`", file="model.py", line=7)


def test_a_graph_break_says_why_and_where_as_the_process_knew() -> None:
    broken = region("1/0", 0, 4_000), region("2/0", 1_000, 2_000)
    mine = CompiledFrame(frame="1", name="f", file="model.py", line=5, breaks=(BREAK,))
    resumed = CompiledFrame(frame="2", name="torch_dynamo_resume_in_f_at_7", file="model.py", line=7)
    other = CompiledFrame(frame="9", name="g", file="other.py", breaks=(GraphBreak(reason="something else"),))
    found = only(*broken, compiled=(mine, resumed, other))
    assert found.evidence.endswith("Why: Dynamo does not know how to trace `print` (model.py:7).")
    unplaced = CompiledFrame(breaks=tuple(GraphBreak(reason=f"reason {at}") for at in range(5)))
    assert only(*broken, compiled=(unplaced,)).evidence.endswith("Why: reason 0; reason 1; reason 2; and 2 more.")


def test_a_graph_break_says_how_long_the_host_takes_from_graph_to_graph() -> None:
    graphs = span("aten::add", 100, 700), span("aten::mul", 1_200, 300), span("aten::sin", 2_600, 100)
    broken = region("1/0", 0, 4_000), region("2/0", 1_000, 2_900), region("3/0", 2_500, 1_000)
    breaks = tuple(GraphBreak(reason="print", file="model.py", line=line) for line in (7, 9))
    mine = CompiledFrame(frame="1", name="f", file="model.py", line=5, breaks=breaks)
    rest = [
        CompiledFrame(frame=str(at), name=f"torch_dynamo_resume_in_f_at_{line}", file="model.py", line=line)
        for at, line in ((2, 7), (3, 9))
    ]
    found = advice(*broken, *graphs, compiled=(mine, *rest))
    # From the end of the add at 0.8 ms to the mul at 1.2 ms; from the end of the mul at 1.5 ms to the sin at 2.6 ms.
    assert [" ".join(each.evidence.split("From graph")[1].split()[:6]) for each in found] == [
        "to graph the host takes 400",
        "to graph the host takes 1.10",
    ]


def test_compiling_inside_a_region_is_no_time_of_its_graphs() -> None:
    compiling = span("_compile.compile_inner (dynamo_timed)", 100, 3_500)
    found = advice(region("1/0", 0, 4_000), compiling, region("2/0", 3_700, 200))
    assert [each.rule for each in found] == []  # 0.5 ms of 10 ms


def test_a_recompilation_says_which_guards_failed_and_counts_the_backward_pass() -> None:
    compiling = span("entire_frame_compile", 0, 4_000), span("entire_backward_compile", 7_000, 2_000)
    again = [region(f"0/{at + 1}", 10_000 * at + 4_000, 1_000) for at in range(2)]
    trace = make_trace(*STEPS, *each_step(*compiling), *again)

    def told(*guards: str) -> Advice:
        frame = CompiledFrame(frame="0", name="f", file="model.py", line=5, recompiles=guards)
        (found,) = Report(replace(trace, meta=replace(trace.meta, compiled=(frame,)))).advice
        return found

    sizes = told(
        "tensor 'x' size mismatch at index 0. expected 3, actual 4",
        "tensor 'x' size mismatch at index 0. expected 4, actual 5",
    )
    assert sizes.saving_ns == 6_000_000
    assert sizes.evidence.endswith("What differed: `tensor 'x' size mismatch at index 0. expected 4, actual 5`.")
    assert (sizes.title, sizes.fix.partition(",")[0]) == ("Compile once for all sizes", "`torch.compile(...")
    values = told("mode == 'a'")
    assert (values.title, values.fix) == (
        "Compile once for all values",
        "pass what varies as a tensor, or keep it the same in all steps",
    )


def compilation(step: int, at: int, name: str, reason: str) -> Compilation:
    """Return a compilation that begins with a range of `_compile` at so many us of a step."""
    start_ns = 10_000_000 * step + 1_000 * at
    return Compilation(region=f"{at}/{step + 1}", name=name, start_unix_ns=start_ns, dur_ns=1_000, reason=reason)


def test_each_cause_of_compiling_again_has_its_own_advice() -> None:
    compiling = [span("entire_frame_compile", start, dur) for start, dur in ((0, 4_000), (5_000, 2_000))]
    again = [region(f"0/{at + 1}", 10_000 * at + 7_000, 1_000) for at in range(2)]
    trace = make_trace(*STEPS, *each_step(*compiling), *again)
    sizes = "tensor 'x' size mismatch at index 1. expected {}, actual {}"
    told = [compilation(step, 0, "f", sizes.format(step, step + 1)) for step in range(2)]
    told += [compilation(step, 5_000, "torch_dynamo_resume_in_g_at_7", f"n == {step}") for step in range(2)]
    found = Report(replace(trace, meta=replace(trace.meta, compilations=tuple(told)))).advice
    assert [(each.title, each.saving_ns) for each in found] == [
        ("Compile once for all sizes", 4_000_000),
        ("Compile once for all values", 2_000_000),
    ]
    assert "`torch._dynamo.mark_dynamic(x, 1)` before the call" in found[0].fix
    assert "compiles `f` again in 2 of 2 steps" in found[0].evidence
    assert found[0].evidence.endswith("What differed: `tensor 'x' size mismatch at index 1: expected 1, actual 2`.")
    assert "compiles `g` again" in found[1].evidence


def test_a_line_on_which_something_is_compiled_for_the_first_time_has_no_advice() -> None:
    code = [frame(f"train.py({line}): f", start, 4_000) for line, start in ((4, 0), (9, 5_000))]
    compiling = [span("entire_frame_compile", start, 2_000) for start in (10, 5_010)]
    again = [region(f"{at}/1", 5_000 * at + 2_100, 1_000) for at in range(2)]
    trace = make_trace(*STEPS, *each_step(*code, *compiling, *again))
    told = []
    for step in range(2):
        first, second = compilation(step, 10, "f", ""), compilation(step, 5_010, "g", f"n == {step}")
        told += [replace(first, region="0/0"), replace(second, region=f"1/{step + 1}")]
    found = Report(replace(trace, meta=replace(trace.meta, compilations=tuple(told)))).advice
    assert [(each.rule, each.line) for each in found] == [("recompiles", 9)]


@pytest.mark.parametrize(
    ("reason", "fix"),
    [
        ("Dynamo does not know how to trace builtin operator `print`", "remove the output"),
        ("builtin: print [] True", "remove the output"),
        ("Dynamo does not support tracing `Tensor.item()`", "keep the value as a tensor"),
        ("Data-dependent branching, such as `if` on a tensor", "`torch.where`"),
        ("Dynamo does not know how to trace builtin operator `compile`", "move the call out"),
        ("something new", "take what torch cannot trace"),
    ],
)
def test_a_line_that_breaks_a_graph_is_named_with_what_to_change_there(reason: str, fix: str) -> None:
    broken = region("1/0", 0, 4_000), region("2/0", 1_000, 2_000)
    breaks = tuple(GraphBreak(reason=reason, file="model.py", line=line) for line in (7, 9))
    mine = CompiledFrame(frame="1", name="f", file="model.py", line=5, breaks=breaks)
    found = advice(*broken, compiled=(mine,))
    assert [(each.file, each.line) for each in found] == [("model.py", 7), ("model.py", 9)]
    assert all(each.fix.startswith(fix) for each in found)


def test_a_line_that_breaks_two_graphs_has_one_advice_with_both_reasons() -> None:
    """Torch may tell a break in a function that a compiled one calls for both, in other words."""
    broken = region("1/0", 0, 4_000), region("2/0", 1_000, 2_000)
    breaks = [GraphBreak(reason=reason, file="model.py", line=7) for reason in ("one", "other")]
    frames = tuple(
        CompiledFrame(frame=frame, name=frame, file="model.py", line=5, breaks=(found,))
        for frame, found in zip(("1", "2"), breaks, strict=True)
    )
    (found,) = advice(*broken, compiled=frames)
    assert found.evidence.endswith("Why: one (model.py:7); other (model.py:7).")


def test_functions_that_are_compiled_again_on_two_lines_have_their_own_guards() -> None:
    code = [frame(f"train.py({line}): f", start, 4_000) for line, start in ((4, 0), (9, 5_000))]
    compiling = [span("entire_frame_compile", start, 2_000) for start in (10, 5_010)]
    again = [region(f"{at}/1", 5_000 * at + 2_100, 1_000) for at in range(2)]
    guards = [CompiledFrame(frame=str(at), name="f", recompiles=(f"{name} == 1",)) for at, name in enumerate("kn")]
    found = advice(*code, *compiling, *again, compiled=tuple(guards))
    assert [(each.line, each.evidence[-24:]) for each in sorted(found, key=lambda each: each.line or 0)] == [
        (4, "What differed: `k == 1`."),
        (9, "What differed: `n == 1`."),
    ]


def test_compiling_again_in_every_step_costs_the_compilation() -> None:
    compiling = span("_compile.compile_inner (dynamo_timed)", 0, 6_000, cat="user_annotation")
    again = [region(f"0/{at + 1}", 10_000 * at + 6_000, 1_000) for at in range(2)]
    found = Report(make_trace(*STEPS, *each_step(compiling), *again)).advice
    assert [(each.rule, each.saving_ns) for each in found] == [("recompiles", 6_000_000)]
    first = [region("0/0", 6_000, 1_000)]
    assert Report(make_trace(*STEPS, compiling, *first)).advice == []


def test_collectives_that_are_joined_save_what_the_shortest_cost() -> None:
    many = [span("c10d::allreduce_", 100 * at, 50) for at in range(20)]
    found = only(*many)
    assert (found.rule, found.saving_ns, found.certainty) == ("many_small_collectives", None, "guess")
    assert advice(*many[:15]) == []
    sent = {"Input Dims": [[1000]], "Input type": ["float"]}
    ranges = [span("gloo:all_reduce", 100 * at + 10, 30, cat="user_annotation", **sent) for at in range(20)]
    found = only(*many, *ranges)
    # Twenty of 50 us each, of which one remains; and 80 kB that are copied twice, at 8 bytes a ns.
    assert (found.saving_ns, found.certainty) == (950_000 - 20_000, "estimated")
    sent = {"Input Dims": [[100_000]], "Input type": ["float"]}
    ranges = [span("gloo:all_reduce", 100 * at + 10, 30, cat="user_annotation", **sent) for at in range(20)]
    assert advice(*many, *ranges) == []  # copying 8 MB twice takes longer


def accumulated(passes: int, exchanges: int) -> list[dict[str, Any]]:
    node = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    events = []
    for at in range(passes):
        events.append(annotation("DistributedDataParallel.forward", 2_000 * at, 500))
        if at >= passes - exchanges:
            events += [span(node, 2_000 * at + 600, 400), span("c10d::allreduce_", 2_000 * at + 700, 200)]
    return [*events, annotation("Optimizer.step#SGD.step", 2_000 * passes, 100)]


def test_gradients_that_no_step_follows_need_no_exchange() -> None:
    found = only(*accumulated(passes=3, exchanges=3))
    # Two of three exchanges of 0.2 ms.
    assert (found.rule, found.saving_ns) == ("gradient_sync_each_step", 400_000)
    assert advice(*accumulated(passes=3, exchanges=1)) == []
    assert advice(*accumulated(passes=1, exchanges=1)) == []


def test_a_recording_that_distorts_asks_for_less() -> None:
    work = [span("aten::mm", 22 * at, 22) for at in range(400)]
    found = only(*work, plain_step_ns=(2_000_000, 2_000_000), has_stacks=True)
    assert (found.rule, found.fix) == ("profiling_distorts", "without `--stack`, or with `--two-pass`")
    assert "5 times as long" in found.evidence
    lines = only(*work, plain_step_ns=(2_000_000, 2_000_000), has_function_lines=True)
    assert lines.fix == "without `--lines`, or with `--two-pass`"
    assert advice(*work, plain_step_ns=(2_000_000, 2_000_000)) == []  # there is nothing to leave out


def test_steps_that_are_longer_than_recording_can_make_them_are_not_laid_to_it() -> None:
    work = span("aten::mm", 0, 9_000)  # 8 ms more for two events: other programs ran meanwhile
    assert advice(work, plain_step_ns=(2_000_000, 2_000_000), has_stacks=True) == []


def grown(size_bytes: int) -> list[Advice]:
    steps = [annotation(f"ProfilerStep#{at}", 10_000 * at, 10_000) for at in range(3)]
    kept = []
    for at in range(3):
        block = allocation(10_000 * at + 150, size_bytes, size_bytes * (at + 1))
        block["args"]["Addr"] = 4096 * (at + 1)
        kept += [span("aten::empty", 10_000 * at + 100, 100), block]
    return Report(make_trace(*steps, *kept)).advice


def test_memory_that_grows_is_told_by_its_bytes() -> None:
    (found,) = grown(20_000)
    assert (found.rule, found.saving_bytes, found.saving_ns, found.op) == ("memory_leak", 20_000, None, "aten::empty")


def test_memory_that_grows_by_a_few_bytes_is_left_alone() -> None:
    assert grown(4) == grown(900) == []


def test_savings_of_less_than_ten_microseconds_are_not_said() -> None:
    steps = annotation("ProfilerStep#0", 0, 100), annotation("ProfilerStep#1", 100, 100)

    def positions(dur_us: float) -> list[Advice]:
        return Report(make_trace(*steps, *(span("aten::arange", start + 10, dur_us) for start in (0, 100)))).advice

    assert positions(9) == []
    assert [each.saving_ns for each in positions(11)] == [11_000]


def test_a_step_that_lost_the_core_does_not_make_what_is_in_every_step_dearer() -> None:
    steps = [annotation(f"ProfilerStep#{at}", 10_000 * at, 10_000) for at in range(3)]
    ranges = [span("aten::arange", 10_000 * at + 100, dur) for at, dur in enumerate((200, 4_000, 200))]
    (found,) = Report(make_trace(*steps, *ranges)).advice
    assert found.saving_ns == 200_000


def test_what_is_not_in_every_step_costs_its_mean() -> None:
    steps = [annotation(f"ProfilerStep#{at}", 10_000 * at, 10_000) for at in range(4)]
    zeros = [annotation("Optimizer.zero_grad#SGD.zero_grad", 10_000 * at + 1_000, 500) for at in (1, 3)]
    fills = [span("aten::zero_", 10_000 * at + 1_100, 400) for at in (1, 3)]
    (found,) = Report(make_trace(*steps, *zeros, *fills)).advice
    assert (found.rule, found.saving_ns) == ("zero_grad_set_to_none", 200_000)
