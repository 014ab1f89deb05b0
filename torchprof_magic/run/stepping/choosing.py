"""Choosing the loop that steps while the cell runs, by what the first iterations of its loops did.

Nothing is recorded until a loop is chosen, which is at the end of an iteration: that one is the first, idle step.
"""

from __future__ import annotations

import sys
from itertools import islice
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from torchprof_magic.capture import holds_tensor
from torchprof_magic.model.units import counted
from torchprof_magic.run.stepping.plan import loops_around
from torchprof_magic.run.stepping.stepper import Around, Ends, Stepper, opener, stepping_iterator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

    from torchprof_magic.capture import LineMarks
    from torchprof_magic.model.meta import Stepping
    from torchprof_magic.run.stepping.plan import LoopOfCell, StepPlan
    from torchprof_magic.run.stepping.stepper import Item, SteppedSession

    class WatchedSession(SteppedSession, Protocol):
        """The part of a capture session that choosing uses."""

        @property
        def may_start_late(self) -> bool:
            """True if the recording can begin after the first step."""

        def replan(self, stepping: Stepping) -> None:
            """Say what makes the steps of this run."""

        def made_nodes(self) -> int:
            """Return a number that grows with every op whose result needs a gradient."""

        def on_optimizer(self, callback: Callable[[object], None]) -> None:
            """Call ``callback`` after each step of an optimizer on this thread, until the session ends."""

        def at_end(self, callback: Callable[[], None]) -> None:
            """Call ``callback`` when the user's code has ended."""

        def note(self, code: str, **values: object) -> None:
            """Add a problem to the recording."""


# An iteration that is shorter is no step if there is a loop around its own.
SHORT_NS = 100_000
# An iteration of a loop of which nothing is known, and in which nothing was seen, is a step from this length on.
LONG_NS = 1_000_000
# Of the iterations of a loop around it, an inner loop must take this share for its own to be the steps.
MOST = 0.8
ENOUGH_SEEN = 2
# A loop is no longer watched after so many iterations that were too short to be steps: watching takes microseconds.
MOST_SEEN = 1000


