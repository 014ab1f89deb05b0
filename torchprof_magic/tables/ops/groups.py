"""The keys by which ops can be grouped besides their name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.host.phases import EVENT_PHASES, PHASE
from torchprof_magic.facts.host.shown_phases import phases_shown
from torchprof_magic.facts.ops.calls import op_rows
from torchprof_magic.facts.shared import in_category, name_numbers, once_per_trace
from torchprof_magic.facts.source.forward_of import forward_of_events
from torchprof_magic.facts.source.fx_nodes import fx_names, model_lines, own_nodes
from torchprof_magic.facts.source.places import module_of_events, places_of
from torchprof_magic.model.intervals import NO_PARENT
from torchprof_magic.model.rows import values_at
from torchprof_magic.model.shapes import Column

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

KEYS = {
    "shapes": Column(
        name="shapes",
        title="Input shapes",
        unit="code",
        definition="Dimensions of the input tensors, as recorded by torch.",
    ),
    "dtypes": Column(
        name="dtypes", title="Input types", unit="code", definition="Types of the inputs, as recorded by torch."
    ),
    "overload": Column(
        name="overload",
        title="Overload",
        unit="code",
        definition="Overload of the op, such as Tensor for aten::add.Tensor; needs a recording with `--overloads`.",
    ),
    "stack": Column(
        name="stack",
        title="Stack",
        unit="code",
        definition="The innermost Python frames around the op, the innermost first; needs a recording with stacks.",
    ),
    "thread": Column(name="thread", title="Thread", unit="text", definition="Thread that the op ran on."),
    "line": Column(
        name="line",
        title="Line",
        unit="code",
        definition="Line of the user's code that ran the op, or its forward op; or the user's function, where Python "
        "frames were recorded.",
    ),
    "module": Column(
        name="module",
        title="Module",
        unit="code",
        definition="Path of the innermost nn.Module around the op, or around its forward op.",
    ),
    "fx_node": Column(
        name="fx_node",
        title="FX node",
        unit="code",
        definition="Node of the graph of torch.compile that the op belongs to: the region, `backward` if it is of the "
        "backward pass, and torch's name of the node; or what a kernel of Inductor fuses. What autograd runs for "
        "compiled forward ops has the node of these.",
    ),
    "model_line": Column(
        name="model_line",
        title="Model line",
        unit="code",
        definition="Line of the model that this node comes from; of a fused kernel, that of most of what it fuses.",
    ),
    "phase": Column(name="phase", title="Phase", unit="phase", definition="Phase that the calls belong to."),
    "step": Column(name="step", title="Step", unit="step", definition="Step the calls began in; null outside steps."),
    "cycle": Column(name="cycle", title="Cycle", unit="step", definition="Recording cycle of the schedule."),
}
_PARTS = ("line", "module", "fx_node", "model_line")
_OF_TEXT = ("shapes", "dtypes", "overload")
FRAME_BREAK = " ← "
MAX_TABLE = 2**22  # entries; with more possible keys, sort instead of using a lookup table


class Groups(NamedTuple):
    """Which group each op belongs to, and one op of every group."""

    of_op: IntArray
    example: IntArray


def group_ops(trace: Trace, by: tuple[str, ...], stack_n: int) -> Groups:
    """Return the groups of ops that share name, kind and every key of ``by``."""
    groups = _by_name(trace)
    for key in by:
        code = _dense(_codes(trace, op_rows(trace).row, key, stack_n)).of_op
        groups = _dense(groups.of_op * (int(code.max(initial=0)) + 1) + code)
    return groups


@once_per_trace
def _by_name(trace: Trace) -> Groups:
    """Return the groups of ops that share name and kind."""
    row = op_rows(trace).row
    is_annotation = in_category(trace, "user_annotation")[row]
    return _dense(name_numbers(trace)[row].astype(np.int64) * 2 + is_annotation)


def group_labels(trace: Trace, row: IntArray, key: str, stack_n: int) -> pl.Series:
    """Return the value of a key for each of the event rows."""
    events = trace.events
    if key == "thread":
        return _thread_names(trace.lanes)[events["lane"].to_numpy()[row]].alias(key)
    if key == "phase":
        names = dict(enumerate(EVENT_PHASES))
        return pl.Series(key, phases_shown(trace)[row]).replace_strict(names, return_dtype=pl.String).cast(PHASE)
    if key in _PARTS:
        return _parts(trace, row, key)
    if key == "stack":
        _, labels = _cut_stacks(trace.stacks, stack_n)
        return labels[events["stack"][row].fill_null(trace.stacks.height)].alias(key)
    column = events[key][row]
    return column.cast(pl.String) if key in _OF_TEXT else column


def _codes(trace: Trace, row: IntArray, key: str, stack_n: int) -> IntArray:
    """Return a number >= 0 for each event row, equal for equal values of the key."""
    events = trace.events
    if key == "thread":
        return events["lane"].to_numpy()[row].astype(np.int64)
    if key == "phase":
        return phases_shown(trace)[row].astype(np.int64)
    if key in _PARTS:
        return _parts(trace, row, key).rank("dense").fill_null(0).to_numpy().astype(np.int64)
    if key == "stack":
        codes, _ = _cut_stacks(trace.stacks, stack_n)
        return codes[events["stack"][row].fill_null(trace.stacks.height).to_numpy()]
    column = events[key][row]
    column = column.to_physical() if key in _OF_TEXT else column
    numbers = column.cast(pl.Int64)
    return (numbers - (numbers.min() or 0) + 1).fill_null(0).to_numpy()


def _parts(trace: Trace, row: IntArray, key: str) -> pl.Series:
    """Return line, module or node of each event row, that of its forward op in backward; null where it is unknown."""
    if key == "fx_node":
        names = fx_names(trace)
        return values_at(names.names, names.of_event[row]).alias(key)
    if key == "model_line":
        file, line = model_lines(trace, row)
        return pl.select(pl.format("{}:{}", file, line).alias(key))[key]
    if key == "module":
        forward = np.where(own_nodes(trace)[row] >= 0, NO_PARENT, forward_of_events(trace)[row])
        return module_of_events(trace, np.where(forward >= 0, forward, row)).alias(key)
    file, line = places_of(trace, row).columns()
    return pl.select(pl.format("{}:{}", file, line).alias(key))[key]


def _dense(keys: npt.NDArray[np.int64]) -> Groups:
    """Number the distinct keys (>= 0) from 0 on."""
    size = int(keys.max(initial=0)) + 1
    if size > MAX_TABLE:
        _, example, of_op = np.unique(keys, return_index=True, return_inverse=True)
        return Groups(of_op, example)
    example_of = np.full(size, -1, np.int64)
    example_of[keys[::-1]] = np.arange(len(keys))[::-1]
    used = np.flatnonzero(example_of >= 0)
    number = np.zeros(size, np.int64)
    number[used] = np.arange(len(used))
    return Groups(number[keys], example_of[used])


def _cut_stacks(stacks: pl.DataFrame, depth: int) -> tuple[IntArray, pl.Series]:
    """Return a code and a text for each stack, limited to its innermost frames; the last entry is for no stack.

    The loop runs over frames of one stack, not over events.
    """
    texts = stacks["name"].cast(pl.String)
    parent, at, label = stacks["parent"].to_numpy(), stacks["parent"].to_numpy(), texts
    for _ in range(depth - 1):
        if not (at >= 0).any():
            break
        frame = pl.DataFrame({"label": label, "caller": texts[np.maximum(at, 0)], "has": at >= 0})
        label = frame.select(
            pl.when("has").then(pl.col("label") + FRAME_BREAK + pl.col("caller")).otherwise("label").alias("label")
        )["label"]
        at = np.where(at >= 0, parent[at], -1)
    labels = pl.concat([label.rename("label"), pl.Series("label", [None], dtype=pl.String)])
    return labels.rank("dense").fill_null(0).to_numpy().astype(np.int64), labels


def _thread_names(lanes: pl.DataFrame) -> pl.Series:
    """Return a unique name for every lane."""
    apart = pl.format("{} ({}/{})", "name", "pid", "tid")
    return lanes.select(pl.when(pl.col("name").is_duplicated()).then(apart).otherwise("name").alias("name"))["name"]
