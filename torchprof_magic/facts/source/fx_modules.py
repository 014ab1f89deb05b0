"""The modules in compiled code, of which no forward is seen: each runs from the first to the last of its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.device.graph_work import origin_links
from torchprof_magic.facts.shared import is_named, once_per_trace
from torchprof_magic.facts.source.attribution import Runs, watched_runs
from torchprof_magic.facts.source.forward_of import first_forward_of_events
from torchprof_magic.facts.source.fx_nodes import fx_marks, is_in_backward, modules_around
from torchprof_magic.facts.source.script_modules import watched_module_at
from torchprof_magic.facts.source.script_runs import runs_of_level, script_runs
from torchprof_magic.model.fx_marks import MARK
from torchprof_magic.model.intervals import NO_PARENT, IntArray, nearest_marked, nesting_order
from torchprof_magic.model.meta import shortened
from torchprof_magic.model.rows import row_keys
from torchprof_magic.model.trace import MAX_NAME_CHARS, SITES_SCHEMA

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray
    from torchprof_magic.model.trace import Trace


class FxModules(NamedTuple):
    """The modules that are known without compiled code, and behind them those in it.

    ``of_event`` is the innermost module of each event in compiled code, or -1. ``chains`` are the modules in it around
    each site and itself, from the outermost; -1 behind the last.
    """

    sites: pl.DataFrame
    of_event: IntArray
    chains: IntArray


@once_per_trace
def fx_modules(trace: Trace) -> FxModules | None:
    """Return the modules in compiled code, below the watched module that was compiled; None if no node is known."""
    marks = fx_marks(trace)
    units = np.flatnonzero(marks.is_unit)
    if len(units) == 0:
        return None
    before = (script_runs(trace) or (trace.sites, None))[0]
    # What is compiled for backward belongs below the module whose forward was compiled with it.
    forward = first_forward_of_events(trace)[units]
    watched = watched_module_at(trace, np.where(forward >= 0, forward, units))
    keys = pl.DataFrame({"watched": watched, "node": marks.node[units]})
    once = keys.unique(maintain_order=True)
    around, numbered = modules_around(trace), _Numbered(before)
    found = [numbered.module_of(watched, around[node]) for watched, node in once.rows()]
    once = once.with_columns(pl.Series("site", found, dtype=pl.Int64))
    of_event = np.full(trace.events.height + 1, NO_PARENT, np.int64)
    of_event[units] = keys.join(once, on=keys.columns, how="left", maintain_order="left")["site"].to_numpy()
    parent, depth = trace.events["parent"].to_numpy(), trace.events["depth"].to_numpy()
    of_event[:-1] = np.where(marks.node >= 0, of_event[nearest_marked(parent, depth, marks.is_unit)[:-1]], NO_PARENT)
    calls, work = origin_links(trace)
    of_event[work] = of_event[calls]
    return FxModules(numbered.sites(), of_event[:-1], numbered.chains())


@once_per_trace
def runs_of_modules(trace: Trace) -> tuple[pl.DataFrame, Runs] | None:
    """Return the modules and their runs where some are known by ops alone; None if all were watched.

    These are modules of TorchScript, which torch names at ops, and modules in compiled code. A run lasts from the first
    to the last of the ops that follow one another in a module.
    """
    of_script, found = script_runs(trace), fx_modules(trace)
    if found is None:
        return of_script
    before = of_script[1] if of_script is not None else watched_runs(trace, "module")
    units = np.flatnonzero(fx_marks(trace).is_unit & ~is_in_backward(trace) & (found.of_event >= 0))
    entered = found.chains[found.of_event[units]]
    nothing = np.full(len(before.site), NO_PARENT)
    parts: list[tuple[IntArray, ...]] = [(before.site, before.lane, before.start_ns, before.dur_ns, nothing)]
    parts += [runs_of_level(trace, units, entered[:, level]) for level in range(entered.shape[1])]
    site, lane, start, dur, first = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = nesting_order(lane, start, dur)
    site, lane, start, dur, first = (each[order] for each in (site, lane, start, dur, first))
    goes_on = _goes_on(trace, site, first)
    return found.sites, Runs(site, lane, start, dur, found.sites.height, of_event=found.of_event, goes_on=goes_on)


def _goes_on(trace: Trace, site: IntArray, first: IntArray) -> BoolArray:
    """Return which runs in compiled code, known by their first op, are of a module that ran before in the same call."""
    parent, depth = trace.events["parent"].to_numpy(), trace.events["depth"].to_numpy()
    is_range = is_named(trace, MARK) & ~fx_marks(trace).is_unit
    around = nearest_marked(parent, depth, is_range)[first].astype(np.int64)
    inside = np.flatnonzero(first >= 0)
    _, first_of = np.unique(row_keys(site[inside], around[inside] + 1), return_index=True)
    found = first >= 0
    found[inside[first_of]] = False
    return found


class _Numbered:
    """Numbers modules by the watched one around them and their path, behind those that are known."""

    def __init__(self, known: pl.DataFrame) -> None:
        self._known = known
        self._names = known["name"].cast(pl.String).to_list()
        self._site_of: dict[tuple[int, str], int] = {}
        self._rows: list[tuple[int, str, str]] = []  # parent, path, class
        self._chains: list[tuple[int, ...]] = []

    def module_of(self, watched: int, around: list[tuple[str, str]]) -> int:
        """Return the innermost of some modules, which stand in a watched module or in -1."""
        site: int = watched
        chain: tuple[int, ...] = ()
        for path, kind in around:
            if path:
                site, chain = self._number(watched, site, path, kind, chain)
        return site

    def _number(
        self, watched: int, parent: int, path: str, kind: str, above: tuple[int, ...]
    ) -> tuple[int, tuple[int, ...]]:
        first = self._known.height
        site = self._site_of.setdefault((watched, path), first + len(self._rows))
        if site == first + len(self._rows):
            name = self._names[watched] if watched >= 0 else ""
            self._rows.append((parent, f"{name}.{path}" if name else path, kind))
            self._chains.append((*above, site))
        return site, self._chains[site - first]

    def sites(self) -> pl.DataFrame:
        """Return those that were known, and behind them the numbered ones."""
        added = [
            {
                "kind": "module",
                "parent": parent,
                "name": shortened(name, MAX_NAME_CHARS),
                "class_name": shortened(kind, MAX_NAME_CHARS),
            }
            for parent, name, kind in self._rows
        ]
        return pl.concat([self._known, pl.DataFrame(added, schema=SITES_SCHEMA)])

    def chains(self) -> IntArray:
        """Return the chain of each site, padded with -1; those that were known have none."""
        most = max(map(len, self._chains), default=0)
        found = np.full((self._known.height + len(self._rows), most), NO_PARENT, np.int64)
        for row, chain in enumerate(self._chains, self._known.height):
            found[row, : len(chain)] = chain
        return found
