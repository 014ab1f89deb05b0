"""How large the inputs of a program are, so that steps that grow with them are not taken for a slower machine."""

from __future__ import annotations

import json
import re
from math import log, prod
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from torchprof_magic.facts.counted_steps import counted_part, counted_steps
from torchprof_magic.facts.ops.calls import OP_CATEGORIES
from torchprof_magic.findings.compare.setting_changes import input_shapes

if TYPE_CHECKING:
    from collections.abc import Collection

    from torchprof_magic.model.trace import Trace

# The size of each of some names, which are all different.
Sizes: TypeAlias = tuple[tuple[str, float], ...]
# A shape as it is noted at a module, and how often it follows itself.
_SHAPE = re.compile(r"\[([0-9][0-9, ]*)\](?: ×([0-9]+))?")
_NUMBER = re.compile("[0-9]+")
# Bytes of an element by the names that torch gives types in traces; others count as a float.
_WIDTHS = {"double": 8, "long": 8, "long int": 8, "int64_t": 8, "c10::complex<float>": 8, "c10::complex<double>": 16,
           "c10::Half": 2, "c10::BFloat16": 2, "short": 2, "bool": 1, "signed char": 1, "unsigned char": 1}  # fmt: skip
_WIDTH = 4


def sizes_of_inputs(trace: Trace) -> Sizes:
    """Return the elements that each outermost module got, by its name; empty if modules were not watched."""
    return tuple((name, float(_elements(shapes))) for name, shapes in input_shapes(trace).items())


def sizes_of_ops(trace: Trace) -> Sizes:
    """Return the bytes of the inputs of each op in a step, by its name; empty if shapes were not recorded."""
    inside = pl.Series(counted_part(trace).holds(trace.events["start_ns"].to_numpy()))
    ops = trace.events.filter(pl.col("category").is_in(OP_CATEGORIES) & pl.col("shapes").is_not_null() & inside)
    counted = (
        ops.group_by("name", "shapes", "dtypes")
        .len()
        .cast({"name": pl.String, "shapes": pl.String, "dtypes": pl.String})
    )
    sizes: dict[str, float] = {}
    for name, shapes, types, count in counted.iter_rows():
        sizes[name] = sizes.get(name, 0.0) + _bytes(shapes, types) * count / counted_steps(trace).steps
    return tuple(sizes.items())


def growth(before: Sizes, after: Sizes, names: Collection[str]) -> float | None:
    """Return the logarithm of after over before of what the names got together; None if that is not known."""
    sums = [sum(size for name, size in sizes if name in names) for sizes in (before, after)]
    return log(sums[1] / sums[0]) if min(sums) > 0 else None


def _elements(shapes: str) -> int:
    return sum(prod(map(int, _NUMBER.findall(dims))) * int(times or 1) for dims, times in _SHAPE.findall(shapes))


def _bytes(shapes: str, types: str | None) -> int:
    """Return the bytes of the tensors of a call, from two lists as JSON; 0 for broken text."""
    try:
        sizes, names = json.loads(shapes), json.loads(types or "[]")
        if not isinstance(sizes, list) or not isinstance(names, list):
            return 0
        names += [""] * (len(sizes) - len(names))
        return sum(_size(one) * _WIDTHS.get(str(name), _WIDTH) for one, name in zip(sizes, names, strict=False))
    except (ValueError, RecursionError):
        return 0


def _size(shape: object) -> int:
    """Return the elements of a tensor, or of all in a list of tensors."""
    if not isinstance(shape, list) or not shape:
        return 0
    if all(isinstance(dim, int) for dim in shape):
        return prod(shape)
    return sum(map(_size, shape))
