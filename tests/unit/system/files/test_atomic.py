from __future__ import annotations

import csv
import errno
import gzip
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from chrome_validator import validate
from support import allocation, annotation, kernel, launch, make_trace, span

from torchprof_magic.exporters.csv import write_csv
from torchprof_magic.loading import load
from torchprof_magic.model.errors import ExportError
from torchprof_magic.report.trace_report import Report
from torchprof_magic.report.views import TABLES
from torchprof_magic.system.files.atomic import replacing, write_text


def report() -> Report:
    return Report(
        make_trace(
            annotation("ProfilerStep#2", 0, 100),
            span("=HYPERLINK(1)", 5, 60),
            launch(10, 2, correlation=1),
            kernel("gemm", 20, 70, correlation=1),
            allocation(12, -512, 512),
        )
    )


def test_a_file_is_replaced_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("before")

    def pieces() -> Iterator[str]:
        yield "half"
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_text(path, pieces())
    assert path.read_text() == "before"
    assert [one.name for one in tmp_path.iterdir()] == ["report.json"]


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    path.write_text("before")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        ExportError, match=r"report\.json could not be written \(No space left on device\); choose another path"
    ):
        write_text(path, ("half",))
    assert path.read_text() == "before"
    assert [one.name for one in tmp_path.iterdir()] == ["report.json"]


def test_a_link_stays_a_link_to_the_new_file(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("before")
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_text(tmp_path / "link.txt", ("after",))
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "after"


def test_folders_and_devices_are_never_replaced(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="is a folder; choose another path"):
        write_text(tmp_path, ("text",))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ExportError, match="is not a file; choose another path"):
        write_text(tmp_path / "pipe", ("text",))


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"No such file or directory.*choose another path"):
        report().export(tmp_path / "no" / "such.csv")


@pytest.mark.parametrize("write", [Report.save, Report.export, Report.to_html])
@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("a" * 300 + ".json", "File name too long"),
        ("a\0.json", "not a valid file name"),
        ("", "not a valid file name"),
        ("~no-such-user/a.json", "not a valid file name"),
        (5, "not a valid file name"),
    ],
)
def test_an_invalid_path_is_refused(write: Callable[[Report, object], Path], path: object, says: str) -> None:
    with pytest.raises(ExportError, match=says):
        write(report(), path)


def test_the_home_folder_can_be_written_as_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert report().save("~/run.torchprof") == tmp_path / "run.torchprof"
    assert report().export("~/run.csv") == tmp_path / "run.csv"
    assert load("~/run.torchprof").events.height == report().events.height


def test_a_new_file_has_the_permissions_that_the_umask_gives(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", ("text",))
    (tmp_path / "b.txt").write_text("text")
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "b.txt").stat().st_mode


def test_nobody_else_can_read_a_file_that_is_being_written(tmp_path: Path) -> None:
    with replacing(tmp_path / "a.txt"):
        (part,) = tmp_path.iterdir()
        assert (part.stat().st_mode & 0o777, part.is_symlink()) == (0o600, False)


def cells(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "\0", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_csv_text_that_a_spreadsheet_would_run_gets_an_apostrophe(tmp_path: Path, start: str) -> None:
    frame = pl.DataFrame({"name": [f"{start}1+1", "a=b", None], "delta": [-5, 3, None]})
    assert cells(write_csv(frame, tmp_path / "a.csv")) == [
        ["name", "delta"],
        [f"'{start}1+1", "-5"],
        ["a=b", "3"],
        ["", ""],
    ]
    assert cells(write_csv(frame, tmp_path / "a.csv", safe=False))[1] == [f"{start}1+1", "-5"]


def test_csv_keeps_commas_quotes_lines_and_letters(tmp_path: Path) -> None:
    names = ['a,"b"', "two\nlines", "模型 😀"]
    path = write_csv(pl.DataFrame({"name": pl.Series(names, dtype=pl.Categorical)}), tmp_path / "a.csv")
    assert [row[0] for row in cells(path)] == ["name", *names]


def test_csv_of_every_table_has_the_columns_and_rows_of_its_frame(tmp_path: Path) -> None:
    found = report()
    for table in TABLES:
        rows = cells(found.export(tmp_path / f"{table}.csv", table=table))
        frame = frame_called(found, table)
        assert rows[0] == frame.columns, table
        assert len(rows) == frame.height + 1, table
    assert cells(found.export(tmp_path / "memory.csv", table="memory_records"))[1][2] == "-512"


def frame_called(found: Report, table: str) -> pl.DataFrame:
    """Return the frame of a table, from the part of the report that has it."""
    if table == "memory_records":
        return found.trace.memory
    if table == "metadata":  # a dict in Python
        return found.sql("SELECT * FROM metadata")
    frame = getattr(found.snapshot if table in ("segments", "blocks", "history") else found, table)
    return frame.drop("addresses", strict=False)  # lists, which a CSV file cannot hold


def test_a_csv_export_holds_the_op_table_by_default(tmp_path: Path) -> None:
    rows = cells(report().export(tmp_path / "run.csv"))
    assert rows[0][0] == "name"
    assert rows[1][0] == "'=HYPERLINK(1)"


def test_the_ending_of_the_path_selects_the_format(tmp_path: Path) -> None:
    found = report()
    assert validate(found.export(tmp_path / "a.JSON").read_bytes())
    assert validate(gzip.decompress(found.export(tmp_path / "a.json.gz").read_bytes()))
    assert b"speedscope" in found.export(tmp_path / "a.speedscope.json").read_bytes()[:99]
    assert found.export(tmp_path / "a.folded").read_text().startswith("ProfilerStep#2 ")
    assert found.export(tmp_path / "a.html").read_text().startswith("<!DOCTYPE html>")
    assert found.export(tmp_path / "a.torchprof").read_bytes().startswith(b"PK")


def test_a_named_format_wins_over_the_path(tmp_path: Path) -> None:
    path = report().export(tmp_path / "a.txt", format="csv")
    assert pl.read_csv(io.BytesIO(path.read_bytes())).height == report().ops.height


def test_an_unknown_format_ending_table_or_metric_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="choose from chrome, speedscope, collapsed, csv, html, torchprof"):
        report().export(tmp_path / "a.csv", format="xml")
    with pytest.raises(ValueError, match=r"cannot tell the export format from 'a\.dat'; end it in one of \.json, "):
        report().export(tmp_path / "a.dat")
    with pytest.raises(ValueError, match="choose from graph_ops, graph_tensors, ops, lines, modules"):
        report().export(tmp_path / "a.csv", table="pies")
    with pytest.raises(ValueError, match="choose from self_cpu_time"):
        report().export(tmp_path / "a.txt", metric="pies")
    assert list(tmp_path.iterdir()) == []
