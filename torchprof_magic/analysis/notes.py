"""The problems of a report as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.analysis.diagnosis import all_problems
from torchprof_magic.model.shapes import Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.trace import Trace

COLUMNS = (
    Column(name="severity", title="Severity", unit="text", definition="info, warning, or data_loss."),
    Column(name="message", title="What happened", unit="text", definition="What happened and what was lost."),
    Column(name="count", title="Count", unit="count", definition="How often it happened."),
    Column(name="fix", title="What to do", unit="text", definition="What to do about it."),
    Column(name="code", title="Code", unit="code", definition="Stable name of the problem.", is_minor=True),
)
_WORST_FIRST = {"data_loss": 0, "warning": 1, "info": 2}


def notes_table(trace: Trace) -> Table:
    """Return every kind of problem of recording and reading, the most severe first."""
    ordered: Sequence[Problem] = sorted(all_problems(trace), key=lambda problem: _WORST_FIRST[problem.severity])
    schema = {"severity": pl.String, "message": pl.String, "count": pl.Int64, "fix": pl.String, "code": pl.String}
    rows = [{name: getattr(problem, name) for name in schema} for problem in ordered]
    return Table(frame=pl.DataFrame(rows, schema=schema), columns=COLUMNS)
