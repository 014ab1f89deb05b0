"""Turns batches of events into compact columns, in which one number says where an event took place."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from itertools import repeat, starmap
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
from msgspec import Raw

from torchprof_magic.ingest.chrome.categories import OWN_SPAN, category_of
from torchprof_magic.ingest.chrome.columns import (
    exact_ns,
    identities,
    integers,
    json_arrays,
    labels,
    no_text,
    optional_text,
    plain_text,
    raw_text,
)
from torchprof_magic.ingest.chrome.counters import COUNTER_COLUMNS, counter_columns
from torchprof_magic.ingest.chrome.event_waits import EventWaits
from torchprof_magic.ingest.findings import Findings
from torchprof_magic.ingest.graph_notes.in_args import graph_columns
from torchprof_magic.ingest.json.schema import COUNTER, NO_ARGS, NO_RAW, Args, Event, HostEvent
from torchprof_magic.model.trace import CATEGORY, DEVICE_CATEGORIES, MEMORY_SCHEMA, TEXT, DType
from torchprof_magic.model.vendors import AUTOGRAD_ARROWS, DEVICE_TYPES, LAUNCH_ARROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from torchprof_magic.ingest.json.schema import CounterEvent

    _Numbers = Callable[..., pl.Series]

# The arrows that are used. Launches are found by correlation instead, which is more reliable, if the vendor has it.
BACKWARD_ARROW = "fwdbwd"
FOLLOWED_ARROWS = (BACKWARD_ARROW, *LAUNCH_ARROWS, *AUTOGRAD_ARROWS)
_SPAN_SCHEMA: dict[str, DType] = {
    "name": TEXT,
    "place": pl.Int32,
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "correlation": pl.Int64,
    "sequence": pl.Int64,
    "fwd_thread": pl.Int64,
    "shapes": TEXT,
    "dtypes": TEXT,
    "concrete_inputs": TEXT,
    "bytes": pl.Int64,
    "call_stack": TEXT,
    "launch_config": TEXT,
    "kernel": TEXT,
    "collective": TEXT,
    "script_modules": TEXT,
    "graph_node": pl.Int64,
    "annotation": TEXT,
}
# How ranges of no thread begin and end: in the format of today, and in the older one.
ASYNC_PHASES = {"b": True, "e": False, "S": True, "F": False}
_BOUND_SCHEMA: dict[str, DType] = {"ph": pl.String, "position": pl.Int64}
_ARROW_SCHEMA: dict[str, DType] = {"cat": TEXT, "is_start": pl.Boolean, "id": pl.Int64}
_END_SCHEMA: dict[str, DType] = {"pid": pl.String, "tid": pl.String, "time_ns": pl.Int64}
_SIZES = ("time_ns", "delta_bytes", "allocated_bytes", "reserved_bytes", "address", "event")
_MEMORY_SCHEMA = {name: MEMORY_SCHEMA[name] for name in _SIZES} | dict.fromkeys(("pid", "tid", "device"), TEXT)
_NAME_SCHEMA = dict.fromkeys(("pid", "tid", "name"), pl.String)
# The columns of a file without any such row.
_NO_ROWS = {
    "spans": pl.DataFrame(schema=_SPAN_SCHEMA),
    "bounds": pl.DataFrame(schema=_SPAN_SCHEMA | _BOUND_SCHEMA),
    "async_bounds": pl.DataFrame(schema=_SPAN_SCHEMA | _BOUND_SCHEMA | {"id": pl.Int64, "cat": TEXT}),
    "memory": pl.DataFrame(schema=_MEMORY_SCHEMA),
    "arrows": pl.DataFrame(schema=_ARROW_SCHEMA | _END_SCHEMA),
    "other_arrows": pl.DataFrame(schema=_ARROW_SCHEMA),
    "thread_names": pl.DataFrame(schema=_NAME_SCHEMA),
    "process_names": pl.DataFrame(schema=_NAME_SCHEMA),
    "counters": pl.DataFrame(schema=COUNTER_COLUMNS),
}
# A collective that does not say its name, but how much it moves.
_NULL = Raw(b"null")
_PROCESS_NAMES = ("process_name", "process_labels")
# The arguments to read, by category: looking for all of them in every event would take half of the reading time.
_READERS: dict[str, Callable[[list[Args], _Numbers], pl.Series]] = {
    "correlation": lambda args, numbers: numbers([arg.correlation for arg in args], what="correlation"),
    "sequence": lambda args, numbers: numbers([arg.sequence for arg in args], what="Sequence number"),
    "fwd_thread": lambda args, numbers: numbers([arg.fwd_thread for arg in args], what="Fwd thread id"),
    "shapes": lambda args, _: raw_text([arg.input_dims for arg in args]),
    "dtypes": lambda args, _: raw_text([arg.input_types for arg in args]),
    "concrete_inputs": lambda args, _: raw_text([arg.concrete_inputs for arg in args]),
    "bytes": lambda args, numbers: numbers([arg.copy_bytes for arg in args], what="bytes"),
    "call_stack": lambda args, _: optional_text([arg.call_stack for arg in args]),
    "launch_config": lambda args, _: json_arrays(
        [arg.grid for arg in args],
        [arg.block for arg in args],
        [arg.registers for arg in args],
        [arg.shared_memory for arg in args],
        [arg.occupancy for arg in args],
    ),
    "collective": lambda args, _: _collectives(args),
}
_READ_OF_OPS = ("sequence", "fwd_thread", "shapes", "dtypes", "concrete_inputs", "call_stack")
# The only events whose "External id" is reliable: on kernels it often is the correlation under another name.
_ANNOTATIONS = ("user_annotation", "gpu_user_annotation")
_RECORDED_BY_TORCH = ("cpu_op", "user_annotation")
_READ: dict[str, tuple[str, ...]] = {
    "python_function": (),
    "runtime": ("correlation",),
    "cpu_op": _READ_OF_OPS,
    "user_annotation": _READ_OF_OPS,
}
_READ_OF_HOST = ("python_function", "cpu_op", "user_annotation")
# Arrows, names of threads and processes, allocations, and counters, which are read on their own.
_WITHOUT_DEVICES = ("s", "t", "f", "M", "i", "I", COUNTER)
ALLOCATION = "[memory]"
_HAVE_STREAMS = ("kernel", "memcpy", "memset", "gpu_user_annotation", "other")
# Categories that the files of different vendors name differently; the others are not asked for their ``cat``.
_HAVE_CATS = (*_HAVE_STREAMS, "runtime")


def _is_allocation(event: Event) -> bool:
    return event.name == ALLOCATION and event.cat == "cpu_instant_event"


def _is_of_host(category: str, phase: str) -> bool:
    """Return whether nothing that is read of such events is missing in ``HostArgs``, but for collectives."""
    return phase in _WITHOUT_DEVICES or (phase in ("X", "B", "E") and category in (*_READ_OF_HOST, OWN_SPAN))


def _collectives(args: list[Args]) -> pl.Series:
    names, elements_in = [arg.collective_name for arg in args], [arg.elements_in for arg in args]
    if names.count(NO_RAW) == elements_in.count(NO_RAW) == len(names):  # as in most files: no others are looked for
        return no_text(len(names))
    if not all(isinstance(arg, Args) for arg in args):
        raise NeedsArgsError
    return json_arrays(
        [_NULL if name == NO_RAW != count else name for name, count in zip(names, elements_in, strict=True)],
        elements_in,
        [arg.elements_out for arg in args],
        [arg.element_type for arg in args],
        [arg.group_name for arg in args],
        [arg.group_description for arg in args],
        [arg.group_size for arg in args],
        [arg.group_ranks for arg in args],
        [arg.collective_number for arg in args],
        blanks=b"\r\n\t",
    )


def _external_ids(args: list[Args], numbers: _Numbers) -> pl.Series:
    return numbers([arg.external_id for arg in args], what="External id")


class NeedsArgsError(ValueError):
    """A batch of ``HostEvent`` has events that may have other arguments."""


class Columns(NamedTuple):
    """The columns of one file; times are ns relative to the base time of the file.

    ``spans.place`` is a row of ``places``: category, process, thread, device and stream as the file spells them, and
    its ``cat`` where that matters. ``bounds`` are the B and E events, not yet paired, and ``async_bounds`` those of
    ranges that are no thread's. ``arrows`` are those from forward to backward ops, and from calls to the work they
    launch; ``other_arrows`` are only counted. ``process_names`` are the names and labels of processes. ``counters`` has
    a row for each value.
    """

    spans: pl.DataFrame
    bounds: pl.DataFrame
    async_bounds: pl.DataFrame
    memory: pl.DataFrame
    arrows: pl.DataFrame
    other_arrows: pl.DataFrame
    thread_names: pl.DataFrame
    process_names: pl.DataFrame
    places: pl.DataFrame
    counters: pl.DataFrame


class ColumnBuilder:
    """Collects batches of events as columns. A batch is not referenced after its ``add``."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._found = findings  # of the current batch
        self._places: dict[tuple[object, ...], int] = {}
        self._frames: dict[str, list[pl.DataFrame]] = defaultdict(list)
        self._batch: list[Event] = []
        self._event_count = 0  # in all earlier batches
        self._event_waits = EventWaits()

    def add(self, events: list[Event], read_counters: Callable[[], list[CounterEvent]]) -> None:
        """Add the columns of one batch, or none of them when it raises ``InexactError`` or ``NeedsArgsError``.

        ``read_counters`` returns the counter events of the batch; it is called if there are any.
        """
        self._batch = events
        self._found = Findings()
        groups = _grouped(events)
        if events and type(events[0]) is HostEvent and not all(starmap(_is_of_host, groups)):
            raise NeedsArgsError
        added = [
            columns
            for (category, phase), group in groups.items()
            for columns in self._columns_of(phase, category, group)
        ]
        if any(phase == COUNTER for _, phase in groups):
            added.append(("counters", counter_columns(read_counters(), self._found)))
        self._event_waits.add(groups.get(("other", "X"), []), groups.get(("runtime", "X"), []))
        for name, frame in added:
            self._frames[name].append(frame)
        self._event_count += len(events)
        self._batch = []
        self._findings.update(self._found)

    def _columns_of(self, phase: str, category: str, group: list[Event]) -> Iterator[tuple[str, pl.DataFrame]]:
        if phase == "X" and category == "other":
            # torch's export in Python, which escapes names, writes allocations as events with a duration.
            if allocations := [event for event in group if _is_allocation(event)]:
                yield "memory", _memory_columns(allocations, self._found)
                group = [event for event in group if not _is_allocation(event)]
            yield "spans", self._span_columns(group, category)
        elif phase == "X" and category != OWN_SPAN:
            yield "spans", self._span_columns(group, category)
        elif phase in ("B", "E"):
            columns = self._span_columns(group, category)
            yield "bounds", columns.with_columns(pl.lit(phase).alias("ph"), self._positions(group))
        elif phase in ASYNC_PHASES:
            columns = self._span_columns(group, "other")
            ids = identities([event.id for event in group]).alias("id")
            cats = labels([event.cat for event in group]).alias("cat")
            yield "async_bounds", columns.with_columns(pl.lit(phase).alias("ph"), self._positions(group), ids, cats)
        elif phase in ("s", "f"):
            yield from _arrows_of(group, is_start=phase == "s")
        elif phase in ("i", "I"):
            yield "memory", _memory_columns([event for event in group if event.name == ALLOCATION], self._found)
        elif phase == "M":
            yield "thread_names", _name_columns([event for event in group if event.name == "thread_name"])
            yield "process_names", _name_columns([event for event in group if event.name in _PROCESS_NAMES])
        elif phase not in ("X", "t", COUNTER):  # the middle of an arrow adds nothing to its ends
            self._found.add("chrome.other_kind" if phase else "chrome.not_an_event", len(group))

    def _positions(self, group: list[Event]) -> pl.Series:
        """Return the positions of events in the file, which order B and E events of the same moment."""
        positions = {id(event): position for position, event in enumerate(self._batch, self._event_count)}
        return pl.Series("position", [positions[id(event)] for event in group], dtype=pl.Int64)

    def finish(self) -> Columns:
        """Return the columns of all batches."""
        self._event_waits.finish(self._findings)
        category, cat, pid, tid, device, stream = zip(*self._places, strict=True) if self._places else [()] * 6
        return Columns(
            **{name: _joined([empty, *self._frames.pop(name, [])]) for name, empty in _NO_ROWS.items()},
            places=_framed(
                {
                    "category": pl.Series(category, dtype=CATEGORY),
                    "cat": plain_text(["" if each is None else each for each in cat]),
                    "pid": plain_text(pid),
                    "tid": plain_text(tid),
                    "device": integers(device, self._findings, pl.Int32, what="device"),
                    "stream": integers(stream, self._findings, pl.Int32, what="stream"),
                }
            ),
        )

    def _span_columns(self, events: list[Event], category: str) -> pl.DataFrame:
        args = [event.args or NO_ARGS for event in events]
        readers = {name: _READERS[name] for name in _READ.get(category, _READERS)}
        if category in _ANNOTATIONS:
            readers["correlation"] = _external_ids
        if category in _RECORDED_BY_TORCH:
            readers["script_modules"] = lambda args, _: optional_text([arg.script_modules for arg in args])
        names = [event.name for event in events]
        numbers = partial(integers, findings=self._found, names=names)
        columns = {name: read(args, numbers) for name, read in readers.items()}
        if category == "cpu_op":
            columns["collective"] = _collectives(args)
        if category == "runtime" and any(arg.kernel is not None for arg in args):
            columns["kernel"] = optional_text([arg.kernel for arg in args])
            columns["launch_config"] = _READERS["launch_config"](args, numbers)
        if category in DEVICE_CATEGORIES:
            columns |= graph_columns(args, numbers)
        known = {name: column for name, column in columns.items() if column.null_count() < len(events)}
        return _framed(
            {
                "name": labels(names),
                "place": self._places_of(events, args, category),
                "start_ns": exact_ns([event.ts for event in events]),
                "dur_ns": exact_ns([event.dur for event in events]),
                **known,
            }
        )

    def _places_of(self, events: list[Event], args: list[Args], category: str) -> pl.Series:
        pids, tids = [event.pid for event in events], [event.tid for event in events]
        cats = [event.cat for event in events] if category in _HAVE_CATS else [None] * len(events)
        if category not in _HAVE_STREAMS and _is_same(pids) and _is_same(tids) and _is_same(cats):
            row = self._places.setdefault((category, cats[0], pids[0], tids[0], None, None), len(self._places))
            return pl.Series([row], dtype=pl.Int32).new_from_index(0, len(events))
        devices: Iterable[object] = repeat(None)
        streams: Iterable[object] = repeat(None)
        if category in _HAVE_STREAMS:
            devices = (arg.device_id if arg.device is None else arg.device for arg in args)
            streams = (arg.stream for arg in args)
        places = self._places
        keys = zip(repeat(category), cats, pids, tids, devices, streams)
        return pl.Series([places.setdefault(key, len(places)) for key in keys], dtype=pl.Int32)


