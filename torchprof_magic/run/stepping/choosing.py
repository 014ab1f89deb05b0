"""Choosing the loop that steps while the cell runs, by what the first iterations of its loops did.

Nothing is recorded until a loop is chosen, which is at the end of an iteration: that one is the first, idle step. A
loop whose code shows that it makes steps is chosen when it is entered; the recording starts over with another one if
it turns out to be empty, or if optimizers step only in that other one.
"""

from __future__ import annotations

import sys
from itertools import islice
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from torchprof_magic.capture import holds_tensor, is_tensor
from torchprof_magic.model.units import counted
from torchprof_magic.run.stepping.plan import loops_around
from torchprof_magic.run.stepping.stepper import Around, Ends, Stepper, opener, stepping_iterator, total_of

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

        def start_over(self, stepping: Stepping) -> bool:
            """Drop what was recorded, so that ``start`` begins again; return whether that was possible."""

        def made_nodes(self) -> int:
            """Return a number that grows with every op whose result needs a gradient."""

        def on_optimizer(self, callback: Callable[[object], None]) -> None:
            """Call ``callback`` after each step of an optimizer on this thread, until the session ends."""

        def at_end(self, callback: Callable[[], None]) -> None:
            """Call ``callback`` when the user's code has ended."""

        def note(self, code: str, **values: object) -> None:
            """Add a problem to the recording."""


