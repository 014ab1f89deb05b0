"""Writes a Chrome trace that every viewer can load completely.

Times are µs with exactly three decimals, names are ASCII JSON, no two events of a thread partly overlap, and arrows
come in pairs. The ends of an arrow directly follow their events, so that viewers attach them to the right ones.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.exporters.exact_text import json_list, json_text, json_value, micros, translated
from torchprof_magic.exporters.tracks import UNUSED_NUMBER, lay_tracks
from torchprof_magic.model.counter_names import event_name
from torchprof_magic.model.cycle_filter import without_captures
from torchprof_magic.model.fx_marks import SCOPE, marks_of
from torchprof_magic.model.graph_notes import note_of_text
from torchprof_magic.model.intervals import NO_PARENT
from torchprof_magic.model.meta import CALL_STACKS_KEY
from torchprof_magic.model.rows import values_at
from torchprof_magic.model.trace import COLLECTIVE_KEYS, LAUNCH_KEYS, TEXT
from torchprof_magic.model.vendors import DEVICE_TYPES, RUNTIME_CATEGORIES
from torchprof_magic.system.files.atomic import write_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchprof_magic.exporters.tracks import Tracks
    from torchprof_magic.model.meta import Meta, ProcessGroup
    from torchprof_magic.model.trace import Trace

CHUNK_ROWS = 200_000  # lines written at once, of about 300 bytes each
FIRST_DEVICE_SORT_INDEX = 5_000_000  # where Kineto puts devices: below all processes of the host
# As Kineto names them. A trace does not keep which vendor's runtime was called, so all calls get the first name.
_CATS = {"runtime": RUNTIME_CATEGORIES[0], "memcpy": "gpu_memcpy", "memset": "gpu_memset"}
_ARROW_CATS = {"launch": "ac2g", "backward": "fwdbwd"}
_TYPE_OF_DEVICE = {device: number for number, device in DEVICE_TYPES.items()}
_UNKNOWN_DEVICE_TYPE = 99  # a number that torch does not use
_ARGS = (
    ("correlation", "correlation"),
    ("external_id", "External id"),
    ("stream", "stream"),
    ("device", "device"),
    ("bytes", "bytes"),
    ("sequence", "Sequence number"),
    ("fwd_thread", "Fwd thread id"),
    ("shapes", "Input Dims"),
    ("dtypes", "Input type"),
    ("concrete_inputs", "Concrete Inputs"),
    ("script_modules", "Module Hierarchy"),
    ("kernel", "kernel"),
    ("graph_node", "graph node id"),
    ("stack_trace", "stack_trace"),
    ("node_name", "node_name"),
)
_MEMORY_ARGS = (
    ("reserved_bytes", "Total Reserved"),
    ("allocated_bytes", "Total Allocated"),
    ("delta_bytes", "Bytes"),
    ("address", "Addr"),
    ("device_id", "Device Id"),
    ("device_type", "Device Type"),
)
# Allocations outside of all events get a thread of their own: their thread is unknown.
OUTSIDE_NAME = "memory outside of ops"
OUTSIDE_TID = UNUSED_NUMBER
# Counters get processes of their own, named by their id as torch does it: viewers show a text as it is.
FIRST_COUNTER_SORT_INDEX = 100
_COUNTERS_OF_DEVICE = "GPU {} Counters"
_COUNTERS_OF_HOST = "Counters"


def write_chrome(trace: Trace, path: Path) -> Path:
    """Write one Chrome trace of all cycles, gzipped if the name ends in ``.gz``, and return its path.

    The file contains the whole trace, except the cycles of events and arrows that go back in time. Overlapping events
    are on separate tracks, so the self times of the events around them differ when the file is read again. Stacks are
    included if their Python frames are events, so not those of a two-pass recording.
    """
    return write_text(path, chrome_lines(trace))


def chrome_lines(trace: Trace) -> Iterator[str]:
    """Yield the file in large chunks."""
    trace = without_captures(trace)
    tracks = lay_tracks(trace)
    times = (trace.events["start_ns"], trace.memory["time_ns"], trace.counters["time_ns"])
    first_ns = min(*map(_lowest, times), 0)
    head = json.dumps(_head(trace.meta, trace.meta.start_unix_ns + first_ns))
    yield f'{head[:-1]}, "traceEvents": [\n'
    separator = ""
    for lines in _parts(trace, tracks, first_ns):
        if lines:
            yield separator + ",\n".join(lines)
            separator = ",\n"
    yield "\n]}\n"


def _lowest(times: pl.Series) -> int:
    lowest = times.min()
    return lowest if isinstance(lowest, int) else 0


def _head(meta: Meta, base_unix_ns: int) -> dict[str, object]:
    head: dict[str, object] = {"schemaVersion": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": base_unix_ns}
    head["deviceProperties"] = _properties(meta)
    groups = [_group(group) for group in meta.process_groups]
    job = {
        "backend": meta.backend or None,
        "rank": meta.rank,
        "world_size": meta.world_size,
        "pg_count": len(groups) or None,
        "pg_config": groups or None,
    }
    if known := {key: value for key, value in job.items() if value is not None}:
        head["distributedInfo"] = known
    flags = {"record_shapes": meta.has_shapes, "profile_memory": meta.has_memory, "with_stack": meta.has_stacks}
    head |= {
        key: 1 for key, is_on in ((CALL_STACKS_KEY, meta.has_call_stacks), ("with_flops", meta.has_flops)) if is_on
    }
    return {key: _value_of(text) for key, text in meta.extra} | head | {name: int(on) for name, on in flags.items()}


def _group(group: ProcessGroup) -> dict[str, object]:
    return {
        "pg_name": group.name,
        "pg_desc": group.description,
        "backend_config": group.backend,
        "pg_size": group.size,
        "ranks": list(group.ranks),
    }


def _properties(meta: Meta) -> list[dict[str, object]]:
    """Return the devices that worked with their numbers, and any further names of devices."""
    worked: list[dict[str, object]] = [{"id": number, "name": name} for number, name in meta.devices]
    others = [name for name in meta.device_names if name not in dict(meta.devices).values()]
    return worked + [{"name": name} for name in others]


def _value_of(text: str) -> object:
    """Return a metadata text as the JSON value it holds, or unchanged if it is not JSON."""
    try:
        return json.loads(text, parse_constant=lambda _: text)
    except (ValueError, RecursionError):
        return text


def _parts(trace: Trace, tracks: Tracks, first_ns: int) -> Iterator[list[str]]:
    yield _metadata_lines(tracks, has_outside=bool((trace.memory["event"] < 0).any()))
    yield _profiler_lines(trace, first_ns)
    events = _with_tracks(_with_nodes(trace), tracks).with_columns(pl.col("start_ns") - first_ns)
    arrows = _arrow_ends(trace, events)
    for offset in range(0, events.height, CHUNK_ROWS):
        chunk = events.slice(offset, CHUNK_ROWS)
        ends = arrows.filter(pl.col("row").is_between(offset, offset + CHUNK_ROWS - 1))
        yield _event_lines(chunk, ends)
    outside_pid = next(iter(tracks.frame["pid"]), 0)
    for memory in trace.memory.with_columns(pl.col("time_ns") - first_ns).iter_slices(CHUNK_ROWS):
        yield _memory_lines(memory, events, outside_pid)
    yield _counter_order_lines(trace.counters)
    for counters in trace.counters.with_columns(pl.col("time_ns") - first_ns).iter_slices(CHUNK_ROWS):
        yield _counter_lines(counters)


def _with_nodes(trace: Trace) -> pl.DataFrame:
    """Return the events with what torch writes at those in compiled code: the name of the node and its lines."""
    if not trace.fx_nodes.height:
        return trace.events.with_columns(pl.lit(None, TEXT).alias(name) for name in ("stack_trace", "node_name"))
    is_scope = trace.events["name"].cast(pl.String).str.contains(SCOPE).to_numpy()
    node = np.where(is_scope, NO_PARENT, marks_of(trace).node)
    stack, name = (values_at(trace.fx_nodes[column], node) for column in ("stack", "name"))
    return trace.events.with_columns(stack.alias("stack_trace"), name.alias("node_name"))


def _with_tracks(events: pl.DataFrame, tracks: Tracks) -> pl.DataFrame:
    places = tracks.frame.select("pid", "tid")[tracks.track]
    correlation = pl.Series("correlation", _unique_correlations(events), dtype=pl.Int64)
    is_range = pl.col("category").is_in(("user_annotation", "gpu_user_annotation"))
    events = events.with_columns(correlation).with_columns(
        pl.when(~is_range).then("correlation").alias("correlation"),
        pl.when(is_range).then("correlation").alias("external_id"),
    )
    return pl.concat([events, places], how="horizontal").with_row_index("row")


def _unique_correlations(events: pl.DataFrame) -> pl.Series:
    """Return the correlation numbers, shifted in later cycles if a number would occur in two cycles."""
    key = events.select("cycle", "correlation").filter(pl.col("correlation").is_not_null())
    cycles = key["cycle"].unique().sort().to_list()
    correlation = events["correlation"]
    used = key.filter(pl.col("cycle") == cycles[0])["correlation"].unique() if cycles else pl.Series([], dtype=pl.Int64)
    for cycle in cycles[1:]:
        numbers = key.filter(pl.col("cycle") == cycle)["correlation"].unique()
        if numbers.is_in(used).any():
            above = _highest(used) - _lowest(numbers) + 1
            correlation = correlation.zip_with((events["cycle"] != cycle).fill_null(value=True), correlation + above)
            numbers = numbers + above
        used = pl.concat([used, numbers])
    return correlation


def _highest(numbers: pl.Series) -> int:
    highest = numbers.max()
    return highest if isinstance(highest, int) else 0


def _metadata_lines(tracks: Tracks, *, has_outside: bool) -> list[str]:
    """Return the names and order of tracks: processes first, then devices, spill tracks below their thread."""
    rows = tracks.frame.select("kind", "process", "pid", "tid", "name").rows()
    on_device = {pid for kind, _, pid, _, _ in rows if kind == "stream"}
    if has_outside:
        _, process, pid, _, _ = rows[0] if rows else ("", "process", 0, 0, "")
        rows.append(("other", process, pid, OUTSIDE_TID, OUTSIDE_NAME))
    lines = []
    for pid, name in {pid: name for _, name, pid, _, _ in reversed(rows)}.items():
        is_device = pid in on_device
        order = FIRST_DEVICE_SORT_INDEX + pid if is_device else pid
        lines += [_named("process_name", pid, 0, name=name), _named("process_sort_index", pid, 0, sort_index=order)]
        lines.append(_named("process_labels", pid, 0, labels=name if is_device else "CPU"))
    for order, (_, _, pid, tid, name) in enumerate(rows):
        lines += [_named("thread_name", pid, tid, name=name), _named("thread_sort_index", pid, tid, sort_index=order)]
    return lines


def _profiler_lines(trace: Trace, first_ns: int) -> list[str]:
    """Return the profiler's own span, as Kineto writes it, if the recording began before its first event."""
    earliest = [time for time in (trace.events["start_ns"].min(), trace.memory["time_ns"].min()) if time is not None]
    if not earliest or min(earliest) == first_ns:
        return []
    end_ns = trace.events.select((pl.col("start_ns") + pl.col("dur_ns")).max()).item() or 0
    place = {"pid": UNUSED_NUMBER, "tid": 0}
    span = json.dumps({"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", **place, "ts": 0})
    dur = pl.select(micros(pl.lit(max(end_ns - first_ns, 0), pl.Int64))).item()
    names = (
        _named("process_name", *place.values(), name="Spans"),
        _named("thread_name", *place.values(), name="Recording"),
    )
    return [*names, f'{span[:-1]}, "dur": {dur}}}']


