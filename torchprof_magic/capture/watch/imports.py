"""How long the imports of a step take, measured by a finder that finds nothing.

Python asks each finder of ``sys.meta_path`` for every module that is not loaded yet. It holds a lock of the module
until that is imported, and forgets it then: that is when the import has ended.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from contextlib import suppress
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Mapping

# The locks of modules that are being imported, by name, each as a weak reference. No other place of Python has them.
_LOCKS: Mapping[str, ref[Any]] = vars(sys.modules["_frozen_importlib"]).get("_module_locks", {})


class ImportTime:
    """Adds up in ``ns`` how long imports of one thread take, each with those in it."""

    def __init__(self) -> None:
        self.ns = 0
        self._thread = 0
        self._began_ns = 0
        self._lock: ref[Any] | None = None  # of the outermost module that is being imported
        # When locks were forgotten. No Python runs then, because an interrupt that a callback raises would be lost.
        self._ends: defaultdict[ref[Any], int] = defaultdict(perf_counter_ns)

    def switch(self, *, is_on: bool) -> None:
        """Begin or end to measure the imports of the calling thread."""
        with suppress(ValueError):
            sys.meta_path.remove(self)
        self._add(until_ns=perf_counter_ns())
        self._thread = 0  # the program may have kept a list of finders with this one in it
        if is_on:
            self.ns, self._thread = 0, get_ident()
            sys.meta_path.insert(0, self)

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        """Note that a module is being imported, and leave it to the other finders."""
        if get_ident() != self._thread:
            return
        self._add()
        lock = _LOCKS[name]() if name in _LOCKS else None
        if self._lock is None and lock is not None:  # a module can also be looked for without being imported
            self._began_ns, self._lock = perf_counter_ns(), ref(lock, self._ends.__getitem__)
            hash(self._lock)  # which it keeps, so that it can be a key when the lock is gone

    def _add(self, until_ns: int | None = None) -> None:
        """Add the time of the last import if that has ended, or of what it took until then."""
        if self._lock is None:
            return
        end_ns = self._ends.pop(self._lock, until_ns)
        if end_ns is not None:
            self.ns += end_ns - self._began_ns
            self._lock = None
