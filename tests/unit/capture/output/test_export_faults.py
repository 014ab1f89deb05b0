"""Every system call of saving a cycle fails once, in turn."""

from __future__ import annotations

import errno
import json
import mmap
import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from amount import IS_WHOLE
from capturing import names_in, work
from torch.profiler.profiler import _KinetoProfile

from torchprof_magic.capture import CaptureSession
from torchprof_magic.capture.output import validate
from torchprof_magic.capture.recorder import Recorder
from torchprof_magic.capture.torch_api import compat, features
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import ProfileOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchprof_magic.model.recording import Recording

# The second name makes torch's fast export lose names, so that the slow one has to run as well.
NAMES = {"fast": "plain", "again": "é"}
KINDS = ["fast", "again"] if features.HAS_PYTHON_EXPORT else ["fast"]
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)
FILE = "cycle-0.pt.trace.json"
CALLS: list[tuple[Any, str]] = [
    *((Path, name) for name in ("stat", "open", "replace", "resolve", "rmdir")),
    *((os, name) for name in ("open", "fsync", "mkdir", "replace", "unlink")),
    (mmap, "mmap"),
    (shutil, "disk_usage"),
    (shutil, "copyfile"),
]


@dataclass
class Faults:
    """Counts the calls that are made while a cycle is saved and checked, and makes one of them fail."""

    number: int = -1
    error: int = 0
    is_saving: bool = False
    full: Path | None = None
    names: list[str] = field(default_factory=list)

    def is_due(self, name: str) -> bool:
        if self.is_saving:
            self.names.append(name)
        return self.is_saving and len(self.names) - 1 == self.number

    def wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.is_due(name):
                raise OSError(self.error, os.strerror(self.error))
            return real(*args, **kwargs)

        return call

    def export(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Fail as torch does: its C++ export says nothing and leaves half a file, the one in Python raises."""

        def call(profiler: object, path: str, **flags: bool) -> None:
            is_full = self.full is not None and self.full in Path(path).parents
            if not self.is_due("export") and not is_full:
                real(profiler, path, **flags)
            elif flags.get("use_python_export"):
                _write_half(path)
                error = errno.ENOSPC if is_full else self.error
                raise OSError(error, os.strerror(error))
            else:
                _write_half(f"{path}.tmp")

        return call

    def saving(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self.is_saving = True
            try:
                return real(*args)
            finally:
                self.is_saving = False

        return call


def _write_half(path: str) -> None:
    with open(path, "w") as file:  # noqa: PTH123 - Path.open counts
        file.write('{"traceEvents": [{"ph": ')


@contextmanager
def injected(faults: Faults) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in CALLS:
            patch.setattr(owner, name, faults.wrap(name, getattr(owner, name)))
        patch.setattr(_KinetoProfile, "export_chrome_trace", faults.export(_KinetoProfile.export_chrome_trace))
        patch.setattr(Recorder, "save_finished", faults.saving(Recorder.save_finished))
        yield


def record(folder: Path, *names: str, execution_trace: str = "") -> Recording:
    options = ProfileOptions(activities=("cpu",), execution_trace=execution_trace)
    session = CaptureSession(options, stepping=Stepping(how="cell"), folder=folder)
    session.start()
    for name in names:
        work(name)
    return session.stop()


def calls_of(kind: str) -> list[str]:
    faults = Faults()
    with tempfile.TemporaryDirectory() as folder, injected(faults):
        record(Path(folder), NAMES[kind], execution_trace=f"{folder}/graph.json")
    return faults.names


# In a sample each call fails once, with the errors in turn.
CASES = [
    pytest.param(kind, number, error, id=f"{kind}-{number}-{name}-{errno.errorcode[error]}")
    for kind in KINDS
    for number, name in enumerate(calls_of(kind))
    for error in (ERRORS if IS_WHOLE else ERRORS[number % len(ERRORS) :][:1])
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_calls_that_fail_below_are_those_that_saving_makes(kind: str) -> None:
    names = calls_of(kind)
    assert names.count("export") == (2 if kind == "again" else 1)
    assert {"stat", "open", "mmap", "fsync", "replace", "unlink"} <= set(names)


@pytest.mark.parametrize(("kind", "number", "error"), CASES)
def test_a_system_call_that_fails_leaves_the_old_or_the_new_file_complete(
    tmp_path: Path, kind: str, number: int, error: int
) -> None:
    folder, name, graph = tmp_path / "run", NAMES[kind], tmp_path / "graph.json"
    record(folder, "earlier")
    graph.write_text("earlier")
    faults = Faults(number, error)
    with injected(faults):
        recording = record(folder, name, execution_trace=str(graph))
    assert len(faults.names) > number
    assert [path.name for path in folder.iterdir()] == [FILE]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph.json", "run"]
    found = names_in(folder / FILE)
    said = {problem.code: problem.message for problem in recording.problems}
    if recording.cycles:
        assert "earlier" not in found
        assert name in found or "capture.invalid_trace" in said
        assert "capture.not_saved" not in said
    else:
        assert "earlier" in found
        assert f"{FILE} was not saved: " in said["capture.not_saved"]
        assert os.strerror(error) in said["capture.not_saved"] or validate.NO_FILE in said["capture.not_saved"]
    if graph.read_text() == "earlier":
        assert f"was not saved to {graph}: {os.strerror(error)}" in said["capture.no_execution_trace"]
    else:
        assert json.loads(graph.read_text())["nodes"]
    assert not compat.is_any_profiler_on()
    assert "later" in names_in(record(folder, "later").cycles[0].path)


@pytest.mark.parametrize(
    "error", [UnicodeDecodeError("utf-8", b"\xb0", 0, 1, "invalid start byte"), RuntimeError("no")]
)
@pytest.mark.skipif("again" not in KINDS, reason="this torch has no export that escapes names")
def test_what_torch_wrote_first_stays_when_its_second_export_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    real = _KinetoProfile.export_chrome_trace

    def export(self: object, path: str, *, use_python_export: bool = False) -> None:
        if use_python_export:
            raise error
        real(self, path)

    monkeypatch.setattr(_KinetoProfile, "export_chrome_trace", export)
    recording = record(tmp_path, "é", "plain")
    assert [problem.code for problem in recording.problems] == ["capture.invalid_trace"]
    assert "torch replaced names with 'unknown'" in recording.problems[0].message
    assert "plain" in names_in(recording.cycles[0].path)


def no_space(_fd: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_says_how_much_space_the_file_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", no_space)
    recording = record(tmp_path, "plain")
    assert recording.cycles == ()
    assert list(tmp_path.iterdir()) == []
    message = recording.problems[0].message
    assert "No space left on device; it needs about " in message
    assert f"free in {tmp_path}" in message


def record_elsewhere(tmp_path: Path, faults: Faults, other_places: list[Path]) -> Recording:
    """Record with a folder that takes nothing, and two other places."""
    faults.full = tmp_path / "run"
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        other_places.append(tmp_path / name)
    with injected(faults):
        return record(tmp_path / "run", "plain")


@pytest.mark.skipif("again" not in KINDS, reason="this torch has no export that can be repeated")
def test_a_recording_is_saved_somewhere_whichever_call_fails_once(
    tmp_path_factory: pytest.TempPathFactory, other_places: list[Path]
) -> None:
    counting = Faults()
    record_elsewhere(tmp_path_factory.mktemp("counting"), counting, other_places)
    assert {"mkdir", "resolve", "export", "fsync", "replace", "disk_usage"} <= set(counting.names)
    for number in range(len(counting.names)):
        for error in ERRORS:
            tmp_path = tmp_path_factory.mktemp("faults")
            other_places.clear()
            recording = record_elsewhere(tmp_path, Faults(number, error), other_places)
            failed = f"{counting.names[number]}, call {number}, {errno.errorcode[error]}"
            (cycle,) = recording.cycles
            assert [problem.code for problem in recording.problems] == ["capture.saved_elsewhere"], failed
            assert "plain" in names_in(cycle.path), failed
            assert [path for path in tmp_path.rglob("*") if path.is_file()] == [cycle.path], failed
