"""Grouping by stacks, the order of events and exported stacks are torch's own, in recordings with its stacks."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from amount import sampled, thorough
from support import frame, kernel, launch, make_trace, span
from test_parity import PROGRAMS, recurse
from torch._C._profiler import _ExperimentalConfig
from torch.autograd import DeviceType
from torch.autograd.profiler_util import EventList
from torch.profiler import ProfilerActivity, profile
from torch_oracle import events_of_file

from torchprof_magic.loading import load
from torchprof_magic.report.trace_report import Report
from torchprof_magic.tables.ops import installed
from torchprof_magic.tables.ops.groups import FRAME_BREAK
from torchprof_magic.tables.ops.installed import counts_python_functions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def recorded(
    folder: Path, program: Callable[[], None], *, verbose: bool = True, **flags: Any
) -> tuple[Report, profile]:
    config = _ExperimentalConfig(verbose=verbose)
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, experimental_config=config, **flags) as profiler:
        for _ in range(2):
            program()
            profiler.step()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    return load(folder / "trace.json"), profiler


def theirs_by_stack(profiler: profile, depth: int, **how: bool) -> Counter[Any]:
    rows = profiler.key_averages(group_by_stack_n=depth, **how)
    return Counter((row.key, row.count, FRAME_BREAK.join(row.stack)) for row in rows)


@pytest.mark.parametrize("program", sampled(list(PROGRAMS), 2))
def test_averages_by_stack_are_those_of_torch(tmp_path: Path, program: str) -> None:
    report, profiler = recorded(tmp_path, PROGRAMS[program](), record_shapes=True)
    for depth in (1, 2, 30):
        ours = report.key_averages(group_by_stack_n=depth)
        assert Counter(ours.select("key", "count", "stack").rows()) == theirs_by_stack(profiler, depth)
    how = {"group_by_input_shape": True, "group_by_stack_n": 5}
    ours = report.key_averages(**how)  # type: ignore[arg-type]
    theirs = theirs_by_stack(profiler, 5, group_by_input_shape=True)
    assert Counter(ours.select("key", "count", "stack").rows()) == theirs
    by_shape = report.key_averages(group_by_input_shape=True, include_python_functions=True)
    assert report.key_averages(include_python_functions=True, **how).height > by_shape.height  # type: ignore[arg-type]
    saved = load(report.save(tmp_path / "copy.torchprof"))
    assert sorted(saved.key_averages(**how).rows()) == sorted(ours.rows())  # type: ignore[arg-type]
    exported = load(report.export(tmp_path / "copy.json"))
    assert "stack" in exported.key_averages(**how).columns  # type: ignore[arg-type]


@pytest.mark.parametrize("program", sampled(list(PROGRAMS), 2))
def test_events_are_in_torchs_order(tmp_path: Path, program: str) -> None:
    report, profiler = recorded(tmp_path, PROGRAMS[program](), profile_memory=True)
    theirs = [(event.key, event.self_cpu_time_total) for event in profiler.events()]
    ours = report.torch_events.select("key", "self_cpu_ns").rows()
    assert len(ours) == len(theirs)
    for (key, self_ns), (other, self_us) in zip(ours, theirs, strict=True):
        assert (key, self_ns / 1e3) == (other, pytest.approx(self_us, abs=0.02))


@pytest.mark.parametrize("program", sampled(list(PROGRAMS), 2))
def test_exported_stacks_are_those_of_torch_line_by_line(tmp_path: Path, program: str) -> None:
    report, profiler = recorded(tmp_path, PROGRAMS[program]())
    profiler.export_stacks(str(tmp_path / "theirs.txt"), "self_cpu_time_total")
    theirs = (tmp_path / "theirs.txt").read_text().splitlines()
    ours = report.export_stacks(tmp_path / "ours.txt").read_text().splitlines()
    # torch's us are float64: where a time is a whole number of us, they may fall short of it by one.
    exact = report.torch_events.filter(pl.col("self_cpu_ns") % 1000 == 0).height
    assert len(theirs) > 3
    assert abs(len(ours) - len(theirs)) <= exact
    if len(ours) == len(theirs):
        different = [(line, other) for line, other in zip(ours, theirs, strict=True) if line != other]
        assert len(different) <= exact
        assert all(line.rsplit(" ", 1)[0] == other.rsplit(" ", 1)[0] for line, other in different)


def test_python_functions_have_rows_by_default_if_the_installed_torch_gives_them_rows(tmp_path: Path) -> None:
    report, profiler = recorded(tmp_path, recurse)
    takes_it = "include_python_functions" in inspect.signature(EventList.key_averages).parameters
    assert counts_python_functions() == (not takes_it)
    usual, everything, ops = (
        Counter(report.key_averages(include_python_functions=asked).select("key", "count").rows())
        for asked in (None, True, False)
    )
    assert everything - ops == Counter(
        report.key_averages(include_python_functions=True)
        .filter(pl.col("kind") == "python_function")
        .select("key", "count")
        .rows()
    )
    assert len(everything - ops) > 3
    assert usual == Counter((row.key, row.count) for row in profiler.key_averages())
    if takes_it:
        more = profiler.key_averages(include_python_functions=True)
        assert everything == Counter((row.key, row.count) for row in more)
        table = report.key_averages_table(row_limit=-1, time_unit="s", include_python_functions=True)
        assert table.splitlines() == more.table(row_limit=-1, time_unit="s").splitlines()


def test_without_a_readable_torch_python_functions_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed.importlib.util, "find_spec", lambda _name: None)
    assert counts_python_functions.__wrapped__() is False
    monkeypatch.setattr(installed.importlib.util, "find_spec", lambda _name: SimpleNamespace(origin="/nowhere/a.py"))
    assert counts_python_functions.__wrapped__() is False


def test_stacks_with_ops_are_written_only_when_asked_for(tmp_path: Path) -> None:
    report, _ = recorded(tmp_path, recurse, verbose=False)
    plain = report.export_stacks(tmp_path / "plain.txt").read_text()
    with_ops = report.export_stacks(tmp_path / "with_ops.txt", with_ops=True).read_text()
    assert "recurse" in plain
    assert ";aten::" not in plain
    assert ";aten::" in with_ops
    with pytest.raises(ValueError, match="self_cpu_time_total, self_cuda_time_total"):
        report.export_stacks(tmp_path / "none.txt", "self_cpu_time")


@pytest.mark.parametrize(
    ("sort_by", "depth"),
    sampled(list(product(["cpu_time", "self_cpu_time_total", "cpu_memory_usage", "count"], [0, 2]))),
)
def test_the_table_of_averages_has_torchs_lines(tmp_path: Path, sort_by: str, depth: int) -> None:
    report, profiler = recorded(tmp_path, PROGRAMS["recursion"](), record_shapes=True, profile_memory=True)
    how = {"group_by_input_shape": True, "group_by_stack_n": depth}
    theirs = profiler.key_averages(**how).table(sort_by=sort_by, row_limit=-1, max_shapes_column_width=80)
    ours = report.key_averages_table(sort_by, -1, **how)  # type: ignore[arg-type]
    # Rows that are equal by the key may be in another order, and of hundreds of numbers one may be rounded otherwise.
    # torch's averages are float64 of us, so that half a ns is rounded up or down.
    first = ours.index("\n")
    name_width = ours[:first].index(" ")
    average = slice(name_width + 2 + 4 * 14, name_width + 2 + 5 * 14)

    def without_average(table: str) -> Counter[str]:
        return Counter(line[: average.start] + line[average.stop :] for line in table.splitlines())

    different = without_average(ours) - without_average(theirs)
    assert sum(different.values()) <= 1, different
    assert len(ours.splitlines()) == len(theirs.splitlines()) > 10
    assert ours.splitlines()[:3] == theirs.splitlines()[:3]


def test_a_table_is_cut_to_its_limit_and_unknown_keys_are_refused() -> None:
    table = Report(GPU_TRACE).key_averages_table("self_cuda_time_total", row_limit=1, time_unit="us")
    assert len(table.splitlines()) == 3 + 1 + 3
    assert "aten::linear" not in table
    assert "Self CUDA time total: 57.000us" in table
    with pytest.raises(ValueError, match="unknown sort_by 'speed'; choose from cpu_time, device_time"):
        Report(GPU_TRACE).key_averages_table("speed")


GPU_TRACE = make_trace(
    frame("train.py(3): step", 0, 100),
    span("aten::linear", 5, 40),
    span("aten::mm", 10, 20),
    launch(12, 4, correlation=1),
    launch(60, 4, correlation=2),
    kernel("gemm", 30, 50, correlation=1),
    kernel("copy", 90, 7, correlation=2),
)


def test_device_work_counts_for_the_op_around_its_launch_and_as_a_row_of_its_own() -> None:
    averages = Report(GPU_TRACE).key_averages(include_python_functions=True)
    rows = averages.select("key", "count", "self_device_ns", "total_device_ns").rows()
    found = {key: (count, own, total) for key, count, own, total in rows}
    assert found["aten::mm"] == (1, 50_000, 50_000)
    assert found["aten::linear"] == (1, 0, 50_000)
    assert found["train.py(3): step"] == (1, 0, 50_000)  # no op launched the copy
    assert (found["gemm"], found["copy"]) == ((1, 50_000, 50_000), (1, 7000, 7000))


def test_exported_stacks_of_device_time_are_those_of_ops_and_of_the_work_itself(tmp_path: Path) -> None:
    path = Report(GPU_TRACE).export_stacks(tmp_path / "stacks.txt", "self_cuda_time_total")
    assert path.read_text().splitlines() == ["train.py(3):_step 50"] * 2


@cache
def by_torch(path: Path) -> EventList:
    return events_of_file(path).key_averages()


@cache
def by_us(path: Path) -> Report:
    return load(path)


def near(theirs: Any, row: dict[str, Any]) -> list[bool]:
    pairs = (
        (theirs.self_cpu_time_total, row["self_cpu_ns"]),
        (theirs.cpu_time_total, row["total_cpu_ns"]),
        (theirs.self_device_time_total, row["self_device_ns"]),
        (theirs.device_time_total, row["total_device_ns"]),
    )
    return [abs(us - ns / 1e3) < 0.01 + 0.002 * theirs.count + 1e-6 * us for us, ns in pairs]


@pytest.mark.parametrize("name", ["03_h100_qwen_stacks_memory", pytest.param("02_a100_ddp_rank0of2", marks=thorough)])
def test_averages_of_gpu_traces_are_what_torchs_own_rules_give(traces: Path, name: str) -> None:
    path = traces / f"{name}.json.gz"
    theirs = {(row.key, row.device_type != DeviceType.CPU, bool(row.is_user_annotation)): row for row in by_torch(path)}
    ours = by_us(path).key_averages()
    on_device = pl.col("kind").is_in(("kernel", "memcpy", "memset", "gpu_user_annotation"))
    ours = ours.with_columns(on_device.alias("device"), pl.col("kind").str.ends_with("user_annotation").alias("range"))
    found = {(row["key"], row["device"], row["range"]): row for row in ours.to_dicts()}
    assert set(found) == set(theirs)
    different = [
        key for key, row in theirs.items() if not (row.count == found[key]["count"] and all(near(row, found[key])))
    ]
    # In the first trace, one call of cudaStreamGetPriority in this op has no external id.
    assert different == ([("aten::cudnn_batch_norm_backward", False, False)] if name.startswith("02") else [])


def comparable(table: str) -> list[str]:
    """Return the lines without those that the one call without an external id changes, and without shares of a sum."""
    changed = ("aten::cudnn_batch_norm_backward", "Self CPU time total")
    return [re.sub(r" *[0-9.]+%", "", line) for line in table.splitlines() if not line.strip().startswith(changed)]


@pytest.mark.parametrize(
    "arguments", sampled([{}, {"sort_by": "count"}, {"top_level_events_only": True, "header": "a run"}], 2)
)
def test_the_table_of_a_gpu_trace_has_the_lines_that_torch_prints(traces: Path, arguments: dict[str, Any]) -> None:
    path = traces / "02_a100_ddp_rank0of2.json.gz"
    how = {"row_limit": -1, "time_unit": "s", **arguments}
    theirs = by_torch(path).table(**how)
    ours = by_us(path).key_averages_table(**how)
    assert comparable(ours) == comparable(theirs)
    assert ours.splitlines()[-1] == theirs.splitlines()[-1]
    assert "Self CUDA time total" in ours
