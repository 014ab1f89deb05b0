"""What the nodes of a graph of autograd keep in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from torchprof_magic.capture.torch_api.storages import tensors_in

if TYPE_CHECKING:
    from collections.abc import Iterator

_SAVED = "_raw_saved_"
_NAMES: dict[type, tuple[str, ...]] = {}


def graph_nodes(root: Any, seen: set[Any], most: int) -> Iterator[Any]:
    """Yield the nodes behind one, itself first, that are not in ``seen``, and add them to it, until it has ``most``."""
    if root in seen:
        return
    seen.add(root)
    open_nodes = [root]
    while open_nodes:
        one = open_nodes.pop()
        yield one
        for following, _ in one.next_functions:
            if following is not None and following not in seen and len(seen) < most:
                seen.add(following)
                open_nodes.append(following)


def kept_by_node(node: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors that a node has saved, and those in attributes of the ``ctx`` of a function of the user's.

    What hooks have packed is not looked at.
    """
    for name in _saved_names(type(node)):
        try:
            value = getattr(node, name, None)
        except RuntimeError:  # backward has released them
            continue
        for saved in value if isinstance(value, (tuple, list)) else (value,):
            if saved is None or getattr(saved, "unpack_hook", None) is not None:
                continue
            tensor = getattr(saved, "data", None)
            if isinstance(tensor, torch.Tensor):
                yield tensor
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        yield from tensors_in(vars(node))


def _saved_names(node: type) -> tuple[str, ...]:
    if node not in _NAMES:
        _NAMES[node] = tuple(name for name in dir(node) if name.startswith(_SAVED))
    return _NAMES[node]
