"""Sorting, searching and selecting."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from torchprof_magic.facts.ops.formulas.inputs import Inputs, Tensor
from torchprof_magic.facts.ops.formulas.work import Formula, Work, bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable

_GROUP = "Sorting, searching and selecting"
_NONE = "none: comparisons are no arithmetic"
_INDEX = "long int"


def _sort(inputs: Inputs) -> Work:
    x = inputs.tensor(0)
    return Work(0, bytes_of([x, x, Tensor(x.dims, _INDEX)]), x.dtype)


def _largest(inputs: Inputs) -> Work:
    """Return the work of finding the ``k`` largest values along a dimension."""
    x = inputs.tensor(0)
    found = list(x.dims)
    found[inputs.number(2)] = inputs.number(1)
    return Work(0, bytes_of([x, Tensor(found, x.dtype), Tensor(found, _INDEX)]), x.dtype)


def _searched(sorted_at: int, values_at: int) -> Callable[[Inputs], Work]:
    """Return the formula of a search in sorted numbers, of which each value reads a few: they are counted once."""

    def work(inputs: Inputs) -> Work:
        edges, values = inputs.tensor(sorted_at), inputs.tensor(values_at)
        return Work(0, bytes_of([edges, values, Tensor(values.dims, _INDEX)]), values.dtype)

    return work


def _read(*places: int) -> Callable[[Inputs], Work]:
    """Return the formula of an op whose result is as large as its values say: what is read, at least."""

    def work(inputs: Inputs) -> Work:
        tensors = [inputs.tensor(place) for place in places]
        return Work(0, bytes_of(tensors), tensors[0].dtype)

    return work


def _stored(inputs: Inputs) -> Work:
    """Return the work of writing values at indices, read before where they are added."""
    x, values = inputs.tensor(0), inputs.tensor(2)
    indices = [each for each in inputs.listed(1) if each.dims]
    if not indices:
        raise ValueError("the indices were not recorded")
    picked = max(indices, key=lambda each: each.numel).dims
    written = Tensor([prod([*picked, *x.dims[len(indices) :]])], x.dtype)
    adds = inputs.is_true(3)
    moved = [values, written, *[written] * adds, *(Tensor(each.dims, _INDEX) for each in indices)]
    return Work(written.numel * adds, bytes_of(moved), x.dtype)


def _reduced(inputs: Inputs) -> Work:
    x, indices, source = inputs.tensor(0), inputs.tensor(2), inputs.tensor(3)
    written = Tensor([source.numel], x.dtype)
    return Work(source.numel, bytes_of([written, written, indices, source]), x.dtype)


def _row(ops: tuple[str, ...], flops: str, moves: str, work: Callable[[Inputs], Work]) -> Formula:
    return Formula(group=_GROUP, ops=ops, flops=flops, moves=moves, work=work)


FORMULAS = (
    _row(("aten::sort",), _NONE, "input and output, and indices of 8 bytes", _sort),
    _row(("aten::topk",), _NONE, "input, and the values that are found with indices of 8 bytes", _largest),
    _row(("aten::searchsorted",), _NONE, "both inputs, and indices of 8 bytes", _searched(0, 1)),
    _row(("aten::bucketize",), _NONE, "both inputs, and indices of 8 bytes", _searched(1, 0)),
    _row(
        (
            "aten::nonzero",
            "aten::_unique2",
            "aten::unique_consecutive",
            "aten::unique_dim",
            "aten::bincount",
            "aten::histc",
            "aten::kthvalue",
            "aten::mode",
            "aten::multinomial",
        ),
        _NONE,
        "the input; how much is written depends on its values",
        _read(0),
    ),
    _row(("aten::masked_select",), _NONE, "input and mask; how much is written depends on them", _read(0, 1)),
    _row(
        ("aten::index_put_", "aten::_index_put_impl_", "aten::index_put"),
        "1 an element that is written, if it is added",
        "the values, the indices, and what is written, read before if it is added",
        _stored,
    ),
    _row(
        ("aten::scatter_reduce", "aten::scatter_reduce_", "aten::index_reduce", "aten::index_reduce_"),
        "1 an element of the source",
        "the indices, the source, and the elements that it is joined with, read and written",
        _reduced,
    ),
)
