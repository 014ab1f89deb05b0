"""What setting gradients to None after the step of the optimizer would save."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.memory.block_categories import block_categories
from torchprof_magic.facts.memory.blocks import NONE, memory_blocks
from torchprof_magic.facts.shared import in_category, is_named
from torchprof_magic.findings.savings.lower_peak import Curve, Removal
from torchprof_magic.findings.savings.saving import Saving
from torchprof_magic.model.intervals import nearest_marked
from torchprof_magic.model.trace import MEMORY_CATEGORIES
from torchprof_magic.model.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

_STEP = r"^Optimizer\.step#"
_CLEARING = r"^Optimizer\.zero_grad#|^aten::(zero_|_foreach_zero_)$"
_ACCUMULATING = r"AccumulateGrad$"
_GRADIENT = MEMORY_CATEGORIES.index("gradient")


class _Windows(NamedTuple):
    """The times from the end of a step of the optimizer until gradients are first accumulated again, as indexes.

    The first one begins with the recording. ``is_cleared`` is whether gradients are set to zero in it.
    """

    begin: IntArray
    end: IntArray
    is_cleared: BoolArray


def savings_by_clearing(trace: Trace, curve: Curve) -> Iterator[Saving]:
    """Yield what setting gradients to None would save, if gradients are kept over the next forward pass.

    A gradient is not needed from the end of the optimizer's step until the backward pass first adds to it, if it is
    released or set to zero in between.
    """
    blocks = memory_blocks(trace)
    gradients = np.flatnonzero((block_categories(trace) == _GRADIENT) & (blocks.group == curve.group))
    windows = _windows(trace, curve)
    if len(gradients) == 0 or windows is None:
        return
    removal = _unneeded(trace, curve, gradients, windows)
    held = int(removal.held_at(curve.peak_row).sum())
    yield Saving(
        action="set_to_none",
        module=None,
        removal=removal,
        added_time_ns=None,
        reason=f"{format_bytes(held)} of gradients that the optimizer has used already are in memory at the peak, and "
        "zero_grad(set_to_none=True) just after its step would release them",
    )


def _windows(trace: Trace, curve: Curve) -> _Windows | None:
    """Return the windows, or None if several optimizers take turns, so that one's gradients outlive another's step."""
    events = trace.events
    start = events["start_ns"].to_numpy()
    end = start + events["dur_ns"].to_numpy()
    first, last = int(curve.time_ns[0]), int(curve.time_ns[-1])
    nodes = _between(start[_named(trace, _ACCUMULATING)], first, last)
    stepped = _between(end[_named(trace, _STEP) & ~in_category(trace, "python_function")], first, last)
    cleared = np.sort(start[_named(trace, _CLEARING)])
    if len(nodes) == 0 or len(stepped) == 0:
        return None
    # Steps without a backward pass between them are one.
    stepped = stepped[np.append(np.diff(np.searchsorted(nodes, stepped)) != 0, True)]
    steps = trace.steps.filter((pl.col("start_ns") <= last) & (pl.col("end_ns") >= first)).height
    if steps and len(stepped) > steps + 1:
        return None
    begin = np.concatenate(([first], stepped))
    stop = np.append(nodes, np.iinfo(np.int64).max)[np.searchsorted(nodes, begin)]
    is_cleared = np.searchsorted(cleared, begin) < np.searchsorted(cleared, stop)
    return _Windows(curve.index_at(begin), curve.index_at(stop), is_cleared)


def _between(times: IntArray, first: int, last: int) -> IntArray:
    return np.sort(times[(times >= first) & (times <= last)])


def _named(trace: Trace, pattern: str) -> BoolArray:
    return is_named(trace, pattern)


def _unneeded(trace: Trace, curve: Curve, gradients: IntArray, windows: _Windows) -> Removal:
    """Return when each gradient is in memory without need, one row per gradient and window."""
    blocks = memory_blocks(trace)
    born = np.where(blocks.born[gradients] < 0, NONE, curve.index_of(blocks.born[gradients]))
    ended = curve.index_of(blocks.ended[gradients])
    first = np.searchsorted(windows.begin, born, side="right")
    count = np.maximum(np.searchsorted(windows.begin, ended) - first, 0)
    of = np.repeat(np.arange(len(gradients)), count)
    window = np.repeat(first - np.cumsum(count) + count, count) + np.arange(len(of))
    frame = pl.DataFrame({"window": window, "size": blocks.size_bytes[gradients][of], "ended": ended[of]})
    frame = frame.with_columns(
        pl.Series("begin", windows.begin[window]),
        pl.Series("end", windows.end[window]),
        pl.Series("is_cleared", windows.is_cleared[window]),
    )
    is_over = pl.col("ended") <= pl.col("end")
    frame = frame.filter(is_over | pl.col("is_cleared"))
    # Gradients of one size are alike: the first of them to be needed again is that of the first sum of this size.
    nth = pl.int_range(pl.len()).over("window", "size", "is_over")
    frame = frame.with_columns(is_over.alias("is_over")).with_columns(nth.alias("nth"))
    frame = frame.join(_sums(trace, curve, windows), on=["window", "size", "nth"], how="left")
    needed = pl.when(is_over).then("ended").otherwise(pl.col("added_at").fill_null(pl.col("end")))
    frame = frame.with_columns(needed.alias("needed"))
    return Removal(*(frame[name].to_numpy().astype(np.int64) for name in ("begin", "needed", "size")))


def _sums(trace: Trace, curve: Curve, windows: _Windows) -> pl.DataFrame:
    """Return when new gradients are released because they were added to older ones: ``window, size, nth, added_at``."""
    blocks, events = memory_blocks(trace), trace.events
    mine = np.flatnonzero((blocks.group == curve.group) & (blocks.freed >= 0) & (blocks.born >= 0))
    is_node = _named(trace, _ACCUMULATING)
    around = nearest_marked(events["parent"].to_numpy(), events["depth"].to_numpy(), is_node)
    event = trace.memory["event"].to_numpy()
    at = event[blocks.freed[mine]]
    released = mine[around[at] >= 0]
    released = released[np.argsort(blocks.freed[released], kind="stable")]
    index = curve.index_of(blocks.freed[released])
    window = np.searchsorted(windows.begin, index, side="right") - 1
    frame = pl.DataFrame({"window": window, "size": blocks.size_bytes[released], "added_at": index})
    nth = pl.int_range(pl.len()).over("window", "size").alias("nth")
    return frame.with_columns(nth).filter(pl.Series(window >= 0))