class Choice:
    """The loop that makes the steps: as planned, or the first one whose iterations show that it does.

    ``filename`` is that of the cell.
    """

    def __init__(
        self, session: WatchedSession, plan: StepPlan, marks: LineMarks | None = None, filename: str = ""
    ) -> None:
        self.chosen: LoopOfCell | None = None
        self.stepper: Stepper | None = None
        self._session = session
        self._marks = marks
        self._filename = filename
        self._inside = self._outside = 0
        self._first_line: int | None = None
        self._candidates = {id(loop): Candidate(loop, self) for loop in plan.candidates}
        self._lengths: dict[int, Around | Candidate] = {**self._candidates}
        for loop in loops_around(plan):
            self._lengths[id(loop)] = Around(session)
        if plan.chosen is not None and not (plan.candidates and session.may_start_late):
            self._take(plan.chosen)
        stepping: list[object] = list(self._candidates.values()) or [self.stepper]
        self._steppers = [*stepping, *(self._lengths[id(loop)] for loop in loops_around(plan))]
        if plan.is_checked:
            session.on_optimizer(self._note_optimizer)
            session.at_end(self._note_ending)

    def stepper_of(self, number: int) -> object:
        """Return what the loop with this number calls."""
        return self._steppers[number]

    def count(self, iterable: object) -> int | None:
        """Return how many items a loop will get, if that is known."""
        return self._session.count(iterable)

    def made_nodes(self) -> int:
        """Return a number that grows with every op whose result needs a gradient."""
        return self._session.made_nodes()

    def begun(self, loop: LoopOfCell) -> None:
        """Note that a loop begins inside the iterations of those around it."""
        for outer in self._around(loop):
            outer.inner_begins()

    def ended(self, candidate: Candidate) -> None:
        """Choose the loop of this candidate if its iteration, which has just ended, was a step."""
        __tracebackhide__ = True
        if self.stepper is None and self._is_step(candidate):
            self._session.replan(candidate.loop.stepping)
            self._take(candidate.loop).enter_late(candidate.length, candidate.iterations)

    def end(self, loop: LoopOfCell) -> None:
        """Leave the outermost loop around this one: if it is that of the steps, no more follow."""
        __tracebackhide__ = True
        if self.stepper is not None and self.chosen is not None and self.chosen.nest is loop.nest:
            self.stepper.end()

    def _note_ending(self) -> None:
        """Note at the end of the cell that optimizers stepped only outside of the loop, or that no loop was chosen."""
        if self._candidates and self.chosen is None and any(one.iterations for one in self._candidates.values()):
            self._session.note("capture.no_step_seen")
        if self.chosen is not None and self._outside and not self._inside:
            where = "" if self._first_line is None else f", first by line {self._first_line}"
            self._session.note(
                "capture.optimizer_elsewhere", steps=counted(self._outside, "step"), line=self.chosen.line, where=where
            )

    def _take(self, loop: LoopOfCell) -> Stepper:
        self.chosen = loop
        self.stepper = Stepper(
            self._session, self._marks, loop.line, [self._lengths.get(id(one)) for one in loop.around]
        )
        return self.stepper

    def _around(self, loop: LoopOfCell) -> list[Candidate]:
        return [self._candidates[id(outer)] for outer in loop.around if id(outer) in self._candidates]

    def _is_step(self, candidate: Candidate) -> bool:
        """Return whether the iterations of a candidate are steps, when one has just ended."""
        around = [outer for outer in self._around(candidate.loop) if outer.length != 1]
        if candidate.stepped or any(outer.stepped for outer in around):
            return candidate.stepped
        inside = [one for one in self._candidates.values() if candidate.loop in one.loop.around]
        if not around and all(one.loop.nest is candidate.loop.nest for one in self._candidates.values()):
            return True  # there is no other
        if not (candidate.grew or any(one.runs_torch for one in (candidate, *inside))):
            # Ops that need no gradients leave no sign. What is long enough may have run some.
            may = any(one.loop.signs.unknown for one in (candidate, *inside))
            return may and candidate.iterations >= ENOUGH_SEEN and candidate.least_ns >= LONG_NS
        if not around:
            return True
        is_seen = candidate.iterations >= min(ENOUGH_SEEN, candidate.length or ENOUGH_SEEN)
        if not is_seen or candidate.least_ns < SHORT_NS:
            return False
        expected_ns = candidate.least_ns * (ENOUGH_SEEN if candidate.length is None else candidate.length)
        return expected_ns >= MOST * (expected_ns + around[0].until_inner_ns)

    def _note_optimizer(self, _: object) -> None:
        """Note that an optimizer stepped, and in which loop."""
        if self.stepper is None:
            inside = [one for one in self._candidates.values() if one.is_inside]
            if inside:
                max(inside, key=lambda one: len(one.loop.around)).stepped = True
                return
        elif self.stepper.is_inside:
            self._inside += 1
            return
        self._outside += 1
        if self._first_line is None:
            self._first_line = _line_in(self._filename)


