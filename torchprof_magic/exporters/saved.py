"""Writes a recording to one compact file that reads back exactly.

The file is a zip of ``torchprof.json`` with version, metadata and problems, and of an Arrow file for each frame. The
Arrow files themselves are not compressed, so the sizes declared in the zip bound the memory needed to read it.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import asdict
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.model.trace import FRAME_SCHEMAS, SAVED_HEAD, SAVED_VERSION
from torchprof_magic.system.files.atomic import exporting

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.model.trace import Trace

_LEVEL = 3  # of zlib; level 6 takes three times as long and saves a tenth
_DATE = (1980, 1, 1, 0, 0, 0)  # so that equal recordings are equal files


def write_saved(trace: Trace, path: Path, *, level: int = _LEVEL) -> Path:
    """Write the whole trace with its meta and problems, and return the path; ``load`` returns exactly the same.

    ``level`` is that of zlib; with 0, nothing is compressed.
    """
    head = {
        "format": "torchprof",
        "version": SAVED_VERSION,
        "polars": pl.__version__,
        "meta": asdict(trace.meta),
        "problems": [asdict(problem) for problem in trace.problems],
    }
    with exporting(path) as file, zipfile.ZipFile(file, "w") as archive:
        _add(archive, SAVED_HEAD, json.dumps(head).encode(), level)
        for name in FRAME_SCHEMAS:
            buffer = io.BytesIO()
            getattr(trace, name).write_ipc(buffer, compression="uncompressed")
            _add(archive, f"{name}.arrow", buffer.getvalue(), level)
    return path


def _add(archive: zipfile.ZipFile, name: str, data: bytes, level: int) -> None:
    info = zipfile.ZipInfo(name, _DATE)
    archive.writestr(info, data, zipfile.ZIP_DEFLATED if level else zipfile.ZIP_STORED, level)
