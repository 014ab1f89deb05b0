"""Host time of the steps by line: what a line runs itself, its backward pass, and waiting."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.lanes_of_steps import lanes_of_steps
from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.facts.host.seen_waits import seen_waits
from torchprof_magic.facts.host.unseen_waits import asleep_ns, idle_of_steps, quiet_lines
from torchprof_magic.facts.shared import once_for_the_whole, once_per_trace
from torchprof_magic.facts.source.attribution import watched_runs
from torchprof_magic.facts.source.forward_of import first_forward_of_events
from torchprof_magic.facts.source.own_lines import forward_at
from torchprof_magic.facts.source.places import known_places
from torchprof_magic.facts.source.step_places import at_sites, placed_pieces
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.model.intervals import NO_PARENT, IntArray, innermost_at
from torchprof_magic.model.rows import row_numbers, rows_by_number, values_at

if TYPE_CHECKING:
    from torchprof_magic.facts.source.attribution import Runs
    from torchprof_magic.facts.source.places import Places
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import Trace

OWN, BACKWARD, WAITING = range(3)
_KINDS = ("own_cpu_ns", "backward_cpu_ns", "wait_ns")
_WAITING = [PHASES.index(name) for name in ("waiting", "idle")]
# The column of each phase in which a line itself runs.
OWN_PHASES = {name: f"own_{name}_ns" for name in PHASES if name not in ("backward", "waiting", "idle")}
# A line that runs ops is called Python only if Python takes so many times as long as they do.
MOSTLY_PYTHON = 4


@once_for_the_whole
def line_times(trace: Trace, part: TimeRange) -> pl.DataFrame:
    """Return the host time of each line in a part of the steps, or of the windows if there are none.

    The columns are ``file`` and ``line``, null for what belongs to no line; ``own_cpu_ns``, ``backward_cpu_ns`` and
    ``wait_ns``, which are parts of the time that add up to all of it; those of ``OWN_PHASES``, which add up to the own
    time; and ``phase``, that of most of the own time, null if there is none.
    """
    return times_at(trace, part, placed_pieces(trace).places)


def times_at(trace: Trace, part: TimeRange, places: Places) -> pl.DataFrame:
    """Return ``line_times`` of other places of the pieces, such as those of functions."""
    pieces = placed_pieces(trace).pieces
    ns = part.cut(pieces.start_ns, pieces.dur_ns)[1]
    files, lines = known_places(trace)
    place = np.where(places.file >= 0, places.file, len(files))
    shape = (len(files) + 1, len(_KINDS), len(PHASES))
    at = (place * len(_KINDS) + _kinds(trace)) * len(PHASES) + pieces.phase
    ns_of_places = sum_by(at, ns, prod(shape)).reshape(shape)
    split, by_phase = ns_of_places.sum(axis=2), ns_of_places[:, OWN]
    columns = [f"{name}_phase_ns" for name in PHASES]
    frame = pl.DataFrame(
        {
            "file": files.extend(pl.Series([None], dtype=pl.String)),
            "line": lines.extend(pl.Series([None], dtype=lines.dtype)),
            **dict(zip(_KINDS, split.T, strict=True)),
            **dict(zip(columns, by_phase.T, strict=True)),
        }
    )
    sums = frame.group_by("file", "line", maintain_order=True).sum()
    phase = _main_phases(sums.select(columns).to_numpy(), sums["backward_cpu_ns"].to_numpy())
    own = [pl.col(f"{name}_phase_ns").alias(column) for name, column in OWN_PHASES.items()]
    return sums.with_columns(own).drop(columns).with_columns(values_at(pl.Series("phase", list(PHASES)), phase))


@once_per_trace
def _kinds(trace: Trace) -> IntArray:
    """Return for each piece whether the line runs it, waits, or it is of the backward pass."""
    pieces, named, _, _ = placed_pieces(trace)
    row = np.append(host_nest(trace).row, NO_PARENT)[named]
    is_backward = np.append(first_forward_of_events(trace), NO_PARENT)[row] >= 0
    is_backward |= pieces.phase == PHASES.index("backward")
    kind = np.where(is_backward, BACKWARD, OWN)
    kind[np.isin(pieces.phase, _WAITING)] = WAITING
    kind[_unseen_waits(trace, kind)] = WAITING
    return kind


def _unseen_waits(trace: Trace, kind: IntArray) -> IntArray:
    """Return the pieces in which a line that waits in other steps looks like Python, but its thread slept.

    Those that are known to, and the longest ones of each step, as far as its thread used no CPU and no wait was seen.
    """
    seen, slept_ns = seen_waits(trace), asleep_ns(trace)
    pieces, _, places, _ = placed_pieces(trace)
    quiet = quiet_lines(trace).piece[slept_ns > 0]
    unseen_ns = idle_of_steps(trace) - sum_by(pieces.step[quiet], slept_ns[slept_ns > 0], trace.steps.height)
    files, lines = known_places(trace)
    waits = trace.waits.select("file", "line")[seen.row.tolist()].unique().with_columns(pl.col("file").cast(pl.String))
    known = pl.DataFrame({"file": files, "line": lines}).with_row_index("place")
    waiting = known.join(waits, on=["file", "line"], how="semi")["place"].to_numpy()
    is_own = (kind == OWN) & (pieces.phase == PHASES.index("python"))
    is_own[quiet] = False
    found = np.flatnonzero(is_own & np.isin(places.file, waiting))
    found = found[np.lexsort((-pieces.dur_ns[found], pieces.step[found]))]
    step, dur_ns = pieces.step[found], pieces.dur_ns[found]
    before_ns = np.cumsum(dur_ns) - dur_ns
    first = np.searchsorted(step, step)
    before_ns -= before_ns[first] if len(found) else 0
    # A piece that is half asleep counts as that.
    return np.concatenate((quiet, found[before_ns + dur_ns // 2 < unseen_ns[step]]))


def _main_phases(own_ns: IntArray, backward_ns: IntArray) -> IntArray:
    """Return the phase with the most own time of each line, Python if it takes far more; else backward, or -1."""
    python = PHASES.index("python")
    weighed = own_ns.astype(np.float64)
    weighed[:, python] /= MOSTLY_PYTHON
    found = weighed.argmax(axis=1)
    no_own = np.where(backward_ns > 0, PHASES.index("backward"), NO_PARENT)
    return np.where(own_ns.any(axis=1), found, no_own)


@once_per_trace
def moved_backward(trace: Trace) -> pl.DataFrame:
    """Return how much host time of the backward pass ran in one line and belongs to another: that of the forward op.

    The columns are ``file``, ``line``, ``forward_file``, ``forward_line`` and ``ns``, the most first.
    """
    pieces, _, places, ran = placed_pieces(trace)
    # Compiled code has the lines of the model, whichever line calls it.
    ran = at_sites(trace, np.where(_kinds(trace) == BACKWARD, pieces.site, NO_PARENT), ran)
    chosen = np.flatnonzero((ran.file >= 0) & ((ran.file != places.file) | (ran.line != places.line)))
    return _between(ran, places, chosen, pieces.dur_ns[chosen], "forward")


def _between(first: Places, second: Places, chosen: IntArray, ns: IntArray, kind: str) -> pl.DataFrame:
    """Return how many ns of some chosen pieces are of one line by the first places, and of another by the second."""
    numbers = row_numbers(first.file[chosen], first.line[chosen], second.file[chosen], second.line[chosen])
    count = int(numbers.max(initial=NO_PARENT)) + 1
    pieces = rows_by_number(numbers, chosen, count)
    known = pieces >= 0
    (file, line), (other_file, other_line) = (
        each._replace(file=each.file[pieces[known]], line=each.line[pieces[known]]).columns()
        for each in (first, second)
    )
    keys = {"file": file, "line": line, f"{kind}_file": other_file, f"{kind}_line": other_line}
    frame = pl.DataFrame({**keys, "ns": sum_by(numbers, ns, count)[known]})
    sums = frame.group_by(*keys).agg(pl.col("ns").sum())
    is_other = ~(pl.col("file").eq_missing(pl.col(f"{kind}_file")) & pl.col("line").eq_missing(pl.col(f"{kind}_line")))
    return sums.filter(is_other, pl.col("ns") > 0).sort("ns", *keys, descending=[True, *[False] * 4])


def called_lines(trace: Trace, part: TimeRange) -> pl.DataFrame:
    """Return how much host time of other watched lines, of functions that it called, each line in a part has.

    It contains their backward passes, wherever these run. Lines are those that no watched line called. The columns are
    ``file``, ``line``, ``called_file``, ``called_line`` and ``ns``, the most first.
    """
    pieces, _, places, _ = placed_pieces(trace)
    runs = _outermost(watched_runs(trace, "line"))
    around = innermost_at(runs.lane, runs.start_ns, runs.dur_ns, *_forward_moments(trace))
    caller = at_sites(
        trace, np.append(runs.site, NO_PARENT)[around], places._replace(file=np.full_like(around, NO_PARENT))
    )
    chosen = np.flatnonzero((caller.file >= 0) & (places.file >= 0) & (places.file != caller.file))
    ns = part.cut(pieces.start_ns[chosen], pieces.dur_ns[chosen])[1]
    return _between(caller, places, chosen, ns, "called")


def _forward_moments(trace: Trace) -> tuple[IntArray, IntArray]:
    """Return the lane and the time at which each piece ran, or in the backward pass its forward op."""
    pieces, named, _, _ = placed_pieces(trace)
    # Without steps, a piece is of no thread.
    lanes = lanes_of_steps(trace)
    lane = lanes[pieces.step] if len(lanes) else np.full(len(pieces.step), NO_PARENT)
    row = np.append(host_nest(trace).row, NO_PARENT)[named]
    forward = forward_at(trace, row, pieces.start_ns)
    has_forward = forward >= 0
    lane, start_ns = lane.copy(), pieces.start_ns.copy()
    lane[has_forward] = trace.events["lane"].to_numpy()[forward[has_forward]]
    start_ns[has_forward] = trace.events["start_ns"].to_numpy()[forward[has_forward]]
    return lane, start_ns


def _outermost(runs: Runs) -> Runs:
    """Return the runs that no other run of their lane holds."""
    end_ns = runs.start_ns + runs.dur_ns
    order = np.lexsort((-end_ns, runs.start_ns, runs.lane))
    is_outer = np.ones(len(order), np.bool_)
    for lane in np.unique(runs.lane).tolist():
        here = np.flatnonzero(runs.lane[order] == lane)
        ends = np.maximum.accumulate(end_ns[order][here])
        is_outer[here[1:]] = runs.start_ns[order][here[1:]] >= ends[:-1]
    chosen = order[is_outer]
    return runs._replace(**{name: getattr(runs, name)[chosen] for name in ("site", "lane", "start_ns", "dur_ns")})
