"""Process groups, ranks and backends of a distributed job are read, shown and searchable, whatever a file holds."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from support import make_trace, span

import torchprof_magic as tp
from torchprof_magic.findings.overview import MAX_GROUPS, overview_facts
from torchprof_magic.report.trace_report import Report
from torchprof_magic.tables.process_groups import ranks_text

if TYPE_CHECKING:
    from pathlib import Path

GROUPS = [
    {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": 4, "ranks": [0, 1, 2, 3]},
    {"pg_name": "7", "pg_desc": "tensor", "backend_config": "cpu:gloo,cuda:nccl", "pg_size": 2, "ranks": [3, 1]},
]
ROWS = [("0", "default_pg", "cuda:nccl", 4, "0-3"), ("7", "tensor", "cpu:gloo,cuda:nccl", 2, "1, 3")]


def report_of(pg_config: Any, **more: Any) -> Report:
    info = {"rank": 1, "world_size": 4, "backend": "nccl", "pg_config": pg_config, **more}
    return Report(make_trace(span("a", 0, 1), distributedInfo=info))


def groups_shown(report: Report) -> list[tuple[str, object, str]]:
    sections = [each for each in overview_facts(report.trace).sections if each.title == "Process groups"]
    assert all(section.group == "about" for section in sections)
    return [(fact.label, fact.value, fact.note) for section in sections for fact in section.facts]


def test_groups_are_a_frame_a_table_of_sql_and_a_part_of_the_page() -> None:
    report = report_of(GROUPS)
    assert report.process_groups.rows() == ROWS
    found = report.sql("SELECT name, ranks FROM process_groups WHERE backend LIKE '%gloo%'")
    assert found.rows() == [("7", "1, 3")]
    assert groups_shown(report) == [
        ("0 default_pg", "4 ranks: 0-3", "cuda:nccl"),
        ("7 tensor", "2 ranks: 1, 3", "cpu:gloo,cuda:nccl"),
    ]
    assert "default_pg" in report._forms.page.header


def test_a_job_without_groups_has_none() -> None:
    report = Report(make_trace(span("a", 0, 1)))
    assert report.process_groups.height == 0
    assert report.process_groups.columns == ["name", "description", "backend", "size", "ranks"]
    assert groups_shown(report) == []


def test_a_saved_run_keeps_its_groups(tmp_path: Path) -> None:
    report = report_of(GROUPS)
    assert tp.load(report.save(tmp_path / "a.torchprof")).process_groups.rows() == ROWS


def test_an_exported_trace_keeps_its_groups(tmp_path: Path) -> None:
    assert tp.load(report_of(GROUPS).export(tmp_path / "a.json")).process_groups.rows() == ROWS


@pytest.mark.parametrize(
    "damage",
    [
        None,
        "x",
        {"a": 1},
        [1, None, "x"],
        [{"pg_name": None}],
        [{"pg_size": "4"}],
        [{"ranks": ["0"]}],
        [{"ranks": [-1]}],
        [{"ranks": [1e300]}],
        [{"ranks": [2**40]}],
        [{"pg_size": -4}],
    ],
)
def test_a_group_that_cannot_be_read_is_left_out_and_the_rank_is_still_known(damage: Any) -> None:
    damaged = [*damage, GROUPS[1]] if isinstance(damage, list) else damage
    report = report_of(damaged)
    assert report.process_groups.rows() == (ROWS[1:] if isinstance(damage, list) else [])
    assert (report.trace.meta.rank, report.trace.meta.world_size, report.trace.meta.backend) == (1, 4, "nccl")


def test_of_many_groups_the_page_lists_the_first_and_counts_the_others() -> None:
    report = report_of([{"pg_name": str(number), "ranks": [0]} for number in range(MAX_GROUPS + 3)])
    shown = groups_shown(report)
    assert len(shown) == MAX_GROUPS + 1
    assert shown[-1] == ("More", "3 groups in report.process_groups", "")


@pytest.mark.parametrize(
    ("ranks", "text"), [((), ""), ((5,), "5"), ((2, 0, 1), "0-2"), ((0, 2, 4, 5, 9), "0, 2, 4-5, 9"), ((1, 1), "1")]
)
def test_successive_ranks_are_joined(ranks: tuple[int, ...], text: str) -> None:
    assert ranks_text(ranks) == text


def test_the_groups_of_a_real_job_of_300_processes(traces: Path) -> None:
    path = traces / "01_cpu_gloo_rank34.json.gz"
    frame = tp.load(path).process_groups
    listed = json.loads(gzip.decompress(path.read_bytes()))["distributedInfo"]["pg_config"]
    assert frame["name"].to_list() == [group["pg_name"] for group in listed]
    assert frame["size"].to_list() == [group["pg_size"] for group in listed]
    assert frame.row(0) == ("0", "default_pg", "cpu:gloo,cuda:gloo", 300, "0-299")


def test_metadata_is_a_table_of_sql() -> None:
    report = Report(make_trace(span("a", 0, 1), model="resnet", sizes=[1, 2]))
    assert report.sql("SELECT value FROM metadata WHERE key LIKE 'mod%'").rows() == [("resnet",)]
    assert json.loads(report.sql("SELECT value FROM metadata WHERE key = 'sizes'").item()) == [1, 2]
