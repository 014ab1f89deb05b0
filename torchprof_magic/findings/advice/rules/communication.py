"""Advice about collectives: gradients that are exchanged too often, and many small collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.device.collectives import collectives_of
from torchprof_magic.facts.shared import in_category
from torchprof_magic.findings.advice.kinds import DEVICES, THREADS, Advice, Effect, Spans
from torchprof_magic.findings.advice.times import (
    by_place,
    critical,
    device_work_of,
    each,
    joined,
    ns_in_steps,
    overlap,
    rows_named,
    runs_of_lines,
    spans_of,
    within_steps,
    without,
)
from torchprof_magic.model.units import format_count, format_ns
from torchprof_magic.model.vendors import HOST_COLLECTIVE

if TYPE_CHECKING:
    from torchprof_magic.findings.advice.kinds import Where
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# Fewer collectives per step are not worth joining.
LEAST_COLLECTIVES = 16
# How fast tensors are copied into a flat one and out of it, in bytes a ns.
HOST_SPEED, DEVICE_SPEED = 8.0, 500.0
MOST_ROWS = 100_000
NO_SYNC_LINK = "https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html#torch.nn.parallel.DistributedDataParallel.no_sync"
BUCKET_LINK = "https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_reduce_coalesced"
_COLLECTIVE = r"^c10d::(allreduce|_?allgather(_base)?|_?reduce_scatter(_base)?|broadcast|reduce|alltoall\w*)_$"
_FORWARD = r"^DistributedDataParallel\.forward$"
_REDUCER = r"^torch\.distributed\.ddp\.reducer::|^torch::distributed::reducer::"


def gradient_sync_each_step(trace: Trace) -> Advice | None:
    """Advise ``no_sync`` if gradients are exchanged in backward passes that no step of an optimizer follows."""
    forwards = np.sort(spans_of(trace, rows_named(trace, _FORWARD, "user_annotation", "cpu_op")).start_ns)
    steps = spans_of(trace, rows_named(trace, r"^Optimizer\.step#", "user_annotation", "cpu_op")).start_ns
    exchanged = np.concatenate((_of_reducer(trace), rows_named(trace, _REDUCER)))
    if len(forwards) == 0 or len(steps) == 0 or len(forwards) < 2 * len(steps) or len(exchanged) == 0:
        return None
    ends = np.append(forwards[1:], np.iinfo(np.int64).max)
    has_step = np.searchsorted(np.sort(steps), ends) > np.searchsorted(np.sort(steps), forwards)
    starts = np.sort(spans_of(trace, _of_reducer(trace)).start_ns)
    has_sync = np.searchsorted(starts, ends) > np.searchsorted(starts, forwards)
    needless = ~has_step & has_sync
    if not needless.any() or not has_sync[has_step].any():
        return None
    passes = Spans(forwards[needless], np.minimum(ends[needless], counted_steps(trace).end_ns.max()))
    inside = overlap(_exchange(trace, exchanged), passes)
    file, line, _ = by_place(trace, _of_reducer(trace))[0]
    per = len(forwards) / len(steps)
    return Advice(
        rule="gradient_sync_each_step",
        title="Exchange gradients once for each step of the optimizer",
        fix="`with model.no_sync():` around all but the last of the accumulated passes",
        evidence=f"{format_count(per)} passes come before each step of the optimizer, and each of them exchanges all "
        f"gradients. Those that no step follows take {format_ns(ns_in_steps(trace, inside))} {each(trace)} for that.",
        file=file,
        line=line,
        op="c10d::allreduce_",
        certainty="measured",
        link=NO_SYNC_LINK,
        spans=inside,
        effect=Effect(_where(trace)),
    )


def _of_reducer(trace: Trace) -> IntArray:
    """Return the all-reduces that the backward pass starts."""
    rows = rows_named(trace, r"^c10d::allreduce_$")
    parent = trace.events["parent"].to_numpy().astype(np.int64)
    name = trace.events["name"]
    above = parent[rows]
    in_backward = [row >= 0 and str(name[row]).startswith("autograd::engine") for row in above[:MOST_ROWS].tolist()]
    return rows[:MOST_ROWS][np.array(in_backward, np.bool_)]


def _exchange(trace: Trace, rows: IntArray) -> Spans:
    """Return when the collectives of some ops made the step longer: on the device, or on the host alone."""
    if trace.has_device:
        work = device_work_of(trace, rows)
        others = np.setdiff1d(np.flatnonzero(in_category(trace, "kernel")), work)
        return within_steps(trace, without(spans_of(trace, work), spans_of(trace, others)))
    remote = rows_named(trace, HOST_COLLECTIVE, "user_annotation")
    ops = rows_named(trace, r"^aten::|^autograd::")
    alone = without(spans_of(trace, remote), spans_of(trace, ops))
    return critical(trace, joined(spans_of(trace, rows), alone))


def many_small_collectives(trace: Trace) -> list[Advice]:
    """Advise to join collectives, if a step waits for many of them one after the other."""
    rows = np.setdiff1d(rows_named(trace, _COLLECTIVE), _of_reducer(trace))
    found = []
    for file, line, mine in by_place(trace, rows):
        count = len(mine) / counted_steps(trace).steps
        if count < LEAST_COLLECTIVES:
            continue
        inside = _own_exchange(trace, file, line, mine)
        spent = ns_in_steps(trace, inside)
        lengths = inside.end_ns - inside.start_ns
        if len(lengths) == 0:
            continue
        shortest = float(np.quantile(lengths, 0.1))
        size = _mean_bytes(trace)
        copies_ns = None if size is None else 2 * size * count / (DEVICE_SPEED if trace.has_device else HOST_SPEED)
        left = None if copies_ns is None else max(spent - shortest * (count - 1), 0.0) + copies_ns
        if left is not None and left >= spent:
            continue
        copies = "with sizes unknown" if copies_ns is None else f"taken to be {format_ns(copies_ns)}"
        found.append(
            Advice(
                rule="many_small_collectives",
                title="Join the collectives",
                fix="one flat tensor for all of them, or DistributedDataParallel, which makes buckets",
                evidence=f"{format_count(count)} collectives {each(trace)} take {format_ns(spent)}. The shortest take "
                f"{format_ns(shortest)} whatever their size, so one in place of {format_count(count)} saves that "
                f"{format_count(count - 1)} times, less two copies of what they send, {copies}.",
                file=file,
                line=line,
                op=str(trace.events["name"][int(mine[0])]),
                certainty="guess" if left is None else "estimated",
                link=BUCKET_LINK,
                spans=inside,
                effect=None if left is None else Effect(_where(trace), left=left / spent),
            )
        )
    return found


def _where(trace: Trace) -> Where:
    return DEVICES if trace.has_device else THREADS


def _mean_bytes(trace: Trace) -> float | None:
    """Return how much a collective communicates, in bytes; None if that was not recorded for some."""
    sizes = collectives_of(trace)["bytes"]
    mean = sizes.mean()
    return float(mean) if sizes.null_count() == 0 and isinstance(mean, float) else None


def _own_exchange(trace: Trace, file: str, line: int | None, rows: IntArray) -> Spans:
    """Return the intervals in which the step waits for the collectives that some ops start, one for each."""
    if trace.has_device:
        return _exchange(trace, rows)
    runs = runs_of_lines(trace, file).get(line or 0)
    if runs is not None and len(runs.start_ns) >= len(rows):  # with the calls and the waiting outside of ops
        return within_steps(trace, runs)
    remote = rows_named(trace, HOST_COLLECTIVE, "user_annotation")
    return within_steps(trace, joined(spans_of(trace, rows), spans_of(trace, remote)))
