from __future__ import annotations

import sys
from pathlib import Path

import pytest

from torchprof_magic.model.errors import StoreError
from torchprof_magic.runs.run_library import KeptRun, RunLibrary, check_name, data_folder


def run(name: str, unix_s: float = 0, *, is_named: bool = False) -> KeptRun:
    return KeptRun(name=name, title="In [1]", unix_s=unix_s, steps=3, step_ns=5e6, is_named=is_named)


def write(path: Path) -> None:
    path.write_bytes(b"data")


@pytest.fixture
def library(tmp_path: Path) -> RunLibrary:
    return RunLibrary(tmp_path / "runs")


def test_a_kept_run_is_listed_and_found_by_its_name(library: RunLibrary) -> None:
    path = library.keep(run("base"), write)
    assert library.runs() == [run("base")]
    assert library.path_of("base") == path
    assert path.read_bytes() == b"data"


def test_runs_without_a_name_are_limited_and_named_ones_are_not(library: RunLibrary) -> None:
    library.keep(run("mine", 0, is_named=True), write)
    for number in range(5):
        library.keep(run(f"run-{number}", number + 1), write, most=2)
    assert [each.name for each in library.runs()] == ["mine", "run-3", "run-4"]
    assert len(list(library.path_of("mine").parent.iterdir())) == 6


def test_a_renamed_run_is_named_and_its_old_name_is_free(library: RunLibrary) -> None:
    library.keep(run("run-1"), write)
    library.rename("run-1", "before")
    assert library.runs() == [run("before", is_named=True)]
    with pytest.raises(StoreError, match="no run named 'run-1' is kept; the kept runs are: before"):
        library.path_of("run-1")


def test_a_name_that_is_taken_is_refused(library: RunLibrary) -> None:
    library.keep(run("a"), write)
    library.keep(run("b"), write)
    with pytest.raises(StoreError, match="kept already"):
        library.rename("a", "b")
    assert [each.name for each in library.runs()] == ["a", "b"]


def test_a_deleted_run_leaves_no_file(library: RunLibrary) -> None:
    folder = library.keep(run("a"), write).parent
    library.delete("a")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "x" * 81, "a\n", "a\\b", "last"])
def test_a_name_that_is_no_file_name_everywhere_is_refused(library: RunLibrary, name: str) -> None:
    with pytest.raises(StoreError, match="name"):
        check_name(name)
    with pytest.raises(StoreError):
        library.delete(name)


def test_foreign_and_damaged_files_are_ignored(library: RunLibrary) -> None:
    folder = library.keep(run("a"), write).parent
    (folder / "b.json").write_text("{not json")
    (folder / "c.json").write_text('{"name": "other", "title": "", "unix_s": 0, "steps": 1}')
    (folder / "notes.txt").write_text("hello")
    assert [each.name for each in library.runs()] == ["a"]


def test_an_empty_library_has_no_runs_and_no_folder(library: RunLibrary, tmp_path: Path) -> None:
    assert library.runs() == []
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="could not be kept"):
        RunLibrary(tmp_path / "file").keep(run("a"), write)


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the folder of Linux")
def test_the_folder_follows_the_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TORCHPROF_RUNS", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert data_folder() == tmp_path / "torchprof-magic" / "runs"
    monkeypatch.setenv("TORCHPROF_RUNS", str(tmp_path / "other"))
    assert data_folder() == tmp_path / "other"
