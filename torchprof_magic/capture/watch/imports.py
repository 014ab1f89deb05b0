"""How long the imports of a step take, measured by a finder that finds nothing.

Python asks each finder of ``sys.meta_path`` for every module that is not loaded yet. While it loads one, the time up to
each module that it asks for next is spent in the import of the outermost one.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_LOADER_FILE = "<frozen importlib._bootstrap>"
_LOADER = "_find_and_load"


class ImportTime:
    """Adds up in ``ns`` how long imports of one thread take; of each, what follows its last inner one is not seen."""

    def __init__(self) -> None:
        self.ns = 0
        self._thread = 0
        self._outer = 0  # imports that are open as the step begins
        self._last_ns = 0

    def switch(self, *, is_on: bool) -> None:
        """Begin or end to measure the imports of the calling thread."""
        with suppress(ValueError):
            sys.meta_path.remove(self)
        self._thread = 0  # the program may have kept a list of finders with this one in it
        if is_on:
            self.ns, self._last_ns, self._thread = 0, 0, get_ident()
            self._outer = _open_imports(sys._getframe(1), sys.maxsize)  # noqa: SLF001 - the documented way
            sys.meta_path.insert(0, self)

    def find_spec(self, _name: str, _path: object = None, _target: object = None) -> None:
        """Note that a module is looked for, and leave it to the other finders."""
        if get_ident() != self._thread:
            return
        now_ns = perf_counter_ns()
        if _open_imports(sys._getframe(1), self._outer + 2) >= self._outer + 2 and self._last_ns:  # noqa: SLF001
            self.ns += now_ns - self._last_ns
        self._last_ns = now_ns


def _open_imports(frame: FrameType | None, most: int) -> int:
    """Return how many imports are open around a frame, up to ``most``."""
    found = 0
    while frame is not None and found < most:
        code = frame.f_code
        found += code.co_name == _LOADER and code.co_filename == _LOADER_FILE
        frame = frame.f_back
    return found
