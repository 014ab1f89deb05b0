"""Cells and blocks that ask for nothing: times from some steps, shapes, memory and stacks from later ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
import torch
import torch._dynamo
from torch import nn
from torch._dynamo.utils import counters

import torchprof_magic as tp
from torchprof_magic.capture import details

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def training(width: int = 32) -> Callable[[], None]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(16, width)

    def step() -> None:
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    return step


def recorded(steps: int | None, step: Callable[[], object] | None = None, **options: Any) -> tp.Report:
    """Record a loop of so many steps; None is a loop of 20 whose length is not known."""
    step = step or training()
    with tp.profile(**{"preset": "auto", "budget": "10min", **options}) as p:  # on a busy machine, too
        for _ in p.steps(range(steps) if steps is not None else (number for number in range(20))):
            step()
    return p.report


def numbers(report: tp.Report) -> list[int]:
    return report.steps["number"].to_list()


def codes(report: tp.Report) -> list[str]:
    found = [found.code for found in report.problems if found.code.startswith(("capture.", "run.auto", "run.two"))]
    # Whether calls can be counted depends on what other tests have left in this process.
    return [code for code in found if code != "capture.calls_not_counted"]


@pytest.mark.parametrize(
    ("steps", "times", "details"),
    [
        (5, [1, 2], (4,)),
        (6, [1, 2, 3], (5,)),
        (7, [2, 3, 4], (6,)),
        (8, [2, 3, 4], (6, 7)),
        (9, [2, 3, 4], (6, 7, 8)),
        (12, [2, 3, 4], (7, 8, 9)),
        (None, [2, 3, 4], (7, 8, 9)),
    ],
)
def test_times_are_those_of_a_quick_recording_and_details_of_the_steps_that_are_left(
    steps: int | None, times: list[int], details: tuple[int, ...]
) -> None:
    report = recorded(steps)
    assert numbers(report) == times
    passes = report.trace.meta.two_pass
    assert passes is not None
    assert passes.detail_steps == details
    assert codes(report) == ["run.two_pass"]
    assert report.trace.meta.has_shapes
    assert report.trace.meta.has_memory
    assert report.trace.meta.has_stacks
    # Every op of every step has shapes, also where its step has no details of its own.
    ops = report.events.filter((pl.col("category") == "cpu_op") & (pl.col("name") == "aten::addmm"))
    assert ops.height == 2 * len(times)
    assert ops["shapes"].cast(pl.String).str.starts_with("[[4").any() or ops["shapes"].null_count() == 0
    assert ops["shapes"].null_count() == 0


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_a_loop_that_is_too_short_for_details_says_which_flags_bring_them(steps: int) -> None:
    report = recorded(steps)
    assert numbers(report) == numbers(recorded(steps, preset="quick"))
    (problem,) = [problem for problem in report.problems if problem.code == "capture.only_times"]
    assert problem.severity == "info"
    assert problem.fix.startswith("For memory, shapes and stacks, add --memory, --shapes or --stack")
    assert not report.trace.meta.has_memory


def test_a_block_that_is_recorded_as_a_whole_has_times_alone_and_says_how_to_get_the_rest() -> None:
    step = training()
    with tp.profile(preset="auto") as p:
        step()
    with tp.profile(preset="auto") as q:
        for _ in range(3):
            step()
            q.step()
    for report in (p.report, q.report):
        assert codes(report) == ["capture.only_times_block"]
        meta = report.trace.meta
        assert (meta.has_memory, meta.has_shapes, meta.has_stacks) == (False, False, False)
    assert numbers(q.report) == [0, 1, 2]


def test_steps_of_a_schedule_are_recorded_once_for_their_times_and_once_for_their_details() -> None:
    step = training()
    with tp.profile(preset="auto", budget="10min", wait=1, warmup=1, active=2) as p:
        for _ in range(12):
            step()
            p.step()
    assert numbers(p.report) == [2, 3]
    assert p.report.trace.meta.two_pass.detail_steps == (6, 7)


def test_a_loop_that_ends_before_the_details_has_its_times() -> None:
    step = training()

    def six() -> Iterator[int]:
        yield from range(6)

    with tp.profile(preset="auto") as p:
        for _ in p.steps(six()):
            step()
    assert numbers(p.report) == [2, 3, 4]
    assert codes(p.report) == ["run.auto_no_details"]


def test_a_break_or_an_exception_in_the_details_leaves_the_times_whole() -> None:
    step = training()
    with tp.profile(preset="auto", budget="10min") as p:
        for number in p.steps(range(20)):
            step()
            if number == 8:
                break
    assert numbers(p.report) == [2, 3, 4]
    assert p.report.steps["complete"].all()
    assert codes(p.report) == ["run.two_pass"]

    q = tp.profile(preset="auto", budget="10min")

    def fails() -> None:
        with q:
            for number in q.steps(range(20)):
                step()
                if number == 8:
                    raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fails()
    assert numbers(q.report) == [2, 3, 4]
    assert q.report.steps["complete"].all()
    assert q.report.trace.meta.has_memory


def test_memory_and_shapes_are_those_of_a_run_that_asks_for_them() -> None:
    chosen, asked = recorded(12), recorded(12, preset="memory")
    names = ["name", "calls", "self_cpu_bytes", "self_alloc_bytes", "self_free_bytes", "flops"]
    ours, theirs = (
        report.ops.filter(pl.col("name").cast(pl.String).str.starts_with("aten::")) for report in (chosen, asked)
    )
    assert ours.select(names).sort("name").rows() == theirs.select(names).sort("name").rows()
    by_shape = [
        report.ops_by("shapes").select("name", "shapes", "calls").sort("name", "shapes") for report in (chosen, asked)
    ]
    assert by_shape[0].rows() == by_shape[1].rows()
    assert chosen.memory["total_bytes"].max() == asked.memory["total_bytes"].max()


def test_details_per_step_are_of_the_steps_that_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details.DetailsCost, "most_steps", lambda *_: 1)
    one, all_of_them = recorded(12), recorded(12, preset="memory")
    assert one.trace.meta.two_pass.detail_steps == (7,)
    texts = [report.summary() for report in (one, all_of_them)]
    lines = [next(line for line in text.splitlines() if line.startswith("aten::addmm")) for text in texts]
    assert lines[0].split()[-1] == lines[1].split()[-1]  # allocated per step


def test_what_it_cost_is_told() -> None:
    report = recorded(12)
    passes = report.trace.meta.two_pass
    assert passes is not None
    assert passes.steps_seen == 12
    assert passes.cost_ns is not None
    assert passes.cost_ns > 0
    assert " 6 of 12 steps were recorded, and the loop took " in report.problems[0].message


def test_details_that_cost_too_much_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details, "MOST_NS", 1)
    monkeypatch.setattr(details, "MOST_SHARE", 0)
    report = recorded(12, budget=None)
    assert codes(report) == ["capture.details_left_out", "run.auto_no_details"]
    assert numbers(report) == [2, 3, 4]


def test_stacks_of_code_with_many_calls_end_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchprof_magic.capture.recorder.MOST_CALLS", 2_000)
    step = training()

    def small() -> None:
        return None

    def work() -> None:
        step()
        for _ in range(10_000):
            small()

    report = recorded(12, work)
    assert "capture.stacks_ended" in codes(report)
    assert report.trace.meta.has_memory


def test_recompilations_and_graph_breaks_are_those_of_the_bare_loop() -> None:
    def count(run: Callable[[Callable[[], object]], object]) -> dict[str, dict[str, int]]:
        torch._dynamo.reset()
        counters.clear()
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        compiled = torch.compile(model, backend="eager")
        data = torch.randn(4, 8)
        run(lambda: compiled(data).sum().backward())
        return {name: dict(found) for name, found in counters.items() if name in ("frames", "graph_break", "stats")}

    def bare(step: Callable[[], object]) -> None:
        for _ in range(12):
            step()

    assert count(lambda step: recorded(12, step)) == count(bare)


def test_the_trace_of_the_times_is_kept_as_that_of_a_quick_recording(tmp_path: Path) -> None:
    report = recorded(12, trace_dir=tmp_path, filename="mine.json")
    assert [path.name for path in tmp_path.glob("*.json")] == ["mine.json"]
    kept = tp.load(tmp_path / "mine.json")
    assert not kept.trace.meta.has_memory
    assert numbers(kept) == numbers(report)
    again = tp.load(report.save(tmp_path / "whole.torchprof"))
    assert again.trace.meta.has_memory
    assert again.trace.meta.two_pass == report.trace.meta.two_pass
