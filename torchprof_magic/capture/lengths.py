"""How many items a loop will get, where this is known without running code that the loop does not run, too."""

from __future__ import annotations

import itertools
import operator
from array import array
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from torchprof_magic.capture.torch_api.patching import unseen
from torchprof_magic.system.process.lookups import attributes_of, definer, derives, module_of
from torchprof_magic.system.process.python_warnings import warnings_to

if TYPE_CHECKING:
    from collections.abc import Callable

_DICT: dict[int, int] = {}
_ORDERED: OrderedDict[int, int] = OrderedDict()
_VIEWS = tuple(type(view) for one in (_DICT, _ORDERED) for view in (one.keys(), one.values(), one.items()))
_CONTAINERS = (list, tuple, dict, OrderedDict, set, frozenset, range, str, bytes, bytearray, deque, array, *_VIEWS)
# Iterators of C that know how much is left.
_FORWARD: tuple[Any, ...] = (
    *([], (), set(), range(0), range(2**70), "", "\N{LATIN SMALL LETTER E WITH ACUTE}", b"", bytearray(), deque()),
    *(_DICT, _DICT.values(), _DICT.items(), itertools.repeat(0)),
)
_BACKWARD: tuple[Any, ...] = ([], range(0), range(2**70), deque(), _DICT, _DICT.values(), _DICT.items())
_ITERATORS = (*(type(iter(one)) for one in _FORWARD), *(type(reversed(one)) for one in _BACKWARD))
# Types are compared by ``is``, here and below: a metaclass may have its own ``__eq__`` and ``__hash__``.
_WRAPPERS: tuple[tuple[type, Callable[[Any], tuple[object, ...]]], ...] = (
    (enumerate, lambda one: one.__reduce__()[1][:1]),
    (zip, lambda one: one.__reduce__()[1]),
    (map, lambda one: one.__reduce__()[1][1:]),
)
_BARS = "tqdm"
_MOST_WRAPPERS = 10
_SHARED_SAMPLES = (RandomSampler, WeightedRandomSampler, DistributedSampler)


def count_ahead(iterable: object, depth: int = 0) -> int | None:
    """Return the number of items, also inside ``enumerate``, ``zip``, ``map``, ``reversed`` and ``tqdm``.

    Only what Python and torch themselves define is asked: a ``__len__`` of the user's may be slow, warn, or raise. But
    for a map-style dataset in a DataLoader, which torch asks as well. The number is an upper bound where one of several
    iterables is not known.
    """
    if depth > _MOST_WRAPPERS:
        return None
    asked = (_of_wrapper, _of_iterator, _of_container, _of_bar, _of_loader)
    answers = (ask(iterable, depth) for ask in asked)
    return next((length for length in answers if length is not None), None)


def _of_wrapper(iterable: Any, depth: int) -> int | None:
    kind = type(iterable)
    if kind is reversed:
        state = iterable.__reduce__()
        return int(state[2]) + 1 if len(state) > 2 else 0  # noqa: PLR2004 - the index of its next item, while it has one
    for wrapper, inside in _WRAPPERS:
        if kind is wrapper:
            lengths = [length for part in inside(iterable) if (length := count_ahead(part, depth + 1)) is not None]
            return min(lengths, default=None)
    return None


def _of_iterator(iterable: object, _depth: int) -> int | None:
    kind = type(iterable)
    return _hinted(iterable) if any(kind is known for known in _ITERATORS) else None


def _of_container(iterable: Any, _depth: int) -> int | None:
    kind = type(iterable)
    if not _is_as_in(kind, *_CONTAINERS):
        return _rows(iterable)
    owner: Any = definer(kind, "__len__")
    return int(owner.__len__(iterable))


def _of_bar(iterable: object, depth: int) -> int | None:
    """Return the length of a progress bar of tqdm, in which no subclass replaces the iterator."""
    kind = type(iterable)
    modules = (module_of(definer(kind, name)) for name in ("__len__", "__iter__"))
    if any(module.partition(".")[0] != _BARS for module in modules):
        return None
    bar = attributes_of(iterable)
    length = count_ahead(bar.get("iterable"), depth + 1)
    return _number(bar.get("total")) if length is None else length


def _of_loader(iterable: object, _depth: int) -> int | None:
    return _batches(attributes_of(iterable)) if _is_as_in(type(iterable), DataLoader) else None


def _hinted(iterator: object) -> int | None:
    try:
        length = operator.length_hint(iterator, -1)
    except TypeError:  # itertools.repeat without an end
        return None
    return length if length >= 0 else None


def _is_as_in(kind: type, *known: type) -> bool:
    """Return whether a type has its length and its iterator from these, whatever else a subclass adds."""
    owners = (definer(kind, name) for name in ("__len__", "__iter__"))
    return all(any(owner is one for one in known) for owner in owners)


def _batches(loader: dict[str, Any]) -> int | None:
    """Return the number of batches of a DataLoader, from its attributes."""
    if derives(loader.get("dataset"), IterableDataset):
        return None
    batches, sampler = loader.get("batch_sampler"), loader.get("sampler")
    if batches is None:
        return _samples(sampler)
    if not _is_as_in(type(batches), BatchSampler):
        return count_ahead(batches, _MOST_WRAPPERS)
    own = attributes_of(batches)
    samples, size = _samples(own.get("sampler")), _number(own.get("batch_size"))
    if samples is None or not size:
        return None
    return samples // size if own.get("drop_last") is True else -(-samples // size)


def _samples(sampler: object) -> int | None:
    """Return the number of samples that a sampler of torch yields."""
    kind, own = type(sampler), attributes_of(sampler)
    if _is_as_in(kind, SequentialSampler):
        return _size(own.get("data_source"))
    if _is_as_in(kind, SubsetRandomSampler):
        return _size(own.get("indices"))
    if _is_as_in(kind, *_SHARED_SAMPLES):
        chosen = _number(own.get("_num_samples", own.get("num_samples")))
        return _size(own.get("data_source")) if chosen is None else chosen
    return count_ahead(sampler, _MOST_WRAPPERS)


def _size(data: object) -> int | None:
    """Return the number of samples in a dataset, or in what else a sampler of torch draws from.

    The samplers ask for this length themselves when a loop begins, so it is asked of the user's classes, too.
    """
    of, own = definer(type(data), "__len__"), attributes_of(data)
    if of is TensorDataset:
        return _rows(next(iter(own.get("tensors", ())), None))
    if of is Subset:
        return _size(own.get("indices"))
    if of is ConcatDataset:
        return _number(next(reversed(own.get("cumulative_sizes", [0])), 0))
    if of is StackDataset:
        return _number(own.get("_length"))
    known = count_ahead(data, _MOST_WRAPPERS)
    return _asked(data) if known is None else known


def _asked(data: Any) -> int | None:
    """Return the length that a class of the user's tells; what it warns of or raises is for the loop to show."""
    try:
        with warnings_to():
            return len(data)
    except Exception:  # noqa: BLE001 - it may raise anything
        return None


def _rows(array_: Any) -> int | None:
    """Return the first size of a plain tensor or array, without telling the modes of the program."""
    if type(array_) is not torch.Tensor and type(array_) is not np.ndarray:
        return None
    with unseen():
        return next(iter(array_.shape), None)


def _number(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None
