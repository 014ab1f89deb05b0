from __future__ import annotations

import time
from pathlib import Path

import pytest

from torchprof_magic.errors import OptionsError
from torchprof_magic.store.tensorboard import tensorboard_name


class Exporter:
    """Stands for a profiler, and notes the names that the handler asks for."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def export_chrome_trace(self, path: str, **_: object) -> None:
        self.names.append(Path(path).name)


@pytest.mark.parametrize("gzip", [False, True])
def test_names_are_those_of_torchs_own_handler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, gzip: bool) -> None:
    profiler = pytest.importorskip("torch.profiler")
    monkeypatch.setattr(time, "time_ns", lambda: 1_767_323_045_000_000_123)
    exporter = Exporter()
    profiler.tensorboard_trace_handler(str(tmp_path), "worker-3", use_gzip=gzip)(exporter)
    assert exporter.names == [tensorboard_name("worker-3", 1_767_323_045_000_000_123, gzip=gzip)]


@pytest.mark.parametrize("worker", ["a/b", "../b", "a\0", ".torchprof", "x" * 250])
def test_a_worker_that_cannot_be_part_of_a_name_is_refused(worker: str) -> None:
    with pytest.raises(OptionsError, match=r"^--tensorboard"):
        tensorboard_name(worker, 1)
