"""Timelines of millions of slices, window by window: pictures that follow pixels, and what belongs to one slice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from torchprof_magic.model.intervals import NO_PARENT, IntArray
from torchprof_magic.model.rows import filled
from torchprof_magic.model.shapes import Excerpt, Slices
from torchprof_magic.tables.timeline.slice_levels import (
    Integers,
    Level,
    Pyramid,
    Run,
    SliceTimes,
    bucket_below,
    first_where,
    joined,
    positions_between,
    take,
)
from torchprof_magic.tables.waiting.idle import GAP_BEGINS

# A page holds about as many slices; of more it gets an overview, and asks for windows.
WHOLE_SLICES = 1_000_000
MARGIN = 0.5  # of a window, on each side: small pans need no other one
MOST_ROWS = 60_000  # of a window
MOST_READ = 400_000  # for a window: more takes longer than a view may take to change
MOST_LAUNCHED = 60  # by one slice: more arrows cannot be told apart
EXACT_BELOW_NS = 2  # a pixel: nothing is merged
MOST_WEIGHT = 2**31 - 1
CURVES = ("queue", "counter")
PICTURE = ("start_ns", "dur_ns", "name", "kind", "phase", "note", "source", "op", "count")


def is_windowed(slices: Slices) -> bool:
    """Return whether there are too many slices for a page to hold them all."""
    return slices.frame.height > WHOLE_SLICES


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The slices of a part of a recording, those shorter than ``bucket_ns`` merged; ``is_exact`` says that none are."""

    slices: Slices
    start_ns: int
    end_ns: int
    bucket_ns: int
    is_exact: bool


