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
from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.model.fx_marks import MARK
from torchprof_magic.model.intervals import NO_PARENT, IntArray, nearest_marked, nesting_order
from torchprof_magic.model.meta import MAX_TEXT, shortened
from torchprof_magic.model.rows import row_keys, values_at
from torchprof_magic.model.trace import MAX_NAME_CHARS, SITES_SCHEMA

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.intervals import BoolArray
    from torchprof_magic.model.trace import Trace


class FxModules(NamedTuple):
    """The modules that are known without compiled code, and behind them those in it.

    ``of_event`` is the innermost module of each event in compiled code, or -1. ``chains`` are the modules in it around
    each site and itself, from the outermost; -1 behind the last. ``fused`` has a row for each module, and each kernel
    that computes some of it and stands at another one: ``site``, and ``node`` of the kernel, a row of ``fx_nodes``.
    """

    sites: pl.DataFrame
    of_event: IntArray
    chains: IntArray
    fused: pl.DataFrame


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
    fused = _fused(trace, once, around, numbered)
    of_event = np.full(trace.events.height + 1, NO_PARENT, np.int64)
    of_event[units] = keys.join(once, on=keys.columns, how="left", maintain_order="left")["site"].to_numpy()
    parent, depth = trace.events["parent"].to_numpy(), trace.events["depth"].to_numpy()
    of_event[:-1] = np.where(marks.node >= 0, of_event[nearest_marked(parent, depth, marks.is_unit)[:-1]], NO_PARENT)
    calls, work = origin_links(trace)
    of_event[work] = of_event[calls]
    return FxModules(numbered.sites(), of_event[:-1], numbered.chains(), fused)


def _fused(trace: Trace, units: pl.DataFrame, around: list[list[tuple[str, str]]], numbered: _Numbered) -> pl.DataFrame:
    """Return the column ``fused`` for ``units``, with the watched module, the node, and the module of each."""
    nodes = trace.fx_nodes.with_row_index("inner").filter(pl.col("call") >= 0)
    inner = nodes.select(pl.col("inner").cast(pl.Int64), pl.col("call").cast(pl.Int64).alias("node"))
    rows: dict[tuple[int, int], None] = {}
    for watched, node, site, each in units.join(inner, on="node").select("watched", "node", "site", "inner").rows():
        here = {site, *numbered.chain_of(site)}
        module = numbered.module_of(watched, around[each])
        rows |= {(other, node): None for other in numbered.chain_of(module) if other not in here}
    return pl.DataFrame(list(rows), schema={"site": pl.Int64, "node": pl.Int64}, orient="row")


def has_fused_modules(trace: Trace) -> bool:
    """Return whether some modules are computed in kernels of others alone."""
    found = runs_of_modules(trace)
    if found is None:
        return False
    return fused_modules(trace, WHOLE, np.bincount(found[1].site, minlength=found[1].sites) > 0) is not None


class FusedModules(NamedTuple):
    """For each module how often kernels of other modules computed it, and which; null for those that ran by themselves.

    A kernel is called by what it fuses, with the module that it stands at.
    """

    calls: IntArray
    kernels: pl.Series


def fused_modules(trace: Trace, part: TimeRange, has_run: BoolArray) -> FusedModules | None:
    """Return which modules are computed in kernels of others alone; None if there are none in a part of the time.

    ``has_run`` says which modules ran by themselves.
    """
    found = fx_modules(trace)
    if found is None or found.fused.height == 0:
        return None
    start, dur = (trace.events[name].to_numpy() for name in ("start_ns", "dur_ns"))
    marks = fx_marks(trace)
    units = np.flatnonzero(marks.is_unit & ~is_in_backward(trace) & part.touches(start, dur))
    sums = np.bincount(marks.node[units], minlength=trace.fx_nodes.height)
    alone = found.fused.filter(~pl.Series(has_run[found.fused["site"].to_numpy()]))
    alone = alone.with_columns(pl.Series("calls", sums[alone["node"].to_numpy()])).filter(pl.col("calls") > 0)
    place = np.full(trace.fx_nodes.height, NO_PARENT, np.int64)
    place[marks.node[units]] = found.of_event[units]
    node = alone["node"].to_numpy()
    at = values_at(found.sites["name"].cast(pl.String), place[node]).fill_null("").replace("", "the model")
    words = trace.fx_nodes["name"].gather(node).cast(pl.String)
    alone = alone.with_columns(pl.select(pl.format("{} at {}", words, at)).to_series().alias("kernel"))
    sites = alone.group_by("site", maintain_order=True).agg(
        pl.col("calls").max(), pl.col("kernel").unique(maintain_order=True)
    )
    calls = np.zeros(found.sites.height, np.int64)
    kernels: list[str | None] = [None] * found.sites.height
    for site, count, names in sites.rows():
        calls[site], kernels[site] = count, shortened(", ".join(names), MAX_TEXT)
    return FusedModules(calls, pl.Series(kernels, dtype=pl.String)) if sites.height else None


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

    def chain_of(self, site: int) -> tuple[int, ...]:
        """Return the modules in compiled code around one and itself; those that were known have none."""
        return self._chains[site - self._known.height] if site >= self._known.height else ()

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
