"""Which modules run over time, those that a model divides into."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.model.intervals import NO_PARENT, IntArray, nest
from torchprof_magic.model.shapes import ModuleSpan
from torchprof_magic.tables.source.modules import module_runs

if TYPE_CHECKING:
    from torchprof_magic.facts.source.attribution import Runs
    from torchprof_magic.model.trace import Trace


def module_strip(trace: Trace, most: int) -> tuple[ModuleSpan, ...]:
    """Return the forward calls of the parts of the model in order of time, the longest ones if there are too many.

    The parts are the outermost modules; one that takes more than half of their time is divided into those inside it.
    """
    sites, runs = module_runs(trace)
    if len(runs.site) == 0:
        return ()
    rows = _parts(runs)
    if len(rows) > most:
        rows = rows[np.argsort(-runs.dur_ns[rows], kind="stable")[:most]]
    rows = rows[np.argsort(runs.start_ns[rows], kind="stable")]
    start_ns = runs.start_ns[rows]
    ends = (start_ns + runs.dur_ns[rows]).tolist()
    named = sites[runs.site[rows].tolist()].select(pl.col("name", "class_name").cast(pl.String))
    names = _without_common_parent([name or kind or "" for name, kind in named.iter_rows()])
    return tuple(
        ModuleSpan(start_ns=start, end_ns=end, name=name)
        for start, end, name in zip(start_ns.tolist(), ends, names, strict=True)
    )


def _without_common_parent(names: list[str]) -> list[str]:
    """Return paths from the innermost module that all of them are in."""
    parents = [name.split(".")[:-1] for name in set(names)]
    common = len(list(takewhile(lambda parts: len(set(parts)) == 1, zip(*parents, strict=False))))
    return [".".join(name.split(".")[common:]) for name in names]


def _parts(runs: Runs) -> IntArray:
    """Return the runs of the modules that a model is divided into."""
    parent, _, _ = nest(runs.lane, runs.start_ns, runs.dur_ns)
    rows = np.flatnonzero(parent == NO_PARENT)
    while True:
        site = runs.site[rows]
        time = np.bincount(site, weights=runs.dur_ns[rows])
        largest = int(time.argmax())
        inside = np.flatnonzero(np.isin(parent, rows[site == largest]))
        if 2 * time[largest] <= time.sum() or len(inside) == 0:
            return rows
        rows = np.append(rows[site != largest], inside)
