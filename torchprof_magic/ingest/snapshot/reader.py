"""The memory of a device over time, from a snapshot of torch's caching allocator.

The history in a snapshot holds changes, and its segments hold what was in use at its end. So the curve is computed
backwards from the end, and includes what was allocated before the history began.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.ingest.json.other_programs import FLIGHT_RECORDER
from torchprof_magic.ingest.regular import open_regular, read_pieces
from torchprof_magic.ingest.snapshot.frames import annotations_frame, blocks_frame, history_frame, segments_frame
from torchprof_magic.ingest.snapshot.pickle_reader import read_plain
from torchprof_magic.ingest.snapshot.stacks import StackTree, is_python, path_of
from torchprof_magic.ingest.snapshot.values import (
    MAX_SIZE_BYTES,
    MAX_SUM_BYTES,
    address_of,
    dicts_of,
    ints,
    is_count,
    keys_of,
    lists_of,
    requested_bytes,
    size_of,
    text_of,
)
from torchprof_magic.model.errors import IngestError, NotATraceError
from torchprof_magic.model.meta import Meta
from torchprof_magic.model.problems import problem
from torchprof_magic.model.trace import FRAME_SCHEMAS, STEP_PATTERN, Trace
from torchprof_magic.model.units import counted, format_bytes, format_file_size
from torchprof_magic.model.vendors import device_of_allocator

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from torchprof_magic.ingest.snapshot.values import Entry
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.meta import Problem

_MAGIC = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))
MAX_FILE_BYTES = 256 << 20  # two minutes of reading
# How an entry changes what is in use, and what the allocator has reserved. Freed blocks count as in use until they can
# be allocated again.
_IN_USE = {"alloc": 1, "free_completed": -1}
_HELD = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_CHANGES = _IN_USE.keys() | _HELD.keys()
_UNTIMED = -1
_MAX_DEVICES = 128
_MAX_FUNCTION_CHARS = 80
_TOP_PLACES = 3
_NO_FRAMES = "code that ran before the history was recorded"
_NO_PYTHON = "code without Python frames, such as a backward pass"


def is_snapshot(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a pickle, as memory snapshots are, by its content."""
    try:
        with open_regular(Path(path)) as file:
            return file.read(len(_MAGIC[0])) in _MAGIC
    except (OSError, ValueError, IngestError):
        return False


def read_snapshot(path: str | os.PathLike[str], meta: Meta | None = None) -> Trace:
    """Return a trace with memory only, from a file that ``torch.cuda.memory._dump_snapshot`` wrote.

    The file is read without unpickling: nothing in it can run. Raises ``IngestError`` when it is damaged, too large or
    holds more than plain values, and ``NotATraceError`` when it is a pickle of something else.
    """
    try:
        size = Path(path).stat().st_size
        if size > MAX_FILE_BYTES:
            raise IngestError(
                f"the snapshot has {format_file_size(size)}, which is too large; record it with fewer max_entries, "
                "or open it in https://pytorch.org/memory_viz"
            )
        with open_regular(Path(path)) as file:
            data = b"".join(read_pieces(file, MAX_FILE_BYTES))
    except OSError as exc:
        raise IngestError(f"the file cannot be read ({exc.strerror or exc})") from exc
    return snapshot_trace(read_plain(data), meta or Meta(), most_entries=len(data))


def snapshot_trace(snapshot: object, meta: Meta, *, most_entries: int) -> Trace:
    """Return the trace of a decoded snapshot with at most ``most_entries``; lists that occur twice count twice."""
    if isinstance(snapshot, dict) and {"entries", "pg_config"} <= snapshot.keys():
        raise NotATraceError(str(FLIGHT_RECORDER))
    if not isinstance(snapshot, dict) or not {"segments", "device_traces"} & snapshot.keys():
        raise NotATraceError("this is a pickle, but not a memory snapshot of torch")
    segments = dicts_of(snapshot.get("segments"))
    _check_work(snapshot.get("device_traces"), segments, most_entries)
    kind = device_of_allocator(" ".join(keys_of(snapshot.get("allocator_settings"))))
    devices = _read_devices(kind, lists_of(snapshot.get("device_traces")), segments)
    marks = [mark for mark in dicts_of(snapshot.get("external_annotations")) if is_count(mark.get("time_us"))]
    begin_us = _earliest_us(devices, marks)
    frames = {name: pl.DataFrame(schema=schema) for name, schema in FRAME_SCHEMAS.items()}
    frames |= {"memory": _memory(devices, begin_us), "steps": _steps(marks, begin_us)}
    frames |= _parts(devices, [(f"{kind}:{_device(mark)}", mark) for mark in marks], begin_us)
    names = meta.device_names or tuple(device.name for device in devices)
    meta = replace(meta, start_unix_ns=begin_us * 1000, device_names=names, has_memory=True)
    return Trace(**frames, meta=meta, problems=tuple(_problems(devices)))


