"""Which parts of a Kineto chrome trace are read, and what types may they have?"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct, field

Number = int | float | str | None  # vendors write numbers as strings, and ids as floats
NO_RAW = Raw()


class Args(Struct, gc=False):
    """The event arguments that any analysis uses; all others are skipped while decoding."""

    correlation: Number = None
    stream: Number = None
    device: Number = None
    copy_bytes: Number = field(name="bytes", default=None)
    sequence: Number = field(name="Sequence number", default=None)
    fwd_thread: Number = field(name="Fwd thread id", default=None)
    input_dims: Raw = field(name="Input Dims", default=NO_RAW)
    input_types: Raw = field(name="Input type", default=NO_RAW)
    device_type: Number = field(name="Device Type", default=None)
    device_id: Number = field(name="Device Id", default=None)
    delta_bytes: Number = field(name="Bytes", default=None)
    address: Number = field(name="Addr", default=None)
    allocated_bytes: Number = field(name="Total Allocated", default=None)
    reserved_bytes: Number = field(name="Total Reserved", default=None)
    name: Number = None


NO_ARGS = Args()


class Event(Struct, gc=False):
    """One entry of ``traceEvents``. Times stay text until they become integer ns; float64 µs would not be exact."""

    ph: str = ""
    cat: str | None = None
    name: str | int | float | None = ""
    pid: Number = None
    tid: Number = None
    ts: Raw = NO_RAW
    dur: Raw = NO_RAW
    id: Number = None
    args: Args | None = None


class DeviceProperties(Struct, gc=False):
    """What a trace says about one accelerator; the name may be empty."""

    name: str = ""


class DistributedInfo(Struct, gc=False):
    """Which process of a job wrote the trace."""

    rank: int | None = None
    world_size: int | None = None


class ChromeTrace(Struct, gc=False):
    """The top level of a Kineto file. Keys that name users or hosts are not read."""

    trace_events: list[Event] | None = field(name="traceEvents", default=None)
    base_time_ns: int = field(name="baseTimeNanoseconds", default=0)
    devices: Raw = field(name="deviceProperties", default=NO_RAW)
    distributed: Raw = field(name="distributedInfo", default=NO_RAW)
    record_shapes: Number = None
    profile_memory: Number = None
    with_stack: Number = None
    nodes: Raw = NO_RAW


def decode_or_default(raw: Raw, kind: type[Struct | list[DeviceProperties]], default: object) -> object:
    """Return a side table of the trace, or ``default`` when it is absent or of another shape."""
    if not bytes(raw):
        return default
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError:
        return default
