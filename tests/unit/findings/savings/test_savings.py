from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from support import allocation, annotation, frame, make_trace, span

from torchprof_magic.findings.overview import overview_facts
from torchprof_magic.findings.savings.lower_peak import Removal, device_curves, peak_without
from torchprof_magic.findings.savings.table import has_savings, savings_table
from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA, TAGS_SCHEMA

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

CUDA = 1
SITES = (
    {"kind": "module", "parent": -1, "name": "", "class_name": "Net", "inputs": "[5, 5]", "outputs": "[25]"},
    {"kind": "module", "parent": 0, "name": "layers.0", "class_name": "Block", "outputs": "[25]"},
    {"kind": "module", "parent": 0, "name": "layers.1", "class_name": "Block", "outputs": "[25]"},
)
RUNS = ((0, 1, 39), (1, 2, 16), (2, 20, 16))


def block(at_us: float, delta: int, address: int, device: int = 0) -> dict[str, Any]:
    event = allocation(at_us, delta, device=device)
    event["args"]["Addr"] = address
    return event


def op(name: str, start_us: float, dur_us: float, sequence: int) -> dict[str, Any]:
    return span(name, start_us, dur_us, **{"Sequence number": sequence})


def node(start_us: float, dur_us: float, sequence: int) -> dict[str, Any]:
    return span("GeluBackward0", start_us, dur_us, **{"Sequence number": sequence, "Fwd thread id": 1})


def two_blocks(*more: dict[str, Any], unit: int = 1, output: int = 100, device: int = 0) -> tuple[dict[str, Any], ...]:
    """Two blocks, each of which keeps 1000 bytes for backward, and returns ``output`` bytes.

    In backward, the gradient of each takes 200 bytes. The peak is 2000 + 200 + ``output``, at 55 us.
    """
    memory = (
        (5, 1000 * unit, 1),
        (9, output, 2),
        (23, 1000 * unit, 3),
        (27, output, 4),
        (51, -output, 4),
        (55, 200 * unit, 5),
        (57, -1000 * unit, 3),
        (61, -output, 2),
        (62, -200 * unit, 5),
        (65, 200 * unit, 6),
        (67, -1000 * unit, 1),
        (67.5, -200 * unit, 6),
    )
    return (
        annotation("ProfilerStep#0", 0, 100),
        op("aten::gelu", 4, 2, 1),
        op("aten::add", 8, 2, 2),
        op("aten::gelu", 22, 2, 3),
        op("aten::add", 26, 2, 4),
        node(50, 2, 4),
        node(54, 4, 3),
        node(60, 3, 2),
        node(64, 4, 1),
        *(block(at, delta, 4096 * address, device) for at, delta, address in memory),
        *more,
    )


def watched(*events: dict[str, Any]) -> Trace:
    rows = [(site, 0, start * 1000, dur * 1000, 0) for site, start, dur in RUNS]
    return replace(
        make_trace(*events),
        sites=pl.DataFrame(SITES, schema=SITES_SCHEMA),
        scopes=pl.DataFrame(rows, schema=SCOPES_SCHEMA, orient="row"),
    )


def saved(trace: Trace, action: str = "activation_checkpointing") -> dict[str | None, int]:
    """Return the saved bytes of an action by module."""
    rows = savings_table(trace).frame.filter(action=action)
    return dict(zip(rows["module"].to_list(), rows["saved_bytes"].to_list(), strict=True))


def test_checkpoints_save_what_is_kept_for_backward_and_not_what_modules_return() -> None:
    # At 55 us the first block's 1000 bytes go; its 100 returned bytes, and all of the second block, which is in its
    # backward pass already, stay.
    assert saved(watched(*two_blocks())) == {"layers.0": 1000, "each of 2 Block": 1000}


def test_the_arithmetic_gives_the_numbers_and_calls_them_an_estimate() -> None:
    row = savings_table(watched(*two_blocks())).frame.row(
        by_predicate=pl.col("module") == "each of 2 Block", named=True
    )
    assert (row["device"], row["peak_bytes"], row["added_time_ns"]) == ("cpu", 2300, 32_000)
    assert row["arithmetic"] == (
        "Estimate: the forward passes of 2 Block keep 1,000 B at the peak for backward, which would compute this again "
        "in 32 µs per step, so the peak would be 1.27 KiB in place of 2.25 KiB."
    )


def test_modules_are_also_known_from_recorded_frames() -> None:
    frames = (frame("nn.Module: Net_0", 1, 39), frame("nn.Module: Block_0", 2, 16), frame("nn.Module: Block_1", 20, 16))
    trace = make_trace(*two_blocks(*frames))
    assert saved(trace) == {"Net_0.Block_0": 1000, "each of 2 Block": 1000}


