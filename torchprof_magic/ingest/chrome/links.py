"""Links between events: launches, backward ops, steps, and the op around an allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.ingest.chrome.shared_numbers import nearest_calls
from torchprof_magic.model.intervals import innermost_at, interval_at
from torchprof_magic.model.rows import are_in
from torchprof_magic.model.trace import (
    ARROWS_SCHEMA,
    DEVICE_CATEGORIES,
    FLOWS_SCHEMA,
    MEMORY_SCHEMA,
    STEP_PATTERN,
    STEPS_SCHEMA,
    no_rows,
)

if TYPE_CHECKING:
    from torchprof_magic.ingest.findings import Findings


# The category of torch's arrows from calls to the work that they launch. Their ids are correlations.
LAUNCH_ARROW = "ac2g"


def launch_flows(events: pl.DataFrame, lanes: pl.DataFrame, findings: Findings) -> pl.DataFrame:
    """Return the links from runtime calls to device events, by correlation.

    One call can start many kernels (graph replay). ``External id`` is not used: in many traces it equals the
    correlation and matches a wrong op. Of calls with the same correlation, the nearest is taken.
    """
    is_work = are_in(events["category"], DEVICE_CATEGORIES)
    if not is_work.any():
        return no_rows("flows")
    rows = events.select("category", "cycle", "correlation", "lane", "start_ns", "device").with_row_index("row")
    on_device = rows.filter(pl.Series(is_work))
    is_call = pl.col("category").is_in(("runtime", "cpu_op"))  # ops have correlations in old exports of autograd only
    calls = rows.filter(is_call & pl.col("correlation").is_not_null())
    key = ["cycle", "correlation"]
    first = calls.unique(key, keep="first", maintain_order=True)
    joined = on_device.join(first, on=key, suffix="_call", maintain_order="left")
    if first.height < calls.height:
        joined = nearest_calls(on_device, calls, lanes)
        repeated = calls.filter(~calls["row"].is_in(first["row"].implode())).join(on_device, on=key, how="semi")
        findings.add("chrome.repeated_launch", repeated.height)
    findings.add("chrome.no_launch", on_device.height - joined.height)
    return _flows("launch", joined["row_call"], joined["row"])


def find_lost_launches(events: pl.DataFrame, arrows: pl.DataFrame, findings: Findings) -> None:
    """Count the arrows from launches to their work of which neither end is in the file, by their correlation.

    In files whose arrows mostly have other ids than events have correlations, they tell nothing.
    """
    is_begun = (arrows["cat"] == LAUNCH_ARROW) & arrows["is_start"]
    if not is_begun.any():
        return
    ids = arrows.filter(is_begun).select("cycle", "id").drop_nulls().unique()
    known = events.select("cycle", pl.col("correlation").alias("id")).drop_nulls().unique()
    lost = ids.join(known, on=["cycle", "id"], how="anti").height
    if 2 * lost < ids.height:
        findings.add("chrome.lost_launch", lost)


def annotation_flows(events: pl.DataFrame) -> pl.DataFrame:
    """Return the links from ranges to their spans on a device: one for every stream that the range launched work on."""
    if not (events["category"] == "gpu_user_annotation").any():
        return no_rows("flows")
    rows = events.select("category", "cycle", "correlation", "name").with_row_index("row")
    spans = rows.filter((pl.col("category") == "gpu_user_annotation") & pl.col("correlation").is_not_null())
    ranges = rows.filter((pl.col("category") == "user_annotation") & pl.col("correlation").is_not_null())
    key = ["cycle", "correlation", "name"]
    pairs = spans.join(ranges.unique(key, keep="first", maintain_order=True), on=key, maintain_order="left")
    return _flows("annotation", pairs["row_right"], pairs["row"])


def backward_flows(events: pl.DataFrame, lanes: pl.DataFrame, arrows: pl.DataFrame) -> pl.DataFrame:
    """Return the links from forward to backward ops, by the ``fwdbwd`` arrows with both ends and by sequence numbers.

    A sequence number belongs to one autograd node. If nested ops share it, the innermost one is linked: in the forward
    pass that op creates the node, in the backward pass it is the node. torch uses the same rule for its arrows. Older
    files and truncated ones have only the numbers.
    """
    if not (events["fwd_thread"] > 0).any():  # as where no backward pass was recorded
        return no_rows("flows")
    columns = ("category", "cycle", "lane", "start_ns", "sequence", "fwd_thread")
    ops = events.select(columns).with_row_index("row")
    ops = ops.filter((pl.col("category") == "cpu_op") & (pl.col("sequence") >= 0))
    if not (ops["fwd_thread"] > 0).any():
        return no_rows("flows")
    pointed, numbered = _pointed(ops, lanes, arrows), _numbered(ops)
    numbered = numbered.join(pointed, on="row_target", how="anti")
    return _flows("backward", *pl.concat([pointed, numbered]).get_columns())


def _numbered(ops: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of ops by sequence number."""
    is_backward = pl.col("fwd_thread").fill_null(0) > 0
    by_time = ops.sort("start_ns", "row")
    nodes = by_time.filter(is_backward).unique(["cycle", "fwd_thread", "sequence"], keep="last", maintain_order=True)
    pairs = nodes.rename({"row": "row_target"}).join_asof(
        by_time.filter(~is_backward),
        on="start_ns",
        by=["cycle", "sequence"],
        strategy="backward",
        check_sortedness=False,  # sorted above
    )
    return pairs.select("row", "row_target").drop_nulls()


