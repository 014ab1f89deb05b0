"""Where the storages of tensors are in memory, and which tensors there are."""

from __future__ import annotations

import gc
from collections import UserDict
from itertools import compress, islice
from typing import TYPE_CHECKING, Any

import torch

from torchprof_magic.system.process.lookups import attributes_of, derives, is_a

if TYPE_CHECKING:
    import weakref
    from collections.abc import Iterable, Iterator

# So many values of the arguments of a model, or of the state of one parameter, are looked at to find tensors.
MAX_VALUES = 100


def storage_address(tensor: torch.Tensor) -> int:
    """Return the address of the first byte of a tensor's storage, which is that of its block in torch's records.

    Raises ``RuntimeError`` for a tensor without a storage: a sparse or lazy one, or a wrapper.
    """
    if is_wrapper(tensor):
        raise RuntimeError("the tensor is a wrapper")
    return int(tensor.data_ptr() - tensor.storage_offset() * tensor.element_size())


def storage_behind(ref: weakref.ref[torch.UntypedStorage]) -> torch.UntypedStorage | None:
    """Return the storage that a weak reference is to, or None if its memory was released.

    torch 2.4 holds the object of a storage that only tensors use, and has to be told of a reference that did not come
    from torch: otherwise it warns when the storage goes, and whoever uses the object then may crash. It also keeps the
    object of a storage that processes share when its memory is released. Both are left to torch, which looks up the
    storage at its address, as ``torch.multiprocessing`` does.
    """
    found = ref()
    at = found._cdata if found is not None else 0  # noqa: SLF001 - no public name
    return torch.UntypedStorage._new_with_weak_ptr(at) if at else None  # noqa: SLF001 - no public name


def is_plain(kind: type) -> bool:
    """Return whether objects of this type are tensors of torch, without code of another class."""
    return kind is torch.Tensor or kind is torch.nn.Parameter


def is_wrapper(tensor: torch.Tensor) -> bool:
    """Return whether a class in Python does the work of a tensor, as for fake ones: torch warns of their addresses."""
    if is_plain(type(tensor)):
        return False
    return bool(torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.Python))  # noqa: SLF001 - no public name


def live_tensors() -> list[torch.Tensor]:
    """Return the tensors that are objects of Python, in no order."""
    objects = gc.get_objects()
    # By their ids: a metaclass may have its own ``__hash__`` and ``__eq__``. Half a million objects are usual.
    kinds = set(map(id, _derived(torch.Tensor)))
    return list(compress(objects, map(kinds.__contains__, map(id, map(type, objects)))))


def _derived(base: type) -> Iterator[type]:
    """Yield a class and all classes that derive from it, without methods that a metaclass redefines."""
    below: type
    open_classes, seen = [base], {id(base)}
    while open_classes:
        one = open_classes.pop()
        yield one
        for below in type.__subclasses__(one):
            if id(below) not in seen:
                seen.add(id(below))
                open_classes.append(below)


def gradient_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the gradient of a leaf, which no object of Python refers to."""
    return tensor.grad if tensor.is_leaf and tensor.requires_grad else None


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """Yield the tensors in a value and in the lists, tuples and dictionaries in it; not all of many."""
    open_values, looked_at = [value], 0
    while open_values and looked_at < MAX_VALUES:
        looked_at += 1
        one = open_values.pop()
        if is_a(one, torch.Tensor):
            yield one
        else:
            open_values.extend(reversed(values_in(one, MAX_VALUES)))


def values_in(value: Any, most: int | None) -> list[object]:
    """Return the first values of a list, tuple or dictionary, or all, without methods that a class redefines."""
    if derives(value, UserDict):
        value = attributes_of(value).get("data")
    values: Iterable[object] = ()
    if is_a(value, dict):
        values = dict.values(value)
    elif is_a(value, list):
        values = list.__iter__(value)
    elif is_a(value, tuple):
        values = tuple.__iter__(value)
    return list(islice(values, most))
