"""What is each thread of this process at?"""

from __future__ import annotations

import gc
import sys
from operator import methodcaller
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_call = methodcaller("__call__")


def current_frames() -> dict[int, FrameType]:
    """Return the innermost frame of each thread, by the thread's identifier.

    Python before 3.11.9 holds a lock of the interpreter meanwhile, which the end of a thread, or of a
    ``threading.local``, takes too. Garbage collected just then would stop the process for good (cpython#106883), so
    none is.
    """
    if not gc.isenabled():
        return sys._current_frames()  # noqa: SLF001 - the documented way to other threads' frames
    try:
        # All three within one call of C, so that no other thread can switch the collection on or off in between. No
        # variable holds the frames: this one is among them, and would live on, with all around it.
        return list(map(_call, (gc.disable, sys._current_frames, gc.enable)))[1]  # noqa: SLF001 - the same
    except BaseException:
        gc.enable()
        raise
