"""Where a trace goes when the disk of its run's folder does not take it: the named folder, or the temporary one."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from torchprof_magic.capture.output.crash_marker import FOLDER_PREFIX
from torchprof_magic.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class FallbackFolders:
    """The folders that one run makes outside its own, each when it is first needed.

    ``named`` is the folder that the user chose for traces; it comes before the temporary folder. ``on_new`` is called
    with each folder that is made, before anything is in it.
    """

    def __init__(self, named: Path | None = None, on_new: Callable[[Path], None] | None = None) -> None:
        self._named = named
        self._on_new = on_new
        self._made: dict[Path, Path] = {}

    def places(self, full: Path) -> Iterator[Path]:
        """Yield the writable folders to try after ``full``, which did not take the file, in order."""
        for candidate in _candidates(self._named):
            with suppress(OSError):
                place = candidate.resolve()
                is_full = full.is_dir() and full.resolve().is_relative_to(place)  # or it was deleted
                if not is_full and place.is_dir() and os.access(place, os.W_OK | os.X_OK):
                    yield place

    def folder_in(self, place: Path) -> Path:
        """Return the folder of this run in ``place``, which is private to the user. Raises ``OSError``."""
        known = self._made.get(place)
        if known is not None and known.is_dir():
            return known
        folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=place))
        self._made[place] = folder
        if self._on_new is not None:
            self._on_new(folder)
        return folder

    def remove_empty(self) -> None:
        """Delete the folders that hold nothing."""
        for place, folder in list(self._made.items()):
            with suppress(OSError):
                folder.rmdir()
                del self._made[place]


def _candidates(named: Path | None) -> Iterator[Path]:
    if named is not None:
        yield named
    with suppress(OSError):  # Python finds no temporary folder on a full disk
        yield Path(tempfile.gettempdir())


def free_bytes(folder: Path) -> int | None:
    """Return how much this user can write there, ``None`` if unknown."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def told_room(folder: Path) -> str:
    """Return how much is free in a folder, in words."""
    free = free_bytes(folder)
    return f"{folder} is gone" if free is None else f"{format_bytes(free)} free in {folder}"
