"""The lines that run in a step which takes far longer than usual."""

from __future__ import annotations

import _thread
import threading
import time
from typing import TYPE_CHECKING

import pytest

from torchprof_magic.capture.parts import WATCH, Parts
from torchprof_magic.capture.watch.slow_steps import SlowStepLooks

if TYPE_CHECKING:
    from collections.abc import Iterator

MS = 1e6


@pytest.fixture
def looks() -> Iterator[SlowStepLooks]:
    made = SlowStepLooks(Parts())
    yield made
    made.end()


def linger() -> None:
    time.sleep(0.15)


def compute(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(100))


def test_the_line_of_a_slow_step_is_seen_with_what_it_calls(looks: SlowStepLooks) -> None:
    looks.begin_step(10 * MS)
    linger()
    (line, *_) = looks.end_step()
    assert (line.file, line.line, line.call) == (__file__, linger.__code__.co_firstlineno + 1, "time.sleep")
    assert line.share > 0.5


def test_a_line_that_computes_is_seen_as_well(looks: SlowStepLooks) -> None:
    looks.begin_step(10 * MS)
    compute(0.2)
    found = looks.end_step()
    assert {line.file for line in found} == {__file__}
    first = compute.__code__.co_firstlineno
    assert {line.line for line in found} <= {first + 2, first + 3}


def test_nothing_is_seen_in_a_step_that_is_in_time(looks: SlowStepLooks) -> None:
    looks.begin_step(1_000 * MS)
    linger()
    assert looks.end_step() == ()


def test_what_was_seen_in_one_step_is_not_said_of_the_next(looks: SlowStepLooks) -> None:
    looks.begin_step(10 * MS)
    linger()
    looks.begin_step(10 * MS)
    assert looks.end_step() == ()


def test_the_thread_that_looks_is_unknown_to_threading_and_ends(looks: SlowStepLooks) -> None:
    alive, count = threading.enumerate(), _thread._count()
    looks.begin_step(10 * MS)
    assert threading.enumerate() == alive
    looks.end_step()
    looks.end()
    looks.end()
    assert _thread._count() == count


def test_a_failure_on_its_thread_ends_the_part_and_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = Parts()
    looks = SlowStepLooks(parts)

    def fail(*_: object) -> None:
        raise RuntimeError("no frames")

    monkeypatch.setattr(looks._lines, "of_thread", fail)
    looks.begin_step(0)
    deadline = time.perf_counter() + 5
    while not parts.is_off(WATCH) and time.perf_counter() < deadline:
        time.sleep(0.01)
    assert parts.is_off(WATCH)
    assert looks.end_step() == ()
    looks.end()
