"""A report as plain HTML: the overview, the top ops and figures, for saved notebooks without a live view.

Viewers take away what they do not trust, so nothing here depends on a style or a script.
"""

from __future__ import annotations

import base64
import html
import re
from typing import TYPE_CHECKING, Any

from torchprof_magic.facts.counted_steps import counted_steps, has_counted_steps
from torchprof_magic.facts.host.phases import with_one_wait
from torchprof_magic.facts.source.fused_titles import with_fused_titles
from torchprof_magic.findings.verdict.diagnosis import all_problems
from torchprof_magic.findings.verdict.words import with_place
from torchprof_magic.model.meta import shortened
from torchprof_magic.model.shapes import Facts, Table, count_rows, top_rows
from torchprof_magic.model.units import column_format, counted, format_value, printable, saving_words
from torchprof_magic.render.bars import swatch_image, track_image
from torchprof_magic.render.page import verdict_line
from torchprof_magic.render.palette import phase_title
from torchprof_magic.render.pictures import PICTURES
from torchprof_magic.render.text import column_text, machine_of, steps_sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchprof_magic.findings.verdict.decision import Verdict
    from torchprof_magic.findings.verdict.words import Span
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.shapes import Bars, Card, Fact, Section, Shape
    from torchprof_magic.model.trace import Trace
    from torchprof_magic.model.units import ColumnFormat

TOP_ROWS = 10
MAX_STEPS = 24
NAME_CHARS = 90
_SHOWN_UNITS = ("count", "ns", "bytes", "flop", "ratio")
_TITLES = {"flame": "Flame graph", "memory": "Memory", "roofline": "Roofline"}
_NUMBER = 'align="right" style="text-align:right"'
_NAME = 'align="left" style="text-align:left"'
_IMAGE = re.compile(r'<img alt="([^"]*)" src="[^"]*">')
# JupyterLab and nbconvert would typeset a name such as $x$; their versions of MathJax know one of these classes each.
_NO_MATH = "mathjax_ignore tex2jax_ignore"
_TARGET = 'style="padding:4px 0"'  # as high as a finger
_IN_NOTEBOOK = "This is a static copy. The live view needs the kernel that made it: run the cell again."
_IN_FILE = "This is a static copy. The interactive report needs JavaScript; it makes no network requests."
# JupyterLab shows "Error displaying widget" in place of a live view that was not saved, although this copy follows.
# Notebook 7 puts outputs of more than 100 lines into a small box, for as long as they are not changed, and looks while
# both the live view, of at most 80 % of the window, and this copy are there; so the copy has its own limit there.
_IN_HOSTS = (
    "<style>.jp-OutputArea-child:has(> .jupyter-widgets):not(:has(.tp-report))"
    ":has(+ .jp-OutputArea-child [data-tp-static]){display:none}"
    "@media screen{body[data-notebook] [data-tp-static]"
    "{max-height:clamp(120px,calc(1650px - 80vh),800px);overflow:auto}}</style>"
)


