"""The parts of a memory snapshot as frames: segments, their blocks, the history, and annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.ingest.snapshot.values import (
    MAX_SUM_BYTES,
    address_of,
    dicts_of,
    pool_of,
    requested_bytes,
    size_of,
    stream_of,
    text_of,
)
from torchprof_magic.model.errors import IngestError
from torchprof_magic.model.meta import MAX_TEXT, encodable, shortened
from torchprof_magic.model.trace import ACTIONS, FRAME_SCHEMAS, MAX_NAME_CHARS, TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchprof_magic.ingest.snapshot.stacks import StackTree
    from torchprof_magic.ingest.snapshot.values import Entry

_STATES = {
    "inactive": "inactive",
    "active_pending_free": "active_pending_free",
    "active_awaiting_free": "active_pending_free",  # as torch's documentation calls it
}
_DEFAULT_POOL = "0.0"
_NO_COMPILATION = "N/A"
_KNOWN_ACTIONS = frozenset(ACTIONS)


def segments_frame(segments: Sequence[tuple[str, Entry]], stacks: StackTree) -> pl.DataFrame:
    """Return the segments, each given with the name of its device."""
    entries = [segment for _, segment in segments]
    return _frame(
        "segments",
        device=[device for device, _ in segments],
        address=[address_of(entry.get("address")) for entry in entries],
        total_bytes=[size_of(entry.get("total_size")) for entry in entries],
        stream=[stream_of(entry.get("stream")) for entry in entries],
        kind=_texts(entry.get("segment_type") for entry in entries).fill_null(""),
        pool=_texts(pool_of(entry.get("segment_pool_id")) for entry in entries).fill_null(_DEFAULT_POOL),
        is_expandable=[entry.get("is_expandable") is True for entry in entries],
        stack=[stacks.row_of(entry.get("frames")) for entry in entries],
    )


def blocks_frame(segments: Sequence[tuple[str, Entry]], stacks: StackTree) -> pl.DataFrame:
    """Return the blocks of all segments, in their order."""
    rows = [
        (number, address, block)
        for number, (_, segment) in enumerate(segments)
        for address, block in _placed(address_of(segment.get("address")), dicts_of(segment.get("blocks")))
    ]
    blocks = [block for _, _, block in rows]
    return _frame(
        "blocks",
        segment=[number for number, _, _ in rows],
        address=[address for _, address, _ in rows],
        size_bytes=[size_of(block.get("size")) for block in blocks],
        requested_bytes=[requested_bytes(block) for block in blocks],
        state=[_STATES.get(text_of(block.get("state")), "active_allocated") for block in blocks],
        stack=[stacks.row_of(block.get("frames")) for block in blocks],
    )


def _placed(begin: int, blocks: Iterable[Entry]) -> list[tuple[int, Entry]]:
    """Return the blocks of a segment with their addresses, which older versions of torch leave to be added up."""
    placed = []
    for block in blocks:
        begin = address_of(block["address"]) if "address" in block else begin
        placed.append((min(begin, (1 << 64) - 1), block))
        begin += size_of(block.get("size"))
    return placed


def history_frame(entries: Sequence[tuple[str, int, Entry]], stacks: StackTree) -> pl.DataFrame:
    """Return the history, of which each entry is given with the name of its device and its time in µs."""
    found = [entry for _, _, entry in entries]
    frame = _frame(
        "history",
        time_ns=[time_us * 1000 for _, time_us, _ in entries],
        device=[device for device, _, _ in entries],
        action=[_action(entry) for entry in found],
        address=[address_of(entry.get("addr")) for entry in found],
        size_bytes=[size_of(entry["size"]) for entry in found],
        device_free_bytes=[size_of(entry["device_free"]) if "device_free" in entry else None for entry in found],
        stream=[stream_of(entry.get("stream")) for entry in found],
        pool=_texts(pool_of(entry.get("pool_id")) for entry in found),
        compile_context=_texts(entry.get("compile_context") for entry in found).replace(_NO_COMPILATION, None),
        user_metadata=_texts(entry.get("user_metadata") for entry in found).replace("", None),
        stack=[stacks.row_of(entry.get("frames")) for entry in found],
    )
    return frame.sort("time_ns", maintain_order=True)


def _action(entry: Entry) -> str:
    action = text_of(entry.get("action"))
    return action if action in _KNOWN_ACTIONS else "other"


def annotations_frame(marks: Sequence[tuple[str, int, Entry]]) -> pl.DataFrame:
    """Return the ranges, whose starts and ends are given with the name of their device and their time in µs.

    A range ends with the next end of its name on its device. An end without a start began before the history.
    """
    rows: list[list[object]] = []
    begun: dict[tuple[str, str], list[list[object]]] = {}
    for device, time_us, mark in sorted(marks, key=lambda mark: mark[1]):
        name = shortened(encodable(text_of(mark.get("name"))), MAX_NAME_CHARS)
        around = begun.setdefault((device, name), [])
        if mark.get("stage") != "END":
            around.append([name, device, time_us * 1000, None])
            rows.append(around[-1])
        elif around:
            around.pop()[-1] = time_us * 1000
        else:
            rows.append([name, device, None, time_us * 1000])
    return pl.DataFrame(rows, schema=FRAME_SCHEMAS["annotations"], orient="row")


def _frame(name: str, **columns: pl.Series | Sequence[object]) -> pl.DataFrame:
    frame = pl.DataFrame(columns, schema=FRAME_SCHEMAS[name])
    for column in ("total_bytes", "size_bytes", "requested_bytes"):
        if column in columns and float(frame[column].cast(pl.Float64).sum()) > MAX_SUM_BYTES:
            raise IngestError("the snapshot contains impossible sizes; copy it or write it again")
    return frame


def _texts(values: Iterable[object]) -> pl.Series:
    """Return texts, null for anything else; each distinct one is shortened and stored once."""
    number: dict[str | None, int] = {}
    codes = [number.setdefault(value if isinstance(value, str) else None, len(number)) for value in values]
    distinct = [shortened(encodable(text), MAX_TEXT) if text is not None else None for text in number]
    return pl.Series(distinct, dtype=TEXT)[codes] if codes else pl.Series([], dtype=TEXT)
