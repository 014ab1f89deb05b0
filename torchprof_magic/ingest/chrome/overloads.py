"""The overloads of ops, which torch appends to their names if asked: ``aten::add.Tensor`` is an ``aten::add``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.ingest.chrome.columns import no_text
from torchprof_magic.model.distinct import distinct
from torchprof_magic.model.known_names import which_match
from torchprof_magic.model.trace import TEXT

if TYPE_CHECKING:
    from torchprof_magic.ingest.chrome.spans import Columns

# One op of torch's own with an overload tells that they were recorded. No other names of ops there have a dot.
_TELLS = r"^aten::\w+\.\w+$"
_WITH_OVERLOAD = r"^(\w+::\w+)\.(\w+)$"


def with_overloads(columns: Columns) -> Columns:
    """Return the columns of one file with the names of ops and their overloads apart; null where there is none."""
    spans = columns.spans
    names = distinct(spans["name"]).cast(pl.String)
    if not which_match(names, _TELLS).any():
        return columns._replace(spans=spans.hstack([no_text(spans.height).alias("overload")]))
    parts = pl.DataFrame({"whole": names}).filter(pl.col("whole").str.contains(_WITH_OVERLOAD))
    parts = parts.select(
        pl.col("whole").cast(TEXT),
        *(
            pl.col("whole").str.extract(_WITH_OVERLOAD, n).cast(TEXT).alias(name)
            for n, name in ((1, "op"), (2, "overload"))
        ),
    )
    is_op = (columns.places["category"] == "cpu_op").gather(spans["place"])
    spans = spans.join(parts, left_on="name", right_on="whole", how="left", maintain_order="left")
    spans = spans.with_columns(is_op.alias("is_op"))
    return columns._replace(
        spans=spans.with_columns(
            pl.when("is_op").then(pl.coalesce("op", "name")).otherwise("name").alias("name"),
            pl.when("is_op").then("overload").alias("overload"),
        ).drop("op", "is_op")
    )
