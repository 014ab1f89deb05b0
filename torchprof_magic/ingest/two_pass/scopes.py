"""Moves what ran in the steps of one cycle to those of another that did the same work."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.ingest.two_pass.clock import Clock
from torchprof_magic.ingest.two_pass.matching import Matches, Ops, counterparts, matched, ops_of
from torchprof_magic.model.trace import SCOPES_SCHEMA

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# Below this share of common ops, a step did other work.
LEAST_COMMON = 0.9


class Moved(NamedTuple):
    """Scopes in the steps of a cycle, and the numbers of the steps of the other that they are from."""

    scopes: pl.DataFrame
    steps: tuple[int, ...]


def moved_scopes(trace: Trace, scopes: pl.DataFrame, cycle: int, target: int) -> Moved:
    """Return scopes of ``cycle``, all of one lane, as they would lie in the steps of the cycle ``target``.

    Steps are paired as their ops say (see ``counterparts``). Moments are
    moved in proportion between those that both steps have: where their matching ops begin and end, and the runs of what
    ``trace.scopes`` has of both. A step that did other work gets none.
    """
    theirs, ours = (trace.steps.filter(pl.col("cycle") == number) for number in (target, cycle))
    complete = ours["complete"].arg_true().to_list()
    if not complete or not theirs.height or not scopes.height:
        return Moved(pl.DataFrame(schema=SCOPES_SCHEMA), ())
    first, second = ops_of(trace, (target, cycle))
    counterpart = counterparts(first, second, np.array(complete), theirs.height)
    pairs = matched(first, second, counterpart)
    lane, found, used = int(scopes["lane"][0]), [], set()
    for place, step in enumerate(theirs.select("start_ns", "end_ns").rows()):
        source = int(counterpart[place])
        if source not in complete:
            continue
        known = _of_step(first, second, pairs, place, source, lane)
        if known is None:
            continue
        here = ours.select("start_ns", "end_ns").rows()[source]
        runs = _of_runs(trace, (cycle, here), (target, step), lane)
        anchors = [known, runs, _Anchors(np.array(here), np.array(step))]
        clock = Clock(*(np.concatenate(each) for each in zip(*anchors, strict=True)))
        inside = scopes.filter(pl.col("start_ns") < here[1], pl.col("start_ns") + pl.col("dur_ns") > here[0])
        began = inside["start_ns"].to_numpy()
        start = clock.moved(np.clip(began, *here))
        end = clock.moved(np.clip(began + inside["dur_ns"].to_numpy(), *here))
        found.append(
            inside.with_columns(
                pl.Series("start_ns", start),
                pl.Series("dur_ns", end - start),
                pl.lit(target, pl.Int32).alias("cycle"),
            ).filter(pl.col("dur_ns") > 0)
        )
        used.add(int(ours["number"][source]))
    return Moved(pl.concat([pl.DataFrame(schema=SCOPES_SCHEMA), *found]), tuple(sorted(used)))


class _Anchors(NamedTuple):
    """The same moments on the clock of a step, and on that of its counterpart."""

    here_ns: IntArray
    there_ns: IntArray


def _of_step(first: Ops, second: Ops, pairs: Matches, place: int, source: int, lane: int) -> _Anchors | None:
    """Return when matching ops of a lane begin and end in both steps; None if the steps did other work."""
    chosen = (first.place[pairs.first] == place) & (second.place[pairs.second] == source)
    left, right = pairs.first[chosen], pairs.second[chosen]
    most = max(int((first.place == place).sum()), int((second.place == source).sum()))
    if len(left) < LEAST_COMMON * most:
        return None
    is_here = (first.lane[left] == lane) & (second.lane[right] == lane)
    left, right = left[is_here], right[is_here]
    return _Anchors(
        np.concatenate((second.start_ns[right], second.end_ns[right])),
        np.concatenate((first.start_ns[left], first.end_ns[left])),
    )


def _of_runs(
    trace: Trace, here: tuple[int, tuple[int, int]], there: tuple[int, tuple[int, int]], lane: int
) -> _Anchors:
    """Return when the runs on a lane begin and end that lie whole in both steps, if these have the same ones."""
    runs = [
        trace.scopes.filter(
            pl.col("cycle") == cycle,
            pl.col("lane") == lane,
            pl.col("start_ns") >= start,
            pl.col("start_ns") + pl.col("dur_ns") <= end,
        )
        for cycle, (start, end) in (here, there)
    ]
    if not runs[0]["site"].equals(runs[1]["site"]):
        return _Anchors(*np.empty((2, 0), np.int64))
    begins, ends = ([each["start_ns"].to_numpy() for each in runs], [each["dur_ns"].to_numpy() for each in runs])
    moments = [np.concatenate((began, began + lasted)) for began, lasted in zip(begins, ends, strict=True)]
    return _Anchors(*moments)