class Candidate:
    """A loop that may be the one that steps; it is watched until one is chosen.

    ``grew`` and ``stepped``: ops that need gradients ran in the last iteration, and an optimizer stepped in it. The
    shortest of the ``iterations`` took ``least_ns``: the first one may be cold. ``until_inner_ns`` is the time from the
    start of the iteration until a loop in it began.
    """

    def __init__(self, loop: LoopOfCell, choice: Choice) -> None:
        self.loop = loop
        self.length: int | None = None
        self.iterations = 0
        self.least_ns = 0
        self.until_inner_ns = 0
        self.is_inside = self.stepped = self.grew = False
        self._choice = choice
        self._gets_tensors = self._is_given_up = False
        self._began_ns = 0
        self._nodes = 0

    @property
    def runs_torch(self) -> bool:
        """True if the code of the loop shows ops, or may run some with the tensors that it gets as items."""
        signs = self.loop.signs
        return signs.model or signs.torch or (signs.unknown and self._gets_tensors)

    @property
    def _stepper(self) -> Stepper | None:
        """What counts the steps if this is the loop."""
        return self._choice.stepper if self._choice.chosen is self.loop else None

    @property
    def pairs(self) -> Any:
        """What the cell calls with ``parts``. A loop that is not the one is left alone."""
        return map if self._choice.stepper is None or self._stepper is not None else islice

    def parts(self, iterable: Iterable[Item]) -> tuple[Any, ...]:
        """Enter the loop, and return the arguments of ``pairs``."""
        __tracebackhide__ = True
        if self._choice.stepper is not None and self._stepper is None:
            return iterable, None
        self._enter(self._choice.count(iterable))
        return self._fetched, Ends(self), iterable

    def opening(self, iterable: object) -> Callable[[], object]:
        """Enter an ``async for`` loop, and return what the cell calls to get the iterator for ``async_steps``."""
        __tracebackhide__ = True
        self._enter(self._choice.count(iterable))
        return opener(iterable)

    def async_steps(self, iterator: object) -> object:
        """Iterate and step as ``Stepper.async_steps``."""
        __tracebackhide__ = True
        return stepping_iterator(iterator, self)

    def inside(self) -> None:
        """Note that an item was fetched."""
        self._fetched(None, None)

    def enter(self) -> None:
        """Enter a ``while`` loop."""
        __tracebackhide__ = True
        self._enter(None)

    def begin(self) -> None:
        """Begin an iteration of a ``while`` loop, ending the previous one."""
        __tracebackhide__ = True
        stepper = self._stepper
        if stepper is not None:
            stepper.begin()
            return
        self.through()
        if (chosen := self._stepper) is not None:
            chosen.begin()
        else:
            self._fetched(None, None)

    def through(self) -> None:
        """End the current iteration, if there is one."""
        __tracebackhide__ = True
        stepper = self._stepper
        if stepper is not None:
            stepper.through()
        elif self.is_inside and not self._is_given_up:
            self.is_inside = False
            self.iterations += 1
            dur_ns = perf_counter_ns() - self._began_ns
            self.least_ns = min(self.least_ns, dur_ns) if self.iterations > 1 else dur_ns
            self.grew = self._choice.made_nodes() != self._nodes
            self._choice.ended(self)
            self._is_given_up = self.iterations >= MOST_SEEN and self.least_ns < SHORT_NS

    def leave(self) -> None:
        """Leave the loop, also by ``break``."""
        self.is_inside = False

    def end(self) -> None:
        """Leave the outermost loop."""
        __tracebackhide__ = True
        self._choice.end(self.loop)

    def _enter(self, length: int | None) -> None:
        __tracebackhide__ = True
        stepper = self._stepper
        if stepper is not None:
            stepper.enter(length)
            return
        self.length, self.is_inside = length, False
        self._choice.begun(self.loop)

    def _fetched(self, _: None, item: Item) -> Item:
        if self._is_given_up:
            self.is_inside = True
            return item
        stepper = self._stepper
        if stepper is not None:
            stepper.inside()
        elif self._choice.stepper is None:
            self.is_inside, self.stepped = True, False
            self._gets_tensors = holds_tensor(item)
            self._nodes = self._choice.made_nodes()
            self.until_inner_ns = 0
            self._began_ns = perf_counter_ns()
        return item

    def inner_begins(self) -> None:
        """Note that a loop in this one begins, if it is the first one of the iteration."""
        if self.is_inside and not self.until_inner_ns:
            self.until_inner_ns = perf_counter_ns() - self._began_ns


def _line_in(filename: str) -> int | None:
    """Return the line of the cell that is running, seen from below."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way
    while frame is not None and not (frame.f_code.co_filename == filename and frame.f_code.co_name == "<module>"):
        frame = frame.f_back
    return None if frame is None else frame.f_lineno
