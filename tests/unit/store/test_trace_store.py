from __future__ import annotations

import errno
import gzip
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from torchprof_magic.errors import OptionsError, StoreError
from torchprof_magic.files import locks, part_files
from torchprof_magic.store import index, journal, trace_store
from torchprof_magic.store.template import TraceValues, parse_filename, parse_folder
from torchprof_magic.store.trace_store import TraceStore

RAW = b'{"traceEvents": [' + b'{"ph": "X"},' * 1000 + b"{}]}"
NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)
VALUES = TraceValues(timestamp=NOON)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "raw.json"
    path.write_bytes(RAW)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "traces"


def store_in(folder: Path, template: str = "{cycle}.json", **options: Any) -> TraceStore:
    return TraceStore(folder=folder, filename=parse_filename(template), **options)


def put(store: TraceStore, source: Path, *cycles: int, rank: int = 0) -> list[trace_store.StoredTrace]:
    return [store.put(source, replace(VALUES, cycle=cycle, step=10 * cycle, rank=rank)) for cycle in cycles]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(".torchprof"))


def states(store: TraceStore) -> dict[str, str]:
    return {saved.path.name: saved.state for saved in store.saved_traces()}


def test_a_trace_is_stored_under_its_name_and_the_source_stays(source: Path, folder: Path) -> None:
    stored = store_in(folder, "rank{rank}.{cycle:03d}.json").put(source, replace(VALUES, cycle=7))
    assert stored.path == folder / "rank0.007.json"
    assert stored.path.read_bytes() == RAW == source.read_bytes()
    assert (stored.size_bytes, stored.raw_bytes, stored.notes) == (len(RAW), len(RAW), ())


def test_packing_adds_the_suffix_and_gives_the_same_bytes_every_time(source: Path, folder: Path) -> None:
    first, second = put(store_in(folder, gzip=True), source, 0, 1)
    assert first.path.name == "0.json.gz"
    assert gzip.decompress(first.path.read_bytes()) == RAW
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.size_bytes < first.raw_bytes == len(RAW)


def test_a_name_that_ends_in_gz_is_packed_without_being_asked(source: Path, folder: Path) -> None:
    (stored,) = put(store_in(folder, "{cycle}.json.gz"), source, 0)
    assert stored.path.name == "0.json.gz"
    assert gzip.decompress(stored.path.read_bytes()) == RAW


def test_an_empty_trace_can_be_packed(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "empty").touch()
    stored = store_in(folder, gzip=True).put(tmp_path / "empty", VALUES)
    assert gzip.decompress(stored.path.read_bytes()) == b""


def test_a_layout_can_give_its_own_name(source: Path, folder: Path) -> None:
    assert store_in(folder).put(source, VALUES, name="w.1.pt.trace.json").path == folder / "w.1.pt.trace.json"
    with pytest.raises(OptionsError):
        store_in(folder).put(source, VALUES, name="../x.json")


def test_a_file_that_is_there_is_left_alone_unless_asked(source: Path, folder: Path) -> None:
    folder.mkdir()
    (folder / "0.json").write_text("mine")
    with pytest.raises(StoreError, match=r"left alone.*--overwrite") as caught:
        put(store_in(folder), source, 0)
    assert str(source) in str(caught.value)
    assert (folder / "0.json").read_text() == "mine"
    assert source.exists()
    put(store_in(folder, overwrite=True), source, 0)
    assert (folder / "0.json").read_bytes() == RAW


