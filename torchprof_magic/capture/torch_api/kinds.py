"""Which values of a program are tensors and models, told by their types alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from torchprof_magic.system.process.lookups import is_a

if TYPE_CHECKING:
    from collections.abc import Iterable

TENSOR_METHODS = frozenset(name for name in dir(torch.Tensor) if not name.startswith("_"))


def is_tensor(value: object) -> bool:
    """Return whether a value is a tensor."""
    return is_a(value, torch.Tensor)


def is_model(value: object) -> bool:
    """Return whether a value is a module of torch, or a class of such."""
    return is_a(value, torch.nn.Module) or (is_a(value, type) and issubclass(value, torch.nn.Module))


def holds_tensor(value: object) -> bool:
    """Return whether a value is a tensor, or a tuple, list or dictionary with one in it."""
    items: Iterable[object] = (value,)
    if isinstance(value, dict) and type(value) is dict:
        items = tuple(value.values())
    elif isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        items = value
    return any(map(is_tensor, items))
