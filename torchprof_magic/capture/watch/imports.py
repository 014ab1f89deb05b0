"""Which imports a step makes, how long each takes and in which line, noted by a finder that finds nothing.

Python asks each finder of ``sys.meta_path`` for every module that is not loaded yet. It holds a lock of the module
until that is imported, and forgets it then: that is when the import has ended.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any
from weakref import ref

from torchprof_magic.capture.parts import IMPORTS
from torchprof_magic.capture.watch.users_code import UsersCode
from torchprof_magic.model.recording import HostLine

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

    from torchprof_magic.capture.parts import Parts

MAX_IMPORTS = 10_000
# The locks of modules that are being imported, by name, each as a weak reference. No other place of Python has them.
_LOCKS: Mapping[str, ref[Any]] = vars(sys.modules["_frozen_importlib"]).get("_module_locks", {})
_MACHINERY = "<frozen importlib"
_IMPORTS_ONE = "_find_and_load"


class ImportTimes:
    """Notes the imports of one thread, each with those in it: when it ran, for which module, and in which line."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._users = UsersCode()
        self._kept: list[HostLine] = []
        self._of_step: list[HostLine] = []
        self._thread = 0
        self._open: HostLine | None = None  # the outermost import that goes on; its end is not known
        self._lock: ref[Any] | None = None  # of its module
        # When locks were forgotten. No Python runs then, because an interrupt that a callback raises would be lost.
        self._ends: defaultdict[ref[Any], int] = defaultdict(perf_counter_ns)

    @property
    def ns(self) -> int:
        """How long the imports of the last step took."""
        return sum(each.end_ns - each.start_ns for each in self._of_step)

    def begin(self) -> None:
        """Begin to note the imports of the calling thread."""
        self.end()
        self._of_step, self._thread = [], get_ident()
        sys.meta_path.insert(0, self)

    def end(self) -> None:
        """End it; does nothing where it has not begun."""
        with suppress(ValueError):
            sys.meta_path.remove(self)
        self._add(until_ns=perf_counter_ns())
        self._thread = 0  # the program may have kept a list of finders with this one in it

    def keep(self) -> None:
        """Keep the imports of the last step until they are taken."""
        self._kept += self._of_step[: MAX_IMPORTS - len(self._kept)]

    def take(self) -> tuple[HostLine, ...]:
        """Return what was kept since the last call."""
        kept, self._kept = self._kept, []
        return tuple(kept)

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        """Note that a module is being imported, and leave it to the other finders."""
        if get_ident() == self._thread:
            self._parts.run(IMPORTS, self._note, name, sys._getframe(1))  # noqa: SLF001 - the documented way

    def _note(self, name: str, frame: FrameType) -> None:
        self._add()
        if self._open is not None:
            return
        found = self._importing(name, frame)
        lock = _LOCKS[found.module]() if found.module in _LOCKS else None
        if lock is not None:  # a module can also be looked for without being imported
            self._lock = ref(lock, self._ends.__getitem__)
            hash(self._lock)  # which it keeps, so that it can be a key when the lock is gone
            self._open = found

    def _importing(self, name: str, frame: FrameType | None) -> HostLine:
        """Return the import that a frame of Python's machinery is in, from now on.

        It is of the module that the program asks for, with its packages, which are imported before it.
        """
        start_ns, is_machinery = perf_counter_ns(), True
        while frame is not None and not self._users.has(frame.f_code):
            code = frame.f_code
            is_machinery = is_machinery and code.co_filename.startswith(_MACHINERY)
            if is_machinery and code.co_name == _IMPORTS_ONE and type(frame.f_locals.get("name")) is str:
                name = frame.f_locals["name"]
            frame = frame.f_back
        file, line = ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
        return HostLine(module=str(name), file=file, line=line or 0, start_ns=start_ns, end_ns=start_ns)

    def _add(self, until_ns: int | None = None) -> None:
        """Add the last import if that has ended, or what it took until then."""
        if self._open is None or self._lock is None:
            return
        end_ns = self._ends.pop(self._lock, until_ns)
        if end_ns is not None:
            self._of_step.append(replace(self._open, end_ns=end_ns))
            self._open = self._lock = None
