"""Encodes shapes for the page: one Arrow IPC stream per view, in one container."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.model.shapes import FramedShape, Series

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ALIGNMENT = 8  # bytes; typed arrays over the buffer need aligned starts
EMBEDDED_BYTES = 4_000_000  # larger views are pulled by the page in chunks of this size
EMBEDDED_ROWS = 60_000  # encoding more takes longer than a report may
MAX_SERIES_ROWS = 20_000  # per lane; a screen has a tenth of that in pixels


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The bytes of all views with a frame: ``data`` is sent with the page, ``pulled`` on request.

    ``places`` gives ``(offset, length)`` in ``data`` per view; offset -1 means that the bytes are in ``pulled``.
    """

    data: bytes
    places: Mapping[str, tuple[int, int]]
    pulled: Mapping[str, Callable[[], bytes]]


def pack(shapes: Mapping[str, FramedShape]) -> Packed:
    """Return the bytes of all shapes with rows. Short ones come first, as several views need them."""
    data, places = bytearray(), {}
    pulled: dict[str, Callable[[], bytes]] = {}
    for name, shape in sorted(shapes.items(), key=lambda item: item[1].frame.height):
        if shape.frame.height > EMBEDDED_ROWS:
            # Encoded when the page asks for it, which most people never make it do.
            places[name], pulled[name] = (-1, 0), partial(encode, shape)
            continue
        encoded = encode(shape) if shape.frame.height else b""
        if not encoded:
            places[name] = (0, 0)
        elif len(data) + len(encoded) <= EMBEDDED_BYTES:
            data.extend(b"\0" * (-len(data) % ALIGNMENT))
            places[name] = (len(data), len(encoded))
            data.extend(encoded)
        else:
            places[name], pulled[name] = (-1, len(encoded)), partial(_given, encoded)
    return Packed(data=bytes(data), places=places, pulled=pulled)


def _given(data: bytes) -> bytes:
    return data


def with_header(header: str, data: bytes) -> bytes:
    """Return bytes that begin with a text and its length, aligned for the columns that follow."""
    text = header.encode()
    text += b" " * (-(4 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(4, "little") + text + data


def encode(shape: FramedShape) -> bytes:
    """Return one shape as an Arrow IPC stream: names dictionary-encoded, times and sizes as float64."""
    frame = _series_frame(shape) if isinstance(shape, Series) else shape.frame
    buffer = io.BytesIO()
    frame.select(_narrow(name, dtype) for name, dtype in frame.schema.items()).write_ipc_stream(
        buffer, compat_level=pl.CompatLevel.oldest()
    )
    return buffer.getvalue()


def _series_frame(series: Series) -> pl.DataFrame:
    """Return the rows that are drawn; stacked bands as float32, which is far finer than a pixel."""
    frame = _thinned(series.frame)
    return (
        frame.with_columns(pl.col(*(band.name for band in series.stacked)).cast(pl.Float32))
        if series.stacked
        else frame
    )


def _narrow(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return a column in a type that a browser reads without copying: float64 is exact up to 104 days of ns."""
    column = pl.col(name)
    if isinstance(dtype, (pl.String, pl.Enum)):
        return column.cast(pl.String).cast(pl.Categorical)
    if dtype == pl.Boolean:
        return column.cast(pl.UInt8)
    if dtype in (pl.Int64, pl.UInt64):
        return column.cast(pl.Float64).fill_null(float("nan"))
    return column


def _thinned(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the highest and the last row of each of many equal time slots, so that no peak is lost."""
    if frame.height <= MAX_SERIES_ROWS:
        return frame
    value = next(name for name in frame.columns if name not in ("lane", "time_ns"))
    slots = MAX_SERIES_ROWS // 2
    time = pl.col("time_ns")
    slot = ((time - time.min()) * slots // (time.max() - time.min() + 1)).over("lane").alias("slot")
    frame = frame.with_columns(slot).with_row_index("row")
    highest = frame.group_by("lane", "slot").agg(pl.col("row").get(pl.col(value).arg_max()))
    last = frame.group_by("lane", "slot").agg(pl.col("row").max())
    keep = pl.concat([highest["row"], last["row"]]).unique()
    return frame.filter(pl.col("row").is_in(keep.implode())).drop("row", "slot")
