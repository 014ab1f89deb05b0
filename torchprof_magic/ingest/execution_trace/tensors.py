"""The tensors among the inputs and outputs of an op, and a text of all of its values."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from torchprof_magic.model.meta import MAX_TEXT, encodable, shortened
from torchprof_magic.model.trace import MAX_NAME_CHARS

if TYPE_CHECKING:
    from collections.abc import Iterator

_TENSOR = "Tensor("
_LIST = "GenericList["
_FIELDS = 6  # of a tensor: its id, storage, offset, elements, bytes of an element, device
_MOST = 1 << 50
_MAX_DEPTH = 8


class GraphTensor(NamedTuple):
    """One tensor that an op gets or gives back; a row of ``graph_tensors``."""

    op: int
    role: str
    position: int
    tensor: int
    storage: int
    offset: int
    size_bytes: int
    dtype: str
    shape: str
    device: str


def tensors_of(values: list[Any], shapes: list[Any], types: list[Any], *, op: int, role: str) -> Iterator[GraphTensor]:
    """Yield the tensors, also those in lists, with the position of their argument."""
    for position, (value, shape, kind) in enumerate(zip_longest(values, shapes, types)):
        for fields, size, dtype in _found(value, shape, kind, 0):
            tensor, storage, offset, elements, element_bytes = fields[: _FIELDS - 1]
            device = encodable(shortened(str(fields[_FIELDS - 1]), MAX_TEXT))
            yield GraphTensor(
                op, role, position, tensor, storage, offset, elements * element_bytes, dtype, _shape(size), device
            )


def _found(value: Any, shape: Any, kind: Any, depth: int) -> Iterator[tuple[list[Any], Any, str]]:
    if not isinstance(value, list) or not isinstance(kind, str) or depth > _MAX_DEPTH:
        return
    if kind.startswith(_TENSOR) and _is_tensor(value):
        yield value, shape, shortened(encodable(kind[len(_TENSOR) :].removesuffix(")")), MAX_TEXT)
    elif kind.startswith(_LIST) and _TENSOR in kind:
        shapes = shape if isinstance(shape, list) else []
        for item, size, inner in zip_longest(value, shapes, _split(kind[len(_LIST) :].removesuffix("]"))):
            yield from _found(item, size, inner, depth + 1)


def _is_tensor(value: list[Any]) -> bool:
    numbers = value[: _FIELDS - 1]
    are_numbers = all(isinstance(number, int) and not isinstance(number, bool) for number in numbers)
    return (
        len(value) == _FIELDS
        and are_numbers
        and all(0 <= number < _MOST for number in numbers)
        and (numbers[3] * numbers[4] < _MOST)
    )


def _split(kinds: str) -> list[str]:
    """Return the types of a list's items, which are separated by commas outside of brackets."""
    found, depth, start = [], 0, 0
    for at, char in enumerate(kinds):
        depth += (char in "[(") - (char in "])")
        if char == "," and depth == 0:
            found.append(kinds[start:at])
            start = at + 1
    return [*found, kinds[start:]]


def _shape(size: Any) -> str:
    sizes = size if isinstance(size, list) else []
    return shortened(f"[{', '.join(str(each) for each in sizes if isinstance(each, int))}]", MAX_TEXT)


def text_of(values: list[Any], shapes: list[Any], types: list[Any]) -> str:
    """Return the values as a text: of a tensor its number, type and shape, such as ``#5 float [4, 3]``."""
    texts = [_value(value, shape, kind) for value, shape, kind in zip_longest(values, shapes, types)]
    return encodable(shortened(", ".join(texts), MAX_NAME_CHARS))


def _value(value: Any, shape: Any, kind: Any) -> str:
    found = list(_found(value, shape, kind, 0))
    texts = [f"#{fields[0]} {dtype} {_shape(size)}" for fields, size, dtype in found]
    if texts:
        return texts[0] if str(kind).startswith(_TENSOR) else f"[{', '.join(texts)}]"
    return "None" if value == "<None>" else shortened(str(value), MAX_TEXT)
