"""What goes between a kernel and the process that makes its early reports: bytes with their length before them."""

from __future__ import annotations

from array import array
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import msgspec

from torchprof_magic.model.meta import CellSource  # noqa: TC001 - msgspec reads the types of what is sent
from torchprof_magic.model.recording import Recording  # noqa: TC001 - the same

# The argument with which the process works only while a core has nothing else to do.
GIVE_WAY = "--give-way"
_LENGTH_BYTES = 8


class Asked(msgspec.Struct, kw_only=True, frozen=True):
    """A request for the page of a recording. ``known_ops`` are those that the process had called before."""

    recording: Recording
    title: str
    cell: CellSource | None
    cell_labels: tuple[tuple[str, str], ...]
    known_ops: frozenset[str]
    run_id: str


class Made(msgspec.Struct, kw_only=True, frozen=True):
    """A page that needs nothing of the kernel: its header as JSON, and its columns; or why there is none."""

    header: str = ""
    data: bytes = b""
    error: str = ""


def write(target: IO[bytes], message: Asked | Made) -> None:
    """Write a message; raises ``OSError`` if nobody reads it any more."""
    if isinstance(message, Asked):
        message = msgspec.structs.replace(message, recording=replace(message.recording, schedule=None))
    packed = msgspec.msgpack.encode(message, enc_hook=_plain)
    target.write(len(packed).to_bytes(_LENGTH_BYTES, "little") + packed)
    target.flush()


def read(source: IO[bytes]) -> bytes | None:
    """Return the next message, or ``None`` if there is no more."""
    length = source.read(_LENGTH_BYTES)
    if len(length) < _LENGTH_BYTES:
        return None
    size_bytes = int.from_bytes(length, "little")
    packed = source.read(size_bytes)
    return packed if len(packed) == size_bytes else None


def asked_of(packed: bytes) -> Asked:
    """Return the request in a message."""
    return msgspec.msgpack.decode(packed, type=Asked, dec_hook=_own)


def made_of(packed: bytes) -> Made:
    """Return the page in a message."""
    return msgspec.msgpack.decode(packed, type=Made)


def _plain(value: object) -> object:
    """Return a value that msgspec does not know as one that it does. msgspec expects this error for everything else."""
    if isinstance(value, array):
        return value.tobytes()
    if isinstance(value, (Path, str)):  # torch's version is a kind of text of its own
        return str(value)
    raise NotImplementedError(type(value).__name__)


def _own(kind: Any, value: Any) -> object:
    """Return the value that ``_plain`` was given."""
    if isinstance(kind, type) and issubclass(kind, Path):
        return Path(value)
    numbers = array("q")
    numbers.frombytes(value)
    return numbers
