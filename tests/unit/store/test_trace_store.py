from __future__ import annotations

import errno
import gzip
import json
import os
import re
import subprocess
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from forking import forked_python

from torchprof_magic.model.errors import OptionsError, StoreError
from torchprof_magic.store import index, journal, marks
from torchprof_magic.store.records import records_of
from torchprof_magic.store.template import TraceValues
from torchprof_magic.store.trace_store import NameTakenError, StoredFile, TraceStore, saved_traces
from torchprof_magic.system.files import atomic, locks

RAW = b'{"traceEvents": [' + b'{"ph": "X"},' * 1000 + b"{}]}"
NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)
VALUES = TraceValues(timestamp=NOON)
MARK_BYTES = len('"torchprofStoreId": "0123456789abcdef",')


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "raw.json"
    path.write_bytes(RAW)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "traces"


def put(store: TraceStore, source: Path, *cycles: int, rank: int = 0, name: str = "{cycle}.json") -> list[StoredFile]:
    return [
        store.put(source, name.format(cycle=cycle, rank=rank), replace(VALUES, cycle=cycle, step=10 * cycle, rank=rank))
        for cycle in cycles
    ]


def unmarked(data: bytes) -> bytes:
    """Return a stored trace without the id that the store put into it, which must be there."""
    rest, count = re.subn(rb'^{"torchprofStoreId": "[0-9a-f]{16}",', b"{", data)
    assert count == 1
    return rest


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(".torchprof"))


def listed_in(folder: Path) -> Path:
    """Return the file that lists the traces of a folder."""
    return records_of(folder) / index.INDEX


def states(folder: Path) -> dict[str, str]:
    return {saved.path.name: saved.state for saved in saved_traces(folder)}


def test_a_file_is_stored_under_its_name_and_the_source_stays(source: Path, folder: Path) -> None:
    assert put(TraceStore(folder=folder), source, 7) == [StoredFile(path=folder / "7.json")]
    assert unmarked((folder / "7.json").read_bytes()) == RAW == source.read_bytes()
    with pytest.raises(OptionsError):
        put(TraceStore(folder=folder), source, 0, name="../{cycle}.json")


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\x80\x04", b'{"traceEv', b' {\n "a": 1}'])
@pytest.mark.parametrize("name", ["0.json", "0.json.gz"])
def test_a_file_is_stored_as_it_is_but_for_the_id_in_a_trace(
    source: Path, folder: Path, content: bytes, name: str
) -> None:
    source.write_bytes(content)
    (stored,) = put(TraceStore(folder=folder), source, 0, name=name)
    found = stored.path.read_bytes()
    assert re.sub(rb'"torchprofStoreId": "[0-9a-f]{16}",', b"", unpacked(found)) == content


def unpacked(data: bytes) -> bytes:
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def test_a_file_that_exists_is_left_alone_unless_asked(source: Path, folder: Path) -> None:
    folder.mkdir()
    (folder / "0.json").write_text("mine")
    with pytest.raises(NameTakenError, match=r"a file of this name exists.*--overwrite") as caught:
        put(TraceStore(folder=folder), source, 0)
    assert str(source) in str(caught.value)
    assert (folder / "0.json").read_text() == "mine"
    assert source.exists()
    put(TraceStore(folder=folder, overwrite=True), source, 0)
    assert unmarked((folder / "0.json").read_bytes()) == RAW


