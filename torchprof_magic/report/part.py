"""``ReportPart``: the tables of a report for a part of the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.model.trace import Trace
from torchprof_magic.report.tables import HasTables, Tables, with_tables
from torchprof_magic.report.views import TABLES

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange

PART_TABLES = {name: view for name, view in TABLES.items() if view.follows_range}


@with_tables(PART_TABLES)
class ReportPart(HasTables[Trace]):
    """The tables of a report for a part of the time, as ``report.between()`` returns them.

    Everything is computed on first use, and only once.
    """

    def __init__(self, trace: Trace, part: TimeRange) -> None:
        self._tables = Tables(PART_TABLES, trace, part)