def test_a_file_that_appears_at_the_last_moment_is_left_alone(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(part: Path, target: Path) -> None:
        target.write_text("mine")
        real(part, target)

    real = os.link
    monkeypatch.setattr(os, "link", link)
    with pytest.raises(StoreError, match="left alone"):
        put(store_in(folder), source, 0)
    assert (folder / "0.json").read_text() == "mine"


def test_a_file_system_without_second_names_will_do(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", link)
    store = store_in(folder)
    put(store, source, 0)
    assert names_in(folder) == ["0.json"]
    with pytest.raises(StoreError, match="left alone"):
        put(store, source, 0)


def test_a_folder_or_a_link_of_that_name_is_not_followed(source: Path, folder: Path, tmp_path: Path) -> None:
    (folder / "0.json").mkdir(parents=True)
    (tmp_path / "elsewhere").write_text("mine")
    (folder / "1.json").symlink_to(tmp_path / "elsewhere")
    store = store_in(folder, overwrite=True)
    with pytest.raises(StoreError, match="left alone"):
        put(store, source, 0)
    put(store, source, 1)
    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert not (folder / "1.json").is_symlink()
    (folder / "2.json").symlink_to(tmp_path / "nothing")
    with pytest.raises(StoreError, match="left alone"):
        put(store_in(folder), source, 2)


def test_a_source_that_is_gone_or_grows_is_refused(
    source: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match="No such file"):
        put(store_in(folder), tmp_path / "gone", 0)

    def read(handle: int, size_bytes: int) -> bytes:
        block = real(handle, size_bytes)
        with source.open("ab") as file:
            file.write(b"x" * (len(block) == len(RAW)))
        return block

    real = os.read
    monkeypatch.setattr(os, "read", read)
    with pytest.raises(StoreError, match="changed while it was copied"):
        put(store_in(folder), source, 0)
    assert names_in(folder) == []


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_disk_that_changes_what_was_written_is_found_out(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, *, is_packed: bool
) -> None:
    folder.mkdir()
    target = folder / ("0.json.gz" if is_packed else "0.json")
    target.write_text("old")

    def fsync(handle: int) -> None:
        os.pwrite(handle, b"?", os.fstat(handle).st_size // 2)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StoreError, match=r"does not (read back|unpack)"):
        put(store_in(folder, gzip=is_packed, overwrite=True), source, 0)
    assert target.read_text() == "old"


@pytest.mark.parametrize("cut", [1, 4, 8, 20])
def test_a_packed_file_that_is_cut_or_longer_does_not_read_back(tmp_path: Path, cut: int) -> None:
    data = gzip.compress(RAW)
    (tmp_path / "cut.gz").write_bytes(data[:-cut])
    (tmp_path / "long.gz").write_bytes(data + b"x" * cut)
    for name in ("cut.gz", "long.gz"):
        with pytest.raises(StoreError):
            part_files.read_content(tmp_path / name, is_packed=True)


def test_only_the_newest_are_kept(source: Path, folder: Path) -> None:
    store = store_in(folder, keep=2)
    stored = put(store, source, 0, 1, 2, 3)
    assert [path.name for trace in stored for path in trace.deleted] == ["0.json", "1.json"]
    assert names_in(folder) == ["2.json", "3.json"]
    assert states(store) == {"0.json": "deleted", "1.json": "deleted", "2.json": "kept", "3.json": "kept"}


def test_a_later_run_counts_the_traces_of_the_one_before(source: Path, folder: Path) -> None:
    put(store_in(folder, keep=2), source, 0, 1)
    put(store_in(folder, keep=2), source, 2)
    assert names_in(folder) == ["1.json", "2.json"]


def test_every_rank_keeps_its_own(source: Path, folder: Path) -> None:
    store = store_in(folder, "{rank}-{cycle}.json", keep=1)
    for cycle in range(3):
        for rank in range(3):
            put(store, source, cycle, rank=rank)
    assert names_in(folder) == ["0-2.json", "1-2.json", "2-2.json"]


def test_only_files_of_this_store_are_counted_and_deleted(source: Path, folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    (folder / "foreign.json").write_text("mine")
    store = store_in(folder, keep=1)
    put(store_in(folder), source, 0, 1, 2, 3)
    (folder / "0.json").write_text("somebody's own")
    (folder / "1.json").unlink()
    (tmp_path / "outside.json").write_bytes(RAW)
    (folder / "2.json").unlink()
    (folder / "2.json").symlink_to(tmp_path / "outside.json")
    put(store, source, 4)
    assert names_in(folder) == ["0.json", "2.json", "4.json", "foreign.json"]
    assert (tmp_path / "outside.json").read_bytes() == RAW
    expected = ["changed", "missing", "changed", "deleted", "kept"]
    assert list(states(store).values()) == expected


def test_a_file_of_the_same_size_that_was_touched_is_not_deleted(source: Path, folder: Path) -> None:
    store = store_in(folder, keep=1)
    put(store, source, 0)
    os.utime(folder / "0.json", ns=(1, 1))
    put(store, source, 1)
    assert names_in(folder) == ["0.json", "1.json"]


def test_a_trace_that_has_still_to_be_uploaded_is_not_deleted(source: Path, folder: Path) -> None:
    store = store_in(folder, keep=1)
    put(store, source, 0)
    pending = journal.Pending(
        name="0.json",
        remote="memory://x",
        token="1",  # noqa: S106 - it only makes names unique
        needs_remote=False,
        delete_local=False,
        overwrite=False,
    )
    journal.write(folder, pending)
    put(store, source, 1)
    assert states(store) == {"0.json": "uploading", "1.json": "kept"}
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
        b'{"version": 2, "traces": []}',
        b'{"version": 1, "traces": {"name": "0.json"}}',
        b'{"version": 1, "traces": [1, null, {}, {"name": "0.json"}]}',
    ],
)
def test_a_damaged_index_is_no_reason_to_delete_anything(source: Path, folder: Path, damage: bytes) -> None:
    store = store_in(folder, keep=1)
    put(store_in(folder), source, 0, 1)
    (folder / index.INDEX).write_bytes(damage)
    assert store.saved_traces() == ()
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
        {"timestamp": float("nan")},
        {"timestamp": 1e300},
        {"rank": "0"},
        {"size_bytes": True},
        {"state": "gone"},
        {"more": 1},
    ],
)
def test_an_entry_that_makes_no_sense_is_left_out(source: Path, folder: Path, change: dict[str, Any]) -> None:
    put(store_in(folder), source, 0, 1)
    found = json.loads((folder / index.INDEX).read_bytes())
    found["traces"][0] |= change
    (folder / index.INDEX).write_text(json.dumps(found))
    assert [saved.path.name for saved in store_in(folder).saved_traces()] == ["1.json"]
    put(store_in(folder, keep=1), source, 2)
    assert names_in(folder) == ["0.json", "2.json"]
    assert source.exists()


