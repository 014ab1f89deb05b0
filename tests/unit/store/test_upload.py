from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fsspec")
import stub
from fsspec.registry import _registry as known_kinds

from torchprof_magic.model.errors import StoreError
from torchprof_magic.store import journal, upload
from torchprof_magic.store.records import records_of
from torchprof_magic.store.transfer import destination
from torchprof_magic.store.upload import Uploads, UploadStatus, pause_seconds
from torchprof_magic.system.files import locks
from torchprof_magic.system.files.redaction import secrets_of, told

RAW = b'{"traceEvents": [' + b'{"ph": "X"},' * 1000 + b"{}]}"
SECRET = "hunter2"  # noqa: S105 - the point of the tests is that it shows nowhere
PLACE = "/bucket/runs/0.json"
PATIENCE_SECONDS = 60.0


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "FIRST_PAUSE_SECONDS", 0.0)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[stub.Store]:
    for kind in stub.KINDS:
        monkeypatch.setitem(known_kinds, kind.protocol, kind)
    with stub.serving() as store:
        yield store


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "traces" / "0.json"
    path.parent.mkdir()
    path.write_bytes(RAW)
    return path


def remote_of(server: stub.Store, kind: str = "stub", *, is_secret: bool = False) -> str:
    user, query = (f"ann:{SECRET}@", f"?token={SECRET}-too") if is_secret else ("", "")
    return f"{kind}://{user}127.0.0.1:{server.port}/bucket/runs{query}"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """Give up soon on a server that stalls. On a busy machine other requests may then time out too."""
    if fault == "stall":
        monkeypatch.setattr(stub, "TIMEOUT_SECONDS", 0.2)
        monkeypatch.setattr(upload, "ATTEMPTS", 50)


def sent(uploads: Uploads, trace: Path) -> UploadStatus:
    uploads.submit(trace)
    return settled(uploads)


def settled(uploads: Uploads) -> UploadStatus:
    """Wait until nothing is under way and return the state of the last upload."""
    wait_for(uploads, lambda: all(status.state in ("done", "failed") for status in uploads.statuses()))
    return uploads.statuses()[-1]


def wait_for(uploads: Uploads, is_true: Callable[[], bool]) -> None:
    with uploads._changed:
        assert uploads._changed.wait_for(is_true, PATIENCE_SECONDS)


def next_kernel(uploads: Uploads | None, trace: Path, remote: str) -> Uploads:
    """End the locks of one kernel, as its death does, and resume its uploads in another."""
    for job in uploads._jobs.values() if uploads else ():
        job.drop()
    later = Uploads(remote)
    later.resume(trace.parent)
    return later


def states_of(uploads: Uploads) -> list[str]:
    return [status.state for status in uploads.statuses()]


def left_in(folder: Path) -> list[str]:
    """Return what is left of uploads, in the folder and among its records."""
    records = records_of(folder)
    left = [*folder.iterdir(), *(records.iterdir() if records.exists() else ())]
    return sorted(path.name for path in left if path.name.startswith((".torchprof", journal.PREFIX)))


@pytest.mark.parametrize("kind", ["stub", "flat", "late", "gs"])
def test_a_file_arrives_and_nothing_else_is_left(server: stub.Store, trace: Path, kind: str) -> None:
    status = sent(Uploads(remote_of(server, kind)), trace)
    assert (status.state, status.attempt, status.error) == ("done", 0, "")
    assert status.remote == f"{kind}://127.0.0.1:{server.port}/bucket/runs/0.json"
    assert server.files == {PLACE: RAW}
    assert trace.read_bytes() == RAW
    assert left_in(trace.parent) == []


def test_where_files_can_be_renamed_none_is_seen_half_written(server: stub.Store, trace: Path) -> None:
    sent(Uploads(remote_of(server)), trace)
    assert [path.startswith("/bucket/runs/.0.json.") for method, path in server.requests if method == "PUT"] == [True]


