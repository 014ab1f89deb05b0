"""Tests that the page knows causes of waits by the titles that they have here."""

from __future__ import annotations

from pathlib import Path

from torchprof_magic.facts.device.idle_pieces import CAUSE_TITLES, CAUSES

PAINTER = Path(__file__).parents[4] / "js/src/draw/timeline/waits.ts"


def test_every_cause_has_a_title() -> None:
    assert set(CAUSE_TITLES) == set(CAUSES)


def test_waits_in_which_events_are_missing_are_painted_by_their_title() -> None:
    assert f'const MISSING = "{CAUSE_TITLES["missing"]}";' in PAINTER.read_text(encoding="utf-8")
