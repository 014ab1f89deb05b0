"""Pairs the beginnings and ends of ranges that are no thread's, such as requests of a server, on lanes of their own.

Ranges of one category and id are one range with ranges in it. Format: "Async Events" of the Trace Event Format.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from torchprof_magic.ingest.chrome.spans import ASYNC_PHASES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchprof_magic.ingest.chrome.spans import Columns
    from torchprof_magic.ingest.findings import Findings

# Ranges that last at the same time are on lanes of their own, up to a number that nobody looks through.
MAX_LANES = 500


class _Bound(NamedTuple):
    row: int
    phase: str
    name: str
    place: int
    cat: str
    id: int
    time_ns: int


@dataclass
class _Tree:
    """A range and those in it: the rows of their beginnings, and where it lies."""

    place: int
    cat: str
    begin_ns: int
    rows: list[int] = field(default_factory=list)
    end_ns: int = 0


def with_async_ranges(columns: Columns, last_ns: int, findings: Findings) -> Columns:
    """Return the columns with a span for each range; one without an end lasts until ``last_ns``, if that is later."""
    bounds = columns.async_bounds.sort("start_ns", "position")
    last_ns = max(last_ns, bounds["start_ns"].max() or 0)  # type: ignore[assignment]
    rows = bounds.with_row_index("row").select("row", "ph", "name", "place", "cat", "id", "start_ns").iter_rows()
    trees, ends = _paired(map(_Bound._make, rows), last_ns, findings)
    lanes = _lanes(trees, columns.places["pid"].to_list())
    places, names = _new_places(columns.places, lanes)
    place_of = {row: columns.places.height + number for number, (_, rows) in enumerate(lanes.items()) for row in rows}
    begun = sorted(place_of)
    spans = bounds[begun].with_columns(
        pl.Series("place", [place_of[row] for row in begun], dtype=pl.Int32),
        pl.Series("dur_ns", [ends[row] for row in begun], dtype=pl.Int64) - pl.col("start_ns"),
    )
    return columns._replace(
        spans=pl.concat([columns.spans, spans.select(columns.spans.columns)]),
        places=pl.concat([columns.places, places]),
        thread_names=pl.concat([columns.thread_names, names]),
        async_bounds=columns.async_bounds.clear(),
    )


def _paired(bounds: Iterable[_Bound], last_ns: int, findings: Findings) -> tuple[list[_Tree], dict[int, int]]:
    """Return the outermost ranges, and when the range ends that begins in each row."""
    trees: list[_Tree] = []
    open_trees: dict[tuple[str, int], tuple[_Tree, list[_Bound]]] = {}
    ends: dict[int, int] = {}
    strays = 0
    for bound in bounds:
        key = bound.cat, bound.id
        tree, stack = open_trees.get(key, (None, []))
        if ASYNC_PHASES[bound.phase]:
            if tree is None:
                tree = _Tree(bound.place, bound.cat, bound.time_ns)
                trees.append(tree)
                open_trees[key] = tree, stack
            tree.rows.append(bound.row)
            stack.append(bound)
            continue
        begin = next((one for one in reversed(stack) if one.name == bound.name), stack[-1] if stack else None)
        if tree is None or begin is None:
            strays += 1
            continue
        stack.remove(begin)
        ends[begin.row] = tree.end_ns = bound.time_ns
        if not stack:
            del open_trees[key]
    unclosed = [begin for _, stack in open_trees.values() for begin in stack]
    ends |= {begin.row: last_ns for begin in unclosed}
    for tree, _ in open_trees.values():
        tree.end_ns = last_ns
    findings.add("chrome.end_without_begin", strays)
    findings.add("chrome.unclosed_event", len(unclosed))
    return trees, ends


def _lanes(trees: list[_Tree], pids: list[str]) -> dict[tuple[int, str, int], list[int]]:
    """Return the rows of the ranges on each lane: its place in the file, its category, and its number among those."""
    free: dict[tuple[str, str], list[int]] = defaultdict(list)
    busy: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    lanes: dict[tuple[int, str, int], list[int]] = {}
    first_place: dict[tuple[str, str], int] = {}
    for tree in trees:  # in order of time
        key = pids[tree.place], tree.cat
        while busy[key] and busy[key][0][0] <= tree.begin_ns:
            heapq.heappush(free[key], heapq.heappop(busy[key])[1])
        number = heapq.heappop(free[key]) if free[key] else min(len(busy[key]), MAX_LANES - 1)
        heapq.heappush(busy[key], (tree.end_ns, number))
        place = first_place.setdefault(key, tree.place)
        lanes.setdefault((place, tree.cat, number), []).extend(tree.rows)
    return lanes


def _new_places(places: pl.DataFrame, lanes: Iterable[tuple[int, str, int]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the places of the lanes, and their names."""
    found = list(lanes)
    base = places[[place for place, _, _ in found]]
    cats = [cat or "async" for _, cat, _ in found]
    tids = [f"async {cat} {number}" for cat, (_, _, number) in zip(cats, found, strict=True)]
    names = [
        f"{cat} (async)" + (f" {number + 1}" if number else "") for cat, (_, _, number) in zip(cats, found, strict=True)
    ]
    new = base.with_columns(
        pl.lit("other", places.schema["category"]).alias("category"), pl.Series("tid", tids, dtype=pl.String)
    )
    titles = pl.DataFrame({"pid": base["pid"], "tid": tids, "name": names})
    return new, titles
