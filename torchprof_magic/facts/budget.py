"""What each step spends its time on, in parts that add up to it exactly: work at and above the roof, and all else.

With a device, each moment of a step belongs to what the busiest device does: to computation first, then to collectives,
then to copies; and where it idles, to what the host does. Without one, it belongs to what the thread of the steps does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.device.idle_pieces import CAUSES, cause_numbers, idle_pieces
from torchprof_magic.facts.device.window import windows_of
from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.facts.host.step_pieces import recorded_pieces
from torchprof_magic.facts.ops.flops import flops_of_calls
from torchprof_magic.facts.ops.roofline import device_name, roofline
from torchprof_magic.facts.shared import device_numbers, device_rows, in_category, is_named, once_per_trace
from torchprof_magic.facts.source.forward_of import forward_of_events
from torchprof_magic.model.dtypes import KINDS
from torchprof_magic.model.intervals import (
    NO_PARENT,
    BoolArray,
    IntArray,
    covered_ns,
    marked_above,
    merge,
    union_ns,
    windows_met,
)
from torchprof_magic.model.peaks import peak_of
from torchprof_magic.model.rows import are_in, are_known, filled, rows_where
from torchprof_magic.model.vendors import COLLECTIVE_KERNEL

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.model.trace import Trace

    Floats = npt.NDArray[np.float64]

# The parts of a step, in the order in which they are shown, with what each is.
PARTS = {
    "compute_roof": "computation, as long as it would take at the peak of the device",
    "compute_above": "computation beyond that",
    "memory_roof": "memory traffic of ops, as long as it would take at the bandwidth of the memory",
    "memory_above": "memory traffic beyond that",
    "other_work": "work whose operations and bytes, or whose roof, is not known",
    "communication": "communication during which nothing is computed",
    "copies": "copies and fills during which nothing else runs",
    "waiting": "waits of the host, while no device works",
    "dispatch": "ops and launches one at a time, and launched work that begins shortly, while no device works",
    "python": "Python between ops, while no device works",
    "data": "loading of data, while no device works",
    "compile": "compilation, capture of graphs and other work that is done once",
    "unknown": "what the recording does not say",
}
_OF_CAUSE = {
    "data": "data",
    "waiting": "waiting",
    "allocation": "waiting",
    "compile": "compile",
    "initialisation": "compile",
    "communication": "communication",
    "op dispatch": "dispatch",
    "queued": "dispatch",
    "python": "python",
}
_OF_PHASE = {
    "data": "data",
    "waiting": "waiting",
    "idle": "waiting",
    "compile": "compile",
    "initialisation": "compile",
    "communication": "communication",
    "python": "python",
}
# Launched work that is not begun for longer than this waits for what the recording does not say.
LONG_LATENCY_NS = 100_000
# An op without known work that lasts less than this mostly costs its call.
TINY_OP_NS = 20_000
_NUMBERS = {part: number for number, part in enumerate(PARTS)}


class Budget(NamedTuple):
    """The steps, or the windows of a recording without any, and the ns of each part of each: a row per step.

    ``step`` is a row of ``trace.steps``, or -1. ``model_ns`` and ``hardware_ns`` are how long the FLOPs of the step
    would take at the peak of their types: those that torch counts, without and with what a checkpoint computes again.
    They are nan where no peak is known.
    """

    step: IntArray
    start_ns: IntArray
    end_ns: IntArray
    parts: IntArray
    model_ns: Floats
    hardware_ns: Floats


@once_per_trace
def budget(trace: Trace) -> Budget:
    """Return what each step spends its time on; the parts of a step add up to it exactly."""
    step, start, end = _steps(trace)
    model, hardware = _flops_ns(trace, start, end)
    return Budget(step, start, end, parts_in(trace, start, end), model, hardware)


def parts_in(trace: Trace, start: IntArray, end: IntArray) -> IntArray:
    """Return the ns of each of ``PARTS`` in intervals that do not overlap: a row each, which adds up to it exactly.

    What lies in no step and no window of the recording is unknown.
    """
    parts = np.zeros((len(start), len(PARTS)), np.int64)
    if trace.has_device:
        _add_device(trace, parts, start, end)
    else:
        _add_host(trace, parts, start, end)
    parts[:, _NUMBERS["unknown"]] += (end - start) - parts.sum(axis=1)
    return parts


# Work that reaches less than this share of its roof is not limited by it.
FAR_FROM_ROOF = 0.1


class LimitsOfWork(NamedTuple):
    """The work of the steps that count in ns, by what limits it: its operations, its bytes, and what is not known.

    ``at_compute`` and ``at_memory`` are how long what its operations limit, and its bytes, would take at the roof.
    """

    compute: int
    memory: int
    unknown: int
    at_compute: int
    at_memory: int

    @property
    def whole(self) -> int:
        """All of it."""
        return self.compute + self.memory + self.unknown

    @property
    def most(self) -> Literal["compute", "memory", ""]:
        """What limits more than half of all work, empty if neither does as far as is known, or it is far from that."""
        largest: Literal["compute", "memory"] = "memory" if self.memory > self.compute else "compute"
        return largest if 2 * max(self.compute, self.memory) > self.whole and not self.is_far else ""

    @property
    def is_far(self) -> bool:
        """Whether the work whose roof is known is so far below it that something else limits it, such as its size."""
        return self.at_compute + self.at_memory < FAR_FROM_ROOF * (self.compute + self.memory)

    @property
    def reached(self) -> float:
        """Which share of its roof the work reaches whose roof is known; 0 if none is."""
        return (self.at_compute + self.at_memory) / max(self.compute + self.memory, 1)


@once_per_trace
def limits_of_work(trace: Trace) -> LimitsOfWork:
    """Return what limits the work of the steps that count, or of a recording without steps."""
    counted = counted_steps(trace)
    sums = dict(zip(PARTS, parts_in(trace, counted.start_ns, counted.end_ns).sum(axis=0).tolist(), strict=True))
    return LimitsOfWork(
        compute=sums["compute_roof"] + sums["compute_above"],
        memory=sums["memory_roof"] + sums["memory_above"],
        unknown=sums["other_work"],
        at_compute=sums["compute_roof"],
        at_memory=sums["memory_roof"],
    )


def _steps(trace: Trace) -> tuple[IntArray, IntArray, IntArray]:
    if trace.steps.height:
        start, end = (trace.steps[name].to_numpy().astype(np.int64) for name in ("start_ns", "end_ns"))
        return np.arange(trace.steps.height), start, end
    windows = windows_of(trace)
    return np.full(len(windows.start_ns), NO_PARENT, np.int64), windows.start_ns, windows.end_ns


@once_per_trace
def busiest_device(trace: Trace) -> int:
    """Return the number of the device that worked the longest; 0 without any."""
    rows = device_rows(trace)
    device = device_numbers(trace)[rows]
    start, dur = (trace.events[name].to_numpy()[rows] for name in ("start_ns", "dur_ns"))
    busy = {
        number: union_ns(start[device == number], (start + dur)[device == number])
        for number in np.unique(device).tolist()
    }
    return max(busy, key=lambda number: busy[number], default=0)


def _add_device(trace: Trace, parts: IntArray, start: IntArray, end: IntArray) -> None:
    """Add what the busiest device does, and what the host does while it idles."""
    number = busiest_device(trace)
    rows = device_rows(trace)
    rows = rows[device_numbers(trace)[rows] == number]
    is_kernel = in_category(trace, "kernel")[rows]
    is_comm = is_kernel & is_named(trace, COLLECTIVE_KERNEL)[rows]
    begin, dur = (trace.events[name].to_numpy()[rows].astype(np.int64) for name in ("start_ns", "dur_ns"))
    computes = is_kernel & ~is_comm
    known_end = _add_kernels(trace, parts, rows[computes], (start, end))
    hidden = covered_ns(*known_end, start, end)
    for part, chosen in (("communication", computes | is_comm), ("copies", np.ones(len(rows), np.bool_))):
        covered = covered_ns(begin[chosen], begin[chosen] + dur[chosen], start, end)
        parts[:, _NUMBERS[part]] += covered - hidden
        hidden = covered
    pieces, cause = idle_pieces(trace), cause_numbers(trace)
    of_cause = np.array([_NUMBERS[_OF_CAUSE.get(name, "unknown")] for name in CAUSES])
    part_of = of_cause[cause]
    is_long = (pieces.end_ns - pieces.start_ns > LONG_LATENCY_NS) & (cause == [*CAUSES].index("queued"))
    part_of[is_long] = _NUMBERS["unknown"]
    here = pieces.device == number
    for each in np.unique(of_cause).tolist():
        chosen = here & (part_of == each)
        parts[:, each] += covered_ns(pieces.start_ns[chosen], pieces.end_ns[chosen], start, end)


def _add_kernels(
    trace: Trace, parts: IntArray, rows: IntArray, steps: tuple[IntArray, IntArray]
) -> tuple[IntArray, IntArray]:
    """Add the time of kernels at and above their roof; return the intervals in which any of them ran.

    A moment belongs to the one that began first of those that run, so that each counts once.
    """
    start, dur = (trace.events[name].to_numpy()[rows].astype(np.int64) for name in ("start_ns", "dur_ns"))
    order = np.lexsort((-dur, start))
    start, end, rows = start[order], (start + dur)[order], rows[order]
    reach = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1])) if len(end) else end
    own = np.maximum(start, reach)
    end = np.maximum(end, own)
    pieces = roofline(trace)
    number = np.full(trace.events.height, NO_PARENT, np.int64)
    number[pieces.row] = np.arange(len(pieces.row))
    _add_split(trace, parts, number[rows], own, end, steps)
    return merge(own, end)


def _add_split(
    trace: Trace,
    parts: IntArray,
    piece: IntArray,
    start: IntArray,
    end: IntArray,
    steps: tuple[IntArray, IntArray],
    step: IntArray | None = None,
) -> None:
    """Add intervals that do not overlap, each split at the roof of a piece of ``roofline``, or -1 for unknown work."""
    pieces = roofline(trace)
    share = np.append(pieces.at_roof(), np.nan)[piece]
    is_compute = np.append(pieces.is_compute, False)[piece]
    step, start, end, of = (
        _cut_at_steps(start, end, *steps) if step is None else (step, start, end, np.arange(len(start)))
    )
    share, is_compute, ns = share[of], is_compute[of], end - start
    is_known = ~np.isnan(share)
    at = np.floor(np.nan_to_num(share) * ns).astype(np.int64)
    np.add.at(parts[:, _NUMBERS["other_work"]], step[~is_known], ns[~is_known])
    for kind, chosen in (("compute", is_known & is_compute), ("memory", is_known & ~is_compute)):
        np.add.at(parts[:, _NUMBERS[f"{kind}_roof"]], step[chosen], at[chosen])
        np.add.at(parts[:, _NUMBERS[f"{kind}_above"]], step[chosen], (ns - at)[chosen])


def _cut_at_steps(
    start: IntArray, end: IntArray, step_start: IntArray, step_end: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return the parts of intervals that lie in steps: the step, start and end of each, and its interval."""
    order = np.argsort(step_start, kind="stable")
    starts, ends = step_start[order], step_end[order]
    of, place = windows_met(start, end, starts, ends)
    return order[place], np.maximum(start[of], starts[place]), np.minimum(end[of], ends[place]), of


