"""The records of a folder of traces lie outside of it, where only this user can write."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from torchprof_magic.store import records
from torchprof_magic.store.records import make_records, records_of


def test_a_folder_of_traces_holds_none_of_its_records(tmp_path: Path) -> None:
    found = make_records(tmp_path / "my traces")
    assert found.is_dir()
    assert tmp_path not in found.parents
    assert found.name.startswith("my_traces-")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_has_one_place_for_its_records_whatever_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "traces")
    monkeypatch.chdir(tmp_path)
    assert len({records_of(Path(name)) for name in ("traces", "link", "./traces/", str(tmp_path / "traces"))}) == 1
    assert records_of(tmp_path / "traces") != records_of(tmp_path / "other")


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="these have other folders for state")
def test_records_are_in_the_usual_folder_for_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(records.STATE_VARIABLE)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert records_of(Path("a")).parent == tmp_path / ".local" / "state" / "torchprof-magic"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert records_of(Path("a")).parent == tmp_path / "state" / "torchprof-magic"


@pytest.mark.skipif(sys.platform == "win32", reason="there the folder of temporary files is always one's own")
def test_without_a_home_directory_records_are_with_the_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(records.STATE_VARIABLE)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    monkeypatch.setattr(records.tempfile, "gettempdir", lambda: str(tmp_path))
    assert records_of(Path("a")).parent == tmp_path / f".torchprof-state-{os.getuid()}"


@pytest.mark.skipif(sys.platform == "win32", reason="files have no owners there")
def test_records_in_a_folder_of_another_user_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "is_own", lambda _found: False)
    with pytest.raises(PermissionError, match="belongs to another user"):
        make_records(tmp_path)
