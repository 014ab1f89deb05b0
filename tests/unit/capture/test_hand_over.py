"""The steps of a recording can be handed over to what makes them, and rest between two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from capturing import codes, names_in, work

from torchprof_magic.capture.torch_api import features
from torchprof_magic.model.meta import Stepping

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.capture import CaptureSession
    from torchprof_magic.model.recording import Recording

    Make = Callable[..., CaptureSession]

BY_TRAINER = Stepping(how="manual", code="callbacks.made")
EIGHT = (0, 0, 8, 1)


class Maker:
    """What makes the steps, until it is left."""

    def __init__(self) -> None:
        self.goes_on = True

    def is_running(self) -> bool:
        return self.goes_on


def bodies(recording: Recording) -> list[str]:
    """Return the names of the annotations in all cycles but those of the steps."""
    names = [name for cycle in recording.cycles for name in names_in(cycle.path)]
    return [name for name in names if name.startswith(("before", "body", "rest", "other"))]


def marks(recording: Recording) -> list[tuple[int, bool]]:
    return [(mark.number, mark.is_complete) for cycle in recording.cycles for mark in cycle.steps]


def test_only_the_steps_of_the_new_maker_are_in_the_recording(make_session: Make) -> None:
    session, maker = make_session("optimizer"), Maker()
    session.start()
    for number in range(2):
        work(f"before{number}")
        session.step()
    assert session.hand_over(maker, BY_TRAINER, 6)
    for number in range(6):
        work(f"body{number}")
        session.step()  # of the one before, such as an optimizer
        session.step(by=maker)
    session.finish(is_between=True, by=maker)
    work("other")
    recording = session.stop()
    assert recording.stepping == BY_TRAINER
    assert bodies(recording) == ["body2", "body3", "body4"]
    assert marks(recording) == [(2, True), (3, True), (4, True)]
    assert recording.problems == ()


def test_a_loop_of_the_cell_does_nothing_once_another_makes_the_steps(make_session: Make) -> None:
    session, maker = make_session("loop", schedule=EIGHT), Maker()
    session.open()
    assert session.hand_over(maker, BY_TRAINER)
    session.start(100)
    session.cut()
    session.finish()
    session.replan(Stepping(how="cell"))
    assert not session.start_over(Stepping(how="cell"))
    work("body0")
    session.step(by=maker)
    session.finish(is_between=True, by=maker)
    recording = session.stop()
    assert (marks(recording), recording.stepping) == ([(0, True)], BY_TRAINER)


def test_steps_that_the_user_has_fixed_or_made_stay(make_session: Make) -> None:
    fixed = make_session("cell")
    fixed.may_hand_over = False
    fixed.start()
    assert not fixed.hand_over(Maker(), BY_TRAINER)
    assert fixed.stop().stepping.how == "cell"
    made = make_session("manual", schedule=EIGHT)
    made.start()
    made.step()
    assert not made.hand_over(Maker(), BY_TRAINER)
    made.step()
    assert marks(made.stop())[:2] == [(0, True), (1, True)]


def test_a_second_training_is_not_recorded_and_named(make_session: Make) -> None:
    session, maker = make_session("optimizer", schedule=EIGHT), Maker()
    session.start()
    session.hand_over(maker, BY_TRAINER)
    work("body0")
    session.step(by=maker)
    session.finish(is_between=True, by=maker)
    assert not session.hand_over(maker, BY_TRAINER)
    assert not session.hand_over(Maker(), BY_TRAINER)
    work("other")
    session.step(by=maker)
    recording = session.stop()
    assert bodies(recording) == ["body0"]
    assert "capture.later_training" in codes(recording)


def test_a_training_inside_another_one_leaves_its_steps_alone(make_session: Make) -> None:
    session, maker = make_session("optimizer", schedule=EIGHT), Maker()
    session.start()
    session.hand_over(maker, BY_TRAINER)
    inner = Maker()
    assert not session.hand_over(inner, BY_TRAINER)
    session.step(by=inner)
    session.step(by=maker)
    session.finish(is_between=True, by=maker)
    recording = session.stop()
    assert marks(recording) == [(0, True)]
    assert "capture.later_training" not in codes(recording)


def test_a_training_after_one_that_failed_ends_its_recording(make_session: Make) -> None:
    session, maker = make_session("optimizer", schedule=EIGHT), Maker()
    session.start()
    session.hand_over(maker, BY_TRAINER)
    work("body0")
    session.step(by=maker)
    maker.goes_on = False
    assert not session.hand_over(Maker(), BY_TRAINER)
    work("other")
    recording = session.stop()
    assert bodies(recording) == ["body0"]
    assert marks(recording) == [(0, True), (1, False)]


def test_a_training_that_is_tried_again_starts_over(make_session: Make) -> None:
    session, maker = make_session("optimizer", schedule=EIGHT), Maker()
    session.start()
    for name in ("before", "body"):
        assert session.hand_over(maker, BY_TRAINER)
        work(name)
        session.step(by=maker)
    session.finish(is_between=True, by=maker)
    assert bodies(session.stop()) == ["body"]


def rested(session: CaptureSession, maker: Maker | None, steps: int = 4) -> Recording:
    """Record some steps with a rest after every second one."""
    session.start(by=maker)
    for number in range(steps):
        work(f"body{number}")
        session.step(by=maker, rests=number % 2 == 1)
        if number % 2 == 1:
            work(f"rest{number}")
            session.go_to_work()
    session.finish(is_between=True, by=maker)
    return session.stop()


@pytest.mark.skipif(features.lack_of("toggle_collection_dynamic") is not None, reason="torch cannot leave ops out")
def test_what_runs_in_a_rest_is_in_no_step_and_not_recorded(make_session: Make) -> None:
    recording = rested(make_session(schedule=EIGHT), None)
    assert bodies(recording) == ["body0", "body1", "body2", "body3"]
    assert marks(recording) == [(0, True), (1, True), (2, True), (3, True)]
    (found,) = [problem for problem in recording.problems if problem.code == "capture.evaluation"]
    assert "2 times" in found.message


def test_a_rest_is_in_the_time_of_no_step(make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock is one ns later, and a rest takes a second."""
    from torchprof_magic.capture import recorder, session  # noqa: PLC0415 - the clocks of these two are replaced

    now = [0]

    def clock() -> int:
        now[0] += 1
        return now[0]

    for module in (recorder, session):
        monkeypatch.setattr(module, "perf_counter_ns", clock)
    made = make_session(schedule=(4, 0, 1, 1))
    made.start()
    for _ in range(4):
        now[0] += 1_000_000
        made.step(rests=True)
        now[0] += 1_000_000_000
        made.go_to_work()
    made.step()
    plain = made.stop().plain_step_ns
    assert len(plain) == 3
    assert all(1_000_000 <= each < 1_001_000 for each in plain)


