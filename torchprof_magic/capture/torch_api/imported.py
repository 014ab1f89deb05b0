"""Acting once a module is imported, without importing it."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def once_imported(name: str, act: Callable[[Any], object]) -> Callable[[], None]:
    """Call ``act`` with a module: now if it is loaded, else once the program has imported it.

    Returns a function that ends the waiting. An import is never made to fail: ``act`` must not raise.
    """
    if name in sys.modules:
        act(sys.modules[name])
        return lambda: None
    finder = _Finder(name, act)
    sys.meta_path.insert(0, finder)
    return finder.leave


class _Finder:
    """Stands before the finders of Python until one module is asked for."""

    def __init__(self, name: str, act: Callable[[Any], object]) -> None:
        self._name = name
        self._act = act

    def leave(self) -> None:
        """Stand there no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002 - as Python calls it
        """Return the spec that Python finds, whose loader tells when the module is loaded; None for other modules."""
        if name != self._name:
            return None
        self.leave()
        spec = find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        loader = spec.loader
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            self._act(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
