"""Advice as the page shows it: its place in words, and how sure it is as a number."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchprof_magic.facts.counted_steps import counted_part
from torchprof_magic.facts.source.shown_files import spot_of
from torchprof_magic.findings.advice.kinds import Advice
from torchprof_magic.findings.advice.line_changes import changes_of
from torchprof_magic.findings.advice.trial_plan import tries
from torchprof_magic.findings.ranks.verdict import file_words
from torchprof_magic.findings.verdict.words import place_of
from torchprof_magic.model.shapes import Card
from torchprof_magic.tables.source.lines import lines_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchprof_magic.model.trace import Trace

# Advice whose line is not the one to change, and whose saving is one of each step.
_AT = {"memory_leak": "; allocated in"}
_PER = {"memory_leak": " per step"}
LEVELS = {"measured": 3, "measured here": 3, "estimated": 2, "guess": 1}


def cards_of(trace: Trace, advice: Sequence[Advice]) -> tuple[Card, ...]:
    """Return a card for each piece of advice, in the same order."""
    has_lines = lines_table(trace, counted_part(trace)).frame.height > 0
    views = ("source" if has_lines and each.line else "" for each in advice)
    changed = (changes_of(trace, each) for each in advice)
    cards = (
        replace(_card(each, _place(trace, each), view), can_try=tries(trace, each), changes=changes, is_whole=is_whole)
        for each, view, (changes, is_whole) in zip(advice, views, changed, strict=True)
    )
    spots = (spot_of(trace, each.file, each.line) for each in advice)
    return tuple(replace(card, spot=spot if card.view else "") for card, spot in zip(cards, spots, strict=True))


def chosen_card(advice: Sequence[Advice], which: int | str | Advice) -> Advice:
    """Return the advice of a card: by its number on the page, from 1, by the name of its rule, or by its title.

    Advice that was found is returned as it is. Raises ``IndexError``, which lists the cards that there are.
    """
    if isinstance(which, str):
        found = [each for each in advice if which in (each.rule, each.title)]
    elif isinstance(which, int) and not isinstance(which, bool):
        found = list(advice[which - 1 : which]) if which > 0 else []
    else:
        found = [each for each in advice if each == which]
    if len(found) == 1:
        return found[0]
    numbers = ", ".join(f"{number} ({each.rule})" for number, each in enumerate(advice, 1))
    there = f"the report has {numbers}" if advice else "the report has none"
    asked = which.rule if isinstance(which, Advice) else which
    if found:
        raise IndexError(f"{len(found)} cards are called {asked!r}; choose by number: {there}")
    raise IndexError(f"there is no advice {asked!r}; {there}")


# A time of the recording is the most that a change can save: nobody has measured what it does save.
_WORDS = {"measured": "recorded"}


def cards_of_job(advice: Iterable[Advice]) -> tuple[Card, ...]:
    """Return a card for each piece of advice about all ranks of a job."""
    return tuple(_card(each, f"line {each.line} of {file_words(each.file)}" if each.line else "") for each in advice)


def _card(advice: Advice, place: str, view: str = "") -> Card:
    return Card(
        rule=advice.rule,
        title=advice.title,
        fix=advice.fix,
        place=place,
        at=_AT.get(advice.rule, " in"),
        evidence=advice.evidence,
        saving_ns=advice.saving_ns,
        saving_bytes=advice.saving_bytes,
        per=_PER.get(advice.rule, ""),
        certainty=_WORDS.get(advice.certainty, advice.certainty),
        level=LEVELS[advice.certainty],
        view=view,
    )


def _place(trace: Trace, advice: Advice) -> str:
    """Return the line in words: its number alone in the cell that was recorded."""
    cell = trace.meta.cell
    if cell is not None and advice.file == cell.filename and advice.line:
        return f"line {advice.line}"
    return place_of(trace, advice.file, advice.line)