def test_a_file_that_appears_at_the_last_moment_is_left_alone(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(part: Path, target: Path) -> None:
        target.write_text("mine")
        real(part, target)

    real = os.link
    monkeypatch.setattr(os, "link", link)
    with pytest.raises(NameTakenError):
        put(TraceStore(folder=folder), source, 0)
    assert (folder / "0.json").read_text() == "mine"
    assert saved_traces(folder) == ()


def test_a_file_system_without_hard_links_works(source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", link)
    put(TraceStore(folder=folder), source, 0)
    assert names_in(folder) == ["0.json"]
    with pytest.raises(NameTakenError):
        put(TraceStore(folder=folder), source, 0)


def test_a_folder_or_a_link_of_that_name_is_not_followed(source: Path, folder: Path, tmp_path: Path) -> None:
    (folder / "0.json").mkdir(parents=True)
    (tmp_path / "elsewhere").write_text("mine")
    (folder / "1.json").symlink_to(tmp_path / "elsewhere")
    store = TraceStore(folder=folder, overwrite=True)
    with pytest.raises(NameTakenError):
        put(store, source, 0)
    put(store, source, 1)
    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert not (folder / "1.json").is_symlink()
    (folder / "2.json").symlink_to(tmp_path / "nothing")
    with pytest.raises(NameTakenError):
        put(TraceStore(folder=folder), source, 2)


def test_a_source_that_is_missing_or_grows_is_refused(
    source: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match="No such file"):
        put(TraceStore(folder=folder), tmp_path / "gone", 0)

    def read(handle: int, size_bytes: int) -> bytes:
        block = real(handle, size_bytes)
        with source.open("ab") as file:
            file.write(b"x" * (len(block) == len(RAW)))
        return block

    real = os.read
    monkeypatch.setattr(os, "read", read)
    with pytest.raises(StoreError, match="changed while it was copied"):
        put(TraceStore(folder=folder), source, 0)
    assert names_in(folder) == []


@pytest.mark.parametrize("name", ["0.json", "0.json.gz"])
def test_a_disk_that_changes_what_was_written_is_detected(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder.mkdir()
    (folder / name).write_text("old")

    def fsync(handle: int) -> None:
        os.pwrite(handle, b"?", os.fstat(handle).st_size // 2)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StoreError, match="gave other data"):
        put(TraceStore(folder=folder, overwrite=True), source, 0, name=name)
    assert (folder / name).read_text() == "old"


def test_only_the_newest_are_kept_whichever_run_wrote_them(source: Path, folder: Path) -> None:
    for cycle in range(4):
        put(TraceStore(folder=folder, keep_last=2), source, cycle)
    assert names_in(folder) == ["2.json", "3.json"]
    assert states(folder) == {"0.json": "deleted", "1.json": "deleted", "2.json": "kept", "3.json": "kept"}


def test_every_rank_keeps_its_own(source: Path, folder: Path) -> None:
    store = TraceStore(folder=folder, keep_last=1)
    for cycle in range(3):
        for rank in range(3):
            put(store, source, cycle, rank=rank, name="{rank}-{cycle}.json")
    assert names_in(folder) == ["0-2.json", "1-2.json", "2-2.json"]


def test_only_files_of_this_store_are_counted_and_deleted(source: Path, folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    (folder / "foreign.json").write_text("mine")
    store = TraceStore(folder=folder, keep_last=1)
    put(TraceStore(folder=folder), source, 0, 1, 2, 3)
    (folder / "0.json").write_text("somebody's own")
    (folder / "1.json").unlink()
    (tmp_path / "outside.json").write_bytes(RAW)
    (folder / "2.json").unlink()
    (folder / "2.json").symlink_to(tmp_path / "outside.json")
    os.utime(folder / "3.json", ns=(1, 1))  # of the same size, and touched
    put(store, source, 4)
    assert names_in(folder) == ["0.json", "2.json", "3.json", "4.json", "foreign.json"]
    assert (tmp_path / "outside.json").read_bytes() == RAW
    expected = ["changed", "missing", "changed", "changed", "kept"]
    assert list(states(folder).values()) == expected


def test_a_trace_that_has_still_to_be_uploaded_is_not_deleted(source: Path, folder: Path) -> None:
    store = TraceStore(folder=folder, keep_last=1)
    put(store, source, 0)
    pending = journal.Pending(
        name="0.json",
        remote="memory://x",
        token="1",  # noqa: S106 - it only makes names unique
        overwrite=False,
    )
    journal.write(folder, pending)
    put(store, source, 1)
    assert states(folder) == {"0.json": "uploading", "1.json": "kept"}
    journal.remove(folder, pending)
    put(store, source, 2)
    assert names_in(folder) == ["2.json"]


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"version": 2, "traces": [{"timestamp": NaN}]}',
        b'{"version": 3, "traces": []}',
        b'{"version": 2, "traces": {"name": "0.json"}}',
        b'{"version": 2, "traces": [1, null, {}, {"name": "0.json"}]}',
    ],
)
def test_a_damaged_index_deletes_nothing(source: Path, folder: Path, damage: bytes) -> None:
    store = TraceStore(folder=folder, keep_last=1)
    put(TraceStore(folder=folder), source, 0, 1)
    listed_in(folder).write_bytes(damage)
    assert saved_traces(folder) == ()
    put(store, source, 2)
    assert names_in(folder) == ["0.json", "1.json", "2.json"]
    put(store, source, 3)
    assert names_in(folder) == ["0.json", "1.json", "3.json"]


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../raw.json"},
        {"name": "/etc/passwd"},
        {"name": ".torchprof-store.lock"},
        {"name": 1},
        {"timestamp": -1.0},
        {"timestamp": 1e300},
        {"rank": "0"},
        {"size_bytes": True},
        {"inode": "1"},
        {"store_id": '",'},
        {"state": "gone"},
        {"more": 1},
    ],
)
def test_an_invalid_entry_is_ignored(source: Path, folder: Path, change: dict[str, Any]) -> None:
    put(TraceStore(folder=folder), source, 0, 1)
    found = json.loads(listed_in(folder).read_bytes())
    found["traces"][0] |= change
    listed_in(folder).write_text(json.dumps(found))
    assert [saved.path.name for saved in saved_traces(folder)] == ["1.json"]
    put(TraceStore(folder=folder, keep_last=1), source, 2)
    assert names_in(folder) == ["0.json", "2.json"]
    assert source.exists()


