"""Does a recording stop before it takes more than it may, and say so?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from capturing import codes, work

from torchprof_magic.capture import CaptureSession, lacks_room_for, room
from torchprof_magic.capture.room import Room
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import ProfileOptions, ScheduleOptions

if TYPE_CHECKING:
    from torchprof_magic.capture import Recording


def recorded(
    folder: Path, budget_bytes: int | None, *, steps: int, active: int, repeat: int = 1, wait: int = 0
) -> Recording:
    schedule = ScheduleOptions(wait=wait, warmup=0, active=active, repeat=repeat)
    options = ProfileOptions(schedule=schedule, budget_bytes=budget_bytes, activities=("cpu",))
    session = CaptureSession(options, stepping=Stepping(how="manual"), folder=folder / "run")
    session.start()
    for _ in range(steps):
        work()
        session.step()
    return session.stop()


def steps_of(recording: Recording) -> list[tuple[int, bool]]:
    return [(mark.number, mark.is_complete) for cycle in recording.cycles for mark in cycle.steps]


def test_growth_is_that_of_the_process_since_the_beginning() -> None:
    watched = Room(50_000_000)
    watched.begin()
    assert not watched.is_memory_full()
    ballast = bytearray(os.urandom(1)) * 80_000_000
    assert 70_000_000 < watched.grown_bytes() < 200_000_000
    assert watched.is_memory_full()
    del ballast


def test_what_tells_the_memory_is_let_go_and_may_be_closed_by_the_users_code() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    watched = Room(1)
    watched.begin()
    assert watched._handle is not None
    os.close(watched._handle)
    assert (watched.grown_bytes(), watched.is_memory_full()) == (0, False)
    watched.begin()
    watched.end()
    watched.end()
    assert (len(list(Path("/proc/self/fd").iterdir())), watched.grown_bytes()) == (before, 0)


def test_by_default_half_of_the_free_memory_may_be_taken_and_any_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_bytes = Room(None).memory_limit_bytes
    assert limit_bytes is not None
    assert limit_bytes > 10_000_000
    monkeypatch.setattr(room, "_MEMINFO", "/nowhere")
    monkeypatch.setattr(room, "_STATM", "/nowhere")
    blind = Room(None)
    blind.begin()
    blind.file_bytes = 1 << 60
    assert (blind.memory_limit_bytes, blind.is_memory_full(), blind.is_disk_full()) == (None, False, False)


def test_the_step_that_takes_too_much_is_the_last_and_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = iter([0, 10, 10_001, *[10_002] * 99])  # what is asked for: once a step, and for the message
    monkeypatch.setattr(Room, "grown_bytes", lambda _self: next(grown))
    recording = recorded(tmp_path, 10_000, steps=9, active=8)
    assert steps_of(recording) == [(0, True), (1, True), (2, True)]
    assert codes(recording) == ["capture.budget", "capture.partial"]
    assert recording.problems[0].message.startswith("Recording stopped after step 2: the process grew by 10 kB meanwh")


def test_cycles_end_when_their_files_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Room, "grown_bytes", lambda _self: 0)
    size = recorded(tmp_path / "one", None, steps=1, active=1).cycles[0].path.stat().st_size
    recording = recorded(tmp_path / "many", size * 2 + size // 2, steps=18, wait=1, active=1, repeat=9)
    assert steps_of(recording) == [(1, True), (3, True), (5, True)]
    assert codes(recording) == ["capture.budget", "capture.partial"]
    assert recording.problems[0].message.startswith("Recording stopped after step 5: its files have ")


def test_a_recording_within_its_budget_is_whole(tmp_path: Path) -> None:
    recording = recorded(tmp_path, 10_000_000_000, steps=6, active=3, repeat=2)
    assert codes(recording) == []
    assert len(steps_of(recording)) == 6


def test_a_trace_needs_twice_its_size_in_memory_and_four_times_in_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meminfo, statm = tmp_path / "meminfo", tmp_path / "statm"
    meminfo.write_text("MemTotal: 9000 kB\nMemAvailable: 1000 kB\n")
    statm.write_text("100 40 3 1 0 1 0\n")
    monkeypatch.setattr(room, "_MEMINFO", str(meminfo))
    monkeypatch.setattr(room, "_STATM", str(statm))
    monkeypatch.setattr(room, "_PAGE_BYTES", 4096)
    assert lacks_room_for(512_000) is None
    assert lacks_room_for(512_001) == (1_024_002, 1_024_000)
    monkeypatch.setattr("resource.getrlimit", lambda _: (1_409_600, -1))
    assert lacks_room_for(250_000) is None
    assert lacks_room_for(250_001) == (1_000_004, 1_000_000)
    monkeypatch.setattr(room, "resource", None)
    assert lacks_room_for(250_001) is None
    monkeypatch.setattr(room, "_MEMINFO", "/nowhere")
    assert lacks_room_for(1 << 60) is None


def test_memory_is_given_back_when_the_process_has_grown_much_and_every_fiftieth_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    statm = tmp_path / "statm"
    monkeypatch.setattr(room, "_STATM", str(statm))
    monkeypatch.setattr(room, "_PAGE_BYTES", 1000)
    monkeypatch.setattr(room, "_given_back_at", 0)
    monkeypatch.setattr(room, "_recordings_since", 0)
    trimmed: list[int] = []

    class Libc:
        def malloc_trim(self, keep: int) -> None:
            trimmed.append(keep)
            statm.write_text("0 90000")

    monkeypatch.setattr(room.ctypes, "CDLL", lambda _name: Libc())
    # The first only takes the size to compare with: no recording has left anything yet.
    for pages, times in ((100_000, 0), (355_999, 0), (356_000, 1), (611_999, 1), (612_000, 2)):
        statm.write_text(f"0 {pages}")
        room.give_back()
        assert len(trimmed) == times, pages
    for times in [2] * 49 + [3] * 50 + [4]:
        room.give_back()
        assert len(trimmed) == times
    statm.unlink()  # nothing tells
    for _ in range(99):
        room.give_back()
    assert len(trimmed) == 4
