"""What must hold for real traces of every vendor, beside the facts that were counted in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from torchprof_magic.loading import load

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.report.trace_report import Report

A100 = "02_a100_ddp_rank0of2.json.gz"


@pytest.fixture(scope="module")
def a100(traces: Path) -> Report:
    return load(traces / A100)


def test_the_phases_of_a_step_add_up_to_it(a100: Report) -> None:
    phases = [name for name in a100.steps.columns if name.endswith("_ns")]
    phases = [name for name in phases if name not in ("start_ns", "dur_ns", "device_busy_ns")]
    assert a100.steps.select(pl.sum_horizontal(phases)).to_series().to_list() == a100.steps["dur_ns"].to_list()


def test_memory_peaks(traces: Path, facts: dict[str, Any]) -> None:
    name = "03_h100_qwen_stacks_memory.json.gz"
    marks = {mark.lane: mark.label for mark in load(traces / name)._analysis["memory"].marks if mark.kind == "peak"}  # type: ignore[union-attr]
    assert marks == {"cuda:0": "peak 1.95 GiB", "cpu": "peak 16 B"}
    assert facts[name]["memory"]


@pytest.mark.parametrize(
    "name",
    [
        "01_cpu_gloo_rank34.json.gz",
        "03_h100_qwen_stacks_memory.json.gz",
        "04_amd_vllm_decode_graph.json.gz",
        "05_v100_resnet50_old_schema.json.gz",
        "06_v100_dlrm_8ranks/rank0.json.gz",
        "08_mtia_inference_rank0.json.gz",
    ],
)
def test_every_vendors_trace_becomes_a_whole_report(traces: Path, name: str) -> None:
    report = load(traces / name)
    assert report.trace.events.height > 0
    assert report.summary()
    assert report._forms.page.data


@pytest.mark.parametrize("key", ["shapes", "dtypes", "overload", "stack", "thread", "phase", "step", "cycle"])
def test_splitting_ops_loses_no_call_and_no_time(a100: Report, key: str) -> None:
    split = a100.ops_by(key, stack_n=3)
    for column in ("calls", "self_cpu_ns", "self_device_ns"):
        assert split[column].sum() == a100.ops[column].sum()