def _named(what: str, pid: int | str, tid: int, **args: str | int) -> str:
    return json.dumps({"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": args})


def _event_lines(events: pl.DataFrame, arrow_ends: pl.DataFrame) -> list[str]:
    """Return one line per event, followed by the arrows that begin or end at it."""
    texts = events.with_columns(
        translated(_full_names(events), json_text).alias("name"),
        translated(events["shapes"], json_value).alias("shapes"),
        translated(events["dtypes"], json_value).alias("dtypes"),
        translated(events["concrete_inputs"], json_value).alias("concrete_inputs"),
        translated(events["script_modules"], json_text).alias("script_modules"),
        translated(events["kernel"], json_text).alias("kernel"),
        translated(events["stack_trace"], json_text).alias("stack_trace"),
        translated(events["node_name"], json_text).alias("node_name"),
        translated(events["launch_config"], partial(_members, LAUNCH_KEYS)).alias("launch_members"),
        translated(events["collective"], partial(_members, COLLECTIVE_KEYS)).alias("collective_members"),
        translated(events["annotation"], _own_members).alias("annotation_members"),
    )
    lines = texts.select(
        "row",
        pl.concat_str(
            pl.lit('{"ph": "X", "cat": "'),
            pl.col("category").cast(pl.String).replace(_CATS),
            pl.lit('", "name": '),
            pl.col("name").fill_null('""'),
            _place(),
            pl.lit(', "ts": '),
            micros(pl.col("start_ns")),
            pl.lit(', "dur": '),
            micros(pl.col("dur_ns").clip(lower_bound=0)),
            pl.lit(', "args": {'),
            _arguments(_ARGS, "launch_members", "collective_members", "annotation_members"),
            pl.lit("}}"),
        ).alias("line"),
    )
    return pl.concat([lines, arrow_ends]).sort("row", maintain_order=True)["line"].to_list()