# An iteration that is shorter is no step if there is a loop around its own.
SHORT_NS = 5_000
# So many iterations are measured where the shortest one is not clearly longer or shorter, by this factor.
MOST_MEASURED = 8
CLEARLY = 2
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
        self._plan = plan
        self._marks = marks
        self._filename = filename
        self._inside = self._outside = 0
        self._first_line: int | None = None
        self._ahead = list(plan.shown)
        self._watched = {id(loop): Candidate(loop, self) for loop in plan.watched}
        self._candidates = [self._watched[id(loop)] for loop in plan.candidates]
        self._lengths: dict[int, Around | Candidate] = {**self._watched}
        for loop in loops_around(plan):
            self._lengths[id(loop)] = Around(session)
        if plan.chosen is not None and not (plan.watched and session.may_start_late):
            self._take(plan.chosen)
        stepping: list[object] = list(self._watched.values()) or [self.stepper]
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

    def watches(self, loop: LoopOfCell) -> bool:
        """Return whether the iterations of a loop, which is not the chosen one, still matter."""
        if self.chosen is None:
            return True
        is_open = self._plan.is_checked and self._session.may_start_late and not self._inside
        return is_open and self.chosen not in loop.around

    def has_batch_around(self, loop: LoopOfCell) -> bool:
        """Return whether the loop around this one has got tensors."""
        outer = self._watched.get(id(loop.around[0])) if loop.around else None
        return outer is not None and outer.gets_tensors

    def begun(self, loop: LoopOfCell, length: int | None) -> None:
        """Note that a loop begins inside the iterations of those around it; it is chosen if its code shows steps."""
        __tracebackhide__ = True
        for outer in self._around(loop):
            outer.inner_begins()
        if self.chosen is None and loop in self._ahead and self._session.may_start_late:
            self._session.replan(loop.stepping)
            self._take(loop).enter(length)

    def ended(self, candidate: Candidate) -> None:
        """Choose the loop of this candidate if its iteration, which has just ended, was a step."""
        __tracebackhide__ = True
        loop = candidate.loop
        if self.stepper is None:
            if self._is_step(candidate):
                self._session.replan(loop.stepping)
                self._take(loop).enter_late(candidate.length, candidate.iterations)
        elif self._may_replace(candidate) and self._session.start_over(loop.stepping):
            self._outside, self._first_line = 0, None
            self._take(loop).enter_late(candidate.length, candidate.iterations)

    def end(self, loop: LoopOfCell) -> None:
        """Leave the outermost loop around this one: if it is that of the steps, no more follow."""
        __tracebackhide__ = True
        self._ahead = [one for one in self._ahead if one.nest is not loop.nest]
        chosen, stepper = self.chosen, self.stepper
        if chosen is None or stepper is None or chosen.nest is not loop.nest:
            return
        if self._plan.watched and not stepper.is_used and self._session.start_over(chosen.stepping):
            self.chosen = self.stepper = None  # it had no iteration, so that another loop may make the steps
        else:
            stepper.end()

    def _may_replace(self, candidate: Candidate) -> bool:
        """Return whether optimizers step only in this loop, of which more iterations follow, as far as is known."""
        if not (candidate.stepped and self.watches(candidate.loop)):
            return False
        total = total_of(candidate.length, self._lengths_around(candidate.loop))
        return total is None or candidate.iterations < total

    def _note_ending(self) -> None:
        """Note at the end of the cell that optimizers stepped only outside of the loop, or that no loop was chosen."""
        if self.chosen is None and any(one.iterations for one in self._candidates):
            self._session.note("capture.no_step_seen")
        if self.chosen is not None and self._outside and not self._inside:
            where = "" if self._first_line is None else f", first by line {self._first_line}"
            self._session.note(
                "capture.optimizer_elsewhere", steps=counted(self._outside, "step"), line=self.chosen.line, where=where
            )

    def _take(self, loop: LoopOfCell) -> Stepper:
        self.chosen = loop
        if id(loop) in self._watched:
            self._watched[id(loop)].is_given_up = False
        self.stepper = Stepper(self._session, self._marks, loop.line, self._lengths_around(loop))
        return self.stepper

    def _lengths_around(self, loop: LoopOfCell) -> list[Around | Candidate | None]:
        return [self._lengths.get(id(one)) for one in loop.around]

    def _around(self, loop: LoopOfCell) -> list[Candidate]:
        return [self._watched[id(outer)] for outer in loop.around if id(outer) in self._watched]

    def _is_step(self, candidate: Candidate) -> bool:
        """Return whether the iterations of a candidate are steps, when one has just ended."""
        around = [outer for outer in self._around(candidate.loop) if outer.length != 1]
        if candidate.stepped or any(outer.stepped for outer in around):
            return candidate.stepped
        if any(self._may_come(one, candidate.loop) for one in self._ahead):
            return False
        several = self._candidates or [*self._watched.values()]
        inside = [one for one in self._watched.values() if candidate.loop in one.loop.around]
        if not around and all(one.loop.nest is candidate.loop.nest for one in several):
            return True  # there is no other
        if not (candidate.grew or any(one.runs_torch for one in (candidate, *inside))):
            # Ops that need no gradients leave no sign. What is long enough may have run some.
            may = any(one.loop.signs.unknown for one in (candidate, *inside))
            return may and candidate.iterations >= ENOUGH_SEEN and candidate.least_ns >= LONG_NS
        return not around or self._is_long_in(candidate, around[0])

    @staticmethod
    def _is_long_in(candidate: Candidate, outer: Candidate) -> bool:
        """Return whether the iterations of an inner loop are long enough for steps, and most of those around them."""
        if candidate.is_part or not candidate.is_measured or candidate.least_ns < SHORT_NS:
            return False
        if not outer.loop.signs.may_do_torch:
            return True  # what else an iteration around it does is no work
        expected_ns = candidate.least_ns * (ENOUGH_SEEN if candidate.length is None else candidate.length)
        return expected_ns >= MOST * (expected_ns + outer.until_inner_ns)

    @staticmethod
    def _may_come(shown: LoopOfCell, loop: LoopOfCell) -> bool:
        """Return whether a loop that makes steps may run after this one, or in it."""
        return not loop.is_instead_of(shown) and (shown.line > loop.line or shown.nest is loop.nest)

    def _note_optimizer(self, _: object) -> None:
        """Note that an optimizer stepped, and in which loop."""
        if self.stepper is not None and self.stepper.is_inside:
            self._inside += 1
            return
        inside = [one for one in self._watched.values() if one.is_inside and one.loop is not self.chosen]
        if inside:
            # One that has run no op for it only goes over optimizers, and one of two things that are done with a batch
            # is no step.
            training = [one for one in inside if one.has_grown and not one.loop.of_one_item] or inside
            max(training, key=lambda one: len(one.loop.around)).stepped = True
        if inside and self.stepper is None:
            return
        self._outside += 1
        if self._first_line is None:
            self._first_line = _line_in(self._filename)


