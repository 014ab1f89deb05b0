"""Fixtures of the capture tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch._inductor.config  # noqa: F401 - torch imports it at the first prepare; its warnings are not ours
from capturing import work

from torchprof_magic.capture import CaptureSession, busy_profiler, switch_off
from torchprof_magic.capture.output import fallback_folders
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import ProfileOptions, ScheduleOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torchprof_magic.capture import Progress
    from torchprof_magic.model.recording import Recording


@pytest.fixture(autouse=True)
def _profiler_is_off_afterwards() -> Iterator[None]:
    yield
    busy = busy_profiler()
    switch_off()
    assert busy is None


@pytest.fixture(autouse=True)
def other_places(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the places where a trace may go that its folder does not take; none, until a test adds one."""
    places: list[Path] = []
    monkeypatch.setattr(fallback_folders, "_candidates", lambda named: iter([*([named] if named else []), *places]))
    return places


@pytest.fixture
def make_session(tmp_path: Path) -> Callable[..., CaptureSession]:
    def make(
        how: str = "manual",
        *,
        schedule: tuple[int, int, int, int] | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_wait: Callable[[int], None] | None = None,
        **flags: bool,
    ) -> CaptureSession:
        names = ("wait", "warmup", "active", "repeat")
        wanted = ScheduleOptions(**dict(zip(names, schedule, strict=True))) if schedule else ScheduleOptions()
        options = ProfileOptions(schedule=wanted, activities=("cpu",), **flags)
        return CaptureSession(
            options,
            stepping=Stepping(how=how),
            folder=tmp_path / "run",
            on_progress=on_progress,
            on_wait=on_wait,
        )

    return make


@pytest.fixture
def run(make_session: Callable[..., CaptureSession]) -> Callable[..., Recording]:
    """Run some steps named ``body<n>`` and return the recording."""

    def run_steps(steps: int, how: str = "manual", *, length: int | None = None, **arguments: object) -> Recording:
        session = make_session(how, **arguments)
        session.start(length)
        for number in range(steps):
            work(f"body{number}")
            session.step()
        return session.stop()

    return run_steps
