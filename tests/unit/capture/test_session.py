"""A session records the requested steps, and ends well however the code in it ends."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
import torch
from capturing import codes, names_in, work

from torchprof_magic.capture import STAGES, CaptureSession, busy_profiler
from torchprof_magic.model.errors import CaptureError, ProfilerBusyError
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import ProfileOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchprof_magic.capture import Progress
    from torchprof_magic.model.recording import Recording

    Make = Callable[..., CaptureSession]
    Run = Callable[..., Recording]


def test_only_the_active_steps_are_in_the_trace(run: Run) -> None:
    recording = run(6)
    assert recording.ended_in == "done"
    assert [mark.number for mark in recording.cycles[0].steps] == [2, 3, 4]
    assert [name for name in names_in(recording.cycles[0].path) if name.startswith("body")] == [
        "body2",
        "body3",
        "body4",
    ]


def test_steps_carry_the_names_that_torch_gives_them(run: Run) -> None:
    names = names_in(run(6).cycles[0].path)
    assert [name for name in names if name.startswith("ProfilerStep")] == [f"ProfilerStep#{n}" for n in (2, 3, 4)]


def test_how_many_objects_were_made_before_a_recording_does_not_decide_when_garbage_is_collected_in_it(
    make_session: Make,
) -> None:
    first = make_session(schedule=(0, 0, 1, 1))
    first.start()  # what torch imports in the first recording are many objects
    first.stop()
    thresholds = gc.get_threshold()
    gc.set_threshold(1_000_000)
    session = make_session(schedule=(0, 0, 1, 1))
    try:
        made = [[] for _ in range(100_000)]  # type: ignore[var-annotated]
        session.start()
        assert gc.get_count()[0] < len(made) // 2
    finally:
        session.stop()
        gc.set_threshold(*thresholds)


def test_every_cycle_has_a_file_of_its_own(run: Run) -> None:
    recording = run(9, schedule=(0, 1, 2, 3))
    bodies = [[n for n in names_in(cycle.path) if n.startswith("body")] for cycle in recording.cycles]
    assert bodies == [["body1", "body2"], ["body4", "body5"], ["body7", "body8"]]
    assert [mark.cycle for cycle in recording.cycles for mark in cycle.steps] == [0, 0, 1, 1, 2, 2]


def test_back_to_back_cycles_lose_no_step(run: Run) -> None:
    recording = run(12, schedule=(0, 0, 1, 0))
    assert [mark.number for cycle in recording.cycles for mark in cycle.steps] == list(range(12))
    assert [names_in(cycle.path).count(f"body{cycle.number}") for cycle in recording.cycles] == [1] * 12


def test_cycles_are_on_disk_while_the_code_still_runs(make_session: Make, tmp_path: Path) -> None:
    session = make_session(schedule=(0, 1, 1, 2))
    session.start()
    for _ in range(3):
        work()
        session.step()
    assert [path.name for path in (tmp_path / "run").glob("*.json*")] == ["cycle-0.pt.trace.json"]
    session.stop()


@pytest.mark.parametrize(("steps", "phase"), [(1, "wait"), (2, "warmup")])
def test_ending_before_the_first_active_step_says_where_it_ended(run: Run, steps: int, phase: str) -> None:
    recording = run(steps, schedule=(2, 1, 2, 1))
    assert recording.ended_in == phase
    assert recording.cycles == ()
    assert codes(recording) == ["capture.nothing_recorded"]
    place = {"wait": "during the wait", "warmup": "during the warm-up"}[phase]
    assert f"the run ended {place}, after {steps} of 5 steps" in recording.problems[0].message


def test_a_run_that_ended_early_says_what_to_do_and_which_loop_made_the_steps(run: Run, tmp_path: Path) -> None:
    (partial,) = run(3, schedule=(1, 1, 3, 1)).problems
    assert partial.code == "capture.too_few_steps"
    assert partial.fix == "Run more steps, or request fewer with --wait, --warmup and --active."
    session = CaptureSession(ProfileOptions(), stepping=Stepping(how="loop", line=2), folder=tmp_path / "other")
    session.start()
    session.step()
    (nothing,) = session.stop().problems
    assert nothing.code == "capture.loop_too_short"
    assert nothing.fix.endswith("The loop on line 2 was profiled; choose another one with --step line:N.")


def stop_by_exception(session: CaptureSession) -> Recording:
    try:
        int("theirs")
    except ValueError:
        return session.stop()
    raise AssertionError


def test_a_cell_that_fails_before_an_optimizer_steps_is_one_incomplete_step(make_session: Make) -> None:
    session = make_session("optimizer")
    session.start()
    work()
    recording = stop_by_exception(session)
    assert recording.stepping.how == "cell"
    assert [(mark.number, mark.is_complete) for cycle in recording.cycles for mark in cycle.steps] == [(0, False)]
    (problem,) = recording.problems
    assert problem.message == "Partial: 0 of 1 steps are complete. The run ended while recording, after 0 of 1 step."
    assert (problem.code, problem.fix) == ("capture.partial", "")


def test_a_cell_that_fails_is_partial_whatever_was_scheduled(make_session: Make) -> None:
    session = make_session("cell", schedule=(0, 0, 2, 0))
    session.start()
    work()
    assert codes(stop_by_exception(session)) == ["capture.partial"]


def test_a_run_that_another_profiler_ended_does_not_advise_more_steps(make_session: Make) -> None:
    session = make_session(schedule=(0, 0, 5, 1))
    session.start()
    work()
    session.step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        work()
    for _ in range(5):
        session.step()
    taken, partial = session.stop().problems
    assert (taken.code, partial.code, partial.fix) == ("capture.taken_over", "capture.partial", "")


def test_steps_of_microseconds_are_told_and_longer_ones_are_not(make_session: Make) -> None:
    def told(rest_s: float) -> list[str]:
        session = make_session(schedule=(4, 0, 1, 1))
        session.start()
        for _ in range(9):
            time.sleep(rest_s) if rest_s else None
            session.step()
        return [code for code in codes(session.stop()) if code == "capture.tiny_steps"]

    assert told(0) == ["capture.tiny_steps"]
    assert told(0.001) == []


def test_an_exception_before_the_first_recorded_step_says_how_to_record_it(make_session: Make) -> None:
    session = make_session(schedule=(1, 1, 2, 1))
    session.start()
    session.step()
    (problem,) = stop_by_exception(session).problems
    assert problem.code == "capture.stopped_too_soon"
    assert problem.fix.endswith("or record from the first step with --wait 0 --warmup 0.")


def test_a_cell_that_fails_between_steps_of_an_optimizer_is_partial(make_session: Make) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())
    session = make_session("optimizer", schedule=(0, 0, 3, 1))
    session.start()
    for _ in range(2):
        optimizer.step()
    work()
    recording = stop_by_exception(session)
    assert recording.stepping.how == "optimizer"
    assert codes(recording) == ["capture.partial"]
    assert recording.problems[0].message.startswith("Partial: 2 of 3 steps are complete. The run ended while recording")


def test_a_manual_run_without_a_call_of_step_says_so(run: Run) -> None:
    (problem,) = run(0).problems
    assert problem.code == "capture.step_not_called"
    assert "step() was never called" in problem.message


def test_exception_in_an_active_step_leaves_a_partial_trace(make_session: Make) -> None:
    session = make_session()
    error = ValueError("user's own")
    with pytest.raises(ValueError, match="user's own") as caught:
        _run_and_raise(session, error)
    assert caught.value is error
    recording = session.recording
    assert recording is not None
    assert recording.ended_in == "active"
    assert [(mark.number, mark.is_complete) for mark in recording.cycles[0].steps] == [(2, True), (3, False)]
    assert codes(recording) == ["capture.partial"]


def _run_and_raise(session: CaptureSession, error: Exception) -> None:
    try:
        session.start()
        for number in range(5):
            work()
            if number == 3:
                raise error
            session.step()
    finally:
        session.stop()


def test_a_schedule_longer_than_the_loop_keeps_what_was_recorded(run: Run) -> None:
    recording = run(3, schedule=(0, 1, 10, 1))
    assert [mark.is_complete for mark in recording.cycles[0].steps] == [True, True, False]
    assert "2 of 10 steps are complete" in recording.problems[0].message


def test_a_run_without_torch_operations_has_a_note_and_no_error(make_session: Make) -> None:
    session = make_session("cell")
    session.start()
    recording = session.stop()
    assert len(recording.cycles) == 1
    assert codes(recording) == ["capture.no_ops"]


def test_whole_cell_is_one_complete_step(make_session: Make) -> None:
    session = make_session("cell")
    session.start()
    work()
    recording = session.stop()
    assert recording.ended_in == "done"
    assert [(mark.number, mark.is_complete) for mark in recording.cycles[0].steps] == [(0, True)]


def test_optimizer_steps_end_the_steps(make_session: Make) -> None:
    session = make_session("optimizer")
    session.start()
    first, second = (torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1) for _ in range(2))
    for _ in range(3):
        first.step()
        second.step()  # a GAN's other half must not count
    recording = session.stop()
    assert recording.steps_seen == 3
    assert recording.stepping.how == "optimizer"


def test_optimizer_hook_is_gone_after_stop(make_session: Make) -> None:
    session = make_session("optimizer")
    session.start()
    recording = session.stop()
    torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1).step()
    assert "capture.step_outside" not in codes(recording)
    assert session.recording is recording


def test_a_cell_whose_optimizer_never_steps_is_one_step(make_session: Make) -> None:
    session = make_session("optimizer")
    session.start()
    work()
    recording = session.stop()
    assert recording.stepping == Stepping(how="cell")
    assert recording.ended_in == "done"
    assert [(mark.number, mark.is_complete) for mark in recording.cycles[0].steps] == [(0, True)]


def test_stop_twice_returns_the_same_recording(make_session: Make) -> None:
    session = make_session()
    session.start()
    assert session.stop() is session.stop()
    assert not session.is_active


def test_stop_without_start_returns_an_empty_recording(make_session: Make) -> None:
    recording = make_session().stop()
    assert recording.ended_in == "never started"
    assert codes(recording) == ["capture.never_started"]


def test_steps_outside_the_recording_are_counted_and_ignored(make_session: Make) -> None:
    session = make_session("cell")
    session.step()
    session.step()
    session.start()
    recording = session.stop()
    session.step()
    assert recording.steps_seen == 1
    assert [p.count for p in recording.problems if p.code == "capture.step_outside"] == [2]


def test_steps_without_the_profiler_are_timed_except_the_first(run: Run) -> None:
    recording = run(9)  # step 0 waits, 1 warms up, 2 to 4 are recorded, 5 to 8 run freely
    assert len(recording.plain_step_ns) == 4
    assert all(duration_ns > 0 for duration_ns in recording.plain_step_ns)
    assert len(run(14, schedule=(3, 1, 2, 2)).plain_step_ns) == 2 + 3 + 2


def test_progress_names_every_phase(tmp_path: Path) -> None:
    seen: list[Progress] = []
    session = CaptureSession(ProfileOptions(), stepping=Stepping(how="loop"), folder=tmp_path, on_progress=seen.append)
    session.start()
    for _ in range(8):
        work()
        session.step()
    session.stop()
    # Nothing is drawn between recorded steps: it would be in them.
    phases = ["wait", "warmup", "active", "ending", "saving", "checking", "done"]
    assert [progress.phase for progress in seen] == phases
    assert [progress.step for progress in seen if progress.phase not in STAGES] == [0, 1, 2, 5]
    assert {progress.total for progress in seen} == {5}


@pytest.mark.parametrize("schedule", [(1, 1, 2, 2), (0, 0, 1, 3), (0, 1, 3, 1), (2, 0, 2, 1)])
def test_work_of_the_progress_bar_is_not_in_a_recorded_step(run: Run, schedule: tuple[int, int, int, int]) -> None:
    drawn: list[str] = []

    def draw(progress: Progress) -> None:
        drawn.append(progress.phase)
        work("drawing")

    recording = run(sum(schedule[:3]) * schedule[3] + 2, schedule=schedule, on_progress=draw)
    *earlier, last = recording.cycles
    assert len(drawn) >= 2
    assert any(name.startswith("body") for name in names_in(last.path))
    assert not any("drawing" in names_in(cycle.path) for cycle in earlier)
    # That the last cycle is being ended is drawn before torch ends it, and after its last step.
    spans = [event for event in json.loads(last.path.read_bytes())["traceEvents"] if event.get("ph") == "X"]
    steps_end = max(span["ts"] + span["dur"] for span in spans if span["name"].startswith("ProfilerStep"))
    assert all(span["ts"] >= steps_end for span in spans if span["name"] == "drawing")


def test_a_failing_progress_bar_does_not_end_the_run(tmp_path: Path) -> None:
    def fail(_progress: Progress) -> None:
        raise RuntimeError("no terminal")

    session = CaptureSession(ProfileOptions(), stepping=Stepping(how="cell"), folder=tmp_path, on_progress=fail)
    session.start()
    work()
    assert codes(session.stop()) == ["capture.part_failed"]


def test_finish_keeps_later_code_out_of_the_trace(make_session: Make) -> None:
    session = make_session(schedule=(0, 1, 9, 1))
    session.start()
    for number in range(3):
        work(f"body{number}")
        session.step()
    session.finish(is_between=True)
    work("after the loop")
    recording = session.stop()
    names = names_in(recording.cycles[0].path)
    assert "after the loop" not in names
    assert [mark.number for mark in recording.cycles[0].steps] == [1, 2]


def test_cut_marks_its_step_as_incomplete(make_session: Make) -> None:
    session = make_session(schedule=(0, 0, 2, 1))
    session.start()
    session.cut()
    session.step()
    assert [mark.is_complete for mark in session.stop().cycles[0].steps] == [False, True]


def test_step_on_another_thread_is_ignored_and_counted(make_session: Make) -> None:
    session = make_session()
    session.start()
    for _ in range(2):
        thread = threading.Thread(target=session.step)
        thread.start()
        thread.join()
    recording = session.stop()
    assert recording.steps_seen == 0
    assert [p.count for p in recording.problems if p.code == "capture.other_thread"] == [2]


def test_stop_on_another_thread_is_refused_and_loses_nothing(make_session: Make) -> None:
    session = make_session("cell")
    session.start()
    failures: list[Exception] = []

    def stop() -> None:
        try:
            session.stop()
        except CaptureError as exc:
            failures.append(exc)

    thread = threading.Thread(target=stop)
    thread.start()
    thread.join()
    work()
    assert len(failures) == 1
    assert "aten::sum" in names_in(session.stop().cycles[0].path)


def test_forked_child_writes_nothing(make_session: Make, tmp_path: Path) -> None:
    session = make_session("cell")
    session.start()
    work()
    before = list((tmp_path / "run").iterdir())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads, Python 3.12
        pid = os.fork()
    if pid == 0:
        session.step()
        os._exit(0 if session.is_forked and session.stop().cycles == () else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert list((tmp_path / "run").iterdir()) == before
    assert len(session.stop().cycles) == 1


def test_nested_session_is_refused_and_the_outer_one_keeps_its_data(make_session: Make) -> None:
    outer, inner = make_session("cell"), make_session("cell")
    outer.start()
    with pytest.raises(ProfilerBusyError, match="nested"):
        inner.start()
    work("outer body")
    assert "outer body" in names_in(outer.stop().cycles[0].path)


def test_a_session_that_was_never_stopped_is_ended_by_the_next(make_session: Make) -> None:
    def leave_behind() -> CaptureSession:
        session = make_session("cell")
        session.start()
        return session

    left = leave_behind()
    following = make_session("cell")
    following.start()
    work()
    assert "aten::sum" in names_in(following.stop().cycles[0].path)
    assert left.recording is not None
    assert "capture.reclaimed" in codes(left.recording)


def test_warnings_as_errors_do_not_reach_the_user(run: Run) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recording = run(4, schedule=(0, 0, 1, 3))
    assert len(recording.cycles) == 3
    assert recording.problems == ()


def test_user_may_redefine_torch(make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    session = make_session("cell")
    session.start()
    work()
    monkeypatch.setitem(sys.modules, "torch", None)
    assert len(session.stop().cycles) == 1


def test_the_code_runs_where_torch_fails_to_start(make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.profiler.profiler._KinetoProfile.start_trace", _raise)
    session = make_session("cell")
    session.start()
    work()
    recording = session.stop()
    assert codes(recording) == ["capture.gave_up", "capture.rescue_failed"]
    assert "CUPTI" in recording.problems[0].message
    assert not session.is_active
    assert busy_profiler() is None


def test_the_code_continues_when_torch_fails_later(make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    session = make_session(schedule=(1, 1, 1, 1))
    session.start()
    monkeypatch.setattr("torch.profiler.profiler._KinetoProfile.start_trace", _raise)
    for _ in range(4):
        session.step()
    monkeypatch.undo()
    recording = session.stop()
    assert "capture.gave_up" in codes(recording)
    assert recording.cycles == ()
    # torch 2.6 does not even prepare another profiler as long as one is prepared.
    with torch.profiler.profile() as again:
        work()
    assert [event.name for event in again.events() if event.name == "aten::sum"] == ["aten::sum"]


def test_the_next_recording_begins_where_torch_failed_to_end_this_one(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    disable = torch.autograd.profiler._disable_profiler

    def fail() -> None:
        with suppress(RuntimeError):  # older versions can be ended only once
            disable()
        raise RuntimeError("Python replay stack is empty.")  # torch 2.6 does, with stacks in compiled code

    monkeypatch.setattr("torch.autograd.profiler._disable_profiler", fail)
    session = make_session("cell")
    session.start()
    work()
    recording = session.stop()
    monkeypatch.undo()
    assert "Python replay stack is empty" in recording.problems[0].message
    assert busy_profiler() is None
    again = make_session("cell")
    again.start()
    work()
    assert len(again.stop().cycles) == 1


def _raise(*_arguments: object) -> None:
    raise RuntimeError("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")


IMPORTING = """
import sys, torch, torchprof_magic as tp
from torch.profiler import record_function
with tp.profile(wait=0, warmup=1, active=2, repeat=1, with_stack=True, profile_memory=True) as p:
    for number in range(4):
        before = set(sys.modules) if number == 1 else before if number else set()
        with record_function("body"):
            torch.ones(3).sum()
        p.step()
        if number == 2:
            print(sorted(set(sys.modules) - before))
"""


def test_torch_imports_nothing_in_the_first_recording_which_would_garble_names() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", IMPORTING], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
