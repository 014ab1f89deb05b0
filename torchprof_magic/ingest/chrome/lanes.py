"""Assigns each event to its lane: a thread or a stream."""

from __future__ import annotations

import polars as pl

from torchprof_magic.model.trace import DEVICE_CATEGORIES, HOST_CATEGORIES, LANE_KIND, LANES_SCHEMA
from torchprof_magic.model.vendors import VENDOR_NAMED

_KEY = ["kind", "pid", "tid", "device", "stream"]


def assign_lanes(
    spans: pl.DataFrame, places: pl.DataFrame, thread_names: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the places with their ``lane``, and the lanes: threads by first event, then streams.

    GPU-side annotations get lanes of their own: they include idle gaps and may overlap, so they enclose no kernel.
    ``places`` has a row for each spelling of category, process, thread, device and stream in the files, which
    ``spans.place`` numbers.
    """
    keyed = _with_keys(places.with_row_index("place").with_columns(pl.col("place").cast(pl.Int32)))
    first = spans.group_by("place").agg(pl.col("start_ns").min().alias("first"))
    keyed = keyed.join(first, on="place", how="left")
    found = keyed.drop_nulls("first").group_by(_KEY).agg(pl.col("first").min(), _device_label().max())
    lanes = found.sort("kind", "first", *_KEY[1:])
    lanes = lanes.with_row_index("lane").with_columns(pl.col("lane").cast(pl.Int32))
    keyed = keyed.join(lanes.select(*_KEY, "lane"), on=_KEY, how="left", nulls_equal=True).sort("place")
    names = thread_names.unique(["pid", "tid"], keep="last")
    named = lanes.join(names, on=["pid", "tid"], how="left", maintain_order="left")
    named = named.with_columns(_lane_name().alias("name"))
    return keyed, named.select(LANES_SCHEMA.keys())


def _with_keys(places: pl.DataFrame) -> pl.DataFrame:
    """Streams are keyed by device and stream number; threads by pid and tid."""
    on_device = pl.col("category").is_in(DEVICE_CATEGORIES)
    kind = (
        pl.when(on_device)
        .then(pl.lit("stream"))
        .when(pl.col("category") == "gpu_user_annotation")
        .then(pl.lit("stream annotations"))
        .when(pl.col("category").is_in(HOST_CATEGORIES))
        .then(pl.lit("thread"))
        .otherwise(pl.lit("other"))
        .cast(LANE_KIND)
        .alias("kind")
    )
    device = pl.coalesce("device", pl.col("pid").cast(pl.Int32, strict=False))
    stream = pl.coalesce("stream", pl.col("tid").str.extract(r"([0-9]+)$").cast(pl.Int32, strict=False))
    return places.with_columns(
        kind,
        pl.when(on_device).then(device).alias("device"),
        pl.when(on_device).then(stream).alias("stream"),
    ).with_columns(
        # The pid and tid of a device vary between versions of torch; this must not split a stream in two.
        pl.when(on_device).then(pl.lit("")).otherwise(pl.col("pid")).alias("pid"),
        pl.when(on_device).then(pl.lit("")).otherwise(pl.col("tid")).alias("tid"),
    )


def _device_label() -> pl.Expr:
    """Return what the file calls a device, such as MTIA 17, if that names its vendor and has its number."""
    is_numbered = pl.col("label").str.extract(r"([0-9]+)$") == pl.col("device").cast(pl.String)
    return pl.when(pl.col("label").str.contains(VENDOR_NAMED) & is_numbered).then("label").alias("device_label")


def _lane_name() -> pl.Expr:
    device = pl.coalesce("device_label", pl.format("device {}", pl.col("device").fill_null(0)))
    stream = pl.format("{} stream {}", device, pl.col("stream").fill_null(0))
    thread = pl.coalesce("name", pl.format("thread {}", pl.col("tid")))
    return pl.when(pl.col("kind") == "stream").then(stream).otherwise(thread)