def static_html(
    trace: Trace, shapes: Mapping[str, Shape], verdict: Verdict, run_id: str, *, in_notebook: bool = True
) -> str:
    """Return the report as HTML without scripts or links; every name in it is escaped.

    The live view finds and hides it by its ``data-tp-static`` attribute. Its numbers are those of the live view.
    Outside of a notebook it is what a file shows where scripts do not run, with words in place of images, which the
    policy of the file keeps out.
    """
    meta = trace.meta
    machine = machine_of(trace)
    head = " · ".join(part for part in (meta.title, steps_sentence(meta, trace.steps)) if part)
    problems = all_problems(trace)
    lost = [problem for problem in problems if problem.severity == "data_loss"]
    others = [problem for problem in problems if problem.severity != "data_loss"]
    overview = shapes["overview"]
    assert isinstance(overview, Facts)
    sections = [section for group in ("main", "more") for section in overview.sections if section.group == group]
    # The table of ops has more rows than the overview.
    tops = [section for section in overview.sections if section.group == "top" and section.title != "Ops"]
    about = [section for section in overview.sections if section.group == "about"]
    parts = [
        _IN_HOSTS if in_notebook else "",
        f'<details open data-tp-static="{run_id}" class="{_NO_MATH}">',
        f"<summary><b>{_text(head)}</b> <small>{_text(machine)}</small></summary>",
        *_verdict(trace, verdict),
        *_problem_lines(lost),
        _steps(shapes["steps"]),
        *(_section(section) for section in sections[:1]),
        card_rows(overview.cards, has_steps=has_counted_steps(trace)),
        *(_section(section) for section in sections[1:]),
        _ops(trace, shapes["ops"], counted_steps(trace).steps),
        *(_section(section, _largest_beside(overview.sections, section)) for section in tops),
        *(
            _figure(view, with_fused_titles(trace, shapes[view]))
            for view in _TITLES
            if in_notebook and count_rows(shapes[view])
        ),
        _folded("About this run", "".join((*_problem_lines(others), *(_section(section) for section in about)))),
        f"<p><small>{_IN_NOTEBOOK if in_notebook else _IN_FILE}</small></p>",
        "</details>",
    ]
    text = "".join(parts)
    return text if in_notebook else _IMAGE.sub(r"\1", text)


def _text(text: str) -> str:
    return html.escape(printable(text), quote=True)


def _code(text: str) -> str:
    # <bdi> keeps right-to-left marks in a name from reordering the sentence around it.
    return f"<code><bdi>{_text(shortened(text, NAME_CHARS))}</bdi></code>"


def _folded(title: str, content: str) -> str:
    return f"<details><summary {_TARGET}>{title}</summary>{content}</details>" if content else ""


def _verdict(trace: Trace, verdict: Verdict) -> list[str]:
    line = verdict_line(trace, verdict)
    spans = with_place(verdict.text, () if line else verdict.where)
    title = f"<b>{_text(verdict.title)}.</b> " if verdict.title else ""
    parts = [f"<p>{title}{''.join(_span(span) for span in spans)}</p>"]
    if line:
        parts.append(f"<pre><code><bdi>{line.line}  {_text(line.source)}</bdi></code></pre>")
    return [*parts, *(f"<p>▲ {_text(doubt)}</p>" for doubt in verdict.doubts)]


def _span(span: Span) -> str:
    tag = {"strong": "b", "code": "code"}.get(span.style)
    return f"<{tag}><bdi>{_text(span.short)}</bdi></{tag}>" if tag else _text(span.short)


def _problem_lines(problems: Iterable[Problem]) -> list[str]:
    return [f"<p>⚠ {_text(problem.message)} {_text(problem.fix)}</p>" for problem in problems]


def _table(heads: Sequence[tuple[str, str]], rows: Iterable[Sequence[tuple[str, str]]]) -> str:
    """Return a table; a cell is its attributes and its content."""
    head = "".join(f'<th scope="col" {attributes}>{content}</th>' for attributes, content in heads)
    body = "".join(f"<tr>{''.join(f'<td {attributes}>{text}</td>' for attributes, text in row)}</tr>" for row in rows)
    return f'<table cellpadding="4"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _steps(steps: Shape) -> str:
    """Return the steps as bars on one scale, each with its parts in order, and a legend."""
    assert isinstance(steps, Table)
    bars, frame = steps.bars, steps.frame.head(MAX_STEPS)
    if bars is None or frame.height == 0:
        return ""
    largest = float(steps.frame[bars.total].max() or 0)  # type: ignore[arg-type]
    look = column_format("ns", largest)
    heads = [(_NAME, "Step"), (f'colspan="2" {_NUMBER}', look.suffix)]
    if bars.line:
        heads.append((_NUMBER, f"device busy {look.suffix}"))
    rows = [_step_row(row, bars, largest, look) for row in frame.iter_rows(named=True)]
    largest_of = with_one_wait({phase: float(frame[name].max() or 0) for phase, name in bars.parts.items()})  # type: ignore[arg-type]
    shown = [phase for phase, value in largest_of.items() if value]
    legend = " &nbsp; ".join(f'<img alt="" src="{swatch_image(phase)}"> {phase_title(phase)}' for phase in shown)
    return f"{_table(heads, rows)}{_rest(steps.frame.height - MAX_STEPS, 'step')}<p><small>{legend}</small></p>"


