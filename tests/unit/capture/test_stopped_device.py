"""A recording whose device stops early, because its event buffers are full.

No machine without a device has one that stops, so torch's word for it is stood in for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capturing import codes, shielded_steps, work

from torchprof_magic.capture import CaptureSession
from torchprof_magic.capture.torch_api import compat
from torchprof_magic.capture.torch_api.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    Make = Callable[..., CaptureSession]


def with_device(monkeypatch: pytest.MonkeyPatch, is_stopped: Callable[[], bool]) -> None:
    """Let torch say what it says of a device, without one."""
    make = Engine.__init__

    def make_with_device(engine: Engine, *arguments: Any) -> None:
        make(engine, *arguments)
        engine.has_device = True

    monkeypatch.setattr(Engine, "__init__", make_with_device)
    monkeypatch.setattr(compat, "is_device_stopped", is_stopped)


def test_a_cycle_ends_with_the_step_in_which_the_device_stopped_and_the_next_is_whole(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_device(monkeypatch, lambda: step == 2)
    session = make_session(schedule=(1, 1, 3, 2))
    session.start()
    shielded = shielded_steps(monkeypatch, session, lambda: step)
    for step in range(10):  # noqa: B007 - read by the device
        work()
        session.step()
    recording = session.stop()
    assert [[mark.number for mark in cycle.steps] for cycle in recording.cycles] == [[2], [7, 8, 9]]
    assert all(mark.is_complete for cycle in recording.cycles for mark in cycle.steps)
    (problem,) = recording.problems
    assert (problem.code, problem.severity) == ("capture.device_stopped", "data_loss")
    assert problem.message == "Device events end at step 2, because the buffers for them were full."
    assert problem.fix == "Record fewer steps with --active."
    # The first cycle ends with step 2, and only there: steps 3 to 5 record nothing, and the next warm-up follows.
    assert shielded[:4] == [0, 1, 2, 5]


def test_a_cell_that_is_one_step_says_that_its_device_stopped(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_device(monkeypatch, lambda: True)
    session = make_session("cell")
    session.start()
    work()
    recording = session.stop()
    assert [[(mark.number, mark.is_complete) for mark in cycle.steps] for cycle in recording.cycles] == [[(0, True)]]
    assert codes(recording) == ["capture.device_stopped"]
