"""Slices merged within equal parts of time, at several sizes: what makes a picture of millions of them cost pixels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from torchprof_magic.model.intervals import BoolArray, IntArray, stable_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

Integers: TypeAlias = npt.NDArray[np.integer]

COARSEST_BUCKETS = 4096  # of the whole recording: about as many as a screen has pixels
FINER = 4  # times as many buckets at each finer level
MOST_LEFT = 3 / 4  # a level with more than this part of the rows of the finer one saves too little
PIECE_ROWS = 1 << 21  # rows that are merged at once
SAMPLE_BLOCKS, SAMPLE_ROWS = 64, 4096


class SliceTimes(NamedTuple):
    """What merging needs to know of every slice, by its row of the frame.

    The slice with the most ``weight`` names a merged one. ``cause`` is 0, or the number of what a wait is for: waits of
    different causes are not merged. ``gaps`` is 1 for the wait with which a gap begins, and ``cause_gaps`` for the
    first of each cause in it.
    """

    start_ns: IntArray
    dur_ns: IntArray
    weight: npt.NDArray[np.int32]
    cause: npt.NDArray[np.int8]
    gaps: npt.NDArray[np.int32]
    cause_gaps: npt.NDArray[np.int32]


class Run(NamedTuple):
    """Slices, single or merged, track by track and in order of time. A track is one lane at one depth.

    ``row`` is that in the frame: of the slice, or of the one with the most weight of the ``merged`` ones. A merged one
    begins when the first of them does and lasts as long as all of them together. Of waits, ``gaps`` and ``cause_gaps``
    are how many gaps begin in them, and how often their cause begins in one.
    """

    track: Integers
    start_ns: IntArray
    dur_ns: IntArray
    row: Integers
    merged: Integers
    gaps: Integers
    cause_gaps: Integers


def take(run: Run, rows: IntArray | BoolArray | slice) -> Run:
    """Return some slices of a run."""
    return Run(*(column[rows] for column in run))  # type: ignore[arg-type]


def joined(runs: list[Run]) -> Run:
    """Return runs of different tracks as one."""
    return Run(*(np.concatenate(columns) for columns in zip(*runs, strict=True)))


def bucket_below(span_ns: float) -> int:
    """Return the largest power of two, at least 1, that is no longer than a span."""
    return 1 << max(0, int(span_ns).bit_length() - 1)


def merge_run(run: Run, bucket_ns: int, times: SliceTimes) -> Run:
    """Merge what is shorter than ``bucket_ns``, a power of two, where it begins in the same multiple of it.

    What was merged within shorter buckets is merged again, so the result is the same as from the single slices. Merged
    waits of several causes follow one another from the start of the first.
    """
    if len(run.row) == 0:
        return run
    group_first = np.flatnonzero(_begins_group(run, bucket_ns))
    group = np.repeat(np.arange(len(group_first)), np.diff(group_first, append=len(run.row)))
    group_start_ns = run.start_ns[group_first]
    run, is_first = _sorted_by_cause(run, group, times.cause[run.row])
    first = np.flatnonzero(is_first)
    dur_ns = np.add.reduceat(run.dur_ns, first)
    of_group = group[first]
    before_ns = np.cumsum(dur_ns) - dur_ns
    offset_ns = before_ns - before_ns[np.flatnonzero(_changes(of_group))[of_group]]
    # The last slice may reach over the end of the bucket, but what is merged begins in it.
    last_ns = (group_start_ns | (bucket_ns - 1))[of_group]
    return Run(
        track=run.track[first],
        start_ns=np.minimum(group_start_ns[of_group] + offset_ns, last_ns),
        dur_ns=dur_ns,
        row=run.row[_heaviest(times.weight[run.row], first)],
        merged=np.add.reduceat(run.merged, first),
        gaps=np.add.reduceat(run.gaps, first),
        cause_gaps=np.add.reduceat(run.cause_gaps, first),
    )


def _begins_group(run: Run, bucket_ns: int) -> BoolArray:
    """Return True for slices that are not merged with the one before."""
    is_short = (run.merged > 1) | (run.dur_ns < bucket_ns)
    begins = _changes(run.track) | _changes(run.start_ns >> (bucket_ns.bit_length() - 1)) | ~is_short
    begins[1:] |= ~is_short[:-1]
    return begins


def _sorted_by_cause(run: Run, group: IntArray, cause: npt.NDArray[np.int8]) -> tuple[Run, BoolArray]:
    """Return the slices of every group by cause, and True for the first of each cause."""
    if cause.any():
        order = np.argsort(group * (int(cause.max()) + 1) + cause, kind="stable")
        run, cause = take(run, order), cause[order]
    return run, _changes(group) | _changes(cause)


def _heaviest(weight: Integers, first: IntArray) -> IntArray:
    """Return the position of the largest weight of each group, the first of several; groups begin at ``first``."""
    group = np.repeat(np.arange(len(first)), np.diff(first, append=len(weight)))
    found = np.flatnonzero(weight == np.maximum.reduceat(weight, first)[group])
    return found[_changes(group[found])]


def _changes(values: Integers) -> BoolArray:
    """Return True for each value that differs from the one before, and for the first."""
    found = np.ones(len(values), np.bool_)
    found[1:] = values[1:] != values[:-1]
    return found


def first_where(low: IntArray, high: IntArray, is_past: Callable[[IntArray], BoolArray]) -> IntArray:
    """Return in each range of sorted positions the first for which ``is_past`` holds; ``high`` where it never does."""
    low, high = low.copy(), high.copy()
    while len(open_ := np.flatnonzero(low < high)):
        middle = (low[open_] + high[open_]) // 2
        past = is_past(middle)
        high[open_[past]] = middle[past]
        low[open_[~past]] = middle[~past] + 1
    return low


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """All slices of some tracks, where those shorter than ``bucket_ns`` are merged; 0 for none.

    The positions of track ``t`` are ``first[t]`` to ``last[t]``. ``made`` is what was merged, absent where nothing was.
    ``reach_ns`` has the latest end so far for tracks whose slices overlap.
    """

    times: SliceTimes
    bucket_ns: int
    first: IntArray
    last: IntArray
    row: npt.NDArray[np.int32]
    made: Run | None = None
    reach_ns: Mapping[int, IntArray]

    def starts(self, positions: IntArray | slice) -> IntArray:
        """Return when the slices at some positions begin."""
        return self.times.start_ns[self.row[positions]] if self.made is None else self.made.start_ns[positions]

    def run(self, positions: IntArray | slice, track: Integers) -> Run:
        """Return the slices at some positions; ``track`` is that of each."""
        rows = self.row[positions]
        if self.made is None:
            times, ones = self.times, np.ones(len(rows), np.int32)
            start_ns, dur_ns = times.start_ns[rows], times.dur_ns[rows]
            return Run(track, start_ns, dur_ns, rows, ones, times.gaps[rows], times.cause_gaps[rows])
        return take(self.made, positions)._replace(track=track, row=rows)

    def within(self, start_ns: int, end_ns: int) -> tuple[IntArray, IntArray]:
        """Return for each track the positions of the slices that overlap a span: the first, and the one after the last.

        In a track whose slices overlap, some of those between may not.
        """
        first = first_where(self.first, self.last, lambda at: self.ends(at) > start_ns)
        for track, reach in self.reach_ns.items():
            first[track] = self.first[track] + np.searchsorted(reach, start_ns, side="right")
        return first, first_where(first, self.last, lambda at: self.starts(at) >= end_ns)

    def ends(self, positions: IntArray | slice) -> IntArray:
        """Return when the slices at some positions end."""
        dur = self.times.dur_ns[self.row[positions]] if self.made is None else self.made.dur_ns[positions]
        return self.starts(positions) + dur

    def _begins_by(self, at_ns: int, positions: IntArray) -> BoolArray:
        return self.starts(positions) >= at_ns

    def pieces(self, bucket_ns: int) -> Iterator[Run]:
        """Yield all slices in pieces, none of which ends within a bucket."""
        at, count = 0, len(self.row)
        while at < count:
            until = min(at + PIECE_ROWS, count)
            if until < count:
                edge = (int(self.starts(np.array([until - 1]))[0]) // bucket_ns + 1) * bucket_ns
                track_end = self.last[np.searchsorted(self.last, until - 1, side="right")]
                low, high = np.array([until]), np.array([track_end])
                until = int(first_where(low, high, partial(self._begins_by, edge))[0])
            sizes = np.clip(self.last, at, until) - np.clip(self.first, at, until)
            yield self.run(slice(at, until), np.repeat(np.arange(len(sizes), dtype=np.int32), sizes))
            at = until


def positions_between(first: IntArray, last: IntArray) -> tuple[IntArray, IntArray]:
    """Return all positions of some ranges, one range after the other, and the number of the range of each."""
    sizes = np.maximum(last - first, 0)
    number = np.repeat(np.arange(len(first)), sizes)
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes) + first[number], number


class Pyramid:
    """The slices of some lanes by track: every single one, and levels that are coarser and coarser.

    ``lane`` and ``depth`` are those of each track.
    """

    def __init__(self, times: SliceTimes, rows: IntArray, lane: Integers, depth: Integers, span_ns: int) -> None:
        self.times = times
        single, self.lane, self.depth = _by_track(times, rows, lane, depth)
        self.levels = _levels(single, span_ns)

    @property
    def single(self) -> Level:
        """The level with every slice."""
        return self.levels[-1]

    def _level(self, bucket_ns: int) -> Level:
        return next((each for each in self.levels if each.bucket_ns <= bucket_ns), self.single)

    def rows_read(self, start_ns: int, end_ns: int, bucket_ns: int) -> int:
        """Return how many slices, single or merged, ``picture`` looks at."""
        first, last = self._level(bucket_ns).within(start_ns, end_ns)
        return int((last - first).sum())

    def picture(self, start_ns: int, end_ns: int, bucket_ns: int) -> Run:
        """Return the slices that overlap a span, those shorter than a bucket merged; with bucket 0 none are."""
        level = self._level(bucket_ns)
        run = level.run(*positions_between(*level.within(start_ns, end_ns)))
        return merge_run(run, bucket_ns, self.times) if level.bucket_ns < bucket_ns else run


def _by_track(times: SliceTimes, rows: IntArray, lane: Integers, depth: Integers) -> tuple[Level, IntArray, IntArray]:
    """Return the level of single slices, and the lane and depth of its tracks; ``rows`` are in order of time."""
    depths = int(depth[rows].max(initial=0)) + 1
    keys = lane[rows].astype(np.int64) * depths + depth[rows]
    order = stable_order(keys, int(keys.max(initial=0)) + 1)
    keys = keys[order]
    first = np.flatnonzero(_changes(keys))
    last = np.append(first[1:], len(keys))[: len(first)]
    single = Level(times=times, bucket_ns=0, first=first, last=last, row=rows[order].astype(np.int32), reach_ns={})
    reach_ns = _reach_of(single, _overlapping(single))
    return replace(single, reach_ns=reach_ns), keys[first] // depths, keys[first] % depths


def _overlapping(level: Level) -> IntArray:
    """Return the tracks in which a slice begins before an earlier one ends."""
    found = []
    for run in level.pieces(1):
        is_one_track = run.track[1:] == run.track[:-1]
        overlaps = is_one_track & (run.start_ns[1:] < (run.start_ns + run.dur_ns)[:-1])
        found.append(run.track[1:][overlaps])
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)


def _reach_of(level: Level, tracks: Iterable[int]) -> dict[int, IntArray]:
    """Return the latest end so far at every position of some tracks."""
    places = {int(track): slice(int(level.first[track]), int(level.last[track])) for track in tracks}
    return {track: np.maximum.accumulate(level.ends(place)) for track, place in places.items()}


def _levels(single: Level, span_ns: int) -> list[Level]:
    """Return the levels from the coarsest to the single slices."""
    coarsest = bucket_below(max(1, span_ns // COARSEST_BUCKETS)) * 2
    buckets = [coarsest]
    sample = _sample(single)
    while buckets[-1] > 1 and _share_left(sample, buckets[-1]) <= MOST_LEFT:
        buckets.append(max(1, buckets[-1] // FINER))
    if len(single.row) == 0:
        return [single]
    found = [single]
    for bucket_ns in reversed(buckets):
        level = _merged_level(found[0], bucket_ns)
        if len(level.row) <= MOST_LEFT * len(found[0].row):
            found.insert(0, level)
    return found


def _sample(level: Level) -> Run:
    """Return some stretches of all slices."""
    count = len(level.row)
    positions = np.arange(count)
    if count > SAMPLE_BLOCKS * SAMPLE_ROWS:
        first = np.linspace(0, count - SAMPLE_ROWS, SAMPLE_BLOCKS).astype(np.int64)
        positions = (first[:, None] + np.arange(SAMPLE_ROWS)).ravel()
    return level.run(positions, np.searchsorted(level.last, positions, side="right"))


def _share_left(run: Run, bucket_ns: int) -> float:
    return float(_begins_group(run, bucket_ns).mean()) if len(run.row) else 1.0


def _merged_level(finer: Level, bucket_ns: int) -> Level:
    made = joined([merge_run(run, bucket_ns, finer.times) for run in finer.pieces(bucket_ns)])
    numbers, narrow = np.arange(len(finer.first)), np.int32
    level = Level(
        times=finer.times,
        bucket_ns=bucket_ns,
        first=np.searchsorted(made.track, numbers),
        last=np.searchsorted(made.track, numbers, side="right"),
        row=made.row.astype(narrow),
        made=made._replace(
            merged=made.merged.astype(narrow), gaps=made.gaps.astype(narrow), cause_gaps=made.cause_gaps.astype(narrow)
        ),
        reach_ns={},
    )
    return replace(level, reach_ns=_reach_of(level, finer.reach_ns))
