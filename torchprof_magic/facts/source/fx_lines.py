"""The lines of a model that ran in compiled code, as parts of the program beside those that were watched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.source.fx_nodes import own_nodes
from torchprof_magic.facts.source.users_files import is_users_file
from torchprof_magic.model.intervals import NO_PARENT

if TYPE_CHECKING:
    from torchprof_magic.facts.source.attribution import Runs
    from torchprof_magic.model.trace import Trace


def with_compiled_lines(trace: Trace, sites: pl.DataFrame, runs: Runs) -> tuple[pl.DataFrame, Runs]:
    """Return lines and their runs with the lines of nodes of compiled graphs, of which no run is known.

    ``sites`` has the columns ``file, line`` and ``name``, and those of other kinds have no ``line``. A line of torch
    itself, as of a compiled optimizer, is none of them: such nodes belong to the line that ran them.
    """
    node = own_nodes(trace)
    used = np.unique(node[node >= 0])
    nodes = trace.fx_nodes.select("file", "line", pl.col("source").alias("name"))[used.tolist()]
    nodes = nodes.with_columns(pl.col("file", "name").cast(pl.String), pl.Series("node", used, dtype=pl.Int64))
    nodes = nodes.drop_nulls(["file", "line"])
    nodes = nodes.filter(pl.Series(is_users_file(nodes["file"]), dtype=pl.Boolean))
    if nodes.height == 0:
        return sites, runs
    known = sites.select(pl.col("file").cast(pl.String), "line").with_row_index("known")
    known = known.drop_nulls().unique(["file", "line"], keep="first")
    nodes = nodes.join(known, on=["file", "line"], how="left", maintain_order="left")
    new = nodes.filter(pl.col("known").is_null()).unique(["file", "line"], keep="first", maintain_order=True)
    new = new.select("file", "line", "name").with_row_index("new", offset=sites.height)
    nodes = nodes.join(new.select("file", "line", "new"), on=["file", "line"], how="left", maintain_order="left")
    site_of_node = np.full(trace.fx_nodes.height + 1, NO_PARENT, np.int64)
    site_of_node[nodes["node"].to_numpy()] = nodes.select(pl.coalesce("known", "new"))["known"].to_numpy()
    added = new.select("file", "line", "name").with_columns(pl.lit(-1).alias("parent"), pl.lit("line").alias("kind"))
    columns = [name for name in sites.columns if name in added.columns]
    added = added.select(pl.col(name).cast(sites.schema[name]) for name in columns)
    both = pl.concat([sites, added], how="diagonal")
    return both, runs._replace(sites=both.height, of_event=site_of_node[node])
