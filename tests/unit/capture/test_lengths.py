"""The length of a loop is known without running code of the user's."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter, OrderedDict, deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import tqdm
import tqdm.auto
from torch.overrides import TorchFunctionMode
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from torchprof_magic.capture import count_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator

TEN = TensorDataset(torch.zeros(10, 2))


class Plain(list[int]):
    """A list with nothing of its own that matters here."""


class Asked(Exception):  # noqa: N818 - it is raised to be seen
    """The user's code was run."""


class Own:
    """An object of the user's that can be asked for its length in every way, and must not be."""

    asked = 0

    def _ask(self, *_: object) -> Any:
        type(self).asked += 1
        raise Asked

    __len__ = __length_hint__ = __reduce__ = __reduce_ex__ = __getattr__ = __bool__ = _ask  # type: ignore[assignment]
    __class__ = property(_ask)  # type: ignore[assignment]

    def __iter__(self) -> Iterator[int]:
        return iter(())

    def __getitem__(self, index: int) -> int:
        raise IndexError


class OwnList(list[int]):
    """A list with a length of the user's."""

    def __len__(self) -> int:
        raise Asked


class OwnIterator(list[int]):
    """A list that yields something else."""

    def __iter__(self) -> Iterator[int]:
        return iter((1, 2, 3))


class Indexed:
    """What ``iter`` and ``reversed`` accept for its ``__getitem__``."""

    is_ready = True

    def __len__(self) -> int:
        if not self.is_ready:
            raise Asked
        return 3

    def __getitem__(self, index: int) -> int:
        return range(3)[index]


class OwnDataset(Dataset[int]):
    """A dataset of the user's, which is slow to tell its length."""

    is_ready = True

    def __len__(self) -> int:
        if not self.is_ready:
            raise Asked
        return 4

    def __getitem__(self, index: int) -> int:
        return index


class OwnSampler(Sampler[int]):
    """A sampler of the user's."""

    def __len__(self) -> int:
        raise Asked

    def __iter__(self) -> Iterator[int]:
        return iter(range(4))


class Stream(IterableDataset[int]):
    """A dataset of whose length torch warns when it turns out wrong."""

    def __len__(self) -> int:
        raise Asked

    def __iter__(self) -> Iterator[int]:
        return iter(range(5))


class RenamedLoader(DataLoader[Any]):
    """A loader of another library that changes nothing but its arguments."""


@pytest.mark.parametrize(
    ("iterable", "expected"),
    [
        ([1, 2, 3], 3),
        (Plain([1, 2]), 2),
        (range(5), 5),
        ({1: 2}.items(), 1),
        (Counter("aab"), 2),
        (OrderedDict(a=1).values(), 1),
        (deque([1, 2]), 2),
        ("é", 1),
        (torch.Size([4, 5]), 2),
        (torch.zeros(3, 2), 3),
        (torch.zeros(()), None),
        (np.zeros((4, 1)), 4),
        (enumerate([1, 2]), 2),
        (enumerate(zip([1, 2, 3], [1, 2], strict=False)), 2),
        (zip([1, 2, 3], (i for i in range(2)), strict=False), 3),
        (map(str, range(3), range(2)), 2),
        (reversed([1, 2]), 2),
        (reversed((1, 2, 3)), 3),
        (iter([1, 2]), 2),
        (iter({1: 2}), 1),
        (itertools.repeat(1, 4), 4),
        (itertools.repeat(1), None),
        (tqdm.tqdm(enumerate([1, 2]), disable=True), 2),
        (tqdm.auto.tqdm(range(4), disable=True), 4),
        (tqdm.tqdm((i for i in range(3)), total=3, disable=True), 3),
        ((i for i in range(3)), None),
        (enumerate(i for i in range(3)), None),
        (itertools.chain([1], [2]), None),
        (5, None),
        (None, None),
    ],
)
def test_the_length_is_taken_from_what_python_and_tqdm_know(iterable: object, expected: int | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert count_ahead(iterable) == expected


def test_what_is_left_of_an_iterator_counts() -> None:
    iterator = reversed((1, 2, 3))
    next(iterator)
    assert count_ahead(iterator) == 2
    assert list(iterator) == [2, 1]
    assert count_ahead(iterator) == 0


@pytest.mark.parametrize(
    ("loader", "expected"),
    [
        (DataLoader(TEN, batch_size=3), 4),
        (DataLoader(TEN, batch_size=3, drop_last=True, shuffle=True), 3),
        (RenamedLoader(TEN, batch_size=5), 2),
        (DataLoader(TEN, batch_size=None), 10),
        (DataLoader([1, 2, 3]), 3),  # type: ignore[arg-type]
        (DataLoader(TEN, batch_sampler=[[1], [2, 3]]), 2),
        (DataLoader(TEN, batch_sampler=BatchSampler(SequentialSampler(range(7)), 2, drop_last=False)), 4),
        (DataLoader(Subset(TEN, [1, 2, 3]), batch_size=2), 2),
        (DataLoader(ConcatDataset([TEN, TEN]), batch_size=4), 5),
        (DataLoader(StackDataset(TEN, TEN), batch_size=4), 3),
        (DataLoader(TEN, sampler=RandomSampler(TEN, num_samples=5)), 5),
        (DataLoader(TEN, sampler=SubsetRandomSampler([1, 2])), 2),
        (DataLoader(TEN, sampler=WeightedRandomSampler([1.0] * 10, 7), batch_size=2), 4),
        (DataLoader(TEN, sampler=DistributedSampler(TEN, num_replicas=2, rank=0)), 5),
        (enumerate(DataLoader(TEN, batch_size=2)), None),  # its iterator is torch's, and asks the loader
        (DataLoader(Stream()), None),
    ],
)
def test_the_length_of_a_loader_is_what_torch_would_say(loader: Any, expected: int | None) -> None:
    assert count_ahead(loader) == expected
    if expected is not None:
        assert expected == len(loader)


def test_no_code_of_the_users_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    indexed, dataset = Indexed(), OwnDataset()
    unasked: list[object] = [
        *(Own(), enumerate(Own()), zip(Own(), Own(), strict=False), map(str, Own()), iter(indexed)),
        *(OwnList([1, 2]), OwnIterator([1]), [Own()], tqdm.tqdm(Own(), disable=True, total=2)),
        *(DataLoader(dataset), DataLoader(dataset, batch_size=2), DataLoader(dataset, shuffle=True)),
        *(DataLoader(TEN, sampler=OwnSampler()), DataLoader(TEN, batch_sampler=OwnSampler())),  # type: ignore[arg-type]
        *(DataLoader(Subset(dataset, OwnList([1]))), DataLoader(Stream(), batch_size=2), reversed(indexed)),
    ]
    monkeypatch.setattr(Indexed, "is_ready", False)
    monkeypatch.setattr(OwnDataset, "is_ready", False)
    monkeypatch.setattr(Own, "asked", 0)
    for iterable in unasked:
        count_ahead(iterable)
    assert Own.asked == 0


def test_a_function_mode_does_not_see_that_a_tensor_is_asked() -> None:
    seen: list[object] = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function)
            return function(*args, **(kwargs or {}))

    tensor, loader = torch.zeros(3), DataLoader(TEN)
    with Mode():
        assert count_ahead(tensor) == 3
        assert count_ahead(loader) == 10
    assert seen == []


def test_a_subclass_of_tensor_is_not_asked() -> None:
    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *_: Any, **__: Any) -> Any:
            raise Asked

    assert count_ahead(torch.zeros(3).as_subclass(Mine)) is None  # type: ignore[arg-type]
