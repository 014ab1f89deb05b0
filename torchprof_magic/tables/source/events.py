"""The events of a trace, with the node of a compiled graph that each belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.source.fx_nodes import fx_names, model_lines
from torchprof_magic.model.rows import values_at
from torchprof_magic.model.trace import EVENTS_COLUMNS, MAX_NAME_CHARS, TEXT, FrameColumn

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

COLUMNS = (
    *EVENTS_COLUMNS,
    FrameColumn(
        "fx_node",
        TEXT,
        "code",
        "Node of a graph of torch.compile that it belongs to, as `report.ops_by` names it; null outside of compiled "
        "code, and unless it was compiled in a recording, or with names.",
        is_nullable=True,
        max_chars=MAX_NAME_CHARS,
    ),
    FrameColumn(
        "model_file",
        TEXT,
        "text",
        "File of the line of the model that this node comes from.",
        is_nullable=True,
        max_chars=MAX_NAME_CHARS,
    ),
    FrameColumn("model_line", pl.Int32, "count", "Number of that line, from 1.", is_nullable=True, least=0),
)


def events_table(trace: Trace) -> pl.DataFrame:
    """Return one row per event, as in the trace, with its node and the line of the model."""
    names = fx_names(trace)
    file, line = model_lines(trace, np.arange(trace.events.height))
    node = values_at(names.names, names.of_event).cast(TEXT)
    return trace.events.with_columns(node.alias("fx_node"), file.alias("model_file"), line.alias("model_line"))
