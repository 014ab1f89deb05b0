"""``key_averages()`` equals torch's own table, which the package itself does not use."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
import torch
from amount import examples, sampled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import allocation, make_trace, span
from torch import nn
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, record_function

from torchprof_magic.loading import load
from torchprof_magic.tables.ops.averages import averages_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.report.trace_report import Report

# torch keeps times as float64 us of ns counts; half a ns is the most that writing and reading can lose.
TOLERANCE_US = 0.0015
EVERYTHING = {"with_stack": True, "record_shapes": True, "profile_memory": True}
FLAGS = ({}, {"record_shapes": True}, {"profile_memory": True}, {"with_stack": True}, EVERYTHING)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.norm = nn.LayerNorm(32)
        self.out = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with record_function("attend"):
            x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.out(torch.cat([self.norm(x)[:1], x[1:]]))


def training() -> Callable[[], None]:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        loss = model(torch.randn(4, 16, 32)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    step()  # the first step sets up what the others use
    return step


def recurse(depth: int = 4) -> None:
    with record_function("recurse"):
        torch.ones(8).sum()
        if depth:
            recurse(depth - 1)


def joins_lists() -> None:
    for rows in (2, 3, 3):
        torch.cat([torch.ones(rows, 2), torch.ones(4, 2)]).sum()
        torch.stack([torch.ones(rows), torch.ones(rows)])


def on_threads() -> None:
    threads = [threading.Thread(target=recurse, args=(depth,)) for depth in (1, 2, 3)]
    for thread in threads:
        thread.start()
    recurse()  # by itself torch records the thread alone that started it
    for thread in threads:
        thread.join()


def keeps_and_frees() -> None:
    kept = [torch.ones(1000 * size) for size in range(1, 4)]
    del kept[1]
    with record_function("free"):
        kept.clear()


PROGRAMS = {
    "training": training,
    "recursion": lambda: recurse,
    "lists of tensors": lambda: joins_lists,
    "threads": lambda: on_threads,
    "memory": lambda: keeps_and_frees,
}


def recorded(folder: Path, program: Callable[[], None], **flags: Any) -> tuple[Report, profile]:
    with profile(activities=[ProfilerActivity.CPU], **flags) as profiler:
        for _ in range(3):
            program()
            profiler.step()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    return load(folder / "trace.json"), profiler


def same_rows(report: Report, profiler: profile, **how: Any) -> int:
    """Compare every row of both tables and return how many there are; equal keys are compared in order of time."""
    ours = report.key_averages(**how)
    ours = ours.with_columns(pl.lit("").alias("shapes")) if "shapes" not in ours.columns else ours
    ours = ours.with_columns(pl.lit("").alias("overload")) if "overload" not in ours.columns else ours
    mine = sorted(
        ours.to_dicts(),
        key=lambda row: (row["key"], row["kind"] == "user_annotation", row["shapes"], row["overload"]),
    )
    theirs = sorted(
        profiler.key_averages(**how),
        key=lambda row: (row.key, bool(row.is_user_annotation), str(row.input_shapes), row.overload_name),
    )
    assert Counter((row["key"], row["count"]) for row in mine) == Counter((row.key, row.count) for row in theirs)
    for row, other in zip(mine, theirs, strict=True):
        near = TOLERANCE_US * other.count
        assert (row["key"], row["count"]) == (other.key, other.count)
        assert row["shapes"] == str(other.input_shapes), row["key"]
        assert row["overload"] == other.overload_name, row["key"]
        assert row["self_cpu_ns"] / 1e3 == pytest.approx(other.self_cpu_time_total, abs=near), row["key"]
        assert row["total_cpu_ns"] / 1e3 == pytest.approx(other.cpu_time_total, abs=near), row["key"]
        assert row.get("self_cpu_bytes", 0) == other.self_cpu_memory_usage, row["key"]
        assert row.get("total_cpu_bytes", 0) == other.cpu_memory_usage, row["key"]
    return len(theirs)


@pytest.mark.parametrize(("program", "flags"), sampled(list(product(PROGRAMS, FLAGS)), 2))
def test_key_averages_equals_torchs_own_row_by_row(tmp_path: Path, program: str, flags: dict[str, bool]) -> None:
    report, profiler = recorded(tmp_path, PROGRAMS[program](), **flags)
    assert same_rows(report, profiler) > 3
    assert same_rows(report, profiler, group_by_input_shape=True) > 3


MOVES = {
    "add": lambda x: x + 1,
    "mm": lambda x: x @ x,
    "sum in place": lambda x: x.add_(x.sum()),
    "cat": lambda x: torch.cat([x[:2], x[2:]]),
    "backward": lambda x: (x.clone().requires_grad_().square().sum().backward(), x)[1],
    "norm": lambda x: torch.nn.functional.layer_norm(x, x.shape),
}


@settings(
    max_examples=examples(40), derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
@given(
    moves=st.lists(st.one_of(st.sampled_from(sorted(MOVES)), st.sampled_from(["(", ")"])), min_size=1, max_size=12),
    has_shapes=st.booleans(),
)
def test_key_averages_of_random_programs_equals_torchs_own(moves: list[str], has_shapes: bool) -> None:
    def program() -> None:
        x, ranges = torch.ones(4, 4), ExitStack()
        for move in moves:
            if move == "(":
                ranges.enter_context(record_function("range"))
            elif move == ")":
                ranges.close()  # all of them
            else:
                x = MOVES[move](x).clamp(-9, 9)
        ranges.close()

    with tempfile.TemporaryDirectory() as folder:
        report, profiler = recorded(Path(folder), program, record_shapes=has_shapes)
        same_rows(report, profiler)
        same_rows(report, profiler, group_by_input_shape=True)


@pytest.mark.parametrize("program", ["recursion", "threads", "training"])
def test_key_averages_of_all_threads_equals_torchs_own(tmp_path: Path, program: str) -> None:
    config = _ExperimentalConfig(profile_all_threads=True)
    report, profiler = recorded(tmp_path, PROGRAMS[program](), experimental_config=config, profile_memory=True)
    assert same_rows(report, profiler) > 3


@pytest.mark.parametrize("program", ["lists of tensors", "training"])
def test_key_averages_by_overload_equals_torchs_own(tmp_path: Path, program: str) -> None:
    config = _ExperimentalConfig(capture_overload_names=True)
    report, profiler = recorded(tmp_path, PROGRAMS[program](), experimental_config=config, record_shapes=True)
    whole = same_rows(report, profiler)
    assert same_rows(report, profiler, group_by_overload_name=True) >= whole
    assert same_rows(report, profiler, group_by_overload_name=True, group_by_input_shape=True) > whole


def test_grouping_by_overload_has_no_effect_where_torch_recorded_none(tmp_path: Path) -> None:
    report, profiler = recorded(tmp_path, recurse)
    assert same_rows(report, profiler, group_by_overload_name=True) == same_rows(report, profiler)


def test_grouping_by_stacks_has_no_effect_because_torch_leaves_its_stacks_empty(tmp_path: Path) -> None:
    report, profiler = recorded(tmp_path, recurse, **EVERYTHING)
    assert not any(event.stack for event in profiler.events())
    assert same_rows(report, profiler, group_by_stack_n=5) == same_rows(report, profiler)
    assert same_rows(report, profiler, group_by_input_shape=True, group_by_stack_n=5) > 3


def test_stacks_rebuilt_from_frames_show_where_an_op_was_called(tmp_path: Path) -> None:
    report, _ = recorded(tmp_path, recurse, **EVERYTHING)
    calls = report.ops_by("stack", stack_n=2).filter(pl.col("name") == "aten::ones")
    assert calls["calls"].to_list() == [15]
    assert "recurse" in calls["stack"][0]


def test_allocations_outside_every_event_are_a_row_as_in_torch() -> None:
    table = averages_table(make_trace(span("a", 0, 10), allocation(5, 64), allocation(30, 8))).frame
    picked = table.select("key", "count", "self_cpu_bytes", "total_cpu_bytes", "self_cpu_ns")
    assert sorted(picked.rows()) == [("[memory]", 1, 8, 8, 0), ("a", 1, 64, 64, 10_000)]


def test_without_memory_there_are_no_columns_of_bytes() -> None:
    assert averages_table(make_trace(span("a", 0, 10))).frame.columns == [
        "key",
        "kind",
        "count",
        "self_cpu_ns",
        "total_cpu_ns",
    ]
