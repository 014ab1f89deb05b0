"""The module classes whose ``forward`` the functions of recorded stacks are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.source.places import call_tree, is_users_file
from torchprof_magic.model.intervals import depth_of, nearest_marked
from torchprof_magic.model.rows import values_at

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

_MODULE = r"^nn\.Module: (.+?)(?:_[0-9]+)?$"
_FORWARD = r": forward$"


@once_per_trace
def forward_classes(trace: Trace) -> pl.DataFrame:
    """Return the class of the modules that call each function named ``forward``, where it is one (file, line, class).

    Between the frame of a module and that of its ``forward`` are those of torch and of decorators.
    """
    tree = call_tree(trace)
    of_module = tree.name.str.extract(_MODULE)
    is_module = of_module.is_not_null().to_numpy()
    is_forward = tree.name.str.contains(_FORWARD).fill_null(value=False).to_numpy() & is_users_file(tree.file)
    forward = np.flatnonzero(is_forward)
    nearest = nearest_marked(tree.parent, depth_of(tree.parent), is_module | is_forward)
    caller = nearest[tree.parent[forward]]
    called = pl.DataFrame({"file": tree.file[forward], "line": tree.line[forward]})
    called = called.with_columns(values_at(of_module, caller).alias("class")).drop_nulls()
    classes = called.group_by("file", "line").agg(pl.col("class").unique())
    return classes.filter(pl.col("class").list.len() == 1).with_columns(pl.col("class").list.first())