def test_a_rest_after_the_last_recorded_step_is_over_when_work_goes_on(make_session: Make) -> None:
    recording = rested(make_session(schedule=(0, 0, 2, 1)), None, steps=8)
    assert marks(recording) == [(0, True), (1, True)]
    assert len(recording.plain_step_ns) == 6


@pytest.mark.parametrize("schedule", [(0, 0, 1, 3), (0, 1, 2, 0), (1, 1, 1, 2)])
def test_cycles_may_end_and_begin_around_a_rest(make_session: Make, schedule: tuple[int, int, int, int]) -> None:
    wait, warmup, active, repeat = schedule
    period = wait + warmup + active
    steps = [step for step in range(8) if step % period >= wait + warmup and (not repeat or step // period < repeat)]
    recording = rested(make_session(schedule=schedule), None, steps=8)
    assert marks(recording) == [(step, True) for step in steps]
    assert [name for name in bodies(recording) if name.startswith("body")] == [f"body{step}" for step in steps]


def test_a_run_that_ends_in_a_rest_lists_no_step_that_has_not_begun(make_session: Make) -> None:
    session = make_session(schedule=EIGHT)
    session.start()
    work("body0")
    session.step(rests=True)
    work("rest0")
    assert marks(session.stop()) == [(0, True)]


def test_a_step_in_which_a_rest_begins_unannounced_is_incomplete(make_session: Make) -> None:
    session = make_session(schedule=EIGHT)
    session.start()
    session.step()
    session.cut(rests=True)
    session.go_to_work()
    session.go_to_work()  # does nothing in a step
    session.step()
    session.finish(is_between=True)
    assert marks(session.stop()) == [(0, True), (1, False), (2, True)]


def test_a_session_that_was_left_is_ended_as_it_wants(make_session: Make) -> None:
    ended: list[str] = []

    def leave_behind() -> CaptureSession:
        session = make_session(schedule=EIGHT)
        session.start()
        session.on_leave = lambda: (ended.append("left"), session.stop())
        return session

    left = leave_behind()
    other = make_session(schedule=EIGHT)
    other.start()
    assert ended == ["left"]
    assert left.recording is not None
    assert "capture.reclaimed" not in codes(left.recording)
    other.stop()
