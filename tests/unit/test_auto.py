"""Cells and blocks that ask for nothing: times from some steps, then shapes, memory and stacks, then lines."""

from __future__ import annotations

import sys
import time
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
from torchprof_magic.capture.news import News

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


# The lines of ``step`` in ``training``.
STEP_LINES = ("optimizer.zero_grad()", "model(data).square().mean().backward()", "optimizer.step()")


def function_lines(report: tp.Report) -> dict[str, int]:
    """Return how often lines of the step's function ran, by their text."""
    lines = report.lines.select("source", "hits").rows()
    return {text.strip(): hits for text, hits in lines if hits and text.strip() in STEP_LINES}


def numbers(report: tp.Report) -> list[int]:
    return report.steps["number"].to_list()


def codes(report: tp.Report) -> list[str]:
    found = [found.code for found in report.problems if found.code.startswith(("capture.", "run.auto", "run.two"))]
    # Whether calls can be counted depends on what other tests have left in this process.
    return [code for code in found if code != "capture.calls_not_counted"]


@pytest.mark.parametrize(
    ("steps", "times", "details", "lines"),
    [
        (5, [1, 2], (4,), ()),
        (6, [1, 2, 3], (5,), ()),
        (7, [2, 3, 4], (6,), ()),
        (8, [2, 3, 4], (6, 7), ()),
        (9, [2, 3, 4], (6,), (8,)),
        (10, [2, 3, 4], (6, 7), (9,)),
        (11, [2, 3, 4], (6, 7, 8), (10,)),
        (14, [2, 3, 4], (6, 7, 8), (10,)),
        (15, [2, 3, 4], (10, 11, 12), (14,)),
        (None, [2, 3, 4], (6, 7, 8), (10,)),
    ],
)
def test_times_are_those_of_a_quick_recording_and_the_rest_is_of_the_steps_that_are_left(
    steps: int | None, times: list[int], details: tuple[int, ...], lines: tuple[int, ...]
) -> None:
    report = recorded(steps)
    assert numbers(report) == times
    passes = report.trace.meta.two_pass
    assert passes is not None
    assert passes.detail_steps == details
    assert passes.line_steps == lines
    assert codes(report) == ["run.two_pass"] if lines else ["capture.no_lines", "run.two_pass"]
    assert function_lines(report) == (dict.fromkeys(STEP_LINES, len(times)) if lines else {})
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
    assert problem.fix.startswith(
        "For memory, shapes, stacks and lines of your functions, add --memory, --shapes, --stack or --lines"
    )
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
    assert p.report.trace.meta.two_pass.line_steps == (9,)


def test_notes_name_only_the_details_that_were_not_turned_off() -> None:
    step = training()
    asked: dict[str, Any] = {"preset": "auto", "with_stack": False, "lines": False}
    with tp.profile(**asked) as whole:
        step()
    with tp.profile(**asked) as short:
        for _ in short.steps(number for number in range(6)):
            step()
    fixes = {found.code: found.fix for p in (whole, short) for found in p.report.problems}
    assert fixes == {
        "capture.only_times_block": "For memory and shapes, step the loop with p.steps(iterable), or ask for them with "
        "profile_memory or record_shapes.",
        "run.auto_no_details": "Run the loop for more steps, or add --memory or --shapes.",
    }


def test_a_loop_that_ends_before_the_details_has_its_times() -> None:
    step = training()

    def six() -> Iterator[int]:
        yield from range(6)

    with tp.profile(preset="auto") as p:
        for _ in p.steps(six()):
            step()
    assert numbers(p.report) == [2, 3, 4]
    assert codes(p.report) == ["capture.no_lines", "run.auto_no_details"]


def test_a_break_or_an_exception_in_the_details_leaves_the_times_whole() -> None:
    step = training()
    with tp.profile(preset="auto", budget="10min") as p:
        for number in p.steps(range(20)):
            step()
            if number == 11:
                break
    assert numbers(p.report) == [2, 3, 4]
    assert p.report.steps["complete"].all()
    assert codes(p.report) == ["capture.no_lines", "run.two_pass"]
    told = next(problem for problem in p.report.problems if problem.code == "capture.no_lines")
    assert told.message.endswith("because the loop ended before the step that times them was over.")

    q = tp.profile(preset="auto", budget="10min")

    def fails() -> None:
        with q:
            for number in q.steps(range(20)):
                step()
                if number == 11:
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
    assert one.trace.meta.two_pass.detail_steps == (6,)
    texts = [report.summary() for report in (one, all_of_them)]
    lines = [next(line for line in text.splitlines() if line.startswith("aten::addmm")) for text in texts]
    assert lines[0].split()[-1] == lines[1].split()[-1]  # allocated per step


