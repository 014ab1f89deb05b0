"""One step everywhere: every surface gives the same time for the step and for its largest phases, ops and kernels.

Surfaces of the step: the verdict, its text, the advice, the overview, the text and the static copy of the report, the
header of the page (its strip and chart), the columns of the page, ``report.step_ns``, ``report.steps`` by SQL, the JSON
summary, a comparison (its table, its numbers, the bars of its page), the history of the kernel, kept runs,
``assert_profile``, and the rank of a job. Surfaces of the phases, ops and kernels: those of them that have such rows,
the flame graph, and ``report.counted``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from amount import sampled
from support import annotation, frame, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.findings.advice.times import step_ns
from torchprof_magic.findings.ranks.frames import rank_frames
from torchprof_magic.findings.verdict.accounts import device_account, host_account
from torchprof_magic.model.errors import ProfileAssertionError
from torchprof_magic.model.shapes import Facts, Table, Tree
from torchprof_magic.model.trace import Trace
from torchprof_magic.model.units import column_format, format_ns
from torchprof_magic.report.comparison import Comparison
from torchprof_magic.report.trace_report import Report
from torchprof_magic.runs import kept_runs, this_process
from torchprof_magic.runs.kept_runs import KeptRun

MOST = 5  # how many of the largest are compared
GPU = Path(__file__).parents[2] / "data" / "gpu"
RECORDED = (
    "compiled_warm.json.gz",
    "cold_first_call.json.gz",
    "gpu_not_recorded.json.gz",
    "graph_replay.json.gz",
    "queued_before_and_after.json.gz",
    "session_0.json.gz",
    "session_1.json.gz",
    "train_memory.json.gz",
    "two_streams.json.gz",
)
REAL = (
    "01_cpu_gloo_rank34.json.gz",
    "02_a100_ddp_rank0of2.json.gz",
    "03_h100_qwen_stacks_memory.json.gz",
    "04_amd_vllm_decode_graph.json.gz",
    "05_v100_resnet50_old_schema.json.gz",
    "06_v100_dlrm_8ranks/rank0.json.gz",
    "08_mtia_inference_rank0.json.gz",
    "12_a100_context_creation.json.gz",
    "13_a100_cold_first_launch.json.gz",
    "14_mi300_cold_modules.json.gz",
    "16_a100_kernels_missing.json.gz",
)


def training(*lengths_us: float, gap_us: float = 30, tail_us: float = 0, device: bool = True) -> Trace:
    """Steps of data, forward, backward and optimizer, each a part of the length, with kernels that run on for a while.

    Nothing belongs to a step between it and the next one but the tail of its kernels.
    """
    events, at = [frame("train.py(1): main", 0, sum(lengths_us) + gap_us * len(lengths_us))], 0.0
    for number, length in enumerate(lengths_us):
        events += [
            annotation(f"ProfilerStep#{number}", at, length),
            span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 1, length / 10),
            span("aten::linear", at + length * 0.2, length * 0.3, **{"Sequence number": number}),
            span("aten::mm", at + length * 0.25, length * 0.2),
            span("MmBackward0", at + length * 0.55, length * 0.2, **{"Sequence number": number, "Fwd thread id": 1}),
            annotation("Optimizer.step#SGD.step", at + length * 0.8, length * 0.1),
            span("aten::_foreach_add_", at + length * 0.82, length * 0.05),
            span("aten::item", at + length * 0.92, length * 0.05),
        ]
        if device:
            events += [
                launch(at + length * 0.3, 1, 10 * number + 1),
                kernel("gemm", at + length * 0.4, length * 0.2, 10 * number + 1),
                launch(at + length * 0.83, 1, 10 * number + 2),
                kernel("multi_tensor_apply", at + length * 0.9, length * 0.08 + tail_us, 10 * number + 2),
            ]
        at += length + gap_us
    return make_trace(*events)


def interrupted(trace: Trace, *numbers: int) -> Trace:
    """The trace in which these steps are not complete."""
    return replace(trace, steps=trace.steps.with_columns(complete=~trace.steps["number"].is_in(numbers)))


def chosen(trace: Trace, *rows: int) -> Trace:
    """The trace in which the user chose the steps that count."""
    return replace(trace, meta=replace(trace.meta, chosen_steps=rows))


MADE = {
    "even steps": lambda: training(1000, 1010, 1020, 1005),
    "an outlier": lambda: training(1000, 1010, 2500, 1020, 990),
    "a long first step": lambda: training(9000, 1000, 1100, device=False),
    "the last step is cut": lambda: interrupted(training(1000, 1040, 300), 2),
    "all steps are cut": lambda: interrupted(training(1000, 1040), 0, 1),
    "kernels after the last step": lambda: training(1000, 1000, 1030, gap_us=0, tail_us=400),
    "two steps far apart": lambda: training(1000, 1600, gap_us=5000),
    "one step": lambda: training(1234.567),
    "steps that were chosen": lambda: chosen(training(1000, 1010, 2500, 1020), 1, 2),
    "no step": lambda: make_trace(span("aten::mm", 0, 100), span("aten::add", 120, 50)),
}


@cache
def made(name: str) -> Report:
    return Report(MADE[name]())


def recordings() -> Iterator[Any]:
    yield from (pytest.param(("made", name), id=name) for name in MADE)
    yield from (pytest.param(("gpu", name), id=name) for name in RECORDED)


@pytest.fixture(
    scope="module", params=[*recordings(), *(pytest.param(("real", name), id=name) for name in sampled(REAL))]
)
def report(request: pytest.FixtureRequest) -> Report:
    kind, name = request.param
    if kind == "made":
        return made(name)
    return tp.load((GPU if kind == "gpu" else request.getfixturevalue("traces")) / name)


@pytest.fixture(scope="module")
def with_itself(report: Report) -> Comparison:
    return report.compare(report)


def facts_of(report: Report) -> Facts:
    shape = report._analysis["overview"]
    assert isinstance(shape, Facts)
    return shape


def section(report: Report, title: str) -> dict[str, float]:
    return {
        fact.label: fact.value
        for section in facts_of(report).sections
        if section.title == title
        for fact in section.facts
        if isinstance(fact.value, int | float)
    }


def static_text(report: Report) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", report._repr_html_()))


def broken_step(report: Report) -> str:
    with pytest.raises(ProfileAssertionError) as raised:
        report.assert_profile(step_ms=1e-6)
    return str(raised.value).splitlines()[-1].split("  ")[-1]


def history_step(report: Report) -> float | None:
    this_process.remember(report)
    return this_process._entries.pop().step_ns


def kept_step(report: Report, monkeypatch: pytest.MonkeyPatch) -> float | None:
    kept: list[KeptRun] = []
    monkeypatch.setattr(kept_runs.RunLibrary, "keep", lambda _self, run, *_args, **_more: kept.append(run))
    kept_runs.keep_run(report, name="a")
    return kept[0].step_ns


def test_the_step_is_the_same_everywhere(
    report: Report, with_itself: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = report.as_analysed
    account = device_account(trace) or host_account(trace)
    expected = counted_steps(trace).mean_ns
    header = json.loads(report._forms.page.header)
    found: dict[str, float | None] = {
        "verdict": account.whole_ns / account.steps,
        "host": host_account(trace).whole_ns / host_account(trace).steps,
        "advice": step_ns(trace),
        "rank": float(rank_frames(trace).summary["step_ns"].item()),
    }
    assert header["steps"] == counted_steps(trace).steps
    if trace.steps.height:
        frame = report.sql("SELECT AVG(dur_ns) AS ns FROM steps WHERE left_out = ''")
        said = re.findall(r" of ([0-9.]+ .?s) per step", report.verdict.statement)
        assert set(said) <= {format_ns(expected)}
        found |= {
            "sql": frame["ns"].item(),
            "page": header["step_ns"],
            "overview": section(report, "Steps")["Mean step"],
            "json": step_in_json(report),
        }
        assert f"Mean step {format_ns(expected)}" in report.summary()
        assert f"| Mean step | {format_ns(expected)} |" in report.summary("markdown", max_tokens=20_000)
        assert f"Mean step {format_ns(expected)}" in static_text(report)
    else:
        assert header["step_ns"] is None
        assert "Mean step" not in report.summary()
    if math.isnan(report.step_ns):
        assert (history_step(report), kept_step(report, monkeypatch)) == (None, None)
        assert broken_step(report).startswith("no complete step")
        assert math.isnan(with_itself.change.before_ns)
    else:
        runs = json.loads(with_itself._forms._of_after.page.header)["change"]["runs"]
        found |= {
            "report.step_ns": report.step_ns,
            "history": history_step(report),
            "kept run": kept_step(report, monkeypatch),
        }
        assert broken_step(report) == format_ns(expected)
        if not with_itself.change.is_plain:  # else the steps without the profiler are compared, which says so
            found |= {"comparison": with_itself.change.before_ns, "bar": runs[0]["typical"]}
            assert with_itself.numbers.startswith(f"{format_ns(expected)} → {format_ns(expected)} per step")
    assert {name: format_ns(ns) for name, ns in found.items() if ns is not None} == dict.fromkeys(
        found, format_ns(expected)
    )


def step_in_json(report: Report) -> float:
    facts = json.loads(report.summary("json"))["facts"]
    return next(fact["value"] for fact in facts if fact["label"] == "Mean step")


def largest(times: dict[str, float]) -> dict[str, str]:
    """The five largest times as they are shown."""
    order = sorted(((ns, name) for name, ns in times.items() if ns > 0), reverse=True)
    return {name: format_ns(ns) for ns, name in order[:MOST]}


def shown(times: dict[str, float], names: Iterable[str]) -> dict[str, str]:
    return {name: format_ns(times[name]) for name in names}


def test_the_largest_phases_are_the_same_everywhere(report: Report, with_itself: Comparison) -> None:
    if report.steps.height == 0:
        assert section(report, "Where the host's time goes") == {}
        return
    counts = report.steps.filter(pl.col("left_out") == "")
    frame = {phase: float(counts[f"{phase}_ns"].mean() or 0) for phase in PHASES}
    frame["waiting"] += frame.pop("idle")  # one name for both, wherever it is said
    expected = largest(frame)
    compared = dict(with_itself.phases.select("name", "before_ns").iter_rows())
    assert shown(section(report, "Where the host's time goes"), expected) == expected
    assert shown(compared, expected) == expected
    text, markdown = report.summary(), report.summary("markdown", max_tokens=20_000)
    for phase, time in expected.items():
        assert f"| {phase} | {time} |" in markdown
        if frame[phase] >= 0.0005 * counted_steps(report.as_analysed).mean_ns:
            assert f"{phase} {time} (" in text
    assert sum(frame.values()) == pytest.approx(counted_steps(report.as_analysed).mean_ns, abs=1)


def page_sums(report: Report, view: str, column: str) -> dict[str, float]:
    """The sums that the page shows in a table, of rows that lie in no other row, per step."""
    shape, steps = report._analysis[view], json.loads(report._forms.page.header)["steps"]
    assert isinstance(shape, Table)
    frame = shape.frame if "above" not in shape.frame.columns else shape.frame.filter(pl.col("above") == "")
    frame = frame.group_by(pl.col("name").cast(pl.String)).agg(pl.col(column).sum())
    return {name: ns / steps for name, ns in frame.iter_rows()}


@pytest.mark.parametrize("column", ["self_cpu_ns", "self_device_ns"])
def test_the_largest_ops_are_the_same_everywhere(report: Report, with_itself: Comparison, column: str) -> None:
    trace = report.as_analysed
    if column == "self_device_ns" and not trace.has_device:
        assert column not in report.counted.ops.columns or report.counted.ops[column].sum() == 0
        return
    steps = counted_steps(trace).steps
    ops = report.counted.ops.group_by("name").agg(pl.col(column).sum())
    times = {name: ns / steps for name, ns in ops.iter_rows()}
    expected = largest(times)
    assert shown(page_sums(report, "ops", column), expected) == expected
    key = "before_ns" if column == "self_cpu_ns" else "device_before_ns"
    compared = dict(with_itself.ops.select("name", key).iter_rows())
    rounded = {name: format_ns(round(times[name])) for name in expected if name in compared}
    assert shown(compared, rounded) == rounded
    if column == (report._analysis["ops"].sort_by or "self_cpu_ns"):  # type: ignore[union-attr]
        top = section(report, "Ops")
        assert shown(top, [name for name in expected if name in top]) == {n: t for n, t in expected.items() if n in top}
        text = report.summary()
        first = next(iter(expected))
        line = next((line for line in text.splitlines() if line.startswith(first[:30] + " ")), "")
        assert not line or column_format("ns", times[first]).format(times[first]) in line


def test_the_largest_kernels_are_the_same_everywhere(report: Report, with_itself: Comparison) -> None:
    trace = report.as_analysed
    steps = counted_steps(trace).steps
    frame = report.counted.kernels.group_by(pl.col("name").cast(pl.String)).agg(pl.col("sum_ns").sum())
    times = {name: ns / steps for name, ns in frame.iter_rows()}
    expected = largest(times)
    if not expected:
        return
    assert shown(page_sums(report, "kernels", "sum_ns"), expected) == expected
    compared = dict(with_itself.kernels.select("name", "before_ns").iter_rows())
    assert shown(compared, expected) == {name: format_ns(round(times[name])) for name in expected}
    flame = report._analysis["flame"]
    assert isinstance(flame, Tree)
    boxes = flame.frame.filter(pl.col("kind").cast(pl.String) == "kernel")["self_device_ns"].sum()
    assert format_ns(boxes / steps) == format_ns(sum(times.values()))


def test_a_step_that_is_taken_in_changes_everything_alike() -> None:
    report = made("an outlier")
    every = report.counting(0, 1, 2, 3, 4)
    assert (report.step_ns, every.step_ns) == (1_005_000, 1_304_000)
    assert "Mean step 1.01 ms (1 step left out): " in report.summary()
    assert "Mean step 1.30 ms: " in every.summary()
    assert every.steps["left_out"].to_list() == [""] * 5
    assert every.counting(0, 1, 3, 4).steps["left_out"].to_list() == ["", "", "2.49 times the median", "", ""]
    with pytest.raises(ValueError, match="no step 9 was recorded"):
        report.counting(9)
    with pytest.raises(ValueError, match="at least one step must count"):
        report.counting()


def test_a_comparison_in_the_page_follows_the_steps_that_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    page = made("an outlier").compare(made("even steps")).widget
    monkeypatch.setattr(page, "send", lambda _content, _buffers=(): None)

    def shown() -> tuple[float, float]:
        header = json.loads(page._header)
        return header["step_ns"], next(run["typical"] for run in header["change"]["runs"] if run["is_shown"])

    assert shown() == (1_005_000, 1_005_000)
    page._answer(None, {"kind": "count", "id": 1, "rows": [0, 1, 2, 3, 4]}, [])
    assert shown() == (1_304_000, 1_304_000)
    page._answer(None, {"kind": "count", "id": 2, "rows": [0, 1, 3, 4]}, [])
    assert shown() == (1_005_000, 1_005_000)
