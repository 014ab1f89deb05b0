"""The trace model: a recording as columns. Every reader fills it, and every analysis reads it.

All times are int64 ns from ``meta.start_unix_ns``. Frames are never changed after construction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import polars as pl

from torchprof_magic.model.meta import MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable

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
SITE_KIND = pl.Enum(("line", "module"))
WAIT_KIND = pl.Enum(("wait", "collection"))
# What memory is used for, in the order in which bands are stacked.
MEMORY_CATEGORIES = (
    "parameter",
    "buffer",
    "gradient",
    "optimizer_state",
    "activation",
    "input",
    "temporary",
    "autograd",
    "unknown",
)
MEMORY_CATEGORY = pl.Enum(MEMORY_CATEGORIES)
# What an allocator does, as torch calls it.
ACTIONS = (
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
    "other",
)
ACTION = pl.Enum(ACTIONS)
BLOCK_STATE = pl.Enum(("active_allocated", "active_pending_free", "inactive"))
TEXT = pl.Categorical()
# The range around a step. Longer numbers would not fit into their column.
STEP_PATTERN = r"^ProfilerStep#([0-9]{1,9})$"

# Times and levels stay below this, so that the sum of two fits into int64; so do the sums of whole columns.
MAX_SUM = 2**62
MAX_STEP = 10**9 - 1
# Counters stay below this, so that the difference of two fits into float64.
MAX_COUNTER = 1e300
# Names of kernels can have thousands of characters, and shapes of ops over thousands of tensors hundreds of thousands.
MAX_NAME_CHARS = 10_000
# What the values of ``launch_config`` are called in trace files.
LAUNCH_KEYS = ("grid", "block", "registers per thread", "shared memory", "est. achieved occupancy %")
# What the values of ``collective`` are called there.
COLLECTIVE_KEYS = (
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "dtype",
    "Process Group Name",
    "Process Group Description",
    "Group size",
    "Process Group Ranks",
    "Seq",
)
MAX_JSON_CHARS = 1_000_000
# Of generated code, so much is kept in all.
MAX_CODE_CHARS = 200_000

DType: TypeAlias = pl.DataType | type[pl.DataType]


class FrameColumn(NamedTuple):
    """One column of a frame: its name, type and unit, an exact definition, and which values it can have.

    ``least`` and ``most`` bound numbers. ``row_of`` names the frame of which the numbers are rows; those of a frame's
    own rows are of earlier ones. The values of an ``is_summed`` column together stay below ``MAX_SUM``.
    """

    name: str
    dtype: DType
    unit: str
    definition: str
    is_nullable: bool = False
    least: float | None = None
    most: float | None = None
    max_chars: int | None = None
    row_of: str = ""
    is_summed: bool = False


EVENTS_COLUMNS = (
    FrameColumn(
        "name",
        TEXT,
        "text",
        "Name as recorded: of the op, range, Python function, runtime call or kernel.",
        max_chars=MAX_NAME_CHARS,
    ),
    FrameColumn(
        "category", CATEGORY, "text", f"One of {', '.join(CATEGORIES)}; derived from the category in the file."
    ),
    FrameColumn("lane", pl.Int32, "row", "Thread or stream it ran on, a row of `lanes`.", least=0, row_of="lanes"),
    FrameColumn("start_ns", pl.Int64, "ns", "Start time, relative to the first recorded event.", least=0, most=MAX_SUM),
    FrameColumn(
        "dur_ns",
        pl.Int64,
        "ns",
        "Duration; 0 if it was not finished, or is below the resolution of the file.",
        least=0,
        most=MAX_SUM,
        is_summed=True,
    ),
    FrameColumn(
        "parent",
        pl.Int32,
        "row",
        "Innermost event around it on its lane, an earlier row; -1 for none.",
        least=-1,
        row_of="events",
    ),
    FrameColumn("depth", pl.Int32, "count", "Number of events around it on its lane.", least=0),
    FrameColumn(
        "step",
        pl.Int32,
        "step",
        "Step in which it began, or was launched; null outside of steps.",
        is_nullable=True,
        least=0,
        most=MAX_STEP,
    ),
    FrameColumn("cycle", pl.Int32, "count", "Recording cycle of the schedule, from 0.", least=0),
    FrameColumn(
        "correlation",
        pl.Int64,
        "id",
        "Number shared by a runtime call and the device work it launched, or by a range and its span on a device.",
        is_nullable=True,
    ),
    FrameColumn(
        "sequence",
        pl.Int64,
        "id",
        "Sequence number of autograd, shared by a forward op and its backward op.",
        is_nullable=True,
    ),
    FrameColumn(
        "fwd_thread",
        pl.Int64,
        "id",
        "For backward ops: autograd's number of the thread that ran the forward op.",
        is_nullable=True,
    ),
    FrameColumn(
        "shapes",
        TEXT,
        "json",
        "Dimensions of the inputs; null if not recorded.",
        is_nullable=True,
        max_chars=MAX_JSON_CHARS,
    ),
    FrameColumn(
        "dtypes", TEXT, "json", "Types of the inputs; null if not recorded.", is_nullable=True, max_chars=MAX_JSON_CHARS
    ),
    FrameColumn(
        "concrete_inputs",
        TEXT,
        "json",
        "Values of the inputs that are not tensors, such as the stride and padding of a convolution; empty for "
        "tensors, and for texts and lists of tensors, which torch does not record. Null if not recorded.",
        is_nullable=True,
        max_chars=MAX_JSON_CHARS,
    ),
    FrameColumn(
        "bytes",
        pl.Int64,
        "bytes",
        "Size of a copy or fill.",
        is_nullable=True,
        least=-MAX_SUM,
        most=MAX_SUM,
        is_summed=True,
    ),
    FrameColumn(
        "launch_config",
        TEXT,
        "json",
        "How a kernel was launched: grid, block, registers a thread, bytes of shared memory a block, and estimated "
        "occupancy in %, null for what is not in the file; null if not recorded.",
        is_nullable=True,
        max_chars=MAX_JSON_CHARS,
    ),
    FrameColumn(
        "kernel",
        TEXT,
        "text",
        "Name of the kernel that a launch call starts, as files of ROCm say it, also where the launch is captured into "
        "a graph; null if not recorded.",
        is_nullable=True,
        max_chars=MAX_NAME_CHARS,
    ),
    FrameColumn(
        "collective",
        TEXT,
        "json",
        "What a collective communicates: its name, elements in and out, type, name, description and size of its "
        "process group, the ranks of that, and its sequence number there; null for what is not in the file, and for "
        "everything that is not a collective.",
        is_nullable=True,
        max_chars=MAX_JSON_CHARS,
    ),
    FrameColumn(
        "overload",
        TEXT,
        "text",
        "Overload of the op, such as Tensor for aten::add.Tensor; null if it has none, and unless recorded with "
        "`--overloads`.",
        is_nullable=True,
        max_chars=MAX_NAME_CHARS,
    ),
    FrameColumn(
        "script_modules",
        TEXT,
        "code",
        "For an op in a TorchScript model: the modules and methods around it, the outermost first, as torch writes "
        "them; null if not recorded (`--modules`). Behind a node of autograd, torch gives an op the text of a later "
        "one of its thread; `modules` and `ops_by` undo that.",
        is_nullable=True,
        max_chars=MAX_JSON_CHARS,
    ),
    FrameColumn(
        "graph_node",
        pl.Int64,
        "id",
        "Node of a CUDA graph that device work replays, with the number of the graph in the upper 32 bits; null for "
        "all other work, and where the file does not say it. The launches that annotations tell have it as well.",
        is_nullable=True,
    ),
    FrameColumn(
        "annotation",
        TEXT,
        "json",
        "What the program said of that node while it captured the graph, with `torch.cuda.graph_annotations`: `name`, "
        "`autograd_phase`, `module` and `op`; null if it said none of them.",
        is_nullable=True,
        max_chars=MAX_JSON_CHARS,
    ),
    FrameColumn("stream", pl.Int32, "id", "Stream of device work, as numbered by the device.", is_nullable=True),
    FrameColumn("device", pl.Int32, "id", "Device of device work, as numbered in the file.", is_nullable=True),
    FrameColumn(
        "stack",
        pl.Int32,
        "row",
        "Innermost Python frame around it (around its launch), a row of `stacks`.",
        is_nullable=True,
        least=0,
        row_of="stacks",
    ),
    FrameColumn(
        "overlaps", pl.Boolean, "bool", "True if it began inside another event of its lane and ended after it."
    ),
)
LANES_COLUMNS = (
    FrameColumn("kind", LANE_KIND, "text", "thread, stream, stream annotations (ranges seen on a stream), or other."),
    FrameColumn("pid", pl.String, "id", "Process id in the file; empty for streams.", max_chars=MAX_TEXT),
    FrameColumn("tid", pl.String, "id", "Thread id in the file; empty for streams.", max_chars=MAX_TEXT),
    FrameColumn("device", pl.Int32, "id", "Device of a stream; null for threads.", is_nullable=True),
    FrameColumn("stream", pl.Int32, "id", "Number of a stream; null for threads.", is_nullable=True),
    FrameColumn("name", pl.String, "text", "Name of the thread or stream.", max_chars=MAX_TEXT),
)
FLOWS_COLUMNS = (
    FrameColumn(
        "kind",
        FLOW_KIND,
        "text",
        "launch: runtime call to device work. backward: forward op to backward op; if nested ops share a sequence "
        "number, the innermost ones are linked. annotation: range to its span on a device.",
    ),
    FrameColumn(
        "source", pl.Int32, "row", "Event at which the link begins, a row of `events`.", least=0, row_of="events"
    ),
    FrameColumn(
        "target", pl.Int32, "row", "Event at which the link ends, a row of `events`.", least=0, row_of="events"
    ),
)
MEMORY_COLUMNS = (
    FrameColumn(
        "time_ns",
        pl.Int64,
        "ns",
        "Time, relative to the first recorded event; rows are sorted by it.",
        least=-MAX_SUM,
        most=MAX_SUM,
    ),
    FrameColumn(
        "device", pl.String, "text", "cpu, or type and number of the device, such as cuda:0.", max_chars=MAX_TEXT
    ),
    FrameColumn(
        "delta_bytes",
        pl.Int64,
        "bytes",
        "Allocated (positive) or released (negative).",
        least=-MAX_SUM,
        most=MAX_SUM,
        is_summed=True,
    ),
    FrameColumn(
        "allocated_bytes",
        pl.Int64,
        "bytes",
        "Bytes allocated afterwards, as reported by the allocator; null if not recorded.",
        is_nullable=True,
        least=-MAX_SUM,
        most=MAX_SUM,
    ),
    FrameColumn(
        "reserved_bytes",
        pl.Int64,
        "bytes",
        "Bytes that the allocator has reserved on the device; null if not recorded.",
        is_nullable=True,
        least=-MAX_SUM,
        most=MAX_SUM,
    ),
    FrameColumn("address", pl.UInt64, "id", "Address of the block.", is_nullable=True),
    FrameColumn(
        "event",
        pl.Int32,
        "row",
        "Innermost event around it on its thread, a row of `events`; -1 for none.",
        least=-1,
        row_of="events",
    ),
    FrameColumn("cycle", pl.Int32, "count", "Recording cycle of the schedule, from 0.", least=0),
)
COUNTERS_COLUMNS = (
    FrameColumn(
        "time_ns",
        pl.Int64,
        "ns",
        "Time, relative to the first recorded event; rows are sorted by it. Negative for values from before it.",
        least=-MAX_SUM,
        most=MAX_SUM,
    ),
    FrameColumn(
        "device", pl.Int32, "id", "Device that it is about, as numbered in the file; null for others.", is_nullable=True
    ),
    FrameColumn(
        "name", TEXT, "text", "Name of the counter, and of the series if it has several.", max_chars=MAX_NAME_CHARS
    ),
    FrameColumn(
        "value",
        pl.Float64,
        "number",
        "Its value as in the file, in `unit`, from then to the next row of this counter.",
        least=-MAX_COUNTER,
        most=MAX_COUNTER,
    ),
    FrameColumn("unit", TEXT, "text", "Its unit; null if the file names none.", is_nullable=True, max_chars=MAX_TEXT),
    FrameColumn("cycle", pl.Int32, "count", "Recording cycle of the schedule, from 0.", least=0),
)
STEPS_COLUMNS = (
    FrameColumn(
        "number", pl.Int32, "step", "Number of the step, counted from the first step().", least=0, most=MAX_STEP
    ),
    FrameColumn("cycle", pl.Int32, "count", "Recording cycle of the schedule, from 0.", least=0),
    FrameColumn(
        "start_ns", pl.Int64, "ns", "Start time, relative to the first recorded event.", least=-MAX_SUM, most=MAX_SUM
    ),
    FrameColumn(
        "end_ns", pl.Int64, "ns", "End time, relative to the first recorded event.", least=-MAX_SUM, most=MAX_SUM
    ),
    FrameColumn("complete", pl.Boolean, "bool", "False if the step was interrupted."),
)
STACKS_COLUMNS = (
    FrameColumn(
        "parent", pl.Int32, "row", "The calling frame, an earlier row; -1 for none.", least=-1, row_of="stacks"
    ),
    FrameColumn("name", TEXT, "text", "The frame as torch writes it: file(line): function.", max_chars=MAX_NAME_CHARS),
    FrameColumn(
        "file",
        TEXT,
        "text",
        "File of the function; null if it has none, as built-in functions.",
        is_nullable=True,
        max_chars=MAX_NAME_CHARS,
    ),
    FrameColumn(
        "line",
        pl.Int32,
        "count",
        "Line of the function's definition, or in a memory snapshot the line that ran; null if there is no file.",
        is_nullable=True,
        least=0,
    ),
    FrameColumn(
        "function",
        TEXT,
        "text",
        "Name of the function, or the whole name if there is no file.",
        max_chars=MAX_NAME_CHARS,
    ),
)
ARROWS_COLUMNS = (
    FrameColumn("category", pl.String, "text", "Category of the arrows in the file.", max_chars=MAX_TEXT),
    FrameColumn("starts", pl.Int64, "count", "Number of arrow starts.", least=0, most=MAX_SUM),
    FrameColumn("ends", pl.Int64, "count", "Number of arrow ends.", least=0, most=MAX_SUM),
    FrameColumn("ids", pl.Int64, "count", "Number of distinct arrow ids.", least=0, most=MAX_SUM),
    FrameColumn("paired", pl.Int64, "count", "Number of ids with both a start and an end.", least=0, most=MAX_SUM),
)
SITES_COLUMNS = (
    FrameColumn("kind", SITE_KIND, "text", "line: a line of source code. module: an nn.Module."),
    FrameColumn(
        "parent",
        pl.Int32,
        "row",
        "The module that holds this one as an attribute, an earlier row; -1 for none, and for lines.",
        least=-1,
        row_of="sites",
    ),
    FrameColumn(
        "name",
        TEXT,
        "code",
        "Of a line its source text, of a module its path of attributes, such as encoder.layers.0.",
        max_chars=MAX_NAME_CHARS,
    ),
    FrameColumn("file", TEXT, "text", "File of the line.", is_nullable=True, max_chars=MAX_NAME_CHARS),
    FrameColumn("line", pl.Int32, "count", "Number of the line, from 1.", is_nullable=True, least=0),
    FrameColumn("class_name", TEXT, "code", "Class of the module.", is_nullable=True, max_chars=MAX_NAME_CHARS),
    FrameColumn(
        "parameters",
        pl.Int64,
        "count",
        "Number of elements in the parameters of the module and of those in it, each parameter once.",
        is_nullable=True,
        least=0,
        most=MAX_SUM,
    ),
    FrameColumn(
        "bytes",
        pl.Int64,
        "bytes",
        "Size of these parameters and of the buffers.",
        is_nullable=True,
        least=0,
        most=MAX_SUM,
    ),
    FrameColumn(
        "inputs",
        TEXT,
        "text",
        "Shapes of the tensors that the first call of the module got; null for lines.",
        is_nullable=True,
        max_chars=MAX_NAME_CHARS,
    ),
    FrameColumn(
        "outputs",
        TEXT,
        "text",
        "Shapes of the tensors that it returned; null for lines.",
        is_nullable=True,
        max_chars=MAX_NAME_CHARS,
    ),
)
SCOPES_COLUMNS = (
    FrameColumn("site", pl.Int32, "row", "What ran, a row of `sites`.", least=0, row_of="sites"),
    FrameColumn("lane", pl.Int32, "row", "Thread it ran on, a row of `lanes`.", least=0, row_of="lanes"),
    FrameColumn("start_ns", pl.Int64, "ns", "Start time, relative to the first recorded event.", least=0, most=MAX_SUM),
    FrameColumn("dur_ns", pl.Int64, "ns", "Duration.", least=0, most=MAX_SUM, is_summed=True),
    FrameColumn("cycle", pl.Int32, "count", "Recording cycle of the schedule, from 0.", least=0),
)
TAGS_COLUMNS = (
    FrameColumn(
        "time_ns",
        pl.Int64,
        "ns",
        "When the tensor was seen, relative to the first recorded event; rows are sorted by it.",
        least=-MAX_SUM,
        most=MAX_SUM,
    ),
    FrameColumn(
        "category",
        MEMORY_CATEGORY,
        "text",
        "What the program used the tensor for: parameter, buffer, gradient, optimizer_state or input.",
    ),
    FrameColumn(
        "device", pl.String, "text", "cpu, or type and number of the device, such as cuda:0.", max_chars=MAX_TEXT
    ),
    FrameColumn("address", pl.UInt64, "id", "Address of its storage."),
    FrameColumn("bytes", pl.Int64, "bytes", "Size of its storage.", least=0, most=MAX_SUM, is_summed=True),
    FrameColumn(
        "name",
        TEXT,
        "code",
        "Path of attributes of a parameter or buffer, that of the parameter for a gradient, and of a parameter with "
        "the name of the value for the state of an optimizer; null if not known.",
        is_nullable=True,
        max_chars=MAX_NAME_CHARS,
    ),
    FrameColumn("shape", TEXT, "text", "Its dimensions, such as [16, 64].", max_chars=MAX_NAME_CHARS),
    FrameColumn("dtype", TEXT, "text", "Its type, such as float32.", max_chars=MAX_NAME_CHARS),
    FrameColumn("cycle", pl.Int32, "count", "Recording cycle of the schedule, from 0.", least=0),
)
STORAGES_COLUMNS = (
    FrameColumn("address", pl.UInt64, "id", "Address of the storage."),
    FrameColumn("bytes", pl.Int64, "bytes", "Its size.", least=0, most=MAX_SUM, is_summed=True),
    FrameColumn("is_older", pl.Boolean, "bool", "Whether it was in use before the recording."),
    FrameColumn(
        "is_in_use",
        pl.Boolean,
        "bool",
        "Whether the program held it at the end of the recording. What is "
        "neither older nor in use was kept by the recording itself.",
    ),
    FrameColumn(
        "gone_ns",
        pl.Int64,
        "ns",
        "When an older one was released, relative to the first recorded event; null if it is in use at the end, or if "
        "the moment is not known.",
        is_nullable=True,
        least=-MAX_SUM,
        most=MAX_SUM,
    ),
    FrameColumn("cycle", pl.Int32, "count", "Recording cycle of the schedule, from 0.", least=0),
)
WAITS_COLUMNS = (
    FrameColumn(
        "kind",
        WAIT_KIND,
        "text",
        "wait: the thread neither ran nor was ready to run. collection: Python collected garbage.",
    ),
    FrameColumn(
        "call",
        TEXT,
        "code",
        "What the user's line called, such as time.sleep or Queue.get; null if not known.",
        is_nullable=True,
        max_chars=MAX_NAME_CHARS,
    ),
    FrameColumn("file", TEXT, "text", "File of the line.", is_nullable=True, max_chars=MAX_NAME_CHARS),
    FrameColumn("line", pl.Int32, "count", "Number of the line, from 1.", is_nullable=True, least=0),
    FrameColumn("lane", pl.Int32, "row", "Thread that waited, a row of `lanes`.", least=0, row_of="lanes"),
    FrameColumn("start_ns", pl.Int64, "ns", "Start time, relative to the first recorded event.", least=0, most=MAX_SUM),
    FrameColumn("dur_ns", pl.Int64, "ns", "Duration.", least=0, most=MAX_SUM, is_summed=True),
    FrameColumn("cycle", pl.Int32, "count", "Recording cycle of the schedule, from 0.", least=0),
)
HOST_LINES_COLUMNS = (
    FrameColumn(
        "module",
        TEXT,
        "code",
        "Module of Python that was imported, with those that it imports; null for a line that was only seen to run.",
        is_nullable=True,
        max_chars=MAX_NAME_CHARS,
    ),
    FrameColumn(
        "call",
        TEXT,
        "code",
        "What a line that was seen to run called, such as torch.load; null for an import, and if not known.",
        is_nullable=True,
        max_chars=MAX_NAME_CHARS,
    ),
    FrameColumn("file", TEXT, "text", "File of the user's line.", is_nullable=True, max_chars=MAX_NAME_CHARS),
    FrameColumn("line", pl.Int32, "count", "Number of the line, from 1.", is_nullable=True, least=0),
    FrameColumn("lane", pl.Int32, "row", "Thread that ran it, a row of `lanes`.", least=0, row_of="lanes"),
    FrameColumn("start_ns", pl.Int64, "ns", "Start time, relative to the first recorded event.", least=0, most=MAX_SUM),
    FrameColumn(
        "dur_ns",
        pl.Int64,
        "ns",
        "How long the import took; 0 for a line that was seen.",
        least=0,
        most=MAX_SUM,
        is_summed=True,
    ),
    FrameColumn("cycle", pl.Int32, "count", "Recording cycle of the schedule, from 0.", least=0),
)
_ANY_DEVICE = "Type and number of the device, such as cuda:0."
_ALLOCATING_STACK = "Innermost frame that allocated it, a row of `stacks`; null if not recorded."
SEGMENTS_COLUMNS = (
    FrameColumn("device", pl.String, "text", _ANY_DEVICE, max_chars=MAX_TEXT),
    FrameColumn("address", pl.UInt64, "id", "Address of its first byte."),
    FrameColumn("total_bytes", pl.Int64, "bytes", "Size that was reserved from the driver.", least=0, is_summed=True),
    FrameColumn("stream", pl.Int64, "id", "Stream that its blocks are for, as torch numbers it; 0 for the default."),
    FrameColumn("kind", TEXT, "text", "small for blocks of up to 1 MiB, or large.", max_chars=MAX_TEXT),
    FrameColumn("pool", TEXT, "id", "Pool that owns it; 0.0 for the default one.", max_chars=MAX_TEXT),
    FrameColumn("is_expandable", pl.Boolean, "bool", "Whether it can grow (`expandable_segments`)."),
    FrameColumn("stack", pl.Int32, "row", _ALLOCATING_STACK, is_nullable=True, least=0, row_of="stacks"),
)
BLOCKS_COLUMNS = (
    FrameColumn("segment", pl.Int32, "row", "Segment that holds it, a row of `segments`.", least=0, row_of="segments"),
    FrameColumn("address", pl.UInt64, "id", "Address of its first byte."),
    FrameColumn("size_bytes", pl.Int64, "bytes", "Size, rounded up by the allocator.", least=0, is_summed=True),
    FrameColumn(
        "requested_bytes",
        pl.Int64,
        "bytes",
        "Size that was requested; of an inactive one that of its last use.",
        least=0,
        is_summed=True,
    ),
    FrameColumn(
        "state",
        BLOCK_STATE,
        "text",
        "active_allocated: in use. active_pending_free: freed, but another stream still uses it. inactive: free.",
    ),
    FrameColumn("stack", pl.Int32, "row", _ALLOCATING_STACK, is_nullable=True, least=0, row_of="stacks"),
)
HISTORY_COLUMNS = (
    FrameColumn(
        "time_ns",
        pl.Int64,
        "ns",
        "Time, relative to the first recorded event; rows are sorted by it, and those of a device keep their order.",
        least=-MAX_SUM,
        most=MAX_SUM,
    ),
    FrameColumn("device", pl.String, "text", _ANY_DEVICE, max_chars=MAX_TEXT),
    FrameColumn(
        "action",
        ACTION,
        "text",
        "alloc; free_requested and free_completed (now it can be allocated again); segment_alloc, segment_free, "
        "segment_map and segment_unmap (memory of the driver); snapshot; oom (out of memory); or other.",
    ),
    FrameColumn("address", pl.UInt64, "id", "Address of the block or segment; 0 if not recorded."),
    FrameColumn("size_bytes", pl.Int64, "bytes", "Size that was requested.", least=0, is_summed=True),
    FrameColumn(
        "device_free_bytes",
        pl.Int64,
        "bytes",
        "Of oom: memory that the device had free.",
        is_nullable=True,
        least=0,
        most=MAX_SUM,
    ),
    FrameColumn("stream", pl.Int64, "id", "Stream, as torch numbers it; 0 for the default."),
    FrameColumn("pool", TEXT, "id", "Pool; null if not recorded.", is_nullable=True, max_chars=MAX_TEXT),
    FrameColumn("compile_context", TEXT, "text", "What torch.compile was at.", is_nullable=True, max_chars=MAX_TEXT),
    FrameColumn(
        "user_metadata", TEXT, "text", "Text that the program set for it.", is_nullable=True, max_chars=MAX_TEXT
    ),
    FrameColumn(
        "stack",
        pl.Int32,
        "row",
        "Innermost frame of it, a row of `stacks`.",
        is_nullable=True,
        least=0,
        row_of="stacks",
    ),
)
ANNOTATIONS_COLUMNS = (
    FrameColumn("name", TEXT, "text", "Name of the range, as given to `record_function`.", max_chars=MAX_NAME_CHARS),
    FrameColumn("device", pl.String, "text", _ANY_DEVICE, max_chars=MAX_TEXT),
    FrameColumn(
        "start_ns",
        pl.Int64,
        "ns",
        "Start time, relative to the first recorded event; null if it began before the history.",
        is_nullable=True,
        least=-MAX_SUM,
        most=MAX_SUM,
    ),
    FrameColumn(
        "end_ns", pl.Int64, "ns", "End time; null if it had not ended.", is_nullable=True, least=-MAX_SUM, most=MAX_SUM
    ),
)

GRAPH_ROLE = pl.Enum(("input", "output"))
GRAPH_OPS_COLUMNS = (
    FrameColumn("id", pl.Int64, "id", "Number of the call in the file, in the order in which they began.", least=0),
    FrameColumn("name", TEXT, "text", "Name of the op or the range.", max_chars=MAX_NAME_CHARS),
    FrameColumn(
        "parent",
        pl.Int32,
        "row",
        "Call that it is inside of, a row of this frame; -1: none.",
        least=-1,
        row_of="graph_ops",
    ),
    FrameColumn("thread", pl.Int64, "id", "Number that torch gave to the thread.", is_nullable=True, least=0),
    FrameColumn("sequence", pl.Int64, "id", "Number shared by forward and backward op.", is_nullable=True, least=0),
    FrameColumn("schema", pl.String, "text", "Signature of the op.", max_chars=MAX_NAME_CHARS),
    FrameColumn("kernel_file", pl.String, "text", "File of its generated kernel, if any.", max_chars=MAX_NAME_CHARS),
    FrameColumn("inputs", pl.String, "text", "Values of its inputs.", max_chars=MAX_NAME_CHARS),
    FrameColumn("outputs", pl.String, "text", "Values of its outputs.", max_chars=MAX_NAME_CHARS),
)
GRAPH_TENSORS_COLUMNS = (
    FrameColumn("op", pl.Int32, "row", "Call that has it, a row of `graph_ops`.", least=0, row_of="graph_ops"),
    FrameColumn("role", GRAPH_ROLE, "text", "input or output."),
    FrameColumn("position", pl.Int32, "count", "Position of the argument or the result, from 0.", least=0),
    FrameColumn("tensor", pl.Int64, "id", "Number of the tensor in the file.", least=0),
    FrameColumn("storage", pl.Int64, "id", "Number of its storage.", least=0),
    FrameColumn("offset", pl.Int64, "count", "Elements of the storage before its first one.", least=0),
    FrameColumn("size_bytes", pl.Int64, "bytes", "Number of elements times the size of one.", least=0, is_summed=True),
    FrameColumn("dtype", pl.String, "text", "Type of its elements.", max_chars=MAX_TEXT),
    FrameColumn("shape", pl.String, "text", "Its sizes.", max_chars=MAX_TEXT),
    FrameColumn("device", pl.String, "text", "Its device.", max_chars=MAX_TEXT),
)

FX_NODES_COLUMNS = (
    FrameColumn(
        "graph",
        TEXT,
        "text",
        "Graph, as its ranges in the trace name it: a file that torch.fx wrote, or the key of code of Inductor.",
        max_chars=MAX_NAME_CHARS,
    ),
    FrameColumn(
        "number", pl.Int32, "count", "Number of the node in its graph; of a call, its place among all.", least=0
    ),
    FrameColumn("name", TEXT, "code", "Name of the node; of a call, what it fuses.", max_chars=MAX_NAME_CHARS),
    FrameColumn(
        "kernel",
        TEXT,
        "code",
        "Of a call in code of Inductor: the kernel, as the code names it; null for nodes.",
        is_nullable=True,
        max_chars=MAX_NAME_CHARS,
    ),
    FrameColumn(
        "call",
        pl.Int32,
        "row",
        "Call that computes the node together with others, an earlier row; -1 for none.",
        least=-1,
        row_of="fx_nodes",
    ),
    FrameColumn(
        "stack",
        TEXT,
        "text",
        "Lines of the model, as torch writes them; null if it does not tell.",
        is_nullable=True,
        max_chars=MAX_JSON_CHARS,
    ),
    FrameColumn(
        "file",
        TEXT,
        "text",
        "File of the innermost line that is not torch's own; of a call, that of most of its nodes.",
        is_nullable=True,
        max_chars=MAX_NAME_CHARS,
    ),
    FrameColumn("line", pl.Int32, "count", "Number of that line, from 1.", is_nullable=True, least=0),
    FrameColumn("source", TEXT, "code", "Text of that line.", is_nullable=True, max_chars=MAX_NAME_CHARS),
    FrameColumn(
        "modules",
        TEXT,
        "json",
        "Path, below the compiled module, and class of each module around it, the outermost first; null if not known.",
        is_nullable=True,
        max_chars=MAX_JSON_CHARS,
    ),
    FrameColumn("code", TEXT, "text", "File of the code of Inductor.", is_nullable=True, max_chars=MAX_NAME_CHARS),
)

FX_CODE_COLUMNS = (
    FrameColumn("file", TEXT, "text", "File of the code of Inductor.", max_chars=MAX_NAME_CHARS),
    FrameColumn("text", pl.String, "code", "Its text, as far as it is kept.", max_chars=MAX_CODE_CHARS),
)


def _schema(columns: tuple[FrameColumn, ...]) -> dict[str, DType]:
    return {column.name: column.dtype for column in columns}


EVENTS_SCHEMA = _schema(EVENTS_COLUMNS)
LANES_SCHEMA = _schema(LANES_COLUMNS)
FLOWS_SCHEMA = _schema(FLOWS_COLUMNS)
MEMORY_SCHEMA = _schema(MEMORY_COLUMNS)
COUNTERS_SCHEMA = _schema(COUNTERS_COLUMNS)
STEPS_SCHEMA = _schema(STEPS_COLUMNS)
STACKS_SCHEMA = _schema(STACKS_COLUMNS)
ARROWS_SCHEMA = _schema(ARROWS_COLUMNS)
SITES_SCHEMA = _schema(SITES_COLUMNS)
SCOPES_SCHEMA = _schema(SCOPES_COLUMNS)
TAGS_SCHEMA = _schema(TAGS_COLUMNS)
# The traces that a run has kept: not part of a trace, and known only to the process that recorded it.
SAVED_TRACES_SCHEMA: dict[str, type[pl.DataType] | pl.DataType] = {
    "path": pl.String,
    "timestamp": pl.Datetime("us", "UTC"),
    "step": pl.Int64,
    "cycle": pl.Int64,
    "rank": pl.Int64,
    "size_bytes": pl.Int64,
    "state": pl.String,
    "remote": pl.String,
    "remote_state": pl.String,
    "remote_error": pl.String,
}
# The frames of a trace by the name of its field.
FRAME_COLUMNS = {
    "events": EVENTS_COLUMNS,
    "lanes": LANES_COLUMNS,
    "flows": FLOWS_COLUMNS,
    "memory": MEMORY_COLUMNS,
    "steps": STEPS_COLUMNS,
    "stacks": STACKS_COLUMNS,
    "arrows": ARROWS_COLUMNS,
    "sites": SITES_COLUMNS,
    "scopes": SCOPES_COLUMNS,
    "tags": TAGS_COLUMNS,
    "storages": STORAGES_COLUMNS,
    "waits": WAITS_COLUMNS,
    "host_lines": HOST_LINES_COLUMNS,
    "segments": SEGMENTS_COLUMNS,
    "blocks": BLOCKS_COLUMNS,
    "history": HISTORY_COLUMNS,
    "annotations": ANNOTATIONS_COLUMNS,
    "graph_ops": GRAPH_OPS_COLUMNS,
    "graph_tensors": GRAPH_TENSORS_COLUMNS,
    "counters": COUNTERS_COLUMNS,
    "fx_nodes": FX_NODES_COLUMNS,
    "fx_code": FX_CODE_COLUMNS,
}
FRAME_SCHEMAS = {name: _schema(columns) for name, columns in FRAME_COLUMNS.items()}
# The name of the first entry of a saved run, and the version of its format. Changing a schema above needs a new one.
SAVED_HEAD = "torchprof.json"
SAVED_VERSION = 15
# Frames that older versions of the format lack.
ADDED_FRAMES = {
    "sites": 2,
    "scopes": 2,
    "tags": 5,
    "segments": 5,
    "blocks": 5,
    "history": 5,
    "annotations": 5,
    "graph_ops": 7,
    "graph_tensors": 7,
    "storages": 8,
    "counters": 9,
    "waits": 10,
    "host_lines": 11,
    "fx_nodes": 13,
    "fx_code": 14,
}
# Columns that they lack.
ADDED_COLUMNS = {
    ("sites", "inputs"): 3,
    ("sites", "outputs"): 3,
    ("events", "launch_config"): 4,
    ("events", "concrete_inputs"): 6,
    ("events", "collective"): 7,
    ("events", "overload"): 8,
    ("events", "script_modules"): 8,
    ("events", "kernel"): 12,
    ("events", "graph_node"): 15,
    ("events", "annotation"): 15,
}


_NO_ROWS = {name: pl.DataFrame(schema=schema) for name, schema in FRAME_SCHEMAS.items()}


def no_rows(name: str) -> pl.DataFrame:
    """Return a frame of a trace without rows; ``name`` is that of its field."""
    return _NO_ROWS[name].clone()


def _empty(name: str) -> Callable[[], pl.DataFrame]:
    return partial(no_rows, name)


class _Referable:
    """Makes traces weakly referable, for caches of results; ``dataclass(weakref_slot=True)`` needs Python 3.11."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace(_Referable):
    """One recording, or one file, as frames.

    ``events`` is sorted by lane, start and falling duration, so a row's ``parent`` (-1: none) comes before it;
    ``lane`` is a row of ``lanes``. ``flows`` holds rows of ``events``: launch -> device event, forward op -> backward
    op, range -> its span on a device. ``memory.event`` is the innermost host event around the allocation, or -1.
    ``step`` is null outside of steps. ``stacks`` is the prefix tree of Python frames, callers first;
    ``events.stack`` is the row of the innermost frame around the event (around its launch, for device events), null
    if unknown. ``events.overlaps`` marks events that began inside another one of their lane and ended after it.
    ``arrows`` counts the file's own flow arrows by category: how many begin, end, and have both ends.

    A live run also watches the program itself: ``sites`` are the lines and modules that were watched, and ``scopes``
    are their single runs on each thread, sorted by lane, start and falling duration. Scopes of one kind are nested
    properly on their lane. ``tags`` are the tensors whose use is known from live objects, if memory was recorded: one
    row each time that one was seen. ``storages`` is what the program held on the host before and after each cycle, as
    far as Python can reach it. ``waits`` are the times in which the thread of the steps waited or collected garbage,
    sorted by lane and start. ``host_lines`` are the imports of that thread, with the user's line, and lines that it was
    seen in, sorted by start. All six are empty for a file that was recorded by another program.

    ``segments``, ``blocks``, ``history`` and ``annotations`` are those of a memory snapshot, of all its devices: what
    the caching allocator held when it was taken, and what it had done before. They are empty without one.

    ``graph_ops`` and ``graph_tensors`` are those of an execution trace, which has nothing else.

    ``counters`` are what the file says of values over time, such as the power of a device.

    ``fx_nodes`` are the nodes of graphs of torch.compile that a live run could name: what the ranges ``## 5 ##`` in a
    trace mean, and what each kernel of Inductor computes. ``fx_code`` is the text of Inductor's code.
    """

    events: pl.DataFrame
    lanes: pl.DataFrame
    flows: pl.DataFrame
    memory: pl.DataFrame
    steps: pl.DataFrame
    stacks: pl.DataFrame
    arrows: pl.DataFrame
    sites: pl.DataFrame
    scopes: pl.DataFrame
    tags: pl.DataFrame
    meta: Meta
    problems: tuple[Problem, ...] = ()
    segments: pl.DataFrame = field(default_factory=_empty("segments"))
    blocks: pl.DataFrame = field(default_factory=_empty("blocks"))
    history: pl.DataFrame = field(default_factory=_empty("history"))
    annotations: pl.DataFrame = field(default_factory=_empty("annotations"))
    storages: pl.DataFrame = field(default_factory=_empty("storages"))
    waits: pl.DataFrame = field(default_factory=_empty("waits"))
    host_lines: pl.DataFrame = field(default_factory=_empty("host_lines"))
    graph_ops: pl.DataFrame = field(default_factory=_empty("graph_ops"))
    graph_tensors: pl.DataFrame = field(default_factory=_empty("graph_tensors"))
    counters: pl.DataFrame = field(default_factory=_empty("counters"))
    fx_nodes: pl.DataFrame = field(default_factory=_empty("fx_nodes"))
    fx_code: pl.DataFrame = field(default_factory=_empty("fx_code"))

    @property
    def has_device(self) -> bool:
        """Whether any kernel, copy or fill on an accelerator was recorded."""
        if self not in _has_device:
            _has_device[self] = any((self.events["category"] == category).any() for category in DEVICE_CATEGORIES)
        return _has_device[self]


_has_device: WeakKeyDictionary[Trace, bool] = WeakKeyDictionary()
