"""The bytes of a file that is written only to be read."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from torchprof_magic.model.errors import ExportError

if TYPE_CHECKING:
    from collections.abc import Callable


def written_bytes(write: Callable[[Path], Path], name: str) -> bytes:
    """Return what ``write`` writes to a temporary file of this name. Raises ``TorchProfError``."""
    try:
        with tempfile.TemporaryDirectory(prefix="torchprof-") as folder:
            return write(Path(folder) / name).read_bytes()
    except OSError as exc:
        reason = exc.strerror or exc
        raise ExportError(f"a temporary file could not be written ({reason}); free some space, or set TMPDIR") from exc
