"""Where the store keeps its records of a folder of traces: the list of them, its lock, and unfinished uploads.

They are in a folder of the user's own, not among the traces: TensorBoard, fsspec and other programs that list the
folder of traces find only traces there.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import tempfile
from pathlib import Path

from torchprof_magic.system.files.links import is_own

STATE_VARIABLE = "TORCHPROF_STATE_DIR"
_KEY_DIGITS = 16
_MOST_NAME_CHARS = 40


def records_of(folder: Path) -> Path:
    """Return the folder of the records of a folder of traces, whether it exists or not."""
    real = os.path.realpath(folder)
    key = hashlib.sha256(os.fsencode(real)).hexdigest()[:_KEY_DIGITS]
    name = "".join(char if char.isascii() and char.isalnum() else "_" for char in os.path.basename(real))  # noqa: PTH119
    return _state_folder() / f"{name[:_MOST_NAME_CHARS]}-{key}"


def make_records(folder: Path) -> Path:
    """Create the folder of the records, for this user alone, and return it; raises ``OSError``."""
    records = records_of(folder)
    os.makedirs(records, mode=0o700, exist_ok=True)  # noqa: PTH103 - the tests make each call of ``os`` fail
    if not is_own(os.lstat(records)):
        raise PermissionError(errno.EPERM, "it belongs to another user", str(records))
    return records


def _state_folder() -> Path:
    """Return the folder for state that the user named, the usual one, or one for temporary files if that is lost."""
    if named := os.environ.get(STATE_VARIABLE):
        return Path(named).expanduser().absolute()
    usual = _usual_folder()
    if usual is not None and _can_be_made(usual):
        return usual
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return Path(tempfile.gettempdir()) / f".torchprof-state-{user}"


def _usual_folder() -> Path | None:
    """Return the folder in which programs of this system keep their state, ``None`` without a home directory."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(home / "Library" / "Application Support")
    else:
        base = os.environ.get("XDG_STATE_HOME") or str(home / ".local" / "state")
    return Path(base) / "torchprof-magic" if os.path.isabs(base) else None  # noqa: PTH117


def _can_be_made(folder: Path) -> bool:
    there = next((path for path in (folder, *folder.parents) if path.exists()), None)
    return there is not None and there.is_dir() and os.access(there, os.W_OK | os.X_OK)