def _step_row(row: Mapping[str, Any], bars: Bars, largest: float, look: ColumnFormat) -> list[tuple[str, str]]:
    times = with_one_wait({phase: float(row[name] or 0) for phase, name in bars.parts.items()})
    parts = [(phase, value) for phase, value in times.items() if value]
    words = ", ".join(f"{phase_title(phase)} {format_value(value, 'ns')}" for phase, value in parts)
    reason = str(row[bars.left_out])
    is_out = reason != ""
    image = f'<img alt="{_text(words)}" src="{track_image(parts, largest, is_out=is_out)}">'
    number = f"{row[bars.number]}{f': {_text(reason)}' if is_out else '' if row[bars.complete] else ', partial'}"
    cells = [(_NAME, number), (_NAME, image), (_NUMBER, look.format(row[bars.total]))]
    return [*cells, (_NUMBER, look.format(row[bars.line]))] if bars.line else cells


def _rest(hidden: int, noun: str) -> str:
    return f"<p><small>and {counted(hidden, f'more {noun}')}</small></p>" if hidden > 0 else ""


def _largest_beside(sections: Sequence[Section], one: Section) -> float:
    """Return the largest number of the lists that stand side by side in the page, which share their scale."""
    facts = [fact for section in sections if section.group == "top" for fact in section.facts]
    return max((_number(fact) for fact in facts if fact.unit == one.facts[0].unit), default=0.0)


def _section(section: Section, beside: float = 0.0) -> str:
    """Return the facts of a section of the overview, with bars where the page has them.

    ``beside`` is the largest number of the sections with which it shares its unit and its scale.
    """
    if section.kind == "facts":
        rows = [
            [(_NAME, _text(fact.label)), (_NUMBER, _fact_text(fact)), (_NAME, _note(fact))] for fact in section.facts
        ]
        return _table([(f'colspan="3" {_NAME}', _text(section.title))], rows)
    values = [_number(fact) for fact in section.facts]
    largest = max(values, default=0.0)
    look = column_format(section.facts[0].unit, largest, beside)
    aside = " ".join(filter(None, (look.suffix, section.aside)))
    if section.kind == "phases":
        heads = [(_NAME, _text(section.title)), (f'colspan="3" {_NUMBER}', _text(aside))]
        return _table(heads, [_phase_row(fact, sum(values), look) for fact in section.facts])
    heads = [(_NAME, _text(section.title)), (f'colspan="2" {_NUMBER}', _text(aside))]
    scale = sum(values) if section.kind == "stack" else max(largest, beside)
    return _table(heads, [_bar_row(fact, scale, look) for fact in section.facts])


def card_rows(cards: Sequence[Card], *, has_steps: bool) -> str:
    """Return what to change as a table: a number, the change with its evidence, and the saving with how sure it is."""
    saving = "saving per step" if has_steps else "saving in all"
    rows = [
        [
            (_NUMBER, str(number)),
            (_NAME, f"{_marked(card.title)}{_fix(card)}{_changes(card)}<br><small>{_marked(card.evidence)}</small>"),
            (_NUMBER, f"<b>{_saving(card)}</b><br><small>{_text(card.certainty)}</small>"),
        ]
        for number, card in enumerate(cards, 1)
    ]
    return _table([(f'colspan="2" {_NAME}', "What to change"), (_NUMBER, saving)], rows) if rows else ""


