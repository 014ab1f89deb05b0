"""Reads a saved run: a zip of Arrow files, trusted no more than any other file."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from torchprof_magic.ingest.regular import open_regular
from torchprof_magic.ingest.saved.arrow import check_layout
from torchprof_magic.ingest.saved.bounds import first_flaw
from torchprof_magic.model.errors import IngestError
from torchprof_magic.model.meta import Meta, Problem  # noqa: TC001 - msgspec reads the types of _Head
from torchprof_magic.model.problems import problem
from torchprof_magic.model.trace import (
    ADDED_COLUMNS,
    ADDED_FRAMES,
    FRAME_SCHEMAS,
    MAX_SUM,
    SAVED_HEAD,
    SAVED_VERSION,
    Trace,
)
from torchprof_magic.model.units import format_count

if TYPE_CHECKING:
    import os

_ZIP_MAGIC = b"PK\x03\x04"
_NAME_AT = 30  # offset of the name of the first entry of a zip file
# Saved runs compress to a tenth or a twentieth, and to a fortieth if events repeat exactly. A file that declares a
# higher ratio is an attempt to exhaust memory.
MAX_RATIO = 60
RATIO_FREE_BYTES = 64 << 20
MAX_HEAD_BYTES = 32 << 20
_PIECE_BYTES = 1 << 20
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


class _Told(msgspec.Struct):
    """What a file says that it is. Whatever else is in it is not kept in memory, so it may be anything."""

    format: Any
    version: Any


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
        with open_regular(file) as opened_file:
            beginning = opened_file.read(_NAME_AT + len(SAVED_HEAD)) or b""
        if not beginning.startswith(_ZIP_MAGIC):
            return False
        if beginning[_NAME_AT:] == SAVED_HEAD.encode():
            return True
        with _InPieces(file) as opened, zipfile.ZipFile(opened) as archive:
            return SAVED_HEAD in archive.namelist()
    except (*_DAMAGE, IngestError):
        return False


def read_saved(path: str | os.PathLike[str]) -> Trace:
    """Return the trace in a saved run, exactly as it was written; that of a newer version as far as it is known here.

    Raises ``IngestError`` if the file is damaged, malicious, or of a newer version of which too little is known.
    """
    try:
        with _InPieces(path) as opened, zipfile.ZipFile(opened) as archive:
            _check_sizes(archive, Path(path).stat().st_size)
            head = _read_head(archive)
            is_newer = head.version > SAVED_VERSION
            frames, notes = _read_newer(archive, head) if is_newer else (_read_frames(archive, head), ())
    except _DAMAGE as exc:
        raise IngestError(f"the saved run is damaged or cut off ({exc}); copy it or save it again") from exc
    flaw = first_flaw(frames)
    if flaw and is_newer:
        raise _too_new(head.version, flaw)
    if flaw:
        raise IngestError(f"the saved run is damaged ({flaw}); save it again")
    return Trace(**frames, meta=head.meta, problems=(*head.problems, *notes))


def _too_new(version: int, why: str) -> IngestError:
    return IngestError(
        f"the run was saved by a newer torchprof-magic (format {version}, this one knows {SAVED_VERSION}: {why}); "
        "update with `pip install -U torchprof-magic`"
    )


def _read_newer(archive: zipfile.ZipFile, head: _Head) -> tuple[dict[str, pl.DataFrame], tuple[Problem, ...]]:
    """Return the frames of a newer version with the columns that are known here, and a note of what is not read."""
    names = {name.removesuffix(".arrow") for name in archive.namelist() if name.endswith(".arrow")}
    left_out = len(names - set(FRAME_SCHEMAS))
    frames = {}
    for name, schema in FRAME_SCHEMAS.items():
        if name not in names:
            frames[name] = pl.DataFrame(schema=schema)
            continue
        try:
            frames[name], unknown = _known_columns(name, _entry(archive, f"{name}.arrow"))
        except (IngestError, pl.exceptions.PolarsError) as exc:
            raise _too_new(head.version, str(exc).partition(";")[0]) from exc
        left_out += unknown
    return frames, (problem("file.newer_run", version=head.version, known=SAVED_VERSION, left_out=left_out),)


def _known_columns(name: str, data: bytes) -> tuple[pl.DataFrame, int]:
    """Return a frame with exactly the columns of this version, and how many others it has.

    Columns that it lacks are null, and so are values that their type cannot hold here.
    """
    try:
        check_layout(data)
        found = pl.read_ipc(io.BytesIO(data))
    except (ValueError, struct.error, pl.exceptions.PanicException) as exc:
        raise IngestError(f"the {name} of the saved run are damaged ({exc})") from exc
    schema = FRAME_SCHEMAS[name]
    columns = [
        found[column].cast(dtype, strict=False)
        if column in found.columns
        else pl.Series(column, [None], dtype=dtype).new_from_index(0, found.height)
        for column, dtype in schema.items()
    ]
    return pl.DataFrame(columns), len(set(found.columns) - set(schema))


def _read_frames(archive: zipfile.ZipFile, head: _Head) -> dict[str, pl.DataFrame]:
    """Return all frames; those that the version of the file lacks are empty."""
    try:
        return {
            name: read_frame(name, _entry(archive, f"{name}.arrow"), head.version)
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


class _InPieces(io.FileIO):
    """A file of which no part is read that is larger than a saved run needs at once; its list of entries can be."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read a part of the file; raises ``ValueError`` for a large one."""
        if size is not None and size > _PIECE_BYTES:
            raise ValueError("its list of entries is longer than that of any saved run")
        return super().read(size)


