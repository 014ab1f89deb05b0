"""What happened, according to one or several Kineto chrome traces?"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import polars as pl

from torchprof_magic.errors import IngestError, NotATraceError
from torchprof_magic.ingest import links
from torchprof_magic.ingest.categories import classify
from torchprof_magic.ingest.columns import exact_ns, integers, labels, raw_text
from torchprof_magic.ingest.lanes import assign_lanes
from torchprof_magic.ingest.schema import (
    NO_ARGS,
    ChromeTrace,
    DeviceProperties,
    DistributedInfo,
    Event,
    decode_or_default,
)
from torchprof_magic.ingest.stacks import find_stacks
from torchprof_magic.intervals import nest, nesting_order
from torchprof_magic.meta import Meta, Problem
from torchprof_magic.trace import EVENTS_SCHEMA, MEMORY_SCHEMA, TEXT, Trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_TIME_NS = 2**61
# c10::DeviceType, as written in "Device Type".
_DEVICE_TYPES = {0: "cpu", 1: "cuda", 6: "hip", 12: "xpu", 13: "mps", 15: "hpu", 19: "mtia", 20: "privateuse1"}


class _Part(NamedTuple):
    """The columns of one file, times still absolute (ns since 1970, or since boot in files without a base)."""

    spans: pl.DataFrame
    memory: pl.DataFrame
    arrows: pl.DataFrame
    thread_names: pl.DataFrame
    head: ChromeTrace
    problems: list[Problem]


def read_chrome(files: Sequence[bytes], meta: Meta | None = None, cycles: Sequence[int] | None = None) -> Trace:
    """Return the trace in one JSON text a cycle; ``cycles`` numbers them (0, 1, ... by default).

    Raises ``IngestError`` when a text is no valid JSON and ``NotATraceError`` when it is something else; oddities
    inside are counted in ``Trace.problems``.
    """
    numbers = range(len(files)) if cycles is None else cycles
    parts = [_read_part(data, cycle) for cycle, data in zip(numbers, files, strict=True)]
    spans = pl.concat([part.spans for part in parts])
    memory = pl.concat([part.memory for part in parts])
    start_ns = _earliest(spans, memory)
    spans = spans.with_columns(pl.col("start_ns") - start_ns)
    memory = memory.with_columns(pl.col("time_ns") - start_ns)
    names = pl.concat([part.thread_names for part in parts])
    spans, lanes = assign_lanes(spans, names)
    events, overlaps = _nested(spans)
    arrows = pl.concat([part.arrows for part in parts]).with_columns(pl.col("time_ns") - start_ns)
    launch, unlinked = links.launch_flows(events)
    backward = links.backward_flows(events, lanes, arrows)
    steps = links.find_steps(events)
    events = links.with_steps(events, steps, launch)
    stack, stack_frames = find_stacks(events, launch)
    problems = [problem for part in parts for problem in part.problems]
    return Trace(
        events=events.with_columns(stack).select(EVENTS_SCHEMA.keys()),
        lanes=lanes,
        flows=pl.concat([launch, backward]),
        memory=links.attribute_memory(memory, events, lanes),
        steps=steps,
        stacks=stack_frames,
        arrows=links.count_arrows(arrows),
        meta=_described(meta or Meta(), parts, start_ns),
        problems=(*problems, *_nesting_problems(overlaps, unlinked)),
    )


def _read_part(data: bytes, cycle: int) -> _Part:
    head = _decode(data)
    events = head.trace_events or []
    spans, problems = _spans([event for event in events if event.ph == "X"], cycle, head.base_time_ns)
    memory = [event for event in events if event.ph == "i" and event.name == "[memory]"]
    arrows = [event for event in events if event.ph in ("s", "f")]
    names = [event for event in events if event.ph == "M" and event.name == "thread_name"]
    head.trace_events = None  # a million structs would otherwise live as long as the report
    return _Part(
        spans=spans,
        memory=_memory(memory, cycle, head.base_time_ns),
        arrows=_arrows(arrows, cycle, head.base_time_ns),
        thread_names=_thread_names(names),
        head=head,
        problems=problems,
    )


def _decode(data: bytes) -> ChromeTrace:
    if not data or data.isspace():
        raise IngestError("the file is empty; the program that wrote it may have been stopped")
    try:
        with _without_gc():
            head = msgspec.json.decode(data, type=ChromeTrace)
    except msgspec.ValidationError as exc:
        raise IngestError(f"this is JSON, but not a trace that can be read: {exc}") from exc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise IngestError(f"the JSON is damaged or cut off ({exc}); copy or export the file again") from exc
    if head.trace_events is None:
        if bytes(head.nodes):
            raise NotATraceError("this is a PyTorch execution trace (nodes, no times), not a profiler trace")
        raise NotATraceError('this is JSON without "traceEvents", so it is no profiler trace')
    return head


@contextmanager
def _without_gc() -> Iterator[None]:
    """Keep the collector from walking a million fresh structs again and again (3x slower otherwise)."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _spans(events: list[Event], cycle: int, base_ns: int) -> tuple[pl.DataFrame, list[Problem]]:
    args = [event.args or NO_ARGS for event in events]
    name = labels([event.name for event in events])
    cat = labels([event.cat for event in events])
    frame = pl.DataFrame(
        {
            "name": name.cast(TEXT),
            "category": classify(cat, name),
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
        }
    )
    # The profiler's own span over the whole recording ("Trace") is not something that the program did.
    frame = frame.filter(cat != "Trace").with_columns(
        pl.lit(cycle, pl.Int32).alias("cycle"), pl.col("start_ns") + base_ns
    )
    return _without_unusable(frame)


