"""Ranges that are open while one recording ends and another begins."""

from __future__ import annotations

import json
import subprocess
import threading
import weakref
from typing import TYPE_CHECKING

import pytest
import torch
from amount import sampled
from capturing import codes
from forking import forked_python
from torch.profiler import record_function

from torchprof_magic.capture import CaptureSession
from torchprof_magic.capture.torch_api import compat
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import ProfileOptions, ScheduleOptions

if TYPE_CHECKING:
    from pathlib import Path

# Each of these ended nearly every process by a signal, with torch alone and with recordings that did not mind them.
CROSSING = """
import torch, torchprof_magic as tp
from torch.profiler import record_function
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters())
def work():
    for _ in range(20):
        model(torch.ones(32, 64)).sum().backward()
"""
RANGE = """
with tp.profile(wait={wait}, warmup=0, active=1, repeat=0) as p:
    for step in range(60):
        if step % 4 == 1:
            outer = record_function("outer").__enter__()
        work()
        p.step()
        if step % 4 == 2:
            work()
            outer.__exit__(None, None, None)
"""
HOOK = """
from torchprof_magic.capture import CaptureSession
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import ProfileOptions, ScheduleOptions
schedule = ScheduleOptions(wait=0, warmup=0, active=1, repeat=0)
session = CaptureSession(ProfileOptions(schedule=schedule), stepping=Stepping(how="optimizer"))
session.start()
for step in range(60):
    work()
    optimizer.step()
session.stop()
"""


FUTURE = """
with tp.profile(wait=0, warmup=0, active=1, repeat=0) as p:
    for step in range(60):
        if step % 4 == 1:
            future = torch.futures.Future()
            with record_function("until") as range_:
                range_._call_end_callbacks_on_future(future)
        work()
        p.step()
        if step % 4 == 2:
            work()
            future.set_result(1)
"""


@pytest.mark.parametrize("code", sampled([RANGE.format(wait=0), RANGE.format(wait=1), HOOK, FUTURE], 4))
def test_a_range_that_is_open_across_two_recordings_does_not_crash_the_process(code: str) -> None:
    code = f"{CROSSING}{code}\nprint('survived')"
    done = subprocess.run(forked_python("-c", code), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "survived\n"), done.stderr[-2000:]


def test_an_open_range_ends_with_the_recording_and_the_code_in_it_continues(tmp_path: Path) -> None:
    schedule = ScheduleOptions(wait=0, warmup=0, active=1, repeat=2)
    before = record_function.__enter__, record_function.__exit__
    session = CaptureSession(ProfileOptions(schedule=schedule), stepping=Stepping(how="manual"), folder=tmp_path)
    session.start()
    with record_function("outer"), record_function("inner"):
        torch.ones(3).sum()
        session.step()
    with record_function("whole"):
        torch.ones(3).sum()
    session.step()
    recording = session.stop()
    assert (record_function.__enter__, record_function.__exit__) == before
    assert codes(recording) == []
    first, second = (json.loads(cycle.path.read_bytes())["traceEvents"] for cycle in recording.cycles)
    spans = {event["name"]: event for event in first if event["ph"] == "X"}
    assert all(spans[name]["dur"] >= spans["aten::sum"]["dur"] for name in ("outer", "inner"))
    assert spans["inner"]["ts"] + spans["inner"]["dur"] <= spans["outer"]["ts"] + spans["outer"]["dur"]
    assert {"whole"} == {event["name"] for event in second if event["name"] in ("outer", "inner", "whole")}


def test_only_open_ranges_of_the_recorded_thread_end_with_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave, ended = record_function.__exit__, []
    monkeypatch.setattr(
        record_function, "__exit__", lambda range_, *error: (ended.append(range_), leave(range_, *error))
    )
    schedule = ScheduleOptions(wait=0, warmup=0, active=1)
    session = CaptureSession(ProfileOptions(schedule=schedule), stepping=Stepping(how="manual"), folder=tmp_path)
    session.start()
    first, second, third, moved, elsewhere = ranges = [record_function(name) for name in "abcde"]
    for range_ in (first, second, third, moved):
        range_.__enter__()
    second.__exit__(None, None, None)  # not the innermost
    is_open, may_end = threading.Event(), threading.Event()

    def work_elsewhere() -> None:
        moved.__exit__(None, None, None)
        with elsewhere:
            is_open.set()
            may_end.wait()

    thread = threading.Thread(target=work_elsewhere)
    thread.start()
    is_open.wait()
    session.step()
    with_recording = [range_ for range_ in ended if range_ in ranges]
    may_end.set()
    thread.join()
    for range_ in (third, first):
        range_.__exit__(None, None, None)
    session.stop()
    assert with_recording == [second, moved, third, first]


def test_ranges_of_a_recording_that_another_profiler_ended_are_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave, ended = record_function.__exit__, []
    monkeypatch.setattr(
        record_function, "__exit__", lambda range_, *error: (ended.append(range_.name), leave(range_, *error))
    )
    schedule = ScheduleOptions(wait=0, warmup=0, active=2)
    session = CaptureSession(ProfileOptions(schedule=schedule), stepping=Stepping(how="manual"), folder=tmp_path)
    session.start()
    left_open = record_function("left open").__enter__()
    kept = weakref.ref(left_open)
    compat.switch_off()  # as another profiler does, without a word to ours
    session.step()
    assert ended == []
    del left_open
    assert kept() is None
    with record_function("later"):
        later = len(session._recorder._ranges._open)
    recording = session.stop()
    assert codes(recording)[0] == "capture.taken_over"
    assert (ended, later) == (["later"], 0)


def test_ranges_outside_of_recorded_steps_are_not_touched(tmp_path: Path) -> None:
    schedule = ScheduleOptions(wait=1, warmup=0, active=1)
    session = CaptureSession(ProfileOptions(schedule=schedule), stepping=Stepping(how="manual"), folder=tmp_path)
    session.start()
    with record_function("around"):
        session.step()
        torch.ones(3).sum()
        session.step()
    recording = session.stop()
    names = {event["name"] for event in json.loads(recording.cycles[0].path.read_bytes())["traceEvents"]}
    assert "around" not in names
    assert "aten::sum" in names
