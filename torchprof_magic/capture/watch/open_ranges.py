"""Which ranges of the user's are open while a recording ends?

A range that begins in one recording and ends in a later one makes torch 2.13 write into memory that it has released,
and the process dies. So ranges that are open when a recording ends, end with it; when their own end comes, torch has
nothing left to do for them.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from torch.profiler import record_function

from torchprof_magic.capture.torch_api.patching import stand_in

if TYPE_CHECKING:
    from collections.abc import Callable


class _Here(threading.local):
    """Is this thread the one that is recorded, and now?"""

    is_recorded = False


class OpenRanges:
    """The ``record_function`` ranges that began on a thread while it was recorded, and have not ended.

    Each call in noting one is in a trace with stacks, for every range of the user's: so there are as few as can be.
    """

    def __init__(self) -> None:
        self._here = _Here()
        self._open: dict[int, record_function] = {}
        self._original_exit = record_function.__exit__

    def watch(self) -> Callable[[], None]:
        """Be told of every range that begins; return what ends the watch."""
        enter, leave, here, ranges = record_function.__enter__, record_function.__exit__, self._here, self._open

        @wraps(enter)
        def noting_enter(range_: record_function) -> record_function:
            entered: record_function = enter(range_)  # type: ignore[no-untyped-call]
            if here.is_recorded:
                ranges[id(range_)] = range_
            return entered

        @wraps(leave)
        def noting_exit(range_: record_function, *error: Any) -> None:
            leave(range_, *error)
            if ranges and range_.run_callbacks_on_exit:  # else it ends with a future, later
                key = id(range_)
                if key in ranges:
                    del ranges[key]

        with ExitStack() as undo:
            undo.callback(self.forget)
            undo.callback(stand_in(record_function, "__enter__", noting_enter))
            undo.callback(stand_in(record_function, "__exit__", noting_exit))
            return undo.pop_all().close

    def begin(self) -> None:
        """Note those that begin from here on this thread, until ``end``."""
        self._here.is_recorded = True

    def end(self) -> None:
        """End all of them for torch, the innermost first."""
        for range_ in reversed(list(self._open.values())):
            if range_.run_callbacks_on_exit:
                self._original_exit(range_, None, None, None)
            elif range_.record is not None:
                torch.ops.profiler._record_function_exit._RecordFunction(range_.record)  # noqa: SLF001 - as torch does
        self.forget()

    def forget(self) -> None:
        """Note no more of them, and end none: there is no recording left that they could outlive."""
        self._here.is_recorded = False
        self._open.clear()
