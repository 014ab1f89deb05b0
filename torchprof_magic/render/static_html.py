"""A report as plain HTML with verdict, figures and top ops, for saved notebooks without a live view."""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING

from torchprof_magic.analysis.devices import has_any_device
from torchprof_magic.analysis.diagnosis import all_problems
from torchprof_magic.model.shapes import Table, count_rows, top_rows
from torchprof_magic.render.figures import FIGURES, to_png
from torchprof_magic.render.text import machine_sentence, steps_sentence
from torchprof_magic.units import counted, format_bytes, format_count, format_ns, format_ratio, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torchprof_magic.analysis.verdict import Verdict
    from torchprof_magic.analysis.verdict_words import Span
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.shapes import Column, Shape
    from torchprof_magic.model.trace import Trace

TOP_ROWS = 10
_SHOWN_FIGURES = ("steps", "flame", "memory")
_FORMAT = {"ns": format_ns, "bytes": format_bytes, "count": format_count, "ratio": format_ratio}
# JupyterLab and nbconvert would typeset a name such as $x$; their versions of MathJax know one of these classes each.
_NO_MATH = "mathjax_ignore tex2jax_ignore"
_CELL = 'style="text-align:right;padding:1px 10px"'
_NAME = 'style="text-align:left;padding:1px 10px;font-family:monospace"'


def static_html(trace: Trace, shapes: Mapping[str, Shape], verdict: Verdict, run_id: str) -> str:
    """Return the report as HTML without scripts, styles or links; every name in it is escaped.

    The live view finds and hides it by its ``data-tp-static`` attribute.
    """
    meta, steps = trace.meta, trace.steps
    machine = machine_sentence(meta, trace.events.height, has_device=has_any_device(trace))
    head = " · ".join(part for part in (meta.title, steps_sentence(meta, steps)) if part)
    parts = [
        f'<details open data-tp-static={run_id} class="{_NO_MATH}">',
        f"<summary><b>{_text(head)}</b></summary>",
        f"<p><b>{_text(verdict.title)}.</b> {''.join(_span(span) for span in (*verdict.text, *verdict.where))}<br>",
        f"<small>{_text(machine)}</small></p>",
        *_problem_lines(all_problems(trace)),
        _ops_rows(shapes["ops"]),
        *(_image(view, shapes[view]) for view in _SHOWN_FIGURES if count_rows(shapes[view])),
        "</details>",
    ]
    return "".join(parts)


def _text(text: str) -> str:
    return html.escape(printable(text), quote=True)


def _span(span: Span) -> str:
    tag = {"strong": "b", "code": "code"}.get(span.style)
    # <bdi> keeps right-to-left marks in a name from reordering the sentence around it.
    return f"<{tag}><bdi>{_text(span.short)}</bdi></{tag}>" if tag else _text(span.short)


def _problem_lines(problems: Iterable[Problem]) -> list[str]:
    shown = [problem for problem in problems if problem.severity != "info"]
    return [f"<p>⚠ {_text(problem.message)} {_text(problem.fix)}</p>" for problem in shown]


def _ops_rows(ops: Shape) -> str:
    assert isinstance(ops, Table)
    columns = [column for column in ops.columns if not column.is_minor and column.unit in _FORMAT]
    heads = "".join(f"<th {_CELL}>{_text(column.title)}</th>" for column in columns)
    frame = top_rows(ops)
    rows = "".join(_op_row(row, columns) for row in frame.head(TOP_ROWS).to_dicts())
    hidden = frame.height - TOP_ROWS
    more = f"<p><small>and {counted(hidden, 'more op')}</small></p>" if hidden > 0 else ""
    return f"<table><tr><th {_NAME}>Op</th>{heads}</tr>{rows}</table>{more}" if rows else ""


def _op_row(row: dict[str, float | None], columns: list[Column]) -> str:
    values = [(row[column.name], _FORMAT[column.unit]) for column in columns]
    cells = "".join(f"<td {_CELL}>{'–' if value is None else text(value)}</td>" for value, text in values)
    return f"<tr><td {_NAME}><bdi>{_text(str(row['name']))}</bdi></td>{cells}</tr>"


def _image(view: str, shape: Shape) -> str:
    data = base64.b64encode(to_png(FIGURES[view](shape))).decode("ascii")
    return f'<p><img alt="{view}" src="data:image/png;base64,{data}"></p>'