class Candidate:
    """A loop that may be the one that steps; it is watched until one is chosen.

    ``grew`` and ``stepped``: ops that need gradients ran in the last iteration, and an optimizer stepped in it. The
    shortest of the ``iterations`` took ``least_ns``: the first one may be cold. ``until_inner_ns`` is the time from the
    start of the iteration until a loop in it began. One that ``is_given_up``, or ``is_part`` of
    the iterations around it, such as a loop over the rows of a batch, makes no steps unless an optimizer steps in it.
    """

    def __init__(self, loop: LoopOfCell, choice: Choice) -> None:
        self.loop = loop
        self.length: int | None = None
        self.iterations = 0
        self.least_ns = 0
        self.until_inner_ns = 0
        self.is_inside = self.stepped = self.grew = False
        self._choice = choice
        self.is_given_up = self._gets_tensors = self.is_part = False
        self._began_ns = 0
        self._nodes = 0

    @property
    def runs_torch(self) -> bool:
        """True if the code of the loop shows ops, or may run some with the tensors that it gets as items."""
        signs = self.loop.signs
        return signs.model or signs.torch or (signs.unknown and self._gets_tensors)

    @property
    def has_grown(self) -> bool:
        """True if ops that need gradients have run in this iteration."""
        return self._choice.made_nodes() != self._nodes

    @property
    def gets_tensors(self) -> bool:
        """True if the last item was a tensor, or had some in it."""
        return self._gets_tensors

    @property
    def is_measured(self) -> bool:
        """True if so many iterations have ended that their length decides: a second one, and more near the limit."""
        is_clear = not SHORT_NS / CLEARLY < self.least_ns < SHORT_NS * CLEARLY
        enough = ENOUGH_SEEN if is_clear else MOST_MEASURED
        return self.iterations >= min(enough, self.length or enough)

    @property
    def _stepper(self) -> Stepper | None:
        """What counts the steps if this is the loop."""
        return self._choice.stepper if self._choice.chosen is self.loop else None

    @property
    def pairs(self) -> Any:
        """What the cell calls with ``parts``. A loop that does not matter is left alone."""
        return map if self._is_reporting else islice

    @property
    def _is_reporting(self) -> bool:
        return self._stepper is not None or self._choice.watches(self.loop)

    def parts(self, iterable: Iterable[Item]) -> tuple[Any, ...]:
        """Enter the loop, and return the arguments of ``pairs``."""
        __tracebackhide__ = True
        if not self._is_reporting:
            return iterable, None
        self._note_source(iterable)
        self._enter(self._choice.count(iterable))
        return self._fetched, Ends(self), iterable

    def opening(self, iterable: object) -> Callable[[], object]:
        """Enter an ``async for`` loop, and return what the cell calls to get the iterator for ``async_steps``."""
        __tracebackhide__ = True
        self._note_source(iterable)
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
        self._note_source(None)
        self._enter(None)

    def begin(self) -> None:
        """Begin an iteration of a ``while`` loop, ending the previous one."""
        __tracebackhide__ = True
        self.through()
        if (stepper := self._stepper) is not None:
            stepper.begin()
        else:
            self._fetched(None, None)

    def through(self) -> None:
        """End the current iteration, if there is one."""
        __tracebackhide__ = True
        if self.is_given_up and not self.stepped:
            return
        stepper = self._stepper
        if stepper is not None:
            stepper.through()
        elif self.is_inside:
            self._end_iteration()

    def leave(self) -> None:
        """Leave the loop, also by ``break``."""
        self.is_inside = False
        if (stepper := self._stepper) is not None:
            stepper.leave()

    def end(self) -> None:
        """Leave the outermost loop."""
        __tracebackhide__ = True
        self._choice.end(self.loop)

    def inner_begins(self) -> None:
        """Note that a loop in this one begins, if it is the first one of the iteration."""
        if self.is_inside and not self.until_inner_ns:
            self.until_inner_ns = perf_counter_ns() - self._began_ns

    def _note_source(self, iterable: object) -> None:
        """Note whether the items are parts of a batch, which the loop around this one has got, or batches of a list."""
        of_batch = is_tensor(iterable) or (type(iterable) is not list and self._choice.has_batch_around(self.loop))
        self.is_part = self.loop.of_one_item or (self.loop.takes_apart and of_batch)

    def _enter(self, length: int | None) -> None:
        __tracebackhide__ = True
        stepper = self._stepper
        if stepper is not None:
            stepper.enter(length)
            return
        self.length, self.is_inside = length, False
        if self._choice.watches(self.loop):
            self._choice.begun(self.loop, length)

    def _fetched(self, _: None, item: Item) -> Item:
        if self.is_given_up:
            self.is_inside, self.stepped = True, False
            return item
        stepper = self._stepper
        if stepper is not None:
            stepper.inside()
        elif self._choice.watches(self.loop):
            self.is_inside, self.stepped = True, False
            self._gets_tensors = holds_tensor(item)
            self._nodes = self._choice.made_nodes()
            self.until_inner_ns = 0
            self._began_ns = perf_counter_ns()
        return item

    def _end_iteration(self) -> None:
        __tracebackhide__ = True
        self.is_inside = False
        self.iterations += 1
        dur_ns = perf_counter_ns() - self._began_ns
        self.least_ns = min(self.least_ns, dur_ns) if self.iterations > 1 else dur_ns
        self.grew = self.has_grown
        self.is_given_up = self.iterations >= MOST_SEEN and self.least_ns < SHORT_NS
        self._choice.ended(self)


def _line_in(filename: str) -> int | None:
    """Return the line of the cell that is running, seen from below."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way
    while frame is not None and not (frame.f_code.co_filename == filename and frame.f_code.co_name == "<module>"):
        frame = frame.f_back
    return None if frame is None else frame.f_lineno
