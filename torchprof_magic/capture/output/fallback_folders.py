"""Where else can a trace go, when the disk of its run's folder does not take it?"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from torchprof_magic.capture.output.crash_marker import FOLDER_PREFIX
from torchprof_magic.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEMORY_DISK = Path("/dev/shm")  # noqa: S108 - only folders of our own are made in it, by mkdtemp


class Elsewhere:
    """The folders that one run makes in other places, each when it is first needed.

    ``spare`` is tried before all others: a folder that the user named for traces. ``on_new`` is told of each folder
    that is made, before anything is in it.
    """

    def __init__(self, spare: Path | None = None, on_new: Callable[[Path], None] | None = None) -> None:
        self._spare = spare
        self._on_new = on_new
        self._made: dict[Path, Path] = {}

    def places(self, full: Path, need_bytes: int) -> tuple[list[Path], list[Path]]:
        """Return the folders with room for a file of this size that ``full`` does not take, in order.

        The second list are those of other disks that seem to have too little: the size is an estimate.
        """
        device = _device(full)
        roomy: list[Path] = []
        others: list[Path] = []
        for place in self._usable(full):
            if (free_bytes(place) or 0) > need_bytes:
                roomy.append(place)
            elif _device(place) != device:
                others.append(place)
        return roomy, others

    def folder_in(self, place: Path) -> Path:
        """Return the folder of this run in ``place``, which is private to the user; raises ``OSError``."""
        known = self._made.get(place)
        if known is not None and known.is_dir():
            return known
        folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=place))
        self._made[place] = folder
        if self._on_new is not None:
            self._on_new(folder)
        return folder

    def remove_empty(self) -> None:
        """Delete the folders that nothing is in, for what was to be in them failed or is not wanted."""
        for place, folder in list(self._made.items()):
            with suppress(OSError):
                folder.rmdir()
                del self._made[place]

    def _usable(self, full: Path) -> Iterator[Path]:
        """Yield the candidates that this user may write to, each once."""
        seen = {full, Path(os.path.realpath(full))}
        for candidate in _candidates(self._spare):
            with suppress(OSError):
                place = candidate.resolve()
                if place not in seen and place.is_dir() and os.access(place, os.W_OK | os.X_OK):
                    seen.add(place)
                    yield place


def _candidates(spare: Path | None) -> Iterator[Path]:
    """Yield where the user may have room: what is not there, or nobody knows, is left out."""
    if spare is not None:
        yield spare
    with suppress(OSError):  # a disk so full that Python finds no temporary folder
        yield Path(tempfile.gettempdir())
    with suppress(OSError):  # deleted meanwhile
        yield Path.cwd()
    with suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if sys.platform == "linux":
        yield MEMORY_DISK


def free_bytes(folder: Path) -> int | None:
    """Return how much this user can write there, ``None`` when nothing tells."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def told_room(folder: Path) -> str:
    """Return how much is free in a folder, in words."""
    free = free_bytes(folder)
    return f"{folder} is gone" if free is None else f"{format_bytes(free)} free in {folder}"


def _device(folder: Path) -> int | None:
    try:
        return folder.stat().st_dev
    except OSError:
        return None