def test_steps_that_come_in_turns_are_joined_with_steps_of_their_kind() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data, done = torch.randn(16, 32), []

    def accumulate() -> None:
        model(data).square().mean().backward()
        done.append(data)
        if len(done) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)

    for steps in (12, 20):
        done.clear()
        optimizer.zero_grad(set_to_none=False)
        report = recorded(steps, accumulate)
        assert codes(report) == ["run.two_pass"]
        (passes,) = (problem for problem in report.problems if problem.code == "run.two_pass")
        assert "all ops were found in both" in passes.message


def test_what_it_cost_is_told() -> None:
    report = recorded(12)
    passes = report.trace.meta.two_pass
    assert passes is not None
    assert passes.steps_seen == 12
    assert passes.cost_ns is not None
    assert passes.cost_ns > 0
    assert " 7 of 12 steps were recorded, and the loop took " in report.problems[0].message


def test_times_of_steps_that_cost_too_much_are_of_fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details, "_cost_of_events", lambda *_: 2e9)
    report = recorded(20, budget="3s")
    assert numbers(report) == [2]
    assert "capture.times_ended" in codes(report)
    # The details are of the step that they would be of.
    assert report.trace.meta.two_pass.detail_steps == (10,)


def test_details_that_cost_too_much_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details, "MOST_NS", 1)
    monkeypatch.setattr(details.DetailsCost, "may_time_another", lambda *_: True)
    monkeypatch.setattr(details, "MOST_SHARE", 0)
    report = recorded(12, budget=None)
    assert codes(report) == ["capture.details_left_out", "capture.lines_left_out", "run.auto_times"]
    (told,) = (problem.message for problem in report.problems if problem.code == "run.auto_times")
    assert told.startswith("Times are from steps 2–4. 3 of 12 steps were recorded, and the loop took ")
    assert numbers(report) == [2, 3, 4]
    assert function_lines(report) == {}


@pytest.mark.parametrize(("limit_ns", "has_memory"), [(5.71e9, True), (5.5e9, False)])
def test_a_detail_that_costs_too_much_is_left_out_alone(
    limit_ns: float, monkeypatch: pytest.MonkeyPatch, *, has_memory: bool
) -> None:
    monkeypatch.setattr(details.DetailsCost, "_most_ns", lambda *_: limit_ns)
    # The times took 3 s. A step takes 2.73 s or more with all details, 2.7 s without stacks, 2.2 s with shapes alone.
    monkeypatch.setattr(details.DetailsCost, "_per_step_ns", lambda *_: 1e9)
    report = recorded(12)
    meta = report.trace.meta
    assert (meta.has_shapes, meta.has_memory, meta.has_stacks) == (True, has_memory, False)
    assert meta.two_pass.detail_steps == (6,)
    assert "capture.details_dropped" in codes(report)
    assert function_lines(report) == dict.fromkeys(STEP_LINES, 3)


def test_lines_are_left_out_where_the_details_took_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details.DetailsCost, "_most_ns", lambda *_: 0.0)
    monkeypatch.setattr(details.DetailsCost, "may_time_another", lambda *_: True)
    monkeypatch.setattr(details.DetailsCost, "most_steps", lambda *_: 1)
    monkeypatch.setattr(details.DetailsCost, "left_out", lambda *_: {})
    report = recorded(12, budget=None)
    assert codes(report) == ["capture.lines_left_out", "run.two_pass"]
    assert report.trace.meta.two_pass.detail_steps == (6,)
    (problem,) = [problem for problem in report.problems if problem.code == "capture.lines_left_out"]
    assert problem.fix.endswith("or --lines.")


def test_the_recording_is_done_where_the_step_for_lines_would_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, int]] = []
    monkeypatch.setattr(details.DetailsCost, "may_record_lines", lambda *_: False)
    monkeypatch.setattr(News, "tell_phase", lambda _, __, phase, step: told.append((phase, step)))
    recorded(20)
    assert told[-1] == ("done", 15)
    assert [phase for phase, _ in told].count("done") == 1


def test_lines_without_details_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details.DetailsCost, "most_steps", lambda *_: 0)
    report = recorded(12)
    assert codes(report) == ["run.auto_lines"]
    assert report.problems[0].message == (
        "Times are from steps 2–4, lines of your functions from step 10, in proportion to the times."
    )
    assert function_lines(report) == dict.fromkeys(STEP_LINES, 3)


def test_lines_of_a_step_that_did_other_work_are_named_as_missing() -> None:
    step, done = training(), []

    def varied() -> None:
        step()
        done.append(len(done))
        for _ in range(100 if len(done) == 11 else 0):
            torch.ones(3).sum()

    report = recorded(12, varied)
    assert function_lines(report) == {}
    (found,) = (problem for problem in report.problems if problem.code == "capture.no_lines")
    assert found.message.endswith("because the step that times them did other work than those of the times.")


def test_nothing_traces_the_steps_but_the_one_for_lines() -> None:
    step = training()
    traced: list[bool] = []

    def look() -> None:
        step()
        traced.append(sys.gettrace() is not None)

    recorded(14, look)
    assert [number for number, is_traced in enumerate(traced) if is_traced] == [10]
    assert sys.gettrace() is None