def _add_host(trace: Trace, parts: IntArray, start: IntArray, end: IntArray) -> None:
    """Add what the thread of the steps does; ops with known work are split at their roof."""
    whole, nest = recorded_pieces(trace), host_nest(trace)
    step, begin, stop, of = _cut_at_steps(whole.start_ns, whole.end_ns, start, end)
    row = np.append(nest.row, NO_PARENT)[whole.cause[of]]
    phases = np.array([_NUMBERS.get(_OF_PHASE.get(name, ""), -1) for name in PHASES])[whole.phase[of]]
    ns = stop - begin
    is_work = phases < 0
    np.add.at(parts, (step[~is_work], phases[~is_work]), ns[~is_work])
    work = np.flatnonzero(is_work)
    known = roofline(trace)
    number = np.full(trace.events.height + 1, NO_PARENT, np.int64)
    number[known.op] = np.arange(len(known.op))
    is_known = number[:-1] >= 0
    op = marked_above(trace.events["parent"].to_numpy(), is_known, row[work])
    piece = np.append(number[:-1], NO_PARENT)[op]
    lasts = np.append(trace.events["dur_ns"].to_numpy(), 0)[row[work]]
    is_tiny = (piece < 0) & (lasts < TINY_OP_NS)
    np.add.at(parts[:, _NUMBERS["dispatch"]], step[work[is_tiny]], ns[work[is_tiny]])
    rest = work[~is_tiny]
    nothing = (np.empty(0, np.int64), np.empty(0, np.int64))
    _add_split(trace, parts, piece[~is_tiny], begin[rest], stop[rest], nothing, step[rest])