def test_an_index_that_is_a_link_is_not_followed(source: Path, folder: Path, tmp_path: Path) -> None:
    put(TraceStore(folder=folder), source, 0)
    listed_in(folder).rename(tmp_path / "elsewhere")
    listed_in(folder).symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    put(TraceStore(folder=folder, keep_last=1), source, 1)
    assert names_in(folder) == ["0.json", "1.json"]
    assert (tmp_path / "elsewhere").read_bytes() == before


class Foreign:
    """Lets a file seem to belong to another user."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        monkeypatch.setattr(atomic, "is_own", self.is_own)
        monkeypatch.setattr(index, "is_own", self.is_own)
        self.inode = path.stat().st_ino

    def is_own(self, found: os.stat_result) -> bool:
        return found.st_ino != self.inode


def test_an_index_of_another_user_is_neither_followed_nor_replaced(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(TraceStore(folder=folder), source, 0, 1)
    planted = listed_in(folder).read_bytes()
    Foreign(monkeypatch, listed_in(folder))
    assert saved_traces(folder) == ()
    (stored,) = put(TraceStore(folder=folder, keep_last=1), source, 2)
    assert names_in(folder) == ["0.json", "1.json", "2.json"]
    assert listed_in(folder).read_bytes() == planted
    (note,) = stored.notes
    assert "could not be written (it belongs to another user), so --keep-last does not count this trace" in note


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_what_another_user_owns_is_never_read_or_deleted(source: Path, folder: Path) -> None:
    put(TraceStore(folder=folder), source, 0, 1)
    os.chown(folder / "0.json", 12345, -1)
    put(TraceStore(folder=folder, keep_last=1), source, 2)
    assert names_in(folder) == ["0.json", "2.json"]
    os.chown(listed_in(folder), 12345, -1)
    put(TraceStore(folder=folder, keep_last=1), source, 3)
    assert names_in(folder) == ["0.json", "2.json", "3.json"]


def plant(folder: Path, **changes: dict[str, Any]) -> None:
    """Add an entry to the index for each file, as somebody would who can write to it."""
    found = json.loads(listed_in(folder).read_bytes())
    model = found["traces"][0]
    for name, change in changes.items():
        status = (folder / f"{name}.json").stat()
        facts = {"size_bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "inode": status.st_ino}
        found["traces"].insert(0, model | facts | {"name": f"{name}.json"} | change)
    listed_in(folder).write_text(json.dumps(found))


@pytest.mark.parametrize("content", [b"mine", RAW, b'{"torchprofStoreId": "x", "a": 1}', b""])
def test_an_index_of_our_own_that_was_planted_cannot_name_foreign_files(
    source: Path, folder: Path, content: bytes
) -> None:
    put(TraceStore(folder=folder), source, 0)
    (folder / "mine.json").write_bytes(content)
    (folder / "too.json").write_bytes(content)
    plant(folder, mine={}, too={"store_id": ""})
    put(TraceStore(folder=folder, keep_last=1), source, 1)
    assert names_in(folder) == ["1.json", "mine.json", "too.json"]


def test_a_file_of_the_same_size_and_time_is_not_taken_for_a_trace(source: Path, folder: Path) -> None:
    put(TraceStore(folder=folder), source, 0, 1)
    for name, is_copy in {"0.json": True, "1.json": False}.items():
        path = folder / name
        before, data = path.stat(), path.read_bytes()
        if is_copy:  # the same bytes in another file
            path.rename(source.with_name(name))
            path.write_bytes(data)
        else:  # the same file with other bytes
            path.write_bytes(bytes(len(data)))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    put(TraceStore(folder=folder, keep_last=1), source, 2)
    assert names_in(folder) == ["0.json", "1.json", "2.json"]
    assert states(folder)["0.json"] == "changed"


@pytest.mark.parametrize("name", ["{cycle}.json", "{cycle}.json.gz"])
def test_what_was_deleted_is_named(source: Path, folder: Path, name: str) -> None:
    (*_, stored) = put(TraceStore(folder=folder), source, 0, 1, 2, name=name)
    assert stored.deleted == ()
    (stored,) = put(TraceStore(folder=folder, keep_last=2), source, 3, name=name)
    assert stored.deleted == tuple(name.format(cycle=cycle) for cycle in (0, 1))


def test_the_id_is_found_in_a_packed_trace_of_any_size(source: Path, folder: Path) -> None:
    source.write_bytes(b'{"a": "' + os.urandom(9_000_000).hex().encode() + b'"}')
    (stored,) = put(TraceStore(folder=folder), source, 0, name="0.json.gz")
    (entry,) = index.read_index(folder)
    with stored.path.open("rb") as file:
        assert marks.has_mark(file.fileno(), entry.store_id)
        assert not marks.has_mark(file.fileno(), "0" * 16)
        assert not marks.has_mark(file.fileno(), "")


def test_only_so_many_deleted_traces_are_remembered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MOST_DELETED", 2)
    folder.mkdir()
    states = {**dict.fromkeys("abcd", "deleted"), "e": "kept"}
    fields = dict.fromkeys(("timestamp", "step", "cycle", "rank", "size_bytes", "mtime_ns", "inode"), 1)
    rows = [index.Entry(name=name, state=state, store_id="", **fields) for name, state in states.items()]
    index.write_index(folder, rows)
    assert [entry.name for entry in index.read_index(folder)] == ["c", "d", "e"]


def test_saved_traces_have_time_step_cycle_and_rank(source: Path, folder: Path) -> None:
    put(TraceStore(folder=folder), source, 3, rank=2)
    (saved,) = saved_traces(folder)
    assert (saved.timestamp, saved.step, saved.cycle, saved.rank, saved.size_bytes) == (
        NOON,
        30,
        3,
        2,
        len(RAW) + MARK_BYTES,
    )


def test_a_folder_that_others_lock_for_too_long_still_gets_the_trace(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 0.0)
    store = TraceStore(folder=folder, keep_last=1)
    put(store, source, 0)
    with locks.folder_lock(records_of(folder)) as lock:
        assert lock is locks.Lock.TAKEN
        (stored,) = put(store, source, 1)
    assert "locked" in stored.notes[0]
    assert names_in(folder) == ["0.json", "1.json"]
    put(store, source, 2)
    assert names_in(folder) == ["1.json", "2.json"]


RANK = """
import sys
from pathlib import Path
from torchprof_magic.store.trace_store import TraceStore
from torchprof_magic.store.template import TraceValues
folder, source, rank = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
store = TraceStore(folder=folder, keep_last=2)
for cycle in range(5):
    store.put(source, f"{rank}-{cycle}.json", TraceValues(rank=rank, cycle=cycle))
