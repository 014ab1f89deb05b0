"""The collectives that one rank took part in, with what they communicate."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.device.graph_work import origins
from torchprof_magic.facts.shared import in_category, is_named
from torchprof_magic.model.dtypes import size_of_type
from torchprof_magic.model.intervals import NO_PARENT, marked_above, nearest_marked
from torchprof_magic.model.rows import are_known, frame_of, values_at
from torchprof_magic.model.vendors import COLLECTIVE_KERNEL, COLLECTIVE_RANGE, HOST_COLLECTIVE

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

# The kinds of collectives, by a part of their names in libraries, ranges and kernels. The first that fits counts.
KINDS = {
    "all_reduce": r"all_?reduce",
    "reduce_scatter": r"reduce_?scatter",
    "all_gather": r"all_?gather",
    "all_to_all": r"all_?to_?all",
    "broadcast": r"broadcast|bcast",
    "barrier": r"barrier",
    "gather": r"gather",
    "scatter": r"scatter",
    "reduce": r"reduce",
    "send_recv": r"sendrecv|send_recv",
    "send": r"send",
    "recv": r"recv",
}
# Only two ranks take part in these, so their lengths say nothing about the others.
POINT_TO_POINT = ("send_recv", "send", "recv")
MOST_ELEMENTS = 2**53
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "step": pl.Int32,
    "cycle": pl.Int32,
    "name": pl.String,
    "group": pl.String,
    "group_title": pl.String,
    "group_size": pl.Int32,
    "sequence": pl.Int64,
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "bytes": pl.Int64,
    "on_host": pl.Boolean,
}


def collectives_of(trace: Trace) -> pl.DataFrame:
    """Return one row per collective of the rank, in order of their starts.

    A collective is a kernel of a communication library, or a range that a library on the host opens around one, as
    gloo does. ``name`` is its kind; ``group`` tells process groups apart, and is empty if the file does not say.
    ``bytes`` is the larger of what goes in and comes out on this rank, null if not recorded. Times are ns from
    ``meta.start_unix_ns``.
    """
    events = trace.events
    row, on_host = collective_rows(trace)
    if len(row) == 0:
        return pl.DataFrame(schema=SCHEMA)
    start_ns = events["start_ns"].to_numpy()[row]
    around = _described_by(trace, row, on_host=on_host)
    texts = _texts(events, row, around)
    names = [
        kind_of(told or (range_name or name)) or kind_of(name) or "other"
        for told, range_name, name in zip(
            (text.name for text in texts), _names(events, around[:, 0]), _names(events, row), strict=True
        )
    ]
    columns: dict[str, object] = {
        "step": values_at(events["step"], row),
        "cycle": values_at(events["cycle"], row),
        "name": names,
        "group": [text.group for text in texts],
        "group_title": [text.group_title for text in texts],
        "group_size": [text.group_size for text in texts],
        "sequence": [text.sequence for text in texts],
        "start_ns": start_ns,
        "dur_ns": events["dur_ns"].to_numpy()[row],
        "bytes": [text.size_bytes for text in texts],
        "on_host": on_host,
    }
    return frame_of(SCHEMA, columns)


@cache
def kind_of(name: str) -> str:
    """Return the kind of a collective by its name, an empty text if it is none that is known."""
    text = pl.Series([name.lower()])
    return next((kind for kind, pattern in KINDS.items() if text.str.contains(pattern).item()), "")


def collective_rows(trace: Trace) -> tuple[IntArray, BoolArray]:
    """Return the events that are collectives, in order of their starts, and which of them run on the host.

    Of nested ones it is the outermost.
    """
    events = trace.events
    is_kernel = in_category(trace, "kernel")
    is_kernel &= is_named(trace, COLLECTIVE_KERNEL)
    is_range = in_category(trace, "user_annotation")
    is_range &= is_named(trace, HOST_COLLECTIVE)
    inside = nearest_marked(events["parent"].to_numpy(), events["depth"].to_numpy().astype(np.int64), is_range)
    is_range &= inside[events["parent"].to_numpy()] == NO_PARENT
    row = np.flatnonzero(is_kernel | is_range)
    row = row[np.argsort(events["start_ns"].to_numpy()[row], kind="stable")]
    return row, is_range[row]


def _described_by(trace: Trace, row: IntArray, *, on_host: BoolArray) -> IntArray:
    """Return for each collective the range of its library and the op with its parameters, -1 for none: two columns."""
    events = trace.events
    parent, is_range = events["parent"].to_numpy(), is_named(trace, COLLECTIVE_RANGE)
    has_text = are_known(events["collective"])
    host = np.where(on_host, row, origins(trace)[row]).astype(np.int64)
    return np.stack([marked_above(parent, marked, host) for marked in (is_range, has_text)], axis=1)


def _names(events: pl.DataFrame, row: IntArray) -> list[str]:
    return [name or "" for name in values_at(events["name"], row).to_list()]


class _Text:
    """What the file says about one collective."""

    def __init__(self, told: str | None, shapes: str | None, dtypes: str | None) -> None:
        values = _list(told)
        values += [None] * (9 - len(values))
        name, inside, outside, dtype, group, title, size, ranks, sequence = values[:9]
        self.name = name if isinstance(name, str) else ""
        self.group = " ".join(str(part) for part in (group, ranks) if part is not None)
        self.group_title = str(title or group or "") if told else ""
        self.group_size = _count(size)
        self.sequence = _count(sequence)
        elements = max((count for each in (inside, outside) if (count := _count(each)) is not None), default=None)
        size_of = size_of_type(dtype)
        self.size_bytes = elements * size_of if elements is not None and size_of else bytes_of(shapes, dtypes)


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_ELEMENTS
    return int(str(value)) if is_count else None


def _texts(events: pl.DataFrame, row: IntArray, around: IntArray) -> list[_Text]:
    """Return what is told of each collective, by itself or by the op around its launch; each text is read once."""
    range_row, op_row = around.T
    own, op = (values_at(events["collective"], at).to_list() for at in (row, op_row))
    shapes, dtypes = (values_at(events[name], range_row).to_list() for name in ("shapes", "dtypes"))
    told = [by_op if by_itself is None else by_itself for by_itself, by_op in zip(own, op, strict=True)]
    read = cache(_Text)
    return [read(*each) for each in zip(told, shapes, dtypes, strict=True)]


def bytes_of(shapes: str | None, dtypes: str | None) -> int | None:
    """Return the bytes of all tensors of recorded shapes and types together, None if any is not known."""
    sizes = [
        math.prod(shape) * size_of_type(dtype)
        for shape, dtype in zip(_list(shapes), _list(dtypes), strict=False)
        if isinstance(shape, list) and shape and all(_count(dim) is not None for dim in shape)
    ]
    return sum(sizes) if sizes and all(sizes) and sum(sizes) <= MOST_ELEMENTS else None


def _list(text: str | None) -> list[object]:
    try:
        value = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []
