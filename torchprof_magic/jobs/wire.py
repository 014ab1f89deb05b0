"""The frames of a rank as bytes, the only thing that goes from a worker to the process that joins them."""

from __future__ import annotations

import io
from typing import TypedDict

import polars as pl

from torchprof_magic.findings.ranks.frames import (
    COLLECTIVES_SCHEMA,
    DOINGS_SCHEMA,
    PROBLEMS_SCHEMA,
    RANK_SCHEMA,
    SPANS_SCHEMA,
    RankFrames,
)
from torchprof_magic.model.meta import encodable

WIRE_VERSION = 4
_SCHEMAS = {
    "summary": RANK_SCHEMA,
    "collectives": COLLECTIVES_SCHEMA,
    "doings": DOINGS_SCHEMA,
    "spans": SPANS_SCHEMA,
    "problems": PROBLEMS_SCHEMA,
}


class Sent(TypedDict):
    """What a worker sends of one file: its frames as Arrow streams, or why it cannot be read.

    ``file`` is its name for people, without credentials.
    """

    version: int
    source: str
    file: str
    error: str
    frames: dict[str, bytes]


def packed(source: str, file: str, frames: RankFrames) -> Sent:
    """Return the frames of a rank as bytes."""
    data = {name: _stream(getattr(frames, name)) for name in _SCHEMAS}
    return Sent(version=WIRE_VERSION, source=source, file=encodable(file), error="", frames=data)


def failed(source: str, file: str, error: str) -> Sent:
    """Return why a file cannot be read, as text: exceptions do not cross all engines alike."""
    return Sent(version=WIRE_VERSION, source=source, file=encodable(file), error=encodable(error), frames={})


def unpacked(sent: Sent) -> RankFrames:
    """Return the frames; raises ``ValueError`` if they are of another version of the package."""
    if sent["version"] != WIRE_VERSION or set(sent["frames"]) != set(_SCHEMAS):
        raise ValueError("its worker runs another version of torchprof-magic")
    frames = {name: pl.read_ipc_stream(io.BytesIO(data)) for name, data in sent["frames"].items()}
    if any(dict(frames[name].schema) != schema for name, schema in _SCHEMAS.items()):
        raise ValueError("its worker runs another version of torchprof-magic")
    return RankFrames(**frames)


def bytes_of(sent: Sent) -> int:
    """Return how many bytes of frames were sent."""
    return sum(len(data) for data in sent["frames"].values())


def _stream(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer, compression="zstd")
    return buffer.getvalue()
