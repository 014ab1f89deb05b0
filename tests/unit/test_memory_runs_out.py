"""Memory that runs out while a file is read or written: one line says so, and nothing else is lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from support import chrome, make_trace, span

from torchprof_magic.ingest import opening
from torchprof_magic.loading import load
from torchprof_magic.model.errors import ExportError, IngestError
from torchprof_magic.report.trace_report import Report
from torchprof_magic.system.files.atomic import exporting

if TYPE_CHECKING:
    from pathlib import Path


def run_out(*_: object, **__: object) -> None:
    raise MemoryError


def test_a_file_that_memory_does_not_hold_is_named_and_can_be_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "trace.json"
    file.write_bytes(chrome(span("aten::mm", 0, 5)))
    with monkeypatch.context() as patched:
        patched.setattr(opening, "read_file", run_out)
        with pytest.raises(IngestError, match=r"trace\.json: memory ran out while it was read\. Free memory") as raised:
            load(file)
    assert raised.value.__context__ is None  # whose traceback would hold what was read
    assert load(file).events.height == 1


def half_written(_source: object, target: Path) -> None:
    with exporting(target) as file:
        file.write(b"half of it")
        raise MemoryError


@pytest.mark.parametrize(
    ("name", "part", "failing"),
    [
        (
            "a.json",
            "torchprof_magic.report.trace_report.choose_exporter",
            lambda *_: SimpleNamespace(write=half_written),
        ),
        ("a.html", "torchprof_magic.report.trace_forms.build_page", run_out),
        ("a.torchprof", "torchprof_magic.exporters.saved.asdict", run_out),
        ("a.csv", "torchprof_magic.report.tables.Tables.flat", run_out),
    ],
)
def test_a_file_that_cannot_be_made_in_memory_leaves_the_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, part: str, failing: object
) -> None:
    trace = make_trace(span("aten::mm", 0, 5))
    Report(trace).export(tmp_path / name)
    before = (tmp_path / name).read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(part, failing)
        with pytest.raises(ExportError, match="was not written, because memory ran out; free memory"):
            Report(trace).export(tmp_path / name)
    assert (tmp_path / name).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert Report(trace).export(tmp_path / name).read_bytes()
