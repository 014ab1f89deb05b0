"""What an instrumented loop calls: it tells the session where a step ends and when the loop has its item."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from torchprof_magic.system.process.lookups import special

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from torchprof_magic.capture import LineMarks

    class SteppedSession(Protocol):
        """The part of a capture session that stepping uses."""

        def start(self, length: int | None = None, done: int = 0) -> None:
            """Begin the step after ``done`` ones that were not watched; does nothing if it has begun already."""

        def count(self, iterable: object) -> int | None:
            """Return how many items a loop will get, if that is known."""

        def step(self, fetched_ns: int | None = None) -> None:
            """End a step, whose item was there at ``fetched_ns``."""

        def cut(self) -> None:
            """End a step that was left early."""

        def finish(self, *, is_between: bool = False) -> None:
            """End the recording; ``is_between``: no new step has begun."""

    class Counted(Protocol):
        """A loop around the one that steps."""

        length: int | None

    class Stepping(Protocol):
        """What is told that a loop asks for its next item."""

        def through(self) -> None:
            """End the current iteration, if there is one."""


Item = TypeVar("Item")


class Stepper:
    """The object that an instrumented loop calls. A step is one run of the loop body and the fetching of the next item.

    ``marks`` notes the times of the loop's header, at ``line``. ``outer`` are the loops around this one, which run it
    again. A step that ends with ``break`` is listed as incomplete, because a break at the end of the body cannot be
    distinguished from one at its beginning. ``continue`` and the loop's ``else`` work as usual.
    """

    def __init__(
        self,
        session: SteppedSession,
        marks: LineMarks | None = None,
        line: int = 0,
        outer: Sequence[Counted | None] = (),
    ) -> None:
        self._session = session
        self._marks = marks
        self._line = line
        self._outer = outer
        self._is_inside = False
        self._has_ended_one = self._is_left = False
        self._fetched_ns: int | None = None  # a ``while`` loop fetches nothing

    # ``for item in map(fetched, ends, iterable)``: the cell calls ``map``, which calls ``__iter__`` and ``__next__`` of
    # the iterable. So no frame of ours is in a traceback, and no item is kept while the next one is fetched.
    pairs = map

    def steps(self, iterable: Iterable[Item]) -> Iterator[Item]:
        """Iterate and step. A second loop (the next epoch) continues the count."""
        __tracebackhide__ = True
        return map(*self.parts(iterable))

    def parts(self, iterable: Iterable[Item]) -> tuple[Callable[[None, Item], Item], Iterable[None], Iterable[Item]]:
        """Enter the loop, and return the arguments of ``map`` that make an iterator which steps."""
        __tracebackhide__ = True
        self.enter(self._session.count(iterable))
        return self._fetched, Ends(self), iterable

    def opening(self, iterable: object) -> Callable[[], object]:
        """Enter an ``async for`` loop, and return what the cell calls to get the iterator for ``async_steps``."""
        __tracebackhide__ = True
        self.enter(self._session.count(iterable))
        return opener(iterable)

    def async_steps(self, iterator: object) -> object:
        """Iterate and step as ``steps`` does, for ``async for``; its body calls ``inside`` first."""
        __tracebackhide__ = True
        return stepping_iterator(iterator, self)

    @property
    def is_inside(self) -> bool:
        """True in the body of the loop."""
        return self._is_inside and not self._is_left

    @property
    def is_used(self) -> bool:
        """True if an iteration has begun."""
        return self._is_inside or self._has_ended_one

    def inside(self) -> None:
        """Note that an item was fetched."""
        self._is_inside, self._fetched_ns = True, perf_counter_ns()

    def _fetched(self, _: None, item: Item) -> Item:
        self._is_inside, self._fetched_ns = True, perf_counter_ns()
        return item

    def leave(self) -> None:
        """Leave the loop, also by ``break``."""
        self._is_left = True

    def enter(self, length: int | None = None) -> None:
        """Enter the loop, for the first time or again after a ``break``."""
        __tracebackhide__ = True
        self._is_left = False
        if self._is_inside:
            self._is_inside = False
            self._session.cut()
        self._session.start(total_of(length, self._outer))
        self._mark()

    def enter_late(self, length: int | None, done: int) -> None:
        """Enter the loop between two of its iterations, of which ``done`` are over."""
        __tracebackhide__ = True
        self._has_ended_one = True
        self._session.start(total_of(length, self._outer), done)
        self._mark()

    def begin(self) -> None:
        """Begin an iteration, ending the previous one."""
        __tracebackhide__ = True
        self.through()
        self._is_inside = True

    def through(self) -> None:
        """End the current iteration, if there is one."""
        __tracebackhide__ = True
        if self._is_inside:
            self._is_inside, self._has_ended_one = False, True
            self._session.step(self._fetched_ns)
            self._mark()

    def _mark(self) -> None:
        """Note that the header of the loop runs now: the step that has just ended is none of its time."""
        if self._marks is not None:
            self._marks.mark(self._line)

    def end(self) -> None:
        """Leave the outermost loop: no more steps follow, so the recording ends here."""
        __tracebackhide__ = True
        self._session.finish(is_between=not self._is_inside)


def total_of(length: int | None, around: Sequence[Counted | None]) -> int | None:
    """Return how many iterations a loop of this length will make in all runs by the loops around it, if known."""
    for outer in around:
        times = None if outer is None else outer.length
        length = None if length is None or times is None else length * times
    return length


def opener(iterable: object) -> Callable[[], object]:
    """Return what ``async for`` calls to get the iterator of an object."""
    found: Callable[[], object] | None = special(iterable, "__aiter__")
    return (lambda: Unusable(iterable)) if found is None else found


def stepping_iterator(iterator: object, stepper: Stepping) -> object:
    """Return an asynchronous iterator that tells ``stepper`` when it is asked for its next item."""
    if type(iterator) is Unusable:  # not isinstance, which asks a property of the user's class
        return iterator.value  # Python raises the right error for it
    return AsyncUnusable(iterator) if special(iterator, "__anext__") is None else AsyncStepped(iterator, stepper)


class Around:
    """What a loop around the one that steps calls; ``length`` is how many items it will get, if that is known."""

    def __init__(self, session: SteppedSession) -> None:
        self._session = session
        self.length: int | None = None

    def around(self, iterable: Item) -> Item:
        """Note the length of an iterable, and return it."""
        self.length = self._session.count(iterable)
        return iterable


class Ends:
    """Ends a step whenever it is asked for its next item, which is before the loop fetches its own."""

    __slots__ = ("_stepper",)

    def __init__(self, stepper: Stepping) -> None:
        self._stepper = stepper

    def __iter__(self) -> Iterator[None]:
        return self

    def __next__(self) -> None:
        __tracebackhide__ = True
        self._stepper.through()


class AsyncStepped:
    """Asynchronous iterator that steps. While it waits for the next item, the step is that of the loop's body."""

    __slots__ = ("_iterator", "_stepper")

    def __init__(self, iterator: object, stepper: Stepping) -> None:
        self._iterator = iterator
        self._stepper = stepper

    def __aiter__(self) -> AsyncStepped:
        return self

    @property
    def __anext__(self) -> Any:
        """The method of the user's iterator: Python calls it, so no frame of ours is in a traceback."""
        __tracebackhide__ = True
        self._stepper.through()
        return special(self._iterator, "__anext__")


class Unusable:
    """An object without ``__aiter__``."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class AsyncUnusable(Unusable):
    """The result of an ``__aiter__``, which has no ``__anext__``."""

    __slots__ = ()

    def __aiter__(self) -> object:
        return self.value
