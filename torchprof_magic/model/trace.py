"""What happened, as columns: the one model that every reader fills and every analysis reads.

All times are int64 ns from ``meta.start_unix_ns``. Frames are never changed after construction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import polars as pl

if TYPE_CHECKING:
    from torchprof_magic.model.meta import Meta, Problem

CATEGORIES = (
    "cpu_op",
    "user_annotation",
    "python_function",
    "runtime",
    "kernel",
    "memcpy",
    "memset",
    "gpu_user_annotation",
    "overhead",
    "other",
)
HOST_CATEGORIES = ("cpu_op", "user_annotation", "python_function", "runtime", "overhead")
DEVICE_CATEGORIES = ("kernel", "memcpy", "memset")

CATEGORY = pl.Enum(CATEGORIES)
LANE_KIND = pl.Enum(("thread", "stream", "stream annotations", "other"))
FLOW_KIND = pl.Enum(("launch", "backward", "annotation"))
TEXT = pl.Categorical()
# The range around a step. Longer numbers do not fit their column, and nobody counts steps that far.
STEP_PATTERN = r"^ProfilerStep#(\d{1,9})$"

DType: TypeAlias = pl.DataType | type[pl.DataType]


class FrameColumn(NamedTuple):
    """One column of a frame: its name and type, what it is measured in, and exactly what it means."""

    name: str
    dtype: DType
    unit: str
    definition: str


EVENTS_COLUMNS = (
    FrameColumn("name", TEXT, "text", "Name as recorded: of the op, range, Python function, runtime call or kernel."),
    FrameColumn("category", CATEGORY, "text", f"One of {', '.join(CATEGORIES)}; from the file's own category alone."),
    FrameColumn("lane", pl.Int32, "row", "Thread or stream that it ran on, a row of `lanes`."),
    FrameColumn("start_ns", pl.Int64, "ns", "Start, from the start of the run."),
    FrameColumn("dur_ns", pl.Int64, "ns", "Duration; 0 when it was not finished, or shorter than the file can say."),
    FrameColumn("parent", pl.Int32, "row", "Innermost event around it on its lane, a row above; -1 for none."),
    FrameColumn("depth", pl.Int32, "count", "How many events are around it on its lane."),
    FrameColumn("step", pl.Int32, "step", "Step that it began in, or that launched it; null outside of every step."),
    FrameColumn("cycle", pl.Int32, "count", "Recording cycle of the schedule, from 0."),
    FrameColumn(
        "correlation",
        pl.Int64,
        "id",
        "Number that joins a runtime call and the device work it launched, or a range and its span on a device.",
    ),
    FrameColumn("sequence", pl.Int64, "id", "Number of autograd that a forward op and its backward op share."),
    FrameColumn("fwd_thread", pl.Int64, "id", "Autograd's number of the thread of the forward op, in backward ops."),
    FrameColumn("shapes", TEXT, "json", "Dimensions of the inputs; null when they were not recorded."),
    FrameColumn("dtypes", TEXT, "json", "Types of the inputs; null when they were not recorded."),
    FrameColumn("bytes", pl.Int64, "bytes", "Size of a copy or fill."),
    FrameColumn("stream", pl.Int32, "id", "Stream of device work, as the device numbers it."),
    FrameColumn("device", pl.Int32, "id", "Device of device work, as the file numbers it."),
    FrameColumn("stack", pl.Int32, "row", "Innermost Python frame around it (around its launch), a row of `stacks`."),
    FrameColumn("overlaps", pl.Boolean, "bool", "It began inside another event of its lane and outlived it."),
)
LANES_COLUMNS = (
    FrameColumn("kind", LANE_KIND, "text", "thread, stream, stream annotations (ranges seen on a stream), or other."),
    FrameColumn("pid", pl.String, "id", "Process as the file has it; empty for streams."),
    FrameColumn("tid", pl.String, "id", "Thread as the file has it; empty for streams."),
    FrameColumn("device", pl.Int32, "id", "Device of a stream; null for threads."),
    FrameColumn("stream", pl.Int32, "id", "Number of a stream; null for threads."),
    FrameColumn("name", pl.String, "text", "Name of the thread or stream."),
)
FLOWS_COLUMNS = (
    FrameColumn(
        "kind",
        FLOW_KIND,
        "text",
        "launch: runtime call to device work. backward: forward op to backward op; of several ops with one sequence "
        "number, one inside the other, it is the last to begin on either side. annotation: range to its span on a "
        "device.",
    ),
    FrameColumn("source", pl.Int32, "row", "Where it begins, a row of `events`."),
    FrameColumn("target", pl.Int32, "row", "Where it ends, a row of `events`."),
)
MEMORY_COLUMNS = (
    FrameColumn("time_ns", pl.Int64, "ns", "When, from the start of the run; rows are in this order."),
    FrameColumn("device", pl.String, "text", "cpu, or kind and number of the device: cuda:0."),
    FrameColumn("delta_bytes", pl.Int64, "bytes", "Allocated (positive) or released (negative)."),
    FrameColumn("allocated_bytes", pl.Int64, "bytes", "What the allocator had given out afterwards; null if not told."),
    FrameColumn("reserved_bytes", pl.Int64, "bytes", "What the allocator held from the device; null if not told."),
    FrameColumn("address", pl.UInt64, "id", "Address of the block."),
    FrameColumn("event", pl.Int32, "row", "Innermost event around it on its thread, a row of `events`; -1 for none."),
    FrameColumn("cycle", pl.Int32, "count", "Recording cycle of the schedule, from 0."),
)
STEPS_COLUMNS = (
    FrameColumn("number", pl.Int32, "step", "The step's number, counted from the start of stepping."),
    FrameColumn("cycle", pl.Int32, "count", "Recording cycle of the schedule, from 0."),
    FrameColumn("start_ns", pl.Int64, "ns", "Start, from the start of the run."),
    FrameColumn("end_ns", pl.Int64, "ns", "End, from the start of the run."),
    FrameColumn("complete", pl.Boolean, "bool", "False when the step was cut."),
)
STACKS_COLUMNS = (
    FrameColumn("parent", pl.Int32, "row", "The calling frame, a row above; -1 for none."),
    FrameColumn("name", TEXT, "text", "The frame as torch writes it: file(line): function."),
    FrameColumn("file", TEXT, "text", "File of the function; null for what has none, such as built-in functions."),
    FrameColumn("line", pl.Int32, "count", "Line of the function's definition; null where there is no file."),
    FrameColumn("function", TEXT, "text", "Name of the function, or the whole name where there is no file."),
)
ARROWS_COLUMNS = (
    FrameColumn("category", pl.String, "text", "Category of the arrows, as the file has it."),
    FrameColumn("starts", pl.Int64, "count", "Beginnings of arrows."),
    FrameColumn("ends", pl.Int64, "count", "Ends of arrows."),
    FrameColumn("ids", pl.Int64, "count", "Different numbers of arrows."),
    FrameColumn("paired", pl.Int64, "count", "Numbers that have both a beginning and an end."),
)


def _schema(columns: tuple[FrameColumn, ...]) -> dict[str, DType]:
    return {column.name: column.dtype for column in columns}


EVENTS_SCHEMA = _schema(EVENTS_COLUMNS)
LANES_SCHEMA = _schema(LANES_COLUMNS)
FLOWS_SCHEMA = _schema(FLOWS_COLUMNS)
MEMORY_SCHEMA = _schema(MEMORY_COLUMNS)
STEPS_SCHEMA = _schema(STEPS_COLUMNS)
STACKS_SCHEMA = _schema(STACKS_COLUMNS)
ARROWS_SCHEMA = _schema(ARROWS_COLUMNS)
# The frames of a trace by the name of its field.
FRAME_SCHEMAS = {
    "events": EVENTS_SCHEMA,
    "lanes": LANES_SCHEMA,
    "flows": FLOWS_SCHEMA,
    "memory": MEMORY_SCHEMA,
    "steps": STEPS_SCHEMA,
    "stacks": STACKS_SCHEMA,
    "arrows": ARROWS_SCHEMA,
}
# What a saved run calls its first entry, and the version of what is in it; a change of a schema above is a new one.
SAVED_HEAD = "torchprof.json"
SAVED_VERSION = 1


class _Referable:
    """Lets results be kept for as long as their trace lives; ``dataclass(weakref_slot=True)`` needs Python 3.11."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace(_Referable):
    """One recording, or one file, as frames.

    ``events`` is sorted by lane, start and falling duration, so a row's ``parent`` (-1: none) stands above it;
    ``lane`` is a row of ``lanes``. ``flows`` holds rows of ``events``: launch -> device event, forward op -> backward
    op, range -> its span on a device. ``memory.event`` is the innermost host event around the allocation, or -1.
    ``step`` is null outside every step. ``stacks`` is the prefix tree of Python frames, a frame below its caller;
    ``events.stack`` is the row of the innermost frame around the event (around its launch, for device events), null
    where none is known. ``events.overlaps`` marks events that began inside another on their lane and outlived it.
    ``arrows`` counts the file's own flow arrows by category: how many begin, end, and have both ends.
    """

    events: pl.DataFrame
    lanes: pl.DataFrame
    flows: pl.DataFrame
    memory: pl.DataFrame
    steps: pl.DataFrame
    stacks: pl.DataFrame
    arrows: pl.DataFrame
    meta: Meta
    problems: tuple[Problem, ...] = ()

    @property
    def has_device(self) -> bool:
        """True when any kernel, copy or fill on an accelerator was recorded."""
        return bool(self.events["category"].is_in(DEVICE_CATEGORIES).any())
