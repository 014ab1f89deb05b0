"""A recording can be dropped while the user's code goes on, for one of other steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from capturing import codes, names_in, work

from torchprof_magic.model.meta import Stepping

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchprof_magic.capture import CaptureSession

    Make = Callable[..., CaptureSession]

OTHER = Stepping(how="loop", line=9)


@pytest.mark.parametrize("before", [1, 2, 4, 9], ids=["idle", "warming up", "recording", "over"])
def test_what_was_recorded_before_is_in_no_trace(make_session: Make, tmp_path: Path, before: int) -> None:
    session = make_session()
    session.start()
    for number in range(before):
        work(f"before{number}")
        session.step()
    assert session.start_over(OTHER)
    assert not torch.autograd.profiler._is_profiler_enabled  # type: ignore[attr-defined]
    work("between")
    session.start(None, 1)
    for number in range(1, 6):
        work(f"after{number}")
        session.step()
    recording = session.stop()
    assert recording.stepping == OTHER
    assert [mark.number for cycle in recording.cycles for mark in cycle.steps] == [2, 3, 4]
    (cycle,) = recording.cycles
    bodies = [name for name in names_in(cycle.path) if name.startswith(("before", "between", "after"))]
    assert bodies == ["after2", "after3", "after4"]
    assert [marks.cycle for marks in recording.program] == [0]
    assert [step for step, _, _ in recording.program[0].steps] == [2, 3, 4]
    assert len([*(tmp_path / "run").glob("cycle-*")]) == 1


def test_what_was_said_of_steps_that_were_dropped_is_said_no_more(make_session: Make) -> None:
    session = make_session()
    session.start()
    work()
    session.note("capture.times_ended", cost="1 s", step=2, steps="1 step", limit="2 s")
    session.note("capture.details_ended", cost="1 s", step=7, steps="1 step", spent="1 s", limit="2 s")
    session.note("capture.details_ended_by_memory", reason="memory use grew by 1 GB", limit="1 GB", step=7)
    session.note("capture.stacks_ended", step=7, moment="1 s", calls="10", limit="10", rest="")
    session.note("capture.part_failed", part="a check", error="KeyError: 1", torch="2.13")
    session.step()
    assert session.start_over(OTHER)
    session.start()
    session.step()
    assert codes(session.stop()) == ["capture.part_failed", "capture.loop_too_short"]


def test_hooks_of_modules_are_there_once_afterwards(make_session: Make) -> None:
    hooks = torch.nn.modules.module._global_forward_pre_hooks
    session = make_session(watch_modules=True)
    session.start()
    once = len(hooks)
    session.step()
    assert session.start_over(OTHER)
    session.start()
    assert len(hooks) == once
    session.stop()
    assert len(hooks) < once


def test_it_is_refused_where_a_handler_may_have_a_part_of_it(make_session: Make) -> None:
    seen: list[object] = []
    session = make_session(schedule=(0, 0, 1, 1))
    session._options = replace(session._options, on_trace_ready=seen.append)
    session.start()
    work()
    session.step()
    assert not session.start_over(OTHER)
    recording = session.stop()
    assert (len(recording.cycles), len(seen)) == (1, 1)


def test_it_is_refused_before_the_first_step_and_after_the_end(make_session: Make) -> None:
    session = make_session()
    session.open()
    assert not session.start_over(OTHER)
    session.start()
    session.stop()
    assert not session.start_over(OTHER)


def test_what_was_noted_of_the_dropped_recording_alone_is_forgotten(make_session: Make) -> None:
    session = make_session(schedule=(0, 0, 1, 1))
    session.start()
    session.step()
    assert [problem.code for problem in session.problems] == ["capture.no_ops"]
    assert session.start_over(OTHER)
    session.start()
    work()
    session.step()
    assert codes(session.stop()) == []
