"""Which code is the user's, and not that of Python, of an installed package, or of this one."""

from __future__ import annotations

import re
import sys
import sysconfig
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

from torchprof_magic.model.generated_files import GENERATED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType

OWN_FOLDER = str(Path(__file__).parents[2])
_GENERATED = re.compile(GENERATED)
_MACHINERY = ("torch", "torchprof_magic", "IPython", "ipykernel", "triton", "traitlets")


class UsersCode:
    """Tells cells and the user's own files from all other code, by the folders that are known when it is made."""

    def __init__(self) -> None:
        self._libraries = _library_folders()

    def has(self, code: CodeType) -> bool:
        """Return whether a piece of code is the user's."""
        return self.has_file(code.co_filename)

    def has_file(self, name: str) -> bool:
        """Return whether the code of a file is the user's."""
        if name.startswith("<"):
            return name.startswith("<ipython-input")
        return not (name.startswith(self._libraries) or _GENERATED.search(name))

    def is_in(self, namespace: Mapping[str, object]) -> bool:
        """Return whether any variable is a function of the user's, or a class or module of theirs, or an object of one.

        No code of their classes runs.
        """
        return any(self._leads_to(value) for value in list(namespace.values()))

    def _leads_to(self, value: object) -> bool:
        kind = type(value)
        if kind is FunctionType:
            return self.has(value.__code__)  # type: ignore[attr-defined]
        if issubclass(kind, ModuleType):
            module: object = value
        else:
            name = type.__getattribute__(value if issubclass(kind, type) else kind, "__module__")
            if name == "__main__":
                return True
            module = sys.modules.get(name) if type(name) is str else None
        if not issubclass(type(module), ModuleType):
            return False
        file = object.__getattribute__(module, "__dict__").get("__file__")
        return type(file) is str and self.has_file(file)


def is_own(code: CodeType) -> bool:
    """Return whether a piece of code is of this package."""
    return code.co_filename.startswith(OWN_FOLDER)


def _library_folders() -> tuple[str, ...]:
    """Return the folders of Python, of installed packages and of this one."""
    paths = {*sysconfig.get_paths().values(), *(entry for entry in sys.path if "-packages" in entry)}
    torch = [str(Path(str(sys.modules[name].__file__)).parent) for name in _MACHINERY if name in sys.modules]
    return (*(path for path in paths if path), OWN_FOLDER, *torch)
