"""Tests of the waits of a thread, as another one sees them. What waits is let go on when it has been seen."""

from __future__ import annotations

import _thread
import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import pairwise
from types import SimpleNamespace

import pytest

from torchprof_magic.capture.parts import WAITS, Parts
from torchprof_magic.capture.problems import ProblemLog
from torchprof_magic.capture.watch import running_lines, waits
from torchprof_magic.capture.watch.calls_of_lines import name_of_call
from torchprof_magic.capture.watch.waits import EXPLICIT, LOOK_AGAIN, WaitWatch

pytestmark = pytest.mark.skipif(not WaitWatch.is_possible, reason="the system does not tell another thread's CPU time")
PATIENCE_S = 20.0


@pytest.fixture
def watch() -> Iterator[WaitWatch]:
    found = WaitWatch(Parts())
    yield found
    found.end()


def release_when(is_seen: Callable[[], bool], release: Callable[[], None]) -> None:
    """Let a wait go on once it was seen, from another thread."""

    def wait() -> None:
        until = time.monotonic() + PATIENCE_S
        while not is_seen() and time.monotonic() < until:
            time.sleep(0.001)
        release()

    threading.Thread(target=wait).start()


def seen(watch: WaitWatch) -> Callable[[], bool]:
    return lambda: watch._open is not None


def helper(lock: _thread.LockType) -> None:
    lock.acquire()


def found(watch: WaitWatch) -> list[tuple[int, int, str, int]]:
    """The starts and ends of the waits, and what they call in which line."""
    numbers = watch.take([]).tolist()
    return [
        (start, end, watch.sites[site - 1].call, watch.sites[site - 1].line)
        for start, end, site in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
    ]


def test_a_wait_is_noted_with_its_times_and_the_line_and_call_of_the_users_function(watch: WaitWatch) -> None:
    lock = _thread.allocate_lock()
    lock.acquire()
    release_when(seen(watch), lock.release)
    watch.begin_step()
    before = time.perf_counter_ns()
    helper(lock)
    after = time.perf_counter_ns()
    watch.end_step()
    waits = found(watch)
    assert {(call, line) for _, _, call, line in waits} == {("lock.acquire", helper.__code__.co_firstlineno + 1)}
    assert all(start < end for start, end, _, _ in waits)
    assert waits[0][0] < after
    assert waits[-1][1] > before
    assert watch.sites[0].file == __file__


def test_a_method_of_the_standard_library_is_named_by_its_class(watch: WaitWatch) -> None:
    event = threading.Event()
    release_when(seen(watch), event.set)
    watch.begin_step()
    event.wait()
    watch.end_step()
    assert found(watch)[0][2] == ("Event.wait" if sys.version_info >= (3, 11) else "event.wait")


def test_what_a_task_awaits_is_named_while_its_loop_waits(watch: WaitWatch) -> None:
    async def steps() -> None:
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        release_when(seen(watch), lambda: loop.call_soon_threadsafe(gone.set))
        watch.begin_step()
        await gone.wait()
        watch.end_step()

    asyncio.run(steps())
    name = "Event.wait" if sys.version_info >= (3, 11) else "gone.wait"
    assert found(watch)[0][2:] == (name, steps.__code__.co_firstlineno + 4)


def test_what_an_asynchronous_generator_awaits_is_named(watch: WaitWatch) -> None:
    gone = asyncio.Event()

    async def values() -> AsyncIterator[int]:
        yield 1
        await gone.wait()
        yield 2

    async def steps() -> None:
        loop = asyncio.get_running_loop()
        release_when(seen(watch), lambda: loop.call_soon_threadsafe(gone.set))
        watch.begin_step()
        async for _ in values():
            pass
        watch.end_step()

    asyncio.run(steps())
    assert found(watch)[0][3] == values.__code__.co_firstlineno + 2


def test_a_thread_that_computes_does_not_wait(watch: WaitWatch) -> None:
    watch.begin_step()
    until = time.thread_time() + 0.1
    while time.thread_time() < until:
        pass
    watch.end_step()
    assert not [wait for wait in found(watch) if wait[1] - wait[0] > 50_000_000]


def test_the_line_of_a_thread_that_computes_is_noted_the_more_rarely_the_longer_it_does(watch: WaitWatch) -> None:
    until_ns = time.monotonic() + PATIENCE_S
    watch.begin_step()
    while len(watch._looks) < 2 * 3 and time.monotonic() < until_ns:
        pass
    watch.end_step()
    watch.take([])
    looks = watch.take_looks().tolist()
    first_line = test_the_line_of_a_thread_that_computes_is_noted_the_more_rarely_the_longer_it_does.__code__
    assert {watch.sites[number - 1].file for number in looks[1::2]} == {__file__}
    assert all(0 < watch.sites[number - 1].line - first_line.co_firstlineno < 5 for number in looks[1::2])
    taken = [at_ns - watch._began_ns for at_ns in looks[::2]]
    assert all(later >= LOOK_AGAIN * earlier for earlier, later in pairwise(taken))


