"""The blocks of memory of a recording: each allocation with its release, and what was alive before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.shared import ask_event_names, once_per_trace
from torchprof_magic.model.rows import are_known
from torchprof_magic.model.trace import MEMORY_CATEGORIES

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

NONE = -1
LATEST = np.iinfo(np.int64).max  # the end of time
# The device of memory of the host.
HOST = "cpu"
# Allocators of devices hand out memory in multiples of this; those of the host as it is asked for.
DEVICE_ROUND_BYTES = 512
_CLEARING = "Optimizer.zero_grad#"
# Tags of this category say only what a tensor is called.
_UNKNOWN = MEMORY_CATEGORIES.index("unknown")


class Groups(NamedTuple):
    """The devices in each cycle, which are counted apart: what happens between two cycles is not recorded.

    ``of_row`` is the group of each row of ``trace.memory``. ``is_host`` is true for the memory of the host.
    """

    device: list[str]
    cycle: list[int]
    is_host: BoolArray
    of_row: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Blocks of memory in the order in which they were allocated, those from before the recording first.

    ``born`` is the row of ``trace.memory`` of the allocation, -1 for a block from before the recording, and ``freed``
    that of the release, -1 if none was recorded. The block is in use after each row from ``born`` until before
    ``ended``, which is also known if its address was used again; it is the number of all rows at the end of the
    recording. ``tag`` is the row of ``trace.tags`` that says what the block is for, and ``named`` that with its name
    and shape, or -1. ``silent_ns`` is when a block from before went whose release is not in the file, as a live run
    noted it; else ``LATEST``.
    """

    groups: Groups
    group: IntArray
    address: np.ndarray
    size_bytes: IntArray
    born: IntArray
    freed: IntArray
    ended: IntArray
    tag: IntArray
    named: IntArray
    silent_ns: IntArray

    def alive_after(self, row: int, group: int) -> IntArray:
        """Return the blocks of a group that are in use after a row of ``trace.memory``, -1 for before the first."""
        return np.flatnonzero((self.group == group) & (self.born <= row) & (self.ended > row))

    def end_ns(self, trace: Trace) -> IntArray:
        """Return when each block went, ``LATEST`` if it is in use at the end of the recording."""
        end_ns: IntArray = np.append(trace.memory["time_ns"].to_numpy(), LATEST)[self.ended]
        return np.minimum(end_ns, self.silent_ns)


@once_per_trace
def memory_blocks(trace: Trace) -> Blocks:
    """Return all blocks of a recording. Records without an address are in none."""
    known = _with_storages(trace, _paired(trace, _groups(trace)))
    return known if trace.tags.height == 0 else _tagged(trace, known)


def _groups(trace: Trace) -> Groups:
    memory = trace.memory.select(pl.col("device"), pl.col("cycle"))
    known = memory.unique().sort("cycle", "device")
    number = memory.join(known.with_row_index("group"), on=["cycle", "device"], how="left", maintain_order="left")
    device = known["device"].to_list()
    return Groups(
        device,
        known["cycle"].to_list(),
        np.array([name == HOST for name in device], np.bool_),
        number["group"].to_numpy().astype(np.int64),
    )