def test_an_index_that_is_a_link_is_not_followed(source: Path, folder: Path, tmp_path: Path) -> None:
    put(store_in(folder), source, 0)
    (folder / index.INDEX).rename(tmp_path / "elsewhere")
    (folder / index.INDEX).symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    put(store_in(folder, keep=1), source, 1)
    assert names_in(folder) == ["0.json", "1.json"]
    assert (tmp_path / "elsewhere").read_bytes() == before


def test_only_so_many_deleted_traces_are_remembered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MOST_DELETED", 2)
    folder.mkdir()
    row = index.Entry(name="", timestamp=0.0, step=0, cycle=0, rank=0, size_bytes=1, mtime_ns=1, state="deleted")
    index.write_index(folder, [replace(row, name=name) for name in "abcd"] + [replace(row, name="e", state="kept")])
    assert [entry.name for entry in index.read_index(folder)] == ["c", "d", "e"]


def test_saved_traces_tell_when_and_where_each_was_taken(source: Path, folder: Path) -> None:
    store = store_in(folder)
    put(store, source, 3, rank=2)
    (saved,) = store.saved_traces()
    assert (saved.timestamp, saved.step, saved.cycle, saved.rank, saved.size_bytes) == (NOON, 30, 3, 2, len(RAW))


def test_a_folder_that_others_hold_too_long_still_gets_the_trace(source: Path, folder: Path) -> None:
    store = store_in(folder, keep=1, patience_seconds=0.0)
    put(store, source, 0)
    with locks.folder_lock(folder) as lock:
        assert lock is locks.Lock.TAKEN
        (stored,) = put(store, source, 1)
    assert "held" in stored.notes[0]
    assert names_in(folder) == ["0.json", "1.json"]
    put(store, source, 2)
    assert names_in(folder) == ["1.json", "2.json"]