def test_what_the_next_checkpoint_needs_as_its_input_is_kept_until_then() -> None:
    events = [event for event in two_blocks() if event["ts"] != 61]
    events.append(block(30, -100, 4096 * 2))  # nobody needs what the first block returns: the peak is 2200
    named = pl.when(pl.col("name") == "layers.1").then(pl.lit("[25]")).otherwise("inputs").cast(pl.Categorical)
    trace = watched(*events)
    trace = replace(trace, sites=trace.sites.with_columns(named.alias("inputs")))
    assert saved(trace) == {"layers.0": 1000, "each of 2 Block": 900}
    frames = (frame("nn.Module: Net_0", 1, 39), frame("nn.Module: Block_0", 2, 16), frame("nn.Module: Block_1", 20, 16))
    assert saved(make_trace(*events, *frames)) == {"Net_0.Block_0": 1000, "each of 2 Block": 900}


def test_computing_again_needs_the_temporary_memory_of_the_forward_again() -> None:
    scratch = (span("aten::mul", 11, 5), block(12, 600, 4096 * 9), block(14, -600, 4096 * 9))
    # Just before 60 us: the 1000 bytes that are back, 100 returned, 200 of a gradient, and 600: 1900 of 2300.
    assert saved(watched(*two_blocks(*scratch)))["layers.0"] == 400


def test_without_a_backward_pass_nothing_is_kept() -> None:
    events = [event for event in two_blocks() if event["name"] != "GeluBackward0"]
    assert saved(watched(*events)) == {}


def test_what_outlives_the_backward_pass_is_held_by_the_program_and_is_not_saved() -> None:
    events = [event for event in two_blocks() if event["ts"] != 67]
    assert saved(watched(*events, block(90, -1000, 4096))) == {}


def test_offload_is_for_devices_and_ends_with_the_node_that_needs_the_activations() -> None:
    trace = watched(*two_blocks(unit=51, output=512, device=CUDA))
    # 51,000 bytes of two blocks go there and back at 20 GB/s: 10.2 us.
    rows = savings_table(trace).frame.filter(action="activation_offload", module="each of 2 Block")
    assert rows.select("device", "saved_bytes", "added_time_ns").rows() == [("cuda:0", 51_000, 10_200)]
    # All modules together also keep what the first block returns.
    assert saved(trace, "activation_offload")[None] == 51_512
    assert saved(watched(*two_blocks()), "activation_offload") == {}


def test_half_the_batch_halves_activations_and_what_backward_computes_in_between() -> None:
    assert saved(watched(*two_blocks()), "smaller_batch") == {None: 1150}


def test_single_samples_have_no_half() -> None:
    trace = watched(*two_blocks())
    inputs = pl.lit("[1, 25]").cast(trace.sites.schema["inputs"]).alias("inputs")
    assert saved(replace(trace, sites=trace.sites.with_columns(inputs)), "smaller_batch") == {}


ACCUMULATE = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
# A gradient of 1000 bytes is kept from step to step. The next one is added to it at 65 us; the peak is 2500 at 61 us.
TRAINING = (
    annotation("ProfilerStep#0", 0, 50),
    span(ACCUMULATE, 10, 4),
    block(12, 1000, 4096),
    annotation("Optimizer.step#SGD.step", 20, 5),
    annotation("ProfilerStep#1", 50, 50),
    op("aten::mm", 55, 2, 7),
    block(56, 500, 8192),
    node(60, 3, 7),
    block(61, 1000, 12288),
    block(62, -500, 8192),
    span(ACCUMULATE, 64, 2),
    block(65, -1000, 12288),
    annotation("Optimizer.step#SGD.step", 70, 5),
    block(90, 4, 16384),
    block(91, -4, 16384),
)
ZERO_GRAD = annotation("Optimizer.zero_grad#SGD.zero_grad", 30, 1)


def test_gradients_that_are_kept_after_the_step_of_the_optimizer_could_be_none() -> None:
    assert saved(make_trace(*TRAINING, ZERO_GRAD), "set_to_none") == {None: 1000}


def test_gradients_that_are_released_only_after_forward_could_be_released_before_it() -> None:
    events = [event for event in TRAINING if event["ts"] not in (61, 65)]
    # The old gradient goes at 57 us: 1500 at 56 us would be 500. The new one is another block.
    late = (annotation("Optimizer.zero_grad#SGD.zero_grad", 57, 2), block(58, -1000, 4096), block(65, 1000, 12288))
    trace = make_trace(*events, *late)
    assert saved(trace, "set_to_none") == {None: 500}