def _pointed(ops: pl.DataFrame, lanes: pl.DataFrame, arrows: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of ops by the arrows between them in the file."""
    threads = lanes.with_row_index("lane").with_columns(pl.col("lane").cast(pl.Int32)).select("lane", "pid", "tid")
    # Of ops that start in the same ns, the innermost launched the backward op; rows are in nesting order.
    ops = (
        ops.join(threads, on="lane")
        .sort("row")
        .unique(["cycle", "pid", "tid", "start_ns"], keep="last", maintain_order=True)
    )
    at = {"left_on": ["cycle", "pid", "tid", "time_ns"], "right_on": ["cycle", "pid", "tid", "start_ns"]}
    ends = arrows.join(ops.select("cycle", "pid", "tid", "start_ns", "row"), **at)  # type: ignore[arg-type]
    sources = ends.filter(pl.col("is_start")).unique(["cycle", "id"], keep="last", maintain_order=True)
    targets = ends.filter(~pl.col("is_start")).unique(["cycle", "id"], keep="last", maintain_order=True)
    pairs = sources.join(targets, on=["cycle", "id"], suffix="_target", maintain_order="left")
    return pairs.select("row", "row_target")


def _flows(kind: str, source: pl.Series, target: pl.Series) -> pl.DataFrame:
    kinds = pl.Series([kind], dtype=FLOWS_SCHEMA["kind"]).new_from_index(0, len(source))
    ends = {"source": source.cast(FLOWS_SCHEMA["source"]), "target": target.cast(FLOWS_SCHEMA["target"])}
    return pl.DataFrame({"kind": kinds} | ends)


def count_arrows(*arrows: pl.DataFrame) -> pl.DataFrame:
    """Return how many arrows of each category begin, end, and have both ends, by their ids within a cycle."""
    ends = pl.concat([some.select("cat", "cycle", "id", "is_start") for some in arrows])
    if ends.height == 0:
        return no_rows("arrows")
    by_id = ends.group_by("cat", "cycle", "id").agg(
        pl.col("is_start").sum().alias("starts"), (~pl.col("is_start")).sum().alias("ends")
    )
    has_both = (pl.col("starts") > 0) & (pl.col("ends") > 0)
    counted = by_id.group_by(pl.col("cat").cast(pl.String).alias("category")).agg(
        pl.col("starts", "ends").sum(), pl.len().alias("ids"), has_both.sum().alias("paired")
    )
    return counted.select(ARROWS_SCHEMA.keys()).cast(ARROWS_SCHEMA).sort("category")  # type: ignore[arg-type]


def find_steps(events: pl.DataFrame, names: pl.Series, findings: Findings) -> pl.DataFrame:
    """Return the spans with the ``names`` of steps in order of time; all of them marked as complete."""
    if len(names) == 0:
        return no_rows("steps")
    found = events.filter((pl.col("category") == "user_annotation") & pl.col("name").is_in(names.implode()))
    steps = found.select(
        pl.col("name").cast(pl.String).str.extract(STEP_PATTERN).cast(pl.Int32).alias("number"),
        "cycle",
        "start_ns",
        (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"),
        pl.lit(value=True).alias("complete"),
    )
    first = steps.sort("start_ns").unique(["cycle", "number"], keep="first", maintain_order=True)
    findings.add("chrome.repeated_step", steps.height - first.height)
    return first.cast(STEPS_SCHEMA)  # type: ignore[arg-type]


def with_steps(events: pl.DataFrame, steps: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Return the events with the step they started in; device events belong to the step that launched them."""
    if steps.height == 0:
        return events.with_columns(pl.lit(None, pl.Int32).alias("step"))
    step = _step_at(events["start_ns"].to_numpy(), steps)
    source, target = launches["source"].to_numpy(), launches["target"].to_numpy()
    step[target] = step[source]
    series = pl.Series("step", step, dtype=pl.Int32)
    return events.with_columns(pl.when(series >= 0).then(series).alias("step"))


def _step_at(time_ns: np.ndarray, steps: pl.DataFrame) -> np.ndarray:
    """Return the number of the step that holds each time, or -1."""
    at = interval_at(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy(), time_ns)
    return np.where(at >= 0, np.append(steps["number"].to_numpy(), -1)[at], -1)


def attribute_memory(memory: pl.DataFrame, events: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    """Return the allocations in order of time, each with the innermost event of its own thread around it."""
    if memory.height == 0:
        return no_rows("memory")
    threads = lanes.with_row_index("lane").filter(pl.col("kind") == "thread").select("lane", "pid", "tid")
    memory = memory.with_columns(pl.col("pid", "tid").cast(pl.String))
    memory = memory.join(threads, on=["pid", "tid"], how="left", maintain_order="left").with_columns(
        pl.col("lane").fill_null(-1).cast(pl.Int64)
    )
    lane, start, dur = (events[name].to_numpy().astype(np.int64) for name in ("lane", "start_ns", "dur_ns"))
    event = innermost_at(lane, start, dur, memory["lane"].to_numpy(), memory["time_ns"].to_numpy())
    memory = memory.with_columns(pl.Series("event", event)).sort("time_ns", maintain_order=True)
    return memory.select(MEMORY_SCHEMA.keys()).cast(MEMORY_SCHEMA)  # type: ignore[arg-type]
