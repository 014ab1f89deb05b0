"""Other asyncio tasks that ran during a recording."""

from __future__ import annotations

import asyncio
import weakref
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchprof_magic.capture.problems import ProblemLog

    Task = asyncio.Task[Any]
    # Where a task waits: its coroutines, the outermost first, and the future at the end. Weak references, because a
    # result that is kept alive here would be counted as memory in use.
    Trail = list[tuple[weakref.ref[Any], int]]

# Tasks of the kernel or the terminal run no ops.
PLUMBING = frozenset({"IPython", "ipykernel", "jupyter_client", "prompt_toolkit", "tornado", "zmq"})


class OtherTasks:
    """The tasks that wait on the running event loop now, to find out later which of them ran."""

    def __init__(self) -> None:
        self._waiting = [(weakref.ref(task), _name(task), _trail(task)) for task in _others()]

    def note_moved(self, problems: ProblemLog) -> None:
        """Note the tasks that no longer wait at the same place; tasks that began since then belong to the cell."""
        for known, name, trail in self._waiting:
            task = known()
            if task is None or task.done() or _trail(task) != trail:
                problems.note("capture.other_tasks", task=name)


def _others() -> list[Task]:
    try:
        current, tasks = asyncio.current_task(), asyncio.all_tasks()
    except RuntimeError:  # no event loop runs on this thread
        return []
    return [task for task in tasks if task is not current and _package(task) not in PLUMBING]


def _package(task: Task) -> str:
    frame = getattr(task.get_coro(), "cr_frame", None)
    return "" if frame is None else str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _name(task: Task) -> str:
    return str(getattr(task.get_coro(), "__qualname__", task.get_name()))


def _trail(task: Task) -> Trail:
    trail: Trail = []
    link: Any = task.get_coro()
    while isinstance(link, (CoroutineType, GeneratorType, AsyncGeneratorType)):
        frame, following = _inside(link)
        trail.append((weakref.ref(link), -1 if frame is None else frame.f_lasti))
        link = following
    future = getattr(task, "_fut_waiter", None)
    return trail if future is None else [*trail, (weakref.ref(future), -1)]


def _inside(link: Any) -> tuple[Any, Any]:
    """Return the frame of a coroutine or generator, and what it waits for."""
    if isinstance(link, CoroutineType):
        return link.cr_frame, link.cr_await
    if isinstance(link, GeneratorType):
        return link.gi_frame, link.gi_yieldfrom
    return link.ag_frame, link.ag_await