def _paired(trace: Trace, groups: Groups) -> Blocks:
    """Pair each allocation with the next release at its address, whatever the sizes say."""
    memory = trace.memory
    delta = memory["delta_bytes"].to_numpy()
    rows = np.flatnonzero((delta != 0) & are_known(memory["address"]))
    address = memory["address"].fill_null(0).to_numpy()
    rows = rows[np.lexsort((address[rows], groups.of_row[rows]))]
    key, group = address[rows], groups.of_row[rows]
    is_alloc = delta[rows] > 0
    follows = np.zeros(len(rows) + 1, np.bool_)  # whether a row has the address of the one before it
    follows[1:-1] = (key[1:] == key[:-1]) & (group[1:] == group[:-1])
    following = np.append(rows[1:], memory.height)
    is_freed = follows[1:] & ~np.append(is_alloc[1:], True)
    ended = np.where(follows[1:], following, memory.height)
    # A release that comes first at its address is that of a block from before. One after another release is left out:
    # the allocation between them is missing.
    is_old = ~is_alloc & ~follows[:-1]
    chosen = np.flatnonzero(is_alloc | is_old)
    old = is_old[chosen]
    born = np.where(old, NONE, rows[chosen])
    order = np.argsort(born, kind="stable")
    chosen, old, born = chosen[order], old[order], born[order]
    return Blocks(
        groups=groups,
        group=group[chosen],
        address=key[chosen],
        size_bytes=np.abs(delta[rows[chosen]]),
        born=born,
        freed=np.where(old, rows[chosen], np.where(is_freed[chosen], following[chosen], NONE)),
        ended=np.where(old, rows[chosen], ended[chosen]),
        tag=np.full(len(chosen), NONE, np.int64),
        named=np.full(len(chosen), NONE, np.int64),
        silent_ns=np.full(len(chosen), LATEST),
    )


def _with_storages(trace: Trace, blocks: Blocks) -> Blocks:
    """Return the blocks after those of the live storages of the host from before the recording.

    torch counts the memory of the host from one recording to the next, and what is released in between stays in its
    table. So a release may be recorded with the size of an earlier block: that of the storage counts.
    """
    older = _older_storages(trace, blocks)
    first = pl.DataFrame(
        {"group": blocks.group, "address": blocks.address, "block": np.arange(len(blocks.group))}
    ).unique(["group", "address"], keep="first")
    found = older.join(first, on=["group", "address"], how="left", maintain_order="left")["block"]
    block = found.fill_null(NONE).to_numpy().astype(np.int64)
    born = np.append(blocks.born, trace.memory.height)[block]
    size_bytes, is_known = blocks.size_bytes.copy(), born < 0
    size_bytes[block[is_known]] = older["bytes"].to_numpy()[is_known]
    new = older.filter(pl.Series(~is_known))
    gone = np.searchsorted(trace.memory["time_ns"].to_numpy(), new["gone_ns"].to_numpy())
    before = np.full(new.height, NONE)
    return Blocks(
        groups=blocks.groups,
        group=np.concatenate((new["group"].to_numpy(), blocks.group)),
        address=np.concatenate((new["address"].to_numpy(), blocks.address)),
        size_bytes=np.concatenate((new["bytes"].to_numpy(), size_bytes)),
        born=np.concatenate((before, blocks.born)),
        freed=np.concatenate((before, blocks.freed)),
        ended=np.concatenate((np.minimum(gone, born[~is_known]), blocks.ended)),
        tag=np.concatenate((before, blocks.tag)),
        named=np.concatenate((before, blocks.named)),
        silent_ns=np.concatenate((new["gone_ns"].to_numpy(), blocks.silent_ns)),
    )


def _older_storages(trace: Trace, blocks: Blocks) -> pl.DataFrame:
    """Return the storages from before each cycle, with its group, and the end of time for those that stay."""
    groups = pl.DataFrame(
        {"cycle": blocks.groups.cycle, "is_host": blocks.groups.is_host}, schema_overrides={"cycle": pl.Int32}
    )
    groups = groups.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("group")).filter("is_host")
    older = trace.storages.filter("is_older").unique(["cycle", "address"], maintain_order=True)
    older = older.filter(pl.lit(trace.meta.knows_storages)).join(groups, on="cycle", how="inner", maintain_order="left")
    return older.with_columns(pl.col("gone_ns").fill_null(LATEST))


class _Found(NamedTuple):
    """For each tag its group, the number of its address in the group, and the last row of memory before it.

    ``block`` is the block with the address at that time, or -1, and ``is_before`` says that the tensor was allocated
    before the recording, in a block that is not known yet.
    """

    row: IntArray
    group: IntArray
    after: IntArray
    block: IntArray
    is_before: BoolArray
    first_born: IntArray


