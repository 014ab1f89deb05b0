"""What was recorded of the inputs of one call of an op: dimensions, types and values, by position."""

from __future__ import annotations

import json
import math
from typing import NamedTuple, TypeAlias

from torchprof_magic.model.dtypes import size_of_type

Dims: TypeAlias = list[int]
# The types of what is no tensor.
_NO_TENSOR = (
    "", "Scalar", "ScalarList", "TensorList", "GenericList", "Optional", "Device", "None", "Int", "Bool", "Double",
    "String",
)  # fmt: skip


class Tensor(NamedTuple):
    """One tensor: its dimensions, none for one without, and its type as torch wrote it, empty if not recorded."""

    dims: Dims
    dtype: str

    @property
    def numel(self) -> int:
        """The number of its elements."""
        return math.prod(self.dims)

    @property
    def item_bytes(self) -> int:
        """The bytes of an element; raises ``ValueError`` if its type is not known."""
        if not (size := size_of_type(self.dtype)):
            raise UnknownSizeError(f"the size of {self.dtype or 'an element'} is not known")
        return size

    @property
    def bytes(self) -> int:
        """The bytes of all elements."""
        return self.numel * self.item_bytes


class UnknownSizeError(ValueError):
    """The bytes of a call are not known, because the type of a tensor is not."""


class Inputs(NamedTuple):
    """The inputs of one call, by position: ``shapes`` of tensors, and ``values`` of what is not a tensor, as text.

    ``dtypes`` are the types of tensors as torch writes them. ``kernel_type`` is the type of the elements of lists of
    tensors, of which torch records none: that of the kernel, empty if not known. ``context`` is the annotation around
    the call that says which requests are served. ``gradient`` are the dimensions of what its backward pass gets, which
    are those of its result, and ``inside`` those of the tensors that ops inside the call look at; of the calls that
    say too little of themselves.
    """

    shapes: list[object]
    values: list[object]
    dtypes: list[object] = []  # noqa: RUF012 - never changed
    kernel_type: str = ""
    context: str = ""
    gradient: Dims = []  # noqa: RUF012 - never changed
    inside: list[Dims] = []  # noqa: RUF012 - never changed

    def dims(self, place: int, count: int | None = None) -> Dims:
        """Return the dimensions of a tensor; raise ``ValueError`` unless it is one, with ``count`` of them if given."""
        found = self.shapes[place]
        if not isinstance(found, list) or not found or not all(type(each) is int and each >= 0 for each in found):
            raise ValueError(f"input {place} is no tensor")
        if count is not None and len(found) != count:
            raise ValueError(f"input {place} has {len(found)} dimensions")
        return found

    def dtype(self, place: int) -> str:
        """Return the type of an input as torch wrote it, empty if it was not recorded."""
        found = self.dtypes[place] if place < len(self.dtypes) else ""
        return found if isinstance(found, str) else ""

    def tensor(self, place: int, count: int | None = None) -> Tensor:
        """Return a tensor, with ``count`` dimensions if given; raise ``ValueError`` unless it is one."""
        if count is None and self._is_single(place):
            return Tensor([], self.dtype(place))
        return Tensor(self.dims(place, count), self.dtype(place))

    def operand(self, place: int) -> Tensor | None:
        """Return a tensor, which may have no dimensions; None for a number and for what is not there."""
        if place >= len(self.shapes):
            return None
        return self.tensor(place) if self.shapes[place] or self._is_single(place) else None

    def tensors(self, *places: int) -> list[Tensor]:
        """Return those of some inputs that are tensors, also ones without dimensions."""
        return [found for place in places if (found := self.operand(place)) is not None]

    def all_tensors(self) -> list[Tensor]:
        """Return all inputs that are tensors with dimensions."""
        return [self.tensor(place) for place in range(len(self.shapes)) if self._is_dims(place)]

    def listed(self, place: int) -> list[Tensor]:
        """Return the tensors of a list; raise ``ValueError`` if it is none."""
        found = self.shapes[place]
        if not isinstance(found, list) or not found or not all(isinstance(each, list) for each in found):
            raise ValueError(f"input {place} is no list of tensors")
        recorded = self.dtypes[place] if place < len(self.dtypes) else None
        types = recorded if isinstance(recorded, list) and len(recorded) == len(found) else None
        return [Tensor(_dims(each), str(types[at]) if types else self.kernel_type) for at, each in enumerate(found)]

    def flags(self, place: int) -> list[bool]:
        """Return one or several values that are true or false; raise ``ValueError`` for others."""
        found = self.value(place)
        each = found if isinstance(found, list) else [found]
        flags = [flag for flag in each if isinstance(flag, bool)]
        if len(flags) != len(each):
            raise ValueError(f"input {place} is not true or false")
        return flags

    def is_true(self, place: int) -> bool:
        """Return whether a value was recorded as true."""
        return place < len(self.values) and str(self.values[place]).lower() == "true"

    def number(self, place: int) -> int:
        """Return a whole number; raise ``ValueError`` for others."""
        found = self.value(place)
        if type(found) is not int:
            raise ValueError(f"input {place} is no whole number")
        return found

    def numbers(self, place: int, count: int) -> Dims:
        """Return ``count`` whole numbers, of which one may stand for all; raise ``ValueError`` for others."""
        found = self.value(place)
        if not isinstance(found, list) or not all(type(each) is int for each in found):
            raise ValueError(f"input {place} is no list of numbers")
        if len(found) not in (1, count):
            raise ValueError(f"input {place} has {len(found)} numbers")
        return found * count if len(found) == 1 else found

    def value(self, place: int) -> object:
        """Return a value that is not a tensor; raise ``ValueError`` if none was recorded."""
        # torch writes them as Python does: [2, 2], False.
        return json.loads(str(self.values[place]).lower())

    def _is_single(self, place: int) -> bool:
        """Return whether an input is a tensor without dimensions, which only its type tells from what is none."""
        return self.shapes[place] == [] and self.dtype(place) not in _NO_TENSOR

    def _is_dims(self, place: int) -> bool:
        found = self.shapes[place]
        return isinstance(found, list) and bool(found) and all(type(each) is int for each in found)


def _dims(found: object) -> Dims:
    if not isinstance(found, list) or not all(type(each) is int and each >= 0 for each in found):
        raise ValueError("a tensor of the list has no dimensions")
    return found
