from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from torchprof_magic.capture.watch.frames import current_frames

PACKAGE = Path(__file__).parents[4] / "torchprof_magic"
# Each look at all threads makes garbage be collected, and there is some whose end needs the lock that is then held.
COLLECTING = """
import gc, sys, threading
import torch
import torchprof_magic as tp

class Garbage:
    def __init__(self):
        self.itself = self
        self.local = threading.local()
        self.local.value = 1

def look(original=sys._current_frames):
    global looks
    looks += 1
    for _ in range(9):
        Garbage()
    gc.set_threshold(gc.get_count()[0] + 1)  # the first thing it makes comes before the lock
    try:
        return original()
    finally:
        gc.set_threshold(700)

sys._current_frames, looks = look, 0
for _ in range(9):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
WITH_A_THREAD = """
with tp.profile() as p:
    thread = threading.Thread(target=torch.ones, args=(3,), name="mine")
    thread.start()
    thread.join()
assert looks, "nobody looked at the threads"
print(*(problem.message for problem in p.report.problems))
"""
WITHIN_ANOTHER = """
with tp.profile() as p:
    try:
        with tp.profile(): pass
    except Exception as error:
        print(error)
assert looks, "nobody looked at the threads"
"""


def test_every_thread_has_its_frame() -> None:
    may_go = threading.Event()
    thread = threading.Thread(target=may_go.wait, args=(30,))
    thread.start()
    found = current_frames()
    may_go.set()
    thread.join()
    assert {threading.get_ident(), thread.ident} <= set(found)
    assert found[threading.get_ident()].f_code is current_frames.__code__


def test_looking_keeps_nothing_alive() -> None:
    def look() -> weakref.ref[threading.Event]:
        mine = threading.Event()
        assert threading.get_ident() in current_frames()
        return weakref.ref(mine)

    gc.disable()
    try:
        assert look()() is None
    finally:
        gc.enable()
    gc.collect()
    before = gc.get_threshold()
    gc.set_threshold(1_000_000)
    try:
        assert look()() is None
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("is_enabled", [True, False])
def test_garbage_is_collected_afterwards_as_before(monkeypatch: pytest.MonkeyPatch, *, is_enabled: bool) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(sys, "_current_frames", lambda: seen.append(gc.isenabled()) or {})
    try:
        if not is_enabled:
            gc.disable()
        assert current_frames() == {}
        assert (seen, gc.isenabled()) == ([False], is_enabled)
    finally:
        gc.enable()


def test_garbage_is_collected_again_after_a_look_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_current_frames", lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        current_frames()
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("code", "words"), [(WITH_A_THREAD, "(mine)"), (WITHIN_ANOTHER, "torchprof is already recording")]
)
def test_garbage_does_not_stop_the_process_while_threads_are_looked_at(code: str, words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COLLECTING + code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, words in done.stdout) == (0, True), done.stderr


def test_threads_that_look_at_the_same_time_leave_the_collection_on() -> None:
    before, together = sys.getswitchinterval(), threading.Barrier(2)

    def look(_: int) -> bool:
        together.wait(30)
        for _ in range(5_000):
            current_frames()
        return gc.isenabled()

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as pool:
            assert [list(pool.map(look, range(2))) for _ in range(20)] == [[True, True]] * 20
    finally:
        sys.setswitchinterval(before)
        gc.enable()


def test_nobody_looks_at_threads_in_another_way() -> None:
    looking = {path.name for path in PACKAGE.rglob("*.py") if "sys._current_" in path.read_text()}
    assert looking == {"frames.py"}
