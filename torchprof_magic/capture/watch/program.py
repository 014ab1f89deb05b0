"""Watches the program itself while steps are recorded: its lines and its modules, and how their clock reads."""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.capture.parts import (
    FUNCTIONS,
    GARBAGE,
    IMPORTS,
    LINES,
    MODULES,
    STORAGES,
    TAGS,
    THREAD_TIME,
    WAITS,
)
from torchprof_magic.capture.watch.cpu_time import CpuTime
from torchprof_magic.capture.watch.functions import FunctionLines
from torchprof_magic.capture.watch.garbage import GarbageTimes
from torchprof_magic.capture.watch.imports import ImportTimes
from torchprof_magic.capture.watch.lines import NO_LINE, LineMarks
from torchprof_magic.capture.watch.live_storages import LiveStorages
from torchprof_magic.capture.watch.memory_tags import MemoryTags
from torchprof_magic.capture.watch.modules import ModuleMarks
from torchprof_magic.capture.watch.waits import WaitWatch
from torchprof_magic.model.recording import ProgramMarks
from torchprof_magic.model.units import counted, enumerated, format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.capture.parts import Parts
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.model.recording import HostLine


# So often both clocks are read; the quickest reading counts.
_READINGS = 9
# A tick of a coarse clock is waited for at most so long; and it is known well enough within so much.
_MOST_WAIT_NS = 60_000_000
_GOOD_NS = 20_000
# So many packages are named, and so many functions that are not timed line by line.
_MOST_IMPORTS = 3
_MOST_FUNCTIONS = 3


class Imports(NamedTuple):
    """How many modules were imported, the packages that most of them are from, and how long that took."""

    modules: int
    packages: tuple[str, ...]
    ns: int = 0


NO_IMPORTS = Imports(0, ())


class _Reading(NamedTuple):
    """One reading of the time since 1970, between two of our own clock, all in ns."""

    before: int
    unix: int
    after: int


def unix_offset_ns() -> int:
    """Return what to add to ``perf_counter_ns`` to get the time since 1970 in ns.

    On Windows, up to Python 3.12, the time since 1970 goes on every 15.6 ms. There it is right only as it does.
    """
    readings = [_read_clocks() for _ in range(_READINGS)]
    at_tick = _offset_at_tick() if readings[0].unix == readings[-1].unix else None
    best = min(readings, key=lambda reading: reading.after - reading.before)
    return best.unix - (best.before + best.after) // 2 if at_tick is None else at_tick


def _read_clocks() -> _Reading:
    return _Reading(perf_counter_ns(), time_ns(), perf_counter_ns())


