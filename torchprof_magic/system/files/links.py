"""Links on the way to a file that is about to be written.

In a folder that anyone can write to, such as ``/tmp``, a link of another user may lead to a file of this one. Many
systems refuse to follow it, but not all do, and not in every such folder.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

MOST_LINKS = 40  # as Linux


def is_own(found: os.stat_result) -> bool:
    """Return whether this user owns the file, where the system says so."""
    return sys.platform == "win32" or found.st_uid == os.geteuid()


def follow(path: Path) -> Path:
    """Return the path with every link resolved. Raises ``OSError`` for a link that must not be followed."""
    if sys.platform == "win32":
        return Path(os.path.realpath(path))
    whole = Path.cwd() / path
    here, rest, count = Path(whole.anchor), [*reversed(whole.parts[1:])], 0
    while rest:
        part = rest.pop()
        step = here.parent if part == ".." else here / part
        target = _target_of(step, here)
        if target is None:
            here = step
            continue
        count += 1
        if count > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        here = Path(target.anchor) if target.is_absolute() else here
        rest += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return here


def _target_of(path: Path, folder: Path) -> Path | None:
    """Return what a link points to, or ``None`` for what is no link or does not exist."""
    try:
        found = os.lstat(path)
        target = Path(os.readlink(path)) if stat.S_ISLNK(found.st_mode) else None  # noqa: PTH115 - as lstat
    except (OSError, ValueError):
        return None
    if target is not None and not is_own(found) and _is_open_to_all(folder):
        raise PermissionError(
            errno.EPERM, f"{path} is a link of another user in a folder that anyone can write to", str(path)
        )
    return target


def _is_open_to_all(folder: Path) -> bool:
    return bool(os.stat(folder).st_mode & (stat.S_IWOTH | stat.S_ISVTX))  # noqa: PTH116 - as lstat
