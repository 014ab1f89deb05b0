"""Reads a saved run: a zip of Arrow files, trusted no more than any other file."""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from torchprof_magic.errors import IngestError
from torchprof_magic.ingest.saved.arrow import check_layout
from torchprof_magic.ingest.saved.bounds import first_flaw
from torchprof_magic.model.meta import Meta, Problem  # noqa: TC001 - msgspec reads the types of _Head
from torchprof_magic.model.trace import (
    ADDED_COLUMNS,
    ADDED_FRAMES,
    FRAME_SCHEMAS,
    MAX_SUM,
    SAVED_HEAD,
    SAVED_VERSION,
    Trace,
)

if TYPE_CHECKING:
    import os

_ZIP_MAGIC = b"PK\x03\x04"
_NAME_AT = 30  # offset of the name of the first entry of a zip file
# Saved runs compress to a tenth or a twentieth. A file that declares a higher ratio is an attempt to exhaust memory.
MAX_RATIO = 200
RATIO_FREE_BYTES = 256 << 20
MAX_HEAD_BYTES = 64 << 20
MAX_ITEMS = 1_000_000  # steps of a run, for example
MAX_PROBLEMS = 1_000
_DAMAGE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    KeyError,
    ValueError,
    OverflowError,  # a place in the file beyond 2**63
    RuntimeError,  # an encrypted entry; and, as a subclass, a compression that zipfile does not know
    AttributeError,  # of an entry without a name, or of a compression that this Python was built without
    TypeError,
)
# What a version of polars begins with; any text may stand in the file.
_RELEASE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6}){0,5}")
# The only ones in use. Others unpack to thousands of times their size, and raise errors of their own.
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class _Head(msgspec.Struct, kw_only=True):
    """The part of a saved run that is not a data frame."""

    version: int
    meta: Meta
    problems: tuple[Problem, ...]
    polars: str = ""  # the version that wrote the frames; empty in files of the first versions


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
            frames = _read_frames(archive, head)
    except _DAMAGE as exc:
        raise IngestError(f"the saved run is damaged or cut off ({exc}); copy it or save it again") from exc
    flaw = first_flaw(frames)
    if flaw:
        raise IngestError(f"the saved run is damaged ({flaw}); save it again")
    return Trace(**frames, meta=head.meta, problems=head.problems)


def _read_frames(archive: zipfile.ZipFile, head: _Head) -> dict[str, pl.DataFrame]:
    """Return all frames; those that the version of the file lacks are empty."""
    try:
        return {
            name: read_frame(name, archive.read(f"{name}.arrow"), head.version)
            if head.version >= ADDED_FRAMES.get(name, 1)
            else pl.DataFrame(schema=schema)
            for name, schema in FRAME_SCHEMAS.items()
        }
    except IngestError as exc:
        written_by, read_by = _release(head.polars), _release(pl.__version__)
        if written_by <= read_by:
            raise
        written, read = (".".join(map(str, release)) for release in (written_by, read_by))
        flaw, _, _ = str(exc).partition(";")
        raise IngestError(
            f"the run was saved with polars {written}, which polars {read} here cannot read ({flaw}); "
            "update with `pip install -U polars`"
        ) from exc


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with: (2, 1, 0) for ``2.1.0rc1``; none if it is no version."""
    found = _RELEASE.match(version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _check_sizes(archive: zipfile.ZipFile, packed_bytes: int) -> None:
    unpacked_bytes = sum(info.file_size for info in archive.infolist())
    if unpacked_bytes > max(RATIO_FREE_BYTES, MAX_RATIO * packed_bytes):
        raise IngestError("the saved run would expand far more than any real run, so it was not opened")
    if any(info.compress_type not in _COMPRESSIONS for info in archive.infolist()):
        raise IngestError("the saved run is packed in a way that torchprof-magic does not use; save it again")


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
    _check_values(head)
    try:
        return msgspec.convert(head, _Head)
    except (msgspec.ValidationError, RecursionError) as exc:
        raise IngestError(f"{SAVED_HEAD} in the saved run is not valid ({exc}); save it again") from exc


def _check_values(head: dict[str, Any]) -> None:
    """Refuse lists and numbers beyond anything that is saved. Texts are shortened by ``Meta`` and ``Problem``."""
    if isinstance(head.get("problems"), list) and len(head["problems"]) > MAX_PROBLEMS:
        raise IngestError(f"the saved run has more than {MAX_PROBLEMS:,} notes, unlike any real run; save it again")
    values: list[object] = [head]
    while values:
        value = values.pop()
        if isinstance(value, dict):
            values += value.values()
        elif isinstance(value, list) and len(value) <= MAX_ITEMS:
            values += value
        elif isinstance(value, list) or (isinstance(value, int) and not -MAX_SUM <= value <= MAX_SUM):
            raise IngestError(f"{SAVED_HEAD} in the saved run holds impossible values; save it again")


def read_frame(name: str, data: bytes, version: int = SAVED_VERSION) -> pl.DataFrame:
    """Return a frame of a trace from its Arrow file; raise ``IngestError`` unless it has exactly its columns.

    Columns that the version of the file lacks are null.
    """
    whole = pl.Schema(FRAME_SCHEMAS[name])
    added = [column for column in whole if ADDED_COLUMNS.get((name, column), 1) > version]
    schema = pl.Schema({column: dtype for column, dtype in whole.items() if column not in added})
    try:
        check_layout(data)
        found = pl.read_ipc_schema(io.BytesIO(data))
        if found == schema:
            frame = pl.read_ipc(io.BytesIO(data))
            return frame.with_columns(pl.lit(None, whole[column]).alias(column) for column in added).select(list(whole))
    except (ValueError, struct.error, pl.exceptions.PolarsError, pl.exceptions.PanicException) as exc:
        raise IngestError(f"the {name} of the saved run are damaged ({exc}); save it again") from exc
    odd = sorted(set(found.items()) ^ set(schema.items()), key=str)[:1]
    raise IngestError(f"the {name} of the saved run have unexpected columns ({odd}); save it again")
