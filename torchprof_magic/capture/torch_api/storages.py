"""Where the storages of tensors are in memory, and which tensors there are."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from itertools import islice

import torch

# So many values of the arguments of a model, or of the state of one parameter, are looked at to find tensors.
MAX_VALUES = 100


def storage_address(tensor: torch.Tensor) -> int:
    """Return the address of the first byte of a tensor's storage, which is that of its block in torch's records.

    Raises ``RuntimeError`` for a tensor without a storage: a sparse or lazy one, or a wrapper.
    """
    return int(tensor.data_ptr() - tensor.storage_offset() * tensor.element_size())


def live_tensors() -> list[torch.Tensor]:
    """Return the tensors that are objects of Python, in no order."""
    objects = gc.get_objects()
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, torch.Tensor)}
    return [value for value in objects if type(value) in kinds]


def gradient_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the gradient of a leaf, which no object of Python refers to."""
    return tensor.grad if tensor.is_leaf and tensor.requires_grad else None


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """Yield the tensors in a value and in the lists, tuples and mappings in it; not all of many."""
    open_values, looked_at = [value], 0
    while open_values and looked_at < MAX_VALUES:
        looked_at += 1
        one = open_values.pop()
        if isinstance(one, torch.Tensor):
            yield one
        elif isinstance(one, (tuple, list)):
            open_values.extend(reversed(one[:MAX_VALUES]))
        elif isinstance(one, Mapping):
            open_values.extend(reversed(list(islice(one.values(), MAX_VALUES))))
