"""Assigns each event to its lane: a thread or a stream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.ingest.chrome.columns import number_behind
from torchprof_magic.model.known_names import which_match
from torchprof_magic.model.rows import with_series
from torchprof_magic.model.trace import DEVICE_CATEGORIES, HOST_CATEGORIES, LANE_KIND, LANES_SCHEMA, MAX_SUM
from torchprof_magic.model.vendors import VENDOR_NAMED

_KINDS = LANE_KIND.categories.to_list()


class _Key(NamedTuple):
    """What is equal in all places of a lane."""

    kind: str
    pid: str
    tid: str
    device: int | None
    stream: int | None


class _Lane(NamedTuple):
    """When the first event of a lane begins, and what the file calls its device, empty if that is no name."""

    first_ns: int
    device_label: str


def assign_lanes(
    spans: pl.DataFrame, places: pl.DataFrame, thread_names: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the places with their ``lane``, and the lanes: threads by first event, then streams.

    GPU-side annotations get lanes of their own: they include idle gaps and may overlap, so they enclose no kernel.
    ``places`` has a row for each spelling of category, process, thread, device and stream in the files, which
    ``spans.place`` numbers. They are few, so they are looked at one by one.
    """
    keys, first_ns = _keys_of(places), _first_ns(spans, places.height)
    lanes: dict[_Key, _Lane] = {}
    for key, first, label in zip(keys, first_ns, _device_labels(places["label"], keys), strict=True):
        if first is not None:
            known = lanes.get(key, _Lane(first, ""))
            lanes[key] = _Lane(min(known.first_ns, first), max(known.device_label, label))
    ordered = sorted(lanes, key=lambda key: _order(key, lanes[key]))
    numbers = {key: number for number, key in enumerate(ordered)}
    names = {(pid, tid): name for pid, tid, name in thread_names.iter_rows()}
    texts = [_name(key, lanes[key].device_label, names.get((key.pid, key.tid))) for key in ordered]
    frame = _frame_of(ordered).hstack([pl.Series("name", texts, dtype=LANES_SCHEMA["name"])])
    found = [
        pl.Series("first", first_ns, dtype=pl.Int64),
        pl.Series("lane", [numbers.get(key) for key in keys], dtype=pl.Int32),
    ]
    numbered = [
        pl.Series("device", [key.device for key in keys], dtype=pl.Int32),
        pl.Series("stream", [key.stream for key in keys], dtype=pl.Int32),
    ]
    return with_series(places, *numbered, *found), frame[list(LANES_SCHEMA)]


def _first_ns(spans: pl.DataFrame, count: int) -> list[int | None]:
    """Return when the first event of each place begins, None if there is none."""
    first = np.full(count, MAX_SUM)
    np.minimum.at(first, spans["place"].to_numpy(), spans["start_ns"].to_numpy())
    return [None if time_ns == MAX_SUM else time_ns for time_ns in first.tolist()]


def _keys_of(places: pl.DataFrame) -> list[_Key]:
    """Streams are keyed by device and stream number; threads by pid and tid."""
    # The numbers in the texts count where the file has no others.
    devices = places["pid"].cast(pl.Int32, strict=False)
    streams = [number_behind(tid) for tid in places["tid"].to_list()]
    rows = places[["category", "pid", "tid", "device", "stream"]].iter_rows()
    return [_key(*row, *numbers) for row, *numbers in zip(rows, devices.to_list(), streams, strict=True)]


def _key(
    category: str, pid: str, tid: str, device: int | None, stream: int | None, of_pid: int | None, of_tid: int | None
) -> _Key:
    if category in DEVICE_CATEGORIES:
        # The pid and tid of a device vary between versions of torch; this must not split a stream in two.
        return _Key("stream", "", "", of_pid if device is None else device, of_tid if stream is None else stream)
    if category == "gpu_user_annotation":
        return _Key("stream annotations", pid, tid, None, None)
    return _Key("thread" if category in HOST_CATEGORIES else "other", pid, tid, None, None)


def _device_labels(labels: pl.Series, keys: list[_Key]) -> list[str]:
    """Return what the file calls each device, such as MTIA 17, if that names its vendor and has its number."""
    if labels.null_count() == len(labels):
        return [""] * len(labels)
    texts = [label or "" for label in labels.to_list()]
    names_vendor = which_match(pl.Series(texts, dtype=pl.String), VENDOR_NAMED).tolist()
    return [
        label if is_vendors and _ends_with(label, key.device) else ""
        for label, is_vendors, key in zip(texts, names_vendor, keys, strict=True)
    ]


def _ends_with(label: str, number: int | None) -> bool:
    """Return whether a label ends with just this number."""
    return label.rstrip("0123456789") + str(number) == label


def _order(key: _Key, lane: _Lane) -> tuple[object, ...]:
    """Return what lanes are sorted by; a device or a stream without a number is first."""
    numbers = ((number is not None, number or 0) for number in (key.device, key.stream))
    return (_KINDS.index(key.kind), lane.first_ns, key.pid, key.tid, *numbers)


def _name(key: _Key, device_label: str, thread_name: str | None) -> str:
    if key.kind == "stream":
        return f"{device_label or f'device {key.device or 0}'} stream {key.stream or 0}"
    return f"thread {key.tid}" if thread_name is None else thread_name


def _frame_of(keys: list[_Key]) -> pl.DataFrame:
    columns = zip(*keys, strict=True) if keys else [()] * len(_Key._fields)
    return pl.DataFrame(
        [pl.Series(name, values, dtype=LANES_SCHEMA[name]) for name, values in zip(_Key._fields, columns, strict=True)]
    )