def _without_unusable(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[Problem]]:
    """Drop events without a time and close unfinished ones at their start; count both."""
    problems = []
    timed = frame.drop_nulls(["start_ns", "dur_ns"])
    # Nothing lasts, or began, 73 years from 1970 in either direction; such values would overflow sums of times.
    timed = timed.filter(pl.col("start_ns").abs() < MAX_TIME_NS, pl.col("dur_ns").abs() < MAX_TIME_NS)
    if lost := frame.height - timed.height:
        problems.append(_problem("chrome.no_time", "data_loss", lost, "Events without a readable time were left out."))
    if negative := int((timed["dur_ns"] < 0).sum()):
        timed = timed.with_columns(pl.col("dur_ns").clip(lower_bound=0))
        problems.append(
            _problem("chrome.negative_duration", "warning", negative, "Unfinished events are shown with no duration.")
        )
    return timed, problems


def _memory(events: list[Event], cycle: int, base_ns: int) -> pl.DataFrame:
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
    return frame.drop_nulls(["time_ns", "delta_bytes"]).with_columns(
        pl.col("time_ns") + base_ns,
        device.alias("device"),
        pl.lit(cycle, pl.Int32).alias("cycle"),
        pl.lit(-1, MEMORY_SCHEMA["event"]).alias("event"),
    )


def _arrows(events: list[Event], cycle: int, base_ns: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "ph": pl.Series([event.ph for event in events], dtype=pl.String),
            "cat": labels([event.cat for event in events]),
            "id": labels([event.id for event in events]),
            "pid": labels([event.pid for event in events]),
            "tid": labels([event.tid for event in events]),
            "time_ns": exact_ns([event.ts for event in events]),
        }
    ).with_columns(pl.lit(cycle, pl.Int32).alias("cycle"), pl.col("time_ns") + base_ns)


def _thread_names(events: list[Event]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "pid": labels([event.pid for event in events]),
            "tid": labels([event.tid for event in events]),
            "name": labels([(event.args or NO_ARGS).name for event in events]),
        }
    )


def _earliest(spans: pl.DataFrame, memory: pl.DataFrame) -> int:
    times = [time for time in (spans["start_ns"].min(), memory["time_ns"].min()) if isinstance(time, int)]
    return min(times, default=0)


def _nested(spans: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    order = nesting_order(*(spans[name].to_numpy() for name in ("lane", "start_ns", "dur_ns")))
    events = spans[order]
    parent, depth, overlaps = nest(
        *(events[name].to_numpy().astype("int64") for name in ("lane", "start_ns", "dur_ns"))
    )
    columns = (pl.Series("parent", parent, dtype=pl.Int32), pl.Series("depth", depth, dtype=pl.Int32))
    return events.with_columns(*columns, pl.Series("overlaps", overlaps)), int(overlaps.sum())


def _nesting_problems(overlaps: int, unlinked: int) -> list[Problem]:
    problems = []
    if overlaps:
        text = "Events partly overlap another on the same thread; they are shown beside it, not inside it."
        problems.append(_problem("chrome.partial_overlap", "info", overlaps, text))
    if unlinked:
        text = "Device events have no launch in the file (queued before the recording); they belong to no op."
        problems.append(_problem("chrome.no_launch", "info", unlinked, text))
    return problems


def _problem(code: str, severity: str, count: int, message: str) -> Problem:
    return Problem(code=code, severity=severity, count=count, message=message)  # type: ignore[arg-type]


def _described(meta: Meta, parts: list[_Part], start_ns: int) -> Meta:
    head = parts[0].head
    devices = decode_or_default(head.devices, list[DeviceProperties], [])
    distributed = decode_or_default(head.distributed, DistributedInfo, DistributedInfo())
    assert isinstance(devices, list)
    assert isinstance(distributed, DistributedInfo)
    names = dict.fromkeys(device.name for device in devices if device.name)
    return replace(
        meta,
        start_unix_ns=start_ns,
        device_names=meta.device_names or tuple(names),
        rank=distributed.rank,
        world_size=distributed.world_size,
        has_shapes=bool(head.record_shapes)
        or any(part.spans["shapes"].null_count() < part.spans.height for part in parts),
        has_stacks=bool(head.with_stack),
        has_memory=any(part.memory.height for part in parts),
    )
