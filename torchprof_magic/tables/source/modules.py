"""Time and waiting by ``nn.Module``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.ops.flops import has_flops
from torchprof_magic.facts.ops.roofline import WorkSums, roofline, sums_of_work
from torchprof_magic.facts.shared import in_category, once_for_the_whole, once_per_trace
from torchprof_magic.facts.source.attribution import Runs, Shares, shares_of, sites_of_events, times_run, watched_runs
from torchprof_magic.facts.source.fx_modules import fused_modules, has_fused_modules, runs_of_modules
from torchprof_magic.facts.source.places import MODULE_FRAME, call_tree, module_frames
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.model.intervals import NO_PARENT, IntArray, depth_of, levels, nearest_marked, rolled_up
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.tables.critical_path import known_on_path, with_path_in_sight
from torchprof_magic.tables.ops import rates

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.intervals import BoolArray
    from torchprof_magic.model.trace import DType, Trace

_OWN_COLUMNS = (
    Column(
        name="path",
        title="Module",
        unit="code",
        definition="Path of attributes from the model, empty for the model itself; with the class of the model in "
        "front where there are several. From recorded Python frames it is a path of classes and numbers. Of a "
        "TorchScript model, of which torch names the modules around an op (`--modules`), a module lasts from the first "
        "to the last of the ops that follow one another in it; so does a module in code of torch.compile.",
    ),
    Column(name="class_name", title="Class", unit="code", definition="Class of the module."),
    Column(
        name="fused_in",
        title="Fused in",
        unit="code",
        definition="Kernels of torch.compile that compute it together with other modules, at one of which their time "
        "stands: what they fuse, and that module. The row then has no time of its own in forward. Null for modules "
        "that have some, and where there is no such kernel.",
    ),
    Column(
        name="parent",
        title="Parent",
        unit="code",
        definition="Path of the closest module around it that ran; null for a model.",
        is_minor=True,
    ),
    Column(
        name="calls", title="Calls", unit="count", definition="How often its forward ran.", is_minor=True, is_sum=True
    ),
    Column(
        name="inputs",
        title="Input shapes",
        unit="text",
        definition="Shapes of the tensors that its first call got, with those of keyword arguments; null if not known.",
        is_minor=True,
    ),
    Column(
        name="outputs",
        title="Output shapes",
        unit="text",
        definition="Shapes of the tensors that its first call returned; null if not known.",
        is_minor=True,
    ),
    Column(
        name="self_cpu_ns",
        title="Self forward CPU",
        unit="ns",
        definition="Wall time of its forward without that of modules inside it.",
        has_bar=True,
        is_sum=True,
    ),
    Column(
        name="total_cpu_ns",
        title="Forward CPU",
        unit="ns",
        definition="Wall time of its forward with everything inside: ops, waits, and the Python between them, which "
        "the phase forward of a step leaves out.",
        has_bar=True,
        is_sum=True,
    ),
    Column(
        name="on_path_ns",
        title="On path",
        unit="ns",
        definition="Part of the host and device time of its forward and backward on the critical path of a step, with "
        "everything inside, as in `report.critical_path`: only that part makes the step longer.",
        is_sum=True,
    ),
    Column(
        name="device_ns",
        title="Forward device",
        unit="ns",
        definition="Summed time of device work that its forward launched, with everything inside.",
        has_bar=True,
        is_sum=True,
    ),
    Column(
        name="self_device_ns",
        title="Self forward device",
        unit="ns",
        definition="The same without modules inside it. With that of the backward pass, all rows add up to all device "
        "work.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="wait_ns",
        title="Waiting",
        unit="ns",
        definition="Time in blocking calls, with everything inside.",
        is_sum=True,
    ),
    Column(
        name="backward_cpu_ns",
        title="Backward CPU",
        unit="ns",
        definition="Host time of the autograd nodes that its ops made, with everything inside.",
        has_bar=True,
        is_sum=True,
    ),
    Column(
        name="backward_device_ns",
        title="Backward device",
        unit="ns",
        definition="Summed time of device work that these nodes launched, with everything inside.",
        has_bar=True,
        is_sum=True,
    ),
    Column(
        name="self_backward_cpu_ns",
        title="Self backward CPU",
        unit="ns",
        definition="Backward CPU without modules inside it.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="flops",
        title="Forward FLOPs",
        unit="flop",
        definition="Known FLOPs of the ops in its forward, with everything inside; see `ops`.",
        is_sum=True,
    ),
    Column(
        name="backward_flops",
        title="Backward FLOPs",
        unit="flop",
        definition="Known FLOPs of the autograd nodes that its ops made, with everything inside.",
        is_minor=True,
        is_sum=True,
    ),
    Column(
        name="parameters",
        title="Parameters",
        unit="count",
        definition="Number of elements of its parameters and of those inside it, each once; null if not known.",
        is_minor=True,
    ),
    Column(
        name="bytes",
        title="Size",
        unit="bytes",
        definition="Size of these parameters and of the buffers; null if not known.",
        is_minor=True,
    ),
)
_RATES_AT = [column.name for column in _OWN_COLUMNS].index("backward_flops") + 1
COLUMNS = (*_OWN_COLUMNS[:_RATES_AT], *rates.COLUMNS, *_OWN_COLUMNS[_RATES_AT:])
_FLOPS = ("flops", "backward_flops")
_TEXT = ("path", "class_name", "fused_in", "parent", "inputs", "outputs")
SCHEMA: dict[str, DType] = {column.name: pl.String if column.name in _TEXT else pl.Int64 for column in COLUMNS} | {
    column.name: rates.TYPES[column.name] for column in rates.COLUMNS
}
# The row of device work that no module launched.
OUTSIDE = "outside of modules"


@once_for_the_whole
def modules_table(trace: Trace, part: TimeRange) -> Table:
    """Return one row per module that ran, each after its parent, in the order in which they first ran.

    A call counts if any of it lies in the part; modules that have nothing there are left out.
    """
    sites, runs = module_runs(trace)
    if len(runs.site) == 0:
        return Table(frame=pl.DataFrame(schema=SCHEMA), columns=_columns(trace))
    frame = _frame(trace, sites, shares_of(trace, runs, part), runs, part)
    return Table(frame=known_on_path(trace, frame), columns=_columns(trace))


@once_per_trace
def module_runs(trace: Trace) -> tuple[pl.DataFrame, Runs]:
    """Return the modules and their calls, as they were watched, or else from recorded Python frames; maybe none.

    Modules of TorchScript, of which torch names those around an op, and those in compiled code are below the watched
    ones.

    The sites of the runs are rows of the frame, which has the columns ``name, parent, class_name, parameters, bytes,
    inputs`` and ``outputs``.
    """
    if (of_ops := runs_of_modules(trace)) is not None:
        return of_ops
    runs = watched_runs(trace, "module")
    return (trace.sites, runs) if len(runs.site) else _from_frames(trace)


@once_per_trace
def outermost_modules(trace: Trace) -> pl.DataFrame:
    """Return the modules that ran inside of no other, in the order in which they first ran.

    The columns are ``path, class_name`` and ``inputs``.
    """
    sites, runs = module_runs(trace)
    if len(runs.site) == 0:
        return pl.DataFrame(schema={name: SCHEMA[name] for name in ("path", "class_name", "inputs")})
    parent = sites["parent"].to_numpy().astype(np.int64)
    has_run = np.bincount(runs.site, minlength=runs.sites) > 0
    is_outermost = has_run & (nearest_marked(parent, depth_of(parent), has_run)[parent] < 0)
    columns = (pl.col("name").alias("path"), "class_name", "inputs")
    return sites.select(columns)[_in_order(parent, is_outermost)].cast(pl.String)


def own_times(frame: pl.DataFrame, forward: str, backward: str) -> pl.Series:
    """Return what both passes of each module take without the modules inside it, in ns."""
    times = frame.select("path", "parent", whole_ns=pl.sum_horizontal(forward, backward))
    inside = times.group_by("parent").agg(pl.col("whole_ns").sum().alias("inside_ns"))
    joined = times.join(inside, left_on="path", right_on="parent", how="left", maintain_order="left")
    return joined.select((pl.col("whole_ns") - pl.col("inside_ns").fill_null(0)).clip(0)).to_series()


def _columns(trace: Trace) -> tuple[Column, ...]:
    device = {"device_ns", "self_device_ns", "backward_device_ns", "wait_ns"}
    known = trace.sites["parameters"].is_not_null().any()
    absent = (set() if trace.has_device else device) | (
        set() if known else {"parameters", "bytes", "inputs", "outputs"}
    )
    absent |= set() if has_fused_modules(trace) else {"fused_in"}
    absent |= set() if has_flops(trace) else set(_FLOPS)
    absent |= {column.name for column in rates.COLUMNS} - {column.name for column in rates.rate_columns(trace)}
    return with_path_in_sight(trace, tuple(column for column in COLUMNS if column.name not in absent))


def _from_frames(trace: Trace) -> tuple[pl.DataFrame, Runs]:
    """Return the modules of the recorded Python frames and their calls: one for each path of classes and numbers."""
    nest, events = host_nest(trace), trace.events
    path_of_frame, _ = module_frames(trace)
    names = events["name"].cast(pl.String)
    is_module = names.str.starts_with(MODULE_FRAME).to_numpy()[nest.row]
    is_module &= in_category(trace, "python_function")[nest.row]
    frames = np.flatnonzero(is_module)
    path = path_of_frame.gather(call_tree(trace).of_event[frames]).alias("name")
    sites = path.unique(maintain_order=True).to_frame().with_row_index("site")
    site = path.to_frame().join(sites, on="name", how="left", maintain_order="left")["site"]
    number = dict(zip(sites["name"].to_list(), range(sites.height), strict=True))
    parents = [number.get(name.rpartition(".")[0], NO_PARENT) for name in sites["name"].to_list()]
    described = sites.select(
        "name",
        pl.Series("parent", parents, dtype=pl.Int64),
        pl.col("name").str.extract(r"([^.]*?)(?:_[0-9]+)?$").alias("class_name"),
        pl.lit(None, pl.Int64).alias("parameters"),
        pl.lit(None, pl.Int64).alias("bytes"),
        pl.lit(None, pl.String).alias("inputs"),
        pl.lit(None, pl.String).alias("outputs"),
    )
    numbers: IntArray = site.to_numpy().astype(np.int64)
    start, end = nest.start_ns[frames], nest.end_ns[frames]
    return described, Runs(numbers, nest.lane[frames], start, end - start, sites.height)


def _frame(trace: Trace, sites: pl.DataFrame, shares: Shares, runs: Runs, part: TimeRange) -> pl.DataFrame:
    parent = sites["parent"].to_numpy().astype(np.int64)
    depth = depth_of(parent)
    turns, calls = levels(depth), sum_by(runs.site, times_run(trace, runs, part), runs.sites)
    names = sites["name"].cast(pl.String)
    has_run = np.bincount(runs.site, minlength=runs.sites) > 0
    fused = fused_modules(trace, part, has_run)
    if fused is not None:
        has_run = has_run | (fused.calls > 0)
        calls = np.where(fused.calls > 0, fused.calls, calls)
    above = pl.Series(nearest_marked(parent, depth, has_run)[parent])
    frame = pl.DataFrame(
        {
            "path": names,
            "class_name": sites["class_name"].cast(pl.String),
            "fused_in": [None] * len(names) if fused is None else fused.kernels,
            "parent": names.gather(above.set(above < 0, None)),
            "calls": calls,
            "self_cpu_ns": shares.self_ns,
            "total_cpu_ns": shares.total_ns,
            "on_path_ns": rolled_up(shares.on_path_ns, parent, turns),
            "device_ns": rolled_up(shares.device_ns, parent, turns),
            "self_device_ns": shares.device_ns,
            "wait_ns": rolled_up(shares.wait_ns, parent, turns),
            "backward_cpu_ns": rolled_up(shares.backward_ns, parent, turns),
            "backward_device_ns": rolled_up(shares.backward_device_ns, parent, turns),
            "self_backward_cpu_ns": shares.backward_ns,
            "flops": rolled_up(shares.flops, parent, turns),
            "backward_flops": rolled_up(shares.backward_flops, parent, turns),
            "parameters": sites["parameters"],
            "bytes": sites["bytes"],
            "inputs": sites["inputs"].cast(pl.String),
            "outputs": sites["outputs"].cast(pl.String),
        },
        schema={name: dtype for name, dtype in SCHEMA.items() if name not in rates.TYPES},
    )
    frame = _with_work(trace, frame, runs, parent, part)
    has_any = (calls > 0) | _has_any(shares)
    is_there = has_run & (rolled_up(has_any.astype(np.int64), parent, turns) > 0)
    frame = frame[_in_order(parent, is_there)]
    if shares.outside_device_ns:
        rest = {name: 0 for name in SCHEMA if name not in (*_TEXT, *_FLOPS, *rates.TYPES, "parameters", "bytes")}
        rest |= {"self_device_ns": shares.outside_device_ns, "device_ns": shares.outside_device_ns}
        frame = pl.concat([frame, pl.DataFrame([{"path": OUTSIDE, "class_name": "", **rest}], schema=SCHEMA)])
    return frame


def _with_work(trace: Trace, frame: pl.DataFrame, runs: Runs, parent: IntArray, part: TimeRange) -> pl.DataFrame:
    """Return the modules with what they did in both passes, with everything inside, and how fast."""
    if not rates.has_work(trace):
        absent = (pl.lit(None, rates.TYPES[column.name]).alias(column.name) for column in rates.COLUMNS)
        return frame.with_columns(absent).select(SCHEMA.keys())
    sites = sites_of_events(trace, runs)[roofline(trace).row]
    own, turns = sums_of_work(trace, part, sites, runs.sites), levels(depth_of(parent))
    whole = WorkSums(*(rolled_up(values, parent, turns) for values in own))
    sums = rates.series_of(whole)
    return rates.with_rates(frame.with_columns(*sums.values())).select(SCHEMA.keys())


def _has_any(shares: Shares) -> BoolArray:
    """Return which modules have work outside of their own calls: on a device, or in the backward pass."""
    outside = (shares.device_ns, shares.backward_ns, shares.backward_device_ns, shares.backward_flops)
    return np.any([values != 0 for values in outside], axis=0)


def _in_order(parent: IntArray, is_there: np.ndarray) -> list[int]:
    """Return the rows so that each module follows its parent, and siblings stand in the order of their sites."""
    children: dict[int, list[int]] = {}
    for row in range(len(parent)):
        children.setdefault(int(parent[row]), []).append(row)
    order: list[int] = []
    open_rows = list(reversed(children.get(NO_PARENT, [])))
    while open_rows:
        row = open_rows.pop()
        if is_there[row]:
            order.append(row)
        open_rows.extend(reversed(children.get(row, [])))
    return order