def _full_names(events: pl.DataFrame) -> pl.Series:
    """Return the names with the overloads, as torch writes them."""
    if events["overload"].null_count() == events.height:
        return events["name"]
    name = pl.col("name").cast(pl.String)
    full = pl.when(pl.col("overload").is_null()).then(name).otherwise(pl.format("{}.{}", name, "overload"))
    return events.select(full.alias("name"))["name"]


def _place() -> pl.Expr:
    return pl.format(', "pid": {}, "tid": {}', "pid", "tid")


def _arguments(keys: tuple[tuple[str, str], ...], *members: str) -> pl.Expr:
    """Return the members of an object; null values are left out. Columns of ``members`` hold whole members."""
    each = [pl.concat_str(pl.lit(f', "{key}": '), pl.col(column).cast(pl.String)).fill_null("") for column, key in keys]
    each += [pl.concat_str(pl.lit(", "), pl.col(column)).fill_null("") for column in members]
    return pl.concat_str(each).str.strip_prefix(", ")


def _members(keys: tuple[str, ...], array: str) -> str | None:
    """Return the values of an array as members of an object; None where the array is not valid."""
    known = {key: value for key, value in zip(keys, json_list(array), strict=False) if value is not None}
    return json.dumps(known)[1:-1] or None


def _own_members(text: str) -> str | None:
    """Return the members of an object, as of an annotation; None where it says nothing."""
    said = note_of_text(text).as_text
    return said[1:-1] or None