def test_a_function_that_has_only_just_been_called_is_in_its_first_line() -> None:
    frame = SimpleNamespace(f_code=helper.__code__, f_lasti=-1, f_globals={})
    running = running_lines._running(frame, None)  # type: ignore[arg-type]
    assert (running.line, name_of_call(running)) == (helper.__code__.co_firstlineno, "")


def test_nobody_looks_where_the_step_before_did_not_wait(watch: WaitWatch) -> None:
    watch.note_share(10_000_000, 100_000)
    watch.begin_step()
    assert not watch._is_running
    watch.end_step()
    watch.note_share(10_000_000, 1_000_000)
    watch.begin_step()
    assert watch._is_running
    watch.end_step()


@pytest.mark.parametrize(("waited_ms", "look_each_ms"), [(1, 1), (4, 2), (12, 6), (300, 10)])
def test_a_wait_as_long_as_that_of_the_step_before_is_looked_for_twice(
    watch: WaitWatch, waited_ms: int, look_each_ms: int
) -> None:
    watch.note_share(1_000 * 1_000_000, waited_ms * 1_000_000)
    assert watch._late_s == pytest.approx(look_each_ms / 1000)


def test_the_step_that_ends_says_how_often_the_next_is_looked_at_also_where_nothing_was_known_before(
    watch: WaitWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(watch, "_look_again", lambda: False)  # it has not waited so far

    def acquire(blocking: bool = True, timeout: float = -1) -> bool:
        if blocking:
            pauses.append(timeout)
            time.sleep(0.001)
        return False

    def pauses_from(first: int) -> list[float]:
        while len(pauses) < first + 8:
            sum(range(1_000))
        return pauses[first : first + 8]

    watch._wake = SimpleNamespace(acquire=acquire, locked=lambda: False)  # type: ignore[assignment]
    watch.begin_step()
    assert max(pauses_from(0)) >= 0.1
    watch.note_share(20_000_000, 4_000_000)
    assert max(pauses_from(len(pauses) + 1)) <= 0.002
    watch.end_step()


def test_the_thread_that_looks_is_unknown_to_threading_and_ends(watch: WaitWatch) -> None:
    alive, threads = threading.enumerate(), _thread._count()
    watch.begin_step()
    assert threading.enumerate() == alive
    watch.end_step()
    watch.end()
    assert _thread._count() == threads


def test_no_frame_of_the_user_is_kept(watch: WaitWatch) -> None:
    class Kept:
        pass

    gone = threading.Event()
    lock = _thread.allocate_lock()
    lock.acquire()

    def function() -> None:
        kept = Kept()
        import weakref  # noqa: PLC0415 - not needed elsewhere

        weakref.finalize(kept, gone.set)
        lock.acquire()

    release_when(seen(watch), lock.release)
    watch.begin_step()
    function()
    assert gone.is_set()
    watch.end_step()


def test_a_thread_that_begins_at_once_looks_as_one_that_begins_later(
    watch: WaitWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(function: Callable[..., object], arguments: tuple[object, ...]) -> int:
        number = _thread.start_new_thread(function, arguments)
        time.sleep(0.05)
        return number

    monkeypatch.setattr(waits, "start_new_thread", start)
    watch.begin_step()
    time.sleep(0.05)
    watch.end_step()
    assert [watch.sites[place - 1].call for place in watch.take([])[2::3]] == ["time.sleep"]


def test_where_no_thread_can_be_started_nothing_stays_open_and_it_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    problems = ProblemLog()
    parts = Parts(problems)
    watch = WaitWatch(parts)
    monkeypatch.setattr(waits, "start_new_thread", start)
    parts.run(WAITS, watch.begin_step)
    watch.end_step()
    began_s = time.monotonic()
    watch.end()
    assert time.monotonic() - began_s < 0.2  # it waits for no thread
    assert watch._files == []
    assert [problem.code for problem in problems.as_tuple()] == ["capture.part_failed"]


def test_a_failure_of_the_thread_is_a_problem_and_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = ProblemLog()
    watch = WaitWatch(Parts(problems))

    def fail(_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(WaitWatch, "_look_again", fail)
    watch.begin_step()
    until = time.monotonic() + PATIENCE_S
    while not problems.as_tuple() and time.monotonic() < until:
        time.sleep(0.001)
    watch.end_step()
    watch.end()
    assert [problem.code for problem in problems.as_tuple()] == ["capture.part_failed"]


def test_a_collection_without_a_known_line_has_none(watch: WaitWatch) -> None:
    assert watch.take([(10, 20)]).tolist() == [10, 20, 1]
    assert (watch.sites[0].kind, watch.sites[0].call, watch.sites[0].file) == ("collection", "garbage collection", "")
    assert watch.sites[0].call != EXPLICIT
