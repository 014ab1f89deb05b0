"""Every moment of every step: the phase it belongs to, the event that says so, and the line that ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.device.window import windows_of
from torchprof_magic.facts.host.blocking import calls_that_block
from torchprof_magic.facts.host.closures import closures_of, in_closures
from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.host_states import (
    BLOCKED,
    COMMUNICATION,
    COMPILE,
    DATA,
    DISPATCH,
    NOTHING,
    ONCE,
    OTHER,
    PROFILER,
    RUNTIME_CALL,
    WEAK,
    Pieces,
    Timeline,
    cause_and_changes,
    does_more_than_python,
    line_timelines,
    pieces_of,
    strongest_of,
    thread_timelines,
)
from torchprof_magic.facts.host.host_waits import wait_timelines
from torchprof_magic.facts.host.lanes_of_steps import lanes_of_steps
from torchprof_magic.facts.host.phases import PHASES, phase_of_events, structural_phases
from torchprof_magic.facts.shared import in_category, is_named, once_per_trace
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray
from torchprof_magic.model.rows import keys_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchprof_magic.model.trace import Trace

# Python functions in which a thread sleeps. Nothing else in a trace tells sleep from work.
SLEEP_NAME = (
    r"^<built-in (method|function) (sleep|acquire|select|poll|recv|recv_into|read|readinto|wait|accept|_recv|get)\b"
)
_PHASE_OF_STATE = {
    PROFILER: "idle",
    ONCE: "initialisation",
    BLOCKED: "waiting",
    DATA: "data",
    COMPILE: "compile",
    COMMUNICATION: "communication",
    OTHER: "python",
    NOTHING: "python",
}
# A line that does nothing but sleep; one that awaits lets others run meanwhile.
_SLEEP_LINE = r"^\s*time\.sleep\([^()]*\)\s*(?:#.*)?$"
# A rest of a wait is shorter than this, and than this part of the wait.
_MOST_REST_NS = 50_000
_REST = 0.01


class StepPieces(NamedTuple):
    """The steps in pieces: ``step`` is a row of ``trace.steps``, ``phase`` an index into ``PHASES``.

    ``cause`` is an index into the host nest, or -1. ``site`` is the line that ran, a row of ``trace.sites``, or -1.
    ``wait`` is what the thread waited for, or the garbage that was collected: a row of ``trace.waits``, or -1.
    """

    step: IntArray
    start_ns: IntArray
    end_ns: IntArray
    phase: IntArray
    state: IntArray
    cause: IntArray
    site: IntArray
    wait: IntArray

    @property
    def dur_ns(self) -> IntArray:
        """The length of each piece."""
        return self.end_ns - self.start_ns


@once_per_trace
def step_pieces(trace: Trace) -> StepPieces:
    """Return the pieces of all steps; those of a step add up to it exactly.

    The thread that runs the step decides. Where it only waits for others, as the main thread does while autograd's
    threads run backward, the strongest state of all threads does.
    """
    start, end = trace.steps["start_ns"].to_numpy(), trace.steps["end_ns"].to_numpy()
    return _pieces_in(trace, start, end, lanes_of_steps(trace), fetched_ns(trace))


@once_per_trace
def recorded_pieces(trace: Trace) -> StepPieces:
    """Return the pieces of all steps; without steps those of the windows, by the strongest state of all threads.

    ``step`` is the number of the window then.
    """
    if trace.steps.height:
        return step_pieces(trace)
    start, end, _ = windows_of(trace)
    return _pieces_in(trace, start, end, np.full(len(start), NO_PARENT, np.int64), end)


def _pieces_in(trace: Trace, start: IntArray, end: IntArray, lane: IntArray, fetched: IntArray) -> StepPieces:
    """Return the pieces of some intervals, each of a thread, or of all for -1, and with the end of its fetch."""
    pieces = _whole_pieces(trace, start, end, lane)
    if pieces is None:
        return StepPieces(*(np.empty(0, np.int64) for _ in StepPieces._fields))
    pieces, of, site = _cut_by(line_timelines(trace), pieces, lane)
    pieces, site = _cut_at_fetches(fetched, pieces, site)
    pieces, of, wait = _cut_by(wait_timelines(trace), pieces, lane)
    site = site[of]
    order = np.lexsort((pieces.start_ns, pieces.of))
    pieces, site, wait = Pieces(*(column[order] for column in pieces)), site[order], wait[order]
    wait = _of_whole_sleeps(trace, pieces, site, _without_rests(pieces, wait))
    phase = _phases(trace, pieces, site, wait, fetched, lane)
    return StepPieces(pieces.of, pieces.start_ns, pieces.end_ns, phase, pieces.state, pieces.cause, site, wait)


def _whole_pieces(trace: Trace, start: IntArray, end: IntArray, lane: IntArray) -> Pieces | None:
    """Return the pieces in which the state is the same, by thread; None without intervals."""
    lines = thread_timelines(trace)
    anyone = strongest_of([line for line in lines.values() if does_more_than_python(line)])
    parts = []
    for number in np.unique(lane).tolist():
        chosen = np.flatnonzero(lane == number)
        own = pieces_of(lines.get(number, anyone), start[chosen], end[chosen])
        parts.append(_with_others(own._replace(of=chosen[own.of]), anyone))
    if len(parts) > 1:
        return _joined(parts)
    return parts[0] if parts else None


def _joined(parts: Sequence[Iterable[IntArray]]) -> Pieces:
    """Return some pieces one after the other, a column at a time, of which each is free before the next one."""
    return Pieces(*map(np.concatenate, zip(*parts, strict=True)))


def _without_rests(pieces: Pieces, wait: IntArray) -> IntArray:
    """Return the waits of all pieces, but for the rests of waits: -1 there.

    The clock of who looks for waits is not that of the profiler, so a wait can seem to go on a little after the op
    that follows it. What is beside an op and far shorter than the wait is Python.
    """
    at = np.flatnonzero((wait >= 0) & (pieces.state >= WEAK))
    if len(at) == 0:
        return wait
    goes_on = (np.diff(wait[at]) == 0) & (pieces.start_ns[at[1:]] == pieces.end_ns[at[:-1]])
    run = np.append(0, np.cumsum(~goes_on))
    run_ns = np.bincount(run, (pieces.end_ns - pieces.start_ns)[at])[run]
    longest_ns = np.zeros(int(wait.max()) + 1)
    np.maximum.at(longest_ns, wait[at], run_ns)
    wait = wait.copy()
    wait[at[run_ns < np.minimum(_REST * longest_ns[wait[at]], _MOST_REST_NS)]] = NO_PARENT
    return wait


def _of_whole_sleeps(trace: Trace, pieces: Pieces, site: IntArray, wait: IntArray) -> IntArray:
    """Return the waits of all pieces, with each sleep as long as the run of a line that does nothing but sleep.

    Who looks for waits sees the begin and the end of one late where the machine is busy; lines are known to the
    microsecond. That it saw most of the run asleep is taken for all of it. ``pieces`` are in the order of their steps
    and times.
    """
    at = np.flatnonzero(np.append(_only_sleeps(trace), False)[site] & (pieces.state >= WEAK))
    known = np.flatnonzero(is_wait(trace, wait[at]))
    if len(known) == 0:
        return wait
    is_next = (
        (pieces.start_ns[at[1:]] == pieces.end_ns[at[:-1]]) & (np.diff(site[at]) == 0) & (np.diff(pieces.of[at]) == 0)
    )
    run = np.append(0, np.cumsum(~is_next))
    dur_ns = (pieces.end_ns - pieces.start_ns)[at]
    of_run = np.full(int(run[-1]) + 1, NO_PARENT, np.int64)
    of_run[run[known]] = wait[at[known]]
    asleep_ns = sum_by(run[known], dur_ns[known], len(of_run))
    of_run[2 * asleep_ns < sum_by(run, dur_ns, len(of_run))] = NO_PARENT
    found = wait.copy()
    found[at] = np.where((wait[at] < 0) & (of_run[run] >= 0), of_run[run], wait[at])
    return found


@once_per_trace
def _only_sleeps(trace: Trace) -> BoolArray:
    """Return which sites are lines that do nothing but sleep for a time that is at hand."""
    text = trace.sites["name"].cast(pl.String).fill_null("")
    return ((trace.sites["kind"] == "line") & text.str.contains(_SLEEP_LINE)).fill_null(value=False).to_numpy()


def _with_others(own: Pieces, anyone: Timeline) -> Pieces:
    """Replace what a thread's own state does not explain by the strongest state of all threads."""
    weak = np.flatnonzero(own.state >= WEAK)
    strong = np.flatnonzero(own.state < WEAK)
    others = pieces_of(anyone, own.start_ns[weak], own.end_ns[weak])
    of = weak[others.of]
    # Where no thread says more, the step's own frame or annotation is named.
    is_stronger = others.state < own.state[of]
    others = Pieces(
        own.of[of],
        others.start_ns,
        others.end_ns,
        np.where(is_stronger, others.state, own.state[of]),
        np.where(is_stronger, others.cause, own.cause[of]),
    )
    return _joined([(column[strong] for column in own), others])


