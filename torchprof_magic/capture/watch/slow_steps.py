"""Which lines run in a step that takes far longer than usual, seen by a thread that looks at it.

Nobody knows beforehand that a step will be slow, and only a few steps of a long run are recorded. The thread wakes
about once in a usual step and looks at nothing; only when the step is overdue it looks for the line, again and again,
but more rarely the longer the step takes. Waking takes Python's lock from a program that computes, so it is not done
more often: a step is sure to be seen if it takes 2.5 times as long as usual, and 30 ms longer.
"""

from __future__ import annotations

import signal
from _thread import LockType, allocate_lock, get_ident, start_new_thread
from collections import Counter
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from torchprof_magic.capture.parts import WATCH
from torchprof_magic.capture.watch.calls_of_lines import name_of_call
from torchprof_magic.capture.watch.running_lines import RunningLines, current_task
from torchprof_magic.model.meta import SlowLine

if TYPE_CHECKING:
    import asyncio
    import weakref

    from torchprof_magic.capture.parts import Parts
    from torchprof_magic.capture.watch.calls_of_lines import RunningLine

# A step is overdue when it has taken so many times as long as usual, and so much longer. Shorter delays are not seen.
OVERDUE_RATIO = 1.5
LEAST_LATE_S = 0.01
# The first look is followed by the next so much later, and by each further one so many times later.
_NEXT_LOOK_S = 0.002
_LATER = 1.05
# The thread wakes so often at most, and at least.
_LEAST_SLEEP_S = 0.02
_MOST_SLEEP_S = 0.5
_MOST_JOIN_S = 0.2
_MAX_LOOKS = 1_000
_MOST_LINES = 3


class SlowStepLooks:
    """Looks at the thread that begins a step, if the step takes too long."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._lines = RunningLines()
        self._seen: list[RunningLine] = []
        self._looks = 0
        self._thread = 0
        self._task: weakref.ref[asyncio.Task[Any]] | None = None
        self._due_ns = 0
        self._sleep_s = _LEAST_SLEEP_S
        self._looking = allocate_lock()
        # Of the thread that looks, if there is one: what wakes it, and what it releases when it ends.
        self._running: tuple[LockType, LockType] | None = None

    def begin_step(self, usual_ns: float) -> None:
        """Begin to look at the calling thread as soon as it has taken too long for a step of ``usual_ns``."""
        usual_s = usual_ns * 1e-9
        late_s = max(OVERDUE_RATIO * usual_s, usual_s + LEAST_LATE_S)
        with self._looking:
            self._seen, self._looks = [], 0
            self._thread, self._task = get_ident(), current_task()
            self._sleep_s = min(max(usual_s, _LEAST_SLEEP_S), _MOST_SLEEP_S)
            self._due_ns = perf_counter_ns() + int(late_s * 1e9)
            if self._running is None:
                self._running = allocate_lock(), allocate_lock()
                for lock in self._running:
                    lock.acquire()
                start_new_thread(self._run, self._running)

    def end_step(self) -> tuple[SlowLine, ...]:
        """Return the lines that were seen since the step was overdue, the most often seen first; look no more."""
        with self._looking:
            self._due_ns = 0
            seen, looks, self._seen = self._seen, self._looks, []
        if not seen:
            return ()
        places = Counter((running.code.co_filename, running.line, name_of_call(running)) for running in seen)
        return tuple(
            SlowLine(file=file, line=line, call=call, share=count / looks)
            for (file, line, call), count in places.most_common(_MOST_LINES)
        )

    def end(self) -> None:
        """End the thread, and wait a little for it; can be called twice."""
        with self._looking:
            self._due_ns, self._seen = 0, []
            running, self._running = self._running, None
        if running is not None:
            wake, done = running
            wake.release()
            done.acquire(timeout=_MOST_JOIN_S)

    def _run(self, wake: LockType, done: LockType) -> None:
        pause_s = self._sleep_s
        try:
            if hasattr(signal, "pthread_sigmask"):
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            while True:
                wake.acquire(timeout=pause_s)
                with self._looking:
                    if self._running is None or self._running[1] is not done:
                        return
                    pause_s = self._next_s(pause_s)
        except Exception as exc:  # noqa: BLE001 - nobody else would hear of it
            with self._looking:
                self._due_ns, self._running = 0, None
            self._parts.fail(WATCH, exc)
        finally:
            done.release()

    def _next_s(self, pause_s: float) -> float:
        """Look, if the step is overdue; return when to wake next, in s."""
        now_ns = perf_counter_ns()
        if not self._due_ns:
            return self._sleep_s
        if now_ns < self._due_ns:
            return self._sleep_s
        if self._looks >= _MAX_LOOKS:
            return _MOST_SLEEP_S
        pause_s = min(pause_s * _LATER, _MOST_SLEEP_S) if self._looks else _NEXT_LOOK_S
        self._looks += 1
        running = self._lines.of_thread(self._thread, self._task)
        if running is not None:
            self._seen.append(running)
        return pause_s