def _offset_at_tick() -> int | None:
    """Return the offset at the next tick of the time since 1970 that is seen at once; None if there is none."""
    found: list[tuple[int, int]] = []
    reading = _read_clocks()
    until_ns = reading.after + _MOST_WAIT_NS
    while reading.after < until_ns and (not found or found[-1][0] > _GOOD_NS):
        earlier, reading = reading, _read_clocks()
        if reading.unix != earlier.unix:
            within_ns = reading.after - earlier.before
            found.append((within_ns, reading.unix - (earlier.before + reading.after) // 2))
    return min(found)[1] if found else None


class ProgramWatch:
    """The lines and modules of one run. ``lines`` is handed to the cell; without a cell it stays empty.

    With ``memory``, ``tags`` says where the tensors of models and optimizers are, and what the program holds is noted
    before and after a recording. With ``functions``, lines of functions are timed in the steps that have them.
    """

    def __init__(
        self,
        problems: ProblemLog,
        parts: Parts,
        *,
        modules: bool | None = None,
        functions: bool = False,
        memory: bool = False,
        names_at_return: bool = True,
    ) -> None:
        self.lines = LineMarks()
        self.tags = MemoryTags(parts) if memory else None
        at_return = self.tags.note_return if self.tags is not None and names_at_return else None
        self.functions = parts.ask(FUNCTIONS, FunctionLines, parts, at_return, default=None) if functions else None
        self._storages = LiveStorages() if memory else None
        self._garbage = GarbageTimes()
        self.waits = parts.ask(WAITS, WaitWatch, parts, self._garbage.times_ns, default=None)
        self.modules = ModuleMarks(modules, self.tags, parts=parts)
        self._problems = problems
        self._parts = parts
        self._is_watched = False
        self._has_memory = False
        self._began_ns = 0
        self._cpu_began_ns = 0
        self._modules_began = 0
        self._imports = ImportTimes(parts)
        self._cpu = CpuTime()
        self._clock: list[tuple[int, int, int]] = []
        self._steps: list[tuple[int, int, int]] = []
        self._unix_ns: int | None = None
        self._done: list[ProgramMarks] = []
        self._kept_bytes = 0

    def watch(self) -> Callable[[], None]:
        """Begin to watch modules and optimizers; return a function that ends this."""
        with ExitStack() as watches:
            if self.tags is not None:
                self._parts.set_up(TAGS, self.tags.watch, watches)
            self._parts.set_up(MODULES, self.modules.watch, watches)
            watches.callback(self._end)  # first, and also where the step in which it fails was never ended
            return watches.pop_all().close

    def begin_cycle(self, *, has_memory: bool) -> None:
        """Note what is in memory just before torch begins to record; only if it records memory."""
        run = self._parts.run
        run(GARBAGE, self._garbage.collect_young)  # before it is noted what is in memory
        self._has_memory = has_memory
        if self.tags is not None and has_memory:
            run(TAGS, self.tags.begin_cycle)
        if self._storages is not None and has_memory:
            run(STORAGES, self._storages.begin_cycle)
        self._unix_ns = self._parts.ask(LINES, unix_offset_ns, default=None)

    def begin_step(
        self,
        *,
        is_watched: bool,
        is_recorded: bool = False,
        has_memory: bool = False,
        has_functions: bool = False,
    ) -> None:
        """Note what follows if the step is recorded, or is the one before.

        With ``has_memory``, also where tensors are; with ``has_functions``, also the lines of functions.
        """
        if is_watched != self._is_watched:
            self._switch(is_on=is_watched)
        self._switch_functions(is_on=has_functions)
        if self.tags is not None:
            if self.tags.is_on != has_memory:
                (self._parts.run if has_memory else self._parts.undo)(TAGS, partial(self.tags.switch, is_on=has_memory))
            self.tags.outermost = 0  # of a forward that was interrupted
        self._modules_began = len(sys.modules)
        self._parts.run(IMPORTS, self._imports.begin)
        if is_watched:
            self._parts.run(GARBAGE, self._garbage.begin)
            self._parts.run(LINES, self.lines.mark_running)
        if is_recorded and self.waits is not None:
            self._parts.run(WAITS, self.waits.begin_step)
        self._began_ns = perf_counter_ns()
        self._cpu_began_ns = self._parts.ask(THREAD_TIME, self._cpu.read_ns, default=0)

    def end_step(self, ended_ns: int, *, is_recorded: bool) -> int | None:
        """Keep or drop what was noted, and return how long this thread ran or was ready to run, in ns, if known.

        The user's code ended the step at ``ended_ns``; what was done since then, at work all the time, does not count.
        """
        run, now_ns = self._parts.run, perf_counter_ns()
        dur_ns = now_ns - self._began_ns
        cpu_ns = self._parts.ask(THREAD_TIME, self._cpu.since_ns, self._cpu_began_ns, dur_ns, default=None)
        self._parts.undo(GARBAGE, self._garbage.end)
        if self.waits is not None:
            run(WAITS, self.waits.end_step)
            garbage_ns = self._parts.ask(GARBAGE, self._garbage.since_ns, self._began_ns, default=0)
            run(WAITS, self.waits.note_share, dur_ns, garbage_ns + (0 if cpu_ns is None else dur_ns - cpu_ns))
        if not is_recorded:
            run(GARBAGE, self._garbage.drop)
        elif self.tags is not None and self._has_memory:
            run(TAGS, self.tags.note_variables)
        if self._is_watched:
            run(LINES, self.lines.mark, NO_LINE)
            run(LINES, self.lines.end_step, dur_ns, is_recorded)
            run(MODULES, self.modules.end_step, dur_ns, is_recorded)
            if self.functions is not None:
                run(FUNCTIONS, self.functions.end_step, is_recorded)
        return None if cpu_ns is None else max(cpu_ns - (now_ns - ended_ns), 0)

    def busy_ns(self) -> int | None:
        """Return how long this thread has run, or was ready to run, in the step so far; None if not known."""
        dur_ns = perf_counter_ns() - self._began_ns
        return self._parts.ask(THREAD_TIME, self._cpu.since_ns, self._cpu_began_ns, dur_ns, default=None)

    def imports_of_step(self, *, is_recorded: bool) -> Imports:
        """Return which modules of Python the step that has just ended imported; keep their times if it is recorded."""
        count = len(sys.modules) - self._modules_began
        self._imports.end()
        if is_recorded:
            self._imports.keep()
        if count <= 0:
            return NO_IMPORTS
        added = [name.partition(".")[0] for name in [*sys.modules][-count:]]  # in the order of import
        packages = tuple(name for name, _ in Counter(added).most_common(_MOST_IMPORTS))
        return Imports(count, packages, self._imports.ns)

    def _switch(self, *, is_on: bool) -> None:
        """Begin or end to note, part by part; what has failed is switched off all the same."""
        self._is_watched = is_on
        do = self._parts.run if is_on else self._parts.undo
        do(LINES, partial(self.lines.switch, is_on=is_on))
        do(MODULES, partial(self.modules.switch, is_on=is_on))
        if self.tags is not None and not is_on:
            do(TAGS, partial(self.tags.switch, is_on=False))
        if not is_on:
            self._switch_functions(is_on=False)

    def end_functions(self) -> None:
        """Time the lines of functions no more, until a step that has them: what torch does between steps is no line."""
        self._switch_functions(is_on=False)

    def _switch_functions(self, *, is_on: bool) -> None:
        if self.functions is not None and self.functions.is_on != is_on:
            do = self._parts.run if is_on else self._parts.undo
            do(FUNCTIONS, partial(self.functions.switch, is_on=is_on))

    def end_waits(self) -> None:
        """End the thread that looks for waits: torch is about to stop, and records all threads as it starts."""
        if self.waits is not None:
            self._parts.undo(WAITS, self.waits.end)

    def _end(self) -> None:
        self._parts.undo(GARBAGE, self._garbage.end)
        self.end_waits()
        self._parts.undo(IMPORTS, self._imports.end)
        if self._is_watched:
            self._switch(is_on=False)

    def note_clock(self, step: int, before_ns: int, after_ns: int) -> None:
        """Note when the range of a step was entered, by our clock, so that it can be compared with the trace's."""
        self._clock.append((step, before_ns, after_ns))

    def note_step(self, step: int, began_ns: int, ended_ns: int) -> None:
        """Note between which moments the user's code of a recorded step ran, by our clock."""
        self._steps.append((step, began_ns, ended_ns))

    def end_cycle(self, cycle: int) -> None:
        """Put the marks of a recorded cycle together."""
        clock, self._clock = tuple(self._clock), []
        steps, self._steps = tuple(self._steps), []
        ask, nothing = self._parts.ask, array("q")
        none: list[tuple[int, int]] = []
        no_imports: tuple[HostLine, ...] = ()
        garbage = ask(GARBAGE, self._garbage.take, default=none)
        self._done.append(
            ProgramMarks(
                cycle=cycle,
                clock=clock,
                steps=steps,
                unix_ns=self._unix_ns,
                lines=ask(LINES, self.lines.take, default=nothing),
                left_out=tuple(sorted(self.lines.left_out)),
                calls=ask(MODULES, self.modules.take, default=nothing),
                functions=nothing if self.functions is None else ask(FUNCTIONS, self.functions.take, default=nothing),
                tags=() if self.tags is None or not self._has_memory else ask(TAGS, self.tags.take, default=()),
                storages=None
                if self._storages is None or not self._has_memory
                else ask(STORAGES, self._storages.take, cycle, default=None),
                waits=nothing if self.waits is None else ask(WAITS, self.waits.take, garbage, default=nothing),
                looks=nothing if self.waits is None else ask(WAITS, self.waits.take_looks, default=nothing),
                imports=ask(IMPORTS, self._imports.take, default=no_imports),
            )
        )

    def may_be_held(self, cycle: int) -> bool:
        """Return whether memory of the host grew in a cycle: torch's events may hold it."""
        return self._storages is not None and self._storages.grew_in(cycle)

    def note_freed(self, cycle: int, free: Callable[[], None]) -> None:
        """Free torch's events of a cycle, and note which memory of the host was held by them alone."""
        if self.may_be_held(cycle):
            self._parts.run(STORAGES, self._note_held, self._storages, cycle, free)
        free()

    def _note_held(self, storages: LiveStorages, cycle: int, free: Callable[[], None]) -> None:
        held = storages.held_until(free, cycle)
        place = next((place for place, marks in enumerate(self._done) if marks.cycle == cycle), None)
        rows = None if place is None else self._done[place].storages
        if not held or place is None or rows is None:
            return
        rows = tuple(
            replace(row, is_in_use=row.is_in_use and (row.is_older or row.address not in held)) for row in rows
        )
        self._done[place] = replace(self._done[place], storages=rows)
        self._kept_bytes += sum(row.size_bytes for row in rows if not row.is_older and not row.is_in_use)

    def start_over(self) -> None:
        """Forget what was noted of cycles; they are recorded again."""
        if self._is_watched:
            self._switch(is_on=False)
        self._done.clear()
        self._kept_bytes = 0
        self._clock.clear()
        self._steps.clear()

    def keep(self, cycles: set[int]) -> None:
        """Forget the marks of all other cycles."""
        self._done[:] = [marks for marks in self._done if marks.cycle in cycles]

    def so_far(self) -> tuple[ProgramMarks, ...]:
        """Return the marks of the cycles that have ended."""
        return tuple(self._done)

    def finish(self) -> tuple[ProgramMarks, ...]:
        """End the watch and return the marks of all cycles."""
        self._switch(is_on=False)
        self.modules.namespace = {}
        self._parts.undo(THREAD_TIME, self._cpu.close)
        if self.functions is not None:
            if self.functions.is_refused:
                self._problems.note("capture.lines_refused")
            if self.functions.lost:
                self._problems.note("capture.lines_lost", count=1)
            self._note_too_long(self.functions.too_long)
            self.functions.forget()
        if self.lines.lost:
            self._problems.note("capture.lines_lost", count=self.lines.lost)
        if self._kept_bytes:
            self._problems.note("capture.kept_tensors", size=format_bytes(self._kept_bytes))
        if self.modules.is_too_dear:
            self._problems.note("capture.modules_not_watched")
        return tuple(self._done)

    def _note_too_long(self, functions: list[str]) -> None:
        if functions:
            names = [f"{name}()" for name in functions[:_MOST_FUNCTIONS]]
            rest = len(functions) - len(names)
            more = [counted(rest, "other function")] if rest else []
            self._problems.note("capture.functions_left_out", names=enumerated([*names, *more]))
