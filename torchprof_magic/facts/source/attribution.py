"""Host time, device work, waiting and memory of the parts of a program: of its lines, or of its modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.device.graph_work import origin_links, replays_at
from torchprof_magic.facts.host.blocking import BlockingCalls, calls_that_block
from torchprof_magic.facts.host.host_states import Timeline, cause_and_changes, pieces_of, timelines_of
from torchprof_magic.facts.ops.flops import flops_in
from torchprof_magic.facts.shared import device_rows, once_for_the_whole
from torchprof_magic.facts.source.forward_of import forward_of_events
from torchprof_magic.facts.source.fx_nodes import backward_parts
from torchprof_magic.facts.source.own_lines import forward_by_lines
from torchprof_magic.facts.step_graph.on_path import OnPath, on_path, on_path_in
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.model.distinct import numbers_in
from torchprof_magic.model.intervals import NO_PARENT, IntArray, inside_earlier, latest_at, nest, own_time
from torchprof_magic.model.rows import are_known, filled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.intervals import BoolArray
    from torchprof_magic.model.trace import Trace


class Runs(NamedTuple):
    """Single runs of parts of the program, in nesting order; ``site`` numbers the parts from 0 to ``sites - 1``.

    ``of_event`` is the part of each event in compiled code, of which no run tells it, and -1 for others. ``goes_on``
    marks runs of parts that have run before in the same run of compiled code: they are no further calls.
    """

    site: IntArray
    lane: IntArray
    start_ns: IntArray
    dur_ns: IntArray
    sites: int
    is_of_lines: bool = False
    of_event: IntArray | None = None
    goes_on: BoolArray | None = None


class Shares(NamedTuple):
    """What belongs to each part, without what belongs to parts inside it; only ``total_ns`` has that too.

    Backward values are of nodes of autograd, charged to the part in which their forward op ran. ``outside_device_ns``
    is device work that belongs to no part. ``on_path_ns`` is what of all this was on the critical path of a step.
    """

    runs: IntArray
    self_ns: IntArray
    total_ns: IntArray
    wait_ns: IntArray
    device_ns: IntArray
    backward_ns: IntArray
    backward_device_ns: IntArray
    bytes: IntArray
    flops: IntArray
    backward_flops: IntArray
    outside_device_ns: int
    on_path_ns: IntArray


class Finder:
    """Finds the innermost run of each moment on a thread."""

    def __init__(self, runs: Runs) -> None:
        self._lines: dict[int, Timeline] = timelines_of(runs.site, runs.lane, runs.start_ns, runs.dur_ns)

    def sites_at(self, lane: IntArray, time_ns: IntArray) -> IntArray:
        """Return the site of the innermost run at each moment, or -1."""
        found = np.full(len(lane), NO_PARENT, np.int64)
        for number in numbers_in(lane):
            if (line := self._lines.get(number)) is not None:
                here = np.flatnonzero(lane == number)
                found[here] = np.append(line.cause, NO_PARENT)[latest_at(line.start_ns, time_ns[here])]
        return found

    def cut(
        self, lane: IntArray, start_ns: IntArray, end_ns: IntArray
    ) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Cut intervals where the innermost run changes; yield sites, or -1, with starts and ends, in no order."""
        for number in numbers_in(lane):
            if (line := self._lines.get(number)) is not None:
                here = np.flatnonzero(lane == number)
                start, end = start_ns[here], end_ns[here]
                cause, changes = cause_and_changes(line, start, end)
                pieces = pieces_of(line, start[changes], end[changes])
                yield np.where(changes, NO_PARENT, cause), start, end  # most lie between two changes
                yield pieces.cause, pieces.start_ns, pieces.end_ns


def sites_of_events(trace: Trace, runs: Runs) -> IntArray:
    """Return the part in which each event ran: the innermost one at its start, or that of its forward op or launch.

    Where a checkpoint computes again in backward, lines are those of the first time; modules ran again.
    """
    events = trace.events
    lane, start = (events[name].to_numpy().astype(np.int64) for name in ("lane", "start_ns"))
    sites = Finder(runs).sites_at(lane, start)
    calls, work = origin_links(trace)
    sites[device_rows(trace)] = NO_PARENT
    sites[work] = sites[calls]
    forward = forward_by_lines(trace) if runs.is_of_lines else forward_of_events(trace)
    known = np.flatnonzero(forward >= 0)
    of_forward = sites[forward[known]]
    sites[known] = np.where(of_forward >= 0, of_forward, sites[known])
    return sites if runs.of_event is None else _with_compiled(sites, runs.of_event, forward)


def _with_compiled(sites: IntArray, of_event: IntArray, forward: IntArray) -> IntArray:
    """Return the parts of events with those in compiled code, and of what autograd runs for these."""
    of_forward = np.append(of_event, NO_PARENT)[forward]
    sites = np.where(of_forward >= 0, of_forward, sites)
    return np.where(of_event >= 0, of_event, sites)


