"""What must wait for what: edges from a moment in one piece to the start of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.model.intervals import IntArray  # noqa: TC001 - a field of a named tuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchprof_magic.model.intervals import BoolArray

# The kinds of edges, and what each says.
KINDS = {
    "thread": "a thread does one thing after the other",
    "launch": "work begins after the call that launched it",
    "stream": "a stream does one piece of work after the other",
    "wait": "a call returns after the work that it waits for",
    "hand over": "a thread goes on after another has done what it waited for, as autograd's or one that communicates",
    "event": "a stream waits for what was launched on another one before",
    "workers": "a batch is ready after the one before it",
    "assumed": "the file does not say why it did not begin earlier",
}
THREAD, LAUNCH, STREAM, WAIT, HAND_OVER, EVENT, WORKERS, ASSUMED = range(len(KINDS))
# These follow from the order of calls and times alone: nothing in the file names them.
INFERRED = (EVENT, WORKERS, ASSUMED)
# From this share of the path on that no edge of the file explains, it is a guess.
MUCH_ASSUMED = 0.2


class Edges(NamedTuple):
    """Edges to the start of ``target``, from the moment at which a ``share`` of ``source`` has passed.

    ``target`` and ``source`` are numbers of pieces. ``delay_ns`` passes between the two moments at least.
    """

    target: IntArray
    source: IntArray
    share: np.ndarray
    delay_ns: IntArray
    kind: IntArray


def edges(kind: int, target: IntArray, source: IntArray, share: np.ndarray | float, delay_ns: IntArray | int) -> Edges:
    """Return edges of one kind; a share or a delay that is one number is that of all."""
    count = len(target)
    shares, delays = np.broadcast_to(share, count).astype(np.float64), np.broadcast_to(delay_ns, count)
    return Edges(target, source, shares, delays.astype(np.int64), np.full(count, kind, np.int64))


def joined(parts: Iterable[Edges]) -> Edges:
    """Return all edges together."""
    return Edges(*map(np.concatenate, zip(*parts, strict=True)))


def chosen(all_edges: Edges, which: BoolArray | IntArray) -> Edges:
    """Return some of the edges, in this order."""
    return Edges(*(column[which] for column in all_edges))


NO_EDGES = edges(ASSUMED, np.empty(0, np.int64), np.empty(0, np.int64), 0.0, 0)


def typical_by(key: IntArray, value: IntArray, which: BoolArray, *, least: int = 3) -> IntArray:
    """Return for each key the median of some values of it; of all of them where fewer than ``least`` are of the key."""
    if len(key) == 0:
        return np.empty(0, np.int64)
    found = np.full(len(key), int(np.median(value[which])) if which.any() else 0, np.int64)
    keys, of = np.unique(key, return_inverse=True)
    order = np.lexsort((value[which], of[which]))
    group, sorted_values = of[which][order], value[which][order]
    first = np.searchsorted(group, np.arange(len(keys)))
    count = np.bincount(group, minlength=len(keys))
    has = count >= least
    middle = np.where(has, first + (count - 1) // 2, 0)
    own = np.append(sorted_values, 0)[np.minimum(middle, len(sorted_values))]
    return np.where(has[of], own[of], found)


def mean_by(key: IntArray, value: IntArray, which: BoolArray) -> IntArray:
    """Return for each key the mean of some values of it, 0 without any: unlike medians, means add up."""
    _, of = np.unique(key, return_inverse=True)
    count = np.bincount(of[which], minlength=len(key))
    total = np.bincount(of[which], value[which], minlength=len(key))
    return np.rint(total / np.maximum(count, 1)).astype(np.int64)[of]
