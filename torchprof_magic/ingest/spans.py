"""Which columns does a batch of events become? Compact ones: a row holds numbers, and where it lay as one of them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from torchprof_magic.ingest.columns import exact_ns, integers, labels, optional_text, raw_text
from torchprof_magic.ingest.schema import NO_ARGS, Event
from torchprof_magic.trace import MEMORY_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

# c10::DeviceType, as written in "Device Type".
_DEVICE_TYPES = {0: "cpu", 1: "cuda", 6: "hip", 12: "xpu", 13: "mps", 15: "hpu", 19: "mtia", 20: "privateuse1"}
PLACE_COLUMNS = ("cat", "pid", "tid", "device", "stream")


class Columns(NamedTuple):
    """The columns of one file; times are ns as the file counts them, without its base.

    ``spans.place`` is a row of ``places``: category, process, thread, device and stream as the file spells them.
    ``bounds`` are the B and E events, not yet paired.
    """

    spans: pl.DataFrame
    bounds: pl.DataFrame
    memory: pl.DataFrame
    arrows: pl.DataFrame
    thread_names: pl.DataFrame
    places: pl.DataFrame


class ColumnBuilder:
    """Collects batches of events as columns; a batch's own objects can be forgotten after each ``add``."""

    def __init__(self) -> None:
        self._places: dict[tuple[object, ...], int] = {}
        self._frames: dict[str, list[pl.DataFrame]] = defaultdict(list)

    def add(self, events: list[Event]) -> None:
        """Add the columns of one batch."""
        by_phase: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            by_phase[event.ph].append(event)
        self._frames["spans"].append(self._placed(by_phase["X"]))
        if bounds := [event for event in events if event.ph in ("B", "E")]:
            phase = pl.Series("ph", [event.ph for event in bounds], dtype=pl.String)
            self._frames["bounds"].append(self._placed(bounds).with_columns(phase))
        self._frames["memory"].append(
            _memory([event for event in (*by_phase["i"], *by_phase["I"]) if event.name == "[memory]"])
        )
        self._frames["arrows"].append(_arrows([*by_phase["s"], *by_phase["f"]]))
        self._frames["thread_names"].append(
            _thread_names([event for event in by_phase["M"] if event.name == "thread_name"])
        )

    def finish(self) -> Columns:
        """Return the columns of all batches."""
        if not self._frames["bounds"]:
            self._frames["bounds"].append(self._placed([]).with_columns(pl.lit("").alias("ph")))
        if not self._frames["spans"]:
            self.add([])
        frames = {name: pl.concat(self._frames.pop(name)) for name in list(self._frames)}
        schema = {"cat": pl.String, "pid": pl.String, "tid": pl.String, "device": pl.Int32, "stream": pl.Int32}
        places = pl.DataFrame(list(self._places), schema=schema, orient="row")
        return Columns(places=places, **frames)

    def _placed(self, events: Sequence[Event]) -> pl.DataFrame:
        frame = _spans(events)
        keys = frame.select(PLACE_COLUMNS).unique(maintain_order=True)
        rows = [self._places.setdefault(row, len(self._places)) for row in keys.rows()]
        keys = keys.with_columns(pl.Series("place", rows, dtype=pl.Int32))
        joined = frame.join(keys, on=PLACE_COLUMNS, how="left", nulls_equal=True, maintain_order="left")
        return joined.drop(PLACE_COLUMNS)


def _spans(events: Sequence[Event]) -> pl.DataFrame:
    args = [event.args or NO_ARGS for event in events]
    return pl.DataFrame(
        {
            "name": labels([event.name for event in events]),
            "cat": labels([event.cat for event in events]),
            "pid": labels([event.pid for event in events]),
            "tid": labels([event.tid for event in events]),
            "start_ns": exact_ns([event.ts for event in events]),
            "dur_ns": exact_ns([event.dur for event in events]),
            "correlation": integers([arg.correlation for arg in args]),
            "sequence": integers([arg.sequence for arg in args]),
            "fwd_thread": integers([arg.fwd_thread for arg in args]),
            "shapes": raw_text([arg.input_dims for arg in args]),
            "dtypes": raw_text([arg.input_types for arg in args]),
            "bytes": integers([arg.copy_bytes for arg in args]),
            "stream": integers([arg.stream for arg in args], pl.Int32),
            "device": integers([arg.device for arg in args], pl.Int32),
            "call_stack": optional_text([arg.call_stack for arg in args]),
        }
    )


def _memory(events: Sequence[Event]) -> pl.DataFrame:
    args = [event.args or NO_ARGS for event in events]
    kinds = integers([arg.device_type for arg in args]).replace_strict(
        _DEVICE_TYPES, default="device", return_dtype=pl.String
    )
    ids = integers([arg.device_id for arg in args]).cast(pl.String).fill_null("0")
    frame = pl.DataFrame(
        {
            "time_ns": exact_ns([event.ts for event in events]),
            "kind": kinds,
            "id": ids,
            "delta_bytes": integers([arg.delta_bytes for arg in args]),
            "allocated_bytes": integers([arg.allocated_bytes for arg in args]),
            "reserved_bytes": integers([arg.reserved_bytes for arg in args]),
            "address": integers([arg.address for arg in args], pl.UInt64),
            "pid": labels([event.pid for event in events]),
            "tid": labels([event.tid for event in events]),
        }
    )
    device = pl.when(pl.col("kind") == "cpu").then(pl.lit("cpu")).otherwise(pl.col("kind") + ":" + pl.col("id"))
    return frame.with_columns(device.alias("device"), pl.lit(-1, MEMORY_SCHEMA["event"]).alias("event"))


def _arrows(events: Sequence[Event]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "ph": pl.Series([event.ph for event in events], dtype=pl.String),
            "cat": labels([event.cat for event in events]).cast(pl.String),
            "id": labels([event.id for event in events]).cast(pl.String),
            "pid": labels([event.pid for event in events]),
            "tid": labels([event.tid for event in events]),
            "time_ns": exact_ns([event.ts for event in events]),
        }
    )


def _thread_names(events: Sequence[Event]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "pid": labels([event.pid for event in events]).cast(pl.String),
            "tid": labels([event.tid for event in events]).cast(pl.String),
            "name": labels([(event.args or NO_ARGS).name for event in events]).cast(pl.String),
        }
    )
