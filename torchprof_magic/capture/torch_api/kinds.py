"""Which values of a program are tensors and models, told by their types alone."""

from __future__ import annotations

from typing import Any

import torch

from torchprof_magic.system.process.lookups import is_a

TENSOR_METHODS = frozenset(name for name in dir(torch.Tensor) if not name.startswith("_"))


def is_tensor(value: object) -> bool:
    """Return whether a value is a tensor."""
    return is_a(value, torch.Tensor)


def is_parameter(value: object) -> bool:
    """Return whether a value is a parameter of a model."""
    return is_a(value, torch.nn.Parameter)


def is_model(value: object) -> bool:
    """Return whether a value is a module of torch, or a class of such."""
    return is_a(value, torch.nn.Module) or (is_a(value, type) and issubclass(value, torch.nn.Module))


def holds_tensor(value: Any) -> bool:
    """Return whether a value is a tensor, or a tuple, list or dictionary with one in it."""
    # By ``type``: ``isinstance`` asks a property of the user's class, and a subclass may iterate in its own way.
    items: Any = value if type(value) in (tuple, list) else (value,)
    if type(value) is dict:
        items = value.values()
    return any(map(is_tensor, items))
