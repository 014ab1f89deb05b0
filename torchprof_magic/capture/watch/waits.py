"""When the thread that steps waits and uses no CPU, and in which line, seen by a thread that looks at it.

It reads the CPU time of the other thread, and where that stood still, it looks for the line. To look takes Python's
lock from a thread that computes, which on a busy machine is held up by it. So it looks often only where the step before
has waited, and less and less often where nothing is known of that and no wait is seen.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from _thread import allocate_lock, get_ident, get_native_id, start_new_thread
from array import array
from contextlib import suppress
from dataclasses import replace
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from torchprof_magic.capture.parts import WAITS
from torchprof_magic.capture.watch.calls_of_lines import RunningLine, name_of_call
from torchprof_magic.capture.watch.running_lines import RunningLines, current_task
from torchprof_magic.model.recording import WaitSite

if TYPE_CHECKING:
    import asyncio
    import weakref
    from collections.abc import Sequence
    from types import CodeType

    from torchprof_magic.capture.parts import Parts

# How long it waits before it looks again: while the thread waits; at most, where it has waited before; and at first and
# at most, where nothing is known of that.
SOON_S = 0.001
LATE_S = 0.01
FIRST_S = 0.002
RARELY_S = 0.5
# It is worth looking from this share of the step before on.
LEAST_SHARE = 0.02
# What is shorter may be our own reading of clocks.
LEAST_WAIT_NS = 200_000
MAX_WAITS = 200_000
# The line that runs is looked for again when its step has taken this many times as long as at the last look.
LOOK_AGAIN = 1.3
MAX_LOOKS = 10_000
_MOST_JOIN_S = 0.2
_MAX_SITES = 10_000
# From this share on, the whole time between two looks at one line is one wait.
_WHOLE = 0.9
# What only some systems have.
_NEEDED = ((time, "pthread_getcpuclockid"), (signal, "pthread_sigmask"), (os, "pread"), (os, "O_CLOEXEC"))
# What collections of garbage are called: those that the program asks for, and others.
EXPLICIT = "gc.collect"
COLLECTION = "garbage collection"


class _Looked(NamedTuple):
    """What the clocks said: the time, the CPU time of the thread, and how long it had waited for a processor, in ns."""

    now_ns: int
    cpu_ns: int
    queued_ns: int


class WaitWatch:
    """Notes the waits of the thread that begins a step, while steps are recorded, and where garbage was collected.

    ``garbage_ns`` alternates between the starts and the ends of collections, and is being added to.
    ``is_possible`` is false where the system does not tell the CPU time of another thread.
    """

    is_possible = all(hasattr(module, name) for module, name in _NEEDED)

    def __init__(self, parts: Parts, garbage_ns: Sequence[int] = ()) -> None:
        self.sites: list[WaitSite] = []
        self._parts = parts
        self._garbage_ns = garbage_ns
        self._lines = RunningLines()
        self._kept = array("q")
        self._looks = array("q")
        self._began_ns = self._next_look_ns = 0
        self._numbers: dict[tuple[object, ...], int] = {}
        self._new: list[RunningLine] = []
        self._codes: list[CodeType] = []
        self._collected: list[tuple[int, int]] = []  # the ends of collections, and their places
        self._thread = 0
        self._clock = 0
        self._files: list[int] = []
        self._task: weakref.ref[asyncio.Task[Any]] | None = None
        self._due_ns = 0
        # In the step before, or in this one so far; None where nothing is known of that.
        self._has_waited: bool | None = None
        self._late_s = LATE_S
        self._is_on = False
        self._is_running = False
        self._looking, self._wake, self._done = allocate_lock(), allocate_lock(), allocate_lock()
        self._last = _Looked(0, 0, 0)
        self._open: tuple[int, int, int] | None = None  # the wait that goes on: its start, its end, and its place

    def begin_step(self) -> None:
        """Begin to look at the calling thread."""
        if not self.is_possible or self._has_waited is False:
            return
        self._task = current_task()
        with self._looking:
            if not self._is_running:
                self._open_clocks()
                self._wake.acquire(blocking=False)
                self._done.acquire(blocking=False)
                self._is_running = True  # before the thread asks
                try:
                    start_new_thread(self._run, ())
                except BaseException:
                    self._is_running = False
                    self._close_clocks()
                    raise
            self._last, self._open = self._look()._replace(queued_ns=self._queued_ns()), None
            self._began_ns = self._next_look_ns = self._last.now_ns
            self._is_on = True

    def note_share(self, dur_ns: int, other_ns: int) -> None:
        """Note for how long the step that has just ended waited or collected garbage, of all its time."""
        self._has_waited = other_ns >= max(LEAST_SHARE * dur_ns, LEAST_WAIT_NS)
        # Often enough to look twice during one wait as long as that.
        self._late_s = min(max(other_ns / 2e9, SOON_S), LATE_S)

    def end_step(self) -> None:
        """Note the wait that has just ended, and look no more."""
        if self._is_on and self._looking.acquire(timeout=_MOST_JOIN_S):
            try:
                self._is_on = False
                self._note(self._look()._replace(queued_ns=self._queued_ns()), 0)
                self._close_wait()
            finally:
                self._looking.release()

    def end(self) -> None:
        """End the thread, and wait a little for it."""
        self._is_on = False
        if self._is_running:
            if self._wake.locked():
                self._wake.release()
            self._done.acquire(timeout=_MOST_JOIN_S)

    def take(self, collections: list[tuple[int, int]]) -> array[int]:
        """Return what was noted since the last call: threes of a start, an end, and a number of ``sites``, from 1.

        ``collections`` are the starts and ends of collections, in ns.
        """
        self._name_new()
        kept, self._kept = self._kept, array("q")
        placed, self._collected = dict(self._collected), []
        for start_ns, end_ns in collections:
            kept.extend((start_ns, end_ns, self._site_of_collection(placed.get(end_ns, 0))))
        return kept

    def take_looks(self) -> array[int]:
        """Return the lines that ran when it was looked: pairs of a moment and a number of ``sites``, from 1."""
        looks, self._looks = self._looks, array("q")
        return looks

    def _open_clocks(self) -> None:
        self._thread = get_ident()
        self._clock = time.pthread_getcpuclockid(self._thread)
        with suppress(OSError):
            for name in ("schedstat", "stat"):
                path = f"/proc/self/task/{get_native_id()}/{name}"
                self._files.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def _close_clocks(self) -> None:
        files, self._files = self._files, []
        for file in files:
            os.close(file)

    def _run(self) -> None:
        """Look at the other thread until no step is recorded."""
        pause_s = SOON_S if self._has_waited else FIRST_S
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            while self._is_running:
                self._due_ns = perf_counter_ns() + int(pause_s * 1e9)
                self._wake.acquire(timeout=pause_s)
                with self._looking:
                    if not self._is_on:
                        self._leave()
                    elif self._look_again():
                        self._has_waited, pause_s = True, SOON_S
                    else:
                        # What is known of the step before can be news, where this thread goes on from step to step.
                        pause_s = min(pause_s * 2, self._late_s if self._has_waited else RARELY_S)
        except Exception as exc:  # noqa: BLE001 - nobody else would hear of it
            with self._looking:
                self._leave()
            self._parts.fail(WAITS, exc)

    def _leave(self) -> None:
        """End this thread; the next step begins another one."""
        self._is_on = self._is_running = False
        self._parts.undo(WAITS, self._close_clocks)
        self._done.release()

    def _look(self) -> _Looked:
        """Return what the clocks say now."""
        now_ns, cpu_ns = perf_counter_ns(), time.clock_gettime_ns(self._clock)
        return _Looked(now_ns, cpu_ns, self._last.queued_ns)

    def _look_again(self) -> bool:
        """Note what the other thread has done since the last look; return whether it has waited."""
        looked = self._look()
        self._look_for_collection()
        if self._idle_ns(looked) < LEAST_WAIT_NS:
            self._close_wait()
            self._last = looked
            self._note_line(looked.now_ns)
            return False
        before_ns = time.clock_gettime_ns(self._clock)
        is_ready, queued_ns = self._is_ready(), self._queued_ns()  # lets the other thread go on
        looked = self._look()._replace(queued_ns=queued_ns)
        stood_still = looked.cpu_ns == before_ns
        if is_ready or not stood_still:
            self._note_line(looked.now_ns)
        if stood_still and is_ready:
            return True  # in the queue for a processor, and how long is known only afterwards
        return self._note(looked, self._place() if stood_still else 0)

    def _idle_ns(self, looked: _Looked) -> int:
        """Return for how long since the last look the thread neither ran nor waited for a processor."""
        ran_ns = looked.cpu_ns - self._last.cpu_ns + looked.queued_ns - self._last.queued_ns
        return looked.now_ns - self._last.now_ns - ran_ns

    def _queued_ns(self) -> int:
        """Return how long the thread has waited for a processor, as far as the system tells."""
        return int(os.pread(self._files[0], 64, 0).split()[1]) if self._files else 0

    def _is_ready(self) -> bool:
        """Return whether the thread runs or waits for a processor, as far as the system tells."""
        return bool(self._files) and os.pread(self._files[1], 512, 0).rpartition(b")")[2].split()[0] == b"R"

    def _note(self, looked: _Looked, place: int) -> bool:
        """Note for how long the thread has waited since the last look, at ``place``, or 0 where it goes on.

        What it waits at the end of this time is one wait, and so is what it waited at its begin, if it waited then.
        """
        idle_ns, last = self._idle_ns(looked), self._last
        self._last = looked
        if idle_ns < LEAST_WAIT_NS:
            self._close_wait()
            return False
        going_on = self._open
        is_whole = idle_ns >= _WHOLE * (looked.now_ns - last.now_ns)
        if going_on is not None and (place == 0 or (place == going_on[2] and is_whole)):
            self._open = (going_on[0], looked.now_ns if place else last.now_ns + idle_ns, going_on[2])
            if not place:
                self._close_wait()
        elif place:
            self._close_wait()
            self._open = (looked.now_ns - idle_ns, looked.now_ns, place)
        return True

    def _close_wait(self) -> None:
        if self._open is not None and len(self._kept) < 3 * MAX_WAITS:
            self._kept.extend(self._open)
        self._open = None

    def _look_for_collection(self) -> None:
        """Note where the thread is if it collected garbage while this one waited for it: it lets others run after."""
        times, asked_ns = self._garbage_ns, self._due_ns + int(sys.getswitchinterval() * 1e9)
        if times and len(times) % 2 == 0 and asked_ns < times[-1]:
            end_ns = times[-1]
            if place := self._place():
                self._collected.append((end_ns, place))

    def _note_line(self, now_ns: int) -> None:
        """Note the line that runs, the more rarely the longer its step takes: it is for what takes most of a step."""
        if now_ns < self._next_look_ns or len(self._looks) >= 2 * MAX_LOOKS:
            return
        self._next_look_ns = self._began_ns + int(LOOK_AGAIN * (now_ns - self._began_ns))
        if place := self._place():
            self._looks.extend((now_ns, place))

    def _place(self) -> int:
        """Return the number of the user's line that the thread is in, from 1; 0 for none."""
        running = self._lines.of_thread(self._thread, self._task)
        return self._number(running) if running is not None else 0

    def _number(self, running: RunningLine) -> int:
        callee = running.callee
        key = (id(running.code), running.instruction, id(callee.code) if callee else 0)
        number = self._numbers.get(key, 0)
        if not number and len(self._numbers) < _MAX_SITES:
            self._new.append(running)
            number = self._numbers[key] = len(self._numbers) + 1
        return number

    def _name_new(self) -> None:
        """Add the sites of the lines that were seen first since the last call; this reads their source."""
        for running in self._new:
            self._codes.append(running.code)  # whose id must not be another's
            at = running.code.co_filename, running.line
            self.sites.append(WaitSite(kind="wait", call=name_of_call(running), file=at[0], line=at[1]))
        self._new.clear()

    def _site_of_collection(self, place: int) -> int:
        """Return the number of the site of collections that a line has caused; of unknown ones for 0."""
        key = ("collection", place)
        if key not in self._numbers:
            at = self.sites[place - 1] if place else WaitSite(kind="collection", call="", file="", line=0)
            call = EXPLICIT if at.call == EXPLICIT else COLLECTION
            self.sites.append(replace(at, kind="collection", call=call))
            self._numbers[key] = len(self.sites)
        return self._numbers[key]
