"""On which thread or stream did each event happen?"""

from __future__ import annotations

import polars as pl

from torchprof_magic.trace import DEVICE_CATEGORIES, HOST_CATEGORIES, LANE_KIND, LANES_SCHEMA

_KEY = ["kind", "pid", "tid", "device", "stream"]


def assign_lanes(
    spans: pl.DataFrame, places: pl.DataFrame, thread_names: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the spans with lane, category, device and stream, and the lanes: threads by first event, then streams.

    GPU-side annotations get lanes of their own: they include idle gaps and may overlap, so they enclose no kernel.
    ``places`` has a row for each spelling of category, process, thread, device and stream in the files.
    """
    keyed = _with_keys(places.with_row_index("place").with_columns(pl.col("place").cast(pl.Int32)))
    first = spans.group_by("place").agg(pl.col("start_ns").min().alias("first"))
    keyed = keyed.join(first, on="place")
    lanes = keyed.group_by(_KEY).agg(pl.col("first").min()).sort("kind", "first", "pid", "tid")
    lanes = lanes.with_row_index("lane").with_columns(pl.col("lane").cast(pl.Int32))
    keyed = keyed.join(lanes.select(*_KEY, "lane"), on=_KEY, how="left", nulls_equal=True)
    spans = spans.join(
        keyed.select("place", "lane", "category", "device", "stream"), on="place", how="left", maintain_order="left"
    ).drop("place")
    names = thread_names.unique(["pid", "tid"], keep="last")
    named = lanes.join(names, on=["pid", "tid"], how="left", maintain_order="left")
    named = named.with_columns(_lane_name().alias("name"))
    return _with_step_annotations(spans), named.select(LANES_SCHEMA.keys())


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
    stream = pl.coalesce("stream", pl.col("tid").str.extract(r"(\d+)$").cast(pl.Int32, strict=False))
    return places.with_columns(
        kind,
        pl.when(on_device).then(device).alias("device"),
        pl.when(on_device).then(stream).alias("stream"),
    ).with_columns(
        # A device's pid and tid spelling changes over the years; they must not split one stream in two lanes.
        pl.when(on_device).then(pl.lit("")).otherwise(pl.col("pid")).alias("pid"),
        pl.when(on_device).then(pl.lit("")).otherwise(pl.col("tid")).alias("tid"),
    )


def _with_step_annotations(spans: pl.DataFrame) -> pl.DataFrame:
    """Old and Ascend files write ``ProfilerStep#N`` as an operator; it is an annotation everywhere here."""
    names = spans["name"].unique()
    steps = names.filter(names.cast(pl.String).str.starts_with("ProfilerStep#"))
    if len(steps) == 0:
        return spans
    is_step = pl.col("name").is_in(steps.implode()) & (pl.col("category") == "cpu_op")
    annotation = pl.lit("user_annotation").cast(spans.schema["category"])
    return spans.with_columns(pl.when(is_step).then(annotation).otherwise(pl.col("category")).alias("category"))


def _lane_name() -> pl.Expr:
    stream = pl.format("device {} stream {}", pl.col("device").fill_null(0), pl.col("stream").fill_null(0))
    thread = pl.coalesce("name", pl.format("thread {}", pl.col("tid")))
    return pl.when(pl.col("kind") == "stream").then(stream).otherwise(thread)
