"""The memory of one device by category, from a file of torch's ``export_memory_timeline`` or of ours.

The file holds bytes of categories, without addresses. So the rows of memory are made up: pieces of memory whose sums
are those of the file at every time. See ``pieces.py``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import polars as pl

from torchprof_magic.ingest.findings import Findings
from torchprof_magic.ingest.json.blocks import BLOCK_BYTES, read_blocks
from torchprof_magic.ingest.memory_timeline.pieces import pieces_of
from torchprof_magic.ingest.regular import beginning_of, open_regular, read_pieces
from torchprof_magic.model.errors import IngestError, NotATraceError
from torchprof_magic.model.memory_categories import BEFORE, TORCH_ACTIONS, TORCH_ORDER
from torchprof_magic.model.meta import Meta, shortened
from torchprof_magic.model.problems import problem
from torchprof_magic.model.trace import FRAME_SCHEMAS, MEMORY_CATEGORY, TEXT, Trace
from torchprof_magic.model.units import format_bytes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from torchprof_magic.ingest.memory_timeline.pieces import Piece
    from torchprof_magic.model.intervals import IntArray

UNNAMED_DEVICE = "device"  # torch does not write which one it is
MAX_TEXT_BYTES = 1 << 30
MAX_TIME_NS = 1 << 61  # until the year 2043
MAX_SIZE_BYTES = 1 << 50
_HEAD_BYTES = 1024
_NUMBERS = re.compile(rb"(\xef\xbb\xbf)?\s*\[\s*\[\s*(-?\d|\]\s*,)")
_OUR_PAGE = b'<meta name="generator" content="torchprof-magic memory timeline">'
_TORCH_PAGE = b"<title>GPU Memory Timeline HTML</title>"
_DATA = re.compile(rb'<script type="application/json" id="memory-timeline">([^<]*)</script>')
_DAMAGED = "the memory timeline is cut off or damaged ({reason}); copy it or export it again"
_Curve = tuple[list[int], list[list[int]]]
_Raw = list[tuple[int, int, int, int]]


class _Page(msgspec.Struct):
    device: str
    timeline: _Curve


class _Changes(NamedTuple):
    """What is added to categories, in order of time: Unix ns, or -1 for what was there before."""

    device: str
    time_ns: IntArray
    category: IntArray
    delta_bytes: IntArray


def is_timeline(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a memory timeline, by its content."""
    head = beginning_of(Path(path), _HEAD_BYTES)
    return bool(_NUMBERS.match(head)) or (head.startswith(b"<") and (_OUR_PAGE in head or _TORCH_PAGE in head))


def read_timeline(path: str | os.PathLike[str], meta: Meta | None = None) -> Trace:
    """Return a trace with memory only. Raises ``IngestError`` when the file cannot be read.

    Raises ``NotATraceError`` for a page of torch's, which holds a picture and no numbers.
    """
    head, findings = beginning_of(Path(path), _HEAD_BYTES), Findings()
    if _TORCH_PAGE in head:
        raise NotATraceError(
            "this is torch's picture of a memory timeline, which holds no numbers; export it as .json or .raw.json.gz"
        )
    text = b"".join(_page(path) if head.startswith(b"<") else _texts(path, findings))
    try:
        found = _changes_in_page(text) if head.startswith(b"<") else _changes_in_numbers(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, OverflowError) as exc:
        raise IngestError(_DAMAGED.format(reason=exc)) from exc
    return _trace_of(found, meta or Meta(), findings)


def _texts(path: str | os.PathLike[str], findings: Findings) -> Iterator[bytes]:
    return _bounded(block.text for block in read_blocks(path, findings))


def _page(path: str | os.PathLike[str]) -> Iterator[bytes]:
    with open_regular(Path(path)) as file:
        yield from _bounded(read_pieces(file, BLOCK_BYTES))


def _bounded(texts: Iterable[bytes]) -> Iterator[bytes]:
    size = 0
    for text in texts:
        size += len(text)
        if size > MAX_TEXT_BYTES:
            raise IngestError("the memory timeline is too large to be read; export fewer steps")
        yield text


def _changes_in_page(text: bytes) -> _Changes:
    found = _DATA.search(text)
    if found is None:
        raise IngestError(_DAMAGED.format(reason="it has no numbers"))
    page = msgspec.json.decode(found[1], type=_Page)
    return _of_curve(page.timeline)._replace(device=shortened(page.device) or UNNAMED_DEVICE)


def _changes_in_numbers(text: bytes) -> _Changes:
    try:
        return _of_raw(msgspec.json.decode(text, type=_Raw))
    except msgspec.ValidationError:
        return _of_curve(msgspec.json.decode(text, type=_Curve))