def test_gradients_that_are_summed_up_over_steps_are_needed() -> None:
    assert saved(make_trace(*TRAINING), "set_to_none") == {}


def test_gradients_are_needed_while_several_optimizers_take_turns() -> None:
    turn = (span(ACCUMULATE, 40, 1), annotation("Optimizer.step#SGD.step", 45, 1))
    again = (span(ACCUMULATE, 80, 1), annotation("Optimizer.step#SGD.step", 85, 1))
    assert saved(make_trace(*TRAINING, ZERO_GRAD, *turn, *again), "set_to_none") == {}


def test_types_that_no_live_run_knows_are_assumed_to_be_float32() -> None:
    trace = make_trace(*TRAINING, ZERO_GRAD)
    (row,) = savings_table(trace).frame.filter(action="lower_precision_gradients").to_dicts()
    assert row["saved_bytes"] == 500
    assert "gradients assumed to be float32 take 1,000 B at the peak" in row["arithmetic"]


@pytest.mark.parametrize(("dtype", "expected"), [("float32", {None: 2000}), ("bfloat16", {})])
def test_parameters_of_float32_can_be_half_as_large(dtype: str, expected: dict[None, int]) -> None:
    trace = make_trace(*TRAINING)
    tag = {"time_ns": 0, "category": "parameter", "device": "cpu", "address": 99, "bytes": 4000, "name": "weight"}
    tags = pl.DataFrame([{**tag, "shape": "[1000]", "dtype": dtype, "cycle": 0}], schema=TAGS_SCHEMA)
    assert saved(replace(trace, tags=tags), "lower_precision_parameters") == expected


def test_slices_of_a_data_set_do_not_shrink_with_the_batch() -> None:
    trace = make_trace(*TRAINING)
    tag = {"time_ns": 0, "category": "input", "device": "cpu", "address": 99, "bytes": 40_000, "name": None}
    tags = pl.DataFrame([{**tag, "shape": "[10]", "dtype": "float32", "cycle": 0}], schema=TAGS_SCHEMA)
    whole = pl.DataFrame([{**tag, "shape": "[10000]", "dtype": "float32", "cycle": 0}], schema=TAGS_SCHEMA)
    assert saved(replace(trace, tags=tags), "smaller_batch") == {}
    assert saved(replace(trace, tags=whole), "smaller_batch")[None] >= 20_000


def test_another_moment_becomes_the_highest_when_the_peak_is_lowered() -> None:
    (curve,) = device_curves(make_trace(block(0, 70, 1), block(1, -70, 1), block(2, 100, 2), block(3, -100, 2)))
    assert curve.total.tolist() == [70, 0, 100, 0]
    removal = Removal(np.array([2]), np.array([3]), np.array([90]))
    assert peak_without(curve, removal) == 70
    assert peak_without(curve, Removal(np.array([0, 2]), np.array([4, 4]), np.array([10, 40]))) == 60


def test_savings_of_less_than_a_hundredth_of_the_peak_are_left_out() -> None:
    assert not has_savings(make_trace(block(0, 100_000, 4096), span("aten::mm", 1, 5), block(2, 900, 8192)))
    assert not has_savings(make_trace(span("aten::mm", 0, 5)))


def test_the_largest_saving_comes_first_and_is_in_the_overview() -> None:
    trace = watched(*two_blocks())
    assert savings_table(trace).frame["saved_bytes"].is_sorted(descending=True)
    (memory,) = (section for section in overview_facts(trace).sections if section.kind == "memory")
    fact = memory.facts[-1]
    assert (fact.label, fact.value, fact.unit, fact.view) == ("Half the batch", 1150.0, "bytes", "savings")
    assert fact.note == "less at the peak on cpu, an estimate"


def test_the_overview_says_how_much_time_a_saving_adds() -> None:
    trace = watched(*two_blocks(unit=51, output=512, device=CUDA))
    single = pl.lit("[1, 25]").cast(trace.sites.schema["inputs"]).alias("inputs")
    facts = overview_facts(replace(trace, sites=trace.sites.with_columns(single))).sections
    (memory,) = (section for section in facts if section.kind == "memory")
    fact = memory.facts[-1]
    assert (fact.label, fact.value) == ("Offloading activations", 51_512.0)
    assert fact.note == "less at the peak on cuda:0, an estimate, + 10.3 µs per step"
