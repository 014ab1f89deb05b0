"""Divides the waits of a live run by the watched lines that they lie in, which begin and end to the microsecond."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray, covered_ns, innermost_at
from torchprof_magic.model.trace import FRAME_SCHEMAS

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# A part of a wait that is shorter is no wait of its own: so short ones are not seen either.
LEAST_PART_NS = 200_000
# Nor is one at a line that is not known to wait: by so much may the time be wrong at which a thread waited.
LEAST_UNKNOWN_NS = 1_000_000
_PLACE = ("call", "file", "line")


class Watched(NamedTuple):
    """When watched lines ran: rows of ``trace.sites``, and the lane, the start and the length of each time."""

    site: IntArray
    lane: IntArray
    start_ns: IntArray
    dur_ns: IntArray

    def at(self, lane: IntArray, time_ns: IntArray) -> IntArray:
        """Return the watched line that runs in a lane at each moment, or -1."""
        inside = innermost_at(self.lane, self.start_ns, self.dur_ns, lane, time_ns)
        return np.append(self.site, NO_PARENT)[inside]


class _Parts(NamedTuple):
    """Parts of waits: the wait, the start and the end of each, and the watched line that it lies in, or -1."""

    of: IntArray
    start_ns: IntArray
    end_ns: IntArray
    line: IntArray


def watched_lines(trace: Trace) -> Watched:
    """Return when each watched line of a recording ran."""
    is_line = (trace.sites["kind"] == "line").to_numpy()
    scopes = trace.scopes.filter(pl.Series(is_line[trace.scopes["site"].to_numpy()]))
    return Watched(*(scopes[name].to_numpy().astype(np.int64) for name in Watched._fields))


def divided_by_line(trace: Trace, watched: Watched, waits: pl.DataFrame) -> pl.DataFrame:
    """Return the waits, of which each lies in one watched line; ``waits`` are sorted by their starts.

    Two waits that follow each other between two looks at a thread look like one, at the place of the second. It is
    divided where the line changes. What lies in another line than its place is a wait at the place that is known to
    wait in that line, or else of that line alone; in a line that computes, whose time is of ops, it is none.
    """
    lane, start, dur = (waits[name].to_numpy().astype(np.int64) for name in ("lane", "start_ns", "dur_ns"))
    is_wait = (waits["kind"] == "wait").to_numpy()
    borders = np.unique(np.concatenate((watched.start_ns, watched.start_ns + watched.dur_ns)))
    first, last = np.searchsorted(borders, start, side="right"), np.searchsorted(borders, start + dur)
    is_divided = is_wait & (first < last)
    if not is_divided.any():
        return waits
    place, places = _places(waits)
    at_end = np.where(is_wait, watched.at(lane, start + dur - 1), NO_PARENT)
    home = _homes(trace, place, places, at_end)
    parts = _divided(borders, start, start + dur, np.flatnonzero(is_divided), (first, last))
    parts = parts._replace(line=watched.at(lane[parts.of], (parts.start_ns + parts.end_ns) // 2))
    stays = _stays(parts, home[place[parts.of]])
    whole = is_wait & ~is_divided
    known = _known(
        np.concatenate((at_end[whole], parts.line[stays])),
        np.concatenate((place[whole], place[parts.of[stays]])),
        np.concatenate((dur[whole], (parts.end_ns - parts.start_ns)[stays])),
    )
    target = np.array([known.get(line, NO_PARENT) for line in parts.line.tolist()], np.int64)
    target = np.where(stays, place[parts.of], target)
    parts, target = _without_ops(trace, lane[parts.of], parts, target)
    found = _named(trace, waits, places, parts, target)
    return _joined(pl.concat([waits.filter(~is_divided), found]).sort("start_ns", maintain_order=True))


def _places(waits: pl.DataFrame) -> tuple[IntArray, pl.DataFrame]:
    """Return the number of the place of each wait, and all places."""
    texts = waits.select(pl.col("call", "file").cast(pl.String), "line")
    places = texts.unique(maintain_order=True).with_row_index("place")
    numbers = texts.join(places, on=_PLACE, how="left", nulls_equal=True, maintain_order="left")["place"]
    return numbers.to_numpy().astype(np.int64), places.drop("place")


def _homes(trace: Trace, place: IntArray, places: pl.DataFrame, at_end: IntArray) -> IntArray:
    """Return the watched line that each place is in: its own, or else where most of its waits end; -1 if none is."""
    lines = trace.sites.with_row_index("site").filter(pl.col("kind") == "line")
    own = dict(zip(lines.select(pl.col("file").cast(pl.String), "line").rows(), lines["site"].to_list(), strict=True))
    seen = pl.DataFrame({"place": place, "line": at_end}).filter(pl.col("line") >= 0)
    usual = dict(seen.group_by("place", maintain_order=True).agg(pl.col("line").mode().min()).rows())
    known = enumerate(places.select("file", "line").rows())
    return np.array([own.get(at, usual.get(number, NO_PARENT)) for number, at in known], np.int64)


def _divided(
    borders: IntArray, start: IntArray, end: IntArray, chosen: IntArray, between: tuple[IntArray, IntArray]
) -> _Parts:
    """Return the parts of the chosen waits, which end at the borders ``between`` those indexes."""
    first, last = (index[chosen] for index in between)
    counts = last - first + 1
    of = np.repeat(np.arange(len(chosen)), counts)
    number = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    border = first[of] + number
    begins = np.where(number == 0, start[chosen][of], borders[border - 1])
    ends = np.where(number == counts[of] - 1, end[chosen][of], borders[np.minimum(border, len(borders) - 1)])
    return _Parts(chosen[of], begins, ends, np.full(len(of), NO_PARENT, np.int64))


def _stays(parts: _Parts, home: IntArray) -> BoolArray:
    """Return which parts are waits at the place that was seen: in its line, or in none; else the last of a wait."""
    is_right = parts.line == home
    is_last = np.append(np.diff(parts.of) != 0, True)
    has_right = np.zeros(int(parts.of.max(initial=0)) + 1, np.bool_)
    has_right[parts.of[is_right]] = True
    return is_right | (parts.line < 0) | (is_last & ~has_right[parts.of])


def _known(line: IntArray, place: IntArray, dur_ns: IntArray) -> dict[int, int]:
    """Return for each watched line the place that waits longest in it."""
    sums = pl.DataFrame({"line": line, "place": place, "ns": dur_ns}).group_by("line", "place").agg(pl.col("ns").sum())
    longest = sums.sort("ns", "place", descending=[True, False]).unique("line", keep="first", maintain_order=True)
    return dict(longest.filter(pl.col("line") >= 0).select("line", "place").rows())


def _without_ops(trace: Trace, lane: IntArray, parts: _Parts, target: IntArray) -> tuple[_Parts, IntArray]:
    """Return the parts and their places, without those in lines not known to wait that are short or mostly run ops.

    It is known how long a thread waited between two looks, and not when in between.
    """
    ops = trace.events.filter(pl.col("category") == "cpu_op")
    lane_of_op, start, dur = (ops[name].to_numpy().astype(np.int64) for name in ("lane", "start_ns", "dur_ns"))
    is_kept = target >= 0
    for number in np.unique(lane[~is_kept]).tolist():
        here = np.flatnonzero(~is_kept & (lane == number))
        begin, end, is_own = parts.start_ns[here], parts.end_ns[here], lane_of_op == number
        in_ops = covered_ns(start[is_own], (start + dur)[is_own], begin, end)
        is_kept[here] = (in_ops * 2 <= end - begin) & (end - begin >= LEAST_UNKNOWN_NS)
    return _Parts(*(column[is_kept] for column in parts)), target[is_kept]


def _named(trace: Trace, waits: pl.DataFrame, places: pl.DataFrame, parts: _Parts, target: IntArray) -> pl.DataFrame:
    """Return the parts as waits, each with its place, or with its watched line for -1; without those that are short."""
    lines = trace.sites[np.maximum(parts.line, 0).tolist()]
    rows = places[np.maximum(target, 0).tolist()]
    of_line = pl.Series(target < 0)
    frame = waits[parts.of.tolist()].with_columns(
        pl.when(of_line).then(None).otherwise(rows["call"]).alias("call"),
        pl.when(of_line).then(lines["file"].cast(pl.String)).otherwise(rows["file"]).alias("file"),
        pl.when(of_line).then(lines["line"]).otherwise(rows["line"]).alias("line"),
        pl.Series("start_ns", parts.start_ns),
        pl.Series("dur_ns", parts.end_ns - parts.start_ns),
    )
    same = (np.diff(parts.of) == 0) & (np.diff(target) == 0) & ((target[1:] >= 0) | (np.diff(parts.line) == 0))
    run = np.cumsum(np.append(True, ~same))
    joined = frame.with_columns(run=pl.Series(run)).group_by("run", maintain_order=True)
    merged = joined.agg(pl.exclude("dur_ns").first(), pl.col("dur_ns").sum()).drop("run")
    long = merged.filter(pl.col("dur_ns") >= LEAST_PART_NS)
    return long.select(waits.columns).cast(pl.Schema(FRAME_SCHEMAS["waits"]))


def _joined(waits: pl.DataFrame) -> pl.DataFrame:
    """Return the waits, of which those at one place that follow each other at once are one: the rest of one was cut."""
    end = pl.col("start_ns") + pl.col("dur_ns")
    is_next = (pl.col("start_ns") - end.shift(1) < LEAST_PART_NS) & (pl.col("kind") == "wait")
    for name in ("kind", "lane", "cycle", *_PLACE):
        is_next &= pl.col(name).eq_missing(pl.col(name).shift(1))
    numbered = waits.with_columns(end_ns=end, run=(~is_next).fill_null(value=True).cum_sum())
    joined = numbered.group_by("run", maintain_order=True).agg(pl.exclude("end_ns").first(), pl.col("end_ns").max())
    return joined.with_columns(dur_ns=pl.col("end_ns") - pl.col("start_ns")).select(waits.columns)
