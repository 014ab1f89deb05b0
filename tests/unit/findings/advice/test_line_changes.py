"""The changed lines of advice, in a cell and in other files, and how text and HTML show them."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from support import annotation, make_trace

from torchprof_magic.findings.advice import Advice, Edit, cards_of
from torchprof_magic.findings.advice.line_changes import Changes, changes_of
from torchprof_magic.model.meta import CellSource
from torchprof_magic.model.shapes import LineChange
from torchprof_magic.model.trace import SITES_SCHEMA, Trace
from torchprof_magic.render.static_html import card_rows
from torchprof_magic.render.text import card_lines

CELL = """\
%%torchprof
loader = DataLoader(data, batch_size=8)
for x in loader:
    x = x.to(device)
"""
PINNED = (
    Edit(("to", "cuda"), "non_blocking", "True", is_here=True, is_move=True),
    Edit(("DataLoader",), "pin_memory", "True", position=7),
)
MOVED = LineChange(line=4, before="x = x.to(device)", after="x = x.to(device, non_blocking=True)")


def advice(line: int, edits: tuple[Edit, ...] = PINNED, file: str = "cell") -> Advice:
    return Advice(rule="r", title="Copy faster", fix="`pin_memory=True`", file=file, line=line, edits=edits)


def trace_of(cell: str = CELL, lines: dict[int, str] | None = None) -> Trace:
    trace = make_trace(annotation("ProfilerStep#0", 0, 10))
    known = [{"kind": "line", "file": "train.py", "line": line, "name": text} for line, text in (lines or {}).items()]
    sites = pl.DataFrame(known, schema_overrides=SITES_SCHEMA) if known else trace.sites
    source = CellSource(label="In [1]", filename="cell", source=cell)
    return replace(trace, sites=sites, meta=replace(trace.meta, cell=source))


def test_a_change_of_several_lines_has_each_with_its_number() -> None:
    pinned = "loader = DataLoader(data, batch_size=8, pin_memory=True)"
    loader = LineChange(line=2, before="loader = DataLoader(data, batch_size=8)", after=pinned)
    assert changes_of(trace_of(), advice(4)) == Changes((loader, MOVED), is_all=True)


def test_where_only_some_of_the_lines_are_known_they_are_not_all_of_the_change() -> None:
    cell = CELL.replace("loader = DataLoader(data, batch_size=8)", "# made above")
    assert changes_of(trace_of(cell), advice(4)) == Changes((MOVED,), is_all=False)


@pytest.mark.parametrize(
    ("cell", "line", "edits"),
    [(CELL, 4, ()), (CELL, 1, PINNED), ("x = (", 1, PINNED), ("", 4, PINNED), (f"x.to(a, '{'.' * 400}')", 1, PINNED)],
)
def test_without_a_call_that_is_known_there_is_no_change(cell: str, line: int, edits: tuple[Edit, ...]) -> None:
    assert changes_of(trace_of(cell), advice(line, edits)) == Changes((), is_all=False)


def test_lines_of_other_files_are_known_if_they_ran() -> None:
    lines = {7: "    for x in DataLoader(", 8: "            data):", 9: "        f(x)", 12: "y = y.to(d)"}
    workers = (Edit(("DataLoader",), "num_workers", "2", position=5),)
    trace = trace_of(lines=lines)
    change = LineChange(line=8, before="data):", after="data, num_workers=2):")
    assert changes_of(trace, advice(7, workers, "train.py")) == Changes((change,), is_all=True)
    assert changes_of(trace, advice(8, workers, "train.py")).lines == ()  # its beginning is above
    assert changes_of(trace, advice(12, PINNED[:1], "train.py")).is_all
    assert changes_of(trace, advice(13, PINNED, "train.py")).lines == ()


def test_text_and_html_show_lines_as_they_are_and_as_they_should_be() -> None:
    cell = CELL.replace("device", "'<b>'")
    (whole,) = cards_of(trace_of(cell), [advice(4, PINNED[:1])])
    assert card_lines([whole])[1:] == [
        "  1. Copy faster (line 4) [guess]",
        "     4 − x = x.to('<b>')",
        "     4 + x = x.to('<b>', non_blocking=True)",
    ]
    page = card_rows([whole], has_steps=True)
    assert "4 − <del><bdi>x = x.to(&#x27;&lt;b&gt;&#x27;)</bdi></del>" in page
    assert "4 + <ins><bdi>x = x.to(&#x27;&lt;b&gt;&#x27;, non_blocking=True)</bdi></ins>" in page
    assert "pin_memory" not in page
    (part,) = cards_of(trace_of(cell.replace("loader =", "other =")), [advice(4)])
    assert "Copy faster: pin_memory=True (line 4)" in card_lines([part])[1]
    assert "pin_memory" in card_rows([part], has_steps=True)
