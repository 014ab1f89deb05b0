"""File names as people know them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.model.units import short_file

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


def spot_of(trace: Trace, file: str, line: int | None) -> str:
    """Return a line as the page finds it, by its file as it is shown: ``In [4]:3``; empty if it is not known."""
    return f"{files_as_shown(trace, pl.Series([file]))[0]}:{line}" if file and line else ""


# How torch calls a Python function: its file, its first line, and its name.
_CALL = re.compile(r"(?P<file>.*)\((?P<line>[0-9]+)\): (?P<function>.*)", re.DOTALL)


def call_as_shown(trace: Trace, name: str) -> str:
    """Return the name of a Python call in a notebook with the label of its cell: ``In [4] line 3: f``; others as is."""
    found = _CALL.fullmatch(name)
    label = labels_of_cells(trace).get(found["file"]) if found else None
    return f"{label} line {found['line']}: {found['function']}" if found and label else name


def labels_of_cells(trace: Trace) -> dict[str, str]:
    """Return the labels of cells by their file names."""
    labels = dict(trace.meta.cell_labels)
    if trace.meta.cell is not None:
        labels[trace.meta.cell.filename] = trace.meta.cell.label
    return labels


def files_as_shown(trace: Trace, file: pl.Series) -> pl.Series:
    """Return cells by their labels, such as ``In [4]``, and files by the last parts of their paths."""
    labels = labels_of_cells(trace)
    names = file.unique().drop_nulls().to_list()
    shown = [labels.get(name) or short_file(name) for name in names]
    return file.replace_strict(names, shown, return_dtype=pl.String, default=None)
