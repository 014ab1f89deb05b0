"""Advice about the host waiting for a device: copies from pageable memory, and what asks for a result at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.device.idle_pieces import gaps_of
from torchprof_magic.facts.host.blocking import blocking_calls, calls_that_block
from torchprof_magic.facts.host.host_nest import host_nest, indexes_of
from torchprof_magic.facts.host.host_states import called_ops
from torchprof_magic.facts.shared import is_named, launch_links, launch_sources
from torchprof_magic.findings.advice.kinds import NOWHERE, Advice, Edit, Effect, Spans
from torchprof_magic.findings.advice.times import by_place, critical, each, ns_in_steps, spans_of, step_ns, within_steps
from torchprof_magic.findings.verdict.accounts import device_account
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray
from torchprof_magic.model.units import counted, format_bytes, format_ns

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

PINNED_LINK = "https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers"
SYNC_LINK = (
    "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization"
)
# What each op asks the device for, and what to write in its place.
ASKING_OPS = {
    "aten::item": "keep the value on the device, and read it once in many steps",
    "aten::_local_scalar_dense": "keep the value on the device, and read it once in many steps",
    "aten::is_nonzero": "`torch.where` in place of `if`",
    "aten::equal": "keep the comparison on the device, and read it once in many steps",
    "aten::allclose": "keep the comparison on the device, and read it once in many steps",
    "aten::nonzero": "`torch.where(mask, a, b)`, whose result has a known size",
    "aten::index": "`torch.where(mask, a, b)` in place of a boolean index",
    "aten::index_put_": "`torch.where(mask, a, b)` in place of a boolean index",
    "aten::masked_select": "`torch.where(mask, a, b)`, whose result has a known size",
    "aten::unique": "sizes that are known before",
    "aten::_unique2": "sizes that are known before",
    "aten::repeat_interleave": "`output_size=`, so that the size is known before",
    "aten::to": "copy with `non_blocking=True` into pinned memory, and use the copy later",
    "aten::_to_copy": "copy with `non_blocking=True` into pinned memory, and use the copy later",
    "aten::copy_": "copy with `non_blocking=True` into pinned memory, and use the copy later",
    "aten::cpu": "copy with `non_blocking=True` into pinned memory, and use the copy later",
}
# A batch is unpacked, and its parts moved, in lines that do not name the loader: that one is often not known.
_PINNED = (
    Edit(("to", "cuda"), "non_blocking", "True", is_here=True, is_move=True),
    Edit(("DataLoader",), "pin_memory", "True", position=7),
)
# A device that runs dry for less of a step has enough to do while the host waits.
LEAST_DRY = 0.01
_COPYING = ("aten::to", "aten::_to_copy", "aten::copy_", "aten::cpu")


def pageable_copy(trace: Trace) -> list[Advice]:
    """Advise pinned memory for copies to the device that hold the host, because their source is pageable."""
    copies = np.flatnonzero(is_named(trace, r"HtoD.*Pageable", "memcpy"))
    calls = launch_sources(trace)[copies].astype(np.int64)
    copies, calls = copies[calls >= 0], calls[calls >= 0]
    ops = _called(trace, calls)
    found = []
    for file, line, rows in by_place(trace, np.unique(np.where(ops >= 0, ops, calls))):
        mine = np.isin(np.where(ops >= 0, ops, calls), rows)
        spans = spans_of(trace, np.union1d(calls[mine], _waits_in(trace, rows)))
        idle_ns = ns_in_steps(trace, critical(trace, spans))
        size = float(trace.events["bytes"].gather(copies[mine]).fill_null(0).sum()) / max(_steps(trace), 1)
        found.append(
            Advice(
                rule="pageable_copy",
                title="Copy from pinned memory",
                fix="`pin_memory=True` in the DataLoader, then `.to(device, non_blocking=True)`",
                evidence=f"{format_bytes(size)} {each(trace)} are copied from pageable memory. The host stands still "
                f"for {format_ns(ns_in_steps(trace, spans))}, and the device idles for {format_ns(idle_ns)} of it.",
                file=file,
                line=line,
                op="Memcpy HtoD (Pageable -> Device)",
                certainty="measured",
                link=PINNED_LINK,
                spans=within_steps(trace, spans),
                effect=Effect(rows=rows),
                edits=_PINNED,
            )
        )
    return found


def _waits_in(trace: Trace, ops: IntArray) -> IntArray:
    """Return the waits for a copy in some ops: what else an op does there, as starting the driver, is no copy."""
    calls = calls_that_block(trace)
    waits = calls.row[calls.meet("sync", "copy")]
    return waits[np.isin(_called(trace, waits), ops)]


def sync_in_loop(trace: Trace) -> list[Advice]:
    """Advise against asking for results in the loop, if the device runs dry because the host waits for them."""
    account = device_account(trace)
    if account is None or account.device is None or not account.has_steps:
        return []  # without steps there is no loop
    waits = _asking(trace)
    if len(waits.row) == 0:
        return []
    found = []
    for file, line, rows in by_place(trace, np.unique(waits.row)):
        mine = np.isin(waits.row, rows)
        # One after the other: several ops can wait on one line.
        ops = trace.events["name"].gather(rows).cast(pl.String).value_counts(sort=True)
        op = str(ops["name"][0])
        inside = _dry(trace, account.device, _Waits(*(column[mine] for column in waits)))
        held = ns_in_steps(trace, Spans(waits.start_ns[mine], waits.end_ns[mine]))
        if ns_in_steps(trace, inside) < LEAST_DRY * step_ns(trace):
            continue
        found.append(
            Advice(
                rule="sync_in_loop",
                title="Do not wait for the device in the loop",
                fix=ASKING_OPS.get(op, "wait only where the result is needed, or once in many steps"),
                evidence=f"`{op}` waits {counted(len(waits.row[mine]), 'time')} for a result, {format_ns(held)} "
                f"{each(trace)}. Meanwhile nothing is launched, so the device idles afterwards.",
                file=file,
                line=line,
                op=op,
                certainty="measured",
                link=SYNC_LINK,
                effect=Effect(where=NOWHERE, rows=rows),
                spans=inside,
            )
        )
    return found


class _Waits(NamedTuple):
    """Waits for the device: what made each, an op if there is one or the call itself, and its times in ns."""

    row: IntArray
    start_ns: IntArray
    end_ns: IntArray


def _asking(trace: Trace) -> _Waits:
    """Return the waits that the program asked for: for all work, or for the copy of a result to the host."""
    calls = blocking_calls(trace).filter(pl.col("rule").is_in(("sync", "copy")))
    row = calls["row"].to_numpy().astype(np.int64)
    op = _called(trace, row)
    names = trace.events["name"].cast(pl.String)
    name = names.gather(np.where(op >= 0, op, row)).to_list() if len(row) else []
    is_copy = (calls["rule"] == "copy").to_numpy()
    targets = launch_links(trace).select("source", "target")
    to_host = targets.filter(
        pl.Series(names.gather(targets["target"]).str.contains("DtoH").to_numpy(), dtype=pl.Boolean)
    )
    brings = np.isin(row, to_host["source"].to_numpy())
    asks = np.array([each_name in ASKING_OPS for each_name in name], np.bool_)
    copies = np.array([each_name in _COPYING for each_name in name], np.bool_)
    # A copy to the device holds the host, too: that is another rule's.
    keep = np.where(is_copy, brings & asks, (op < 0) | (asks & (~copies | _after_copy_to_host(trace, op, to_host))))
    kept = np.flatnonzero(keep)
    start = calls["start_ns"].to_numpy()[kept]
    return _Waits(np.where(op >= 0, op, row)[kept], start, start + calls["dur_ns"].to_numpy()[kept])


def _after_copy_to_host(trace: Trace, op: IntArray, to_host: pl.DataFrame) -> BoolArray:
    """Return which ops have launched a copy to the host."""
    calls = np.unique(to_host["source"].to_numpy().astype(np.int64))
    return np.isin(op, _called(trace, calls)) & (op >= 0)


def _dry(trace: Trace, device: int, waits: _Waits) -> Spans:
    """Return the idle time that waiting caused: of the gap in which each wait ends, at most as long as the wait.

    Had the host not waited, it would have launched the work that ends the gap that much earlier. It counts only if the
    waiting thread did launch it, after the wait.
    """
    gaps = next(gaps for gaps in gaps_of(trace) if gaps.device == device)
    order = np.argsort(gaps.start_ns)
    from_ns, to_ns, next_row = gaps.start_ns[order], gaps.end_ns[order], gaps.next_row[order]
    at = np.searchsorted(from_ns, waits.end_ns, side="right") - 1
    start, lane = (trace.events[name].to_numpy() for name in ("start_ns", "lane"))
    call = np.append(launch_sources(trace), NO_PARENT)[np.append(next_row, NO_PARENT)[at]].astype(np.int64)
    launched_later = (call >= 0) & (lane[call] == lane[waits.row]) & (start[call] >= waits.end_ns)
    has_gap = (at >= 0) & (np.append(to_ns, 0)[at] > waits.end_ns) & launched_later
    begin, end = waits.start_ns[has_gap], waits.end_ns[has_gap]
    gap_start, gap_end = from_ns[at[has_gap]], to_ns[at[has_gap]]
    held_while_busy = np.maximum(gap_start - begin, 0)
    return within_steps(trace, Spans(np.maximum(gap_start, begin), np.minimum(gap_end, end + held_while_busy)))


def _called(trace: Trace, rows: IntArray) -> IntArray:
    """Return the row of the op that the program called around each host event, -1 for none."""
    nest = host_nest(trace)
    if len(rows) == 0:
        return np.empty(0, np.int64)
    known = np.isin(rows, nest.row)
    found = np.full(len(rows), NO_PARENT, np.int64)
    outer = np.append(called_ops(trace), NO_PARENT)[indexes_of(nest, rows[known])]
    found[known] = np.append(nest.row, NO_PARENT)[outer]
    return found


def _steps(trace: Trace) -> int:
    account = device_account(trace)
    return account.steps if account is not None else 1
