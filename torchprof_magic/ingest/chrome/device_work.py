"""Finds the work of devices in files that name it otherwise than CUDA's: by category, process or name of an event.

What vendors call things is in ``VENDORS``. A file whose device work has no known name is reported as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.ingest.chrome.categories import is_known
from torchprof_magic.ingest.chrome.columns import number_behind
from torchprof_magic.ingest.findings import value_text
from torchprof_magic.model.intervals import innermost_at
from torchprof_magic.model.known_names import which_match
from torchprof_magic.model.meta import shortened
from torchprof_magic.model.problems import problem
from torchprof_magic.model.rows import are_in, rows_where, with_series
from torchprof_magic.model.trace import CATEGORY, DEVICE_CATEGORIES, HOST_CATEGORIES, MAX_SUM
from torchprof_magic.model.vendors import ACCELERATOR, AUTOGRAD_ARROWS, LAUNCH_ARROWS, VENDORS, beginning_with

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.ingest.chrome.spans import Columns
    from torchprof_magic.ingest.findings import Findings
    from torchprof_magic.ingest.json.schema import DeviceProperties
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.vendors import Vendor

# More devices than any machine has.
MAX_DEVICES = 1024
_MAX_QUOTED = 5
_MAX_QUOTED_CHARS = 80
_CAT = pl.col("cat").str.to_lowercase()
_ON_DEVICE = pl.col("category").is_in(DEVICE_CATEGORIES)
# What is equal in two events that are one.
_SAME = ("place", "start_ns", "dur_ns", "name", "correlation")
_IS_OTHER = pl.col("category") == "other"


def without_copies(columns: Columns, findings: Findings) -> Columns:
    """Return the columns without work of devices that is in them already: with all of its times, name and launch."""
    spans = columns.spans
    is_work = are_in(columns.places["category"], DEVICE_CATEGORIES)[spans["place"].to_numpy()]
    is_work &= spans["dur_ns"].to_numpy() > 0
    start_ns = spans["start_ns"].to_numpy()[is_work]
    if len(np.unique(start_ns)) == len(start_ns):
        return columns
    work = spans.with_row_index("row").filter(pl.Series(is_work)).select("row", *_SAME)
    copies = work.filter(~pl.struct(_SAME).is_first_distinct())
    if copies.height == 0:
        return columns
    findings.add("chrome.repeated_work", copies.height, example=f"the event {value_text(str(copies['name'][0]))}")
    is_kept = np.ones(spans.height, np.bool_)
    is_kept[copies["row"].to_numpy()] = False
    return columns._replace(spans=spans.filter(pl.Series(is_kept)))


def with_device_work(columns: Columns) -> Columns:
    """Return the columns of one file with the work of every vendor's devices in the categories of device work.

    ``places`` gets three columns: ``vendor``, the device type where the file names work as only one vendor does;
    ``label``, what the file calls the process if that is the name of a device; and ``unknown``, what the file calls
    rows that may be device work that is not understood. Calls in a process of their own move to the host thread.
    """
    processes, places = columns.process_names, columns.places
    if "" in (names := set(processes["name"].to_list())):
        processes = processes.filter(processes["name"] != "")
    places = places.hstack([pl.Series("vendor", [""]).new_from_index(0, places.height)])
    spans, arrows = columns.spans, columns.arrows
    cats = set(map(str.lower, places["cat"].to_list()))
    for vendor in VENDORS:
        if names.isdisjoint((*vendor.work_processes, *vendor.call_processes)) and cats.isdisjoint(
            vendor.work_categories
        ):
            continue
        is_work = _is_work(vendor, processes)
        if places.select(is_work.any()).item():
            device = pl.when(is_work).then(pl.lit(vendor.device)).otherwise("vendor")
            places = _without_mirrored_calls(vendor, places.with_columns(device.alias("vendor")))
            spans, places = _with_kinds(vendor, spans, places)
        if pids := _pids_of(vendor.call_processes, processes):
            host, is_theirs = _host_processes(places, pids), pl.col("pid").is_in(pids)
            places = _with_category(places, is_theirs & _IS_OTHER & (pl.col("vendor") == ""), "runtime")
            places = _on_host(places, host, is_theirs & (pl.col("category") == "runtime"))
            arrows = _on_host(arrows, host, is_theirs)
    return columns._replace(spans=spans, places=_with_labels(places, processes), arrows=arrows)


def _pids_of(names: tuple[str, ...], processes: pl.DataFrame) -> list[str]:
    return processes.filter(pl.col("name").is_in(names))["pid"].unique().to_list()


def _is_work(vendor: Vendor, processes: pl.DataFrame) -> pl.Expr:
    named = (_IS_OTHER | _ON_DEVICE) & pl.col("pid").is_in(_pids_of(vendor.work_processes, processes))
    return named | _CAT.is_in(vendor.work_categories)


def _without_mirrored_calls(vendor: Vendor, places: pl.DataFrame) -> pl.DataFrame:
    """Return the places with the runtime calls in the process of a device as other events: they repeat the host's."""
    if not vendor.mirrors_calls:
        return places
    devices = places.filter(pl.col("vendor") == vendor.device)["pid"].unique()
    hosts = places.filter(pl.col("category") == "cpu_op")["pid"].unique()  # such as process 17, beside device 17
    is_repeated = (
        _CAT.is_in(vendor.runtime_categories)
        & pl.col("pid").is_in(devices.implode())
        & ~pl.col("pid").is_in(hosts.implode())
    )
    return _with_category(places, is_repeated, "other")


