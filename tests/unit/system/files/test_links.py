from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support import make_trace, span

from torchprof_magic.model.errors import ExportError, StoreError
from torchprof_magic.report.trace_report import Report
from torchprof_magic.store.template import TraceValues
from torchprof_magic.store.trace_store import TraceStore
from torchprof_magic.system.files import links
from torchprof_magic.system.files.atomic import replacing, write_text
from torchprof_magic.system.files.links import follow

REFUSED = "is a link of another user in a folder that anyone can write to"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """Return a folder of this user with a file in it."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "file.json").write_text("mine")
    return folder


def folder_of_mode(tmp_path: Path, mode: int) -> Path:
    folder = tmp_path / f"mode-{mode:o}"
    folder.mkdir()
    folder.chmod(mode)
    return folder


def planted(path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a link that another user seems to own."""
    path.symlink_to(target)
    inode, real = path.lstat().st_ino, links.is_own
    monkeypatch.setattr(links, "is_own", lambda found: found.st_ino != inode and real(found))
    return path


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o1755])
@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_text(path, ("new",)),
        lambda path: Report(make_trace(span("a", 0, 1))).save(path),
        lambda path: Report(make_trace(span("a", 0, 1))).export(path),
        lambda path: Report(make_trace(span("a", 0, 1))).export(path, "collapsed"),
        lambda path: Report(make_trace(span("a", 0, 1))).export(path, "csv"),
        lambda path: Report(make_trace(span("a", 0, 1))).to_html(path),
    ],
    ids=["text", "save", "chrome", "collapsed", "csv", "html"],
)
@pytest.mark.parametrize("name", ["link.json", "link/file.json"])
def test_a_link_of_another_user_in_a_folder_open_to_all_is_refused(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch, mode: int, write: Callable[[Path], Path], name: str
) -> None:
    folder = folder_of_mode(tmp_path, mode)
    link = name.partition("/")[0]
    planted(folder / link, mine if "/" in name else mine / "file.json", monkeypatch)
    with pytest.raises(ExportError, match=f"{link} {REFUSED}.*choose another path"):
        write(folder / name)
    assert (mine / "file.json").read_text() == "mine"
    assert [path.name for path in mine.iterdir()] == ["file.json"]
    assert [path.name for path in folder.iterdir()] == [link]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a link away")
def test_a_link_that_really_belongs_to_another_user_is_refused(tmp_path: Path, mine: Path) -> None:
    link = folder_of_mode(tmp_path, 0o777) / "link.json"
    link.symlink_to(mine / "file.json")
    os.chown(link, 12345, -1, follow_symlinks=False)
    with pytest.raises(ExportError, match=REFUSED):
        write_text(link, ("new",))
    assert (mine / "file.json").read_text() == "mine"


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o755])
def test_a_link_of_the_users_own_works_in_every_folder(tmp_path: Path, mine: Path, mode: int) -> None:
    folder = folder_of_mode(tmp_path, mode)
    (folder / "to-file.json").symlink_to(mine / "file.json")
    (folder / "to-folder").symlink_to(Path("..") / "mine")
    write_text(folder / "to-file.json", ("new",))
    write_text(folder / "to-folder" / "other.json", ("new",))
    assert {path.name: path.read_text() for path in mine.iterdir()} == {"file.json": "new", "other.json": "new"}
    assert (folder / "to-file.json").is_symlink()


def test_a_link_of_another_user_works_in_a_folder_that_only_its_owner_can_write(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = planted(folder_of_mode(tmp_path, 0o755) / "link.json", mine / "file.json", monkeypatch)
    write_text(link, ("new",))
    assert (mine / "file.json").read_text() == "new"


def test_what_is_kept_goes_through_no_such_link_either(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = planted(folder_of_mode(tmp_path, 0o777) / "link", mine, monkeypatch)
    store = TraceStore(folder=link, overwrite=True)
    with pytest.raises(StoreError, match=REFUSED):
        store.prepare()
    with pytest.raises(StoreError, match=REFUSED):
        store.put(mine / "file.json", "file.json", TraceValues())
    with pytest.raises(PermissionError, match=REFUSED), replacing(link / "file.json"):
        pass
    assert [path.name for path in mine.iterdir()] == ["file.json"]
    assert (mine / "file.json").read_text() == "mine"


def test_a_path_is_followed_as_the_system_follows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "to-b").symlink_to(tmp_path / "a" / "b")
    (tmp_path / "twice").symlink_to("to-b/../b/./new")
    monkeypatch.chdir(tmp_path)
    for name in ("a", "to-b", "to-b/..", "to-b/../x", "twice", "no/such/../file", ".", "a" * 300):
        assert follow(Path(name)) == Path(os.path.realpath(name)), name
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        follow(Path("loop"))
