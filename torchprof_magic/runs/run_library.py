"""Runs that are kept across kernels, by name, in the platform's folder for data."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchprof_magic.model.errors import StoreError
from torchprof_magic.system.files.atomic import delete, delete_left_parts, read_own, replacing

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER_VARIABLE = "TORCHPROF_RUNS"
_FOLDER = Path("torchprof-magic") / "runs"
_DATA, _ABOUT = ".torchprof", ".json"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")
# Words that stand for a run where the name of one is expected.
_RESERVED = ("last",)
_MOST_ABOUT_BYTES = 1 << 16
# Runs that were kept without a name are deleted, the oldest first, beyond this size together.
MOST_BYTES = 4 << 30


class KeptRun(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a kept run without opening it. ``step_ns`` is its typical step, ``unix_s`` when it was kept."""

    name: str
    title: str
    unix_s: float
    steps: int
    step_ns: float | None = None
    is_named: bool = False


def data_folder() -> Path:
    """Return the folder of kept runs: that of ``TORCHPROF_RUNS``, or one in the platform's folder for data."""
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen).expanduser()
    try:
        home = Path.home()
    except RuntimeError as exc:
        raise StoreError(f"no home directory to keep runs in; set {FOLDER_VARIABLE} to a folder") from exc
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        base = os.environ.get("XDG_DATA_HOME") or home / ".local" / "share"
    return Path(base) / _FOLDER


def check_name(name: str) -> str:
    """Return a name of a run; raises ``StoreError`` for one that is no file name everywhere, or stands for a run."""
    if name in _RESERVED:
        raise StoreError(f"{name!r} stands for the newest run, so a run cannot be kept under this name")
    if not _NAME.fullmatch(name):
        raise StoreError(f"a run's name has up to 80 letters, digits, _, - and dots, and no dot first (got {name!r})")
    return name


class RunLibrary:
    """The kept runs of a folder, which is made when the first run is kept."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder if folder is not None else data_folder()

    def keep(self, run: KeptRun, write: Callable[[Path], object], *, most: int | None = None) -> Path:
        """Keep a run with the file that ``write`` writes, in place of one of the same name, and return its path.

        At most ``most`` runs without a name are kept then. Raises ``StoreError`` if it cannot be written.
        """
        path = self._path(run.name, _DATA)
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            delete_left_parts(self._folder)
            write(path)
            with replacing(self._path(run.name, _ABOUT)) as file:
                file.write(msgspec.json.encode(run))
        except OSError as exc:
            raise StoreError(f"the run could not be kept in {self._folder}: {exc}") from exc
        if most is not None:
            self._limit(most)
        return path

    def runs(self) -> list[KeptRun]:
        """Return the kept runs, the oldest first; files that are not of this library do not count."""
        found: list[KeptRun | None] = []
        with contextlib.suppress(OSError):
            found = [self._about(path.stem) for path in self._folder.glob(f"*{_ABOUT}")]
        return sorted((run for run in found if run is not None), key=lambda run: (run.unix_s, run.name))

    def path_of(self, name: str) -> Path:
        """Return the file of a kept run; raises ``StoreError`` with the names that there are."""
        path = self._path(name, _DATA)
        if self._about(name) is None or not path.is_file():
            names = ", ".join(run.name for run in self.runs()) or "none"
            raise StoreError(f"no run named {name!r} is kept; the kept runs are: {names}")
        return path

    def delete(self, name: str) -> None:
        """Delete a kept run; raises ``StoreError`` if there is none of this name."""
        self.path_of(name)
        try:
            for ending in (_ABOUT, _DATA):
                delete(self._path(name, ending))
        except OSError as exc:
            raise StoreError(f"run {name!r} could not be deleted: {exc}") from exc

    def rename(self, name: str, new: str) -> None:
        """Give a kept run a name, so that it is kept until it is deleted; raises ``StoreError`` if that is taken."""
        path = self.path_of(name)
        about = self._about(name)
        if about is None or self._about(check_name(new)) is not None:
            raise StoreError(f"a run named {new!r} is kept already")
        try:
            path.rename(self._path(new, _DATA))
            with replacing(self._path(new, _ABOUT)) as file:
                file.write(msgspec.json.encode(msgspec.structs.replace(about, name=new, is_named=True)))
            delete(self._path(name, _ABOUT))
        except OSError as exc:
            raise StoreError(f"run {name!r} could not be renamed: {exc}") from exc

    def _path(self, name: str, ending: str) -> Path:
        return self._folder / f"{check_name(name)}{ending}"

    def _about(self, name: str) -> KeptRun | None:
        try:
            about = msgspec.json.decode(read_own(self._path(name, _ABOUT), _MOST_ABOUT_BYTES), type=KeptRun)
        except (OSError, ValueError, StoreError, msgspec.MsgspecError):
            return None
        return about if about.name == name else None

    def _limit(self, most: int) -> None:
        """Delete the oldest runs without a name beyond the number and the size that are allowed."""
        total_bytes = 0
        for number, run in enumerate(reversed([run for run in self.runs() if not run.is_named]), 1):
            with contextlib.suppress(OSError):
                total_bytes += self._path(run.name, _DATA).stat().st_size
            if number > most or total_bytes > MOST_BYTES:
                with contextlib.suppress(StoreError):
                    self.delete(run.name)


def automatic_name(run_id: str) -> str:
    """Return a name for a run that has none: when it was made, and a part of its id."""
    return f"run-{time.strftime('%Y%m%d-%H%M%S')}-{_short(run_id)}"


def has_id(name: str, run_id: str) -> bool:
    """Return whether a run that was kept without a name is the run of this id."""
    return name.startswith("run-") and name.endswith(f"-{_short(run_id)}")


def _short(run_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "", run_id)[:6]
