"""The module classes whose ``forward`` the functions of recorded stacks are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.source.places import call_tree
from torchprof_magic.facts.source.users_files import is_users_file
from torchprof_magic.model.intervals import depth_of, nearest_marked
from torchprof_magic.model.rows import values_at

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray
    from torchprof_magic.model.trace import Trace

_MODULE = r"^nn\.Module: (.+?)(?:_[0-9]+)?$"
_FORWARD = r": forward$"
# Frames between a module and its forward: those of torch but for its functions of autograd, and what decorators make.
_DECORATED = r": (?:\w*wrap\w*|inner\w*|decorat\w*|new_\w+|_fn)$"
# What a function is called then.
FORWARD_OF = re.compile(r"^\w+\.forward$")
_FUNCTIONS = r"torch/autograd/function\.py"


def with_forward_classes(trace: Trace, functions: pl.DataFrame) -> pl.DataFrame:
    """Return functions (file, line, source) with the class of the modules whose ``forward`` they are: ``A.forward``."""
    classes = forward_classes(trace)
    if classes.height == 0:
        return functions
    named = functions.join(classes, on=["file", "line"], how="left", maintain_order="left")
    name = pl.concat_str("class", "source", separator=".")
    is_forward = (pl.col("source") == "forward") & pl.col("class").is_not_null()
    return named.with_columns(pl.when(is_forward).then(name).otherwise("source").alias("source")).drop("class")


@once_per_trace
def forward_classes(trace: Trace) -> pl.DataFrame:
    """Return the class of the modules that call each function named ``forward``, where it is one (file, line, class).

    Between the frame of a module and that of its ``forward`` are those of torch and of decorators.
    """
    tree = call_tree(trace)
    of_module = tree.name.str.extract(_MODULE)
    is_users = is_users_file(tree.file)
    is_forward = _has(tree.name, _FORWARD) & is_users
    is_between = ~is_users & ~_has(tree.name, _FUNCTIONS) | _has(tree.name, _DECORATED)
    is_end = of_module.is_not_null().to_numpy() | is_forward | ~is_between
    forward = np.flatnonzero(is_forward)
    nearest = nearest_marked(tree.parent, depth_of(tree.parent), is_end)
    caller = nearest[tree.parent[forward]]
    called = pl.DataFrame({"file": tree.file[forward], "line": tree.line[forward]})
    called = called.with_columns(values_at(of_module, caller).alias("class")).drop_nulls()
    classes = called.group_by("file", "line").agg(pl.col("class").unique())
    return classes.filter(pl.col("class").list.len() == 1).with_columns(pl.col("class").list.first())


def _has(names: pl.Series, pattern: str) -> BoolArray:
    return names.str.contains(pattern).fill_null(value=False).to_numpy()
