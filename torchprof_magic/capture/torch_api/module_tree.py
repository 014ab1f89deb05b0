"""The modules in a module, and their parameters and buffers, with their names as torch gives them.

``named_modules`` and its like can be replaced by the user's classes, and call each other on every module; this reads
where torch keeps them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from torchprof_magic.system.process.lookups import attributes_of, is_a

if TYPE_CHECKING:
    from collections.abc import Iterator


def named_modules(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield a module and all that are in it, each once, with its path; that of the first is empty."""
    seen: set[int] = set()
    open_modules = [("", module)]
    while open_modules:
        path, one = open_modules.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield path, one
        inside = [(_joined(path, name), child) for name, child in _entries(one, "_modules")]
        open_modules += reversed([(name, child) for name, child in inside if is_a(child, torch.nn.Module)])


def paths_of_modules(module: torch.nn.Module) -> Iterator[tuple[str, str, str]]:
    """Yield all paths of the modules in a module, their classes, and the path that ``named_modules`` has for each."""
    first = {id(one): path for path, one in named_modules(module)}
    for path, one in named_modules(module):
        for name, child in _entries(one, "_modules"):
            if id(child) in first:
                yield _joined(path, name), type(child).__name__, first[id(child)]


def named_parameters(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Return the parameters of a module and of all that are in it, each once."""
    return list(_named_tensors(module, "_parameters"))


def named_buffers(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Return the buffers of a module and of all that are in it, each once."""
    return list(_named_tensors(module, "_buffers"))


def _named_tensors(module: torch.nn.Module, kept_in: str) -> Iterator[tuple[str, torch.Tensor]]:
    seen: set[int] = set()
    for path, one in named_modules(module):
        for name, tensor in _entries(one, kept_in):
            if id(tensor) not in seen and is_a(tensor, torch.Tensor):
                seen.add(id(tensor))
                yield _joined(path, name), tensor


def _entries(module: torch.nn.Module, kept_in: str) -> list[tuple[str, Any]]:
    """Return what torch keeps in a module: in a dictionary, or in its own stand-in for one in a scripted module."""
    kept: Any = attributes_of(module).get(kept_in)
    return [] if kept is None else list(kept.items())


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
