"""Limits of a run for continuous integration: ``report.check`` and ``python -m torchprof_magic check``."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from support import allocation, annotation, kernel, launch, make_trace, span

from torchprof_magic.__main__ import main
from torchprof_magic.report.trace_report import Report

if TYPE_CHECKING:
    from pathlib import Path


def run(mm_us: float = 100, *, steps: int = 8, peak: int = 4_096, syncs: int = 0) -> Report:
    """A run whose steps take 600 us and those of one op, so that only that op can make them longer."""
    events = [allocation(10, peak, peak)]
    for number in range(steps):
        at = number * 2_000
        events += [annotation(f"ProfilerStep#{number}", at, 600 + mm_us), span("aten::mm", at + 1, mm_us)]
        events += [span("aten::add", at + mm_us + 5, 300)]
    for number in range(syncs):
        at = number * 2_000 + 500
        events += [launch(at, 5, 1 + number), kernel("gemm", at + 6, 20, 1 + number)]
        events += [span("cudaStreamSynchronize", at + 10, 20, "cuda_runtime", correlation=100 + number)]
    return Report(make_trace(*events))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    run().save(tmp_path / "base.torchprof")
    run(105).save(tmp_path / "same.torchprof")
    run(400).save(tmp_path / "slow.torchprof")
    run(400, steps=3).save(tmp_path / "few.torchprof")
    return tmp_path


def check(files: Path, name: str, *more: str) -> int:
    return main(["check", str(files / f"{name}.torchprof"), "--against", str(files / "base.torchprof"), *more])


@pytest.mark.parametrize(("name", "status"), [("same", 0), ("slow", 1), ("few", 3)])
def test_passed_failed_and_unclear_are_exit_statuses(files: Path, name: str, status: int) -> None:
    # 705 us beside 700, 1,000 beside 700, and three steps are too few to tell.
    assert check(files, name, "--max-step", "+5%") == status


def test_a_slower_run_passes_where_it_may_be_slower(files: Path) -> None:
    assert check(files, "slow", "--max-step", "+50%") == 0


def test_broken_limits_are_worth_more_than_unclear_ones(files: Path) -> None:
    assert check(files, "few", "--max-step", "+5%", "--no", "aten::mm") == 1


def test_the_table_says_what_was_found(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(files, "same", "--max-peak", "1KiB", "--no", "aten::relu", "--no", "sync")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "same.torchprof: failed (1 failed of 4 limits)"
    assert [line.split()[0] for line in lines[2:6]] == ["✓", "✗", "✓", "✓"]
    assert lines[3].split("  ")[-2:] == ["at most 1 KiB", "4 KiB"]


def test_junit_has_a_case_for_each_limit(files: Path) -> None:
    check(files, "few", "--max-step", "+5%", "--no", "aten::mm", "--junit", str(files / "out.xml"))
    suite = ET.parse(files / "out.xml").getroot()  # noqa: S314 - our own file
    assert suite.attrib == {"name": "few.torchprof", "tests": "2", "failures": "1", "skipped": "1"}
    assert [[child.tag for child in case] for case in suite] == [["skipped"], ["failure"]]
    assert suite[1][0].get("message") == "3 calls"


def test_markdown_is_a_table_for_a_pull_request(files: Path) -> None:
    check(files, "slow", "--max-step", "+5%", "--markdown", str(files / "out.md"))
    text = (files / "out.md").read_text(encoding="utf-8")
    assert text.startswith("### Profile of `slow.torchprof`: failed (1 failed of 1 limit)")
    assert "| ✗ | step against baseline | at most +5 % |" in text


def test_a_hostile_name_of_a_range_does_not_leave_its_cell_or_the_xml() -> None:
    name = "evil | <b>\x1b[0m\x00"
    events = [annotation("ProfilerStep#0", 0, 100), span(name, 10, 20)]
    found = Report(make_trace(*events)).check(no=[name])
    assert found.status == "failed"
    row = next(line for line in found.markdown().splitlines() if line.startswith("| ✗"))
    assert row.replace("\\|", "").count("|") == 5
    assert ET.fromstring(found.junit().partition("?>")[2])[0].get("name") is not None  # noqa: S314 - our own text
    assert "\x1b" not in found.junit() + found.markdown() + str(found)


def test_calls_that_block_are_counted_in_the_steps_that_count() -> None:
    found = run(syncs=3).check(no="sync")
    assert [(row.what, row.found, row.status) for row in found.rows] == [("sync calls", "3 calls", "failed")]
    assert run(syncs=0).check(no="sync").status == "passed"


def test_a_higher_peak_than_that_of_another_run_fails_beyond_its_share() -> None:
    assert run(peak=4_500).check(max_peak="+10%", against=run(), max_step="1 s").status == "passed"
    found = run(peak=4_600).check(max_peak="+10%", against=run(), max_step="1 s")
    assert found.rows[-1].found == "4 KiB → 4.49 KiB"
    assert found.status == "failed"


def test_a_limit_that_cannot_be_checked_is_broken() -> None:
    assert Report(make_trace(span("aten::mm", 0, 10))).check(max_step="1 s", max_peak="1 GB").status == "failed"


def test_a_kept_run_is_found_by_its_name(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCHPROF_RUNS", str(files / "kept"))
    (files / "kept").mkdir()
    (files / "base.torchprof").rename(files / "kept" / "monday.torchprof")
    (files / "kept" / "monday.json").write_text(
        '{"name": "monday", "title": "a", "unix_s": 1, "steps": 8, "is_named": true}', encoding="utf-8"
    )
    assert main(["check", str(files / "slow.torchprof"), "--against", "monday", "--max-step", "+5%"]) == 1
    assert main(["check", str(files / "slow.torchprof"), "--against", "tuesday"]) == 4
    assert "tuesday: no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--max-step", "5"], "max_step must be a number of ms"),
        (["--max-step", "0 ms"], "max_step must be"),
        (["--max-peak", "lots"], "max_peak must be a number of bytes"),
        (["--no", "synch"], "did you mean 'sync'?"),
        (["--junit", "/no/such/folder/x.xml"], "it cannot be written"),
    ],
)
def test_what_cannot_be_checked_or_written_is_said(
    files: Path, capsys: pytest.CaptureFixture[str], more: list[str], words: str
) -> None:
    assert check(files, "same", *more) == 4
    assert words in capsys.readouterr().err


def test_a_share_without_another_run_is_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(files / "same.torchprof"), "--max-step", "+5%"]) == 4
    assert "needs a run to compare with" in capsys.readouterr().err


def test_wrong_arguments_have_the_usual_status() -> None:
    with pytest.raises(SystemExit) as left:
        main(["check"])
    assert left.value.code == 2
