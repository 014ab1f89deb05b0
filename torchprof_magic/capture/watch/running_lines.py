"""The user's line that a thread is in, seen from another thread."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any

from torchprof_magic.capture.watch.calls_of_lines import Callee, RunningLine
from torchprof_magic.capture.watch.users_code import UsersCode, is_own

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

# The attributes with the frame, and with what is awaited.
_INSIDE: dict[type, tuple[str, str]] = {
    CoroutineType: ("cr_frame", "cr_await"),
    GeneratorType: ("gi_frame", "gi_yieldfrom"),
    AsyncGeneratorType: ("ag_frame", "ag_await"),
}
_STEPS_OF_GENERATORS = ("async_generator_asend", "async_generator_athrow")


class RunningLines:
    """Finds the innermost line of the user's in a thread, and what it has called."""

    def __init__(self) -> None:
        self._users = UsersCode()

    def of_thread(self, thread: int, task: weakref.ref[asyncio.Task[Any]] | None) -> RunningLine | None:
        """Return the line that a thread is in, None if it is none of the user's.

        ``task`` is asyncio's, if the code runs in one: while no task runs, it is the line that this one awaits.
        """
        known = task() if task is not None else None
        if known is not None and asyncio.current_task(known.get_loop()) is None:
            return self._awaited(known)
        frame: FrameType | None = sys._current_frames().get(thread)  # noqa: SLF001 - the documented way
        callee: Callee | None = None
        is_ours = False
        while frame is not None:
            code = frame.f_code
            if self._users.has(code):
                return None if is_ours and callee is None else _running(frame, callee)
            is_ours = is_ours or is_own(code)
            if not is_own(code):
                callee = _called(frame)
            frame = frame.f_back
        return None

    def _awaited(self, task: asyncio.Task[Any]) -> RunningLine | None:
        """Return the line that a task awaits."""
        found: tuple[FrameType, Callee | None] | None = None
        for frame in _suspended(task.get_coro()):
            if self._users.has(frame.f_code):
                found = frame, None
            elif found is not None and found[1] is None and not is_own(frame.f_code):
                found = found[0], _called(frame)
        return _running(*found) if found is not None else None


def current_task() -> weakref.ref[asyncio.Task[Any]] | None:
    """Return the task that runs on this thread, if it is asyncio's."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs on this thread
        return None
    return weakref.ref(task) if type(task) is asyncio.Task else None


def _suspended(link: Any) -> Iterator[FrameType]:
    """Yield the frames of a coroutine and of what it awaits, the outermost first."""
    while link is not None:
        if type(link).__name__ in _STEPS_OF_GENERATORS:  # which do not tell of what they are a step
            link = next((one for one in gc.get_referents(link) if type(one) is AsyncGeneratorType), None)
        names = _INSIDE.get(type(link))
        frame = None if names is None else getattr(link, names[0])
        if names is None or frame is None:
            return
        yield frame
        link = getattr(link, names[1])


def _running(frame: FrameType, callee: Callee | None) -> RunningLine:
    instruction = max(frame.f_lasti, 0)  # it is -1 in a function that has only just been called
    return RunningLine(frame.f_code, instruction, callee, frame.f_globals)


def _called(frame: FrameType) -> Callee:
    module = frame.f_globals.get("__name__")
    return Callee(frame.f_code, module if type(module) is str else "")