def _grouped(events: list[Event]) -> dict[tuple[str, str], list[Event]]:
    """Return the events by category and phase."""
    by_cat: dict[tuple[object, str], list[Event]] = defaultdict(list)
    for event in events:
        by_cat[event.cat, event.ph].append(event)
    groups: dict[tuple[str, str], list[Event]] = {}
    for (cat, phase), group in by_cat.items():
        key = category_of(cat), phase
        groups[key] = groups[key] + group if key in groups else group
    return groups


def _is_same(values: Sequence[object]) -> bool:
    return values.count(values[0]) == len(values)


def _joined(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the frames concatenated vertically; missing columns are null."""
    return pl.concat(frames, how="diagonal") if len(frames) > 1 else frames[0]


def _framed(columns: dict[str, pl.Series]) -> pl.DataFrame:
    return pl.DataFrame([column.alias(name) for name, column in columns.items()])


def _arrows_of(events: list[Event], *, is_start: bool) -> Iterator[tuple[str, pl.DataFrame]]:
    if followed := [event for event in events if event.cat in FOLLOWED_ARROWS]:
        yield "arrows", _followed_columns(followed, is_start=is_start)
    if others := [event for event in events if event.cat not in FOLLOWED_ARROWS]:
        yield "other_arrows", _framed(_arrow_columns(others, is_start=is_start))


def _arrow_columns(events: list[Event], *, is_start: bool) -> dict[str, pl.Series]:
    return {
        "cat": labels([event.cat for event in events]),
        "is_start": pl.Series([is_start]).new_from_index(0, len(events)),
        "id": identities([event.id for event in events]),
    }


def _followed_columns(events: list[Event], *, is_start: bool) -> pl.DataFrame:
    ends = {
        "pid": plain_text([event.pid for event in events]),
        "tid": plain_text([event.tid for event in events]),
        "time_ns": exact_ns([event.ts for event in events]),
    }
    return _framed(_arrow_columns(events, is_start=is_start) | ends)


def _memory_columns(events: Sequence[Event], findings: Findings) -> pl.DataFrame:
    if not events:
        return _NO_ROWS["memory"]
    args = [event.args or NO_ARGS for event in events]
    kinds = integers([arg.device_type for arg in args], findings, what="Device Type").replace_strict(
        DEVICE_TYPES, default="device", return_dtype=pl.String
    )
    ids = integers([arg.device_id for arg in args], findings, what="Device Id").cast(pl.String).fill_null("0")
    frame = pl.DataFrame(
        {
            "time_ns": exact_ns([event.ts for event in events]),
            "kind": kinds,
            "id": ids,
            "delta_bytes": integers([arg.delta_bytes for arg in args], findings, what="Bytes"),
            "allocated_bytes": integers([arg.allocated_bytes for arg in args], findings, what="Total Allocated"),
            "reserved_bytes": integers([arg.reserved_bytes for arg in args], findings, what="Total Reserved"),
            "address": integers([arg.address for arg in args], findings, pl.UInt64, what="Addr"),
            "pid": labels([event.pid for event in events]),
            "tid": labels([event.tid for event in events]),
        }
    )
    device = pl.when(pl.col("kind") == "cpu").then(pl.lit("cpu")).otherwise(pl.col("kind") + ":" + pl.col("id"))
    return frame.with_columns(
        device.cast(TEXT).alias("device"), pl.lit(-1, MEMORY_SCHEMA["event"]).alias("event")
    ).drop("kind", "id")


def _name_columns(events: Sequence[Event]) -> pl.DataFrame:
    return _framed(
        {
            "pid": plain_text([event.pid for event in events]),
            "tid": plain_text([event.tid for event in events]),
            "name": plain_text([_name_in(event.args or NO_ARGS) for event in events]),
        }
    )


def _name_in(args: Args) -> object:
    return args.labels if args.name is None else args.name