def test_threads_that_store_at_once_lose_nothing(source: Path, folder: Path) -> None:
    store = store_in(folder, "{rank}-{cycle}.json", keep=2)
    threads = [
        threading.Thread(target=put, args=(store, source, 0, 1, 2, 3), kwargs={"rank": rank}) for rank in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names_in(folder) == [f"{rank}-{cycle}.json" for rank in range(4) for cycle in (2, 3)]
    assert len(store.saved_traces()) == 16


RANK = """
import sys
from pathlib import Path
from torchprof_magic.store.trace_store import TraceStore
from torchprof_magic.store.template import TraceValues, parse_filename
folder, source, rank = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
store = TraceStore(folder=folder, filename=parse_filename("{rank}-{cycle}.json"), keep=2)
for cycle in range(5):
    store.put(source, TraceValues(rank=rank, cycle=cycle))
"""


def test_processes_that_store_at_once_do_not_spoil_the_index(source: Path, folder: Path) -> None:
    ranks = [subprocess.Popen([sys.executable, "-c", RANK, folder, source, str(rank)]) for rank in range(3)]
    assert [process.wait() for process in ranks] == [0, 0, 0]
    assert names_in(folder) == [f"{rank}-{cycle}.json" for rank in range(3) for cycle in (3, 4)]
    assert len(store_in(folder).saved_traces()) == 15


def test_a_file_left_by_a_killed_process_goes_and_one_in_use_stays(source: Path, folder: Path) -> None:
    folder.mkdir()
    left = folder / ".torchprof-store-0123456789abcdef.part"
    left.write_bytes(b"half")
    foreign = folder / ".torchprof-mine.part"
    foreign.touch()
    with part_files.part_file(folder) as part:
        put(store_in(folder), source, 0)
        assert part.path.exists()
    assert not left.exists()
    assert foreign.exists()


def test_a_folder_is_tried_before_the_run(source: Path, tmp_path: Path) -> None:
    store_in(tmp_path / "a" / "b").prepare(VALUES)
    assert list((tmp_path / "a" / "b").iterdir()) == []
    with pytest.raises(StoreError, match="cannot be stored here"):
        store_in(source / "below").prepare(VALUES)
    with pytest.raises(OptionsError, match="run_name"):
        store_in(tmp_path, "{run_name}").prepare(replace(VALUES, run_name="a/b"))


def test_options_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="--keep must be at least 1"):
        store_in(tmp_path, keep=0)
    with pytest.raises(OptionsError, match="folder"):
        TraceStore(folder=tmp_path, filename=parse_folder("x"))


def test_a_folder_stays_the_same_when_the_current_one_changes(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = store_in(Path("here"))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert put(store, source, 0)[0].path == tmp_path / "here" / "0.json"


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
def test_a_disk_that_is_really_full_leaves_the_old_file(source: Path, folder: Path) -> None:
    import resource  # noqa: PLC0415 - only there is it needed, and only on these systems is it there
    import signal  # noqa: PLC0415

    store = store_in(folder, overwrite=True)
    put(store, source, 0)
    source.write_bytes(RAW * 2)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(RAW) + 10, before[1]))
    try:
        with pytest.raises(StoreError, match="File too large"):
            put(store, source, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert (folder / "0.json").read_bytes() == RAW
    assert not list(folder.glob("*.part"))
