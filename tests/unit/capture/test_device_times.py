"""Times of a device that are lost when they are exported late.

No machine without a device shows it, so what is tested is the order: a cycle is on disk before the next one begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from capturing import work

from torchprof_magic.capture import CaptureSession
from torchprof_magic.capture.torch_api.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Make = Callable[..., CaptureSession]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, has_device: bool) -> list[str]:
    """What torch's profiler is made to do, in turn; each profiler says whether it records a device."""
    made: list[str] = []
    init, prepare, export = Engine.__init__, Engine.prepare, Engine.export

    def noted_init(engine: Engine, *arguments: Any) -> None:
        init(engine, *arguments)
        engine.has_device = has_device

    def noted_prepare(engine: Engine) -> None:
        made.append("prepare")
        prepare(engine)

    def noted_export(engine: Engine, path: Path) -> None:
        made.append("export")
        export(engine, path)

    for name, method in (("__init__", noted_init), ("prepare", noted_prepare), ("export", noted_export)):
        monkeypatch.setattr(Engine, name, method)
    return made


@pytest.mark.parametrize(
    ("has_device", "order"),
    [(True, ["prepare", "export", "prepare", "export"]), (False, ["prepare", "prepare", "export", "export"])],
)
def test_cycles_without_a_pause_between_them_wait_for_the_disk_only_without_a_device(
    make_session: Make, calls: list[str], order: list[str]
) -> None:
    session = make_session(schedule=(0, 0, 2, 2))
    session.start()
    for _ in range(4):
        work()
        session.step()
    recording = session.stop()
    assert calls == order
    assert [[mark.number for mark in cycle.steps] for cycle in recording.cycles] == [[0, 1], [2, 3]]


@pytest.mark.parametrize("has_device", [True])
def test_another_profiler_finds_the_recording_of_a_device_on_disk(make_session: Make, calls: list[str]) -> None:
    session = make_session(schedule=(0, 0, 4, 1))
    session.start()
    work()
    session.step()
    with torch.profiler.profile() as other:
        assert calls == ["prepare", "export"]
        work()
    session.stop()
    assert len(other.key_averages()) > 0
