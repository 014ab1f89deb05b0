"""Overloads that torch appends to the names of ops are read apart from them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support import annotation, make_trace, span

import torchprof_magic as tp
from torchprof_magic.model.errors import OptionsError
from torchprof_magic.report.trace_report import Report

RECORDED = (
    span("aten::add.Tensor", 0, 10),
    span("aten::add.out", 20, 10),
    span("aten::ones", 40, 10),
    span("mine::scale.default", 60, 10),
    annotation("mine::scale.default", 80, 10),
    span("Optimizer.step#SGD.step", 100, 10),
)


def named(report: Report) -> list[tuple[str, str | None]]:
    events = report.events.select("name", "overload").rows()
    return [(str(name), overload) for name, overload in events]


def test_an_op_with_an_overload_has_both_apart() -> None:
    assert named(Report(make_trace(*RECORDED))) == [
        ("aten::add", "Tensor"),
        ("aten::add", "out"),
        ("aten::ones", None),
        ("mine::scale", "default"),
        ("mine::scale.default", None),  # a range is called what the user called it
        ("Optimizer.step#SGD.step", None),
    ]


def test_without_an_overload_of_torchs_own_ops_names_stay_whole() -> None:
    assert named(Report(make_trace(span("aten::add", 0, 10), span("mine::scale.default", 20, 10)))) == [
        ("aten::add", None),
        ("mine::scale.default", None),
    ]


def test_ops_are_one_row_and_split_by_overload() -> None:
    report = Report(make_trace(*RECORDED))
    assert report.ops.filter(name="aten::add")["calls"].to_list() == [2]
    split = report.ops_by("overload").filter(name="aten::add").select("overload", "calls")
    assert sorted(split.rows()) == [("Tensor", 1), ("out", 1)]
    averages = report.key_averages(group_by_overload_name=True).filter(key="aten::add")
    assert sorted(averages.select("overload", "count").rows()) == [("Tensor", 1), ("out", 1)]
    assert "Overload Name" in report.key_averages_table(group_by_overload_name=True)
    assert "Overload Name" not in report.key_averages_table()


def test_the_page_groups_by_overload_only_where_there_are_any() -> None:
    assert '"ops_overload"' in Report(make_trace(*RECORDED))._forms.page.header
    assert '"ops_overload"' not in Report(make_trace(span("aten::add", 0, 10)))._forms.page.header


@pytest.mark.parametrize("ending", ["a.json", "a.torchprof"])
def test_overloads_survive_export_and_saving(tmp_path: Path, ending: str) -> None:
    report = Report(make_trace(*RECORDED))
    path = report.save(tmp_path / ending) if ending.endswith(".torchprof") else report.export(tmp_path / ending)
    assert named(tp.load(path)) == named(report)


def test_a_live_run_records_overloads_when_asked() -> None:
    with tp.profile(overloads=True, wait=0, warmup=0, active=1, repeat=1) as recording:
        torch.ones(3) + 1
        recording.step()
    assert recording.report is not None
    assert ("aten::add", "Tensor") in named(recording.report)
    with pytest.raises(OptionsError, match="set capture_overload_names in experimental_config"):
        tp.profile(overloads=True, experimental_config=torch._C._profiler._ExperimentalConfig())