def _of_curve(curve: _Curve) -> _Changes:
    times, sizes = curve
    width = len(TORCH_ORDER) + 1
    if len(times) != len(sizes) or any(len(row) != width for row in sizes):
        raise IngestError(_DAMAGED.format(reason=f"it needs {width} numbers for each time"))
    levels = np.array(sizes, np.int64).reshape(-1, width)[:, 1:]
    _check(np.array(times, np.int64), MAX_TIME_NS // 1000)
    _check(levels, MAX_SIZE_BYTES)
    delta = np.diff(levels, axis=0, prepend=np.zeros((1, len(TORCH_ORDER)), np.int64))
    # What falls comes first, so that no sum rises above those of the file.
    row, category = np.nonzero(delta)
    order = np.lexsort((delta[row, category], row))
    time_ns = np.array(times, np.int64)[row[order]] * 1000
    return _Changes(UNNAMED_DEVICE, time_ns, category[order], delta[row, category][order])


def _of_raw(rows: _Raw) -> _Changes:
    table = np.array(rows, np.int64).reshape(-1, 4)
    time_ns, action, size, category = table.T
    _check(time_ns, MAX_TIME_NS)
    _check(size, MAX_SIZE_BYTES)
    if not (np.isin(action, range(1, len(TORCH_ACTIONS) + 1)) & np.isin(category, range(len(TORCH_ORDER)))).all():
        raise IngestError(_DAMAGED.format(reason="it has an unknown action or category"))
    order = np.argsort(time_ns, kind="stable")
    return _Changes(UNNAMED_DEVICE, time_ns[order], category[order], size[order])


def _check(values: IntArray, limit: int) -> None:
    if len(values) and (values.max() > limit or values.min() < -limit):
        raise IngestError(_DAMAGED.format(reason="its numbers are out of range"))
    if float(np.abs(values.astype(np.float64)).sum()) > 2.0**62 and limit == MAX_SIZE_BYTES:
        raise IngestError(_DAMAGED.format(reason="its sizes are impossible"))


def _trace_of(changes: _Changes, meta: Meta, findings: Findings) -> Trace:
    known = changes.time_ns[changes.time_ns != BEFORE]
    begin_ns = int(known.min()) if len(known) else 0
    time_ns = np.where(changes.time_ns == BEFORE, 0, changes.time_ns - begin_ns)
    pieces, below_bytes = pieces_of(zip(changes.category.tolist(), changes.delta_bytes.tolist(), strict=True))
    frames = {name: pl.DataFrame(schema=schema) for name, schema in FRAME_SCHEMAS.items()}
    frames |= {"memory": _memory(pieces, time_ns, changes.device), "tags": _tags(pieces, time_ns, changes.device)}
    below = (problem("timeline.below_zero", count=1, size=format_bytes(below_bytes)),) if below_bytes else ()
    names = meta.device_names or (changes.device,)
    meta = replace(meta, start_unix_ns=begin_ns, device_names=names, has_memory=True)
    return Trace(**frames, meta=meta, problems=(*findings.problems(), *below))


def _memory(pieces: list[Piece], time_ns: IntArray, device: str) -> pl.DataFrame:
    """Return a row for the beginning and one for the end of each piece, with addresses that are made up."""
    rows = [(piece.begin, piece.size_bytes, address) for address, piece in enumerate(pieces, 1)]
    rows += [
        (piece.end, -piece.size_bytes, address) for address, piece in enumerate(pieces, 1) if piece.end is not None
    ]
    frame = pl.DataFrame(
        rows, schema={"change": pl.Int64, "delta_bytes": pl.Int64, "address": pl.UInt64}, orient="row"
    ).sort("change", maintain_order=True)
    return frame.select(
        pl.Series("time_ns", time_ns[frame["change"].to_numpy()], dtype=pl.Int64),
        pl.lit(device).alias("device"),
        "delta_bytes",
        pl.col("delta_bytes").cum_sum().alias("allocated_bytes"),
        pl.lit(None, pl.Int64).alias("reserved_bytes"),
        "address",
        pl.lit(-1, pl.Int32).alias("event"),
        pl.lit(0, pl.Int32).alias("cycle"),
    ).cast(FRAME_SCHEMAS["memory"])  # type: ignore[arg-type]


def _tags(pieces: list[Piece], time_ns: IntArray, device: str) -> pl.DataFrame:
    """Return a tag for each piece, which says its category."""
    number = np.array([TORCH_ORDER[piece.category] for piece in pieces], object)
    frame = pl.DataFrame(
        {
            "time_ns": time_ns[[piece.begin for piece in pieces]],
            "category": pl.Series(number.tolist(), dtype=MEMORY_CATEGORY),
            "address": np.arange(1, len(pieces) + 1, dtype=np.uint64),
            "bytes": [piece.size_bytes for piece in pieces],
        }
    ).with_columns(
        pl.lit(device).alias("device"),
        pl.lit(None, TEXT).alias("name"),
        pl.lit("", TEXT).alias("shape"),
        pl.lit("", TEXT).alias("dtype"),
        pl.lit(0, pl.Int32).alias("cycle"),
    )
    return frame.select(*FRAME_SCHEMAS["tags"]).cast(FRAME_SCHEMAS["tags"]).sort("time_ns")  # type: ignore[arg-type]