"""


def test_processes_that_store_at_once_do_not_spoil_the_index(source: Path, folder: Path) -> None:
    ranks = [subprocess.Popen(forked_python("-c", RANK, str(folder), str(source), str(rank))) for rank in range(3)]
    assert [process.wait() for process in ranks] == [0, 0, 0]
    assert names_in(folder) == [f"{rank}-{cycle}.json" for rank in range(3) for cycle in (3, 4)]
    assert len(saved_traces(folder)) == 15


def test_a_file_left_by_a_killed_process_goes_and_one_in_use_stays(source: Path, folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    left = folder / ".torchprof-0123456789abcdef.part"
    left.write_bytes(b"half")
    foreign = folder / ".torchprof-mine.part"
    foreign.touch()
    pointed = tmp_path / "mine"
    pointed.touch()
    link = folder / ".torchprof-fedcba9876543210.part"
    link.symlink_to(pointed)
    with atomic.part_file(folder) as part:
        put(TraceStore(folder=folder), source, 0)
        assert part.path.exists()
    assert not left.exists()
    assert foreign.exists()
    assert pointed.exists()
    assert link.is_symlink()


def test_a_folder_is_tried_before_the_run(source: Path, tmp_path: Path) -> None:
    TraceStore(folder=tmp_path / "a" / "b").prepare()
    assert list((tmp_path / "a" / "b").iterdir()) == []
    with pytest.raises(StoreError, match="cannot store traces in"):
        TraceStore(folder=source / "below").prepare()
    with pytest.raises(OptionsError, match="--keep-last must be at least 0"):
        TraceStore(folder=tmp_path, keep_last=-1)


def test_a_folder_stays_the_same_when_the_current_one_changes(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = TraceStore(folder=Path("here"))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert put(store, source, 0)[0].path == tmp_path / "here" / "0.json"


def test_with_none_to_keep_the_newest_stays_until_it_is_pruned(source: Path, folder: Path) -> None:
    store = TraceStore(folder=folder, keep_last=0)
    put(store, source, 0, rank=1)
    put(store, source, 1, 2)
    assert names_in(folder) == ["0.json", "2.json"]
    assert store.prune(0) == ("2.json",)
    assert names_in(folder) == ["0.json"]
    assert TraceStore(folder=folder).prune(1) == ()


def test_the_names_of_deleted_traces_are_still_known(source: Path, folder: Path) -> None:
    store = TraceStore(folder=folder, keep_last=1)
    put(store, source, 0, 1)
    assert names_in(folder) == ["1.json"]
    assert store.used_names() == {"0.json", "1.json"}