def test_an_object_store_is_written_directly_and_its_checksum_believed(server: stub.Store, trace: Path) -> None:
    sent(Uploads(remote_of(server, "gs")), trace)
    assert server.requests == [("HEAD", PLACE), ("PUT", PLACE), ("HEAD", PLACE)]


FAULTS = [
    ("PUT", "500"),
    ("PUT", "429"),
    ("PUT", "403"),
    ("PUT", "drop"),
    ("PUT", "drop half-way"),
    ("PUT", "keep and drop"),
    ("PUT", "truncate"),
    ("PUT", "spoil"),
    ("PUT", "stall"),
    ("HEAD", "500"),
    ("HEAD", "drop"),
    ("HEAD", "stall"),
    ("GET", "500"),
    ("GET", "cut"),
    ("GET", "stall"),
    ("MOVE", "500"),
    ("MOVE", "keep and drop"),
    ("DELETE", "500"),
]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["stub", "flat", "gs"])
@pytest.mark.parametrize(("method", "fault"), FAULTS)
def test_a_server_that_fails_once_gets_the_file_in_the_end(
    server: stub.Store, trace: Path, kind: str, method: str, fault: str
) -> None:
    server.faults[method] = [fault]
    status = sent(Uploads(remote_of(server, kind)), trace)
    assert status.state == "done", status
    assert server.files == {PLACE: RAW}
    assert trace.read_bytes() == RAW
    assert left_in(trace.parent) == []


@pytest.mark.parametrize("kind", ["stub", "flat", "gs"])
def test_a_lie_about_the_size_is_not_believed(server: stub.Store, trace: Path, kind: str) -> None:
    server.faults["HEAD"] = ["", "lie"]
    status = sent(Uploads(remote_of(server, kind)), trace)
    assert (status.state, server.files) == ("done", {PLACE: RAW})


@pytest.mark.parametrize("fault", [fault for method, fault in FAULTS if method == "PUT" and fault != "stall"])
def test_a_server_that_keeps_failing_is_tried_five_times(server: stub.Store, trace: Path, fault: str) -> None:
    server.faults["PUT"] = [fault] * 5
    status = sent(Uploads(remote_of(server, "flat")), trace)
    if fault == "keep and drop":  # the file has arrived, although the server did not say so
        assert status.state == "done"
        return
    assert (status.state, status.attempt) == ("failed", 5)
    assert trace.read_bytes() == RAW
    assert journal.read_all(trace.parent)[0].is_failed


def test_a_failed_upload_is_tried_again_when_asked_in_this_kernel_and_the_next(server: stub.Store, trace: Path) -> None:
    server.faults["PUT"] = ["500"] * 5 + ["drop half-way"] * 5
    uploads = Uploads(remote_of(server, "flat"))
    assert str(sent(uploads, trace)).startswith("failed (5/5, OSError: 500")
    assert uploads.retry() == 1
    assert settled(uploads).state == "failed"
    assert 0 < len(server.files[PLACE]) < len(RAW)
    later = next_kernel(uploads, trace, remote_of(server, "flat"))
    assert later.statuses()[0].state == "failed"
    assert later.retry() == 1
    assert settled(later).state == "done"
    assert later.retry() == 0
    assert server.files == {PLACE: RAW}


def test_a_failed_upload_can_be_submitted_again(
    server: stub.Store, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "ATTEMPTS", 1)
    server.faults["PUT"] = ["drop half-way"]
    uploads = Uploads(remote_of(server, "flat"))
    assert sent(uploads, trace).state == "failed"
    assert sent(uploads, trace).state == "done"
    assert server.files == {PLACE: RAW}


def test_an_upload_that_waits_for_its_next_attempt_does_not_delay_others(
    server: stub.Store, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "pause_seconds", lambda _: 3600.0)
    server.faults["PUT"] = ["500"]
    second = trace.with_name("1.json")
    second.write_bytes(RAW)
    uploads = Uploads(remote_of(server))
    uploads.submit(trace)
    uploads.submit(second)
    wait_for(uploads, lambda: states_of(uploads) == ["retrying", "done"])
    first, other = uploads.statuses()
    assert (first.state, first.attempt, other.state) == ("retrying", 1, "done")
    assert str(first).startswith("retrying (1/5, OSError: 500")