def shares_of(trace: Trace, runs: Runs, part: TimeRange = WHOLE) -> Shares:
    """Return what belongs to each part of the program, and lies in a range of time.

    The FLOPs of an op count where it begins.
    """
    count = runs.sites
    sites, forward = sites_of_events(trace, runs), forward_of_events(trace)
    parent, _, overlaps = nest(runs.lane, runs.start_ns, runs.dur_ns)
    run_start, run_ns = part.cut(runs.start_ns, runs.dur_ns)
    run_ns = run_ns * ~np.isin(runs.lane, trace.meta.captured_lanes)
    dur = _dur_in(trace, part)
    work = device_rows(trace)
    is_backward = forward[work] >= 0
    calls = calls_that_block(trace)
    calls = BlockingCalls(*(column[~calls.meet("profiler")] for column in calls))
    _, wait_ns = part.cut(calls.start_ns, calls.end_ns - calls.start_ns)
    nodes = backward_parts(trace)
    flops = flops_in(trace, part)
    counted = np.flatnonzero(are_known(flops))
    of_counted, is_of_backward = filled(flops, 0)[counted], forward[counted] >= 0
    return Shares(
        runs=_runs(trace, runs, part),
        self_ns=sum_by(runs.site, own_time(parent, run_start, run_ns, overlaps), count),
        total_ns=sum_by(runs.site, run_ns * ~is_repeated(runs), count),
        wait_ns=sum_by(sites[calls.row], wait_ns, count),
        device_ns=sum_by(sites[work], dur[work] * ~is_backward, count),
        backward_ns=sum_by(sites[nodes.row], nodes.own_ns(dur), count),
        backward_device_ns=sum_by(sites[work], dur[work] * is_backward, count),
        bytes=_bytes(trace, runs, part),
        flops=sum_by(sites[counted], of_counted * ~is_of_backward, count),
        backward_flops=sum_by(sites[counted], of_counted * is_of_backward, count),
        outside_device_ns=int(dur[work][sites[work] < 0].sum()),
        on_path_ns=_on_path_ns(trace, runs, sites, part),
    )


@once_for_the_whole
def _dur_in(trace: Trace, part: TimeRange) -> IntArray:
    """Return how long each event was in a range of time."""
    return part.cut(*(trace.events[name].to_numpy() for name in ("start_ns", "dur_ns")))[1]


def _on_path_ns(trace: Trace, runs: Runs, sites: IntArray, part: TimeRange) -> IntArray:
    """Return how long each part was on the critical path of a step: what it ran, launched, or caused in backward."""
    path = on_path_in(trace, part)
    is_work = np.zeros(trace.events.height + 1, np.bool_)
    is_work[device_rows(trace)] = True
    by_event = is_work[path.row] | (np.append(forward_of_events(trace), NO_PARENT)[path.row] >= 0)
    of_events = sum_by(np.append(sites, NO_PARENT)[path.row[by_event]], path.dur_ns[by_event], runs.sites)
    found = on_path(trace)  # times of a part stand still in what is left out of it
    rest = OnPath(*(column[~by_event] for column in found))
    for at, start_ns, end_ns in Finder(runs).cut(rest.lane, rest.start_ns, rest.start_ns + rest.dur_ns):
        of_events += sum_by(at, part.cut(start_ns, end_ns - start_ns)[1], runs.sites)
    return of_events


def _runs(trace: Trace, runs: Runs, part: TimeRange) -> IntArray:
    """Return how often each part ran, or was replayed in a graph.

    Runs that follow one another directly are one, as of a line that steps.
    """
    times = times_run(trace, runs, part)
    chosen = np.flatnonzero(times)
    order = chosen[np.argsort(runs.lane[chosen], kind="stable")]
    site, lane = runs.site[order], runs.lane[order]
    goes_on = np.zeros(len(site), np.bool_)
    goes_on[1:] = (site[1:] == site[:-1]) & (lane[1:] == lane[:-1])
    return sum_by(site, np.where(goes_on, 0, times[order]), runs.sites)


def times_run(trace: Trace, runs: Runs, part: TimeRange) -> IntArray:
    """Return for each run how often it was in a part of the time: 1 if any of it was, and once more per replay."""
    ran = part.touches(runs.start_ns, runs.dur_ns) & ~np.isin(runs.lane, trace.meta.captured_lanes)
    times = ran.astype(np.int64) + replays_at(trace, part, runs.lane, runs.start_ns)
    return times if runs.goes_on is None else np.where(runs.goes_on, 0, times)


def is_repeated(runs: Runs) -> np.ndarray:
    """Return which runs lie inside another run of the same part."""
    keys = runs.lane * max(runs.sites, 1) + runs.site
    order = np.argsort(keys, kind="stable")
    inside = np.zeros(len(keys), np.bool_)
    inside[order] = inside_earlier(keys[order], runs.start_ns[order], runs.dur_ns[order])
    return inside


def _bytes(trace: Trace, runs: Runs, part: TimeRange) -> IntArray:
    """Return the bytes that were allocated minus those that were freed in each part."""
    memory = trace.memory.filter(pl.Series(part.holds(trace.memory["time_ns"].to_numpy())))
    event = memory["event"].to_numpy()
    lanes = np.append(trace.events["lane"].to_numpy(), NO_PARENT)[event].astype(np.int64)
    main = int(runs.lane[0]) if len(runs.lane) else NO_PARENT
    lanes = np.where(event >= 0, lanes, main)
    sites = Finder(runs).sites_at(lanes, memory["time_ns"].to_numpy())
    return sum_by(sites, memory["delta_bytes"].to_numpy(), runs.sites)


def watched_runs(trace: Trace, kind: str) -> Runs:
    """Return the watched runs of lines or modules; ``site`` is a row of ``trace.sites``."""
    is_kind = (trace.sites["kind"] == kind).to_numpy()
    site, lane, start, dur = (
        trace.scopes[name].to_numpy().astype(np.int64) for name in ("site", "lane", "start_ns", "dur_ns")
    )
    chosen = np.flatnonzero(is_kind[site])
    is_of_lines = kind == "line"
    return Runs(site[chosen], lane[chosen], start[chosen], dur[chosen], trace.sites.height, is_of_lines)
