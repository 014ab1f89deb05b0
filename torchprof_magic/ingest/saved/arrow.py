"""Checks whether an Arrow file is compressed, and could therefore unpack to any size.

Format: https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format; its headers are flatbuffers.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC = b"ARROW1"
_TAIL_BYTES = 4 + len(MAGIC)  # the footer's size and the magic again
_BLOCK = struct.Struct("<qi4xq")  # where a message begins, the size of its header, of its body
_MESSAGE_AT = 8  # after the marker of a message and the size of its header
# Numbers of fields in the tables of the format.
_FOOTER_DICTIONARIES, _FOOTER_BATCHES = 2, 3
_MESSAGE_HEADER = 2
_DICTIONARY_BATCH = 1
_BATCH_COMPRESSION = 3


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

    def followed(self, slot: int) -> _Table | None:
        """Return the table or list that a field points to."""
        at = self.field(slot)
        return None if at is None else _root(self.data, at)


def _root(data: bytes, at: int) -> _Table:
    (offset,) = struct.unpack_from("<I", data, at)
    return _Table(data, at + offset)


def is_compressed(data: bytes) -> bool:
    """Return whether any column of an Arrow file is compressed; raise ``ValueError`` if this is not an Arrow file."""
    if not (data.startswith(MAGIC) and data.endswith(MAGIC)):
        raise ValueError("not an Arrow file")
    (size,) = struct.unpack_from("<i", data, len(data) - _TAIL_BYTES)
    footer = _root(data, len(data) - _TAIL_BYTES - size)
    return any(_is_packed(_root(data, at + _MESSAGE_AT), slot) for slot, at in _messages(footer))


def _messages(footer: _Table) -> Iterator[tuple[int, int]]:
    for slot in (_FOOTER_DICTIONARIES, _FOOTER_BATCHES):
        blocks = footer.followed(slot)
        if blocks is None:
            continue
        (count,) = struct.unpack_from("<I", blocks.data, blocks.at)
        for index in range(count):
            at, _, _ = _BLOCK.unpack_from(blocks.data, blocks.at + 4 + index * _BLOCK.size)
            yield slot, at


def _is_packed(message: _Table, slot: int) -> bool:
    batch = message.followed(_MESSAGE_HEADER)
    if batch is not None and slot == _FOOTER_DICTIONARIES:
        batch = batch.followed(_DICTIONARY_BATCH)
    return batch is not None and batch.field(_BATCH_COMPRESSION) is not None
