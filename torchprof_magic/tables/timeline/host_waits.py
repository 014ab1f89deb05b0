"""When the thread of the steps sleeps or waits, and for what, where no device is there to wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.facts.host.step_pieces import step_pieces
from torchprof_magic.facts.source.shown_files import files_as_shown
from torchprof_magic.tables.flame.call_tree import event_names

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

UNKNOWN = "waiting"


class HostWaits(NamedTuple):
    """Spans of time in order, in ns, each with what the thread is in: ``time.sleep · In [1]:11``."""

    start_ns: IntArray
    end_ns: IntArray
    name: pl.Series


def host_waits(trace: Trace) -> HostWaits:
    """Return the parts of the steps that are idle; equal neighbors are one. None where a device was recorded."""
    pieces = step_pieces(trace)
    row = np.flatnonzero(pieces.phase == PHASES.index("idle"))
    if trace.has_device or len(row) == 0:
        return HostWaits(np.zeros(0, np.int64), np.zeros(0, np.int64), pl.Series(dtype=pl.String))
    name = _names(trace, pieces.wait[row], pieces.cause[row])
    start, end = pieces.start_ns[row], pieces.end_ns[row]
    first = np.flatnonzero(_begins(pieces.step[row], start, end, name))
    last = np.append(first[1:], len(row)) - 1
    return HostWaits(start[first], end[last], name[first.tolist()])


def _begins(step: IntArray, start_ns: IntArray, end_ns: IntArray, name: pl.Series) -> BoolArray:
    """Return which parts do not go on with what the one before them is."""
    is_same = np.zeros(len(step), np.bool_)
    is_same[1:] = (step[1:] == step[:-1]) & (start_ns[1:] == end_ns[:-1])
    return ~is_same | (name != name.shift()).fill_null(value=True).to_numpy()


def _names(trace: Trace, wait: IntArray, cause: IntArray) -> pl.Series:
    """Return what was called, and in which line, as a live run saw it; else the call of Python that was recorded."""
    waits = trace.waits
    place = files_as_shown(trace, waits["file"].cast(pl.String)) + ":" + waits["line"].cast(pl.String)
    seen = waits.select(pl.concat_str(pl.col("call").cast(pl.String), place, separator=" · ", ignore_nulls=True))
    called = _at(event_names(trace, host_nest(trace).row).cast(pl.String), cause)
    found = _at(seen.to_series(), wait)
    return found.zip_with(found != "", called).replace("", UNKNOWN)


def _at(names: pl.Series, row: IntArray) -> pl.Series:
    """Return the names in some rows, empty where there is none."""
    all_names = pl.concat([names.fill_null(""), pl.Series([""])])
    return all_names.gather(np.where(row < 0, len(names), row))
