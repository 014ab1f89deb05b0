"""Small timelines made by hand, and random ones, for tests of pictures of large ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.model.shapes import Layer, SliceLane, Slices
from torchprof_magic.tables.timeline.slices import SCHEMA
from torchprof_magic.tables.waiting.idle import CAUSE_BEGINS, GAP_BEGINS

if TYPE_CHECKING:
    from collections.abc import Iterable

LANES = (
    SliceLane(title="Steps", kind="steps", group=""),
    SliceLane(title="main", kind="thread", group="main"),
    SliceLane(title="calls", kind="calls", group="main"),
    SliceLane(title="Device 0", kind="waits", group="Device 0"),
    SliceLane(title="stream 7", kind="stream", group="Device 0"),
    SliceLane(title="queue", kind="queue", group="Device 0"),
)
STEPS, THREAD, CALLS, WAITS, STREAM, QUEUE = range(len(LANES))
OPS, ALL = "depth", "depth_python"
_KINDS = ("step", "op", "runtime", "idle", "kernel", "queue")


class Made(NamedTuple):
    """One slice; ``inner`` is its depth in the layer that also shows Python, by default that among ops."""

    lane: int
    start: int
    dur: int
    name: str = "a"
    depth: int = 0
    note: str = ""
    kind: str = ""
    phase: str = "forward"
    source: int = -1
    op: int = -1
    count: int = 1
    inner: int | None = None


def make_slices(*slices: Made, has_python: bool = False) -> Slices:
    """Return a timeline of slices that are given in order of lane and start."""
    rows = [
        {
            "lane": each.lane,
            "depth": each.depth,
            "start_ns": each.start,
            "dur_ns": each.dur,
            "name": each.name,
            "kind": each.kind or ("busy" if each.lane == WAITS and each.depth == 1 else _KINDS[each.lane]),
            "phase": each.phase,
            "note": each.note,
            "source": each.source,
            "op": each.op,
            "count": each.count,
        }
        for each in slices
    ]
    _mark_gaps(rows)
    frame = pl.DataFrame(rows, schema=SCHEMA)
    layers = [Layer(title="Ops", column=OPS)]
    if has_python:
        layers.append(Layer(title="Python", column=ALL))
        inner = [each.depth if each.inner is None else each.inner for each in slices]
        frame = frame.with_columns(pl.Series(ALL, inner, pl.Int16))
    return Slices(frame=frame, lanes=LANES, layers=tuple(layers))


def _mark_gaps(rows: list[dict[str, Any]]) -> None:
    """Mark where gaps begin, in which waits touch, and where causes do in them, as ``idle_runs`` does."""
    end, causes = -1, set[str]()
    for row in rows:
        if row["kind"] != "idle":
            continue
        cause = row["note"].partition("\t")[0]
        if end < 0 or row["start_ns"] > end:
            row["count"], causes = GAP_BEGINS, {cause}
        else:
            row["count"] = 0 if cause in causes else CAUSE_BEGINS
            causes.add(cause)
        end = row["start_ns"] + row["dur_ns"]


def random_slices(seed: int, count: int = 400) -> Slices:
    """Return a timeline with dense and sparse parts on all lanes, where slices of one depth do not overlap."""
    rng = np.random.default_rng(seed)
    found: list[Made] = []
    for lane, depth in ((STEPS, 0), (CALLS, 0), (STREAM, 0), (QUEUE, 0)):
        found += [
            Made(lane, start, dur, name=f"n{rng.integers(5)}", depth=depth, count=int(rng.integers(1, 9)))
            for start, dur in _apart(rng, count)
        ]
    found += [Made(WAITS, start, dur, depth=1) for start, dur in _apart(rng, count)]
    causes = ("launching ops", "Python\ttrain.py:3", "loading data")
    found += [
        Made(WAITS, start, dur, note=causes[rng.integers(3)], name=("", "mm")[rng.integers(2)])
        for start, dur in _apart(rng, count, touching=0.7)
    ]
    found += _nested(rng, count)
    return make_slices(*sorted(found, key=lambda each: (each.lane, each.start, each.depth)))


def _apart(rng: np.random.Generator, count: int, touching: float = 0.1) -> Iterable[tuple[int, int]]:
    scale = rng.choice([1, 10, 1000], count)
    gap = np.where(rng.random(count) < touching, 0, rng.integers(1, 50, count) * scale)
    dur = rng.integers(0, 40, count) * scale
    start = np.cumsum(gap + np.concatenate(([0], dur[:-1])))
    return zip(start.tolist(), dur.tolist(), strict=True)


def _nested(rng: np.random.Generator, count: int) -> list[Made]:
    """Return ops within ops, three deep at most."""
    outer = [Made(THREAD, start, dur, name=f"op{rng.integers(4)}") for start, dur in _apart(rng, count)]
    found = list(outer)
    for depth in (1, 2):
        inner = []
        for each in outer:
            cuts = np.sort(rng.integers(0, each.dur + 1, 2 * int(rng.integers(0, 3)))).tolist()
            for low, high in zip(cuts[::2], cuts[1::2], strict=True):
                if high > low:
                    inner.append(Made(THREAD, each.start + low, high - low, name=f"op{rng.integers(4)}", depth=depth))
        found += inner
        outer = inner
    return found
