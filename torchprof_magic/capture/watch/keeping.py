"""The line of the user's code that keeps what a path names, from the source of this process."""

from __future__ import annotations

import linecache
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.capture.watch.users_code import UsersCode
from torchprof_magic.model.cell_tree import tree_of_cell
from torchprof_magic.model.keeping_lines import keeping_lines
from torchprof_magic.system.process.lookups import is_a

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

# So many files are looked at, and so many letters of a line are kept.
MOST_FILES = 200
MOST_CHARS = 200
_NUMBER = re.compile(r"[0-9]+")


class KeptAt(NamedTuple):
    """A line that puts something in a container, with its source."""

    file: str
    line: int
    source: str


class KeepingLines:
    """Looks for lines in the cells that ran and the files of the user's modules, the latest first."""

    def __init__(self) -> None:
        self._trees: list[tuple[str, ast.AST]] | None = None
        self._known: dict[str, KeptAt | None] = {}

    def find(self, path: str) -> KeptAt | None:
        """Return the first line that keeps what is at a path, in the cell or file that was seen last; None for none."""
        alike = _NUMBER.sub("0", path)
        if alike not in self._known:
            self._known[alike] = self._find(path)
        return self._known[alike]

    def _find(self, path: str) -> KeptAt | None:
        if self._trees is None:
            self._trees = list(_trees())
        for file, tree in self._trees:
            for line in keeping_lines(tree, path):
                return KeptAt(file, line, linecache.getline(file, line).strip()[:MOST_CHARS])
        return None


def _trees() -> Iterator[tuple[str, ast.AST]]:
    for file in _users_files():
        tree = tree_of_cell("".join(linecache.getlines(file)))
        if tree is not None:
            yield file, tree


def _users_files() -> list[str]:
    """Return the names of the user's sources: cells in the opposite order of running, then modules."""
    code = UsersCode()
    modules = [vars(module).get("__file__") for module in [*sys.modules.values()] if is_a(module, ModuleType)]
    names = [*reversed([*linecache.cache]), *modules]
    users = [name for name in names if type(name) is str and code.has_file(name)]
    return list(dict.fromkeys(name for name in users if name.endswith((".py", ">"))))[:MOST_FILES]
