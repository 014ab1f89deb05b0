"""Files are locked, deleted and replaced in the order that Windows needs."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from windows import FakeMsvcrt, be_windows

from torchprof_magic.system.files import atomic, locks
from torchprof_magic.system.files.urls import local_path

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="which files are open is asked of Linux")


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMsvcrt]:
    fake = be_windows(monkeypatch)
    importlib.import_module("torchprof_magic.system.files.windows_locks")
    module: Any = importlib.reload(sys.modules["torchprof_magic.system.files.windows_locks"])
    monkeypatch.setattr(locks, "lock", module.lock)
    monkeypatch.setattr(locks, "unlock", module.unlock)
    yield fake
    sys.modules.pop("torchprof_magic.system.files.windows_locks", None)


def opened(path: Path) -> int:
    return os.open(path, locks.OPEN_OWN | os.O_CREAT, 0o666)


def test_a_lock_is_taken_once_and_leaves_the_position_in_the_file(windows: FakeMsvcrt, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    first, second = opened(path), opened(path)
    os.lseek(first, 4, os.SEEK_SET)
    assert locks.take(first) is locks.Lock.TAKEN
    assert os.read(first, 2) == b"45"
    assert locks.take(second) is locks.Lock.BUSY
    locks.release(first)
    assert windows.held == {}
    assert locks.take(second) is locks.Lock.TAKEN
    locks.release(second)


def test_a_system_that_refuses_locks_has_none(windows: FakeMsvcrt, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    windows.locking = refuse  # type: ignore[method-assign]
    handle = opened(tmp_path / "file")
    assert locks.take(handle) is locks.Lock.NONE
    locks.release(handle)


def test_a_folder_is_locked_against_another_writer(
    windows: FakeMsvcrt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 0.0)
    with locks.folder_lock(tmp_path) as first, locks.folder_lock(tmp_path) as second:
        assert (first, second) == (locks.Lock.TAKEN, locks.Lock.BUSY)
    with locks.folder_lock(tmp_path) as third:
        assert third is locks.Lock.TAKEN
    assert windows.held == {}


def test_a_claimed_file_is_released_before_it_is_deleted(windows: FakeMsvcrt, tmp_path: Path) -> None:
    handle = locks.claim(tmp_path / "claim")
    assert handle is not None
    assert locks.claim(tmp_path / "claim") is None
    locks.drop(tmp_path / "claim", handle)
    assert list(tmp_path.iterdir()) == []
    assert windows.held == {}


def test_a_part_file_is_closed_before_it_is_deleted(windows: FakeMsvcrt, tmp_path: Path) -> None:
    def break_off() -> None:
        with atomic.part_file(tmp_path) as part:
            os.write(part.handle, b"half")
            raise RuntimeError("broken off")

    with pytest.raises(RuntimeError, match="broken off"):
        break_off()
    assert list(tmp_path.iterdir()) == []
    assert windows.held == {}


@pytest.mark.usefixtures("windows")
def test_a_file_is_replaced_and_its_part_file_goes(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.write_text("before")
    atomic.write_text(target, ["after"])
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("report.json", "after")]


@pytest.mark.usefixtures("windows")
def test_left_part_files_are_deleted_but_not_those_that_are_being_written(tmp_path: Path) -> None:
    left = tmp_path / ".torchprof-0123456789abcdef.part"
    left.write_bytes(b"half")
    with atomic.part_file(tmp_path) as part:
        atomic.delete_left_parts(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == [part.path.name]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("text", ["file:///C:/runs/a.json", "file://localhost/C:/runs/a.json"])
def test_the_drive_in_a_url_has_no_slash_before_it(text: str) -> None:
    assert str(local_path(text)) == "C:/runs/a.json"
