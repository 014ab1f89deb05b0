"""Summaries as Markdown: what a report says, for people and for programs that write code."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.source.fused_titles import with_fused_titles
from torchprof_magic.findings.overview import DEVICE_WAITS
from torchprof_magic.findings.verdict.words import with_place
from torchprof_magic.model.shapes import Facts, Table, count_rows
from torchprof_magic.model.units import format_value
from torchprof_magic.render.markdown import (
    DATA_NOTE,
    Section,
    code,
    diff_of,
    fitting,
    prose,
    prose_about,
    source_code,
    table,
)
from torchprof_magic.render.text import column_text, machine_of, place_words, problem_line, steps_sentence, sure_words
from torchprof_magic.report.views import VIEWS
from torchprof_magic.tables.ops.op_groups import without_scopes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torchprof_magic.findings.verdict.words import Span
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.shapes import Card, Fact
    from torchprof_magic.model.shapes import Section as FactsSection
    from torchprof_magic.model.trace import Trace
    from torchprof_magic.report.analysis import Analysis

_MOST_ROWS = 30
_MOST_COLUMNS = 5
_FIRST_ROWS = 5  # of a table, with its head of two lines
_NUMBERS = ("ns", "bytes", "flop", "count")
_LINE_NUMBERS = ("cpu_ns", "device_ns", "backward_cpu_ns", "backward_device_ns", "wait_ns", "bytes")
# In tables of their own, with more columns.
_ELSEWHERE = ("Ops", "Lines")
# Whose labels and notes are texts of the file.
_OF_THE_FILE = ("Metadata", "Process groups")
_USUAL_DEVICE = re.compile(r"[a-z0-9]{1,20}(?::[0-9]{1,4})?")
_CODE = partial(code, in_table=True)


def trace_markdown(analysis: Analysis, max_tokens: int) -> str:
    """Return the verdict, what to change, where the time and the memory go, and what is not known, as Markdown.

    Of at most about ``max_tokens`` tokens. Raises ``ValueError`` if that is too few for anything.
    """
    trace, steps = analysis.trace, analysis["steps"]
    assert isinstance(steps, Table)
    title = trace.meta.title
    head = [
        f"# Profile{f' of {code(title)}' if title else ''}: {prose(steps_sentence(trace.meta, steps.frame))}",
        "",
        prose(machine_of(trace)),
        "",
        DATA_NOTE,
    ]
    counted = steps.frame.filter(pl.col("left_out") == "").height
    sections = [
        verdict_section(
            analysis.verdict.title, with_place(analysis.verdict.text, analysis.verdict.where), analysis.verdict.doubts
        ),
        advice_section(analysis.cards),
        *_facts_sections(analysis, "main"),
        _lines_section(analysis, counted),
        _ops_section(analysis, counted),
        *_facts_sections(analysis, "top"),
        *_facts_sections(analysis, "about"),
        problems_section(analysis.problems),
        _more_section(),
    ]
    return fitting(head, sections, max_tokens)


def verdict_section(title: str, text: Iterable[Span], doubts: Sequence[str]) -> Section:
    """Return what limits the program, with what makes that doubtful."""
    sentence = "".join(code(span.text) if span.style == "code" else prose(span.text) for span in text)
    lines = (f"**{prose(title)}.** {sentence}", *(f"- Doubt: {prose(doubt)}" for doubt in doubts))
    return Section("Verdict", lines, least=len(lines), rows="doubt", fewest=1)


def advice_section(cards: Sequence[Card]) -> Section:
    """Return what to change, each with its line, what it saves, and why."""
    lines = []
    for number, card in enumerate(cards, 1):
        where, sure = place_words(card, code(card.place)), sure_words(card)
        fix = f": {prose(card.fix)}" if card.fix and not card.is_whole else ""
        said = f"{number}. **{prose(card.title)}**{fix}{where}. {sure[:1].upper()}{sure[1:]}. {prose(card.evidence)}"
        lines.append("\n".join([said, *diff_of(card.changes)]))
    return Section("What to change", tuple(lines), rows="change")


def problems_section(problems: Sequence[Problem]) -> Section:
    """Return what is wrong with the recording or missing in it."""
    return Section("What is not known", tuple(f"- {prose(problem_line(each))}" for each in problems), rows="note")


def _facts_sections(analysis: Analysis, group: str) -> list[Section]:
    """Return the sections of the overview of one group."""
    overview = analysis["overview"]
    assert isinstance(overview, Facts)
    shown = [each for each in overview.sections if each.group == group and each.title not in _ELSEWHERE]
    say = partial(prose_about, names=_unusual_devices(analysis.trace))
    return [_facts_section(each, say) for each in shown]


def _facts_section(section: FactsSection, say: Callable[[str], str]) -> Section:
    has_names = section.kind == "bars" or section.title in _OF_THE_FILE
    label = _CODE if has_names and section.title != DEVICE_WAITS else say
    note = _CODE if has_names else say
    notes = ["" if section.kind == "phases" else note(fact.note) for fact in section.facts]
    rows = [(label(fact.label), _fact_value(fact), said) for fact, said in zip(section.facts, notes, strict=True)]
    title = ", ".join(filter(None, (section.title, section.aside)))
    width = 3 if any(notes) else 2
    lines = table(("What", "Value", "Note")[:width], [row[:width] for row in rows], numbers=range(1, 2))
    return Section(say(title), lines, least=min(len(lines), 2 + _FIRST_ROWS), rows="row")


def _unusual_devices(trace: Trace) -> tuple[str, ...]:
    """Return the names of devices that are no plain words, as a saved run may have; they are in some sentences."""
    names = trace.memory["device"].unique().cast(pl.String).drop_nulls().to_list()
    return tuple(name for name in names if name and not _USUAL_DEVICE.fullmatch(name))


def _fact_value(fact: Fact) -> str:
    if isinstance(fact.value, str):
        return _CODE(fact.value)
    return "–" if fact.value is None else format_value(fact.value, fact.unit)


def _lines_section(analysis: Analysis, steps: int) -> Section:
    """Return the lines of the program that take the most, with their source text."""
    source = analysis["source"]
    if not isinstance(source, Table) or count_rows(source) == 0:
        return Section("Lines", ())
    frame = source.frame.filter(pl.col("line").is_not_null())
    numbers = [name for name in _LINE_NUMBERS if name in frame.columns and bool((frame[name] != 0).any())]
    costs = [pl.col(name).abs().fill_null(0) for name in numbers if name.endswith("_ns")] or [pl.lit(0)]
    frame = frame.with_columns(pl.sum_horizontal(costs).alias("cost")).filter(pl.col("cost") > 0)
    frame = frame.sort("cost", descending=True, maintain_order=True).head(_MOST_ROWS)
    places = zip(frame["file"].to_list(), frame["line"].to_list(), frame["source"].to_list(), strict=True)
    names = [(_CODE(f"{file}:{line}"), source_code(text or "", in_table=True)) for file, line, text in places]
    return _numbers_section("Lines", ("Line", "Source"), names, source, frame, numbers, steps)


def _ops_section(analysis: Analysis, steps: int) -> Section:
    """Return the ops that take the most, without the annotations around others."""
    ops = analysis["ops"]
    assert isinstance(ops, Table)
    frame = without_scopes(with_fused_titles(analysis.trace, ops)).head(_MOST_ROWS)
    shown = [column.name for column in ops.columns if column.unit in _NUMBERS and not column.is_minor]
    names = [(_CODE(name),) for name in frame["name"].cast(pl.String).to_list()]
    return _numbers_section("Ops", ("Op",), names, ops, frame, shown[:_MOST_COLUMNS], steps)


def _numbers_section(
    title: str,
    heads: tuple[str, ...],
    names: Sequence[tuple[str, ...]],
    shape: Table,
    frame: pl.DataFrame,
    numbers: Sequence[str],
    steps: int,
) -> Section:
    """Return rows with a name in one or two cells, and some of the columns of a table: per step, if there are some."""
    columns = {column.name: column for column in shape.columns}
    looks = [column_text(columns[name], frame, max(steps, 1)) for name in numbers]
    cells = [[write(value) for value in frame[name].to_list()] for name, (_, write) in zip(numbers, looks, strict=True)]
    rows = [(*name, *row) for name, row in zip(names, zip(*cells, strict=True), strict=True)] if numbers else []
    lines = (
        table((*heads, *(look for look, _ in looks)), rows, numbers=range(len(heads), len(heads) + len(looks)))
        if rows
        else ()
    )
    whole = f"{title}, {'per step' if steps else 'in all'}"
    return Section(whole, lines, least=min(len(lines), 2 + _FIRST_ROWS), rows="row")


def _more_section() -> Section:
    """Return how to ask for what is not in the text."""
    tables = [view.table or view.name for view in VIEWS if view.frame is not None and view.columns]
    return Section(
        "How to ask for more",
        (
            (
                f"- `report.NAME` is a data frame: {', '.join(tables)}. Times are in ns, memory in bytes; "
                "`help(type(report).NAME)` says what each column means."
            ),
            (
                '- `report.sql("SELECT name, self_cpu_ns FROM ops ORDER BY 2 DESC LIMIT 20")`, or '
                "`python -m torchprof_magic FILE --sql QUERY`, asks these tables."
            ),
            '- `report.summary("markdown", max_tokens=8000)` says more of the same.',
        ),
        least=3,
    )