def test_a_pause_doubles_and_is_never_longer_than_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "FIRST_PAUSE_SECONDS", 1.0)
    assert all(0.5 <= pause_seconds(1) <= 1 and 2 <= pause_seconds(3) <= 4 for _ in range(100))
    assert all(30 <= pause_seconds(attempt) <= 60 for attempt in (7, 20, 500))


def test_another_file_of_that_name_is_left_alone_unless_asked(server: stub.Store, trace: Path) -> None:
    server.files[PLACE] = b"somebody's"
    status = sent(Uploads(remote_of(server)), trace)
    assert (status.state, status.attempt) == ("failed", 1)
    assert "another file of this name exists" in status.error
    assert server.files == {PLACE: b"somebody's"}
    (trace.parent / "other").mkdir()
    other = trace.rename(trace.parent / "other" / "0.json")
    assert sent(Uploads(remote_of(server), overwrite=True), other).state == "done"
    assert server.files == {PLACE: RAW}


def test_a_file_that_is_there_already_is_not_sent_again(server: stub.Store, trace: Path) -> None:
    server.files[PLACE] = RAW
    assert sent(Uploads(remote_of(server)), trace).state == "done"
    assert [method for method, _ in server.requests] == ["HEAD", "GET"]


KERNEL = """
import sys
sys.path.insert(0, sys.argv[1])
import fsspec, stub
from pathlib import Path
from torchprof_magic.store.upload import Uploads
for kind in stub.KINDS:
    fsspec.register_implementation(kind.protocol, kind, clobber=True)
stub.TIMEOUT_SECONDS = 3600.0
uploads = Uploads(sys.argv[2])
uploads.submit(Path(sys.argv[3]))
sys.stdin.readline()
"""


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("fault", ["stall", "drop half-way"])
def test_the_next_kernel_continues_the_uploads_of_the_last(
    server: stub.Store, trace: Path, fault: str, *, is_killed: bool
) -> None:
    server.faults["PUT"] = ["drop half-way", "stall"] if fault == "drop half-way" else ["stall"]
    command = [sys.executable, "-c", KERNEL, str(Path(__file__).parent), remote_of(server, "flat"), str(trace)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as kernel:
        assert server.stalled.wait(PATIENCE_SECONDS)
        remote = remote_of(server, "flat")
        with pytest.raises(StoreError, match=r"0\.json: another process is uploading it"):
            Uploads(remote).submit(trace)
        assert next_kernel(None, trace, remote).statuses() == ()
        if is_killed:
            kernel.kill()
        out, err = kernel.communicate(b"\n", timeout=PATIENCE_SECONDS)
    assert (out, err) == (b"", b"")
    assert trace.read_bytes() == RAW
    server.released.set()
    assert settled(next_kernel(None, trace, remote)).state == "done"
    assert server.files == {PLACE: RAW}
    assert trace.read_bytes() == RAW
    assert left_in(trace.parent) == []


def test_a_local_file_that_is_missing_or_a_link_is_not_sent(server: stub.Store, trace: Path, tmp_path: Path) -> None:
    (tmp_path / "private").write_text(SECRET)
    trace.unlink()
    uploads = Uploads(remote_of(server))
    assert sent(uploads, trace).attempt == 1
    trace.symlink_to(tmp_path / "private")
    status = sent(uploads, trace)
    assert (status.state, status.attempt) == ("failed", 1)
    assert server.files == {}


def test_credentials_show_nowhere_and_are_needed_again_to_resume(server: stub.Store, trace: Path) -> None:
    server.faults["PUT"] = ["403"] * 5
    remote = remote_of(server, is_secret=True)
    uploads = Uploads(remote)
    status = sent(uploads, trace)
    assert status.state == "failed"
    assert "403" in status.error
    kept = "".join(path.read_text() for path in trace.parent.glob(".torchprof*"))
    assert SECRET not in f"{status!r} {status} {uploads!r} {kept}"
    assert "ann" not in f"{status.error} {kept}"
    assert next_kernel(uploads, trace, "memory://elsewhere").statuses() == ()
    later = next_kernel(None, trace, remote)
    later.retry()
    assert settled(later).state == "done"
    assert server.files == {PLACE: RAW}


def test_errors_of_other_libraries_are_shown_without_credentials() -> None:
    secrets = secrets_of(f"s3://ann:{SECRET}%21@h/x?sig=abc%2Fdef#frag")
    text = (
        f"bad https://u:p4ss@h/k?X-Amz-Signature=77 {SECRET}! {SECRET}%21 abc/def frag\n"
        "Authorization: Bearer tok.en aws_secret_access_key='wJal' password=pw123, 'token': 'zzz'"
    )
    shown = told(ValueError(text), secrets)
    for secret in (SECRET, "p4ss", "77", "abc", "frag", "tok.en", "wJal", "pw123", "zzz"):
        assert secret not in shown
    assert shown.startswith("ValueError: bad https://h/k")
    assert len(told(ValueError("x" * 10_000), secrets)) < 250


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_an_exception_whose_message_fails_is_shown_by_its_type() -> None:
    assert told(MuteError(), frozenset()) == "MuteError"


def test_no_exception_ends_the_thread_and_nothing_is_printed(
    server: stub.Store, trace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    uploads = Uploads(remote_of(server, "rude", is_secret=True))
    status = sent(uploads, trace)
    assert (status.state, status.attempt) == ("failed", 5)
    assert "SystemExit" in status.error
    assert SECRET not in status.error
    assert uploads.retry() == 1
    assert settled(uploads).state == "failed"
    assert capfd.readouterr() == ("", "")


def test_a_read_only_remote_is_tried_once(server: stub.Store, trace: Path) -> None:
    status = sent(Uploads(remote_of(server, "readonly")), trace)
    assert (status.state, status.attempt) == ("failed", 1)
    assert "read-only" in status.error
    with pytest.raises(StoreError, match="fsspec does not support nonsense://"):
        Uploads("nonsense://h/x")


@pytest.mark.parametrize("remote", ["traces", "/traces", "simplecache::s3://b/x", "s3:/b"])
def test_what_is_not_the_url_of_a_folder_is_refused(remote: str) -> None:
    with pytest.raises(StoreError, match="--remote"):
        Uploads(remote)


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(StoreError, match=r"pip install torchprof-magic\[remote\]"):
        Uploads("s3://bucket/x")


def test_a_full_disk_does_not_stop_an_upload(server: stub.Store, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal, "write", write)
    assert sent(Uploads(remote_of(server)), trace).state == "done"


def test_the_thread_ends_with_the_last_upload_and_starts_again_with_the_next(
    server: stub.Store, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    class Thread(threading.Thread):
        def run(self) -> None:
            if self.name != "torchprof-uploads":
                super().run()
                return
            threads.append(self)
            super().run()
            may_end.wait(PATIENCE_SECONDS)  # it has looked for the last time, and is still there

    may_end = threading.Event()
    monkeypatch.setattr(threading, "Thread", Thread)
    uploads = Uploads(remote_of(server))
    for name in ("0.json", "1.json"):
        file = trace.with_name(name)
        file.write_bytes(RAW)
        sent(uploads, file)
        while uploads._thread is not None:
            time.sleep(0.001)
    assert states_of(uploads) == ["done", "done"]
    may_end.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert [(thread.daemon, thread.is_alive()) for thread in threads] == [(True, False)] * 2


def test_a_file_is_not_queued_twice(server: stub.Store, trace: Path) -> None:
    server.faults["PUT"] = ["stall"]
    uploads = Uploads(remote_of(server))
    uploads.submit(trace)
    assert server.stalled.wait(PATIENCE_SECONDS)
    with pytest.raises(StoreError, match="already"):
        uploads.submit(trace)
    server.released.set()
    assert settled(uploads).state == "done"
    assert len(uploads.statuses()) == 1


def test_a_forked_child_uploads_nothing(server: stub.Store, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uploads = Uploads(remote_of(server))
    monkeypatch.setattr(uploads, "_pid", os.getpid() + 1)
    for use in (lambda: uploads.submit(trace), uploads.retry, lambda: uploads.resume(trace.parent)):
        with pytest.raises(StoreError, match="child"):
            use()


@pytest.mark.parametrize(
    "change",
    [
        *({"name": "../raw"}, {"name": 1}, {"remote": "stub://evil/x"}, {"token": "../x"}, {"is_failed": 1}),
        *({"more": 1}, b"", b"{", b"[]", b"[" * 100_000, b"\xff"),
    ],
)
def test_a_damaged_journal_is_left_where_it_is(trace: Path, change: dict[str, Any] | bytes) -> None:
    pending = journal.Pending(name="0.json", remote="memory://x", token="1", overwrite=False)  # noqa: S106
    journal.write(trace.parent, pending)
    path = journal.journal_path(trace.parent, pending)
    path.write_bytes(
        change if isinstance(change, bytes) else json.dumps(json.loads(path.read_text()) | change).encode()
    )
    assert journal.read_all(trace.parent) == ()
    assert journal.unsent(trace.parent, ["0.json", "1.json"]) == {"0.json"}
    assert path.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="files have no owners there")
def test_a_journal_of_another_user_is_not_obeyed(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pending = journal.Pending(name="0.json", remote="memory://x", token="1", overwrite=False)  # noqa: S106
    journal.write(trace.parent, pending)
    assert journal.read_all(trace.parent) == (pending,)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert journal.read_all(trace.parent) == ()


def test_uploads_work_without_file_locks(server: stub.Store, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "take", lambda _: locks.Lock.NONE)
    assert sent(Uploads(remote_of(server)), trace).state == "done"


def test_a_local_folder_can_stand_for_a_remote_one(trace: Path, tmp_path: Path) -> None:
    assert sent(Uploads(f"file://{tmp_path}/far/away"), trace).state == "done"
    assert [path.name for path in (tmp_path / "far" / "away").iterdir()] == ["0.json"]


def test_a_rename_that_loses_half_of_the_file_is_detected(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.implementations.memory import MemoryFileSystem  # noqa: PLC0415 - is only there with the extra

    times: list[str] = []

    def move(system: MemoryFileSystem, path1: str, path2: str) -> None:
        raw = system.cat_file(path1)
        times.append(path2)
        system.pipe_file(path2, raw[: len(raw) // 2] if len(times) < 2 else raw)
        system.rm_file(path1)

    monkeypatch.setattr(MemoryFileSystem, "mv", move)
    status = sent(Uploads("memory://half"), trace)
    assert (status.state, status.attempt, times) == ("done", 1, ["/half/0.json"] * 2)
    assert MemoryFileSystem().cat_file("/half/0.json") == RAW
    MemoryFileSystem.store.clear()


@pytest.mark.parametrize("remote", ["memory://far/a[1]", "memory://far/away?token=1", "memory://far/*"])
def test_names_with_special_characters_arrive(trace: Path, remote: str) -> None:
    import fsspec  # noqa: PLC0415 - is only there with the extra

    memory = fsspec.filesystem("memory")
    memory.pipe_file("/far/a1/other", b"other")
    assert sent(Uploads(remote), trace).state == "done"
    assert {path: memory.cat_file(path) for path in memory.store} == {
        "/far/a1/other": b"other",
        destination(remote, "0.json").removeprefix("memory:/"): RAW,
    }
    memory.store.clear()


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("s3://b/x/", "s3://b/x/a b.json"),
        ("https://h/x?sig=1", "https://h/x/a%20b.json?sig=1"),
        ("https://h/x#f", "https://h/x/a%20b.json#f"),
    ],
)
def test_the_name_goes_before_what_follows_the_path(remote: str, expected: str) -> None:
    assert destination(remote, "a b.json") == expected