class SliceWindows:
    """Answers what a page asks of a recording with millions of slices. What that needs is built on first use and kept.

    In every answer, the column ``slice`` says which row of the complete frame a slice is, ``merged`` how many it
    stands for, ``gaps`` and ``cause_gaps`` are those of ``Run``, and ``by`` is the op that launched it. ``source``
    and ``op`` are rows of the answer, or -1.
    """

    def __init__(self, slices: Slices) -> None:
        self.slices = slices
        self.frame = slices.frame
        self.lane: Integers = self.frame["lane"].to_numpy()
        self._threads: dict[str, Pyramid] = {}

    @cached_property
    def span(self) -> tuple[int, int]:
        """When the first slice begins and when the last one ends."""
        shown = self.frame.lazy().filter(pl.col(self.first_layer) >= 0)
        ends = shown.select(pl.col("start_ns").min(), (pl.col("start_ns") + pl.col("dur_ns")).max().alias("end_ns"))
        start_ns, end_ns = ends.collect().row(0)
        return start_ns or 0, end_ns or 0

    @property
    def first_layer(self) -> str:
        """The column of the layer that is shown first."""
        return self.slices.layers[0].column

    @cached_property
    def times(self) -> SliceTimes:
        """The times of all slices, and what decides which are merged."""
        start_ns, dur_ns = (self.frame[name].to_numpy() for name in ("start_ns", "dur_ns"))
        weight = np.minimum(dur_ns, MOST_WEIGHT).astype(np.int32)
        # The name of a merged slice is that of its longest one. Of queues and counters, the highest level is shown.
        is_curve = self.frame["kind"].is_in(CURVES).to_numpy()
        weight[is_curve] = np.minimum(self.frame["count"].to_numpy()[is_curve], MOST_WEIGHT)
        begins = np.where(self.cause > 0, filled(self.frame["count"], 0), 0)
        gaps, cause_gaps = (begins == GAP_BEGINS).astype(np.int32), (begins > 0).astype(np.int32)
        return SliceTimes(start_ns, dur_ns, weight, self.cause, gaps, cause_gaps)

    @cached_property
    def causes(self) -> list[str]:
        """What devices wait for, with an empty entry for slices that are no waits."""
        notes = self.frame.lazy().filter(pl.col("kind") == "idle").select(pl.col("note").unique()).collect()["note"]
        return ["", *notes.cast(pl.String).str.split("\t").list.first().unique().sort().to_list()]

    @cached_property
    def cause(self) -> npt.NDArray[np.int8]:
        """The cause of each wait, an entry of ``causes``; 0 for other slices."""
        is_idle = self.frame["kind"] == "idle"
        notes = self.frame["note"].filter(is_idle)
        distinct = notes.unique()
        numbers = [self.causes.index(note.partition("\t")[0]) for note in distinct.cast(pl.String).to_list()]
        found = np.zeros(self.frame.height, np.int8)
        found[is_idle.to_numpy()] = notes.replace_strict(distinct, numbers, return_dtype=pl.Int8).to_numpy()
        return found

    @cached_property
    def shared(self) -> Pyramid:
        """The slices that are not on threads, which all layers show."""
        return self._pyramid(self.first_layer, on_threads=False)

    def threads(self, layer: str) -> Pyramid:
        """Return the slices of the threads that a layer shows."""
        if layer not in self._threads:
            self._threads[layer] = self._pyramid(layer, on_threads=True)
        return self._threads[layer]

    def _pyramid(self, layer: str, *, on_threads: bool) -> Pyramid:
        depth = self.frame[layer].to_numpy()
        is_thread = np.array([each.kind == "thread" for each in self.slices.lanes], np.bool_)
        rows = np.flatnonzero((is_thread[self.lane] == on_threads) & (depth >= 0))
        return Pyramid(self.times, rows, self.lane, depth, self.span[1] - self.span[0])

    def tracks(self, kind: str, depth: int | None = None, group: str | None = None) -> IntArray:
        """Return the tracks of ``shared`` on lanes of a kind, at one depth or all."""
        lanes = self.slices.lanes
        found = [
            track
            for track, (lane, level) in enumerate(
                zip(self.shared.lane.tolist(), self.shared.depth.tolist(), strict=True)
            )
            if lanes[lane].kind == kind and depth in (None, level) and group in (None, lanes[lane].group)
        ]
        return np.array(found, np.int64)

    def window(self, layer: str, start_ns: float, end_ns: float, pixels: int) -> Window:
        """Return what a part of the recording looks like on so many pixels, with margins on both sides."""
        low, high = self.span
        length = max(1.0, end_ns - start_ns)
        # One more at both ends, for slices without length.
        begin = int(min(max(low, start_ns - MARGIN * length), high)) - 1
        end = int(min(max(low, end_ns + MARGIN * length), high)) + 1
        bucket_ns = bucket_below(length / pixels) if length / pixels >= EXACT_BELOW_NS else 0
        pyramids = self.shared, self.threads(layer)
        while True:
            grid_ns = max(1, bucket_ns)
            from_ns, to_ns = begin // grid_ns * grid_ns, -(-end // grid_ns) * grid_ns
            is_last = bucket_ns > high - low
            if is_last or sum(each.rows_read(from_ns, to_ns, bucket_ns) for each in pyramids) <= MOST_READ:
                runs = [each.picture(from_ns, to_ns, bucket_ns) for each in pyramids]
                if is_last or sum(len(run.row) for run in runs) <= MOST_ROWS:
                    break
            bucket_ns = max(EXACT_BELOW_NS, bucket_ns * 2)
        shared, threads = (joined([run, _after(each.single, to_ns)]) for run, each in zip(runs, pyramids, strict=True))
        frame = _linked(pl.concat([self._drawn(shared), self._drawn(threads, layer)]))
        return Window(
            slices=replace(self.slices, frame=frame),
            start_ns=from_ns,
            end_ns=to_ns,
            bucket_ns=bucket_ns,
            is_exact=not (frame["merged"] > 1).any(),
        )

    def overview(self) -> Slices:
        """Return the whole recording at its coarsest, with every step."""
        return self._excerpt(self.shared.levels[0].bucket_ns)

    def excerpt(self) -> Slices:
        """Return the whole recording with as many of its longest slices as a page can hold, and the rest merged."""
        bucket_ns = bucket_below(max(1, self.span[1] - self.span[0]))
        while bucket_ns > 1 and sum(len(run.row) for run in self._whole(bucket_ns // 2)) <= WHOLE_SLICES:
            bucket_ns //= 2
        return self._excerpt(bucket_ns)

    def _excerpt(self, bucket_ns: int) -> Slices:
        shared, *threads = self._whole(bucket_ns)
        parts = [self._drawn(shared)]
        layers = [layer.column for layer in self.slices.layers]
        parts += [self._drawn(run, layer) for run, layer in zip(threads, layers, strict=True)]
        excerpt = Excerpt(slices=self.frame.height, start_ns=self.span[0], end_ns=self.span[1], bucket_ns=bucket_ns)
        frame = _linked(_in_all_layers(pl.concat(parts), layers))
        return replace(self.slices, frame=frame, excerpt=excerpt)

    def _whole(self, bucket_ns: int) -> list[Run]:
        """Return the shared slices, with every step, and those of the threads in each layer."""
        # One more at both ends, for slices without length.
        span = self.span[0] - 1, self.span[1] + 1
        shared = self.shared.picture(*span, bucket_ns)
        is_step = np.isin(shared.track, steps := self.tracks("steps", depth=0))
        every_step = self.shared.single.run(*self._all_of(steps))
        threads = [self.threads(layer.column).picture(*span, bucket_ns) for layer in self.slices.layers]
        return [joined([every_step, take(shared, ~is_step)]), *threads]

    def _all_of(self, tracks: IntArray) -> tuple[IntArray, IntArray]:
        """Return the positions of all slices of some tracks of ``shared``, and the track of each."""
        single = self.shared.single
        positions, number = positions_between(single.first[tracks], single.last[tracks])
        return positions, tracks[number]

    def _drawn(self, run: Run, layer: str | None = None) -> pl.DataFrame:
        """Return slices, single or merged, as rows; those of threads are hidden in all other layers."""
        layers = [each.column for each in self.slices.layers]
        rows = self.frame.select("lane", *layers, *PICTURE)[run.row]
        hidden = [pl.lit(NO_PARENT, pl.Int16).alias(each) for each in layers if layer not in (None, each)]
        op = pl.Series(rows["op"]).set(rows["op"] < 0, None)
        return rows.with_columns(
            *hidden,
            pl.Series("start_ns", run.start_ns),
            pl.Series("dur_ns", run.dur_ns),
            pl.Series("slice", run.row, pl.Int32),
            pl.Series("merged", run.merged, pl.Int32),
            pl.Series("gaps", run.gaps, pl.Int32),
            pl.Series("cause_gaps", run.cause_gaps, pl.Int32),
            self.frame["name"].gather(op).alias("by"),
        )

    def around(self, number: int, layer: str) -> Slices:
        """Return a slice and all that belongs to it, single and with the recorded details.

        That is what launched it and what it launched, its forward or backward op, its neighbors in all lanes, and for a
        wait the other waits of its gap, with the work before and after it.
        """
        own = self.frame[[number]].row(0, named=True)
        parts = [np.array([number, own["source"], own["op"]]), self._launched_by(number)]
        parts += [_neighbors(each.single, number) for each in (self.shared, self.threads(layer))]
        if self.slices.lanes[own["lane"]].kind == "waits" and own[self.first_layer] == 0:
            parts.append(self._around_gap(number))
        rows = np.unique(np.concatenate(parts))
        rows = rows[rows >= 0]
        frame = self.frame[rows].with_columns(
            pl.Series("slice", rows, pl.Int32), pl.lit(1, pl.Int32).alias("merged"), pl.lit(None).alias("by")
        )
        return replace(self.slices, frame=_linked(frame.with_columns(pl.col("by").cast(pl.Categorical))))

    def _launched_by(self, number: int) -> IntArray:
        """Return what a slice launched, itself or through calls inside it, and these calls."""
        source, op = self.frame["source"].to_numpy(), self.frame["op"].to_numpy()
        found = np.flatnonzero((source >= 0) & ((source == number) | (op == number)))
        found = found[found != number][:MOST_LAUNCHED]
        return np.concatenate((found, source[found].astype(np.int64)))

    def _around_gap(self, number: int) -> IntArray:
        """Return the waits of the gap that a wait is in, and the work around it."""
        lane = int(self.lane[number])
        track = int(np.flatnonzero((self.shared.lane == lane) & (self.shared.depth == 0))[0])
        single = self.shared.single
        first, last = gaps_of(single, track)
        at = int(np.searchsorted(first, _position_of(single, track, number), side="right")) - 1
        gap = np.arange(first[at], last[at])
        streams = self.tracks("stream", group=self.slices.lanes[lane].group)
        begin, end = int(single.starts(gap[:1])[0]), int(single.ends(gap[-1:])[0])
        low, high = single.first[streams], single.last[streams]
        before = first_where(low, high, lambda at: single.starts(at) >= begin) - 1
        after = first_where(low, high, lambda at: single.starts(at) >= end)
        return single.row[np.concatenate((gap, before[before >= low], after[after < high]))].astype(np.int64)


def gaps_of(single: Level, track: int) -> tuple[IntArray, IntArray]:
    """Return the positions of the first wait of each gap, and those after its last."""
    first, last = int(single.first[track]), int(single.last[track])
    at = np.flatnonzero(single.times.gaps[single.row[first:last]]) + first
    return at, np.append(at[1:], last)


def _position_of(single: Level, track: int, number: int) -> int:
    """Return the position of a slice in its track."""
    at = int(single.times.start_ns[number])
    low, high = single.first[track : track + 1], single.last[track : track + 1]
    first = int(first_where(low, high, lambda middle: single.starts(middle) >= at)[0])
    return first + int(np.argmax(single.row[first : int(high[0])] == number))


def _neighbors(single: Level, number: int) -> IntArray:
    """Return in each track the last slice that has begun when one does, or the first one, and those beside these."""
    at = int(single.times.start_ns[number])
    after = first_where(single.first, single.last, lambda middle: single.starts(middle) > at)
    near = np.concatenate([np.clip(after + step, single.first, single.last - 1) for step in (-2, -1, 0)])
    return single.row[near].astype(np.int64)


def _after(single: Level, at_ns: int) -> Run:
    """Return the first slice of each track that begins at a moment or later."""
    at = first_where(single.first, single.last, lambda middle: single.starts(middle) >= at_ns)
    tracks = np.flatnonzero(at < single.last)
    return single.run(at[tracks], tracks)


def _linked(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with ``source`` and ``op`` as its own rows, -1 where it has no row of one slice for them."""
    number = frame["slice"].to_numpy()
    single = np.flatnonzero((frame["merged"] == 1).to_numpy())
    single = single[np.argsort(number[single], kind="stable")]
    known = number[single]

    def own_rows(column: str) -> pl.Series:
        wanted = frame[column].to_numpy()
        if len(known) == 0:
            return pl.Series(column, np.full(len(wanted), NO_PARENT), pl.Int32)
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return pl.Series(column, np.where(known[at] == wanted, single[at], NO_PARENT), pl.Int32)

    return frame.with_columns(own_rows("source"), own_rows("op"))


def _in_all_layers(frame: pl.DataFrame, layers: list[str]) -> pl.DataFrame:
    """Return the frame with one row for a single slice that several layers show."""
    if len(layers) == 1:
        return frame
    is_single = frame["merged"] == 1
    others = [name for name in frame.columns if name not in ("slice", *layers)]
    single = frame.filter(is_single).group_by("slice").agg(pl.col(others).first(), pl.col(layers).max())
    return pl.concat([single.select(frame.columns), frame.filter(~is_single)]).sort("lane", "start_ns")
