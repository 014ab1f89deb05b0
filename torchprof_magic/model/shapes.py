"""The shapes that can be shown. Each is a data frame with documented columns.

Analyses return one of them and know no renderer; renderers draw one of them and know no analysis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import polars as pl

Unit = Literal["text", "code", "count", "ns", "bytes", "ratio", "phase", "step", "bool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a shape: its name, title and unit, and an exact definition.

    ``is_minor`` columns are hidden first if the view is narrow; ``has_bar`` draws a bar behind the number.
    """

    name: str
    title: str
    unit: Unit
    definition: str
    is_minor: bool = False
    has_bar: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows with typed, documented columns. ``sort_by`` is the column of the initial sort order, descending."""

    frame: pl.DataFrame
    columns: tuple[Column, ...]
    sort_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One measure for the boxes of a tree: columns ``self_<name>`` and ``total_<name>``."""

    name: str
    title: str
    unit: Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A merged call tree in preorder: ``parent`` (row, -1 for the root), ``name``, ``kind``, ``phase`` and weights."""

    frame: pl.DataFrame
    weights: tuple[Weight, ...]


EVERY_LANE = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment worth showing on a series, such as its peak or, on ``EVERY_LANE``, the start of a step."""

    lane: str
    time_ns: int
    label: str
    kind: Literal["peak", "step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Values over time: ``lane``, ``time_ns`` and one column a band. A value holds until the next row of its lane."""

    frame: pl.DataFrame
    bands: tuple[Column, ...]
    marks: tuple[Mark, ...] = ()


Shape: TypeAlias = Table | Tree | Series
