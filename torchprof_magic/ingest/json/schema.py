"""The parts of a Kineto Chrome trace that are read, with their types."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw, Struct, field

from torchprof_magic.model.meta import CALL_STACKS_KEY, STACKS_END_KEY

T = TypeVar("T")
# The limit for times and durations, 73 years; larger values would overflow sums of times.
MAX_TIME_NS = 2**61
Number = int | float | str | None  # vendors write numbers as strings, and ids as floats
NO_RAW = Raw()
COUNTER = "C"  # the phase of counter events


class HostArgs(Struct, gc=False):
    """The arguments of events of the host that any analysis uses; all others are skipped while decoding."""

    external_id: Number = field(name="External id", default=None)
    sequence: Number = field(name="Sequence number", default=None)
    fwd_thread: Number = field(name="Fwd thread id", default=None)
    input_dims: Raw = field(name="Input Dims", default=NO_RAW)
    input_types: Raw = field(name="Input type", default=NO_RAW)
    concrete_inputs: Raw = field(name="Concrete Inputs", default=NO_RAW)
    device_type: Number = field(name="Device Type", default=None)
    device_id: Number = field(name="Device Id", default=None)
    delta_bytes: Number = field(name="Bytes", default=None)
    address: Number = field(name="Addr", default=None)
    allocated_bytes: Number = field(name="Total Allocated", default=None)
    reserved_bytes: Number = field(name="Total Reserved", default=None)
    call_stack: Number = field(name="Call stack", default=None)  # torch of 2021
    script_modules: Number = field(name="Module Hierarchy", default=None)
    collective_name: Raw = field(name="Collective name", default=NO_RAW)
    elements_in: Raw = field(name="In msg nelems", default=NO_RAW)
    name: Number = None
    labels: Number = None


class Args(HostArgs, gc=False):
    """The event arguments that any analysis uses. Most are of devices, and making room for them takes time."""

    correlation: Number = None
    stream: Number = None
    device: Number = None
    copy_bytes: Number = field(name="bytes", default=None)
    grid: Raw = NO_RAW
    block: Raw = NO_RAW
    registers: Raw = field(name="registers per thread", default=NO_RAW)
    shared_memory: Raw = field(name="shared memory", default=NO_RAW)
    occupancy: Raw = field(name="est. achieved occupancy %", default=NO_RAW)
    kernel: Number = None  # of a launch call, as HIP writes it
    elements_out: Raw = field(name="Out msg nelems", default=NO_RAW)
    element_type: Raw = field(name="dtype", default=NO_RAW)
    group_name: Raw = field(name="Process Group Name", default=NO_RAW)
    group_description: Raw = field(name="Process Group Description", default=NO_RAW)
    group_size: Raw = field(name="Group size", default=NO_RAW)
    group_ranks: Raw = field(name="Process Group Ranks", default=NO_RAW)
    collective_number: Raw = field(name="Seq", default=NO_RAW)
    sync_kind: Number = field(name="cuda_sync_kind", default=None)
    waits_for: Number = field(name="wait_on_cuda_event_record_corr_id", default=None)
    graph: Number = field(name="graph id", default=None)
    graph_node: Number = field(name="graph node id", default=None)
    annotation: Raw = NO_RAW
    autograd_phase: Raw = NO_RAW
    note_text: Raw = field(name="str", default=NO_RAW)
    note_module: Raw = field(name="module", default=NO_RAW)
    note_op: Raw = field(name="op", default=NO_RAW)


NO_ARGS = Args()


class HostEvent(Struct, gc=False):
    """One entry of ``traceEvents`` with the arguments that those of the host have."""

    ph: str = ""
    cat: str | None = None
    name: Number = ""
    pid: Number = None
    tid: Number = None
    ts: Number = None
    dur: Number = None
    id: Number = None
    args: HostArgs | None = None


class Event(HostEvent, gc=False):
    """One entry of ``traceEvents`` with all arguments."""

    args: Args | None = None


class ExactEvent(Event, gc=False):
    """An event with times as text, to be parsed to integer ns, for files in which float64 µs are not exact."""

    ts: Raw = NO_RAW  # type: ignore[assignment]
    dur: Raw = NO_RAW  # type: ignore[assignment]


class CounterEvent(Struct, gc=False):
    """A counter event: its arguments are the values, under names that its program chose."""

    ph: str = ""
    name: Number = ""
    pid: Number = None
    id: Number = None
    ts: Raw = NO_RAW
    args: Raw = NO_RAW


class DeviceProperties(Struct, gc=False):
    """What a trace says about one accelerator; the name may be empty."""

    id: object = None
    name: str = ""
    memory: object = field(name="totalGlobalMem", default=None)
    major: object = field(name="computeMajor", default=None)
    minor: object = field(name="computeMinor", default=None)
    units: object = field(name="numSms", default=None)

    @property
    def title(self) -> str:
        """The name; where that is empty, what a device of these properties is called, empty if that is not known."""
        known = (self.major, self.minor, self.units)
        size = self.memory if isinstance(self.memory, int) else 0
        return self.name or next((name for key, least, name in _MODELS if key == known and least * 10**9 <= size), "")


# Old versions of ROCm's torch write no names: devices by their architecture, compute units and GB of memory, the
# largest memory first.
_MODELS = (
    ((9, 4, 304), 250, "AMD Instinct MI325X"),
    ((9, 4, 304), 190, "AMD Instinct MI300X"),
    ((9, 4, 228), 120, "AMD Instinct MI300A"),
)


class DistributedInfo(Struct, gc=False):
    """Which process of a job wrote the trace."""

    rank: int | None = None
    world_size: int | None = None
    backend: object = ""
    pg_config: Raw = NO_RAW


class Head(Struct, gc=False):
    """The top level of a Kineto file without its events. Keys that name users or hosts are not read."""

    base_time: Raw = field(name="baseTimeNanoseconds", default=NO_RAW)
    devices: Raw = field(name="deviceProperties", default=NO_RAW)
    distributed: Raw = field(name="distributedInfo", default=NO_RAW)
    record_shapes: Raw = NO_RAW
    with_stack: Raw = NO_RAW
    with_flops: Raw = NO_RAW
    profile_memory: Raw = NO_RAW
    call_stacks: Raw = field(name=CALL_STACKS_KEY, default=NO_RAW)
    nodes: Raw = NO_RAW
    stacks_end: Raw = field(name=STACKS_END_KEY, default=NO_RAW)

    @property
    def stacks_end_ns(self) -> int | None:
        """The time in ns since 1970 at which Python calls ceased to be recorded, None if they did not."""
        text = bytes(self.stacks_end).strip(b'"')
        return int(text) if text.isdigit() and int(text) < MAX_TIME_NS else None

    @property
    def base_time_ns(self) -> int:
        """The base of all times of the file, in ns since 1970; 0 if missing or unreadable."""
        return self._base_time() or 0

    @property
    def is_base_time_odd(self) -> bool:
        """Whether there is an invalid base time."""
        return bytes(self.base_time) not in (b"", b"null") and self._base_time() is None

    def _base_time(self) -> int | None:
        text = bytes(self.base_time).strip(b'"')
        if b"_" in text:  # as Python writes numbers, and no program
            return None
        try:
            base = int(text) if text.lstrip(b"-").isdigit() else int(float(text))
        except (ValueError, OverflowError):
            return None
        return base if abs(base) < MAX_TIME_NS else None

    def side_table(self, name: str, kind: type[T]) -> T | None:
        """Return ``devices`` or ``distributed`` decoded, ``None`` if missing or of another type."""
        raw = getattr(self, name)
        if not bytes(raw):
            return None
        try:
            return msgspec.json.decode(raw, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    def says(self, name: str) -> bool:
        """Return whether an option such as ``with_stack`` is on."""
        return bytes(getattr(self, name)) not in (b"", b"0", b"false", b"null", b'""')
