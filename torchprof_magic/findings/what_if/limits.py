"""What decides how long a step takes, in groups of its critical path."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import has_counted_steps
from torchprof_magic.facts.host.phases import PHASES, phase_of_events
from torchprof_magic.facts.shared import in_category, is_named, name_numbers, once_per_trace
from torchprof_magic.facts.source.fused_titles import shown_title
from torchprof_magic.facts.step_graph.asleep import wait_of_pieces
from torchprof_magic.facts.step_graph.graph import step_graph
from torchprof_magic.model.intervals import NO_PARENT
from torchprof_magic.model.rows import values_at
from torchprof_magic.model.trace import DEVICE_CATEGORIES, STEP_PATTERN
from torchprof_magic.model.units import format_ratio
from torchprof_magic.model.vendors import COLLECTIVE_KERNEL, HOST_COLLECTIVE

if TYPE_CHECKING:
    from torchprof_magic.facts.step_graph.path import CriticalPath
    from torchprof_magic.findings.what_if.changes import Changed
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# The groups of a path, and how each is called. What is in no event counts as Python.
GROUPS = {
    "communication": "communication",
    "device": "work of the device",
    "data": "loading data",
    "ops": "ops on the host",
    "calls": "calls of the driver",
    "python": "Python",
    "asleep": "waits of the host",
    "waiting": "the time until work begins or its end is known",
}
COMMUNICATION, DEVICE, DATA, OPS, CALLS, PYTHON, ASLEEP, WAITING = range(len(GROUPS))
MOST_NAME = 60


class Limit(NamedTuple):
    """The group that takes most of a path, its share, and the name that takes most of the group."""

    group: int
    ratio: float
    name: str


@once_per_trace
def group_of_pieces(trace: Trace) -> IntArray:
    """Return the group of each piece of the graph, a number of ``GROUPS``."""
    row = step_graph(trace).pieces.row

    def of(which: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.append(which, False)[row]
        return found

    found = np.where(wait_of_pieces(trace) >= 0, ASLEEP, PYTHON)
    found[of(in_category(trace, "cpu_op"))] = OPS
    found[of(in_category(trace, "runtime"))] = CALLS
    found[np.append(phase_of_events(trace), -1)[row] == PHASES.index("data")] = DATA
    found[of(in_category(trace, *DEVICE_CATEGORIES))] = DEVICE
    found[of(is_named(trace, COLLECTIVE_KERNEL, "kernel") | is_named(trace, HOST_COLLECTIVE))] = COMMUNICATION
    return found


def groups_of(trace: Trace, path: CriticalPath) -> IntArray:
    """Return the group of each part of a path; the time that edges take is waiting."""
    return np.where(path.piece >= 0, np.append(group_of_pieces(trace), WAITING)[path.piece], WAITING)


def limit_of(trace: Trace, path: CriticalPath) -> Limit | None:
    """Return what takes most of a path, None if it takes no time."""
    whole = int(path.dur_ns.sum())
    if whole <= 0:
        return None
    groups = groups_of(trace, path)
    sums = np.bincount(groups, path.dur_ns, minlength=len(GROUPS))
    group = int(sums.argmax())
    here = (groups == group) & (path.piece >= 0)
    name = _name_of_most(trace, path.piece[here], path.dur_ns[here])
    return Limit(group, float(sums[group]) / whole, name and shown_title(trace, name, is_kernel=False))


def _name_of_most(trace: Trace, piece: IntArray, ns: IntArray) -> str:
    """Return the name that takes most of some pieces, other than of steps; the first by alphabet of several."""
    is_step = np.append(is_named(trace, STEP_PATTERN), False)[step_graph(trace).pieces.row[piece]]
    is_else = ~is_step | (wait_of_pieces(trace)[piece] >= 0)
    piece, ns = _one_per_name(trace, piece[is_else], ns[is_else])
    parts = pl.DataFrame({"name": names_of_pieces(trace, piece), "ns": ns}).drop_nulls("name")
    sums = parts.group_by("name").agg(pl.col("ns").sum()).sort("ns", "name", descending=[True, False])
    return str(sums["name"][0]) if sums.height else ""


def _one_per_name(trace: Trace, piece: IntArray, ns: IntArray) -> tuple[IntArray, IntArray]:
    """Return one of the pieces of each name of an event with their sum, and those that wait as they are."""
    waits = wait_of_pieces(trace)[piece] >= 0
    name = np.append(name_numbers(trace), NO_PARENT)[step_graph(trace).pieces.row[piece]]
    named = np.flatnonzero(~waits & (name >= 0))
    example = np.full(int(name.max(initial=NO_PARENT)) + 1, NO_PARENT, np.int64)
    example[name[named]] = piece[named]
    sums, there = np.bincount(name[named], ns[named], len(example)).astype(np.int64), example >= 0
    return np.append(example[there], piece[waits]), np.append(sums[there], ns[waits])


def names_of_pieces(trace: Trace, piece: IntArray) -> pl.Series:
    """Return the name of the event that each piece is of, or of the call in which it waits; null for none or -1."""
    wait = np.append(wait_of_pieces(trace), NO_PARENT)[piece]
    row = np.where(wait >= 0, NO_PARENT, np.append(step_graph(trace).pieces.row, NO_PARENT)[piece])
    calls = values_at(trace.waits["call"], wait).cast(pl.String)
    return calls.fill_null(values_at(trace.events["name"], row).cast(pl.String))


def limit_words(trace: Trace, path: CriticalPath, now: Changed, step_ns: float) -> str:
    """Return a sentence that says what decides how long a step takes."""
    if now.floor_ns and step_ns <= now.floor_ns:
        return f"Then {now.floor} decide how long {'a step' if has_counted_steps(trace) else 'all of it'} takes."
    limit = limit_of(trace, path)
    if limit is None:
        return "Nothing is left of it."
    name = limit.name if len(limit.name) <= MOST_NAME else f"{limit.name[: MOST_NAME - 1]}…"
    most = f", most of it `{name}`" if name else ""
    return f"Then {format_ratio(limit.ratio)} of the critical path is {list(GROUPS.values())[limit.group]}{most}."
