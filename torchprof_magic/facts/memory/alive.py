"""The blocks of a memory snapshot that are in use at a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import polars as pl

from torchprof_magic.facts.memory.block_lives import Lives, block_lives, device_history, level_after
from torchprof_magic.facts.memory.stack_categories import categories_of
from torchprof_magic.facts.memory.stack_lines import lines_of
from torchprof_magic.model.intervals import NO_PARENT
from torchprof_magic.model.rows import filled

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray
    from torchprof_magic.model.trace import DType, Trace


Moment: TypeAlias = int | Literal["peak", "end"]


_SCHEMA: dict[str, DType] = {
    "device": pl.String,
    "size_bytes": pl.Int64,
    "allocated_at_ns": pl.Int64,
    "freed_at_ns": pl.Int64,
    "line": pl.String,
    "function": pl.String,
    "category": pl.String,
    "address": pl.UInt64,
    "stack": pl.Int32,
}


def alive_at(trace: Trace, at: Moment = "peak", device: str | None = None) -> pl.DataFrame:
    """Return the blocks in use at a moment, the largest first, as ``ALIVE_COLUMNS`` of the tables describes them.

    ``at`` is a time in ns, of which all changes up to it count, or ``"peak"`` or ``"end"``, which each device has of
    its own. ``device`` limits it to one. Times before the history are that of its beginning. Empty without a snapshot.
    Raises ``ValueError`` for an unknown device or moment.
    """
    lives = block_lives(trace)
    if device is not None and device not in lives:
        raise ValueError(f"no snapshot of {device!r}; there is one of: {', '.join(lives) or 'no device'}")
    if not (at in ("peak", "end") or (isinstance(at, int) and not isinstance(at, bool))):
        raise ValueError(f"at must be 'peak', 'end' or a time in ns (got {at!r})")
    chosen = lives if device is None else {device: lives[device]}
    frames = [_alive_on(trace, name, own, at) for name, own in chosen.items()]
    return pl.concat([pl.DataFrame(schema=_SCHEMA), *frames]).sort("size_bytes", descending=True, maintain_order=True)


def is_snapshot(trace: Trace) -> bool:
    """Return whether a trace is that of a memory snapshot alone, which has no events."""
    return trace.events.height == 0 and (trace.history.height > 0 or trace.blocks.height > 0)


def held_at(trace: Trace, when: int | Literal["peak"], device: str | None = None) -> pl.DataFrame:
    """Return the blocks of one device that are in use at a moment, with the columns of ``memory_at``.

    Without a device, it is that with the highest peak. Raises ``ValueError`` as ``alive_at`` does.
    """
    peaks = {name: _peak_bytes(trace, name, own) for name, own in block_lives(trace).items()}
    chosen = device if device is not None else max(peaks, key=lambda name: peaks[name])
    alive = alive_at(trace, when, chosen)
    row = row_at(trace, chosen, block_lives(trace)[chosen], when)
    now = when if when != "peak" else (device_history(trace, chosen)["time_ns"][row] if row >= 0 else None)
    age_ns = (pl.lit(now, pl.Int64) - pl.col("allocated_at_ns")).alias("age_ns")
    return _as_allocations(trace, alive).with_columns(age_ns)


def every_block(trace: Trace) -> pl.DataFrame:
    """Return every block of a snapshot, in the order of allocation, with the columns of ``report.allocations``."""
    frames = [
        _blocks_on(trace, name, own, np.ones(len(own.size_bytes), bool)) for name, own in block_lives(trace).items()
    ]
    found = pl.concat([pl.DataFrame(schema=_SCHEMA), *frames])
    return _as_allocations(trace, found).sort("allocated_at_ns", nulls_last=False, maintain_order=True)


def _as_allocations(trace: Trace, found: pl.DataFrame) -> pl.DataFrame:
    """Return blocks with file and line apart, what they are known by without a line, their lifetime and category."""
    place = pl.col("line").str.extract_groups(r"^(?<file>.*):(?<line>[0-9]+)$")
    return found.with_columns(
        (pl.col("freed_at_ns") - pl.col("allocated_at_ns")).alias("lifetime_ns"),
        pl.when(pl.col("line").is_null()).then("function").alias("op"),
        place.struct.field("file").alias("file"),
        place.struct.field("line").cast(pl.Int32, strict=False).alias("line"),
        categories_of(trace, filled(found["stack"], NO_PARENT)).alias("category"),
    )


def _peak_bytes(trace: Trace, device: str, lives: Lives) -> int:
    rows = device_history(trace, device).height
    return int(level_after(lives, rows)[peak_row(lives, rows) + 1])


def peak_row(lives: Lives, rows: int) -> int:
    """Return the row of a history of so many rows after which most was in use, the first of several.

    As in the curve, what was in use before the first row does not count; -1 without any row.
    """
    return int(level_after(lives, rows)[1:].argmax()) if rows else -1


def row_at(trace: Trace, device: str, lives: Lives, at: Moment) -> int:
    """Return the row of a device's history after which a moment is; -1 for before it."""
    times = device_history(trace, device)["time_ns"].to_numpy()
    if at == "peak":
        return peak_row(lives, len(times))
    return len(times) - 1 if at == "end" else int(np.searchsorted(times, at, side="right")) - 1


def _alive_on(trace: Trace, device: str, lives: Lives, at: Moment) -> pl.DataFrame:
    return _blocks_on(trace, device, lives, lives.at(row_at(trace, device, lives, at)))


def _blocks_on(trace: Trace, device: str, lives: Lives, mask: BoolArray) -> pl.DataFrame:
    times = device_history(trace, device)["time_ns"]
    count, stack = int(mask.sum()), lives.stack[mask].astype(np.int64)
    begin, end = pl.Series(lives.begin[mask]), pl.Series(lives.end[mask])
    known = pl.Series("stack", stack, dtype=pl.Int32)
    return pl.DataFrame(
        {
            "device": pl.repeat(device, count, dtype=pl.String, eager=True),
            "size_bytes": lives.size_bytes[mask],
            "allocated_at_ns": times.gather(begin.set(begin < 0, None)),
            "freed_at_ns": times.gather(end.set(end >= len(times), None)),
            **lines_of(trace, stack).to_dict(),
            "category": pl.repeat(None, count, dtype=pl.String, eager=True),
            "address": lives.address[mask],
            "stack": known.set(known == NO_PARENT, None),
        },
        schema=_SCHEMA,
    )
