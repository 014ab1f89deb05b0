"""A recording and a profiler of the user's own do not damage each other."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
import torch
from capturing import codes, names_in, record, shielded_steps, work
from forking import forked_python

from torchprof_magic.capture import CaptureSession
from torchprof_magic.capture.torch_api.compat import is_profiler_on, switch_off
from torchprof_magic.model.errors import ProfilerBusyError

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., CaptureSession]

STOPPED = """
import gc
import torch
from torch.autograd.profiler import KinetoStepTracker
from torchprof_magic.capture import busy_profiler
theirs = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
theirs.start()
theirs.stop()
print("ProfilerStep" in KinetoStepTracker._step_dict, busy_profiler(), "ProfilerStep" in KinetoStepTracker._step_dict)
del theirs
gc.collect()
print(busy_profiler(), "ProfilerStep" in KinetoStepTracker._step_dict)
"""


def test_profiler_already_on_is_an_error_before_anything_runs(make_session: Make) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
        with pytest.raises(ProfilerBusyError, match="%torchprof off"):
            make_session().start()
        work("their body")
    assert "their body" in [event.name for event in theirs.events()]


def test_profiler_in_its_warmup_is_an_error_too(make_session: Make) -> None:
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule) as theirs:
        with pytest.raises(ProfilerBusyError, match="warm-up"):
            make_session().start()
        theirs.step()
        work("their body")
    assert "their body" in [event.name for event in theirs.events()]


def test_profiler_of_a_class_of_the_users_in_its_warmup_is_an_error_too(make_session: Make) -> None:
    class Mine(torch.profiler.profile):
        pass

    schedule = torch.profiler.schedule(wait=0, warmup=1, active=1)
    with (
        Mine(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule),
        pytest.raises(ProfilerBusyError, match="warm-up"),
    ):
        make_session().start()


def test_profilers_that_ended_in_their_warmup_or_were_not_entered_do_not_block_a_run(make_session: Make) -> None:
    activities = [torch.profiler.ProfilerActivity.CPU]
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=1)
    with torch.profiler.profile(activities=activities, schedule=schedule) as left:
        pass
    before = torch.profiler.profile(activities=activities, schedule=schedule)
    session = make_session()
    session.start()
    session.stop()
    assert left.current_action == before.current_action == torch.profiler.ProfilerAction.WARMUP


def test_a_profiler_whose_constructor_failed_does_not_block_a_run(make_session: Make) -> None:
    activities = [torch.profiler.ProfilerActivity.CPU]
    half_made = torch.profiler.profile.__new__(torch.profiler.profile)
    counted = torch.profiler.profile(activities=activities)
    counted.start()  # from here on torch counts steps, so that one is looked for
    counted.stop()
    session = make_session()
    session.start()
    session.stop()
    assert not hasattr(half_made, "step_rec_fn")


def test_a_profiler_that_was_stopped_and_deleted_is_not_searched_for() -> None:
    # In a process of its own, where no test has left a profiler behind.
    done = subprocess.run(forked_python("-W", "ignore", "-c", STOPPED), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "None", "True", "None", "False"]


def test_profiler_used_inside_leaves_both_with_their_data(make_session: Make) -> None:
    session = make_session("cell")
    session.start()
    work("ours")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
        work("theirs")
    recording = session.stop()
    assert "theirs" in [event.name for event in theirs.events()]
    assert "ours" in names_in(recording.cycles[0].path)
    assert "capture.taken_over" in codes(recording)


def test_a_recording_that_was_ended_from_outside_keeps_what_was_saved_before(
    make_session: Make,
) -> None:
    session = make_session("manual", schedule=(0, 0, 1, 0))
    session.start()
    work("first")
    session.step()
    work("second")
    switch_off()  # without a word to ours
    for _ in range(3):
        session.step()
        assert not is_profiler_on()
        work("later")
    recording = session.stop()
    assert [names_in(cycle.path).count("first") for cycle in recording.cycles] == [1]
    assert codes(recording) == ["capture.taken_over"]
    assert "the current cycle is lost" in recording.problems[0].message
    assert len(recording.plain_step_ns) == 2
    assert "again" in names_in(record(make_session, "again").cycles[0].path)


def test_a_step_in_which_the_recording_was_ended_saves_with_interrupts_held_back(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session("manual", schedule=(0, 0, 3, 0))
    session.start()
    shielded = shielded_steps(monkeypatch, session, lambda: step)
    for step in range(3):
        if step == 1:
            switch_off()
        session.step()
    session.stop()
    assert shielded == [1, 2]  # the second one is that of stop(): after the loss no step makes a transition


def test_legacy_profiler_used_inside_leaves_both_with_their_data(make_session: Make) -> None:
    session = make_session("cell")
    session.start()
    work("ours")
    with torch.autograd.profiler.profile() as theirs:
        work("theirs")
    recording = session.stop()
    assert "theirs" in [event.name for event in theirs.function_events]
    assert "ours" in names_in(recording.cycles[0].path)


def test_scheduled_profiler_around_the_loop_is_left_alone(make_session: Make) -> None:
    session = make_session("loop")
    session.open()
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule) as theirs:
        session.start(6)
        for number in range(6):
            work(f"body{number}")
            theirs.step()
            session.step()
    recording = session.stop()
    assert {"body2", "body3"} <= {event.name for event in theirs.events()}
    assert "capture.taken_over" in codes(recording)
