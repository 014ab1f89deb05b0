"""Checks the layout of an Arrow file before anything in it is read: no column can be larger than the bytes it has.

An Arrow file says where its pieces are, how long its columns are and where their texts lie. A reader that believes all
of that reads one piece a thousand times, or one long text for a million rows.

Format: https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format; its headers are flatbuffers.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC = b"ARROW1"
MAX_BLOCKS = 10_000
_TAIL_BYTES = 4 + len(MAGIC)  # the footer's size and the magic again
_BLOCK = struct.Struct("<qi4xq")  # where a message begins, the size of its header, of its body
_PAIR = struct.Struct("<qq")  # of a buffer: where it begins in the body, its size; of a column: its rows, its nulls
_MARKER = 0xFFFFFFFF
_MESSAGE_AT = 8  # after the marker of a message and the size of its header
# Numbers of fields in the tables of the format.
_FOOTER_SCHEMA, _FOOTER_DICTIONARIES, _FOOTER_BATCHES = 1, 2, 3
_SCHEMA_FIELDS = 1
_FIELD_TYPE, _FIELD_DICTIONARY, _FIELD_CHILDREN = 2, 4, 5
_MESSAGE_HEADER = 2
_DICTIONARY_BATCH = 1
_BATCH_ROWS, _BATCH_COLUMNS, _BATCH_BUFFERS, _BATCH_COMPRESSION, _BATCH_PARTS = 0, 1, 2, 3, 4
# Numbers of the types that the columns of a trace have: integers, floats, truth values, and texts as views.
_TEXT = 24
_PLAIN = (2, 3, 6)
# Every frame has a column of 32 bits, and no column takes more than a view and a bit per row.
_LEAST_ROW_BYTES = 4
_VIEW = np.dtype([("size", "<i4"), ("rest", "V12")])
_INLINE_BYTES = 12


class _Table(NamedTuple):
    """A flatbuffer table: fields are found through a list of offsets that it points to."""

    data: bytes
    at: int

    def field(self, slot: int) -> int | None:
        """Return the position of a field, or None if the table does not have it."""
        (back,) = struct.unpack_from("<i", self.data, self.at)
        listed = self.at - back
        (size,) = struct.unpack_from("<H", self.data, listed)
        entry = 4 + 2 * slot
        if entry + 2 > size:
            return None
        (offset,) = struct.unpack_from("<H", self.data, listed + entry)
        return self.at + offset if offset else None

    def number(self, slot: int, form: str) -> int:
        """Return a number, 0 if the table does not have it."""
        at = self.field(slot)
        return 0 if at is None else struct.unpack_from(form, self.data, at)[0]

    def followed(self, slot: int) -> _Table | None:
        """Return the table or list that a field points to."""
        at = self.field(slot)
        return None if at is None else _root(self.data, at)

    def wanted(self, slot: int) -> _Table:
        """Return the table that a field points to."""
        found = self.followed(slot)
        if found is None:
            raise ValueError("a header of the Arrow file is incomplete")
        return found

    def items(self, slot: int, form: struct.Struct) -> list[tuple[int, ...]]:
        """Return a list of structs."""
        listed = self.followed(slot)
        if listed is None:
            return []
        (count,) = struct.unpack_from("<I", self.data, listed.at)
        begin = listed.at + 4
        return list(form.iter_unpack(_slice(self.data, begin, count * form.size)))

    def tables(self, slot: int) -> list[_Table]:
        """Return a list of tables."""
        listed = self.followed(slot)
        if listed is None:
            return []
        (count,) = struct.unpack_from("<I", self.data, listed.at)
        if count > len(self.data) - listed.at:
            raise ValueError("a list of the Arrow file is longer than the file")
        return [_root(self.data, listed.at + 4 + 4 * index) for index in range(count)]


class _Block(NamedTuple):
    """Where a message lies in the file."""

    at: int
    header_bytes: int
    body_bytes: int

    @property
    def end(self) -> int:
        return self.at + self.header_bytes + self.body_bytes


def _root(data: bytes, at: int) -> _Table:
    (offset,) = struct.unpack_from("<I", data, at)
    return _Table(data, at + offset)


def _slice(data: bytes, at: int, size: int) -> bytes:
    if at < 0 or size < 0 or at + size > len(data):
        raise ValueError("a list of the Arrow file is longer than the file")
    return data[at : at + size]


def check_layout(data: bytes) -> None:
    """Raise ``ValueError`` or ``struct.error`` unless the pieces of an Arrow file lie in it, each at its own place.

    Each column must have the bytes that its rows need, and the texts of a dictionary must be bytes of their own.
    Compressed columns, which could unpack to any size, and types that no trace has are refused.
    """
    if not (data.startswith(MAGIC) and data.endswith(MAGIC)):
        raise ValueError("not an Arrow file")
    end = len(data) - _TAIL_BYTES
    (size,) = struct.unpack_from("<i", data, end)
    if not 0 < size <= end - len(MAGIC):
        raise ValueError("the footer does not lie in the Arrow file")
    footer = _root(data, end - size)
    types = _types(footer.wanted(_FOOTER_SCHEMA))
    dictionaries, batches = _blocks(footer, end - size)
    for block in dictionaries:
        _check_batch(data, block, _header(data, block).wanted(_DICTIONARY_BATCH), (_TEXT,), are_distinct=True)
    for block in batches:
        _check_batch(data, block, _header(data, block), types, are_distinct=False)


def _types(schema: _Table) -> tuple[int, ...]:
    return tuple(_type(field) for field in schema.tables(_SCHEMA_FIELDS))


def _type(field: _Table) -> int:
    """Return the type of the column itself; one with a dictionary holds numbers."""
    kind = field.number(_FIELD_TYPE, "<B")
    if kind not in (*_PLAIN, _TEXT) or field.tables(_FIELD_CHILDREN):
        raise ValueError("unexpected columns")
    return _PLAIN[0] if field.field(_FIELD_DICTIONARY) is not None else kind


def _blocks(footer: _Table, end: int) -> tuple[list[_Block], list[_Block]]:
    """Return where the dictionaries and batches lie: within the file, and none on top of another."""
    dictionaries, batches = (
        [_Block(*item) for item in footer.items(slot, _BLOCK)] for slot in (_FOOTER_DICTIONARIES, _FOOTER_BATCHES)
    )
    if len(dictionaries) + len(batches) > MAX_BLOCKS:
        raise ValueError("far more pieces than any saved run has")
    free = len(MAGIC)
    for block in sorted([*dictionaries, *batches]):
        if block.at < free or block.header_bytes < _MESSAGE_AT or block.body_bytes < 0 or block.end > end:
            raise ValueError("pieces of the Arrow file overlap, or lie outside of it")
        free = block.end
    return dictionaries, batches


def _header(data: bytes, block: _Block) -> _Table:
    marker, size = struct.unpack_from("<Ii", data, block.at)
    if marker != _MARKER or not 0 < size <= block.header_bytes - _MESSAGE_AT:
        raise ValueError("a piece of the Arrow file has no header")
    return _root(data, block.at + _MESSAGE_AT).wanted(_MESSAGE_HEADER)


def _check_batch(data: bytes, block: _Block, batch: _Table, types: tuple[int, ...], *, are_distinct: bool) -> None:
    if batch.field(_BATCH_COMPRESSION) is not None:
        raise ValueError("the columns are compressed twice")
    rows = batch.number(_BATCH_ROWS, "<q")
    if not 0 <= rows * _LEAST_ROW_BYTES <= block.body_bytes:
        raise ValueError("more rows than the Arrow file has bytes for")
    columns = batch.items(_BATCH_COLUMNS, _PAIR)
    if len(columns) != len(types) or any(length != rows for length, _ in columns):
        raise ValueError("the columns of the Arrow file differ in length")
    buffers = iter(_buffers(batch, block))
    parts = iter(count for (count,) in batch.items(_BATCH_PARTS, struct.Struct("<q")))
    for kind in types:
        next(buffers, None)  # which rows are null
        at, size = next(buffers, (0, 0))
        if kind == _TEXT:
            texts_bytes = sum(next(buffers, (0, 0))[1] for _ in _counted(next(parts, 0), data))
            _check_texts(_slice(data, at, size), rows, texts_bytes if are_distinct else None)


def _counted(count: int, data: bytes) -> range:
    if not 0 <= count <= len(data):
        raise ValueError("more texts than the Arrow file has bytes for")
    return range(count)


def _buffers(batch: _Table, block: _Block) -> Iterator[tuple[int, int]]:
    """Yield where each buffer begins in the file, and its size: in the body of the piece, one after the other."""
    begin, free = block.at + block.header_bytes, 0
    for at, size in batch.items(_BATCH_BUFFERS, _PAIR):
        if size < 0 or at < free or at + size > block.body_bytes:
            raise ValueError("columns of the Arrow file overlap, or lie outside of it")
        free = at + size
        yield begin + at, size


def _check_texts(views: bytes, rows: int, texts_bytes: int | None) -> None:
    """Refuse texts that share their bytes; in a column (``None``) they may, and are bounded by their length later."""
    if len(views) < rows * _VIEW.itemsize:
        raise ValueError("more texts than the Arrow file has bytes for")
    sizes = np.frombuffer(views, _VIEW, count=rows)["size"]
    if (sizes < 0).any():
        raise ValueError("a text of the Arrow file has no valid length")
    if texts_bytes is not None and int(sizes[sizes > _INLINE_BYTES].sum(dtype=np.int64)) > texts_bytes:
        raise ValueError("texts of the Arrow file share their bytes")
