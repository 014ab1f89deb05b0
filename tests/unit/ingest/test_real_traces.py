"""Real traces against facts that were counted without any trace library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from torchprof_magic.analysis.ops import op_rows
from torchprof_magic.analysis.steps import device_intervals
from torchprof_magic.intervals import union_ns
from torchprof_magic.loading import load

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.report import Report

A100 = "02_a100_ddp_rank0of2.json.gz"


@pytest.fixture(scope="module")
def a100(traces: Path) -> Report:
    return load(traces / A100)


@pytest.fixture(scope="module")
def known(facts: dict[str, Any]) -> dict[str, Any]:
    return facts[A100]


def test_kernels_and_their_sum(a100: Report, known: dict[str, Any]) -> None:
    kernels = a100.kernels.filter(pl.col("kind") == "kernel")
    assert kernels["calls"].sum() == known["kernels"]
    assert kernels["sum_ns"].sum() == known["kernel_sum_ns"]
    assert kernels.height == known["distinct_kernel_names"]


def test_the_device_is_busy_for_the_union_of_its_streams(a100: Report, known: dict[str, Any]) -> None:
    ((device, start, end),) = device_intervals(a100.trace)
    expected = known["devices"][str(device)]
    assert union_ns(start, end) == expected["busy_union_ns"]
    assert int(end.max() - start.min()) == expected["first_to_last_ns"]


def test_streams(a100: Report, known: dict[str, Any]) -> None:
    work = a100.events.filter(pl.col("category").is_in(["kernel", "memcpy", "memset"]))
    counted = {str(stream): count for stream, count in work.group_by("stream").len().rows()}
    assert counted == known["devices"]["0"]["streams"]


def test_ops_nested_among_themselves(a100: Report, known: dict[str, Any]) -> None:
    ops = op_rows(a100.trace, ("cpu_op",))
    expected = known["ops"]
    names = a100.events["name"].cast(pl.String)[ops.row]
    assert len(ops.row) == expected["n"]
    assert names.n_unique() == expected["distinct"]
    assert int(ops.self_cpu_ns.sum()) == expected["sum_self_ns"]
    table = pl.DataFrame({"name": names, "self": ops.self_cpu_ns}).group_by("name").agg(pl.col("self").sum(), pl.len())
    top = table.sort("self", descending=True).head(len(expected["top_self"]))
    assert top.rows() == [(name, self_ns, calls) for name, self_ns, _, calls in expected["top_self"]]


def test_device_time_by_op_through_launch_and_nesting(a100: Report, known: dict[str, Any]) -> None:
    ops = op_rows(a100.trace, ("cpu_op",))
    names = a100.events["name"].cast(pl.String)[ops.row]
    table = pl.DataFrame({"name": names, "device": ops.self_device_ns}).group_by("name").agg(pl.col("device").sum())
    top = table.sort("device", descending=True).head(5)
    assert [list(row) for row in top.rows()] == known["device_ns_by_op_via_launch_nesting"]


def test_steps_and_their_durations(a100: Report, known: dict[str, Any]) -> None:
    steps = [[f"ProfilerStep#{number}", duration] for number, duration in a100.steps.select("number", "dur_ns").rows()]
    assert steps == [[name, duration] for name, _, duration in known["profiler_steps"]]


def test_the_phases_of_a_step_add_up_to_it(a100: Report) -> None:
    phases = [name for name in a100.steps.columns if name.endswith("_ns")]
    phases = [name for name in phases if name not in ("start_ns", "dur_ns", "device_busy_ns")]
    assert a100.steps.select(pl.sum_horizontal(phases)).to_series().to_list() == a100.steps["dur_ns"].to_list()


def test_memory_peaks(traces: Path, facts: dict[str, Any]) -> None:
    name = "03_h100_qwen_stacks_memory.json.gz"
    marks = {mark.lane: mark.label for mark in load(traces / name).shapes["memory"].marks if mark.kind == "peak"}  # type: ignore[union-attr]
    assert marks == {"cuda:0": "peak 2.09 GB", "cpu": "peak 16 B"}
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
    assert report.page.data
