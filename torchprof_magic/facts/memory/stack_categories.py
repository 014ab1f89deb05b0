"""What the blocks of a memory snapshot are used for, as far as the stacks that allocated them tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.model.intervals import depth_of, nearest_marked
from torchprof_magic.model.trace import MEMORY_CATEGORIES, MEMORY_CATEGORY

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# Frames of a backward pass, and of the node that keeps what becomes the gradient of a parameter.
BACKWARD = r"^torch::autograd::(Engine::|python::PythonEngine::)"
_GRADIENT = r"^torch::autograd::AccumulateGrad::apply\("


def categories_of(trace: Trace, stack: IntArray) -> pl.Series:
    """Return the category of blocks by the rows of ``stacks`` that allocated them, -1 for none.

    What the node of a parameter allocates is a gradient, and what else a backward pass does is of autograd.
    """
    return _categories(trace).gather(np.where(stack >= 0, stack, trace.stacks.height))


@once_per_trace
def _categories(trace: Trace) -> pl.Series:
    """Return the category of each row of ``stacks``; the last entry is for row -1."""
    parent = trace.stacks["parent"].to_numpy().astype(np.int64)
    depth, names = depth_of(parent), trace.stacks["function"].cast(pl.String)
    number = np.full(len(parent) + 1, MEMORY_CATEGORIES.index("unknown"))
    for category, pattern in (("autograd", BACKWARD), ("gradient", _GRADIENT)):
        number[nearest_marked(parent, depth, names.str.contains(pattern).to_numpy()) >= 0] = MEMORY_CATEGORIES.index(
            category
        )
    return pl.Series(MEMORY_CATEGORIES, dtype=MEMORY_CATEGORY).gather(number)
