"""The one live session of this process."""

from __future__ import annotations

import inspect
import os
import sys
import threading
from typing import TYPE_CHECKING

from torchprof_magic.model.errors import ProfilerBusyError

if TYPE_CHECKING:
    from types import FrameType
    from typing import Protocol

    class Claimant(Protocol):
        """The part of a session that the registry uses."""

        owner: Owner | None

        def leave(self) -> None:
            """Stop the session, which was left without being stopped, and discard its recording or keep it."""

        def reclaim(self) -> None:
            """Stop the session and discard its recording."""


OWN_PACKAGE = __name__.partition(".")[0]
# Frames of these modules end before the with-block that they enter does.
PLUMBING = (OWN_PACKAGE, "contextlib")
SUSPENDABLE = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_GENERATOR

_live: Claimant | None = None


class Owner:
    """The frame of the user's (or IPython's) code that opened a session, with its thread and process."""

    def __init__(self) -> None:
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to the caller
        while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in PLUMBING:
            frame = frame.f_back
        self.frame = frame
        self.thread_id = threading.get_ident()
        self.pid = os.getpid()

    def belong_to(self, frame: FrameType) -> None:
        """Let the session be that of a function that goes on, because the one that opened it ends at once."""
        self.frame = frame

    def is_here(self) -> bool:
        """Return whether this is the thread and the process that opened the session."""
        return threading.get_ident() == self.thread_id and os.getpid() == self.pid

    def is_child(self) -> bool:
        """Return whether this is a forked child of the process that opened the session."""
        return os.getpid() != self.pid

    def is_running(self) -> bool:
        """Return whether the code that opened the session still runs. Suspended code and live threads count."""
        if threading.get_ident() != self.thread_id:
            return any(thread.ident == self.thread_id for thread in threading.enumerate())
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to the caller
        while frame is not None:
            if frame is self.frame:
                return True
            frame = frame.f_back
        return self.frame is not None and bool(self.frame.f_code.co_flags & SUSPENDABLE)


def claim(session: Claimant) -> None:
    """Make ``session`` the live one. A session that was left without a stop is ended; one in use is an error."""
    global _live  # noqa: PLW0603 - one per process is the point
    other = _live
    if other is not None and other is not session and other.owner is not None and other.owner.pid == os.getpid():
        if other.owner.is_running():
            raise ProfilerBusyError(
                "torchprof is already recording. Recordings cannot be nested, because torch would lose the outer one. "
                "Remove the inner %%torchprof or profile(), or end a recording that was never stopped with: "
                "%torchprof off"
            )
        other.leave()
    _live = session


def live() -> Claimant | None:
    """Return the session that is recording in this process and thread, if one is."""
    session = _live
    return session if session is not None and session.owner is not None and session.owner.is_here() else None


def release(session: Claimant) -> None:
    """Forget ``session`` if it is the live one."""
    global _live  # noqa: PLW0603
    if _live is session:
        _live = None


def reclaim_live() -> bool:
    """Stop the live session, in use or not, and discard its data; return whether there was one."""
    other = _live
    if other is None:
        return False
    other.reclaim()
    return True
