"""Reads one or several Kineto Chrome traces into a ``Trace``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.ingest.chrome import device_work, links
from torchprof_magic.ingest.chrome.autograd import with_autograd_rows
from torchprof_magic.ingest.chrome.clean import cleaned
from torchprof_magic.ingest.chrome.columns import InexactError
from torchprof_magic.ingest.chrome.counters import in_order, with_devices
from torchprof_magic.ingest.chrome.ended_frames import with_frames_ended
from torchprof_magic.ingest.chrome.lanes import assign_lanes
from torchprof_magic.ingest.chrome.metadata import joined_facts
from torchprof_magic.ingest.chrome.moved_steps import with_steps_moved_back
from torchprof_magic.ingest.chrome.nesting import nested_events, steps_among, with_step_annotations
from torchprof_magic.ingest.chrome.overloads import with_overloads
from torchprof_magic.ingest.chrome.own_frames import without_own_frames
from torchprof_magic.ingest.chrome.spans import ColumnBuilder, Columns, NeedsArgsError
from torchprof_magic.ingest.chrome.stacks import find_stacks
from torchprof_magic.ingest.findings import Findings
from torchprof_magic.ingest.json.batches import EventText
from torchprof_magic.ingest.json.blocks import read_blocks, size_of
from torchprof_magic.ingest.json.process_groups import process_groups_of
from torchprof_magic.ingest.json.schema import DeviceProperties, DistributedInfo, Event, Head
from torchprof_magic.model.meta import Meta
from torchprof_magic.model.overlaps import count_overlaps
from torchprof_magic.model.rows import with_series
from torchprof_magic.model.trace import EVENTS_SCHEMA, Trace, no_rows
from torchprof_magic.system.process.garbage import HeldCollections

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    Source = str | os.PathLike[str] | bytes
    Progress = Callable[[int, int], None]


class _Part(NamedTuple):
    """One file: its columns, and the metadata around its events."""

    columns: Columns
    head: Head
    facts: dict[str, str]


def read_chrome(
    sources: Sequence[Source],
    meta: Meta | None = None,
    cycles: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> Trace:
    """Return the trace in one file (or JSON text) per cycle; ``cycles`` numbers them (0, 1, ... by default).

    Damaged files are read as far as possible, and problems are counted in ``Trace.problems``. ``progress`` is called
    from time to time with the number of bytes read and the total; an exception that it raises stops the reading.

    Raises ``IngestError`` if a file cannot be opened or is empty, and ``NotATraceError`` if it is not a trace.
    """
    findings = Findings()
    numbers = range(len(sources)) if cycles is None else cycles
    sizes = [size_of(source) for source in sources] if progress else [0] * len(sources)
    total, parts, done = sum(sizes), [], 0
    for source, size in zip(sources, sizes, strict=True):
        parts.append(_read_part(source, findings, _shifted(progress, done, total)))
        done += size
    return _assembled(parts, list(numbers), meta or Meta(), findings)


def _shifted(progress: Progress | None, done: int, total: int) -> Callable[[int], None]:
    def report(read_bytes: int) -> None:
        if progress is not None:
            progress(done + read_bytes, total)

    return report


def _read_part(source: Source, findings: Findings, report: Callable[[int], None]) -> _Part:
    text = EventText(read_blocks(source, findings), findings, report)
    builder = ColumnBuilder(findings)
    held = HeldCollections()
    try:
        _add_all(builder, text, held)
    except BaseException:
        held.end()  # an interrupt can come where it would have been ended
        raise
    columns = with_autograd_rows(cleaned(builder.finish(), findings), findings)
    columns = device_work.without_copies(device_work.with_device_work(with_overloads(columns)), findings)
    counters = with_devices(columns.counters, columns.places, columns.process_names)
    return _Part(columns._replace(counters=counters), text.head, text.facts)


def _add_all(builder: ColumnBuilder, text: EventText, held: HeldCollections) -> None:
    """Add all batches without collections, with which the structs of a file take three times as long to decode."""
    try:
        held.begin()
        for events in text:
            _add(builder, text, events)
            del events  # the next batch then takes its place in memory
    finally:
        held.end()


def _add(builder: ColumnBuilder, text: EventText, events: list[Event]) -> None:
    """Add a batch, read again with more of its arguments, or with exact times, if it needs that."""
    try:
        builder.add(events, text.counters)
    except NeedsArgsError:
        _add(builder, text, text.with_all_args())
    except InexactError:
        builder.add(text.exactly(), text.counters)


def _assembled(parts: list[_Part], cycles: list[int], meta: Meta, findings: Findings) -> Trace:
    spans, places = _joined_spans(parts, cycles)
    memory, counters = _joined("memory", parts, cycles), _joined("counters", parts, cycles)
    start_ns = _earliest(spans, memory, counters)
    counters, memory = (_later(frame, "time_ns", -start_ns) for frame in (counters, memory))
    unknown, in_file = device_work.unknown_work(spans, places), places
    places, lanes = assign_lanes(spans, places, pl.concat([part.columns.thread_names for part in parts]))
    arrows = _later(_joined("arrows", parts, cycles), "time_ns", -start_ns)
    other_arrows = _joined("other_arrows", parts, cycles)
    counted = links.count_arrows(arrows, other_arrows)
    heads, facts = [part.head for part in parts], joined_facts([part.facts for part in parts], cycles)
    parts.clear()  # keeping these columns would double the memory in use below
    spans = without_own_frames(_later(spans, "start_ns", -start_ns), places)
    is_step = steps_among(spans["name"])
    spans = with_steps_moved_back(spans, places, is_step, findings, torch_version=meta.torch_version)
    nested = nested_events(spans, places)
    step_rows = np.flatnonzero(is_step[nested.span])
    events, category, _ = with_step_annotations(nested, step_rows)
    events = device_work.with_arrows_as_correlations(events, in_file, places["lane"], arrows)
    links.find_lost_launches(events, other_arrows, findings)
    launch = links.launch_flows(events, category, lanes, findings)
    backward = links.backward_flows(events, category, lanes, arrows)
    annotations = links.annotation_flows(events, category)
    steps = links.find_steps(events, category, step_rows, findings)
    if steps.height == 0:
        steps = links.find_server_steps(events, category)
    stack, stacks = find_stacks(events, category, launch)
    events = links.with_steps(events, steps, launch).hstack([stack])
    findings.add("chrome.partial_overlap", count_overlaps(events, steps))
    return Trace(
        events=events[list(EVENTS_SCHEMA)],
        lanes=lanes,
        flows=links.joined(launch, backward, annotations),
        memory=links.attribute_memory(memory, events, lanes),
        steps=steps,
        stacks=stacks,
        arrows=counted,
        sites=no_rows("sites"),
        scopes=no_rows("scopes"),
        tags=no_rows("tags"),
        counters=in_order(counters),
        meta=_described(meta, heads, facts, start_ns, events, places, has_memory=memory.height > 0),
        problems=(*findings.problems(), *unknown),
    )


def _joined_spans(parts: list[_Part], cycles: list[int]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the spans of all files on one clock, and their places."""
    spans, places, known = [], [], 0
    for (columns, head, _), cycle in zip(parts, cycles, strict=True):
        ended_ns = None if head.stacks_end_ns is None else head.stacks_end_ns - head.base_time_ns
        frame = with_frames_ended(columns.spans, columns.places, ended_ns)
        if known:
            frame = frame.with_columns(pl.col("place") + known)
        spans.append(_of_cycle(_later(frame, "start_ns", head.base_time_ns), cycle))
        places.append(columns.places)
        known += columns.places.height
    return pl.concat(spans), pl.concat(places)


