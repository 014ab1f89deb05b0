"""The table that torch's own ``key_averages()`` would return for a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from torchprof_magic.facts.ops.flops import has_flops
from torchprof_magic.facts.ops.torch_calls import VALUES, torch_calls
from torchprof_magic.facts.ops.torch_stacks import frames_of
from torchprof_magic.facts.sums import LARGEST
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.trace import TEXT
from torchprof_magic.model.vendors import DEVICE_MEMORY
from torchprof_magic.tables.ops.groups import FRAME_BREAK
from torchprof_magic.tables.ops.installed import counts_python_functions

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

COLUMNS = (
    Column(name="key", title="Name", unit="code", definition="Name of the op. All steps are one row, ProfilerStep*."),
    Column(name="kind", title="Kind", unit="text", definition="Category of the event.", is_minor=True),
    Column(
        name="count",
        title="Calls",
        unit="count",
        definition="How often the op ran. As in torch, an only child with the name of its parent is merged into it.",
    ),
    Column(
        name="self_cpu_ns",
        title="Self CPU",
        unit="ns",
        definition="Duration minus direct children (ops, annotations, runtime calls, Python frames on the thread).",
        has_bar=True,
    ),
    Column(
        name="total_cpu_ns",
        title="Total CPU",
        unit="ns",
        definition="Summed duration. As in torch, a recursive op counts at every level.",
    ),
    Column(
        name="self_device_ns",
        title="Self device",
        unit="ns",
        definition="Device work that the op launched itself, as in torch. Device work and the ranges on a device have "
        "rows of their own too.",
        has_bar=True,
    ),
    Column(
        name="total_device_ns",
        title="Total device",
        unit="ns",
        definition="Device work that the op and the ops in it launched; as in torch, a recursive op counts at every "
        "level.",
    ),
    Column(
        name="self_cpu_bytes",
        title="Self CPU memory",
        unit="bytes",
        definition="Bytes of the op minus those of its direct children.",
    ),
    Column(
        name="total_cpu_bytes",
        title="Total CPU memory",
        unit="bytes",
        definition="Host memory allocated minus freed between start and end of the op; as in torch, by any thread.",
    ),
    Column(
        name="self_device_bytes",
        title="Self device memory",
        unit="bytes",
        definition="Device bytes of the op minus those of its direct children.",
    ),
    Column(
        name="total_device_bytes",
        title="Total device memory",
        unit="bytes",
        definition="Device memory allocated minus freed between start and end of the op; as in torch, by any thread.",
    ),
    Column(
        name="flops",
        title="FLOPs",
        unit="flop",
        definition="As in `ops`. torch counts the same for products of matrices and for `aten::conv2d`, of which the "
        "FLOPs are here those of `aten::convolution` in it; it also counts additions and multiplications of "
        "elements, which are left out here, but neither other convolutions nor a backward pass of them nor attention.",
    ),
)
_SHAPES = Column(
    name="shapes",
    title="Input shapes",
    unit="code",
    definition="Dimensions of the input tensors; as in torch, a list of tensors is shown empty.",
)
_OVERLOAD = Column(
    name="overload",
    title="Overload",
    unit="code",
    definition="Overload of the op; as in torch, empty unless recorded with `--overloads`.",
)
_STACK = Column(
    name="stack",
    title="Source location",
    unit="code",
    definition="The innermost Python frames around the op, or around its forward op, the innermost first. As in torch, "
    "empty unless stacks were recorded with `_ExperimentalConfig(verbose=True)`.",
)

ALL_COLUMNS = (*COLUMNS[:2], _OVERLOAD, _SHAPES, _STACK, *COLUMNS[2:])


class Grouping(NamedTuple):
    """What rows are kept apart by, besides the name: input shapes, so many frames of the stack, overloads.

    ``has_python`` is whether Python functions are rows; None if they are as in the installed torch.
    """

    has_shapes: bool = False
    stack_n: int = 0
    has_overloads: bool = False
    has_python: bool | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that this adds."""
        wanted = ((_OVERLOAD, self.has_overloads), (_SHAPES, self.has_shapes), (_STACK, self.stack_n > 0))
        return tuple(column for column, is_on in wanted if is_on)


