"""Launches that ops of a step lack, because at the same place of other steps they launch more.

Where a launch is lost together with its work, nothing in the file points at either. Steps that repeat tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.device.coverage import launches_of
from torchprof_magic.facts.shared import in_category, name_numbers, once_per_trace
from torchprof_magic.model.intervals import NO_PARENT, IntArray
from torchprof_magic.model.rows import filled

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# Single ops may have less to do in a step, as for an empty batch. Fewer ops, or less of all launches, are no sign.
LEAST_SHARE = 0.05
LEAST_OPS = 3


class Unlaunched(NamedTuple):
    """How many launches ops lack, of how many that are usual at their places, and the numbers of these steps."""

    launches: int
    of: int
    steps: IntArray


NONE = Unlaunched(0, 0, np.empty(0, np.int64))


@once_per_trace
def unlaunched(trace: Trace) -> Unlaunched:
    """Return the launches that ops lack by what most of them launch at their place, if these are more than a few.

    A place is the same among the ops of a name in an op of a name, in steps with as many of them. They are compared
    only if such steps launch different numbers in all: the order alone may change.
    """
    if trace.steps.height < 2 or not trace.has_device:  # noqa: PLR2004 - one step has no other
        return NONE
    group = ["lane", "name", "around", "size"]
    ops = _ops_of_steps(trace)
    launches = pl.col("launches")
    per_step = ops.group_by(*group, "step").agg(launches.sum())
    differ = per_step.group_by(group).agg(launches.n_unique() > 1).filter(launches).select(group)
    lower_median = launches.quantile(0.5, "lower").cast(pl.Int64)
    ops = ops.with_columns(lower_median.over(*group, "place").alias("usual"))
    lack = (pl.col("usual") - launches).alias("lack")
    short = ops.join(differ, on=group, how="semi").select("step", lack).filter(pl.col("lack") > 0)
    lost, usual = int(short["lack"].sum()), int(ops["usual"].sum())
    if short.height < LEAST_OPS or lost < LEAST_SHARE * usual:
        return NONE
    return Unlaunched(lost, usual, short["step"].unique().sort().to_numpy())


def _ops_of_steps(trace: Trace) -> pl.DataFrame:
    """Return a row per op of a step: how much it launches itself, its name and place, and the op around it."""
    events = trace.events
    parent = events["parent"].to_numpy().astype(np.int64)
    is_op = in_category(trace, "cpu_op")
    name = name_numbers(trace).astype(np.int64)
    op_name = np.append(np.where(is_op, name, NO_PARENT), NO_PARENT)
    launches = np.bincount(parent[launches_of(trace).row] + 1, minlength=events.height + 1)[1:]
    step = filled(events["step"], NO_PARENT)
    rows = np.flatnonzero(is_op & (step >= 0))
    rows = rows[np.argsort(events["start_ns"].to_numpy()[rows], kind="stable")]
    columns = {
        "step": step[rows],
        "lane": events["lane"].to_numpy()[rows],
        "name": name[rows],
        "around": op_name[parent[rows]],
        "launches": launches[rows],
    }
    like = ["step", "lane", "name", "around"]
    place = pl.int_range(pl.len()).over(like).alias("place")
    return pl.DataFrame(columns).with_columns(place, pl.len().over(like).alias("size"))
