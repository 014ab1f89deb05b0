"""A recording stops when it reaches its limits, and says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from capturing import codes, work

from torchprof_magic.capture import CaptureSession
from torchprof_magic.capture import budget as budget_module
from torchprof_magic.capture.budget import Budget
from torchprof_magic.capture.problems import ProblemLog
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import ProfileOptions, ScheduleOptions
from torchprof_magic.system.process import memory
from torchprof_magic.system.process.memory import Growth

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.model.recording import Recording


def recorded(
    folder: Path,
    memory_bytes: int | None = None,
    *,
    file_bytes: int | None = None,
    steps: int,
    active: int,
    repeat: int = 1,
    wait: int = 0,
) -> Recording:
    options = ProfileOptions(
        schedule=ScheduleOptions(wait=wait, warmup=0, active=active, repeat=repeat),
        budget_bytes=memory_bytes,
        budget_file_bytes=file_bytes,
        activities=("cpu",),
    )
    session = CaptureSession(options, stepping=Stepping(how="manual"), folder=folder / "run")
    session.start()
    for _ in range(steps):
        work()
        session.step()
    return session.stop()


def steps_of(recording: Recording) -> list[tuple[int, bool]]:
    return [(mark.number, mark.is_complete) for cycle in recording.cycles for mark in cycle.steps]


def test_the_default_budget_is_half_of_the_free_memory_and_any_disk_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: SimpleNamespace(available=2_000))
    monkeypatch.setattr(budget_module, "MEMORY_INTERVAL_NS", 0)
    monkeypatch.setattr(budget_module, "ENDING_FACTORS", {"ops": 1.0, "memory": 1.0})
    budget = Budget(ProfileOptions(), ProblemLog())
    budget.begin()
    for grown, is_reached in ((1_000, False), (1_001, True)):
        monkeypatch.setattr(Growth, "grown_bytes", lambda _self, grown=grown: grown)
        assert budget.is_reached() is is_reached
    budget.file_bytes = 1 << 60
    assert not budget.is_disk_full()


def test_the_step_that_exceeds_the_budget_is_the_last_and_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown = iter([0, 10, 10_001, *[10_002] * 99])  # what is asked for: once a step, and for the message
    monkeypatch.setattr(Growth, "grown_bytes", lambda _self: next(grown))
    monkeypatch.setattr(budget_module, "MEMORY_INTERVAL_NS", 0)
    monkeypatch.setattr(budget_module, "ENDING_FACTORS", {"ops": 1.0, "memory": 1.0})
    recording = recorded(tmp_path, 10_000, steps=9, active=8)
    assert steps_of(recording) == [(0, True), (1, True), (2, True)]
    assert codes(recording) == ["capture.budget", "capture.partial"]
    assert recording.problems[0].message.startswith("Recording stopped after step 2: memory use grew by 10 kB")


def test_recording_stops_when_the_files_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Growth, "grown_bytes", lambda _self: 0)
    size = recorded(tmp_path / "one", steps=1, active=1).cycles[0].path.stat().st_size
    limit = size * 2 + size // 2
    recording = recorded(tmp_path / "many", file_bytes=limit, steps=18, wait=1, active=1, repeat=9)
    assert steps_of(recording) == [(1, True), (3, True), (5, True)]
    assert codes(recording) == ["capture.budget_files", "capture.partial"]
    problem = recording.problems[0]
    assert problem.message.startswith("Recording stopped after step 5: the trace files take up ")
    assert problem.fix.endswith("or raise --budget-files.")


def test_a_limit_of_memory_does_not_limit_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Growth, "grown_bytes", lambda _self: 0)
    recording = recorded(tmp_path, 1, steps=4, wait=1, active=1, repeat=2)
    assert [cycle.path.stat().st_size > 1 for cycle in recording.cycles] == [True, True]
    assert codes(recording) == []


def test_a_recording_within_its_budget_is_complete(tmp_path: Path) -> None:
    recording = recorded(tmp_path, 10_000_000_000, steps=6, active=3, repeat=2)
    assert codes(recording) == []
    assert len(steps_of(recording)) == 6
