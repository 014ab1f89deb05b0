"""The user's ranges that are open when a recording ends.

If a range begins in one recording and ends in a later one, torch 2.13 writes into memory that it has released, and the
process crashes. So open ranges are ended with the recording. When the user's code leaves them later, torch has nothing
left to do.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from torch.profiler import record_function

from torchprof_magic.capture.torch_api.compat import without_user_modes
from torchprof_magic.capture.torch_api.patching import stand_in

if TYPE_CHECKING:
    from collections.abc import Callable


class _Here(threading.local):
    """Whether this thread is being recorded now."""

    is_recorded = False


class OpenRanges:
    """The ``record_function`` ranges that began on a thread while it was recorded, and have not ended.

    Each call that notes a range is in a trace with stacks, for every range, so there are as few calls as possible.
    """

    def __init__(self) -> None:
        self._here = _Here()
        self._open: dict[int, record_function] = {}
        self._original_exit = record_function.__exit__

    def watch(self) -> Callable[[], None]:
        """Watch every range that begins; return a function that ends this."""
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
            if ranges and range_.run_callbacks_on_exit:  # otherwise it ends later, with a future
                key = id(range_)
                if key in ranges:
                    del ranges[key]

        with ExitStack() as undo:
            undo.callback(self.forget)
            undo.callback(stand_in(record_function, "__enter__", noting_enter))
            undo.callback(stand_in(record_function, "__exit__", noting_exit))
            return undo.pop_all().close

    def begin(self) -> None:
        """Note the ranges that begin on this thread, until ``end``."""
        self._here.is_recorded = True

    def end(self) -> None:
        """End all open ranges for torch, the innermost first."""
        if self._open:
            with without_user_modes():
                self._end_open()
        self.forget()

    def _end_open(self) -> None:
        for range_ in reversed(list(self._open.values())):
            if range_.run_callbacks_on_exit:
                self._original_exit(range_, None, None, None)
            elif range_.record is not None:
                torch.ops.profiler._record_function_exit._RecordFunction(range_.record)  # noqa: SLF001 - as torch does

    def forget(self) -> None:
        """Stop noting ranges without ending any, because there is no recording left that they could outlive."""
        self._here.is_recorded = False
        self._open.clear()