def _tagged(trace: Trace, blocks: Blocks) -> Blocks:
    """Give each block the tag that says most, and add the blocks that only tags know."""
    found = _find(trace, blocks)
    whole = _with_older(trace, blocks, found)
    category = trace.tags["category"].to_physical().to_numpy().astype(np.int64)
    has_name = are_known(trace.tags["name"])
    known = np.flatnonzero(found.block >= 0)
    row, older = found.row[known], len(whole.tag) - len(blocks.tag)
    # The first of the strongest category counts, in the order of MEMORY_CATEGORIES. Of mere names it is the last: what
    # a function returns gets that of its caller.
    place = np.where(category[row] == _UNKNOWN, -known, known)
    tag, named = whole.tag.copy(), whole.named.copy()
    for found_tag, keys in ((tag, (place, category[row])), (named, (place, category[row], ~has_name[row]))):
        order = np.lexsort((*keys, found.block[known]))
        block, first = np.unique(found.block[known][order], return_index=True)
        found_tag[older + block] = row[order][first]
    return Blocks(
        groups=whole.groups,
        group=whole.group,
        address=whole.address,
        size_bytes=whole.size_bytes,
        born=whole.born,
        freed=whole.freed,
        ended=whole.ended,
        tag=tag,
        named=named,
        silent_ns=whole.silent_ns,
    )


def _find(trace: Trace, blocks: Blocks) -> _Found:
    groups = blocks.groups
    known = pl.DataFrame({"device": groups.device, "cycle": groups.cycle}, schema_overrides={"cycle": pl.Int32})
    tags = trace.tags.select("device", "cycle", "address", "time_ns").with_row_index("row")
    tags = tags.join(known.with_row_index("group"), on=["device", "cycle"], how="inner", maintain_order="left")
    places = pl.DataFrame({"group": blocks.group, "address": blocks.address}).unique(maintain_order=True)
    places = places.with_columns(pl.col("group").cast(pl.UInt32)).with_row_index("place")
    tags = tags.join(places, on=["group", "address"], how="left", maintain_order="left")
    of_block = pl.DataFrame({"group": blocks.group, "address": blocks.address}).with_columns(
        pl.col("group").cast(pl.UInt32)
    )
    place = of_block.join(places, on=["group", "address"], how="left", maintain_order="left")["place"]
    width = trace.memory.height + 2
    keys = place.to_numpy().astype(np.int64) * width + blocks.born + 1
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    after = np.searchsorted(trace.memory["time_ns"].to_numpy(), tags["time_ns"].to_numpy(), side="right") - 1
    asked = tags["place"].fill_null(places.height).to_numpy().astype(np.int64)
    at = np.searchsorted(keys, asked * width + after + 1, side="right") - 1
    begin = np.searchsorted(keys, asked * width)  # the first block at the address
    has_place = are_known(tags["place"])
    is_there = has_place & (at >= begin)
    candidate = np.append(order, NONE)[np.where(is_there, at, NONE)]
    is_alive = (candidate >= 0) & (np.append(blocks.ended, 0)[candidate] > after)
    first = np.append(order, NONE)[np.where(has_place, begin, NONE)]
    return _Found(
        row=tags["row"].to_numpy().astype(np.int64),
        group=tags["group"].to_numpy().astype(np.int64),
        after=after,
        block=np.where(is_alive, candidate, NONE),
        is_before=candidate < 0,
        first_born=np.where(first >= 0, np.append(blocks.born, NONE)[first], trace.memory.height),
    )


