"""The profiler of Python functions that runs when a recording with stacks begins, and that torch ends.

Python calls one such profiler per thread: torch's, while it records stacks. From Python 3.12 on, cProfile has a place
of its own and goes on; functions set with ``sys.setprofile`` do not.
"""

from __future__ import annotations

import sys
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchprof_magic.capture.problems import ProblemLog

_CPROFILE = "_lsprof"
_PAUSED = "It is called again after the recording"
_ENDED = "It did not go on after the recording"


class PythonProfiler:
    """Notes which profiler a recording ends on this thread, and starts it again if it is a function of Python's."""

    def __init__(self, problems: ProblemLog) -> None:
        self._problems = problems
        self._before: Any = None
        self._ended: Any = None

    def look(self) -> None:
        """Look which profiler is there, just before a recording starts."""
        self._before = sys.getprofile()

    def note(self) -> None:
        """Note what the recording that has just started has replaced."""
        before, self._before = self._before, None
        now: object = sys.getprofile()
        if before is not None and now is not before:
            self._ended = before
            what = _PAUSED if _can_go_on(before) else _ENDED
            self._problems.note("capture.python_profiler", name=_name(before), what=what)

    def restore(self) -> None:
        """Start again what was replaced, unless the user's code has set something else since then."""
        ended, self._ended = self._ended, None
        if ended is not None and _can_go_on(ended) and sys.getprofile() is None:
            sys.setprofile(ended)


def _can_go_on(profiler: object) -> bool:
    """Return whether Python can start it again: not where it is written in C, which has its own way."""
    return type(profiler) is FunctionType or type(profiler) is MethodType


def _name(profiler: Any) -> str:
    kind = type(profiler)
    if _can_go_on(profiler):
        return f"sys.setprofile with {profiler.__qualname__}"
    is_cprofile = any(one.__module__ == _CPROFILE for one in kind.__mro__)
    return "cProfile" if is_cprofile else f"{kind.__module__}.{kind.__qualname__}"