def _joined(name: str, parts: list[_Part], cycles: list[int]) -> pl.DataFrame:
    frames = []
    for part, cycle in zip(parts, cycles, strict=True):
        frame: pl.DataFrame = getattr(part.columns, name)
        if "time_ns" in frame.columns:
            frame = _later(frame, "time_ns", part.head.base_time_ns)
        frames.append(_of_cycle(frame, cycle))
    return pl.concat(frames)


def _later(frame: pl.DataFrame, column: str, by_ns: int) -> pl.DataFrame:
    """Return the rows with their times moved."""
    return with_series(frame, frame[column] + by_ns) if by_ns and frame.height else frame


def _of_cycle(frame: pl.DataFrame, cycle: int) -> pl.DataFrame:
    """Return the rows with the number of the cycle that they are of."""
    return frame.hstack([pl.Series("cycle", [cycle], dtype=pl.Int32).new_from_index(0, frame.height)])


def _earliest(spans: pl.DataFrame, memory: pl.DataFrame, counters: pl.DataFrame) -> int:
    """Return the time of the first event, or of the first value of a counter if there is nothing else."""
    times = [time for time in (spans["start_ns"].min(), memory["time_ns"].min()) if isinstance(time, int)]
    first = counters["time_ns"].min()
    return min(times, default=first if isinstance(first, int) else 0)


# What the files say of a run; the rest of its metadata is known elsewhere.
_SAID_BY_FILES = (
    "start_unix_ns",
    "devices",
    "rank",
    "world_size",
    "backend",
    "process_groups",
    "has_shapes",
    "has_stacks",
    "has_call_stacks",
    "has_flops",
    "has_memory",
    "extra",
)


def with_what_files_say(meta: Meta, read: Meta) -> Meta:
    """Return the metadata with what the files said when they were read before, with less of the rest."""
    said = {name: getattr(read, name) for name in _SAID_BY_FILES}
    return replace(meta, device_names=meta.device_names or read.device_names, **said)


def _described(
    meta: Meta,
    heads: list[Head],
    facts: dict[str, str],
    start_ns: int,
    events: pl.DataFrame,
    places: pl.DataFrame,
    *,
    has_memory: bool,
) -> Meta:
    head = heads[0]
    devices = head.side_table("devices", list[DeviceProperties]) or []
    distributed = head.side_table("distributed", DistributedInfo) or DistributedInfo()
    names = dict.fromkeys(device.name for device in devices if device.name)
    return replace(
        meta,
        start_unix_ns=start_ns,
        device_names=meta.device_names or tuple(names)[: device_work.MAX_DEVICES],
        devices=device_work.device_names(events, places, devices),
        rank=distributed.rank,
        world_size=distributed.world_size,
        backend=distributed.backend if isinstance(distributed.backend, str) else "",
        process_groups=process_groups_of(distributed),
        has_shapes=any(head.says("record_shapes") for head in heads) or events["shapes"].null_count() < events.height,
        has_stacks=any(head.says("with_stack") for head in heads),
        has_call_stacks=any(head.says("call_stacks") for head in heads)
        or events["call_stack"].null_count() < events.height,
        has_flops=any(head.says("with_flops") for head in heads),
        has_memory=has_memory or any(head.says("profile_memory") for head in heads),
        extra=tuple(sorted(facts.items())),  # torch writes them in varying order
    )
