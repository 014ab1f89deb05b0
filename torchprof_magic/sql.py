"""SQL queries over the frames of a report."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.units import printable_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_READING = re.compile(
    r"^(\s|\(|--[^\n]*\n|/\*.*?\*/)*(select|with|show|explain|values|from)\b", re.IGNORECASE | re.DOTALL
)
# Functions of polars that read files and URLs. Queries over a report do not need them.
_FILE_FUNCTION = re.compile(r"""\bread_\w+["`\]]?(\s|--[^\n]*\n|/\*.*?\*/)*\(""", re.IGNORECASE | re.DOTALL)
# Frames whose rows other frames refer to by number, which needs a column in SQL.
NUMBERED = ("events", "lanes", "stacks")


def run_sql(query: str, tables: Mapping[str, Callable[[], pl.DataFrame]]) -> pl.DataFrame:
    """Return the result of a query over the tables; only the tables in the query are computed.

    Categories are converted to strings, so that ``LIKE`` works. Raises ``ValueError`` with the available tables
    and columns if the query is invalid, or if it does more than read.
    """
    if not _READING.match(query):
        raise ValueError("queries can only read; begin with SELECT or WITH")
    if _FILE_FUNCTION.search(query):
        raise ValueError("queries can use only the tables of the report, and cannot read files")
    words = {word.lower() for word in re.findall(r"\w+", query)}
    named = {name: _queried(name, build()) for name, build in tables.items() if name in words or "show" in words}
    try:
        with pl.SQLContext(frames=named) as context:
            return context.execute(query, eager=True)
    except Exception as exc:  # polars raises many kinds of exceptions
        raise ValueError(printable_lines(f"{exc}\n{_known(named, tables)}")) from exc


def _queried(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    numbered = frame.with_row_index("row") if name in NUMBERED else frame
    return numbered.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))


def _known(named: Mapping[str, pl.DataFrame], tables: Mapping[str, Callable[[], pl.DataFrame]]) -> str:
    """Return the names of all tables, with the columns of those in the query."""
    lines = [f"{name}: {', '.join(frame.columns)}" for name, frame in named.items()]
    others = [name for name in tables if name not in named]
    return "\n".join([*lines, f"other tables: {', '.join(others)}"] if lines else [f"tables: {', '.join(others)}"])
