"""Many ranks as one report: which files count, and what is told of the others."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import made_ranks
import pytest
from made_ranks import device_step, write_job, write_rank

import torchprof_magic as tp
from torchprof_magic.jobs.choose import listed, missing_ranks, rank_named

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic import RanksReport


def codes(report: RanksReport) -> list[str]:
    return [problem.code for problem in report.problems if problem.code.startswith("ranks.")]


@pytest.mark.parametrize("form", ["list", "folder", "glob", "text", "url"])
def test_a_list_a_folder_a_pattern_or_a_url_is_a_job(tmp_path: Path, form: str) -> None:
    paths = write_job(tmp_path)
    given = {
        "list": paths,
        "folder": tmp_path,
        "glob": str(tmp_path / "*.json"),
        "text": [str(path) for path in paths],
        "url": f"file://{tmp_path}/rank*.json",
    }[form]
    report = tp.load(given)  # type: ignore[call-overload]
    assert isinstance(report, tp.RanksReport)
    assert report.ranks["rank"].to_list() == [0, 1, 2, 3]
    assert codes(report) == []


def test_a_remote_folder_is_a_job(tmp_path: Path) -> None:
    import fsspec  # noqa: PLC0415

    system = fsspec.filesystem("memory")
    for path in write_job(tmp_path, ranks=2):
        system.pipe(f"/job/{path.name}", path.read_bytes())
    report = tp.load("memory://job/")
    assert isinstance(report, tp.RanksReport)
    assert report.ranks["rank"].to_list() == [0, 1]
    assert report.rank(1).steps.height == 3
    system.rm("/job", recursive=True)


def test_one_path_is_still_one_report(tmp_path: Path) -> None:
    assert isinstance(tp.load(write_job(tmp_path)[0]), tp.Report)


def test_a_name_with_brackets_is_one_file(tmp_path: Path) -> None:
    path = write_rank(tmp_path, 0, *device_step(1), name="run[1].json")
    assert isinstance(tp.load(path), tp.Report)


def test_ten_comes_after_nine(tmp_path: Path) -> None:
    for rank in range(11):
        write_rank(tmp_path, rank, *device_step(1), world_size=11, distributedInfo=None, name=f"worker{rank}.json")
    assert tp.load(str(tmp_path / "*")).ranks["rank"].to_list() == list(range(11))


def test_a_damaged_an_empty_and_a_missing_file_are_problems_and_not_the_end(tmp_path: Path) -> None:
    paths = write_job(tmp_path)
    paths[1].write_bytes(b"")
    paths[2].write_bytes(b"\x00\xff</script>")
    report = tp.load([*paths, tmp_path / "gone.json"])
    assert report.ranks["rank"].to_list() == [0, 3]
    assert codes(report) == [*["ranks.unreadable"] * 3, "ranks.missing"]
    assert "rank1.json" in report.problems[0].message
    missing = next(problem for problem in report.problems if problem.code == "ranks.missing")
    assert missing.message == "Loaded 2 of 4 ranks. Missing: rank 1\N{EN DASH}2."


def test_no_readable_file_is_an_error_with_the_reasons(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_bytes(b"")
    with pytest.raises(tp.IngestError, match=r"no rank could be read\. .*rank0\.json"):
        tp.load(tmp_path)
    with pytest.raises(tp.IngestError, match="there are no trace files"):
        tp.load(str(tmp_path / "*.gz"))
    with pytest.raises(tp.IngestError, match="no files were given"):
        tp.load([])


def test_a_file_that_is_being_written_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    paths = write_job(tmp_path)
    text = paths[3].read_bytes()
    paths[3].write_bytes(text[: len(text) * 3 // 4])
    (tmp_path / ".torchprof-0123456789abcdef.part").write_bytes(b"not yet")
    report = tp.load(tmp_path)
    assert report.ranks["rank"].to_list() == [0, 1, 2, 3]
    assert codes(report) == ["ranks.unfinished"]
    assert "rank 3" in report.problems[0].message


def test_two_files_of_a_rank_are_told_and_the_fuller_one_counts(tmp_path: Path) -> None:
    paths = write_job(tmp_path)
    write_rank(tmp_path, 2, *device_step(1), name="again2.json")
    report = tp.load(tmp_path)
    assert report.ranks["rank"].to_list() == [0, 1, 2, 3]
    assert report.ranks.filter(report.ranks["rank"] == 2)["file"].item() == str(paths[2])
    assert codes(report) == ["ranks.doubled"]
    assert "again2.json" in report.problems[0].message


def test_files_of_another_run_are_left_out(tmp_path: Path) -> None:
    write_job(tmp_path)
    hour_us = 3.6e9
    write_rank(tmp_path, 1, *device_step(1), clock_us=-hour_us, name="old1.json")
    write_rank(tmp_path, 1, *device_step(1), world_size=2, name="small1.json")
    report = tp.load(tmp_path)
    assert report.ranks["rank"].to_list() == [0, 1, 2, 3]
    assert codes(report) == ["ranks.other_run"]
    assert report.problems[0].count == 2


def test_a_rank_whose_clock_is_hours_off_is_of_the_run(tmp_path: Path) -> None:
    write_job(tmp_path)
    events = [event for number in (1, 2, 3) for event in device_step(number)]
    write_rank(tmp_path, 3, *events, clock_us=7.2e9)
    report = tp.load(tmp_path)
    assert codes(report) == []
    assert report.ranks["clock_offset_ns"].to_list()[3] == 7_200_000_000_000


def test_files_without_any_rank_are_numbered_in_order(tmp_path: Path) -> None:
    for letter in "ab":
        write_rank(tmp_path, 0, *device_step(1), name=f"{letter}.json", distributedInfo={})
    report = tp.load(tmp_path)
    assert report.ranks["rank"].to_list() == [0, 1]
    assert codes(report) == ["ranks.unnumbered"]


def test_a_digit_that_is_no_number_is_a_letter_of_a_name(tmp_path: Path) -> None:
    for letter in "ab":
        write_rank(tmp_path, 0, *device_step(1), name=f"1²2{letter}.json", distributedInfo={})
    assert tp.load(tmp_path).ranks["rank"].to_list() == [0, 1]


def test_a_file_without_a_rank_beside_others_that_have_one_is_left_out(tmp_path: Path) -> None:
    write_job(tmp_path, ranks=2)
    (tmp_path / "settings.json").write_text('{"traceEvents": []}')
    report = tp.load(tmp_path)
    assert report.ranks["rank"].to_list() == [0, 1]
    assert codes(report) == ["ranks.other_run"]


def test_tables_answer_queries_and_only_a_page_can_be_exported(tmp_path: Path) -> None:
    write_job(tmp_path, {3: 200.0})
    report = tp.load(tmp_path)
    assert report.sql("SELECT rank FROM ranks ORDER BY caused_wait_ns DESC LIMIT 1").item() == 3
    assert report.export(tmp_path / "page.html").exists()
    with pytest.raises(ValueError, match="must end in"):
        report.export(tmp_path / "trace.json")


def test_ranks_that_share_no_step_are_told(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, *device_step(1), world_size=2)
    write_rank(tmp_path, 1, *device_step(2), world_size=2, clock_us=-1000)
    report = tp.load(tmp_path)
    assert report.collectives.height == 0
    assert codes(report) == ["ranks.no_collectives"]
    assert report.verdict.kind == "none"


def test_packed_files_and_a_hostile_name_are_read(tmp_path: Path) -> None:
    if os.sep == "\\":
        pytest.skip("this system has no such file names")
    path = write_rank(tmp_path, 0, *device_step(1), world_size=1, name="<script><u>.json")
    (tmp_path / "rank1.json.gz").write_bytes(gzip.compress(path.read_bytes()))
    report = tp.load([path, tmp_path / "rank1.json.gz"])
    assert "<u>" not in report._repr_html_()


def test_the_rank_is_in_the_name() -> None:
    names = (
        "rank3.json",
        "run-rank12.pt.trace.json.gz",
        "x/worker_4.170.json",
        "rank7/trace.json",
        "frank.json",
        "a.json",
    )
    assert [rank_named(name) for name in names] == [3, 12, 4, 7, None, None]


def test_numbers_are_listed_in_runs() -> None:
    assert listed([0, 3, 4, 5, 9]) == "0, 3\N{EN DASH}5, 9"
    assert listed([2 * number for number in range(20)]).endswith("22, …")
    assert missing_ranks([0, 2], 4) == [1, 3]
    assert missing_ranks([0], None) == []


def test_the_report_of_a_rank_is_its_own_file(tmp_path: Path) -> None:
    write_job(tmp_path)
    report = tp.load(tmp_path)
    assert report.rank(2) is report.rank(2)
    assert report.rank(2).trace.meta.rank == 2
    with pytest.raises(ValueError, match="no rank 9; the ranks here are: 0\N{EN DASH}3"):
        report.rank(9)


def test_a_script_without_a_guard_is_not_run_again_by_the_workers(tmp_path: Path) -> None:
    write_job(tmp_path)
    script = tmp_path / "script.py"
    script.write_text(
        "import torchprof_magic as tp\n"
        "from torchprof_magic.jobs import workers\n"
        "workers.LEAST_S = 0\n"
        "print('once')\n"
        f"print(tp.load({str(tmp_path / '*.json')!r}))\n"
    )
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=True)
    assert found.stdout.splitlines()[0] == "once"
    assert "4 of 4 ranks" in found.stdout.splitlines()[1]
    assert len(found.stdout.splitlines()) == 2


def test_the_summary_is_text_or_json(tmp_path: Path) -> None:
    write_job(tmp_path, {3: 200.0})
    report = tp.load(tmp_path)
    assert "Rank 3 is late" in report.summary()
    facts = json.loads(report.summary("json"))
    assert facts["verdict"]["rank"] == 3
    assert len(facts["ranks"]) == 4
    with pytest.raises(ValueError, match="must be 'text', 'markdown' or 'json'"):
        report.summary("html")  # type: ignore[arg-type]


def test_the_page_opens_a_rank_in_its_place_and_all_ranks_again(tmp_path: Path) -> None:
    write_job(tmp_path)
    report = tp.load(tmp_path)
    widget, sent = report.widget, []
    widget.send = lambda content, _buffers=None: sent.append(content)
    first = widget._header
    widget._answer(widget, {"kind": "open", "id": 1, "rank": 2}, [])
    assert sent[-1] == {"kind": "opened", "id": 1}
    assert json.loads(widget._header)["parent"] == "All ranks"
    assert json.loads(widget._header)["title"] == "rank2.json"
    widget._answer(widget, {"kind": "open", "id": 2, "rank": 77}, [])
    assert "no rank 77" in sent[-1]["message"]
    widget._answer(widget, {"kind": "open", "id": 3, "rank": -1}, [])
    assert widget._header == first
    widget.close()


def test_a_file_of_all_ranks_works_without_a_kernel(tmp_path: Path) -> None:
    write_job(tmp_path)
    page = tp.load(tmp_path).to_html(tmp_path / "ranks.html").read_text()
    assert '"ranks"' in page.replace("\\u0022", '"')
    assert made_ranks.LATE_LINE.split("(")[0] not in page.split("<main", maxsplit=1)[0]
