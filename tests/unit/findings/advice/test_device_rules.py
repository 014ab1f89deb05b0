"""Rules about a device, on traces whose numbers are worked out by hand, and on real ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import annotation, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.findings.advice import Advice
from torchprof_magic.report.trace_report import Report

STEPS = (annotation("ProfilerStep#0", 0, 10_000), annotation("ProfilerStep#1", 10_000, 10_000))


def each_step(*events: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for step in (0, 1):
        for event in events:
            args = event.get("args", {})
            number = {"correlation": args["correlation"] + 1_000 * step} if "correlation" in args else {}
            found.append(event | {"ts": event["ts"] + 10_000 * step, "args": args | number})
    return found


def advice(*events: dict[str, Any], device: str = "", **head: Any) -> list[Advice]:
    found = make_trace(*STEPS, *each_step(*events), **head)
    names = (device,) if device else ()
    return Report(replace(found, meta=replace(found.meta, device_names=names))).advice


def call(name: str, start_us: float, dur_us: float, correlation: int) -> dict[str, Any]:
    return span(name, start_us, dur_us, cat="cuda_runtime", correlation=correlation)


def copy(name: str, start_us: float, dur_us: float, correlation: int, size: int = 0) -> dict[str, Any]:
    event = kernel(name, start_us, dur_us, correlation, bytes=size)
    return event | {"cat": "gpu_memcpy"}


def test_a_wait_for_a_result_costs_by_how_much_the_host_is_later() -> None:
    events = (
        span("aten::mm", 0, 20),
        launch(5, 5, correlation=1),
        kernel("gemm", 100, 900, correlation=1),
        span("aten::item", 200, 820),
        call("cudaStreamSynchronize", 210, 800, correlation=2),
        span("aten::add", 1_200, 20),
        launch(1_205, 5, correlation=3),
        kernel("add", 1_300, 8_000, correlation=3),
    )
    (found,) = advice(*events)
    # The wait lasted from 210 to 1,010 us, of which returning takes 10: without it the host ends 790 us earlier. The
    # device works for 8.9 ms of a step, so it keeps up.
    assert (found.rule, found.saving_ns, found.op) == ("sync_in_loop", 790_000, "aten::item")
    assert found.certainty == "measured"


def test_a_wait_at_the_end_of_the_work_costs_nothing() -> None:
    events = (
        span("aten::mm", 0, 20),
        launch(5, 5, correlation=1),
        kernel("gemm", 15, 9_980, correlation=1),
        span("aten::item", 200, 9_797),
        call("cudaStreamSynchronize", 210, 9_786, correlation=2),
    )
    assert advice(*events) == []


def test_loading_is_not_blamed_for_a_device_that_has_not_begun_what_is_in_its_queue() -> None:
    events = (
        span("aten::mm", 0, 40),
        launch(5, 5, correlation=1),
        launch(15, 5, correlation=2),
        kernel("gemm", 100, 900, correlation=1),
        kernel("gemm", 1_500, 500, correlation=2),
        annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 7_900),
        span("aten::add", 8_000, 200),
        launch(8_100, 5, correlation=3),
        kernel("add", 8_110, 1_880, correlation=3),
    )
    (found,) = (each for each in advice(*events) if each.rule == "dataloader_workers")
    # From 1,000 to 1,500 us the second kernel is in the queue; from 2,000 to 8,000 us nothing is. With its kernels and
    # that pause the device takes 3.78 ms for a step, to which the first and the last step of two come.
    assert found.saving_ns == pytest.approx(6_220_000, rel=0.02)
    assert found.evidence == "The program loads its batches itself: 7.90 ms per step, and the device waits 6 ms of it."


def test_without_steps_no_wait_is_blamed() -> None:
    events = (
        launch(5, 5, correlation=1),
        kernel("gemm", 100, 900, correlation=1),
        span("aten::item", 200, 820),
        call("cudaStreamSynchronize", 210, 800, correlation=2),
        launch(1_205, 5, correlation=3),
        kernel("add", 1_300, 800, correlation=3),
    )
    assert Report(make_trace(*events)).advice == []


def test_a_pageable_copy_costs_its_call_unless_the_device_is_busy_anyway() -> None:
    events = (
        span("aten::copy_", 0, 1_000),
        call("cudaMemcpyAsync", 100, 800, correlation=1),
        copy("Memcpy HtoD (Pageable -> Device)", 300, 500, correlation=1, size=4_000_000),
        launch(1_200, 5, correlation=2),
        kernel("gemm", 1_210, 8_700, correlation=2),
    )
    (found,) = advice(*events)
    # Without the 800 us of the call the host needs 9.2 ms, as the device does. The first copy begins at 300 us, 10 us
    # after it the kernel, so that two steps take 18.7 ms.
    assert (found.rule, found.saving_ns) == ("pageable_copy", 650_000)
    assert "the device idles for 300 µs of it" in found.evidence
    assert "3.81 MiB per step are copied from pageable memory" in found.evidence
    pinned = [event | {"name": event["name"].replace("Pageable", "Pinned")} for event in events]
    assert advice(*pinned) == []


def short_kernels(count: int, kernel_us: float = 5) -> list[dict[str, Any]]:
    events = []
    for at in range(count):
        events += [span("aten::add", 100 * at, 90), launch(100 * at + 40, 20, correlation=at + 1)]
        events.append(kernel("add", 100 * at + 70, kernel_us, correlation=at + 1))
    return events


def test_short_kernels_cost_the_time_in_which_the_host_launches_the_next_one() -> None:
    (found,) = advice(*short_kernels(90))
    assert (found.rule, found.certainty) == ("small_kernels", "estimated")
    # Of each 100 us the kernel takes 5 us, its latency 10 us, and Python 10 us.
    assert found.saving_ns == pytest.approx(75_000 * 90, rel=0.02)
    assert advice(*short_kernels(40)) == []
    assert [each.rule for each in advice(*short_kernels(90, kernel_us=20))] == []


@pytest.mark.parametrize(
    ("lines", "place"), [([3], ("train.py", 3)), ([3, 4], ("", None)), ([3, 3, 4], ("train.py", 3))]
)
def test_short_kernels_are_of_the_line_with_most_of_them_and_of_none_where_they_are_spread(
    lines: list[int], place: tuple[str, int | None]
) -> None:
    events = short_kernels(90)
    for number, op in enumerate(each for each in events if each["name"] == "aten::add"):
        op["args"]["Call stack"] = f"train.py({lines[number % len(lines)]}): step"
    (found,) = advice(*events)
    assert (found.file, found.line) == place


def products(name: str, dur_us: float = 9_000, **args: Any) -> list[dict[str, Any]]:
    return [span("aten::mm", 0, 50, **args), launch(10, 5, correlation=1), kernel(name, 100, dur_us, correlation=1)]


def test_float32_on_a_device_with_tf32_is_a_guess_with_two_ways_on_one_card() -> None:
    (found,) = advice(*products("ampere_sgemm_128x64_nn"), device="NVIDIA A100-SXM4-40GB")
    assert (found.rule, found.certainty, found.saving_ns) == ("autocast", "guess", None)
    assert found.fix == (
        '`torch.autocast("cuda", dtype=torch.bfloat16)`; or `torch.set_float32_matmul_precision("high")`'
    )
    (alone,) = advice(*products("volta_sgemm_128x64_nn"), device="Tesla V100-SXM2")
    assert alone.rule == "autocast"
    assert "torch.float16" in alone.fix  # its tensor cores have no bfloat16
    assert advice(*products("ampere_sgemm_128x64_nn"), device="Tesla P100-PCIE") == []
    assert advice(*products("ampere_sgemm_128x64_nn", 300), device="NVIDIA A100-SXM4-40GB") == []
    half = products("ampere_fp16_s16816gemm_fp16_128x64")
    assert advice(*half, device="NVIDIA A100-SXM4-40GB") == []


def test_odd_sizes_in_half_precision_are_a_guess() -> None:
    shapes = {"Input Dims": [[64, 1023], [1023, 64]], "Input type": ["c10::Half", "c10::Half"]}
    kernels = products("ampere_fp16_s16816gemm_fp16_128x64", **shapes)
    found = advice(*kernels, device="NVIDIA A100-SXM4-40GB", record_shapes=1)
    assert [each.rule for each in found] == ["odd_half_sizes"]
    assert "[64, 1023] × [1023, 64]" in found[0].evidence
    shapes["Input Dims"] = [[64, 1024], [1024, 64]]
    even = products("ampere_fp16_s16816gemm_fp16_128x64", **shapes)
    assert advice(*even, device="NVIDIA A100-SXM4-40GB", record_shapes=1) == []


def test_changes_of_layout_cost_their_kernels_where_the_device_is_the_limit() -> None:
    events = (
        *products("gemm", 8_000),
        launch(20, 5, correlation=2),
        call("cudaDeviceSynchronize", 60, 9_140, correlation=3),
        kernel("void cudnn::ops::nchwToNhwcKernel<float>", 8_200, 1_000, correlation=2),
    )
    found = [each for each in advice(*events) if each.rule != "sync_in_loop"]
    assert [(each.rule, each.saving_ns) for each in found] == [("channels_last", 1_000_000)]
    late = launch(8_190, 5, correlation=2)
    assert advice(*products("gemm", 500), late, events[-1]) == []


def test_memory_that_the_driver_gives_in_every_step_is_kept() -> None:
    events = (
        launch(5, 5, correlation=1),
        kernel("gemm", 20, 100, correlation=1),
        span("aten::empty", 200, 900),
        call("cudaMalloc", 250, 800, correlation=2),
        launch(1_200, 5, correlation=3),
        kernel("gemm", 1_210, 8_700, correlation=3),
    )
    (found,) = advice(*events)
    assert (found.rule, found.saving_ns, found.op) == ("allocator_churn", 800_000, "cudaMalloc")
    once = make_trace(*STEPS, *events)
    assert Report(once).advice == []


# What each development trace is told, and what its limit is: see limits.json.
EXPECTED = {
    "01_cpu_gloo_rank34.json.gz": ("single_tensor_optimizer",),
    "02_a100_ddp_rank0of2.json.gz": ("small_kernels",),
    "03_h100_qwen_stacks_memory.json.gz": ("unfused_ops",),
    "04_amd_vllm_decode_graph.json.gz": (),
    "05_v100_resnet50_old_schema.json.gz": (
        "dataloader_workers",
        "small_kernels",
        "zero_grad_set_to_none",
        "pageable_copy",
        "autocast",
    ),
    "07_mi300_flux_triton_large.json.gz": (),
    "08_mtia_inference_rank0.json.gz": (),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_real_trace_is_told_what_its_limit_allows(traces: Path, name: str) -> None:
    assert tuple(each.rule for each in tp.load(traces / name).advice) == EXPECTED[name]


def test_the_saving_of_workers_is_the_idle_time_that_an_independent_script_found(traces: Path) -> None:
    limits = {row["file"]: row for row in json.loads((traces / "limits.json").read_text())}
    name = "05_v100_resnet50_old_schema.json.gz"
    (device,) = limits[name]["devices"]
    idle_ns = next(ns for cause, ns in device["idle_by_cause"].items() if cause.startswith("data"))
    found = tp.load(traces / name).advice[0]
    assert found.saving_ns == pytest.approx(idle_ns / len(limits[name]["steps"]), rel=0.02)


@pytest.mark.parametrize("name", ["02_a100_ddp_rank0of2.json.gz", "05_v100_resnet50_old_schema.json.gz"])
def test_no_advice_saves_more_than_the_wait_of_its_cause_that_stands_beside_it(traces: Path, name: str) -> None:
    report = tp.load(traces / name)
    causes = {cause.kind: cause.ns for cause in report.verdict.causes}
    steps = counted_steps(report.as_analysed).steps
    of_rule = {"dataloader_workers": "data", "small_kernels": "op dispatch"}
    found = {each.rule: each.saving_ns for each in report.advice if each.rule in of_rule}
    assert found
    for rule, saving_ns in found.items():
        assert saving_ns is not None
        assert saving_ns <= causes[of_rule[rule]] / steps + 1


ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4>(int)"


def elementwise(op: str, us: float, number: int) -> tuple[dict[str, Any], ...]:
    """An op that launches one kernel; those with higher numbers run later, each for less than 4,000 us."""
    at = 20 * number
    return (
        span(op, at, 15),
        launch(at + 5, 5, correlation=number),
        kernel(
            "void at::native::vectorized_elementwise_kernel<4>(int)", 200 + 4_000 * (number - 1), us, correlation=number
        ),
    )


def test_ops_that_only_go_through_tensors_are_worth_compiling_where_they_take_much_of_a_busy_device() -> None:
    gemm = (span("aten::mm", 60, 15), launch(65, 5, correlation=3), kernel("gemm", 8_200, 1_790, correlation=3))
    (found,) = advice(*elementwise("aten::mul", 4_000, 1), *elementwise("aten::add", 3_000, 2), *gemm)
    assert (found.rule, found.fix, found.op) == ("unfused_ops", "`model = torch.compile(model)`", "aten::mul")
    assert (found.certainty, found.saving_ns) == ("guess", None)
    # 4,000 and 3,000 us of 10,000.
    assert "take 7 ms per step, 70 % of it, most for `aten::mul`, `aten::add`." in found.evidence


@pytest.mark.parametrize(
    "events",
    [
        # 1,900 us of 10,000, beside 8,000 of products.
        pytest.param(
            (
                *elementwise("aten::mul", 1_900, 1),
                span("aten::mm", 60, 15),
                launch(65, 5, correlation=3),
                kernel("gemm", 2_100, 7_800, correlation=3),
            ),
            id="they take less than a fifth",
        ),
        pytest.param(
            (
                annotation("Optimizer.step#SGD.step", 10, 60),
                *elementwise("aten::mul", 4_000, 1),
                *elementwise("aten::add", 5_700, 2),
            ),
            id="they are those of an optimizer",
        ),
        pytest.param(
            (
                *elementwise("aten::mul", 4_000, 1),
                *elementwise("aten::add", 5_700, 2),
                span("Torch-Compiled Region: 0/0", 18, 70),
            ),
            id="code is compiled",
        ),
        pytest.param(elementwise("aten::mul", 3_000, 1), id="the device waits for the host"),
    ],
)
def test_ops_are_not_worth_compiling_otherwise(events: tuple[dict[str, Any], ...]) -> None:
    assert "unfused_ops" not in [each.rule for each in advice(*events)]
