from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support import make_trace, span

from torchprof_magic.exporters.chrome import write_chrome
from torchprof_magic.findings.overview import overview_facts
from torchprof_magic.ingest import read_chrome
from torchprof_magic.ingest.chrome.metadata import MAX_FACTS
from torchprof_magic.model.meta import MAX_TEXT
from torchprof_magic.report.trace_report import Report

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.model.shapes import Fact
    from torchprof_magic.model.trace import Trace


def metadata_facts(trace: Trace) -> tuple[Fact, ...]:
    (section,) = (section for section in overview_facts(trace).sections if section.title == "Metadata")
    return section.facts


def test_metadata_of_the_user_is_in_the_report_as_text() -> None:
    trace = make_trace(span("a", 0, 1), model="resnet", lr=0.1, sizes=[1, 2], done=True, nothing=None)
    expected = {"model": "resnet", "lr": "0.1", "sizes": "[1, 2]", "done": "true", "nothing": "null"}
    assert Report(trace).metadata == expected
    facts = metadata_facts(trace)
    assert {fact.label: fact.value for fact in facts} == expected
    assert {fact.unit for fact in facts} == {"text"}


def test_metadata_may_stand_before_and_behind_the_events() -> None:
    text = b'{"before": "x", "traceEvents": [], "behind": {"y": 1}}'
    assert dict(read_chrome([text]).meta.extra) == {"before": "x", "behind": '{"y": 1}'}


def test_where_cycles_disagree_the_first_one_is_used() -> None:
    first, second = (json.dumps({"run": number, f"k{number}": 1, "traceEvents": []}).encode() for number in (1, 2))
    assert dict(read_chrome([first, second]).meta.extra) == {"run": "1", "k1": "1", "k2": "1"}


@pytest.mark.parametrize(
    "key", ["username", "host_name", "tw_job", "mast_hpc", "API_KEY", "auth_token", "traceName", "INFO", "with_stack"]
)
def test_names_of_people_and_machines_and_the_entries_of_kineto_stay_in_the_file(key: str) -> None:
    assert make_trace(span("a", 0, 1), **{key: "x"}).meta.extra == ()


def test_metadata_is_bounded_in_number_and_length() -> None:
    trace = make_trace(span("a", 0, 1), **{f"n{number}": "x" * 10_000 for number in range(1_000)})
    assert len(trace.meta.extra) == MAX_FACTS
    assert {len(text) for _, text in trace.meta.extra} == {MAX_TEXT}


def test_the_rank_is_shown_with_the_world_size_and_the_backend() -> None:
    trace = make_trace(span("a", 0, 1), distributedInfo={"rank": 3, "world_size": 8, "backend": "nccl"})
    assert [(fact.label, fact.value) for fact in metadata_facts(trace)] == [("Rank", "3 of 8, nccl")]


def test_a_backend_of_a_wrong_type_does_not_affect_the_rank() -> None:
    meta = make_trace(span("a", 0, 1), distributedInfo={"rank": 3, "world_size": 8, "backend": ["nccl"]}).meta
    assert (meta.rank, meta.world_size, meta.backend) == (3, 8, "")


def test_metadata_goes_along_into_an_exported_trace(tmp_path: Path) -> None:
    trace = make_trace(
        span("a", 0, 1), model='re"s', lr=0.1, sizes=[1, 2], distributedInfo={"rank": 1, "world_size": 2}
    )
    again = read_chrome([write_chrome(trace, tmp_path / "again.json")])
    assert again.meta.extra == trace.meta.extra
    assert (again.meta.rank, again.meta.world_size) == (1, 2)


def test_the_json_summary_is_valid_with_metadata_in_it() -> None:
    report = Report(make_trace(span("a", 0, 1), model="resnet"))
    summary = json.loads(report.summary("json"), parse_constant=pytest.fail)
    assert {"section": "Metadata", "label": "model", "value": "resnet", "unit": "text", "note": ""} in summary["facts"]