def _cut_by(lines: dict[int, Timeline], pieces: Pieces, lane_of_step: IntArray) -> tuple[Pieces, IntArray, IntArray]:
    """Cut the pieces where something of their thread changes, such as the line.

    Return the parts, the piece that each is of, and what the timeline has there.
    """
    cause = np.full(len(pieces.of), NO_PARENT, np.int64)
    whole, parts, parts_of, causes = np.ones(len(pieces.of), np.bool_), [], [], []
    lanes = np.unique(lane_of_step)
    lane = lane_of_step[pieces.of] if len(lanes) > 1 else None
    for number in lanes[np.isin(lanes, [*lines])].tolist():
        line = lines[number]
        chosen = np.arange(len(pieces.of)) if lane is None else np.flatnonzero(lane == number)
        # Most lie between two changes.
        cause[chosen], changes = cause_and_changes(line, pieces.start_ns[chosen], pieces.end_ns[chosen])
        several = chosen[changes]
        whole[several] = False
        cut = pieces_of(line, pieces.start_ns[several], pieces.end_ns[several])
        of = several[cut.of]
        parts.append(Pieces(pieces.of[of], cut.start_ns, cut.end_ns, pieces.state[of], pieces.cause[of]))
        parts_of.append(of)
        causes.append(cut.cause)
    if whole.all():
        return pieces, np.arange(len(whole)), cause
    joined = _joined([(column[whole] for column in pieces), *parts])
    return joined, np.concatenate((np.flatnonzero(whole), *parts_of)), np.concatenate((cause[whole], *causes))


