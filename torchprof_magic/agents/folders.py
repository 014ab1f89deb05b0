"""The folders that a client may read, and what a path of the client's stands for in them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.agents.errors import ToolError
from torchprof_magic.model.errors import OptionsError
from torchprof_magic.model.meta import shortened
from torchprof_magic.model.units import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MOST_CHARS = 4_096
_SHOWN_CHARS = 200
# A search goes through so many entries, and so deep, which is more than folders of traces have.
_MOST_ENTRIES = 20_000
_MOST_DEPTH = 6


class Identity(NamedTuple):
    """Which file it is, and its state: it has changed when any of these has."""

    device: int
    inode: int
    size_bytes: int
    changed_ns: int


class Folders:
    """Folders that were allowed at the start. Paths that lead out of them, in whatever way, are refused.

    A folder is known by its device and inode, so that neither letters in another case nor another name of the same
    folder matter, and another folder that takes its place later is not allowed.
    """

    def __init__(self, folders: Iterable[str | os.PathLike[str]]) -> None:
        """Allow some folders; raises ``OptionsError`` for what is no folder."""
        self.paths = tuple(map(_folder, folders))
        self._known = {_key(path) for path in self.paths}

    def find(self, text: str) -> Path:
        """Return where a path leads, absolute or in one of the folders, with all links followed.

        Raises ``ToolError`` for what is not there, and in the same words for what is elsewhere, whether it is there or
        not.
        """
        if not text or len(text) > _MOST_CHARS or "\0" in text or "://" in text:
            raise ToolError(f"{_shown(text)} is no path of a file or folder on this machine")
        for candidate in self._candidates(text):
            path = _resolved(candidate)
            if path is not None and self.holds(path) and _is_there(path):
                return path
        raise ToolError(
            f"{_shown(text)} is not in the folders that this server may read: {', '.join(map(str, self.paths))}"
        )

    def holds(self, path: Path) -> bool:
        """Return whether a path without links lies in one of the folders."""
        return any(_key(each) in self._known for each in (path, *path.parents))

    def identity(self, path: Path) -> Identity:
        """Return which file a resolved path is now; raises ``ToolError`` if it leads elsewhere by now, or is gone."""
        found = identity_of(path)
        if _resolved(path) != path or not self.holds(path):
            raise ToolError(f"{_shown(path.name)} was moved or replaced; ask again")
        return found

    def files(self, endings: tuple[str, ...]) -> list[Path]:
        """Return the files in the folders with one of some endings, the newest first. Links are not followed."""
        found = [file for folder in self.paths for file in _below(folder, endings)]
        return sorted(dict.fromkeys(found), key=_changed_ns, reverse=True)

    def name_of(self, path: Path) -> str:
        """Return the path in its folder if there is only one, else the whole path."""
        return str(path.relative_to(self.paths[0])) if len(self.paths) == 1 else str(path)

    def _candidates(self, text: str) -> Iterator[Path]:
        given = Path(text)
        if not given.anchor:
            yield from (folder / given for folder in self.paths)
        # Looking at a path on another drive or host can already ask that host.
        elif given.anchor.lower() in {folder.anchor.lower() for folder in self.paths}:
            yield given


def identity_of(path: Path) -> Identity:
    """Return which file a path is now; raises ``ToolError`` if it is gone."""
    try:
        found = path.stat()
    except (OSError, ValueError) as exc:
        raise ToolError(f"{_shown(path.name)} is gone, or may not be read") from exc
    return Identity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _folder(given: str | os.PathLike[str]) -> Path:
    try:
        path = Path(given).expanduser().resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as exc:
        raise OptionsError(f"{given}: there is no such folder") from exc
    if not path.is_dir():
        raise OptionsError(f"{given}: this is not a folder")
    return path


def _resolved(path: Path) -> Path | None:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):  # links in a circle, or a name that the system does not take
        return None


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _key(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


def _below(folder: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files in a folder and those below it, except hidden ones and those behind links."""
    seen = 0
    for place, inner, names in os.walk(folder):
        depth = len(Path(place).relative_to(folder).parts)
        inner[:] = [] if depth >= _MOST_DEPTH else sorted(name for name in inner if not name.startswith("."))
        files = [Path(place, name) for name in names if name.lower().endswith(endings) and not name.startswith(".")]
        yield from (file for file in files if file.is_file() and not file.is_symlink())
        seen += len(names) + len(inner)
        if seen > _MOST_ENTRIES:
            return


def _changed_ns(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _shown(text: str) -> str:
    return repr(shortened(printable(text), _SHOWN_CHARS))
