"""When the modules of TorchScript models ran, from the ops in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.source.attribution import Runs, watched_runs
from torchprof_magic.facts.source.script_modules import script_modules
from torchprof_magic.model.intervals import NO_PARENT, IntArray, nearest_marked, nesting_order

if TYPE_CHECKING:
    import polars as pl

    from torchprof_magic.facts.source.script_modules import ScriptModules
    from torchprof_magic.model.trace import Trace


def script_runs(trace: Trace) -> tuple[pl.DataFrame, Runs] | None:
    """Return the modules of TorchScript and their runs, with those that were watched; None if torch names none.

    A run lasts from the first to the last of the ops that follow one another in a module. So a module that runs twice
    with nothing between has one run.
    """
    found = script_modules(trace)
    if found is None:
        return None
    watched = watched_runs(trace, "module")
    row, entered = _entered(trace, found)
    parts = [(watched.site, watched.lane, watched.start_ns, watched.dur_ns)]
    parts += [runs_of_level(trace, row, entered[:, level])[:4] for level in range(entered.shape[1])]
    site, lane, start, dur = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = nesting_order(lane, start, dur)
    return found.sites, Runs(site[order], lane[order], start[order], dur[order], found.sites.height)


def _entered(trace: Trace, found: ScriptModules) -> tuple[IntArray, IntArray]:
    """Return the rows of ops, and the chain of modules that each is in and the op around it is not, else -1."""
    parent, depth = trace.events["parent"].to_numpy(), trace.events["depth"].to_numpy()
    above = nearest_marked(parent, depth, found.of_event >= 0)[parent]
    row = np.flatnonzero(found.of_event >= 0)
    chain = found.chains[found.of_event[row]]
    no_chain = np.full((1, chain.shape[1]), NO_PARENT, np.int64)
    around = np.append(found.chains, no_chain, axis=0)[np.append(found.of_event, NO_PARENT)[above[row]]]
    entered = np.where(chain == around, NO_PARENT, chain)
    is_new = (entered >= 0).any(axis=1)
    return row[is_new], entered[is_new]


class RunsOfLevel(NamedTuple):
    """Runs of modules at one depth, and the first op of each."""

    site: IntArray
    lane: IntArray
    start_ns: IntArray
    dur_ns: IntArray
    first: IntArray


def runs_of_level(trace: Trace, row: IntArray, site: IntArray) -> RunsOfLevel:
    """Return the runs of modules at one depth: from the first to the last of ops that follow one another in one."""
    lane, start, dur, parent = (
        trace.events[name].to_numpy()[row].astype(np.int64) for name in ("lane", "start_ns", "dur_ns", "parent")
    )
    is_first = np.ones(len(row), np.bool_)
    is_first[1:] = (site[1:] != site[:-1]) | (lane[1:] != lane[:-1]) | (parent[1:] != parent[:-1])
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(row)) - 1
    known = site[first] >= 0
    first, last = first[known], last[known]
    dur_ns = start[last] + dur[last] - start[first]
    return RunsOfLevel(site[first], lane[first], start[first], dur_ns, row[first])