def _flops_ns(trace: Trace, start: IntArray, end: IntArray) -> tuple[Floats, Floats]:
    """Return how long the FLOPs of each step would take at the peak, without and with those of recomputation.

    They count where their kernels run, or without a device their ops. Products that torch does not count, such as those
    of ops of servers, have the operations that the table of formulas tells.
    """
    pieces, counted = roofline(trace), filled(flops_of_calls(trace), 0)
    is_counted = are_known(flops_of_calls(trace))
    peak = peak_of(device_name(trace, busiest_device(trace)))
    is_other = pieces.is_matrix & (np.nan_to_num(pieces.flops) > 0)
    if peak is None or not (is_counted.any() or is_other.any()):
        return np.full(len(start), np.nan), np.full(len(start), np.nan)
    counting = np.flatnonzero(is_counted)
    op = marked_above(trace.events["parent"].to_numpy(), _marked(trace, pieces.op), counting)
    flops = np.zeros(trace.events.height + 1)
    np.add.at(flops, op, counted[counting])
    rates = np.array([peak.flops_per_s(kind, is_matrix=True) for kind in (*KINDS, "")])
    with np.errstate(divide="ignore", invalid="ignore"):
        is_other &= flops[pieces.op] == 0
        done = np.where(is_other, pieces.flops, flops[pieces.op] * pieces.share)
        ns = done / np.where(rates > 0, rates, np.nan)[pieces.kind] * 1e9
    ns = np.nan_to_num(ns)
    here = (
        device_numbers(trace)[pieces.row] == busiest_device(trace) if trace.has_device else np.ones(len(ns), np.bool_)
    )
    again = _computed_again(trace)[pieces.op]
    found = [np.zeros(len(start)), np.zeros(len(start))]
    step, begin, stop, of = _cut_at_steps(pieces.start_ns, pieces.start_ns + pieces.dur_ns, start, end)
    inside = (stop - begin) / np.maximum(pieces.dur_ns[of], 1)
    for values, chosen in zip(found, (here & ~again, here), strict=True):
        np.add.at(values, step, ns[of] * inside * chosen[of])
    return found[0], found[1]


def _marked(trace: Trace, rows: IntArray) -> BoolArray:
    found = np.zeros(trace.events.height, np.bool_)
    found[rows] = True
    return found


def _computed_again(trace: Trace) -> BoolArray:
    """Return which events a checkpoint computes again: ops in the backward pass that make nodes of their own."""
    links = rows_where(trace.flows, are_in(trace.flows["kind"], ("backward",)))
    is_source = _marked(trace, links["source"].to_numpy()) & (forward_of_events(trace) >= 0)
    if not is_source.any():
        return is_source
    rows = np.arange(trace.events.height)
    found: BoolArray = marked_above(trace.events["parent"].to_numpy(), is_source, rows) >= 0
    return found