def _saving(card: Card) -> str:
    unknown = "not known" if card.certainty == "guess" else ""
    return _text(saving_words(card.saving_ns, card.saving_bytes, card.certainty, card.per)) or unknown


def _fix(card: Card) -> str:
    fix = f": {_marked(card.fix)}" if card.fix and not card.is_whole else ""
    return f"{fix}{_text(card.at)} {_text(card.place)}" if card.place else fix


def _changes(card: Card) -> str:
    """Return the changed lines, each as it is and as it should be."""
    return "".join(
        f"<br><code>{line.line} − <del><bdi>{_text(line.before)}</bdi></del></code>"
        f"<br><code>{line.line} + <ins><bdi>{_text(line.after)}</bdi></ins></code>"
        for line in card.changes
    )


def _marked(text: str) -> str:
    """Return a text with what is between backticks as code."""
    return "".join(
        f"<code><bdi>{_text(part)}</bdi></code>" if place % 2 else _text(part)
        for place, part in enumerate(text.split("`"))
    )


def _phase_row(fact: Fact, whole: float, look: ColumnFormat) -> list[tuple[str, str]]:
    value = _number(fact)
    image = f'<img alt="" src="{track_image([(fact.label, value)], whole)}">'
    shares = column_format("ratio", 1.0)
    share = f"{shares.format(value / whole if whole > 0 else 0.0)} {shares.suffix}"
    return [(_NAME, _text(phase_title(fact.label))), (_NAME, image), (_NUMBER, look.format(value)), (_NUMBER, share)]


def _bar_row(fact: Fact, largest: float, look: ColumnFormat) -> list[tuple[str, str]]:
    value = _number(fact)
    image = f'<img alt="" src="{track_image([(fact.phase, value)], largest)}">' if fact.phase else ""
    return [(_NAME, f"{_label(fact)} {_note(fact)}".rstrip()), (_NAME, image), (_NUMBER, look.format(value))]


def _label(fact: Fact) -> str:
    is_code = fact.view in ("source", "modules") or fact.label == fact.op
    return _code(fact.label) if is_code else _text(shortened(fact.label, NAME_CHARS))


def _note(fact: Fact) -> str:
    return f"<small><bdi>{_text(shortened(fact.note, NAME_CHARS))}</bdi></small>" if fact.note else ""


def _number(fact: Fact) -> float:
    return float(fact.value) if isinstance(fact.value, (int, float)) else 0.0


def _fact_text(fact: Fact) -> str:
    if fact.value is None:
        return ""
    if isinstance(fact.value, str):
        return _text(shortened(fact.value, NAME_CHARS))
    return f"<b>{format_value(fact.value, fact.unit)}</b>"


def _ops(trace: Trace, ops: Shape, steps: float) -> str:
    """Return the first rows of the table of ops, with its main columns, a step."""
    assert isinstance(ops, Table)
    frame = top_rows(with_fused_titles(trace, ops))
    if frame.height == 0:
        return ""
    columns = [column for column in ops.columns if not column.is_minor and column.unit in _SHOWN_UNITS]
    looks = [column_text(column, ops.frame, steps) for column in columns]
    heads = [(_NAME, "Op"), *((_NUMBER, _text(title)) for title, _ in looks)]
    rows = [
        [
            (_NAME, _code(str(row["name"]))),
            *((_NUMBER, write(row[column.name])) for column, (_, write) in zip(columns, looks, strict=True)),
        ]
        for row in frame.head(TOP_ROWS).iter_rows(named=True)
    ]
    return f"{_table(heads, rows)}{_rest(frame.height - TOP_ROWS, 'op')}"


def _figure(view: str, shape: Shape) -> str:
    data = base64.b64encode(PICTURES[view](shape)).decode("ascii")
    image = f'<p><img alt="{_TITLES[view]}" src="data:image/png;base64,{data}"></p>'
    return image if view == "flame" else _folded(_TITLES[view], image)
