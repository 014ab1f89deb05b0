"""The lines of a recording that put tensors into containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.model.cell_tree import tree_of_cell
from torchprof_magic.model.keeping_lines import keeping_lines

if TYPE_CHECKING:
    import ast

    from torchprof_magic.model.trace import Trace

# Places that grow are few; of more, the lines of the largest are looked for.
MOST_PLACES = 50


def with_keeping_lines(trace: Trace, places: pl.DataFrame) -> pl.DataFrame:
    """Return places of allocations, with ``kept_in``, ``file`` and ``line``, with ``kept_file`` and ``kept_line``.

    Of several lines that keep something there, it is the one next to the allocation, in its file if there is one.
    """
    rows = places.select("kept_in", "file", "line").head(MOST_PLACES).rows()
    trees = _trees(trace) if any(kept_in for kept_in, _, _ in rows) else []
    found = [_nearest(trees, kept_in or "", file, line or 0) for kept_in, file, line in rows]
    found += [(None, None)] * (places.height - len(found))
    schema = {"kept_file": pl.String, "kept_line": pl.Int32}
    return places.hstack(pl.DataFrame(found, schema=schema, orient="row"))


def _nearest(
    trees: list[tuple[str, int, ast.AST]], path: str, file: str | None, line: int
) -> tuple[str | None, int | None]:
    lines = [(own, first + at - 1) for own, first, tree in trees for at in keeping_lines(tree, path)]
    return min(lines, key=lambda at: (at[0] != file, abs(at[1] - line)), default=(None, None))


def _trees(trace: Trace) -> list[tuple[str, int, ast.AST]]:
    """Return the sources of a recording: file, number of the first line, tree. Lines of functions are alone."""
    found: list[tuple[str, int, ast.AST]] = []
    cell = trace.meta.cell
    if cell is not None and (tree := tree_of_cell(cell.source)) is not None:
        found.append((cell.filename, 1, tree))
    lines = trace.sites.filter((pl.col("kind") == "line") & pl.col("file").is_not_null()).select("file", "line", "name")
    for file, line, text in lines.cast({"file": pl.String, "name": pl.String}).unique(maintain_order=True).iter_rows():
        tree = tree_of_cell(text.strip()) if cell is None or file != cell.filename else None
        if tree is not None:
            found.append((file, line, tree))
    return found