def _arrow_ends(trace: Trace, events: pl.DataFrame) -> pl.DataFrame:
    """Return two lines per arrow, each with the row of its event. An arrow ends when its target begins, or later."""
    at = events.select("pid", "tid", "start_ns", (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"))
    flows = trace.flows.filter(pl.col("kind").cast(pl.String).is_in(tuple(_ARROW_CATS))).with_row_index("id")
    sources, targets = at[flows["source"].to_numpy()], at[flows["target"].to_numpy()]
    arrives = pl.select(pl.max_horizontal(sources["start_ns"], targets["start_ns"])).to_series()
    is_forward = arrives <= targets["end_ns"]
    starts = _ends_at(flows, sources.with_columns(row=flows["source"]), "s", "")
    moved = targets.with_columns(row=flows["target"], start_ns=arrives)
    finishes = _ends_at(flows, moved, "f", ', "bp": "e"')
    # At each event, arrow ends come before arrow starts, so that no arrow seems to continue.
    return pl.concat([finishes.filter(is_forward), starts.filter(is_forward)])


def _ends_at(flows: pl.DataFrame, places: pl.DataFrame, phase: str, binding: str) -> pl.DataFrame:
    cat = flows["kind"].cast(pl.String).replace(_ARROW_CATS).alias("cat")
    frame = places.with_columns(cat, flows["id"])
    line = pl.concat_str(
        pl.lit(f'{{"ph": "{phase}", "id": '),
        pl.col("id").cast(pl.String),
        pl.format(', "cat": "{}", "name": "{}"', "cat", "cat"),
        _place(),
        pl.lit(', "ts": '),
        micros(pl.col("start_ns")),
        pl.lit(f"{binding}}}"),
    )
    return frame.select(pl.col("row").cast(pl.get_index_type()), line.alias("line"))


def _memory_lines(memory: pl.DataFrame, events: pl.DataFrame, outside_pid: int) -> list[str]:
    """Return one instant event per allocation or release, on the thread of the event that it belongs to."""
    places = events.select("pid", "tid", pl.col("row").cast(pl.Int32).alias("event"))
    kind, index = pl.col("device").str.extract(r"^([^:]*)"), pl.col("device").str.extract(r":(-?[0-9]+)$")
    frame = memory.join(places, on="event", how="left", maintain_order="left").with_columns(
        pl.col("pid").fill_null(outside_pid),
        pl.col("tid").fill_null(OUTSIDE_TID),
        kind.replace_strict(_TYPE_OF_DEVICE, default=_UNKNOWN_DEVICE_TYPE, return_dtype=pl.Int64).alias("device_type"),
        index.cast(pl.Int64, strict=False).fill_null(-1).cast(pl.String).alias("device_id"),
    )
    line = pl.concat_str(
        pl.lit('{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]"'),
        _place(),
        pl.lit(', "ts": '),
        micros(pl.col("time_ns")),
        pl.lit(', "args": {'),
        _arguments(_MEMORY_ARGS),
        pl.lit("}}"),
    )
    return frame.select(line).to_series().to_list()


def _counter_order_lines(counters: pl.DataFrame) -> list[str]:
    """Return the order of the processes of the counters: above all others, those of devices by their number."""
    devices = counters["device"].unique().sort(nulls_last=True).to_list()
    pids = [_COUNTERS_OF_HOST if device is None else _COUNTERS_OF_DEVICE.format(device) for device in devices]
    return [
        _named("process_sort_index", pid, 0, sort_index=FIRST_COUNTER_SORT_INDEX + order)
        for order, pid in enumerate(pids)
    ]


def _counter_lines(counters: pl.DataFrame) -> list[str]:
    """Return one counter event per value, of one series without a name, as torch writes them."""
    keyed = counters.with_columns(pl.col("name").cast(pl.String), pl.col("unit").cast(pl.String).fill_null(""))
    names = keyed.select("name", "unit").unique()
    texts = [json_text(event_name(name, unit or None)) for name, unit in names.iter_rows()]
    named = keyed.join(
        names.with_columns(pl.Series("text", texts, dtype=pl.String)),
        on=["name", "unit"],
        how="left",
        maintain_order="left",
    )
    of_host = pl.col("device").is_null()
    line = pl.concat_str(
        pl.lit('{"ph": "C", "name": '),
        pl.col("text"),
        pl.lit(', "pid": "'),
        pl.when(of_host).then(pl.lit(_COUNTERS_OF_HOST)).otherwise(pl.format(_COUNTERS_OF_DEVICE, "device")),
        pl.lit('", "tid": 0, "ts": '),
        micros(pl.col("time_ns")),
        pl.lit(', "args": {"": '),
        pl.col("value").cast(pl.String),
        pl.lit("}}"),
    )
    return named.select(line).to_series().to_list()
