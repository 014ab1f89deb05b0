"""Advice as the page shows it: its place in words, and how sure it is as a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.analysis.lines import lines_table
from torchprof_magic.analysis.verdict_words import place_of
from torchprof_magic.model.shapes import Card

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchprof_magic.analysis.advice.kinds import Advice
    from torchprof_magic.model.trace import Trace

# Advice whose line is not the one to change, and whose saving is one of each step.
_AT = {"memory_leak": "; allocated in"}
_PER = {"memory_leak": " a step"}
LEVELS = {"measured": 3, "measured here": 3, "estimated": 2, "guess": 1}


def cards_of(trace: Trace, advice: Iterable[Advice]) -> tuple[Card, ...]:
    """Return a card for each piece of advice, in the same order."""
    has_lines = lines_table(trace).frame.height > 0
    return tuple(_card(trace, each, has_lines=has_lines) for each in advice)


def _card(trace: Trace, advice: Advice, *, has_lines: bool) -> Card:
    return Card(
        rule=advice.rule,
        title=advice.title,
        fix=advice.fix,
        place=_place(trace, advice),
        at=_AT.get(advice.rule, " in"),
        evidence=advice.evidence,
        saving_ns=advice.saving_ns,
        saving_bytes=advice.saving_bytes,
        per=_PER.get(advice.rule, ""),
        certainty=advice.certainty,
        level=LEVELS[advice.certainty],
        view="source" if has_lines and advice.line else "",
    )


def _place(trace: Trace, advice: Advice) -> str:
    """Return the line in words: its number alone in the cell that was recorded."""
    cell = trace.meta.cell
    if cell is not None and advice.file == cell.filename and advice.line:
        return f"line {advice.line}"
    return place_of(trace, advice.file, advice.line)
