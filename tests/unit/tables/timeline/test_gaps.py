"""A gap is a gap: one time without work is counted once, however many pieces the host's states cut it into."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import polars as pl
import pytest
from amount import sampled
from support import annotation, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.model.shapes import Slices
from torchprof_magic.model.trace import Trace
from torchprof_magic.tables.timeline.slice_ranges import SliceRanges
from torchprof_magic.tables.timeline.slice_windows import SliceWindows
from torchprof_magic.tables.timeline.slices import timeline_slices
from torchprof_magic.tables.waiting.idle import GAP_BEGINS, idle_table

REAL = (
    "02_a100_ddp_rank0of2.json.gz",
    "03_h100_qwen_stacks_memory.json.gz",
    "04_amd_vllm_decode_graph.json.gz",
    "05_v100_resnet50_old_schema.json.gz",
    "06_v100_dlrm_8ranks/rank0.json.gz",
    "08_mtia_inference_rank0.json.gz",
)


def three_gaps() -> Trace:
    """Between three kernels the host runs ops and Python by turns: gaps of 1, 40 and 20 us."""
    return make_trace(
        annotation("ProfilerStep#0", 0, 100),
        launch(0, 1, correlation=1),
        kernel("gemm", 1, 9, correlation=1),
        span("aten::add", 12, 5),
        span("aten::mul", 20, 5),
        span("aten::mm", 40, 12),
        launch(48, 2, correlation=2),
        kernel("gemm", 50, 10, correlation=2),
        span("aten::mm", 70, 12),
        launch(78, 2, correlation=3),
        kernel("gemm", 80, 20, correlation=3),
    )


def waits_of(slices: Slices) -> pl.DataFrame:
    return slices.frame.filter(pl.col("kind") == "idle")


def whole(slices: Slices) -> SliceRanges:
    return SliceRanges(SliceWindows(slices))


def test_a_gap_of_several_pieces_is_one_gap() -> None:
    trace = three_gaps()
    idle, slices = idle_table(trace).frame, timeline_slices(trace)
    pieces = waits_of(slices)
    assert pieces.filter(pl.col("start_ns") < 50_000).height > 2
    assert idle["gap"].n_unique() == 3
    assert idle.group_by("gap").agg(pl.col("idle_ns").sum()).sort("gap")["idle_ns"].to_list() == [1_000, 40_000, 20_000]
    assert (pieces["count"] == GAP_BEGINS).sum() == 3
    sums = {each.cause: (each.count, each.gaps) for each in whole(slices).sums(0, 100_000) if each.cause}
    # Ops are launched in all of them, and Python runs in two.
    assert sums == {"op dispatch": (3, 3), "Python between ops": (2, 3)}


def test_the_end_of_a_gap_is_part_of_a_gap() -> None:
    slices = timeline_slices(three_gaps())
    assert {each.gaps for each in whole(slices).sums(45_000, 75_000) if each.cause} == {2}
    assert {each.gaps for each in whole(slices).sums(45_000, 55_000) if each.cause} == {1}


@pytest.mark.parametrize("pixels", [1, 3, 1000])
def test_merged_waits_keep_the_gaps_that_begin_in_them(pixels: int) -> None:
    trace = three_gaps()
    windows = SliceWindows(timeline_slices(trace))
    shown = waits_of(windows.window(windows.first_layer, 0, 100_000, pixels).slices)
    assert shown["gaps"].sum() == 3
    cause = pl.col("note").cast(pl.String).str.split("\t").list.first()
    by_cause = shown.group_by(cause).agg(pl.col("cause_gaps").sum())
    assert dict(by_cause.iter_rows()) == {"op dispatch": 3, "Python between ops": 2}


@pytest.mark.parametrize("file", sampled(REAL))
def test_the_gaps_of_real_recordings_are_those_of_an_independent_count(traces: Path, file: str) -> None:
    (expected,) = [each for each in json.loads((traces / "limits.json").read_text()) if each["file"] == file]
    trace = tp.load(traces / file).as_analysed
    slices = timeline_slices(trace)
    windows = SliceWindows(slices)
    low, high = windows.span
    gaps = {device["device"]: device["gaps"] for device in expected["devices"]}
    counted = idle_table(trace).frame.group_by("device").agg(pl.col("gap").n_unique())
    assert {str(device): count for device, count in counted.rows()} == gaps
    of_lane: dict[str, int] = defaultdict(int)
    for lane, begins in waits_of(slices).select("lane", "count").rows():
        of_lane[slices.lanes[lane].title.removeprefix("Device ")] += begins == GAP_BEGINS
    assert dict(of_lane) == gaps
    asked = {
        slices.lanes[each.lane].title.removeprefix("Device "): each.gaps
        for each in whole(slices).sums(low, high + 1)
        if each.cause
    }
    assert asked == gaps
    assert waits_of(windows.overview())["gaps"].sum() == sum(gaps.values())