def test_a_loop_that_must_not_time_lines_does_not() -> None:
    report = recorded(12, lines=False)
    assert codes(report) == ["run.two_pass"]
    assert report.trace.meta.two_pass.detail_steps == (6, 7, 8)
    assert report.trace.meta.two_pass.line_steps == ()
    assert function_lines(report) == {}


def test_a_step_of_lines_that_an_exception_or_a_break_ends_is_left_out() -> None:
    step = training()
    for failing in (False, True):
        p = tp.profile(preset="auto", budget="10min")

        def fails(p: tp.profile = p, failing: bool = failing) -> None:
            with p:
                for number in p.steps(range(20)):
                    step()
                    if number == 14:
                        if failing:
                            raise KeyError("mine")
                        break

        if failing:
            with pytest.raises(KeyError, match="mine"):
                fails()
        else:
            fails()
        assert numbers(p.report) == [2, 3, 4]
        assert p.report.trace.meta.two_pass.detail_steps == (10, 11, 12)
        assert p.report.trace.meta.two_pass.line_steps == ()
        assert function_lines(p.report) == {}
        assert codes(p.report) == ["capture.no_lines", "run.two_pass"]
        assert sys.gettrace() is None


def test_the_lines_of_functions_add_up_to_what_the_steps_of_the_times_took() -> None:
    step = training(256)

    def slow() -> None:
        time.sleep(0.01)
        step()

    report = recorded(12, slow)
    (row,) = report.lines.filter(pl.col("source").str.strip_chars() == "time.sleep(0.01)").to_dicts()
    assert row["hits"] == 3
    lasted = (report.trace.steps["end_ns"] - report.trace.steps["start_ns"]).sum()
    assert 27e6 <= row["total_cpu_ns"] < lasted  # it gets its part of the time until the first op
    (call,) = report.lines.filter(pl.col("source").str.strip_chars() == "step()", pl.col("hits") > 0).to_dicts()[:1]
    inner = report.lines.filter(pl.col("source").str.strip_chars().is_in(STEP_LINES))["total_cpu_ns"].sum()
    assert inner <= call["total_cpu_ns"]
    # Torch tells of each step when its ops ran: those of the step lie in the line that calls it.
    assert report.ops.filter(pl.col("name").cast(pl.String) == "aten::addmm")["self_cpu_ns"].sum() < inner


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

        @torch.compile(backend="eager")
        def own(data: torch.Tensor) -> torch.Tensor:
            found = [data * 2, data * 3]
            torch._dynamo.graph_break()
            return found[0] + found[1]

        run(lambda: compiled(own(data)).sum().backward())
        return {name: dict(found) for name, found in counters.items() if name in ("frames", "graph_break", "stats")}

    def bare(step: Callable[[], object]) -> None:
        for _ in range(12):
            step()

    assert count(lambda step: recorded(12, step)) == count(bare)
    # What notes lines and the names of tensors runs inside of compiled code, and is not compiled.
    assert count(lambda step: recorded(12, step, preset="memory", lines=True)) == count(bare)


def test_the_trace_of_the_times_is_kept_as_that_of_a_quick_recording(tmp_path: Path) -> None:
    report = recorded(12, trace_dir=tmp_path, filename="mine.json")
    assert [path.name for path in tmp_path.glob("*.json")] == ["mine.json"]
    kept = tp.load(tmp_path / "mine.json")
    assert not kept.trace.meta.has_memory
    assert numbers(kept) == numbers(report)
    again = tp.load(report.save(tmp_path / "whole.torchprof"))
    assert again.trace.meta.has_memory
    assert again.trace.meta.two_pass == report.trace.meta.two_pass


def test_training_with_ddp_goes_on_as_without_a_recording(tmp_path: Path) -> None:
    def trained(*, is_recorded: bool) -> tuple[list[torch.Tensor], int]:
        """Train for twelve steps; return the parameters, and how often DDP called a hook of the test's for a bucket."""
        torch.manual_seed(0)
        model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)))
        buckets: list[int] = []

        def reduce(_, bucket):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - torch compares them with its types
            buckets.append(bucket.buffer().numel())
            done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
            done.set_result(bucket.buffer())
            return done

        model.register_comm_hook(None, reduce)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = torch.randn(16, 8)

        def step() -> None:
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()

        if is_recorded:
            assert recorded(12, step).trace.memory.height > 0
        else:
            for _ in range(12):
                step()
        return [parameter.detach().clone() for parameter in model.parameters()], len(buckets)

    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        (bare, bare_buckets), (own, own_buckets) = trained(is_recorded=False), trained(is_recorded=True)
    finally:
        torch.distributed.destroy_process_group()
    assert all(torch.equal(one, other) for one, other in zip(bare, own, strict=True))
    assert own_buckets == bare_buckets == 12
