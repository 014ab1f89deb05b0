"""What torch's tracer of Python calls holds, counted while it records, and how it is ended."""

from __future__ import annotations

import _thread
import gc
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from torchprof_magic.capture.torch_api import python_tracer
from torchprof_magic.capture.torch_api.python_tracer import PythonCalls, TracedThreads

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the calls are counted on Linux only")


@contextmanager
def recording(*, with_stack: bool = True) -> Iterator[profile]:
    with profile(activities=[ProfilerActivity.CPU], with_stack=with_stack, acc_events=True) as run:
        yield run


@contextmanager
def counting() -> Iterator[PythonCalls]:
    calls = PythonCalls()
    try:
        yield calls
    finally:
        calls.close()


def function() -> None:
    """Be called."""


def made(calls: PythonCalls, functions: int, builtins: int) -> int:
    """Return by how much the count grows with so many calls, without that of asking twice."""
    counts = [calls.count(), calls.count()]
    for _ in range(functions):
        function()
    for _ in range(builtins):
        abs(1)
    counts.append(calls.count())
    first, second, third = (count for count in counts if count is not None)
    return third - second - (second - first)


@pytest.mark.parametrize(("functions", "builtins"), [(0, 0), (1, 0), (0, 1), (5_000, 3), (2, 5_000), (1_023, 1_025)])
def test_functions_and_builtins_are_counted_one_by_one(functions: int, builtins: int) -> None:
    with recording(), counting() as calls:
        assert calls.is_known
        assert made(calls, functions, builtins) == functions + builtins


def test_calls_are_counted_beside_other_threads() -> None:
    may_end = threading.Event()
    others = [threading.Thread(target=may_end.wait) for _ in range(6)]
    for other in others:
        other.start()
    try:
        with recording(), counting() as calls:
            assert made(calls, 40, 2) == 42
    finally:
        may_end.set()
        for other in others:
            other.join()


def test_calls_are_counted_where_garbage_is_collected_all_the_time_and_calls_the_program() -> None:
    thresholds, seen = gc.get_threshold(), []

    def note(phase: str, _about: dict[str, int]) -> None:  # a program can have such a function called, too
        seen.append(phase)

    gc.callbacks.append(note)
    try:
        gc.set_threshold(1)
        with recording(), counting() as calls:
            is_known = calls.is_known
            assert gc.isenabled()
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*thresholds)
    assert seen
    assert is_known


def test_a_search_that_something_else_disturbs_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    more = [1]

    def call() -> None:  # one function more the first time, as of a handler of a signal
        for _ in range(python_tracer._PROBES + (more.pop() if more else 0)):
            python_tracer._nothing()

    monkeypatch.setattr(python_tracer, "_call_functions", call)
    with recording(), counting() as calls:
        assert calls.is_known
    assert not more


def test_calls_of_threads_that_began_before_are_counted() -> None:
    begin, ended = threading.Event(), threading.Event()

    def call() -> None:
        begin.wait()
        for _ in range(5_000):
            function()
        ended.set()

    other = threading.Thread(target=call)
    other.start()
    with recording(), counting() as calls:
        before = calls.count()
        begin.set()
        ended.wait()
        after = calls.count()
    other.join()
    assert before is not None
    assert after is not None
    assert 5_000 <= after - before < 6_000  # beside them, those of the events and the locks


def test_nothing_is_counted_where_torch_records_no_stacks() -> None:
    with recording(with_stack=False), counting() as calls:
        assert (calls.is_known, calls.count()) == (False, None)


def test_a_profiler_of_the_user_is_not_taken_for_that_of_torch() -> None:
    sys.setprofile(lambda *_: None)
    try:
        with counting() as calls:
            assert not calls.is_known
    finally:
        sys.setprofile(None)


def test_memory_that_cannot_be_read_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_tracer, "_MEMORY", "/nowhere")
    with recording(), counting() as calls:
        assert not calls.is_known


def test_what_torch_keeps_in_another_way_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_tracer, "_size_of", lambda *_words: None)
    with recording(), counting() as calls:
        assert not calls.is_known


def test_ending_the_tracer_on_another_thread_leaves_the_recording_on() -> None:
    with recording() as run:
        threads, ended = TracedThreads(), _thread.allocate_lock()
        assert threads.can_end
        torch.zeros(1)
        ended.acquire()

        def end() -> None:
            threads.end()
            ended.release()

        _thread.start_new_thread(end, ())
        ended.acquire()
        assert sys.getprofile() is None
        late_function()
        torch.ones(1)
    names = {event.name for event in run.events() or ()}
    assert {"aten::zeros", "aten::ones"} <= names
    assert not any("late_function" in name for name in names)


def late_function() -> None:
    """Be called when the tracer has ended."""
