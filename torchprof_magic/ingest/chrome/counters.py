"""Turns counter events into one row per value: when, of which process or device, under which name, in which unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import polars as pl
from msgspec import Raw

from torchprof_magic.ingest.chrome.columns import exact_ns, fragments, plain_text
from torchprof_magic.ingest.findings import example_of
from torchprof_magic.model.counter_names import counter_name
from torchprof_magic.model.trace import (
    COUNTERS_SCHEMA,
    DEVICE_CATEGORIES,
    HOST_CATEGORIES,
    MAX_COUNTER,
    MAX_NAME_CHARS,
    TEXT,
    no_rows,
)
from torchprof_magic.model.vendors import ACCELERATOR

if TYPE_CHECKING:
    from torchprof_magic.ingest.findings import Findings
    from torchprof_magic.ingest.json.schema import CounterEvent

COUNTER_COLUMNS: dict[str, pl.DataType | type[pl.DataType]] = {
    "time_ns": pl.Int64,
    "pid": pl.String,
    "name": TEXT,
    "unit": TEXT,
    "value": pl.Float64,
}
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_OBJECTS = msgspec.json.Decoder(list[dict[str, Raw]])
_LABEL = ["event", "series", "identifier", "is_only"]
# A device in the name of a process: its number follows, as in "GPU 0 Counters".
_NUMBERED_DEVICE = rf"{ACCELERATOR}[^0-9]*([0-9]{{1,4}})\b"


def counter_columns(events: list[CounterEvent], findings: Findings) -> pl.DataFrame:
    """Return one row per value. Those that are no finite number are left out and counted, as are events without any."""
    values = _values(events)
    sizes = [len(each) for each in values]
    row = np.repeat(np.arange(len(events)), sizes)
    texts = fragments([value for each in values for value in each.values()])
    frame = pl.DataFrame(
        {
            "time_ns": _times_ns([event.ts for event in events]).gather(row),
            "pid": plain_text([event.pid for event in events]).gather(row),
            "event": plain_text([event.name for event in events]).gather(row),
            "series": pl.Series([name for each in values for name in each], dtype=pl.String),
            "identifier": plain_text([event.id for event in events]).gather(row),
            "is_only": (pl.Series(sizes, dtype=pl.UInt32) == 1).gather(row),
            "value": texts.str.strip_chars(' "\t\r\n').cast(pl.Float64, strict=False),
        }
    )
    is_number = pl.col("value").is_finite() & (pl.col("value").abs() <= MAX_COUNTER)
    is_known = frame.select(is_number.fill_null(value=False).alias("is_known"))["is_known"]
    _note_odd(frame, ~is_known, texts, findings)
    findings.add("chrome.counter_value", sizes.count(0))
    return _named(frame.filter(is_known))


def _note_odd(frame: pl.DataFrame, is_odd: pl.Series, texts: pl.Series, findings: Findings) -> None:
    """Count the values that are no finite number, and tell the first."""
    if is_odd.any():
        row = int(is_odd.arg_max() or 0)
        example = example_of(str(frame["series"][row]), (texts[row] or "").encode(), frame["event"][row])
        findings.add("chrome.counter_value", int(is_odd.sum()), example=example)


def _times_ns(micros: list[Raw]) -> pl.Series:
    """Return the times exactly, but for those that are written with an exponent."""
    floats = fragments(micros).str.strip_chars(' "').cast(pl.Float64, strict=False)
    return exact_ns(micros).fill_null((floats * 1000).round().cast(pl.Int64, strict=False))


def _values(events: list[CounterEvent]) -> list[dict[str, Raw]]:
    """Return the arguments of each event; none where they are no object."""
    texts = [bytes(event.args) or b"{}" for event in events]
    try:
        return _OBJECTS.decode(b"[" + b",".join(texts) + b"]")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [_object(text) for text in texts]


def _object(text: bytes) -> dict[str, Raw]:
    try:
        return _OBJECT.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _named(frame: pl.DataFrame) -> pl.DataFrame:
    labels = frame.select(_LABEL).unique(maintain_order=True)
    names = [
        counter_name(event, series, identifier, is_only=is_only)
        for event, series, identifier, is_only in labels.iter_rows()
    ]
    named = labels.with_columns(
        pl.Series("name", [each.name for each in names], dtype=pl.String),
        pl.Series("unit", [each.unit for each in names], dtype=pl.String),
    )
    joined = frame.join(named, on=_LABEL, how="left", maintain_order="left")
    return joined.select(COUNTER_COLUMNS.keys()).cast(COUNTER_COLUMNS)  # type: ignore[arg-type]


def with_devices(counters: pl.DataFrame, places: pl.DataFrame, processes: pl.DataFrame) -> pl.DataFrame:
    """Return the counters of one file with the number of the device that each is about; null for others.

    That is the number in the id of the process, as in ``GPU 0 Counters``, or in its name or label. Without one it is
    that of the device whose work is in the same process, or the only device at work if the process is named NPU or so.
    A process of the host is none of a device.
    """
    if counters.height == 0:
        return counters.hstack([pl.Series("device", [], dtype=pl.Int32)])
    number = pl.col("pid").cast(pl.Int32, strict=False)
    is_work = pl.col("category").is_in(DEVICE_CATEGORIES)
    work = places.filter(is_work).select("pid", pl.coalesce("device", number).fill_null(0).alias("worked"))
    hosts = places.filter(pl.col("category").is_in(HOST_CATEGORIES))["pid"].unique()
    labelled = processes.select("pid", _number_in("name").alias("labelled")).drop_nulls()
    numbers = counters.select(pl.col("pid").unique()).with_columns(_number_in("pid").alias("named"))
    for found in (labelled, work.filter(~pl.col("pid").is_in(hosts.implode()))):
        numbers = numbers.join(found.unique("pid", keep="last"), on="pid", how="left")
    accelerators = processes.filter(pl.col("name").str.contains(ACCELERATOR))["pid"].unique()
    is_accelerator = pl.col("pid").is_in(accelerators.implode()) & (work["worked"].n_unique() == 1)
    only = pl.when(is_accelerator).then(pl.lit(work["worked"].max(), pl.Int32))
    device = pl.coalesce("named", "labelled", "worked", only).cast(pl.Int32).alias("device")
    return counters.join(numbers.select("pid", device), on="pid", how="left", maintain_order="left")


def _number_in(column: str) -> pl.Expr:
    return pl.col(column).str.extract(_NUMBERED_DEVICE, 1).cast(pl.Int32, strict=False)


def in_order(counters: pl.DataFrame) -> pl.DataFrame:
    """Return the counters of all files by time. Several processes with a counter of one name get theirs added to it."""
    if counters.height == 0:
        return no_rows("counters")
    is_shared = pl.col("pid").n_unique().over("device", "name", "unit") > 1
    text = pl.col("name").cast(pl.String)
    full = pl.format("{} (process {})", text.str.head(MAX_NAME_CHARS - 400), "pid")
    named = counters.with_columns(pl.when(is_shared).then(full).otherwise(text).cast(TEXT).alias("name"))
    return named.sort("time_ns", maintain_order=True).select(COUNTERS_SCHEMA.keys()).cast(COUNTERS_SCHEMA)  # type: ignore[arg-type]