@once_per_trace
def fetched_ns(trace: Trace) -> IntArray:
    """Return when each step had its item, after which its loop fetches nothing; its end where that is not known."""
    known = {
        (mark.cycle, mark.number): None if mark.fetch_ns is None else mark.lead_ns + mark.fetch_ns
        for mark in trace.meta.recorded_steps
    }
    ends = zip(keys_of(trace.steps), *(trace.steps[key] for key in ("start_ns", "end_ns")), strict=True)
    found = [end if (fetch := known.get(key)) is None else min(start + fetch, end) for key, start, end in ends]
    return np.array(found, np.int64)


def _cut_at_fetches(fetched: IntArray, pieces: Pieces, site: IntArray) -> tuple[Pieces, IntArray]:
    """Cut the pieces at the end of the fetch in each step: the body of a loop may stand on the line of its header."""
    at_ns = fetched[pieces.of]
    cut = np.flatnonzero((pieces.start_ns < at_ns) & (at_ns < pieces.end_ns))
    if len(cut) == 0:
        return pieces, site
    end_ns = pieces.end_ns.copy()
    end_ns[cut] = at_ns[cut]
    later = Pieces(*(column[cut] for column in pieces))._replace(start_ns=at_ns[cut])
    first = pieces._replace(end_ns=end_ns)
    return Pieces(*(np.concatenate(both) for both in zip(first, later, strict=True))), np.append(site, site[cut])


