"""What checkpoints around modules, or moving their activations to the host, would save."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.memory.blocks import memory_blocks
from torchprof_magic.facts.source.attribution import Runs, is_repeated
from torchprof_magic.facts.source.forward_of import backward_nodes
from torchprof_magic.facts.sums import range_max, sum_by
from torchprof_magic.findings.savings.kept_activations import (
    ForwardCalls,
    KeptActivations,
    inputs_of_calls,
    kept_activations,
)
from torchprof_magic.findings.savings.lower_peak import Curve, Removal, joined
from torchprof_magic.findings.savings.saving import LEAST_SHARE, Saving, per_step
from torchprof_magic.model.units import format_bytes, format_file_size, format_ns
from torchprof_magic.tables.source.modules import modules_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

# What a PCIe 4.0 x16 link moves in one direction from and to pinned memory, roughly.
OFFLOAD_BYTES_PER_SECOND = 20e9
_EACH_OF = "each of "


class _Unit(NamedTuple):
    """Modules that are wrapped together: one module, or several of one class. ``calls`` are indexes."""

    label: str
    is_group: bool
    calls: IntArray


class _Kept(NamedTuple):
    """The rows of ``KeptActivations`` of one device, and from when until when checkpoints would remove them.

    ``first`` is where those of each call begin.
    """

    calls: ForwardCalls
    call: IntArray
    block: IntArray
    is_output: BoolArray
    is_kept: BoolArray
    first: IntArray
    begin: IntArray
    end: IntArray
    size_bytes: IntArray

    def pairs_of(self, calls: IntArray) -> IntArray:
        """Return the rows of some calls."""
        low, high = self.first[calls], self.first[calls + 1]
        count = high - low
        return np.repeat(low - np.cumsum(count) + count, count) + np.arange(count.sum())


def savings_by_modules(trace: Trace, curve: Curve) -> Iterator[Saving]:
    """Yield what checkpoints and offload would save, for each module and for all modules of a class together.

    Modules that hold less than 1 % of the peak are left out, because they cannot save more than they hold then.
    """
    kept = _of_device(trace, kept_activations(trace), curve)
    if len(kept.call) == 0:
        return
    held = Removal(kept.begin, kept.end, np.where(kept.is_kept, kept.size_bytes, 0)).held_at(curve.peak_row)
    of_call = sum_by(kept.call, held, len(kept.calls.site))
    times = _times(trace, kept.calls, curve)
    for unit in _units(kept.calls, of_call, curve.peak_bytes * LEAST_SHARE):
        bytes_held = int(of_call[unit.calls].sum())
        pairs = kept.pairs_of(unit.calls)
        yield _checkpoint(trace, curve, kept, unit, bytes_held, times)
        if not curve.is_host:
            yield _offload(trace, curve, kept, unit, pairs[kept.is_kept[pairs]])
    if not curve.is_host:
        yield _offload(trace, curve, kept, None, _innermost(kept))


def _of_device(trace: Trace, found: KeptActivations, curve: Curve) -> _Kept:
    blocks = memory_blocks(trace)
    mine = np.flatnonzero(blocks.group[found.block] == curve.group)
    call, block = found.call[mine], found.block[mine]
    calls = found.calls
    # The change before the first node of backward already counts as the one in which all is there again.
    end = curve.index_at(calls.backward_start_ns[call]) - 1
    begin = np.maximum(curve.index_at(calls.end_ns[call]), curve.index_of(blocks.born[block]))
    return _Kept(
        calls=calls,
        call=call,
        block=block,
        is_output=found.is_output[mine],
        is_kept=found.is_kept[mine],
        first=np.searchsorted(call, np.arange(len(calls.site) + 1)),
        begin=begin,
        end=end,
        size_bytes=blocks.size_bytes[block],
    )


def _units(calls: ForwardCalls, held: IntArray, least: float) -> Iterator[_Unit]:
    """Yield single modules, siblings of one class, and all modules of a class, that hold enough at the peak."""
    sites = calls.sites.select(
        pl.int_range(pl.len()).alias("site"),
        pl.col("parent").cast(pl.Int64),
        pl.col("class_name").cast(pl.String).fill_null(""),
        pl.col("name").cast(pl.String),
    )
    own = pl.DataFrame({"site": calls.site, "held": held}).with_row_index("call")
    frame = own.join(sites, on="site", how="left", maintain_order="left")
    seen: set[tuple[int, ...]] = set()
    for keys in (["site"], ["parent", "class_name"], ["class_name"]):
        enough = frame.filter(pl.col("held").sum().over(keys) >= max(least, 1))
        for _, rows in enough.group_by(keys, maintain_order=True):
            members = tuple(rows["site"].unique(maintain_order=True).to_list())
            chosen = rows["call"].to_numpy().astype(np.int64)
            if members in seen or _has_nested(calls, chosen):
                continue
            seen.add(members)
            yield _Unit(_label(rows, sites, members, keys), len(members) > 1, chosen)


def _has_nested(calls: ForwardCalls, chosen: IntArray) -> bool:
    start = calls.start_ns[chosen]
    runs = Runs(np.zeros_like(start), calls.lane[chosen], start, calls.end_ns[chosen] - start, 1)
    return bool(is_repeated(runs).any())


def _label(rows: pl.DataFrame, sites: pl.DataFrame, members: tuple[int, ...], keys: list[str]) -> str:
    class_name = rows["class_name"][0]
    if len(members) == 1:
        return rows["name"][0] or class_name
    parent = rows["parent"][0]
    label = f"{_EACH_OF}{len(members)} {class_name}"
    is_part = "parent" in keys and sites.filter(class_name=class_name)["parent"].n_unique() > 1
    return f"{label} in {sites['name'][parent] or sites['class_name'][parent]}" if is_part and parent >= 0 else label


def _times(trace: Trace, calls: ForwardCalls, curve: Curve) -> IntArray:
    """Return how long each call takes: on the device if that is where its memory is, or else on the host, in ns."""
    own = calls.end_ns - calls.start_ns
    frame = modules_table(trace).frame.filter(pl.col("calls") > 0)
    if curve.is_host or not trace.has_device:
        return own
    mean = dict(zip(frame["path"].to_list(), (frame["device_ns"] / frame["calls"]).to_list(), strict=True))
    of_site = np.array([mean.get(name, 0.0) for name in calls.sites["name"].cast(pl.String).to_list()])
    return of_site[calls.site].astype(np.int64)


def _checkpoint(trace: Trace, curve: Curve, kept: _Kept, unit: _Unit, held: int, times: IntArray) -> Saving:
    pairs = kept.pairs_of(unit.calls)
    all_kept = Removal(kept.begin, kept.end, kept.size_bytes)
    calls = np.unique(kept.call[pairs[kept.is_kept[pairs]]])  # those of other devices keep nothing here
    removed = all_kept.chosen(pairs[kept.is_kept[pairs]])
    parts = [removed, _computed_again(curve, kept.calls, calls), _inputs(trace, curve, kept, calls, pairs)]
    added, each = per_step(trace, kept.calls.start_ns[calls], times[calls])
    return Saving(
        action="activation_checkpointing",
        module=unit.label,
        removal=joined(parts),
        added_time_ns=added,
        reason=f"{_keeps(unit)} {format_bytes(held)} at the peak for backward, which would compute this again in "
        f"{format_ns(added)} {each}",
    )


def _keeps(unit: _Unit) -> str:
    if unit.is_group:
        return f"the forward passes of {unit.label.removeprefix(_EACH_OF)} keep"
    return f"the forward pass of {unit.label} keeps"


def _computed_again(curve: Curve, calls: ForwardCalls, chosen: IntArray) -> Removal:
    """Return what computing again needs on top of what it keeps, as bytes to add just before each backward pass."""
    begin, stop = curve.index_at(calls.start_ns[chosen]), curve.index_at(calls.end_ns[chosen])
    at = curve.index_at(calls.backward_start_ns[chosen]) - 1
    is_real = (begin < stop) & (at >= stop)
    begin, stop, at = begin[is_real], stop[is_real], at[is_real]
    more = range_max(curve.total, begin, stop) - curve.total[stop - 1] if len(at) else at
    return Removal(at, at + 1, -more)


def _inputs(trace: Trace, curve: Curve, kept: _Kept, calls: IntArray, pairs: IntArray) -> Removal:
    """Return the arguments of calls that checkpoints keep and the program does not, as bytes to add.

    A checkpoint needs them to compute again, and holds them until the backward pass of the call is done.
    """
    blocks, known = memory_blocks(trace), inputs_of_calls(trace)
    mine = np.flatnonzero(np.isin(known.call, calls) & (blocks.group[known.block] == curve.group))
    call, block = known.call[mine], known.block[mine]
    if kept.calls.sites["inputs"].is_null().all():
        call, block = _outputs_of_chain(kept, calls, pairs)
    end = curve.index_at(kept.calls.backward_end_ns[call])
    # Several calls can get the same tensor: it stays until the last of them is done.
    order = np.lexsort((end, block))
    order = order[np.append(np.diff(block[order]) != 0, True)] if len(order) else order
    block = block[order]
    return Removal(curve.index_of(blocks.ended[block]), end[order], -blocks.size_bytes[block])


def _outputs_of_chain(kept: _Kept, calls: IntArray, pairs: IntArray) -> tuple[IntArray, IntArray]:
    """Return calls that follow another one before its backward pass, and what that returns: it may be their input."""
    outputs = pairs[kept.is_output[pairs]]
    call = kept.call[outputs]
    ordered = calls[np.argsort(kept.calls.start_ns[calls], kind="stable")]
    start = kept.calls.start_ns[ordered]
    following = np.searchsorted(start, kept.calls.end_ns[call])
    has_next = np.append(start, np.iinfo(np.int64).max)[following] < kept.calls.backward_start_ns[call]
    return ordered[following[has_next]], kept.block[outputs][has_next]


def _offload(trace: Trace, curve: Curve, kept: _Kept, unit: _Unit | None, pairs: IntArray) -> Saving:
    """Return what moving activations to the host until the node of backward that needs them would save."""
    ended = memory_blocks(trace).ended[kept.block[pairs]]
    nodes = backward_nodes(trace).row
    starts = np.sort(trace.events["start_ns"].to_numpy()[nodes])
    time = np.append(trace.memory["time_ns"].to_numpy(), 0)[ended]
    needed = starts[np.maximum(np.searchsorted(starts, time, side="right") - 1, 0)]
    removal = Removal(kept.begin[pairs], curve.index_at(needed) - 1, kept.size_bytes[pairs])
    moved_ns = (2e9 * kept.size_bytes[pairs] / OFFLOAD_BYTES_PER_SECOND).astype(np.int64)
    added, each = per_step(trace, kept.calls.start_ns[kept.call[pairs]], moved_ns)
    held = int(removal.held_at(curve.peak_row).sum())
    subject = _keeps(unit) if unit else "the forward passes of all modules keep"
    return Saving(
        action="activation_offload",
        module=unit.label if unit else None,
        removal=removal,
        added_time_ns=added,
        reason=f"{subject} {format_bytes(held)} at the peak for backward, which would be moved to the host and back "
        f"at {format_file_size(OFFLOAD_BYTES_PER_SECOND)} a second, in {format_ns(added)} {each} unless work hides it",
    )


def _innermost(kept: _Kept) -> IntArray:
    """Return one row for each block: that of the innermost call around it."""
    kept_rows = np.flatnonzero(kept.is_kept)
    order = kept_rows[np.lexsort((kept.calls.start_ns[kept.call[kept_rows]], kept.block[kept_rows]))]
    return order[np.append(np.diff(kept.block[order]) != 0, True)] if len(order) else order
