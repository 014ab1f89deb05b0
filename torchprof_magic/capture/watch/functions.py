"""The times at which lines of the user's functions began, by Python's own line events, for ``--lines``."""

from __future__ import annotations

import sys
from array import array
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from torchprof_magic.capture.parts import FUNCTIONS
from torchprof_magic.capture.watch.users_code import OWN_FOLDER, UsersCode
from torchprof_magic.model.recording import LineSite

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from torchprof_magic.capture.parts import Parts

# What calls it is around the cell, and not part of it.
_RUNS_CELLS = str(Path(OWN_FOLDER) / "ipython")
# What stands in the place of a line: a function was called, or returned, or no more was noted.
CALLED, RETURNED, ENDED = -1, -2, -3
# No more lines are timed after so many marks, which take seconds to read.
MAX_MARKS = 500_000
# Functions, and generators with each value, that are called more often in a step are left to the lines that call them;
# so are functions whose lines begin more often, in a loop of Python.
MOST_CALLS_OF_STEP = 5_000
MOST_LINES_OF_STEP = 100_000


class FunctionLines:
    """Notes the lines of functions that are defined in other cells or in the user's own files.

    It sees the thread that switches it on, and calls ``at_return`` with each frame that returns. Where a debugger or a
    coverage tool traces that thread already, it stays off and ``is_refused`` is set, because Python allows one of them
    at a time.
    """

    def __init__(self, parts: Parts, at_return: Callable[[FrameType], None] | None = None) -> None:
        self.is_on = False
        self._parts = parts
        self._at_return = at_return
        self.is_refused = False
        self.lost = 0
        self._places: list[tuple[str, int, int]] = []  # no objects: torch.compile would compile what makes them
        self._kept = array("q")
        self._known: dict[CodeType, dict[int, int] | None] = {}
        self._calls: dict[CodeType, int] = {}
        self._begun: dict[CodeType, int] = {}
        self._left_out: set[tuple[str, int]] = set()
        self.too_long: list[str] = []  # the names of functions with too many lines in a step
        self._marked: list[FrameType] = []
        self._own_code: CodeType | None = None
        self._users = UsersCode()

    @property
    def sites(self) -> list[LineSite]:
        """The lines that were noted, which its marks number from 1."""
        return [
            LineSite(file=file, line=line, first_line=first, is_left_out=(file, first) in self._left_out)
            for file, line, first in self._places
        ]

    def leave_out(self, code: CodeType) -> None:
        """Do not watch this code: it is the cell's, which marks its own lines."""
        self._own_code = code

    def switch(self, *, is_on: bool) -> None:
        """Begin or end to note lines, also those of functions that are running."""
        if is_on == self.is_on:
            return
        if not is_on:
            self._end()
            return
        if self._parts.is_off(FUNCTIONS) or self._is_full():
            return
        if sys.gettrace() is not None:
            self.is_refused = True
            return
        self.is_on = True
        try:
            self._begin_in_running()
            sys.settrace(self._on_call)
        except BaseException:
            self._end()
            raise

    def end_step(self, is_kept: bool) -> None:
        """Drop what was noted in a step that is not recorded."""
        self._calls.clear()
        self._begun.clear()
        if not is_kept and not self.is_on:
            del self._kept[:]

    def forget(self) -> None:
        """Let go of all code: that of a cell leads to the session of its cell, and Python cannot see that it does."""
        self._known.clear()
        self._calls.clear()
        self._begun.clear()
        self._own_code = None

    def take(self) -> array[int]:
        """Return what was noted since the last call."""
        kept, self._kept = self._kept, array("q")
        return kept

    def _begin_in_running(self) -> None:
        frames: list[FrameType] = []
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to the callers
        while frame is not None and not frame.f_code.co_filename.startswith(_RUNS_CELLS):
            if self._lines_of(frame.f_code) is not None and _is_free(frame):
                frames.append(frame)
            frame = frame.f_back
        for running in reversed(frames):
            self._note(CALLED)
            self._on_line(running, "line", None)
            running.f_trace = self._on_line
            running.f_trace_lines = True
            self._marked.append(running)

    def _end(self) -> None:
        self.is_on = False
        if sys.gettrace() == self._on_call:
            sys.settrace(None)
        for frame in self._marked:
            if frame.f_trace == self._on_line:
                frame.f_trace = None
                frame.f_trace_lines = True
        self._marked.clear()

    def _on_call(self, frame: FrameType, event: str, _: object) -> Any:
        try:
            code = frame.f_code
            if event != "call" or self._lines_of(code) is None:
                return None
            calls = self._calls[code] = self._calls.get(code, 0) + 1
            if calls > MOST_CALLS_OF_STEP:
                self._leave_out(code)
                frame.f_trace = None  # a generator has it from its earlier values
                return None
            frame.f_trace_lines = True  # a generator may come from an earlier recording that left it out
            self._note(CALLED)
        except Exception as exc:  # noqa: BLE001 - Python would raise it in the user's code
            return self._fail(exc)
        return self._on_line

    def _on_line(self, frame: FrameType, event: str, _: object) -> Any:
        try:
            if event == "line":
                lines = self._lines_of(frame.f_code)
                if lines is None or self._is_too_long(frame.f_code):
                    frame.f_trace_lines = False  # it still tells of its return
                else:
                    self._note(lines.get(frame.f_lineno, 0) or self._add(frame.f_code, lines, frame.f_lineno))
            elif event == "return":
                self._note(RETURNED)
                if self._at_return is not None:
                    self._at_return(frame)
        except Exception as exc:  # noqa: BLE001 - the same
            return self._fail(exc)
        return self._on_line

    def _is_too_long(self, code: CodeType) -> bool:
        """Count a line that begins; return whether that are too many of this function, which is left out then."""
        begun = self._begun[code] = self._begun.get(code, 0) + 1
        if begun <= MOST_LINES_OF_STEP:
            return False
        self._leave_out(code)
        self.too_long.append(code.co_name)
        return True

    def _leave_out(self, code: CodeType) -> None:
        """Leave the time of a function to the lines that call it, also that of what was noted before."""
        self._known[code] = None
        self._left_out.add((code.co_filename, code.co_firstlineno))

    def _fail(self, error: Exception) -> None:
        self._end()
        self._parts.fail(FUNCTIONS, error)

    def _note(self, mark: int) -> None:
        self._kept.append(perf_counter_ns())
        self._kept.append(mark)
        if self._is_full():
            self._kept[-1] = ENDED
            self.lost = 1
            self._end()

    def _is_full(self) -> bool:
        return len(self._kept) >= 2 * MAX_MARKS

    def _lines_of(self, code: CodeType) -> dict[int, int] | None:
        """Return the numbers of a function's lines, ``None`` for code that is not the user's."""
        if code not in self._known:
            self._known[code] = {} if self._is_users(code) else None
        return self._known[code]

    def _add(self, code: CodeType, lines: dict[int, int], line: int) -> int:
        self._places.append((code.co_filename, line, code.co_firstlineno))
        lines[line] = len(self._places)
        return lines[line]

    def _is_users(self, code: CodeType) -> bool:
        own = self._own_code
        if own is not None and code.co_filename == own.co_filename and code.co_name == "<module>":
            return False  # the cell marks its own lines
        return self._users.has(code)


def _is_free(frame: FrameType) -> bool:
    """Return whether nobody traces a frame, or only an earlier recording in which it was called."""
    return frame.f_trace is None or getattr(frame.f_trace, "__func__", None) is FunctionLines._on_line  # noqa: SLF001
