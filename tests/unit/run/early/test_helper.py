"""The process that makes early reports is one per kernel, and its failures are said and stay with it."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from support import recording

from torchprof_magic.run.early import helper, reports, worker
from torchprof_magic.run.early.helper import Helper
from torchprof_magic.run.early.wire import Asked, Made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE_S = 60


@pytest.fixture(autouse=True)
def _own_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(helper, "gives_way", False)  # the machine of a test is busy
    helper.end_process()
    yield
    helper.end_process()


def request_of(folder: Path, run_id: str = "run") -> Asked:
    return Asked(recording=recording(folder), title="", cell=None, cell_labels=(), known_ops=frozenset(), run_id=run_id)


def wait_for(is_there: Callable[[], object]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not is_there():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_pages_are_shown_on_another_thread_and_the_process_is_used_again(tmp_path: Path) -> None:
    shown: list[tuple[Made, str]] = []
    asking = Helper(lambda made: shown.append((made, threading.current_thread().name)))
    process = helper._spare
    asking.ask(request_of(tmp_path))
    wait_for(lambda: shown)
    asking.end()
    ((made, thread),) = shown
    assert (thread, asking.failure) == ("torchprof-early", "")
    assert '"run_id": "run"' in made.header
    following = Helper(lambda made: shown.append((made, "")))
    assert helper._spare is process
    following.ask(request_of(tmp_path, "second"))
    wait_for(lambda: len(shown) == 2)
    assert '"run_id": "second"' in shown[1][0].header
    following.end()


def test_only_the_newest_request_that_waits_is_answered(tmp_path: Path) -> None:
    shown: list[str] = []
    is_free = threading.Event()

    def show(made: Made) -> None:
        shown.append(made.header)
        assert is_free.wait(PATIENCE_S)

    asking = Helper(show)
    asking.ask(request_of(tmp_path, "first"))
    wait_for(lambda: shown)
    is_free.set()
    for name in ("second", "third"):
        asking.ask(request_of(tmp_path, name))
    wait_for(lambda: "third" in shown[-1])
    asking.end()
    assert len(shown) <= 3


def test_nothing_is_shown_after_the_end_and_a_process_at_work_is_ended(tmp_path: Path) -> None:
    shown: list[Made] = []
    asking = Helper(shown.append)
    process = asking._process
    asking.ask(request_of(tmp_path))
    wait_for(lambda: asking._is_busy or shown)
    asking.end()
    if asking._thread is not None:
        asking._thread.join(PATIENCE_S)
    count = len(shown)
    asking.ask(request_of(tmp_path))
    assert len(shown) == count
    assert count or process.poll() is not None


def test_a_process_that_is_killed_shows_nothing_and_the_next_helper_starts_another(tmp_path: Path) -> None:
    shown: list[Made] = []
    asking = Helper(shown.append)
    asking._process.kill()
    asking._process.wait()
    asking.ask(request_of(tmp_path))
    assert asking._thread is not None
    asking._thread.join(PATIENCE_S)
    assert (shown, helper._spare) == ([], None)
    following = Helper(shown.append)
    following.ask(request_of(tmp_path))
    wait_for(lambda: shown)
    following.end()


def test_a_process_that_is_asked_nothing_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(worker, "IDLE_S", 0.01)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as asked, os.fdopen(writing, "wb"), (tmp_path / "answers").open("wb") as answers:
        worker.serve(asked, answers)  # ends although the other end is open


def test_the_process_has_the_least_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helper, "gives_way", True)
    helper.end_process()
    process = psutil.Process(Helper(lambda _: None)._process.pid)
    wait_for(lambda: process.nice() == 19)


def test_a_failure_of_what_shows_is_kept_and_raised_at_the_end(tmp_path: Path) -> None:
    class View:
        def __init__(self) -> None:
            self.is_watching = False

        def watch(self) -> None:
            self.is_watching = True

        def unwatch(self) -> None:
            self.is_watching = False

        def show(self, made: Made) -> None:
            raise ValueError(made.header[:1])

    view = View()
    early = reports.EarlyReports(view, tuple)
    early.begin()
    assert view.is_watching
    early.offer(recording(tmp_path), None, title="", cell=None, run_id="run")
    assert early._helper is not None
    wait_for(lambda: early._helper is not None and early._helper.failure)
    with pytest.raises(RuntimeError, match=r"ValueError: \{"):
        early.end()
    assert not view.is_watching
    early.end()  # says it only once


class NoView:
    watch = unwatch = staticmethod(lambda: None)
    show = staticmethod(lambda _: None)


@pytest.mark.parametrize(
    ("passed_s", "steps_left", "is_started"),
    [(0.01, None, False), (0.03, 5, False), (0.03, 20, True), (0.03, None, True)],
)
def test_long_steps_start_the_process_before_it_is_asked(
    monkeypatch: pytest.MonkeyPatch, passed_s: float, steps_left: int | None, is_started: bool
) -> None:
    monkeypatch.setattr(reports, "perf_counter", lambda: 100.0)
    early = reports.EarlyReports(NoView(), tuple)
    early.begin()
    monkeypatch.setattr(reports, "perf_counter", lambda: 100.0 + passed_s)
    early.look(steps_left)
    assert helper.has_process() == is_started
    early.end()


def test_a_loop_that_ends_soon_is_not_worth_a_process(tmp_path: Path) -> None:
    early = reports.EarlyReports(NoView(), tuple)
    early.begin()
    early.offer(recording(tmp_path), reports.LEAST_LEFT_S / 2, title="", cell=None, run_id="run")
    assert not helper.has_process()
    early.end()
    early.offer(recording(tmp_path), None, title="", cell=None, run_id="run")
    assert not helper.has_process()
