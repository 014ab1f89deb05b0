"""The id that the store writes into each trace, by which it recognizes its own files before it deletes one.

It is the first entry of the JSON object, so a few bytes tell, packed or not. Other programs ignore the entry.
"""

from __future__ import annotations

import os
import re
import secrets
import zlib

from torchprof_magic.model.meta import STORE_KEY

ID_BYTES = 8
_HEAD_BYTES = 4096  # of a file; far more than a packed head takes
_GZIP = 31
_OBJECT = re.compile(rb'\s*{(?=\s*")')  # with at least one entry, so that a comma may follow the mark


def new_id() -> str:
    """Return an id for one trace."""
    return secrets.token_hex(ID_BYTES)


def marked(head: bytes, store_id: str) -> bytes:
    """Return the first block of a trace with the id in it, or as it is when it does not begin a JSON object."""
    found = _OBJECT.match(head)
    return head[: found.end()] + _entry(store_id) + b"," + head[found.end() :] if found and store_id else head


def has_mark(handle: int, store_id: str) -> bool:
    """Return whether an open file begins with the id. Raises ``OSError``."""
    os.lseek(handle, 0, os.SEEK_SET)
    head = os.read(handle, _HEAD_BYTES)
    try:
        text = zlib.decompressobj(_GZIP).decompress(head, _HEAD_BYTES) if head[:2] == b"\x1f\x8b" else head
    except zlib.error:
        return False
    found = _OBJECT.match(text)
    return bool(store_id) and found is not None and text.startswith(_entry(store_id), found.end())


def _entry(store_id: str) -> bytes:
    return f'"{STORE_KEY}": "{store_id}"'.encode()
