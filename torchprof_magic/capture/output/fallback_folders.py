"""Fallback folders for a trace that cannot be written to the folder of its run."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from torchprof_magic.capture.output.crash_marker import FOLDER_PREFIX
from torchprof_magic.model.units import format_file_size
from torchprof_magic.system.files.free_space import free_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class FallbackFolders:
    """The fallback folders of one run, each created when it is first needed.

    ``named`` is the folder that the user chose for traces; it is tried before the temporary folder. ``on_new`` is
    called with each new folder while it is empty.
    """

    def __init__(self, named: Path | None = None, on_new: Callable[[Path], None] | None = None) -> None:
        self._named = named
        self._on_new = on_new
        self._made: dict[Path, Path] = {}

    def places(self, full: Path) -> Iterator[Path]:
        """Yield the writable folders to try after ``full``, in order."""
        for candidate in _candidates(self._named):
            with suppress(OSError):
                place = candidate.resolve()
                is_full = full.is_dir() and full.resolve().is_relative_to(place)  # unless it was deleted
                if not is_full and place.is_dir() and os.access(place, os.W_OK | os.X_OK):
                    yield place

    def folder_in(self, place: Path) -> Path:
        """Return this run's folder in ``place``, which only the user may read. Raises ``OSError``."""
        known = self._made.get(place)
        if known is not None and known.is_dir():
            return known
        folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=place))
        self._made[place] = folder
        if self._on_new is not None:
            self._on_new(folder)
        return folder

    def remove_empty(self) -> None:
        """Delete the empty folders."""
        for place, folder in list(self._made.items()):
            with suppress(OSError):
                folder.rmdir()
                del self._made[place]


def _candidates(named: Path | None) -> Iterator[Path]:
    if named is not None:
        yield named
    with suppress(OSError):  # raised if no temporary folder is writable, as on a full disk
        yield Path(tempfile.gettempdir())


def free_space(folder: Path) -> str:
    """Return the free space of a folder, in words."""
    free = free_bytes(folder)
    return f"{folder} is not available" if free is None else f"{format_file_size(free)} free in {folder}"
