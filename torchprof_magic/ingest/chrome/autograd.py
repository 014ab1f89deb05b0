"""Exports of torch's autograd profiler, the only one before torch 1.8.

Ops are in the process "CPU functions". The time that each took on a device, its parts included, is in the process "CUDA
functions" under the name of the op, and an arrow leads to it. Rows have no categories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.model.intervals import NO_PARENT, nest, nesting_order

if TYPE_CHECKING:
    from torchprof_magic.ingest.chrome.spans import Columns
    from torchprof_magic.ingest.findings import Findings
    from torchprof_magic.model.intervals import BoolArray

_HOST = "CPU functions"
_DEVICE = r"^[A-Za-z0-9]{1,20} functions$"
_IS_BARE = (pl.col("category") == "other") & (pl.col("cat") == "")


def with_autograd_rows(columns: Columns, findings: Findings) -> Columns:
    """Return the columns of one file with the rows of that profiler as ops and device work.

    A device time that holds others is a range, not work: the op only called those that did it.
    """
    places = columns.places
    if not (places["pid"] == _HOST).any():
        return columns
    is_host, is_device = _IS_BARE & (pl.col("pid") == _HOST), _IS_BARE & pl.col("pid").str.contains(_DEVICE)
    if not ((places["pid"] == _HOST) & (places["cat"] == "") & (places["category"] == "other")).any():
        return columns
    findings.add("chrome.autograd_export")
    category = pl.when(is_host).then(pl.lit("cpu_op")).when(is_device).then(pl.lit("kernel")).otherwise("category")
    number = pl.col("tid").cast(pl.Int32, strict=False).fill_null(0)
    changed = places.with_columns(
        category.cast(places.schema["category"]).alias("category"),
        pl.when(is_device & ~is_host).then(number).otherwise("device").alias("device"),
        pl.when(is_device & ~is_host).then(0).otherwise("stream").cast(pl.Int32).alias("stream"),
    )
    outer = changed.with_columns(pl.lit("gpu_user_annotation", places.schema["category"]).alias("category"))
    is_outer = _holds_others(columns.spans, (changed["category"] == "kernel").to_numpy())
    place = columns.spans["place"].to_numpy() + np.where(is_outer, places.height, 0)
    return columns._replace(
        spans=columns.spans.with_columns(pl.Series("place", place, dtype=pl.Int32)), places=pl.concat([changed, outer])
    )


def _holds_others(spans: pl.DataFrame, is_device: BoolArray) -> BoolArray:
    """Return which spans on a device hold others on that device."""
    found = np.zeros(spans.height, np.bool_)
    place = spans["place"].to_numpy()
    rows = np.flatnonzero(is_device[place])
    lane, start, dur = place[rows].astype(np.int64), *(spans[name].to_numpy()[rows] for name in ("start_ns", "dur_ns"))
    order = nesting_order(lane, start, dur)
    parent, _, _ = nest(lane[order], start[order], dur[order])
    found[rows[order[parent[parent != NO_PARENT]]]] = True
    return found