NO_GROUPING = Grouping()


def averages_table(trace: Trace, by: Grouping = NO_GROUPING) -> Table:
    """Return one row per op with torch's own definitions of calls, self and total CPU and device time and memory.

    Unlike ``ops``, recursion counts at every level and steps are rows, and so are Python functions if the installed
    torch counts them, so the numbers can be checked against ``prof.key_averages()``. torch gives its events stacks only
    in verbose recordings, so in others grouping by stacks has no effect; ``ops_by("stack")`` groups by stacks in all.
    """
    columns = tuple(column for column in COLUMNS if column.name not in _absent(trace))
    columns = (*columns[:2], *by.columns, *columns[2:])
    frame = _grouped(trace, by).select(column.name for column in columns)
    frame = frame.sort("self_cpu_ns", "key", descending=[True, False])
    return Table(frame=frame, columns=columns, sort_by="self_cpu_ns")


def averages_in_torchs_order(trace: Trace, by: Grouping) -> pl.DataFrame:
    """Return the rows of ``averages_table`` in the order of their first calls.

    With the column ``is_top``: whether nothing is around the first call on its thread.
    """
    return _grouped(trace, by).sort("place").drop("place", *_absent(trace))


def _grouped(trace: Trace, by: Grouping) -> pl.DataFrame:
    calls = _with_stacks(trace, torch_calls(trace), by.stack_n).with_row_index("place")
    if not (counts_python_functions() if by.has_python is None else by.has_python):
        calls = calls.filter(pl.col("kind") != "python_function")
    found = calls.group_by(["key", "is_annotation", "is_on_device", *(column.name for column in by.columns)]).agg(
        pl.col("place", "is_top", "kind").first(),
        pl.len().alias("count"),
        *(_summed(f"{part}_{value}", calls.height) for value in VALUES for part in ("self", "total")),
        pl.when(pl.col("flops").is_not_null().any()).then(pl.col("flops").sum()).alias("flops"),
    )
    return found.with_columns(pl.col(TEXT).cast(pl.String))


def torch_events_table(trace: Trace) -> pl.DataFrame:
    """Return one row per event of torch's ``events()``, in torch's order, without columns of what was not recorded."""
    calls = torch_calls(trace)
    names = ["key", "kind", "start_ns", "dur_ns", "shapes", *(column.name for column in COLUMNS[3:])]
    calls = calls.select(name for name in names if name not in _absent(trace))
    return calls.with_columns(pl.col(TEXT).cast(pl.String))


def _with_stacks(trace: Trace, calls: pl.DataFrame, most: int) -> pl.DataFrame:
    """Return the calls with the innermost frames of their stacks as text, where torch gives them any."""
    if most <= 0 or not trace.meta.has_call_stacks:
        return calls.with_columns(pl.lit("").alias("stack"))
    distinct = calls["stack"].unique().to_list()
    texts = {stack: FRAME_BREAK.join(frames) for stack, frames in frames_of(trace, distinct, most).items()}
    return calls.with_columns(pl.col("stack").replace_strict(texts, return_dtype=pl.String))


def _summed(name: str, height: int) -> pl.Expr:
    """Return the sum of a column, which stops where that of damaged values would wrap around int64."""
    highest = LARGEST // max(height, 1)
    return pl.col(name).clip(-highest, highest).sum()


def _absent(trace: Trace) -> set[str]:
    """Return the columns of what was not recorded."""
    absent = set() if has_flops(trace) else {"flops"}
    if not trace.has_device:
        absent |= {"self_device_ns", "total_device_ns"}
    of_device = {"self_device_bytes", "total_device_bytes"}
    if trace.memory.height == 0 and not trace.meta.has_memory:
        return {"self_cpu_bytes", "total_cpu_bytes", *of_device, *absent}
    return absent if trace.memory["device"].str.contains(DEVICE_MEMORY).any() else absent | of_device
