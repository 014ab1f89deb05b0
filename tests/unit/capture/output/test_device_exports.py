"""A backend of torch that merges the device's work into the trace later: its file is waited for, or done without."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from capturing import codes, names_in, record
from torch.profiler.profiler import _KinetoProfile
from versions import needs

from torchprof_magic.capture.torch_api.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.capture import CaptureSession

    Make = Callable[..., CaptureSession]


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make torch export as its own backend for CUDA does: a gzipped file, when it is waited for."""
    export: Any = _KinetoProfile.export_chrome_trace

    def export_later(self: Any, path: str) -> None:
        self.pending = path

    def wait_for_exports(self: Any) -> None:
        export(self, f"{self.pending}.plain")
        Path(f"{self.pending}.gz").write_bytes(gzip.compress(Path(f"{self.pending}.plain").read_bytes()))
        Path(f"{self.pending}.plain").unlink()

    monkeypatch.setattr(Engine, "has_own_device_export", True)
    monkeypatch.setattr(_KinetoProfile, "export_chrome_trace", export_later)
    monkeypatch.setattr(_KinetoProfile, "wait_for_exports", wait_for_exports, raising=False)


@pytest.mark.usefixtures("later")
def test_a_file_that_torch_writes_later_under_another_name_is_the_trace(make_session: Make) -> None:
    recording = record(make_session, "body")
    assert codes(recording) == []
    assert "body" in names_in(recording.cycles[0].path)
    assert [path.name for path in recording.folder.iterdir()] == ["cycle-0.pt.trace.json"]


@pytest.mark.usefixtures("later")
@needs("use_python_export")
@pytest.mark.parametrize("error", [RuntimeError("CUPTI"), None])
def test_an_export_that_does_not_come_leaves_what_the_host_did_and_a_note(
    make_session: Make, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    def wait(_self: object) -> None:
        warnings.warn("skipping chrome trace export", stacklevel=2)
        if error is not None:
            raise error

    monkeypatch.setattr(_KinetoProfile, "wait_for_exports", wait)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recording = record(make_session, "body")
    (problem,) = recording.problems
    assert (problem.code, problem.severity) == ("capture.host_only", "data_loss")
    assert "body" in names_in(recording.cycles[0].path)
