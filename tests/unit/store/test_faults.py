"""Every call of the system that ``put`` makes fails once, in turn, and the process is killed before each."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from amount import IS_WHOLE

from torchprof_magic.model.errors import StoreError
from torchprof_magic.store.template import TraceValues
from torchprof_magic.store.trace_store import TraceStore
from torchprof_magic.system.files import locks

OS_CALLS = (
    *("open", "read", "write", "fsync", "replace", "link", "unlink", "close"),
    *("fstat", "fchmod", "lstat", "listdir", "mkdir"),
)
CALLS = [*((os, name) for name in OS_CALLS), (fcntl, "flock")]
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)
OLD, NEW = (b'{"old": "%s"}' % (b"x" * 300), b'{"new": "%s"}' % (b"x" * 600))
LEFT = ".torchprof-0123456789abcdef.part"


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


def unmarked(path: Path) -> bytes:
    """Return the content of a stored file without the id that the store puts into traces."""
    return re.sub(rb'"torchprofStoreId": "[0-9a-f]{16}",', b"", path.read_bytes())


@contextmanager
def injected(faults: Faults) -> Iterator[Faults]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locks, "PATIENCE_SECONDS", 0.0)
        for module, name in CALLS:
            patch.setattr(module, name, faults.wrap(name, getattr(module, name)))
        yield faults


@dataclass(frozen=True)
class Case:
    """How the new file is stored as ``0.json``, and which older one the store wrote before."""

    older: str = ""
    is_listed: bool = True
    overwrite: bool = False
    keep_last: int | None = None

    def put(self, folder: Path, faults: Faults) -> bool:
        """Store the new file while a call fails, and return whether that went well."""
        raw = folder / "raw.json"
        store = TraceStore(folder=folder / "traces", overwrite=self.overwrite, keep_last=self.keep_last)
        store.prepare()
        if self.older:
            raw.write_bytes(OLD)
            store.put(raw, self.older, TraceValues() if self.is_listed else None)
        (folder / "traces" / LEFT).touch()
        raw.write_bytes(NEW)
        with injected(faults):
            try:
                store.put(raw, "0.json", TraceValues() if self.is_listed else None)
            except StoreError as exc:
                assert str(raw) in str(exc)  # noqa: PT017 - whether it is raised depends on the call
                return False
        return True


CASES = {
    "replace": Case("0.json", overwrite=True),
    "prune": Case("1.json", keep_last=1),
    "beside": Case(is_listed=False),
    "replace-beside": Case("0.json", is_listed=False, overwrite=True),
}


def errors_of(number: int) -> tuple[int, ...]:
    """Return the errors that a call raises: all, or in a sample one of them in turn."""
    return ERRORS if IS_WHOLE else (ERRORS[number % len(ERRORS)],)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_call_that_fails_leaves_the_old_or_the_new_file_whole(
    tmp_path_factory: pytest.TempPathFactory, case: Case
) -> None:
    counting = Faults()
    assert case.put(tmp_path_factory.mktemp("counting"), counting)
    assert {"open", "read", "write", "fsync", "fchmod", "unlink"} <= set(counting.names)
    tries = [(number, error) for number in range(len(counting.names)) for error in errors_of(number)]
    for number, error in tries:
        folder = tmp_path_factory.mktemp("faults")
        is_stored = case.put(folder, Faults(number, error))
        failed = f"{counting.names[number]}, call {number}, {errno.errorcode[error]}"
        files = {path.name: unmarked(path) for path in (folder / "traces").iterdir() if path.name != LEFT}
        traces = {name: data for name, data in files.items() if not name.startswith(".torchprof")}
        assert not [name for name in files if name.endswith(".part")], failed
        assert (folder / "raw.json").read_bytes() == NEW, failed
        if is_stored:
            assert traces.pop("0.json") == NEW, failed
            assert traces in ({}, {"1.json": OLD}), failed
        else:
            assert traces == ({case.older: OLD} if case.older else {}), failed
        TraceStore(folder=folder / "traces", overwrite=True).put(folder / "raw.json", "0.json", TraceValues())
        assert unmarked(folder / "traces" / "0.json") == NEW, failed
        assert not (folder / "traces" / LEFT).exists(), failed


def test_a_kill_at_any_call_or_moment_leaves_only_whole_files() -> None:
    script = Path(__file__).parents[2] / "stress" / "store_kills.py"
    found = subprocess.run(
        [sys.executable, script, "--runs", "30", "--no-sync"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
