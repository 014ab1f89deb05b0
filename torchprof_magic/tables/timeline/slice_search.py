"""Slices by name, cause and duration: the matches of a search in a timeline, in order of time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.tables.timeline.slice_windows import gaps_of
from torchprof_magic.tables.timeline.slices import KINDS

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.tables.timeline.slice_windows import SliceWindows

# Steps, phases, busy times and queue lengths have no names of their own, counters are curves, and waits are searched by
# their gaps.
SEARCHED = tuple(kind for kind in KINDS if kind not in ("step", "phase", "idle", "busy", "queue", "counter", "path"))
_PATTERN = re.compile(r"/(.+)/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is searched: a text, or a regular expression between slashes, of slices of some durations.

    With ``is_wait`` only waits are. A gap of the device counts as one wait, as long as all that is in it.
    """

    layer: str
    text: str
    is_wait: bool = False
    least_ns: float = 0
    most_ns: float = float("inf")


def find_slices(windows: SliceWindows, search: Search) -> IntArray:
    """Return the matching rows of the complete frame, in order of time."""
    found = [_waits(windows, search)]
    if not search.is_wait:
        found.insert(0, _named(windows, search))
    rows = np.concatenate(found)
    return rows[np.argsort(windows.times.start_ns[rows], kind="stable")]


def _named(windows: SliceWindows, search: Search) -> IntArray:
    frame = windows.frame
    dur_ns = windows.times.dur_ns
    wanted = [pl.col(search.layer) >= 0, pl.col("kind").is_in(SEARCHED)]
    is_hit = frame.select(pl.all_horizontal(wanted)).to_series().to_numpy()
    is_hit = is_hit & (dur_ns >= search.least_ns) & (dur_ns <= search.most_ns)
    return np.flatnonzero(is_hit & _matches(frame["name"], search.text))


def _waits(windows: SliceWindows, search: Search) -> IntArray:
    """Return one wait of each gap that is as long as asked for: the longest whose cause, op or function matches."""
    single, found = windows.shared.single, [np.empty(0, np.int64)]
    for track in windows.tracks("waits", depth=0).tolist():
        first, last = gaps_of(single, track)
        whole_ns = single.ends(last - 1) - single.starts(first)
        gap = np.repeat(np.arange(len(first)), last - first)
        rows = single.row[first[0] : last[-1]].astype(np.int64)
        waits = windows.frame[rows]
        is_hit = _matches(waits["name"], search.text) | _matches(waits["note"], search.text)
        is_hit &= ((whole_ns >= search.least_ns) & (whole_ns <= search.most_ns))[gap]
        rows, gap = rows[is_hit], gap[is_hit]
        order = np.lexsort((-windows.times.dur_ns[rows], gap))
        found.append(rows[order][np.diff(gap[order], prepend=-1) > 0])
    return np.concatenate(found)


def _matches(texts: pl.Series, wanted: str) -> BoolArray:
    """Return which texts contain another one, without regard to case, or match a regular expression."""
    wanted = wanted.strip()
    if not wanted:
        return np.ones(len(texts), np.bool_)
    distinct = texts.unique().drop_nulls()
    known = distinct.filter(_is_match(distinct.cast(pl.String), wanted))
    return texts.is_in(known.implode()).fill_null(value=False).to_numpy()


def _is_match(words: pl.Series, wanted: str) -> pl.Series:
    pattern = _PATTERN.fullmatch(wanted)
    if pattern is None:
        return words.str.to_lowercase().str.contains(wanted.lower(), literal=True)
    try:
        # The engine of polars takes linear time for any expression.
        return words.str.contains(f"(?i){pattern[1]}")
    except pl.exceptions.ComputeError:
        # As in the page: an expression that is not finished matches nothing yet.
        return pl.Series([False]).new_from_index(0, len(words))