def _with_category(places: pl.DataFrame, condition: pl.Expr, category: str) -> pl.DataFrame:
    changed = pl.when(condition).then(pl.lit(category, CATEGORY)).otherwise("category")
    return places.with_columns(changed.alias("category"))


def _with_kinds(vendor: Vendor, spans: pl.DataFrame, places: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return spans and places with a place for every kind of a vendor's rows: kernels, copies, fills, bookkeeping."""
    ours = places.with_row_index("place").filter(pl.col("vendor") == vendor.device)["place"].cast(pl.Int32)
    rows = spans.select("place", "name").with_row_index("row").filter(pl.col("place").is_in(ours.implode()))
    names = rows.select(pl.col("name").unique()).with_columns(_kind(vendor).alias("category"))
    rows = rows.join(names, on="name", maintain_order="left")
    kinds = rows.select("place", "category").unique(maintain_order=True)
    numbers = pl.int_range(places.height, places.height + pl.len(), dtype=pl.Int32)
    numbered = kinds.with_columns(numbers.alias("new"))
    rows = rows.join(numbered, on=["place", "category"], maintain_order="left")
    place = spans["place"].to_numpy().copy()
    place[rows["row"].to_numpy()] = rows["new"].to_numpy()
    added = places[kinds["place"]].with_columns(kinds["category"])
    return spans.with_columns(pl.Series("place", place, dtype=pl.Int32)), pl.concat([places, added])


def _kind(vendor: Vendor) -> pl.Expr:
    name = pl.col("name").cast(pl.String)
    return (
        pl.when(name.str.contains(beginning_with(vendor.bookkeeping)))
        .then(pl.lit("other"))
        .when(name.str.contains(beginning_with(vendor.copies)))
        .then(pl.lit("memcpy"))
        .when(name.str.contains(beginning_with(vendor.fills)))
        .then(pl.lit("memset"))
        .otherwise(pl.lit("kernel"))
        .cast(CATEGORY)
    )


def _host_processes(places: pl.DataFrame, pids: list[str]) -> pl.DataFrame:
    """Return for each thread number the process of the host that has this thread."""
    is_host = pl.col("category").is_in(HOST_CATEGORIES) & ~pl.col("pid").is_in(pids)
    threads = places.filter(is_host).select("tid", pl.col("pid").alias("host"))
    return threads.unique("tid", keep="first", maintain_order=True)


def _on_host(frame: pl.DataFrame, host: pl.DataFrame, condition: pl.Expr) -> pl.DataFrame:
    """Return the rows that meet the condition moved to the process of the host that has their thread."""
    joined = frame.join(host, on="tid", how="left", maintain_order="left")
    moved = pl.when(condition).then(pl.coalesce("host", "pid")).otherwise("pid")
    return joined.with_columns(moved.alias("pid")).drop("host")


def _with_labels(places: pl.DataFrame, processes: pl.DataFrame) -> pl.DataFrame:
    """Return the places with the ``label`` of their device, and what the file calls those that are ``unknown``.

    A device has the number in its label if nothing else in the file numbers it. Rows with a stream, or in the process
    of an accelerator, are unknown if no vendor is known to name its work so.
    """
    named = rows_where(processes, which_match(processes["name"], ACCELERATOR))
    rows = [(pid, name, number_behind(name)) for pid, name in named[["pid", "name"]].iter_rows()]
    # Of several names of a process the last one with a number is taken, else the last one.
    best = {pid: (name, number) for pid, name, number in sorted(rows, key=lambda row: row[2] is not None)}
    last = {pid: name for pid, name, _ in rows}
    found = [
        _labelled(_Rows(category, vendor, cat, device, stream), *best.get(pid, (None, None)), last.get(pid))
        for category, vendor, cat, device, stream, pid in places[[*_Rows._fields, "pid"]].iter_rows()
    ]
    return with_series(
        places,
        pl.Series("device", [each.device for each in found], dtype=pl.Int32),
        pl.Series("label", [each.label for each in found], dtype=pl.String),
        pl.Series("unknown", [each.unknown for each in found], dtype=pl.String),
    )


class _Rows(NamedTuple):
    """What the rows of one place have in common, as a row of ``places`` says it."""

    category: str
    vendor: str
    cat: str
    device: int | None
    stream: int | None


class _Labelled(NamedTuple):
    """The device of a place and its label, and what the file calls the place if it is unknown."""

    device: int | None
    label: str | None
    unknown: str | None


def _labelled(rows: _Rows, label: str | None, number: int | None, accelerator: str | None) -> _Labelled:
    """Return what a place is called; its process may have a label, a number in it, and be that of an accelerator."""
    if rows.category in DEVICE_CATEGORIES:
        return _Labelled(number if rows.vendor and rows.device is None else rows.device, label, None)
    is_near = rows.stream is not None or accelerator is not None
    is_strange = rows.category == "other" and rows.vendor == "" and is_near and not (rows.cat and is_known(rows.cat))
    named = rows.cat or f"rows of {'a stream' if accelerator is None else accelerator}"
    return _Labelled(rows.device, None, named if is_strange else None)


def unknown_work(spans: pl.DataFrame, places: pl.DataFrame) -> tuple[Problem, ...]:
    """Return the problem that the file seems to have device work, but none that is understood."""
    if places["unknown"].null_count() == places.height:
        return ()
    counts = spans.group_by("place").len("count")
    numbered = places.select("category", "unknown", pl.int_range(pl.len(), dtype=pl.Int32).alias("place"))
    used = numbered.join(counts, on="place")
    found = used.drop_nulls("unknown").group_by("unknown").agg(pl.col("count").sum())
    if found.height == 0 or used.select(_ON_DEVICE.any()).item():
        return ()
    names = found.sort("count", "unknown", descending=[True, False])["unknown"].to_list()
    quoted = [f'"{shortened(name, _MAX_QUOTED_CHARS)}"' for name in names[:_MAX_QUOTED]]
    more = [f"{len(names) - _MAX_QUOTED} more"] if len(names) > _MAX_QUOTED else []
    total = int(found["count"].sum())
    return (problem("chrome.unknown_device_work", count=total, categories=", ".join(quoted + more)),)


def with_arrows_as_correlations(
    events: pl.DataFrame, places: pl.DataFrame, lanes: pl.Series, arrows: pl.DataFrame
) -> pl.DataFrame:
    """Return the events with a common correlation for each runtime call and the device work to which its arrows point.

    An arrow ends at the moment at which a row of a device begins; the call is the innermost one around its start. Those
    of torch's autograd profiler begin at ops.
    ``lanes`` are those of ``places``, which have processes and threads as in the file.
    """
    points_to_work = are_in(arrows["cat"], (*LAUNCH_ARROWS, *AUTOGRAD_ARROWS))
    if not points_to_work.any():
        return events
    arrows = rows_where(arrows, points_to_work)
    threads = places.select("pid", "tid", lanes.alias("lane")).drop_nulls().unique()
    ends = arrows.join(threads, on=["pid", "tid"], maintain_order="left")
    rows = events.select("lane", "cycle", "start_ns", "dur_ns", "category").with_row_index("row")
    is_autograd = arrows["cat"].cast(pl.String).is_in(AUTOGRAD_ARROWS).any()
    callers = ("cpu_op",) if is_autograd else ("runtime",)
    starts = _with_calls(ends.filter(pl.col("is_start")), rows.filter(pl.col("category").is_in(callers)))
    starts = starts.unique(["cycle", "id"], keep="first", maintain_order=True)
    targets = ends.filter(~pl.col("is_start")).join(
        rows.filter(_ON_DEVICE), left_on=["cycle", "lane", "time_ns"], right_on=["cycle", "lane", "start_ns"]
    )
    pairs = targets.select("cycle", "id", "row").join(starts, on=["cycle", "id"])
    pairs = pairs.sort("row", "row_call").unique("row", keep="first")
    correlation = events["correlation"].to_physical()
    numbers = pairs["row_call"].rank("dense").cast(pl.Int64) + _highest(correlation)
    for row in ("row_call", "row"):
        correlation = correlation.scatter(pairs[row], numbers)
    return events.with_columns(correlation)


def _highest(numbers: pl.Series) -> int:
    """Return the highest number, 0 if there is none or it is so high that others above it would not fit into int64."""
    highest = numbers.max()
    return highest if isinstance(highest, int) and 0 < highest < MAX_SUM else 0


def _with_calls(starts: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the starts of arrows that lie in a runtime call, with the innermost such call."""
    lane, start, dur = (calls[name].to_numpy().astype(np.int64) for name in ("lane", "start_ns", "dur_ns"))
    at = innermost_at(lane, start, dur, starts["lane"].to_numpy().astype(np.int64), starts["time_ns"].to_numpy())
    found = starts.select("cycle", "id").filter(pl.Series(at >= 0))
    return found.with_columns(calls["row"][at[at >= 0]].alias("row_call"))


def device_names(
    events: pl.DataFrame, places: pl.DataFrame, properties: Sequence[DeviceProperties]
) -> tuple[tuple[int, str], ...]:
    """Return the numbers and names of the devices that worked: as the file calls them, else the vendor's platform."""
    described = {device.id: device.title for device in properties if device.title and isinstance(device.id, int)}
    used: dict[int | None, list[tuple[int, str | None, str]]] = {}
    columns = (places[name].to_list() for name in ("category", "first", "device", "label", "vendor"))
    for category, first, device, label, vendor in zip(*columns, strict=True):
        if category in DEVICE_CATEGORIES and first is not None:
            used.setdefault(device, []).append((first, label, vendor))
    titles = {vendor.device: vendor.title for vendor in VENDORS}
    named = []
    for device in sorted(used, key=lambda number: (number is not None, number or 0))[:MAX_DEVICES]:
        in_time = sorted(used[device], key=lambda place: place[0])
        label = next((label for _, label, _ in in_time if label is not None), "")
        title = titles.get(max(vendor for _, _, vendor in in_time), "")
        named.append((device or 0, described.get(device or 0) or label or title))
    platform = "" if all(name for _, name in named) else _platform(events, places)
    return tuple((number, name or platform) for number, name in named if name or platform)


def _platform(events: pl.DataFrame, places: pl.DataFrame) -> str:
    """Return the platform whose runtime was called; names come first, because ROCm's torch writes CUDA's categories."""
    is_call = pl.col("category") == "runtime"
    names = events.filter(is_call)["name"].unique().cast(pl.String)
    cats = places.filter(is_call).select(_CAT.unique())["cat"].to_list()
    called = (vendor for vendor in VENDORS if names.str.contains(beginning_with(vendor.call_starts)).any())
    recorded = (vendor for vendor in VENDORS if not set(cats).isdisjoint(vendor.runtime_categories))
    return next((vendor.title for vendors in (called, recorded) for vendor in vendors), "")