def _parts(devices: Sequence[_Device], marks: Sequence[tuple[str, Entry]], begin_us: int) -> dict[str, pl.DataFrame]:
    """Return what the snapshot holds of the allocator itself."""
    stacks = StackTree()
    segments = [(device.name, segment) for device in devices for segment in device.segments]
    entries = [(device.name, at_us, entry) for device in devices for at_us, entry in device.entries]
    parts = {
        "segments": segments_frame(segments, stacks),
        "blocks": blocks_frame(segments, stacks),
        "history": history_frame([(name, at_us - begin_us, entry) for name, at_us, entry in entries], stacks),
        "annotations": annotations_frame([(name, mark["time_us"] - begin_us, mark) for name, mark in marks]),
    }
    return parts | {"stacks": stacks.frame()}


def _check_work(traces: object, segments: Sequence[Entry], most_entries: int) -> None:
    """Refuse lists that occur so often that walking them would take far longer than reading the file."""
    histories = traces if isinstance(traces, (list, tuple)) else []
    walked = sum(map(_length, histories)) + sum(_length(segment.get("blocks")) for segment in segments)
    if walked > most_entries:
        raise IngestError("the snapshot refers to the same entries again and again, so it was not opened")
    if len(histories) > _MAX_DEVICES:
        raise IngestError("the snapshot has more devices than any machine, so it was not opened; record it again")


def _length(value: object) -> int:
    return len(value) if isinstance(value, (list, tuple)) else 0


def _read_devices(kind: str, traces: Sequence[Sequence[Entry]], segments: Sequence[Entry]) -> list[_Device]:
    """Return the devices that have a history or segments."""
    owned: dict[int, list[Entry]] = {number: [] for number in range(len(traces))}
    for segment in segments:
        owned.setdefault(_device(segment), []).append(segment)
    devices = [
        _read_device(f"{kind}:{number}", traces[number] if number < len(traces) else [], owned[number])
        for number in sorted(owned)
    ]
    return [device for device in devices if device.has_history or len(device.time_us)]


def _earliest_us(devices: Sequence[_Device], marks: Sequence[Entry]) -> int:
    times = np.concatenate([ints(mark["time_us"] for mark in marks), *(device.time_us for device in devices)])
    known = times[times != _UNTIMED]
    return int(known.min()) if len(known) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Device:
    """The history of one device in order of time, one row per entry that changed anything.

    Without one there is one row at time ``_UNTIMED``: what was in use when the snapshot was taken.
    """

    name: str
    time_us: IntArray
    delta_bytes: IntArray
    in_use_bytes: IntArray
    held_bytes: IntArray
    address: npt.NDArray[np.uint64]
    segments: Sequence[Entry]
    entries: Sequence[tuple[int, Entry]]
    blocks: Sequence[Entry]
    failed: Sequence[Entry]
    damaged: int
    has_history: bool
    has_times: bool


def _read_device(name: str, trace: Sequence[Entry], own: Sequence[Entry]) -> _Device:
    blocks = [block for segment in own for block in dicts_of(segment.get("blocks")) if block.get("state") != "inactive"]
    has_times = any("time_us" in entry for entry in trace)
    # Without times, the place in the history stands for one.
    timed = [(_time_us(entry) if has_times else place, entry) for place, entry in enumerate(trace)]
    sound = [(time_us, entry) for time_us, entry in timed if time_us != _UNTIMED and _is_sound(entry)]
    timed_changes = [(time_us, entry) for time_us, entry in sound if entry["action"] in _CHANGES]
    changes = [entry for _, entry in timed_changes]
    size = ints(entry["size"] for entry in changes)
    delta = size * ints(_IN_USE.get(entry["action"], 0) for entry in changes)
    held_delta = size * ints(_HELD.get(entry["action"], 0) for entry in changes)
    rows = len(changes) or int(bool(own))
    return _Device(
        name=name,
        time_us=ints(time_us for time_us, _ in timed_changes) if changes else np.full(rows, _UNTIMED, np.int64),
        delta_bytes=delta if changes else np.zeros(rows, np.int64),
        in_use_bytes=_backwards(delta, sum(requested_bytes(block) for block in blocks), rows),
        held_bytes=_backwards(held_delta, sum(size_of(segment.get("total_size")) for segment in own), rows),
        address=np.array([address_of(entry.get("addr")) for entry in changes] or [0] * rows, np.uint64),
        segments=own,
        entries=sound,
        blocks=blocks,
        failed=[entry for _, entry in sound if entry["action"] == "oom"],
        damaged=len(trace) - len(sound),
        has_history=bool(trace),
        has_times=has_times,
    )


def _backwards(delta: IntArray, end: int, rows: int) -> IntArray:
    """Return the level after each change, ending at ``end``, or higher if needed to keep all of them above 0."""
    if float(np.abs(delta).sum(dtype=np.float64)) + end > MAX_SUM_BYTES:
        raise IngestError("the snapshot contains impossible sizes; copy it or write it again")
    if len(delta) == 0:
        return np.full(rows, end, np.int64)
    level = np.cumsum(delta)
    level += end - level[-1]
    return level - min(int(level.min()), int(level[0] - delta[0]), 0)


