"""What cannot be in the times of a device: work before its launch, after a wait for it, or over the next work.

Two clocks meet in a trace, and drivers write times that overflow or are lost. Everything here is found by order alone:
a call launches work before it runs, a wait returns after what it waited for, and the work of a stream runs in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.shared import (
    device_numbers,
    device_rows,
    in_category,
    is_named,
    launch_sources,
    name_numbers,
    once_per_trace,
)
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray
from torchprof_magic.model.vendors import DEVICE_WAIT, STREAM_SYNC

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# Times in whole µs differ by this much from those that they were rounded from.
ROUNDING_NS = 2_000
# No launch has been seen to reach an idle device in less.
LEAST_DELAY_NS = 5_000
# A clock is late if no call reaches an idle device within this time of its end, of at least so many after such a gap.
LATE_NS = 500_000
LEAST_AFTER_IDLE = 3
IDLE_GAP_NS = 20_000
# Of so many calls, less will do, if a quarter takes at most so many times as long as the quickest. 5 to 30 µs is usual.
SLIGHTLY_LATE_NS = 60_000
MANY_AFTER_IDLE = 10
ALIKE_TIMES = 2
# A wait that returns within this time, or a tenth of the delay, after the work that it waits for follows its end.
AFTER_WORK_NS = 30_000
# A clock is off, and not only some of its times, if at least so many and this share of the work say so.
LEAST_EARLY = 3
EARLY_SHARE = 0.01
# Clocks are not further apart; such times are wrong in another way.
FURTHEST_NS = 3600 * 10**9
# More devices than any machine has.
MOST_DEVICES = 2**31
# From so many steps on, and so many times the others of its name, work is longer than it can be.
MANY_STEPS = 3
MANY_TIMES = 10


class Clock(NamedTuple):
    """By how much the clock of a device is ahead of that of the host in one cycle (ns, negative: behind).

    ``works`` is how much of its work says so.
    """

    cycle: int
    device: int
    ahead_ns: int
    works: int


class Found(NamedTuple):
    """How many pieces of work break a rule, and by how much the worst does, in ns."""

    works: int
    most_ns: int


NOTHING = Found(0, 0)
NEVER = np.iinfo(np.int64).max


class Impossible(NamedTuple):
    """What cannot be in the times of devices, after each clock was set right.

    ``works`` is how many pieces of work break a rule; one can break several. ``end_ns`` is the end of each event as far
    as it can be believed, for the rows in ``clipped``.
    """

    clocks: tuple[Clock, ...]
    before_launch: Found
    after_wait: Found
    over_next: Found
    over_steps: Found
    works: int
    clipped: IntArray
    end_ns: IntArray


_FINE = Impossible((), NOTHING, NOTHING, NOTHING, NOTHING, 0, np.empty(0, np.int64), np.empty(0, np.int64))


class _Work(NamedTuple):
    """The work of devices: its rows, times, launch (-1 for none) and stream, in the order of ``events``."""

    row: IntArray
    start_ns: IntArray
    end_ns: IntArray
    call: IntArray
    lane: IntArray
    cycle: IntArray
    device: IntArray


@once_per_trace
def impossible_times(trace: Trace) -> Impossible:
    """Return what cannot be in the times of devices."""
    if not trace.has_device:
        return _FINE
    work = _work_of(trace)
    end_ns, over_next = _until_next(work)
    work = work._replace(end_ns=end_ns)
    latest = _latest_ends(trace, work)
    clocks = _clocks(trace, work, latest)
    shift = _shift_of(clocks, work)
    start, end = work.start_ns - shift, work.end_ns - shift
    called = trace.events["start_ns"].to_numpy()[work.call]
    early = np.where(work.call >= 0, called - start, 0)
    is_early = early > ROUNDING_NS
    over = np.where(latest < NEVER, end - latest, 0)
    is_over = over > ROUNDING_NS
    end = np.where(is_over, np.maximum(latest, start), end)
    end, over_steps = _within_steps(trace, work._replace(start_ns=start, end_ns=end))
    is_clipped = end + shift < _end_in_file(trace, work)
    return Impossible(
        clocks=clocks,
        before_launch=_found(early, is_early),
        after_wait=_found(over, is_over),
        over_next=over_next,
        over_steps=over_steps,
        works=int((is_early | is_over | is_clipped).sum()),
        clipped=work.row[is_clipped],
        end_ns=(end + shift)[is_clipped],
    )


def _end_in_file(trace: Trace, work: _Work) -> IntArray:
    """Return the end of the work as it is in the file."""
    return work.start_ns + trace.events["dur_ns"].to_numpy()[work.row]


def _work_of(trace: Trace) -> _Work:
    events = trace.events
    row = device_rows(trace)
    start, dur, lane, cycle = (
        events[name].to_numpy().astype(np.int64)[row] for name in ("start_ns", "dur_ns", "lane", "cycle")
    )
    device = device_numbers(trace)[row]
    return _Work(row, start, start + dur, launch_sources(trace).astype(np.int64)[row], lane, cycle, device)


def _found(amount: IntArray, which: BoolArray) -> Found:
    return Found(int(which.sum()), int(amount[which].max())) if which.any() else NOTHING


def _until_next(work: _Work) -> tuple[IntArray, Found]:
    """Return the ends of all work, where it lasts beyond the end of the next on its stream until that begins."""
    order = np.lexsort((work.start_ns, work.lane, work.cycle))
    start, end = work.start_ns[order], work.end_ns[order]
    same = (work.lane[order][1:] == work.lane[order][:-1]) & (work.cycle[order][1:] == work.cycle[order][:-1])
    beyond = end[:-1] - end[1:]
    is_over = same & (beyond > IDLE_GAP_NS) & (end[1:] > start[1:])
    result = work.end_ns.copy()
    result[order[:-1][is_over]] = np.maximum(start[1:][is_over], start[:-1][is_over])
    return result, _found(end[:-1] - start[1:], is_over)


def _latest_ends(trace: Trace, work: _Work) -> IntArray:
    """Return when work must have ended at the latest: when a wait for it returned; the largest number if none did.

    A wait for a whole device is for all that was launched before it, where there is one device. A wait for a stream is
    for what the op around it launched before.
    """
    events = trace.events
    start, parent, cycle = (events[name].to_numpy().astype(np.int64) for name in ("start_ns", "parent", "cycle"))
    end = start + events["dur_ns"].to_numpy()
    is_call = in_category(trace, "runtime")
    has_call = work.call >= 0
    called = np.where(has_call, end[work.call], NEVER)
    latest = np.full(len(work.row), NEVER)
    if len(np.unique(work.device)) == 1:
        waits = np.flatnonzero(is_call & is_named(trace, DEVICE_WAIT))
        latest = _first_ends(work.cycle, called, cycle[waits], start[waits], end[waits])
    waits = np.flatnonzero(is_call & is_named(trace, STREAM_SYNC) & (parent >= 0))
    around = np.where(has_call, parent[work.call], NO_PARENT)
    inside = np.flatnonzero(np.isin(around, parent[waits]) & (around >= 0))
    own = _first_ends(around[inside], called[inside], parent[waits], start[waits], end[waits])
    latest[inside] = np.minimum(latest[inside], own)
    return latest


def _first_ends(
    key: IntArray, time_ns: IntArray, wait_key: IntArray, wait_start_ns: IntArray, wait_end_ns: IntArray
) -> IntArray:
    """Return for each moment the earliest end of the waits of its key that begin then or later; ``NEVER`` if none."""
    result = np.full(len(key), NEVER)
    if len(wait_key) == 0 or len(key) == 0:
        return result
    order = np.lexsort((wait_start_ns, wait_key))
    keys, group = np.unique(wait_key[order], return_inverse=True)
    start, end = wait_start_ns[order], wait_end_ns[order]
    # Ranks in place of times, so that a group and a time fit into one number.
    times, rank = np.unique(np.concatenate((start, time_ns)), return_inverse=True)
    waits = group * len(times) + rank[: len(start)]
    known = np.flatnonzero(np.isin(key, keys))
    asked = np.searchsorted(keys, key[known]) * len(times) + rank[len(start) :][known]
    at = np.searchsorted(waits, asked, side="left")
    found = (at < len(waits)) & (np.append(group, NO_PARENT)[np.minimum(at, len(group))] == asked // len(times))
    # From each wait on, the earliest end of its group: from the last one backwards, each group is below the one before.
    ends, end_rank = np.unique(end, return_inverse=True)
    least = np.minimum.accumulate((group * len(ends) + end_rank)[::-1])[::-1] - group * len(ends)
    result[known[found]] = ends[least[at[found]]]
    return result


def _clocks(trace: Trace, work: _Work, latest: IntArray) -> tuple[Clock, ...]:
    """Return the clocks that are off, one for each cycle and device."""
    called, lasted = (trace.events[name].to_numpy() for name in ("start_ns", "dur_ns"))
    found = []
    for place in np.unique(work.cycle * MOST_DEVICES + work.device).tolist():
        cycle, device = divmod(place, MOST_DEVICES)
        here = (work.cycle == cycle) & (work.device == device)
        timed = here & (work.call >= 0)
        delay = (work.start_ns - called[work.call])[timed]
        first = np.flatnonzero(timed)[_first_of_calls(work, timed) & _after_idle(work, here)[timed]]
        reached = (work.start_ns - called[work.call])[first], lasted[work.call[first]]
        over = (work.end_ns - latest)[timed & (latest < NEVER)]
        ahead, works = _ahead(delay, reached, over)
        limits = (called[work.call][timed], latest[timed])
        if 0 < abs(ahead) < FURTHEST_NS and _explains(work.start_ns[timed], work.end_ns[timed], *limits, ahead):
            found.append(Clock(cycle, device, ahead, works))
    return tuple(found)


def _explains(start: IntArray, end: IntArray, called: IntArray, latest: IntArray, ahead: int) -> bool:
    """Return whether fewer times are impossible with a clock set right by so much, or none are either way."""

    def impossible(shift: int) -> int:
        early, over = called - (start - shift) > ROUNDING_NS, (latest < NEVER) & (end - shift - latest > ROUNDING_NS)
        return int((early | over).sum())

    before, after = impossible(0), impossible(ahead)
    return after < before or before == after == 0


def _first_of_calls(work: _Work, timed: BoolArray) -> BoolArray:
    """Return which of the timed work is the first that its call started; that of a graph follows by itself."""
    call, start = work.call[timed], work.start_ns[timed]
    order = np.lexsort((start, call))
    is_first = np.ones(len(call), np.bool_)
    is_first[order[1:]] = call[order[1:]] != call[order[:-1]]
    return is_first


def _after_idle(work: _Work, here: BoolArray) -> BoolArray:
    """Return which work of a device began after it had done nothing for a while."""
    rows = np.flatnonzero(here)
    rows = rows[np.argsort(work.start_ns[rows], kind="stable")]
    busy_until = np.maximum.accumulate(work.end_ns[rows])
    result = np.zeros(len(here), np.bool_)
    result[rows[1:]] = work.start_ns[rows[1:]] - busy_until[:-1] > IDLE_GAP_NS
    return result


def _ahead(delay: IntArray, reached: tuple[IntArray, IntArray], over: IntArray) -> tuple[int, int]:
    """Return by how much a clock is ahead of the host's, and how much work says so; 0 if it is not known to be off.

    ``reached`` are the delays of the calls that reached an idle device, and how long these calls took themselves.
    """
    early = int((delay < -ROUNDING_NS).sum())
    if early >= max(min(LEAST_EARLY, len(delay)), EARLY_SHARE * len(delay), 1):
        # A few times may be far off for other reasons.
        usual = int(np.quantile(delay, EARLY_SHARE / 2, method="lower"))
        return int(delay[delay >= usual - IDLE_GAP_NS].min()) - LEAST_DELAY_NS, early
    ended_late = int((over > ROUNDING_NS).sum())
    if (late_ns := _late_by(*reached, int(over.max(initial=-NEVER)))) > 0:
        return late_ns, len(reached[0])
    if ended_late >= max(LEAST_EARLY, EARLY_SHARE * len(over)):
        return int(over.max()), ended_late
    return 0, 0


def _late_by(after: IntArray, lasted: IntArray, over_ns: int) -> int:
    """Return by how much all work begins too late after its call; 0 if that may be how long the device takes.

    ``over_ns`` is by how much work ends after the wait for it, negative if before it. A wait that returns right after
    its work tells that the clock is right, and one that returns before it that it is not.
    """
    if len(after) < LEAST_AFTER_IDLE:
        return 0
    late_ns = int(after.min()) - LEAST_DELAY_NS
    is_after_wait = over_ns > ROUNDING_NS
    is_waited_for = -over_ns < max(AFTER_WORK_NS, late_ns // 10)
    if late_ns < over_ns or (is_waited_for and not is_after_wait):
        return 0
    # A slow call may start its work at any time in it.
    quickest_ns = int((after - lasted)[lasted <= np.median(lasted)].min())
    are_alike = np.quantile(after, 0.25) <= ALIKE_TIMES * after.min()
    is_known = len(after) >= MANY_AFTER_IDLE and quickest_ns >= SLIGHTLY_LATE_NS and are_alike
    return late_ns if is_known or is_after_wait or quickest_ns >= LATE_NS else 0


def _shift_of(clocks: tuple[Clock, ...], work: _Work) -> IntArray:
    shift = np.zeros(len(work.row), np.int64)
    for clock in clocks:
        shift[(work.cycle == clock.cycle) & (work.device == clock.device)] = clock.ahead_ns
    return shift


def _within_steps(trace: Trace, work: _Work) -> tuple[IntArray, Found]:
    """Return the ends of all work, where it lasts several steps and far longer than its like until its step ends.

    Without steps, it is the recording that it cannot outlast by far.
    """
    events, steps = trace.events, trace.steps
    length = work.end_ns - work.start_ns
    if len(work.row) == events.height:  # so that the file does not say how long was recorded
        return work.end_ns, NOTHING
    host_end = np.delete(events["start_ns"].to_numpy() + events["dur_ns"].to_numpy(), work.row)
    over_ns = int(host_end.max(initial=0))
    least = MANY_STEPS * np.median((steps["end_ns"] - steps["start_ns"]).to_numpy()) if steps.height else over_ns
    is_long = (length > least) & (length > 0)
    if not is_long.any():
        return work.end_ns, NOTHING
    name = name_numbers(trace).astype(np.int64)[work.row]
    others = np.array([_typical_other(length, name, at) for at in np.flatnonzero(is_long).tolist()])
    at = np.flatnonzero(is_long)[length[is_long] > MANY_TIMES * others]
    if len(at) == 0:
        return work.end_ns, NOTHING
    end = work.end_ns.copy()
    step_end = np.sort(steps["end_ns"].to_numpy()) if steps.height else np.array([over_ns])
    until = np.append(step_end, over_ns)[np.searchsorted(step_end, work.start_ns[at], side="right")]
    end[at] = np.clip(until, work.start_ns[at], work.end_ns[at])
    return end, Found(len(at), int(length[at].max()))


def _typical_other(length: IntArray, name: IntArray, at: int) -> float:
    """Return the median length of the other work of a name, or of all other work; infinite if there is none."""
    others = length[(name == name[at]) & (np.arange(len(name)) != at)]
    others = others if len(others) else np.delete(length, at)
    return float(np.median(others)) if len(others) else np.inf