def _with_older(trace: Trace, blocks: Blocks, found: _Found) -> Blocks:
    """Return the blocks after those of tensors from before the recording whose release was not recorded."""
    tags = trace.tags
    before = pl.DataFrame(
        {
            "row": found.row,
            "group": found.group,
            "after": found.after,
            "ended": found.first_born,
            "born": np.append(blocks.born, NONE)[found.block],
        }
    ).with_columns(
        pl.Series("address", tags["address"].gather(found.row)),
        pl.Series("category", tags["category"].gather(found.row)),
        pl.Series("name", tags["name"].gather(found.row)),
        pl.Series("bytes", tags["bytes"].gather(found.row)),
    )
    seen = before.filter(pl.Series(found.is_before))
    strongest = pl.col("category").to_physical().arg_min()
    older = seen.group_by("group", "address", maintain_order=True).agg(
        pl.col("row").get(strongest),
        pl.col("category").get(strongest),
        pl.col("name").get(strongest),
        pl.col("bytes").max(),
        pl.col("ended").first(),
        pl.col("after").max().alias("last"),
    )
    older = older.filter((pl.col("bytes") > 0) & (pl.col("category") != MEMORY_CATEGORIES[_UNKNOWN]))
    is_host = blocks.groups.is_host[older["group"].to_numpy()]
    size = older["bytes"].to_numpy()
    rounded = -(-size // DEVICE_ROUND_BYTES) * DEVICE_ROUND_BYTES
    ended = np.where(
        is_host, np.minimum(older["ended"].to_numpy(), _replaced(trace, older, before)), older["ended"].to_numpy()
    )
    count = older.height
    return Blocks(
        groups=blocks.groups,
        group=np.concatenate((older["group"].to_numpy(), blocks.group)),
        address=np.concatenate((older["address"].to_numpy(), blocks.address)),
        size_bytes=np.concatenate((np.where(is_host, size, rounded), blocks.size_bytes)),
        born=np.concatenate((np.full(count, NONE), blocks.born)),
        freed=np.concatenate((np.full(count, NONE), blocks.freed)),
        ended=np.concatenate((ended, blocks.ended)),
        tag=np.concatenate((older["row"].to_numpy(), blocks.tag)),
        named=np.concatenate((older["row"].to_numpy(), blocks.named)),
        silent_ns=np.concatenate((np.full(count, LATEST), blocks.silent_ns)),
    )


def _replaced(trace: Trace, older: pl.DataFrame, seen: pl.DataFrame) -> IntArray:
    """Return from which row of memory on each older block is gone, because its name stands for a newer block.

    torch does not report the release of memory of the host that was allocated before the recording. A gradient is
    released by ``zero_grad``, before the next one is allocated.
    """
    keys = ["group", "category", "name"]
    named = older.with_row_index("older").filter(pl.col("name").is_not_null())
    others = named.select("older", *keys, "address", "last").join(
        seen.select(*keys, "address", "after", "born"), on=keys, how="inner", suffix="_next"
    )
    is_other = (pl.col("address") != pl.col("address_next")) | (pl.col("born") > pl.col("last"))
    others = others.filter(is_other & (pl.col("after") > pl.col("last")))
    gone = pl.max_horizontal(pl.col("born"), pl.col("last") + 1)
    others = others.with_columns(gone.alias("gone"))
    cleared = _cleared_rows(trace)
    before = np.append(cleared, NONE)[np.searchsorted(cleared, others["gone"].to_numpy(), side="right") - 1]
    is_cleared = (pl.col("category") == "gradient") & (pl.col("before") > pl.col("last"))
    gone = pl.when(is_cleared).then("before").otherwise("gone")
    ends = others.with_columns(pl.Series("before", before)).group_by("older").agg(gone.min().alias("gone"))
    found = np.full(older.height, LATEST)
    found[ends["older"].to_numpy()] = ends["gone"].to_numpy()
    return found


def _cleared_rows(trace: Trace) -> IntArray:
    """Return the first row of memory after each end of a ``zero_grad`` of an optimizer, in order."""
    events = trace.events
    is_clearing = ask_event_names(trace, pl.col("name").str.starts_with(_CLEARING)).astype(np.bool_)
    ends = np.sort((events["start_ns"] + events["dur_ns"]).to_numpy()[is_clearing])
    return np.searchsorted(trace.memory["time_ns"].to_numpy(), ends)


def tagged_category(trace: Trace, blocks: Blocks) -> IntArray:
    """Return the index into ``MEMORY_CATEGORIES`` that its tag gives each block, -1 for a block without one."""
    codes = np.append(trace.tags["category"].to_physical().to_numpy().astype(np.int64), NONE)[blocks.tag]
    return np.where(codes == _UNKNOWN, NONE, codes)