def _memory(devices: Sequence[_Device], begin_us: int) -> pl.DataFrame:
    schema = FRAME_SCHEMAS["memory"]
    frames = [
        pl.DataFrame(
            {
                "time_ns": np.maximum(device.time_us - begin_us, 0) * 1000,
                "device": [device.name] * len(device.time_us),
                "delta_bytes": device.delta_bytes,
                "allocated_bytes": device.in_use_bytes,
                "reserved_bytes": device.held_bytes,
                "address": device.address,
                "event": np.full(len(device.time_us), -1, np.int32),
                "cycle": np.zeros(len(device.time_us), np.int32),
            },
            schema=schema,
        )
        for device in devices
    ]
    return pl.concat([pl.DataFrame(schema=schema), *frames]).sort("time_ns", maintain_order=True)


def _steps(marks: Sequence[Entry], begin_us: int) -> pl.DataFrame:
    """Return the steps that ran while the history was recorded; a step without an end is incomplete."""
    begun: dict[int, int] = {}
    ended: dict[int, int] = {}
    for mark in marks:
        found = re.match(STEP_PATTERN, text_of(mark.get("name")))
        if found:
            (ended if mark.get("stage") == "END" else begun).setdefault(int(found[1]), mark["time_us"] - begin_us)
    last_us = max((mark["time_us"] - begin_us for mark in marks), default=0)
    rows = [
        (number, 0, start_us * 1000, max(ended.get(number, last_us), start_us) * 1000, number in ended)
        for number, start_us in sorted(begun.items(), key=lambda pair: pair[1])
    ]
    return pl.DataFrame(rows, schema=FRAME_SCHEMAS["steps"], orient="row")


def _problems(devices: Sequence[_Device]) -> Iterator[Problem]:
    for device in devices:
        yield from _failures(device)
        yield from _holders(device)
        if device.damaged:
            yield problem("snapshot.damaged_entries", count=device.damaged, device=device.name)
        if not device.has_history:
            yield problem("snapshot.no_history", device=device.name)
        elif not device.has_times:
            yield problem("snapshot.no_times")


def _failures(device: _Device) -> Iterator[Problem]:
    if not device.failed:
        return
    last = device.failed[-1]
    free = f" while the device had {format_bytes(size_of(last['device_free']))} free" if "device_free" in last else ""
    yield problem(
        "snapshot.out_of_memory",
        count=len(device.failed),
        device=device.name,
        place=_place(last),
        requested=format_bytes(last["size"]),
        free=free,
    )


def _holders(device: _Device) -> Iterator[Problem]:
    """Yield which lines of code allocated most of what is still in use at the end."""
    by_place: Counter[str] = Counter()
    blocks: Counter[str] = Counter()
    places: dict[int, str] = {}  # by the list of frames, which many blocks can share
    for block in device.blocks:
        frames = id(block.get("frames"))
        place = places[frames] = places.get(frames) or _place(block)
        by_place[place] += requested_bytes(block)
        blocks[place] += 1
    if not by_place:
        return
    whole = format_bytes(sum(by_place.values()))
    top = by_place.most_common(_TOP_PLACES)
    parts = [f"{format_bytes(size)} by {place} ({counted(blocks[place], 'block')})" for place, size in top]
    rest = f", and the rest by {counted(len(by_place) - len(top), 'other place')}" if len(by_place) > len(top) else ""
    yield problem(
        "snapshot.in_use",
        count=len(device.blocks),
        device=device.name,
        total=whole,
        places=f"{', '.join(parts)}{rest}",
    )


def _place(entry: Entry) -> str:
    """Return the innermost line of the user's Python code, or of a library if there is none."""
    frames = [frame for frame in dicts_of(entry.get("frames")) if is_python(frame.get("filename"))]
    if not frames:
        return _NO_PYTHON if entry.get("frames") else _NO_FRAMES
    own = (frame for frame in frames if "/torch/" not in path_of(frame))
    frame = next(own, frames[0])
    function = text_of(frame.get("name"))[:_MAX_FUNCTION_CHARS]
    return f"{path_of(frame).rpartition('/')[2]}:{size_of(frame.get('line'))} {function}".rstrip()


def _device(entry: Entry) -> int:
    number = entry.get("device", 0)
    return number if isinstance(number, int) and is_count(number, _MAX_DEVICES) else 0


def _time_us(entry: Entry) -> int:
    time_us = entry.get("time_us")
    return time_us if isinstance(time_us, int) and is_count(time_us) else _UNTIMED


def _is_sound(entry: Entry) -> bool:
    is_named = isinstance(entry.get("action"), str)
    return is_named and is_count(entry.get("size"), MAX_SIZE_BYTES)
