"""Embeddings, and what reads or writes chosen elements."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from torchprof_magic.facts.ops.formulas.inputs import Inputs, Tensor
from torchprof_magic.facts.ops.formulas.work import Formula, Work, bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable

_GROUP = "Embeddings and indexing"


def _embedding(inputs: Inputs) -> Work:
    weight, indices = inputs.tensor(0, 2), inputs.tensor(1)
    rows = Tensor([*indices.dims, weight.dims[1]], weight.dtype)
    return Work(0, bytes_of([rows, rows, indices]), weight.dtype)


def _bag_backward(inputs: Inputs) -> Work:
    """Return the work of adding the gradient of each bag to those of its rows; the rest of the weight is zeroed."""
    gradient, indices, bags = inputs.tensor(0, 2), inputs.tensor(1, 1), inputs.tensor(2, 1)
    weight = Tensor([inputs.number(5), gradient.dims[-1]], gradient.dtype)
    return Work(indices.numel * gradient.dims[-1], bytes_of([gradient, indices, bags, weight]), gradient.dtype)


def _embedding_backward(inputs: Inputs) -> Work:
    """Return the work of adding each row of the gradient to that of its index; the rest of the weight is zeroed."""
    gradient, indices = inputs.tensor(0), inputs.tensor(1)
    weight = Tensor([inputs.number(2), gradient.dims[-1]], gradient.dtype)
    return Work(gradient.numel, bytes_of([gradient, indices, weight]), gradient.dtype)


def _bag(inputs: Inputs) -> Work:
    """Return the work of reading the rows of all bags, and of adding up those of each."""
    weight, indices, offsets = inputs.tensor(0, 2), inputs.tensor(1, 1), inputs.tensor(2, 1)
    read = Tensor([indices.numel, weight.dims[1]], weight.dtype)
    out = Tensor([offsets.numel, weight.dims[1]], weight.dtype)
    return Work(read.numel, bytes_of([read, indices, offsets, out]), weight.dtype)


def _index_select(inputs: Inputs) -> Work:
    x, indices = inputs.tensor(0), inputs.tensor(2)
    dim = inputs.number(1) % len(x.dims)
    out = Tensor([*x.dims[:dim], indices.numel, *x.dims[dim + 1 :]], x.dtype)
    return Work(0, bytes_of([out, out, indices]), x.dtype)


def _gather(inputs: Inputs) -> Work:
    x, indices = inputs.tensor(0), inputs.tensor(2)
    out = Tensor(indices.dims, x.dtype)
    return Work(0, bytes_of([out, out, indices]), x.dtype)


def _index(inputs: Inputs) -> Work:
    """Return the work of a lookup by tensors of indices, which torch records only as a list."""
    x, indices = inputs.tensor(0), [each for each in inputs.listed(1) if each.dims]
    if len(indices) > len(x.dims) or not indices:
        raise ValueError("the inputs do not fit to one another")
    picked = max(indices, key=lambda each: each.numel).dims
    out = Tensor([*picked, *x.dims[len(indices) :]], x.dtype)
    return Work(0, bytes_of([out, out, *(Tensor(each.dims, "long int") for each in indices)]), x.dtype)


def _scatter(inputs: Inputs, *, adds: bool, copies: bool = False) -> Work:
    """Return the work of writing chosen elements, read before where something is added to them.

    Where the result is a new tensor, all of the first is read, and as much is written.
    """
    x, indices, source = inputs.tensor(0), inputs.tensor(2), inputs.operand(3)
    count = source.numel if source and source.dims else prod(indices.dims)
    written = Tensor([count], x.dtype)
    changed = [x, x] if copies else [written, *[written] * adds]
    moved = [*changed, indices, *([source] if source else [])]
    return Work(count * adds, bytes_of(moved), x.dtype)


def _store(inputs: Inputs) -> Work:
    """Return the work of writing new keys and values into the pages of a cache."""
    key, value = inputs.tensor(0), inputs.tensor(1)
    slots = inputs.tensor(4, 1)
    return Work(0, bytes_of([key, value, key, value, slots]), key.dtype)


def _store_latent(inputs: Inputs) -> Work:
    """Return the work of writing what keys and values of multi-head latent attention share into pages of a cache."""
    latent, key = inputs.tensor(0), inputs.tensor(1)
    slots = inputs.tensor(3, 1)
    return Work(0, bytes_of([latent, key, latent, key, slots]), latent.dtype)


def _row(ops: tuple[str, ...], flops: str, moves: str, work: Callable[[Inputs], Work]) -> Formula:
    return Formula(group=_GROUP, ops=ops, flops=flops, moves=moves, work=work)


_PICKED = "the chosen elements, read and written, and the indices"
FORMULAS = (
    _row(("aten::embedding",), "none", _PICKED, _embedding),
    _row(
        ("aten::embedding_dense_backward",),
        "1 an element of the gradient of the output",
        "that, the indices, and the gradient of the whole weight",
        _embedding_backward,
    ),
    _row(
        ("aten::_embedding_bag", "aten::_embedding_bag_forward_only"),
        "1 an element of the rows",
        "the rows of all bags, the sums, the indices and where each bag begins",
        _bag,
    ),
    _row(
        ("aten::_embedding_bag_dense_backward",),
        "1 an element of the rows",
        "the gradient of the output, the indices and the bag of each, and the gradient of the whole weight",
        _bag_backward,
    ),
    _row(("aten::index_select",), "none", _PICKED, _index_select),
    _row(("aten::gather", "aten::take_along_dim"), "none", _PICKED, _gather),
    _row(("aten::index",), "none", _PICKED, _index),
    _row(
        ("aten::scatter", "aten::index_copy"),
        "none",
        "the whole input, read and written, the indices and the source",
        lambda inputs: _scatter(inputs, adds=False, copies=True),
    ),
    _row(
        ("aten::scatter_add", "aten::index_add"),
        "1 an element of the source",
        "the whole input, read and written, the indices and the source",
        lambda inputs: _scatter(inputs, adds=True, copies=True),
    ),
    _row(
        ("aten::scatter_", "aten::index_copy_"),
        "none",
        "the indices, what is written, and its source",
        lambda inputs: _scatter(inputs, adds=False),
    ),
    _row(
        ("aten::scatter_add_", "aten::index_add_"),
        "1 an element of the source",
        "the indices, the source, and the elements that it is added to, read and written",
        lambda inputs: _scatter(inputs, adds=True),
    ),
    _row(
        ("_C_cache_ops::reshape_and_cache", "_C_cache_ops::reshape_and_cache_flash"),
        "none",
        "keys and values, read and written, and where each belongs",
        _store,
    ),
    _row(
        ("_C_cache_ops::concat_and_cache_mla",),
        "none",
        "what is stored, read and written, and where each belongs",
        _store_latent,
    ),
)
