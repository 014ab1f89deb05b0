"""Imports that no interrupt may break off.

An interrupt in the middle of an import leaves parts of the package in ``sys.modules``. polars does not recover from
that: every later use fails, until the process ends.
"""

from __future__ import annotations

import importlib
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torchprof_magic.system.process.garbage import without_collections
from torchprof_magic.system.process.memory import lack_for_polars
from torchprof_magic.system.process.threads import is_main_thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, ModuleType

# Packages that an interrupted import breaks for good, each with a name that only a complete one has.
_FRAGILE = {"polars": "Series"}
# Modules with public names that do not import polars.
_WITHOUT_POLARS = ("torchprof_magic.model.errors", "torchprof_magic.capture")


def import_whole(name: str) -> ModuleType:
    """Return the module ``name``, imported if necessary with interrupts deferred until it is complete.

    Raises ``ImportError`` if polars does not fit into the addresses of this process; it would abort the process.
    """
    try:
        is_whole = name in sys.modules and not any(map(_is_broken, _FRAGILE))
    except Exception:  # noqa: BLE001 - the program may have put anything into sys.modules
        return importlib.import_module(name)
    if is_whole:
        return sys.modules[name]
    if name not in _WITHOUT_POLARS and (lack := lack_for_polars()):
        raise ImportError(f"polars cannot be imported: it {lack}. {lack.advice}")
    with uninterrupted(), without_collections():
        for package in filter(_is_broken, _FRAGILE):
            _forget(package)
        return importlib.import_module(name)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer SIGINT until the end of the block; does nothing on other threads, which receive no signals."""
    previous: Any = signal.getsignal(signal.SIGINT)
    if not is_main_thread() or not callable(previous):
        yield
        return
    arrived: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _number, frame: arrived.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if arrived:
            previous(signal.SIGINT, arrived[0])


def _is_broken(package: str) -> bool:
    """Return whether an import of ``package`` was begun and not completed, and none is going on."""
    if package in sys.modules:
        module = sys.modules[package]
        spec = getattr(module, "__spec__", None)
        return not getattr(spec, "_initializing", False) and not hasattr(module, _FRAGILE[package])
    return any(name.startswith(f"{package}.") for name in list(sys.modules))


def _forget(package: str) -> None:
    """Remove the Python modules of a package, so that they are imported anew. Compiled ones cannot be loaded twice."""
    for name in [name for name in list(sys.modules) if name == package or name.startswith(f"{package}.")]:
        origin = getattr(getattr(sys.modules[name], "__spec__", None), "origin", None) or ""
        if origin.endswith((".py", ".pyc")):
            del sys.modules[name]
