"""How long does torch's own copy of a cycle live that is on disk?"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import pytest
from capturing import work

from torchprof_magic.capture import CaptureSession, shelf
from torchprof_magic.meta import Stepping
from torchprof_magic.options import ProfileOptions, ScheduleOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def cycles() -> list[weakref.ref[Any]]:
    """What torch held of each cycle when it was saved."""
    return []


@pytest.fixture
def session(tmp_path: Path, cycles: list[weakref.ref[Any]]) -> CaptureSession:
    """A session of two cycles, with two steps between them and some after them."""
    options = ProfileOptions(
        activities=("cpu",),
        schedule=ScheduleOptions(wait=2, warmup=1, active=1, repeat=2, skip_first_wait=True),
        on_trace_ready=lambda profiler: cycles.append(weakref.ref(profiler)),
    )
    return CaptureSession(options, stepping=Stepping(how="manual"), folder=tmp_path)


def alive(cycles: list[weakref.ref[Any]]) -> list[bool]:
    """Return of each saved cycle whether torch still holds it."""
    return [cycle() is not None for cycle in cycles]


def step(session: CaptureSession, count: int) -> None:
    """Do some work in each of so many steps."""
    for _ in range(count):
        work()
        session.step()


def test_a_saved_cycle_stays_with_torch_until_the_next_one_is_prepared(
    session: CaptureSession, cycles: list[weakref.ref[Any]]
) -> None:
    session.start()
    step(session, 3)
    assert alive(cycles) == [True]
    step(session, 1)
    assert alive(cycles) == [False]
    session.stop()


def test_the_last_cycle_stays_with_torch_until_the_run_ends(
    session: CaptureSession, cycles: list[weakref.ref[Any]]
) -> None:
    session.start()
    step(session, 12)
    assert alive(cycles) == [False, True]
    recording = session.stop()
    assert alive(cycles) == [False, False]
    assert [cycle.number for cycle in recording.cycles] == [0, 1]


@pytest.mark.parametrize("end", [CaptureSession.discard, CaptureSession.reclaim])
def test_nothing_stays_with_torch_of_a_run_that_is_thrown_away(
    session: CaptureSession, cycles: list[weakref.ref[Any]], end: Callable[[CaptureSession], None]
) -> None:
    session.start()
    step(session, 3)
    end(session)
    assert alive(cycles) == [False]


def test_a_large_cycle_goes_as_soon_as_it_is_on_disk(
    session: CaptureSession, cycles: list[weakref.ref[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "KEPT_FILE_BYTES", 1000)
    session.start()
    step(session, 3)
    assert alive(cycles) == [False]
    session.stop()
