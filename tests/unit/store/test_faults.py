"""Every call of the system that ``put`` makes fails once, in turn, and the process is killed before each."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from torchprof_magic.errors import StoreError
from torchprof_magic.store.template import TraceValues, parse_filename
from torchprof_magic.store.trace_store import TraceStore

OS_CALLS = [
    "open",
    "read",
    "write",
    "fsync",
    "replace",
    "link",
    "unlink",
    "close",
    "fstat",
    "lstat",
    "listdir",
    "mkdir",
]
CALLS = [*((os, name) for name in OS_CALLS), (fcntl, "flock")]
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)
OLD, NEW = b"old" * 100, b"new" * 200


@dataclass
class Faults:
    """Counts calls, and makes one of them fail."""

    number: int = -1
    error: int = 0
    names: list[str] = field(default_factory=list)

    def wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.names.append(name)
            is_due = len(self.names) - 1 == self.number
            if is_due and name != "close":
                raise OSError(self.error, os.strerror(self.error))
            result = None if name == "fsync" else real(*args, **kwargs)
            if is_due:
                raise OSError(self.error, os.strerror(self.error))
            return result

        return call


@contextmanager
def injected(faults: Faults) -> Iterator[Faults]:
    with pytest.MonkeyPatch.context() as patch:
        for module, name in CALLS:
            patch.setattr(module, name, faults.wrap(name, getattr(module, name)))
        yield faults


def store_in(folder: Path, kind: str) -> TraceStore:
    return TraceStore(
        folder=folder / "traces",
        filename=parse_filename("{cycle}.json"),
        overwrite=kind == "replace",
        keep=1 if kind == "prune" else None,
        patience_seconds=0.0,
    )


def prepared(folder: Path, kind: str) -> TraceStore:
    """Store what is old: the file that is to be replaced, or the one that is to be deleted."""
    (folder / "raw.json").write_bytes(OLD)
    store = store_in(folder, kind)
    with injected(Faults()):  # so that nothing waits for the disk
        store.put(folder / "raw.json", TraceValues(cycle=0 if kind == "replace" else 1))
    (folder / "traces" / ".torchprof-store-0123456789abcdef.part").touch()
    (folder / "raw.json").write_bytes(NEW)
    return store


def calls_of(kind: str) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        store = prepared(Path(name), kind)
        with injected(Faults()) as faults:
            store.put(Path(name) / "raw.json", TraceValues(cycle=0))
        return faults.names


CASES = [
    pytest.param(kind, number, error, id=f"{kind}-{number}-{name}-{errno.errorcode[error]}")
    for kind in ("replace", "prune")
    for number, name in enumerate(calls_of(kind))
    for error in ERRORS
]


@pytest.mark.parametrize(("kind", "number", "error"), CASES)
def test_a_call_that_fails_leaves_the_old_or_the_new_file_whole(
    tmp_path: Path, kind: str, number: int, error: int
) -> None:
    store = prepared(tmp_path, kind)
    traces = tmp_path / "traces"
    left = traces / ".torchprof-store-0123456789abcdef.part"
    is_stored = True
    with injected(Faults(number, error)):
        try:
            store.put(tmp_path / "raw.json", TraceValues(cycle=0))
        except StoreError as exc:
            assert str(tmp_path / "raw.json") in str(exc)  # noqa: PT017 - whether it is raised depends on the call
            is_stored = False
    assert (tmp_path / "raw.json").read_bytes() == NEW
    assert {path for path in traces.iterdir() if path.suffix == ".part"} <= {left}
    target, older = traces / "0.json", traces / "1.json"
    if is_stored:
        assert target.read_bytes() == NEW
    elif kind == "replace":
        assert target.read_bytes() == OLD
    else:
        assert not target.exists()
        assert older.read_bytes() == OLD
    assert not older.exists() or older.read_bytes() == OLD
    store_in(tmp_path, "replace").put(tmp_path / "raw.json", TraceValues(cycle=0))
    assert target.read_bytes() == NEW
    assert not left.exists()


def beside(folder: Path, faults: Faults, *, is_old: bool) -> bool:
    """Store a file beside the traces, in place of an older one if there is one, and return whether that went well."""
    (folder / "raw.pickle").write_bytes(NEW)
    (folder / "traces").mkdir()
    if is_old:
        (folder / "traces" / "a.pickle").write_bytes(OLD)
    with injected(faults):
        try:
            store_in(folder, "replace" if is_old else "new").put_beside(folder / "raw.pickle", "a.pickle")
        except StoreError as exc:
            assert str(folder / "raw.pickle") in str(exc)  # noqa: PT017 - whether it is raised depends on the call
            return False
    return True


@pytest.mark.parametrize("is_old", [True, False])
@pytest.mark.parametrize("error", ERRORS)
def test_a_file_beside_the_traces_is_there_whole_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, error: int, *, is_old: bool
) -> None:
    counting = Faults()
    assert beside(tmp_path_factory.mktemp("counting"), counting, is_old=is_old)
    assert {"open", "read", "write", "fsync", "replace" if is_old else "link", "unlink"} <= set(counting.names)
    for number, name in enumerate(counting.names):
        folder = tmp_path_factory.mktemp("faults")
        is_stored = beside(folder, Faults(number, error), is_old=is_old)
        failed = f"{name}, call {number}"
        assert (folder / "raw.pickle").read_bytes() == NEW, failed
        found = [(path.name, path.read_bytes()) for path in (folder / "traces").iterdir()]
        new, old = [("a.pickle", NEW)], [("a.pickle", OLD)] if is_old else []
        # A disk that does not confirm the name of a file that took the place of an older one has the new one.
        assert found == new if is_stored else found in (old, new if is_old else old), failed


def test_a_kill_at_any_call_or_moment_leaves_only_whole_files() -> None:
    script = Path(__file__).parents[2] / "stress" / "store_kills.py"
    found = subprocess.run(
        [sys.executable, script, "--runs", "30", "--no-sync"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
