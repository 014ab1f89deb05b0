"""Two passes, recorded by torch and compared with torch's own tables."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
import torch
from amount import sampled
from torch import nn
from torch.profiler import record_function

import torchprof_magic as tp
from torchprof_magic.model.errors import OptionsError
from torchprof_magic.model.meta import TwoPass

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.model.meta import Problem

STEP = "ProfilerStep*"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.out = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with record_function("attend"):
            x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.out(x)


def training() -> Callable[[int], None]:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())

    def step(number: int) -> None:
        with record_function(f"batch {number}"):
            loss = model(torch.randn(4, 16, 32)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def numbers(report: tp.Report) -> list[tuple[int, int]]:
    return report.steps.select("cycle", "number").rows()


def told(report: tp.Report) -> Problem:
    (problem,) = [problem for problem in report.problems if problem.code.startswith("run.two_pass")]
    return problem


def codes(report: tp.Report) -> list[str]:
    return [problem.code for problem in report.problems]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[tp.Report, list[Any]]:
    """Return the report of a training loop, and torch's profiler of either pass.

    What ran before the loop was recorded too, until the loop came: that has a profiler of its own, the first of three.
    """
    profilers: list[Any] = []
    step = training()
    folder = tmp_path_factory.mktemp("run")
    with tp.profile(two_pass=True, trace_dir=folder, on_trace_ready=profilers.append) as p:
        for number in p.steps(range(12)):
            step(number)
    return p.report, profilers[-2:]


def without_numbers(name: str) -> str:
    return "batch" if name.startswith("batch ") else name


def test_the_steps_are_those_of_the_first_pass_and_all_their_ops_were_found(run: tuple[tp.Report, list[Any]]) -> None:
    report, _ = run
    assert numbers(report) == [(0, 2), (0, 3), (0, 4)]
    assert report.trace.meta.two_pass == TwoPass(times_cycle=0, details_cycle=1, detail_steps=(6, 7, 8))
    assert told(report).severity == "info"
    assert told(report).message == (
        "Times are from steps 2–4, shapes, memory and stacks from steps 6–8; all ops were found in both."
    )
    assert "steps 2–4 recorded, details from 6–8, stepped by step()" in report.summary()
    assert len(report.trace_paths) == 2
    assert "python_function" not in report.events["category"].to_list()
    assert not report.trace.meta.is_partial
    assert "capture.one_pass" not in codes(report)


def test_times_and_calls_are_those_of_torchs_table_of_the_first_pass(run: tuple[tp.Report, list[Any]]) -> None:
    report, (first, _) = run
    ours = {row["key"]: row for row in report.key_averages().to_dicts()}
    theirs = {row.key: row for row in first.key_averages()}
    assert ours.keys() == theirs.keys()
    for key, row in ours.items():
        assert row["count"] == theirs[key].count, key
        assert row["self_cpu_ns"] / 1e3 == pytest.approx(theirs[key].self_cpu_time_total, abs=0.0015 * row["count"]), (
            key
        )
    times = ["name", "calls", "self_cpu_ns", "total_cpu_ns", "phase"]
    assert report.ops.select(times).equals(tp.load(report.trace_paths[0]).ops.select(times))


def test_calls_by_shape_are_those_of_torchs_table_of_the_second_pass(run: tuple[tp.Report, list[Any]]) -> None:
    report, (_, second) = run
    frames = tp.load(report.trace_paths[1]).events.filter(pl.col("category") == "python_function")["name"]
    frames = set(frames.cast(pl.String))
    theirs = Counter(
        {
            (without_numbers(row.key), str(row.input_shapes)): row.count
            for row in second.key_averages(group_by_input_shape=True)
            if row.key not in frames
        }
    )
    ours: Counter[tuple[str, str]] = Counter()
    for row in report.key_averages(group_by_input_shape=True).to_dicts():
        ours[without_numbers(row["key"]), row["shapes"]] += row["count"]
    assert {key for key, _ in ours if key.startswith("aten::")} >= {"aten::addmm", "aten::native_layer_norm"}
    del theirs["batch", "[]"], ours["batch", "[]"]  # three of one call, told apart by their numbers
    assert ours == theirs


def test_memory_of_each_op_is_that_of_the_second_pass(run: tuple[tp.Report, list[Any]]) -> None:
    report, (_, second) = run
    detailed = tp.load(report.trace_paths[1])
    assert report.trace.memory.height == detailed.trace.memory.height > 50
    columns = ["self_cpu_bytes", "self_alloc_bytes", "self_free_bytes", "net_bytes", "peak_bytes"]
    ours, theirs = (
        found.ops.with_columns(pl.col("name").map_elements(without_numbers, pl.String))
        .group_by("name")
        .agg(pl.col(columns[:-1]).sum(), pl.col("peak_bytes").max())
        .sort("name")
        for found in (report, detailed)
    )
    assert ours.equals(theirs)
    totals = {row.key: row.cpu_memory_usage for row in second.key_averages()}
    for row in report.key_averages().to_dicts():
        if not row["key"].startswith("batch "):
            assert row["total_cpu_bytes"] == totals[row["key"]], row["key"]
    assert report.trace.memory["time_ns"].is_sorted()
    assert report.trace.memory["allocated_bytes"].equals(detailed.trace.memory["allocated_bytes"])


def test_stacks_tell_which_line_called_an_op(run: tuple[tp.Report, list[Any]]) -> None:
    report, _ = run
    calls = report.ops_by("stack", stack_n=12).filter(pl.col("name") == "aten::native_layer_norm")
    assert calls["calls"].to_list() == [3]
    assert Path(__file__).name in calls["stack"][0]
    assert "forward" in calls["stack"][0]


def test_every_view_and_file_can_be_made_and_a_saved_run_is_equal(
    run: tuple[tp.Report, list[Any]], tmp_path: Path
) -> None:
    report, _ = run
    again = tp.load(report.save(tmp_path / "run.torchprof"))
    assert again.trace.meta == report.trace.meta
    assert again.summary() == report.summary()
    assert again.trace.memory.equals(report.trace.memory)
    assert again.events.equals(report.events)
    for name in ("run.html", "run.json.gz", "run.speedscope.json", "run.folded"):
        assert report.export(tmp_path / name).stat().st_size > 0
    shown = tp.load(tmp_path / "run.json.gz")
    assert shown.ops.select("name", "calls", "net_bytes").equals(report.ops.select("name", "calls", "net_bytes"))
    for view in ("steps", "ops", "flame", "memory"):
        report.figure(view)


def test_switches_say_what_the_second_pass_records() -> None:
    with tp.profile(two_pass=True, record_shapes=True) as p:
        for _ in p.steps(range(10)):
            torch.ones(3).sum()
    assert told(p.report).message.startswith("Times are from steps 2–4, shapes from steps 6–8;")
    assert p.report.trace.memory.height == 0
    assert p.report.stacks.height == 0
    assert p.report.ops_by("shapes").filter(pl.col("name") == "aten::ones")["shapes"].to_list() == [
        "[[], [], [], [], []]"
    ]


def test_modules_are_timed_in_the_pass_of_times() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU())
    with tp.profile(two_pass=True, record_shapes=True) as p:
        for _ in p.steps(range(10)):
            model(torch.ones(512, 1024))
    modules = p.report.modules
    assert modules.select("class_name", "calls").rows() == [("Sequential", 3), ("Linear", 3), ("ReLU", 3)]
    # Those of the second pass are not among them: all time is that of the recorded steps.
    steps_ns = p.report.steps["dur_ns"].sum()
    whole_ns = modules.filter(pl.col("class_name") == "Sequential")["total_cpu_ns"].sum()
    assert 0 < whole_ns <= steps_ns
    assert "capture.modules_not_watched" not in codes(p.report)


def test_the_pass_of_times_has_no_details_in_its_file(tmp_path: Path) -> None:
    with tp.profile(two_pass=True, trace_dir=tmp_path, execution_trace=tmp_path / "graph.json") as p:
        for _ in p.steps(range(10)):
            torch.ones(3).sum()
    first, second = (tp.load(path) for path in p.report.trace_paths)
    assert (first.trace.meta.has_shapes, first.trace.meta.has_stacks, first.trace.meta.has_memory) == (False,) * 3
    assert (second.trace.meta.has_shapes, second.trace.meta.has_stacks, second.trace.meta.has_memory) == (True,) * 3
    assert [path.name for path in tmp_path.glob("graph*")] == ["graph.json"]


def test_passes_that_do_different_work_are_reported_with_their_common_share() -> None:
    with tp.profile(two_pass=True) as p:
        for number in p.steps(range(10)):
            for _ in range(8):
                torch.ones(3)
            if number < 5:
                torch.ones(3).mul(2).add(1).sub(3)
    assert told(p.report).severity == "warning"
    assert "the steps did different work" in told(p.report).message
    # ones holds empty and fill_: with the step 25 are in both. The first pass has a ninth, and three that hold 4 each.
    assert "only 58.1 % of the ops" in told(p.report).message  # 25 of 43
    shapes = p.report.events.select(pl.col("name", "shapes").cast(pl.String))
    assert shapes.filter(pl.col("name").is_in(["aten::mul", "aten::sub"]))["shapes"].null_count() == 6
    assert shapes.filter(pl.col("name") == "aten::fill_")["shapes"].drop_nulls().to_list() == ["[[3], []]"] * 24


def test_an_extra_op_in_every_second_step_loses_only_its_own_details() -> None:
    with tp.profile(two_pass=True, wait=0, warmup=1, active=3) as p:
        for number in range(8):
            for _ in range(20):
                torch.ones(3)
            if number % 2:
                torch.eye(2)
            p.step()
    # Steps 1 to 3 and 5 to 7: both have their odd steps in the same places.
    assert told(p.report).severity == "info"
    assert "all ops were found" in told(p.report).message
    with tp.profile(two_pass=True, wait=0, warmup=1, active=2) as p:
        for number in range(6):
            for _ in range(20):
                torch.ones(3)
            if number % 2:
                torch.eye(2)
            p.step()
    # Steps 1 and 2 against 4 and 5: eye is in the first of the one and in the second of the other.
    assert numbers(p.report) == [(0, 1), (0, 2)]
    names = p.report.events.filter(pl.col("shapes").is_null() & (pl.col("category") == "cpu_op"))["name"]
    assert set(names.cast(pl.String)) >= {"aten::eye"}
    assert p.report.ops_by("shapes").filter(pl.col("name") == "aten::fill_")["calls"].max() == 40


@pytest.mark.parametrize(("steps", "expected"), sampled([(4, [1]), (5, [2]), (6, [1, 2]), (7, [2, 3]), (9, [2, 3, 4])]))
def test_a_short_loop_is_split_so_that_both_passes_fit(steps: int, expected: list[int]) -> None:
    with tp.profile(two_pass=True) as p:
        for _ in p.steps(range(steps)):
            torch.ones(3).sum()
    assert [number for _, number in numbers(p.report)] == expected
    assert told(p.report).severity == "info"


def test_a_loop_too_short_for_two_passes_is_recorded_in_one_with_everything() -> None:
    with tp.profile(two_pass=True) as p:
        for _ in p.steps(range(3)):
            torch.ones(3).sum()
    assert numbers(p.report) == [(0, 1), (0, 2)]
    assert codes(p.report)[0] == "capture.one_pass"
    assert "the loop has 3 steps" in p.report.problems[0].message
    assert p.report.trace.meta.has_shapes
    assert p.report.trace.memory.height > 0
    assert p.report.trace.meta.two_pass is None


def test_a_block_without_steps_is_recorded_in_one_pass_with_everything() -> None:
    with tp.profile(two_pass=True) as p:
        torch.ones(3).sum()
    assert "capture.one_pass_block" in codes(p.report)
    assert p.report.trace.meta.has_stacks
    assert p.report.trace.memory.height > 0


def test_a_loop_that_ends_before_the_second_pass_has_its_times() -> None:
    with tp.profile(two_pass=True, wait=0, warmup=0, active=2) as p:
        for _ in range(2):
            torch.ones(3).sum()
            p.step()
    assert numbers(p.report) == [(0, 0), (0, 1)]
    assert told(p.report).message.startswith("Only times were recorded")
    assert "aten::sum" in p.report.ops["name"].to_list()


def test_a_loop_that_ends_within_the_second_pass_has_details_of_the_steps_until_then() -> None:
    with tp.profile(two_pass=True, wait=0, warmup=0, active=2) as p:
        for _ in range(4):
            torch.ones(3).sum()
            p.step()
    assert numbers(p.report) == [(0, 0), (0, 1)]
    assert "Step 1 has no memory of its own." in told(p.report).message


def test_a_range_that_is_open_while_the_passes_change_does_no_harm() -> None:
    with tp.profile(two_pass=True, wait=0, warmup=0, active=2) as p:
        for _ in range(2):
            with record_function("epoch"):
                for _ in range(3):
                    torch.ones(3)
                    p.step()
    assert numbers(p.report) == [(0, 0), (0, 1)]
    assert p.report.trace.meta.two_pass == TwoPass(times_cycle=0, details_cycle=1, detail_steps=(3, 4))


def test_an_exception_in_the_second_pass_leaves_the_first_whole() -> None:
    p = tp.profile(two_pass=True)

    def run() -> None:
        with p:
            for number in p.steps(range(12)):
                torch.ones(3).sum()
                if number == 7:
                    raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run()
    assert numbers(p.report) == [(0, 2), (0, 3), (0, 4)]
    assert p.report.steps["complete"].all()
    assert "capture.partial" in codes(p.report)
    assert p.report.trace.meta.two_pass is not None
    assert p.report.trace.meta.two_pass.detail_steps == (6, 7)


def test_a_second_pass_that_cannot_be_read_is_lost_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_it(profiler: Any) -> None:
        del profiler
        for path in tmp_path.glob("torchprof-*/cycle-1.pt.trace.json"):
            path.write_bytes(b"no json at all")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with tp.profile(two_pass=True, on_trace_ready=break_it) as p:
        for _ in p.steps(range(12)):
            torch.ones(3).sum()
    assert {"run.unreadable_cycle", "run.two_pass_no_details"} <= set(codes(p.report))
    assert numbers(p.report) == [(0, 2), (0, 3), (0, 4)]


@pytest.mark.parametrize("repeat", [0, 2, 3])
def test_repeats_are_refused_with_the_reason(repeat: int) -> None:
    with pytest.raises(OptionsError, match=f"--repeat {repeat} and --two-pass cannot be combined: --two-pass records"):
        tp.profile(two_pass=True, repeat=repeat, active=1)


def test_two_passes_without_details_are_refused() -> None:
    with pytest.raises(OptionsError, match="--two-pass has no details to record"):
        tp.profile(two_pass=True, record_shapes=False, profile_memory=False, with_stack=False)


def test_kept_copies_of_both_passes_have_names_of_their_own(tmp_path: Path) -> None:
    with tp.profile(two_pass=True, trace_dir=tmp_path, filename="mine.json") as p:
        for _ in p.steps(range(12)):
            torch.ones(3).sum()
    assert len({path.name for path in p.report.trace_paths}) == 2
    assert {path.name for path in tmp_path.glob("mine*.json")} == {path.name for path in p.report.trace_paths}
