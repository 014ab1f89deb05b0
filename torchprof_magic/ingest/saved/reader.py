"""Reads a saved run: a zip of Arrow files, trusted no more than any other file."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from torchprof_magic.errors import IngestError
from torchprof_magic.ingest.saved.arrow import check_layout
from torchprof_magic.model.meta import Meta, Problem  # noqa: TC001 - msgspec reads the types of _Head
from torchprof_magic.model.trace import FRAME_SCHEMAS, SAVED_HEAD, SAVED_VERSION, Trace

if TYPE_CHECKING:
    import os

_ZIP_MAGIC = b"PK\x03\x04"
_NAME_AT = 30  # offset of the name of the first entry of a zip file
# Saved runs compress to a tenth or a twentieth. A file that declares a higher ratio is an attempt to exhaust memory.
MAX_RATIO = 200
RATIO_FREE_BYTES = 256 << 20
MAX_HEAD_BYTES = 64 << 20
_DAMAGE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    KeyError,
    ValueError,
    RuntimeError,  # an encrypted entry
    NotImplementedError,  # a compression that zipfile does not know
)


class _Head(msgspec.Struct, kw_only=True):
    """The part of a saved run that is not a data frame."""

    meta: Meta
    problems: tuple[Problem, ...]


def is_saved(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a saved run, complete or damaged, by its content."""
    file = Path(path)
    try:
        if not file.is_file():
            return False
        with file.open("rb") as opened:
            beginning = opened.read(_NAME_AT + len(SAVED_HEAD))
        if not beginning.startswith(_ZIP_MAGIC):
            return False
        if beginning[_NAME_AT:] == SAVED_HEAD.encode():
            return True
        with zipfile.ZipFile(file) as archive:
            return SAVED_HEAD in archive.namelist()
    except _DAMAGE:
        return False


def read_saved(path: str | os.PathLike[str]) -> Trace:
    """Return the trace in a saved run, exactly as it was written.

    Raises ``IngestError`` if the file is damaged, written by a newer version, or malicious.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check_sizes(archive, Path(path).stat().st_size)
            head = _read_head(archive)
            frames = {name: read_frame(name, archive.read(f"{name}.arrow")) for name in FRAME_SCHEMAS}
    except _DAMAGE as exc:
        raise IngestError(f"the saved run is damaged or cut off ({exc}); copy it or save it again") from exc
    _check_references(frames)
    return Trace(**frames, meta=head.meta, problems=head.problems)


def _check_sizes(archive: zipfile.ZipFile, packed_bytes: int) -> None:
    unpacked_bytes = sum(info.file_size for info in archive.infolist())
    if unpacked_bytes > max(RATIO_FREE_BYTES, MAX_RATIO * packed_bytes):
        raise IngestError("the saved run would expand far more than any real run, so it was not opened")


def _read_head(archive: zipfile.ZipFile) -> _Head:
    if archive.getinfo(SAVED_HEAD).file_size > MAX_HEAD_BYTES:
        raise IngestError(f"{SAVED_HEAD} in the saved run is too large, so the run was not opened")
    try:
        head: Any = json.loads(archive.read(SAVED_HEAD))
        version = head["version"] if head["format"] == "torchprof" else None
    except (TypeError, RecursionError) as exc:
        raise IngestError(f"{SAVED_HEAD} in the saved run is not valid; save the run again") from exc
    if not isinstance(version, int) or version < 1:
        raise IngestError(f"{SAVED_HEAD} in the saved run has no version; save the run again")
    if version > SAVED_VERSION:
        raise IngestError(
            f"the run was saved by a newer torchprof-magic (format {version}, this one reads up to {SAVED_VERSION}); "
            "update with `pip install -U torchprof-magic`"
        )
    try:
        return msgspec.convert(head, _Head)
    except (msgspec.ValidationError, RecursionError) as exc:
        raise IngestError(f"{SAVED_HEAD} in the saved run is not valid ({exc}); save it again") from exc


def read_frame(name: str, data: bytes) -> pl.DataFrame:
    """Return a frame of a trace from its Arrow file; raise ``IngestError`` unless it has exactly its columns."""
    schema = pl.Schema(FRAME_SCHEMAS[name])
    try:
        check_layout(data)
        found = pl.read_ipc_schema(io.BytesIO(data))
        if found == schema:
            return pl.read_ipc(io.BytesIO(data))
    except (ValueError, struct.error, pl.exceptions.PolarsError, pl.exceptions.PanicException) as exc:
        raise IngestError(f"the {name} of the saved run are damaged ({exc}); save it again") from exc
    odd = sorted(set(found.items()) ^ set(schema.items()), key=str)[:1]
    raise IngestError(f"the {name} of the saved run have unexpected columns ({odd}); save it again")


def _check_references(frames: dict[str, pl.DataFrame]) -> None:
    """Raise unless all row numbers exist, and parents come before their children."""
    events, rows = frames["events"], pl.int_range(pl.len())
    heights = {name: frame.height for name, frame in frames.items()}
    within = {
        "lane": events["lane"].is_between(0, heights["lanes"] - 1),
        "parent": events.select((pl.col("parent") >= -1) & (pl.col("parent") < rows)).to_series(),
        "stack": events["stack"].is_between(0, heights["stacks"] - 1).fill_null(value=True),
        "start": events["start_ns"].is_not_null() & (events["dur_ns"] >= 0),
        "source": frames["flows"]["source"].is_between(0, heights["events"] - 1),
        "target": frames["flows"]["target"].is_between(0, heights["events"] - 1),
        "event": frames["memory"]["event"].is_between(-1, heights["events"] - 1),
        "caller": frames["stacks"].select((pl.col("parent") >= -1) & (pl.col("parent") < rows)).to_series(),
    }
    for name, is_right in within.items():
        if not is_right.fill_null(value=False).all():
            raise IngestError(f"the saved run is damaged (invalid {name}); save it again")