def _entry(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return an entry. ``archive.read`` would unpack all of it at once, however few bytes it says that it has."""
    data = bytearray()
    with archive.open(name) as entry:
        while piece := entry.read(_PIECE_BYTES):
            data += piece
    return bytes(data)


def _check_sizes(archive: zipfile.ZipFile, packed_bytes: int) -> None:
    unpacked_bytes = sum(info.file_size for info in archive.infolist())
    if unpacked_bytes > max(RATIO_FREE_BYTES, MAX_RATIO * packed_bytes):
        raise IngestError("the saved run would expand far more than any real run, so it was not opened")
    if any(info.compress_type not in _COMPRESSIONS for info in archive.infolist()):
        raise IngestError("the saved run is packed in a way that torchprof-magic does not use; save it again")


def _read_head(archive: zipfile.ZipFile) -> _Head:
    if archive.getinfo(SAVED_HEAD).file_size > MAX_HEAD_BYTES:
        raise IngestError(f"{SAVED_HEAD} in the saved run is too large, so the run was not opened")
    text = _entry(archive, SAVED_HEAD)
    try:
        told = msgspec.json.decode(text, type=_Told)
        _check_version(told.version if told.format == "torchprof" else None)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise IngestError(f"{SAVED_HEAD} in the saved run is not valid ({exc}); save the run again") from exc
    try:
        head = msgspec.json.decode(text, type=_Head)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        if told.version > SAVED_VERSION:
            raise _too_new(told.version, f"{SAVED_HEAD} is not as expected: {exc}") from exc
        raise IngestError(f"{SAVED_HEAD} in the saved run is not valid ({exc}); save the run again") from exc
    _check_values(head)
    return head


def _check_version(version: object) -> None:
    if not isinstance(version, int) or version < 1:
        raise IngestError(f"{SAVED_HEAD} in the saved run has no version; save the run again")


def _check_values(head: _Head) -> None:
    """Refuse lists and numbers beyond anything that is saved. Texts are shortened by ``Meta`` and ``Problem``."""
    if len(head.problems) > MAX_PROBLEMS:
        raise IngestError(
            f"the saved run has more than {format_count(MAX_PROBLEMS)} notes, unlike any real run; save it again"
        )
    values: list[object] = [head.meta, *head.problems]
    while values:
        value = values.pop()
        if is_dataclass(value):
            values += (getattr(value, field.name) for field in fields(value))
        elif isinstance(value, tuple) and len(value) <= MAX_ITEMS:
            values += value
        elif isinstance(value, tuple) or (isinstance(value, int) and not -MAX_SUM <= value <= MAX_SUM):
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