def _phases(
    trace: Trace, pieces: Pieces, site: IntArray, wait: IntArray, fetched: IntArray, lane: IntArray
) -> IntArray:
    nest = host_nest(trace)
    row = np.append(nest.row, NO_PARENT)[pieces.cause]
    of_event = np.append(phase_of_events(trace), np.int8(PHASES.index("python"))).astype(np.int64)
    phase = of_event[row]
    for state, name in _PHASE_OF_STATE.items():
        phase[pieces.state == state] = PHASES.index(name)
    known = np.append(structural_phases(trace), np.int8(NO_PARENT)).astype(np.int64)[row]
    is_known = (pieces.state == OTHER) & (known >= 0) & ~_is_closure(trace, pieces, row, lane)
    phase[is_known] = known[is_known]
    is_ops = (pieces.state == DISPATCH) | (pieces.state == RUNTIME_CALL)
    phase[is_ops & (phase == PHASES.index("python"))] = PHASES.index("forward")
    phase[(pieces.state == BLOCKED) & _is_set_up(trace)[row]] = PHASES.index("initialisation")
    phase[(pieces.state >= OTHER) & (is_wait(trace, wait) | _is_sleep(trace, pieces.cause))] = PHASES.index("idle")
    # Where the loop has told when it had its item, all before it is the fetch, also in functions that its header calls.
    is_fetch = _fetches(trace)[site] | _is_told(trace, len(fetched))[pieces.of]
    is_fetch &= pieces.start_ns < fetched[pieces.of]
    # An iterator that trains, as a generator may, does not load data.
    trains = np.isin(phase, [PHASES.index("backward"), PHASES.index("optimizer")])
    is_fetch &= ~np.isin(pieces.of, pieces.of[is_fetch & trains])
    phase[is_fetch & ~np.isin(pieces.state, [BLOCKED, ONCE, PROFILER])] = PHASES.index("data")
    return phase


def _is_closure(trace: Trace, pieces: Pieces, row: IntArray, lane: IntArray) -> BoolArray:
    """Return which pieces are Python in a closure of an optimizer, whose range or function began before it."""
    of_step = closures_of(trace).around(lane[pieces.of], pieces.start_ns, pieces.end_ns)
    return of_step & ~np.append(in_closures(trace), False)[row]


def _is_set_up(trace: Trace) -> BoolArray:
    """Return which events are blocking calls that load or make code for the device; with one more entry for -1."""
    calls = calls_that_block(trace)
    found = np.zeros(trace.events.height + 1, np.bool_)
    found[calls.row[calls.meet("init")]] = True
    return found


def is_wait(trace: Trace, wait: IntArray) -> BoolArray:
    """Return which rows of ``trace.waits`` are waits, and not collections of garbage; -1 is none."""
    return np.append((trace.waits["kind"] == "wait").to_numpy(), False)[wait]


def _is_sleep(trace: Trace, cause: IntArray) -> BoolArray:
    nest = host_nest(trace)
    is_sleep = is_named(trace, SLEEP_NAME)
    is_sleep &= in_category(trace, "python_function")
    return np.append(is_sleep[nest.row], False)[cause]


def _fetches(trace: Trace) -> BoolArray:
    """Return which sites are the header of the loop that steps, which fetches the next batch; one more entry for -1."""
    found = np.zeros(trace.sites.height + 1, np.bool_)
    stepping, cell = trace.meta.stepping, trace.meta.cell
    if _has_fetches(trace) and stepping is not None and cell is not None:
        file, line = trace.sites["file"].cast(pl.String), trace.sites["line"]
        found[:-1] = ((file == cell.filename) & (line == stepping.line)).fill_null(value=False).to_numpy()
    return found


def _is_told(trace: Trace, count: int) -> BoolArray:
    """Return of which steps the loop has told when it had its item; of none of the ``count`` windows without steps."""
    if not (_has_fetches(trace) and trace.steps.height):
        return np.zeros(count, np.bool_)
    marks = {(mark.cycle, mark.number) for mark in trace.meta.recorded_steps if mark.fetch_ns is not None}
    return np.array([key in marks for key in keys_of(trace.steps)], np.bool_)


def _has_fetches(trace: Trace) -> bool:
    """Return whether the steps are those of a ``for`` loop of the cell."""
    stepping = trace.meta.stepping
    if stepping is None or stepping.how != "loop" or stepping.line is None or trace.meta.cell is None:
        return False
    return stepping.code.startswith(("for ", "async for "))
