"""``Comparison``: what changed from one run to another, as data frames, text, a live view and a file."""

from __future__ import annotations

import json
from math import isnan
from typing import TYPE_CHECKING

from torchprof_magic.render.change_text import MOST_ROWS, change_html, change_markdown, change_text
from torchprof_magic.render.displayed import Displayed, Forms, KeptView
from torchprof_magic.report.analysis import Analysis
from torchprof_magic.report.changes import Changes
from torchprof_magic.report.trace_forms import TraceForms

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.model.trace import Trace
    from torchprof_magic.render.widget import Shown


class Comparison(Changes, Displayed["ChangeForms"]):
    """What changed from the run ``before`` to the run ``after``, which are traces.

    Frames have the columns ``before_ns``, ``after_ns`` and ``delta_ns``, own host time in a typical step, or
    ``before_bytes`` and so on. With a device in both runs they also have ``device_before_ns``, ``device_after_ns`` and
    ``device_delta_ns``. ``status`` is both, new or gone. The largest change comes first, on the host or on the device:
    there where the larger one is. A row has the same time per step as in the report of its run. The live view and the
    file are the report of the run ``after``, opened at the comparison.
    """

    def __init__(self, before: Trace, after: Trace, forms: TraceForms | None = None) -> None:
        """Compare two recordings; ``forms`` are those of the report of ``after``, if there is one."""
        Changes.__init__(self, before, after)
        Displayed.__init__(self)
        of_after = TraceForms(Analysis(after)) if forms is None else forms
        self._forms = ChangeForms(self, of_after.with_changes(self, is_first=True))

    def __repr__(self) -> str:
        return f"<Comparison {self.title}: {self.numbers}>"


class ChangeForms(Forms):
    """The text and the HTML of a comparison, beside the live view and the file of the run after."""

    def __init__(self, changes: Changes, of_after: TraceForms) -> None:
        self._changes = changes
        self._of_after = of_after

    def text(self) -> str:
        """Return the change as one screen of text."""
        return change_text(self._changes.words, self._changes.settings, self._changes.largest)

    def markdown(self, max_tokens: int) -> str:
        """Return the same as Markdown, with more rows."""
        return change_markdown(self._changes.words, self._changes.settings, self._changes.largest, max_tokens)

    def json(self) -> str:
        """Return the change, what differs, and the largest changes."""
        changes = self._changes
        found = {
            "kind": changes.kind,
            "certainty": changes.certainty,
            "step_ratio": None if isnan(changes.step_ratio) else changes.step_ratio,
            "words": changes.words,
            "settings": changes.settings.to_dicts(),
            "changes": {title: table.frame.head(MOST_ROWS).to_dicts() for title, table in changes.largest.items()},
        }
        return json.dumps(found, default=str)

    def html(self) -> str:
        """Return the same as HTML."""
        return change_html(self._changes.words, self._changes.settings, self._changes.largest)

    def shown(self, kept: KeptView) -> Shown:
        """Return the live view of the run after, opened at the comparison."""
        return self._of_after.shown(kept)

    def write_html(self, target: Path) -> Path:
        """Write the report of the run after, opened at the comparison."""
        return self._of_after.write_html(target)
