"""Which memory of the host the program holds before and after a recording.

torch does not report when memory of the host is released that was allocated before the recording. A list that grows
and a buffer of fixed size that was already full are alike in a trace: each step allocates, and nothing is released.
Only the live objects tell them apart.
"""

from __future__ import annotations

import weakref
from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import TYPE_CHECKING, TypeAlias

from torchprof_magic.capture.torch_api.graphs import graph_nodes, kept_by_node
from torchprof_magic.capture.torch_api.patching import unseen
from torchprof_magic.capture.torch_api.storages import (
    gradient_of,
    is_wrapper,
    live_tensors,
    storage_address,
    storage_behind,
)
from torchprof_magic.model.recording import LiveStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import torch

# Looking at a tensor takes about 3 µs, and at a node of autograd 10 µs. With more of them, not all is known.
MOST_TENSORS = 100_000
MOST_NODES = 20_000
# Growth of less is no leak that anyone is told of.
LEAST_GROWTH_BYTES = 2**10

_Refs: TypeAlias = "list[weakref.ref[torch.UntypedStorage]]"


class LiveStorages:
    """Notes the storages of the host that Python can reach as a recording begins and as it ends.

    Nothing is kept alive, and nothing runs during the recording but a note of the time when an older storage goes.
    torch keeps the object of a storage as long as its memory, whoever holds it, so the note is of the release itself.
    Only torch 2.4 keeps the object longer, of a storage that processes share.
    """

    def __init__(self) -> None:
        self._older: list[_Older] = []
        self._gone_ns: dict[int, int] = {}  # by the id of the weak reference
        self._new: dict[int, dict[int, _Refs]] = {}  # by cycle
        self._knows_all = False

    def begin_cycle(self) -> None:
        """Note what exists now: a recording is about to begin."""
        self._older, self._gone_ns, self._knows_all = [], {}, False
        found = _Reached()
        with unseen():
            self._older = [self._watched(address, reached) for address, reached in found.storages.items()]
        self._knows_all = found.is_whole

    def take(self, cycle: int) -> tuple[LiveStorage, ...] | None:
        """Return what was noted at the begin, and what is new at the end of a recording; None if not all is known."""
        older, self._older = self._older, []
        gone_ns, self._gone_ns = self._gone_ns, {}
        if not self._knows_all:
            return None
        rows = [each.as_row(gone_ns) for each in older]
        found = _Reached()
        kept = {row.address for row in rows if row.is_in_use}
        new = {address: reached for address, reached in found.storages.items() if address not in kept}
        if _growth_bytes(rows, new) >= LEAST_GROWTH_BYTES:
            self._new[cycle] = {address: [*map(weakref.ref, each.objects.values())] for address, each in new.items()}
        rows += [
            LiveStorage(address=address, size_bytes=reached.size_bytes, is_older=False, is_in_use=True)
            for address, reached in new.items()
        ]
        return tuple(rows) if found.is_whole else None

    def grew_in(self, cycle: int) -> bool:
        """Return whether there was more of some size after a recording than before."""
        return cycle in self._new

    def held_until(self, free: Callable[[], None], cycle: int) -> frozenset[int]:
        """Call ``free``, and return the addresses of what was new after the recording and has gone by this call.

        torch's events keep the tensors that torch.func has wrapped, although the program lets them go.
        """
        new = self._new.pop(cycle, {})
        before = _in_use(new)
        free()
        return before - _in_use(new)

    def _watched(self, address: int, reached: _Storage) -> _Older:
        """Return a storage without what holds it, which notes when that goes."""
        refs = [weakref.ref(storage, self._note_gone) for storage in reached.objects.values()]
        return _Older(address=address, size_bytes=reached.size_bytes, objects=refs)

    def _note_gone(self, ref: weakref.ref[torch.UntypedStorage]) -> None:
        self._gone_ns[id(ref)] = perf_counter_ns()


@dataclass(slots=True)
class _Storage:
    """Memory that was reached, and torch's objects for it by id: several if one shares the memory of another."""

    size_bytes: int = 0
    objects: dict[int, torch.UntypedStorage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Older:
    """Memory from before a recording, by weak references to its storages."""

    address: int
    size_bytes: int
    objects: _Refs

    def as_row(self, gone_ns: dict[int, int]) -> LiveStorage:
        """Return whether it is still in use, and when the last of its storages went.

        A storage that was made larger or smaller is elsewhere: it released its memory at a time that is not known. So
        did a storage that went while torch kept its object.
        """
        times = [gone_ns[id(ref)] for ref in self.objects if id(ref) in gone_ns]
        return LiveStorage(
            address=self.address,
            size_bytes=self.size_bytes,
            is_older=True,
            is_in_use=any(storage.data_ptr() == self.address for storage in _left(self.objects)),
            gone_ns=max(times) if len(times) == len(self.objects) else None,
        )


def _left(refs: Iterable[weakref.ref[torch.UntypedStorage]]) -> Iterator[torch.UntypedStorage]:
    """Yield the storages that still have their memory."""
    return (storage for ref in refs if (storage := storage_behind(ref)) is not None)


def _in_use(storages: dict[int, _Refs]) -> frozenset[int]:
    """Return the addresses of those that still have their memory."""
    return frozenset(address for address, refs in storages.items() if any(_left(refs)))


def _growth_bytes(older: list[LiveStorage], new: dict[int, _Storage]) -> int:
    """Return how many bytes are new beyond those that take the place of released ones of the same size."""
    more = Counter(each.size_bytes for each in new.values())
    more.subtract(row.size_bytes for row in older if not row.is_in_use)
    return sum(size_bytes * count for size_bytes, count in more.items() if count > 0)


class _Reached:
    """The storages of the host by address: of tensors, of their gradients, and in the graphs behind them."""

    def __init__(self) -> None:
        self.storages: dict[int, _Storage] = {}
        tensors = live_tensors()
        self.is_whole = len(tensors) <= MOST_TENSORS
        seen: set[object] = set()
        with unseen():
            for tensor in tensors[:MOST_TENSORS]:
                if is_wrapper(tensor):
                    continue
                self._add(tensor)
                for behind in _behind(tensor, seen):
                    self._add(behind)
        self.is_whole = self.is_whole and len(seen) < MOST_NODES

    def _add(self, tensor: torch.Tensor) -> None:
        """Note the storage of a tensor."""
        try:
            if tensor.device.type != "cpu":
                return
            address, storage = storage_address(tensor), tensor.untyped_storage()
            size_bytes = storage.nbytes()
        except RuntimeError:  # it has no storage
            return
        if address and size_bytes:
            known = self.storages.setdefault(address, _Storage())
            known.size_bytes = max(known.size_bytes, size_bytes)
            known.objects[id(storage)] = storage


def _behind(tensor: torch.Tensor, seen: set[object]) -> Iterator[torch.Tensor]:
    """Yield the gradient of a tensor, and what the graphs of both keep."""
    gradient = gradient_of(tensor)
    if gradient is not None:
        yield gradient
    for one in (tensor, gradient):
        if one is not None and one.grad_fn is not None:
            for node in graph_nodes(one.grad_fn, seen, MOST_NODES):
                yield from kept_by_node(node)
