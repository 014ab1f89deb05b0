"""Free space on the disk of a folder."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def free_bytes(folder: Path) -> int | None:
    """Return the free space for this user in bytes, or ``None`` when it is unknown."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
