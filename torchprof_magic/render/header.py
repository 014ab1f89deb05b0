"""The header of a view: the metadata of a shape, which the page needs besides the bytes of its columns.

``js/src/wire/header.ts`` reads and validates these keys.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from torchprof_magic.model.shapes import Facts, Problems, Series, Slices, Table, Tree

if TYPE_CHECKING:
    from torchprof_magic.model.shapes import Bars, Column, FramedShape, RankBars, Section, Shape

Header = dict[str, object]


def describe(shape: Shape, place: tuple[int, int]) -> Header:
    """Return the part of a view's header that depends on its shape; ``place`` is the place of its frame's bytes."""
    match shape:
        case Facts():
            sections = [_section(section) for section in shape.sections]
            return {"shape": "facts", "sections": sections, "cards": [asdict(card) for card in shape.cards]}
        case Problems():
            return {"shape": "problems", "problems": [asdict(problem) for problem in shape.problems]}
        case _:
            return {**_framed(shape), "offset": place[0], "length": place[1]}


def _framed(shape: FramedShape) -> Header:
    match shape:
        case Table():
            columns = [_column(column) for column in shape.columns]
            bars = _bars(shape.bars) if shape.bars else None
            outline = shape.outline
            return {
                "shape": "table",
                "columns": columns,
                "sort": shape.sort_by,
                "bars": bars,
                "outline": asdict(outline) if outline else None,
                "sparse": shape.is_sparse,
                "ranks": _rank_bars(shape.ranks) if shape.ranks else None,
            }
        case Tree():
            return {"shape": "tree", "weights": [asdict(weight) for weight in shape.weights]}
        case Series():
            bands, stacked = (
                [{"name": band.name, "title": band.title, "unit": band.unit} for band in bands]
                for bands in (shape.bands, shape.stacked)
            )
            marks = [asdict(mark) for mark in shape.marks]
            spans = {name: [asdict(span) for span in getattr(shape, name)] for name in ("phases", "modules")}
            return {"shape": "series", "bands": bands, "stacked": stacked, "marks": marks, **spans}
        case Slices():
            return {
                "shape": "slices",
                "lanes": [asdict(lane) for lane in shape.lanes],
                "layers": [asdict(layer) for layer in shape.layers],
                "columns": [{"name": column.name, "title": column.title} for column in shape.columns],
                "excerpt": asdict(shape.excerpt) if shape.excerpt else None,
            }


def _column(column: Column) -> Header:
    return {
        "name": column.name,
        "title": column.title,
        "unit": column.unit,
        "definition": column.definition,
        "minor": column.is_minor,
        "bar": column.has_bar,
        "verbatim": column.is_verbatim,
        "sum": column.is_sum,
        "change": column.is_change,
    }


def _bars(bars: Bars) -> Header:
    parts = [{"phase": phase, "column": column} for phase, column in bars.parts.items()]
    return {
        "number": bars.number,
        "start": bars.start,
        "total": bars.total,
        "complete": bars.complete,
        "parts": parts,
        "line": bars.line,
    }


def _rank_bars(bars: RankBars) -> Header:
    parts = [{"column": column, "title": title, "look": look} for column, title, look in bars.parts]
    return {
        "number": bars.number,
        "total": bars.total,
        "late": bars.late,
        "parts": parts,
        "beside": list(bars.beside),
        "waits": bars.waits,
        "cards": [asdict(card) for card in bars.cards],
    }


def _section(section: Section) -> Header:
    facts = [asdict(fact) for fact in section.facts]
    return {
        "title": section.title,
        "kind": section.kind,
        "aside": section.aside,
        "group": section.group,
        "facts": facts,
    }
