"""``Comparison``: what changed from one run to another, as data frames, text, a live view and a file."""

from __future__ import annotations

from functools import cached_property
from math import isnan
from typing import TYPE_CHECKING

from torchprof_magic.findings.compare.change_words import (
    SIGNS,
    change_evidence,
    change_line,
    change_numbers,
    change_title,
)
from torchprof_magic.findings.compare.changes import (
    Runs,
    cell_diff,
    changed_idle,
    changed_kernels,
    changed_lines,
    changed_memory,
    changed_modules,
    changed_ops,
    changed_phases,
    changed_waits,
)
from torchprof_magic.findings.compare.per_step import sample_of
from torchprof_magic.findings.compare.run_change import compared_steps, find_change
from torchprof_magic.findings.compare.setting_changes import changed_settings, warnings_of
from torchprof_magic.render.change_text import change_html, change_text
from torchprof_magic.render.page import ComparedPage
from torchprof_magic.report.compared_views import COMPARED_VIEWS

if TYPE_CHECKING:
    import os
    from pathlib import Path

    import polars as pl

    from torchprof_magic.findings.compare.per_step import RunSample
    from torchprof_magic.findings.compare.run_change import ComparedSteps, RunChange
    from torchprof_magic.findings.compare.step_change import Certainty, ChangeKind
    from torchprof_magic.model.trace import Trace
    from torchprof_magic.render.widget import ReportWidget
    from torchprof_magic.report.trace_report import Report


class Comparison:
    """What changed from the run ``before`` to the run ``after``.

    Frames have the columns ``before``, ``after`` and ``delta``: own host time in a typical step, in ns, or bytes. With
    a device in both runs they also have ``device_before``, ``device_after`` and ``device_delta``. ``status`` is both,
    new or gone. The largest change comes first; if the steps alone cannot tell what changed, that beyond what all ops
    share. A typical value of a row is the mean of the middle half of the steps.
    """

    def __init__(self, before: Report, after: Report) -> None:
        self.before = before
        self.after = after

    @property
    def kind(self) -> ChangeKind:
        """``faster`` or ``slower`` if the run ``after`` is, and ``unclear`` if the steps cannot tell."""
        return self.change.kind

    @property
    def certainty(self) -> Certainty:
        """``sure`` (p < 0.01), ``likely`` (p < 0.02), ``not sure``, or ``too few steps`` (fewer than 4 on a side)."""
        return self.change.certainty

    @property
    def step_ratio(self) -> float:
        """Typical step after over before: 1.05 is 5 % slower; nan without steps.

        If only work that one run does tells a change (``change.basis`` is ``work``), that work counts as well.
        """
        return self.change.ratio

    @property
    def interval(self) -> tuple[float, float]:
        """The confidence interval of 98 % of ``step_ratio``; from 0 to infinity with too few steps."""
        return self.change.interval

    @cached_property
    def change(self) -> RunChange:
        """The change of the step time with all that it is decided by; see docs/comparing.md."""
        return find_change(*self._samples)

    @cached_property
    def ops(self) -> pl.DataFrame:
        """One row per op or annotation, by ``name``."""
        return changed_ops(self.runs)

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """One row per kernel, copy or fill, by ``name``, with its time on the device; empty without one in both."""
        return changed_kernels(self.runs)

    @cached_property
    def lines(self) -> pl.DataFrame:
        """One row per line of the program: ``file, line, source``. Lines that moved within the cell are recognised."""
        return changed_lines(self.runs)

    @cached_property
    def modules(self) -> pl.DataFrame:
        """One row per module, by ``path`` and ``class_name``: forward and backward without the modules inside it."""
        return changed_modules(self.runs)

    @cached_property
    def memory(self) -> pl.DataFrame:
        """The peak of each ``device`` in bytes, and what was in use then by ``name`` of its category."""
        return changed_memory(self.runs)

    @cached_property
    def phases(self) -> pl.DataFrame:
        """One row per phase of a step, in ns a step."""
        return changed_phases(self.runs)

    @cached_property
    def waits(self) -> pl.DataFrame:
        """One row per blocking call, in ns a step."""
        return changed_waits(self.runs)

    @cached_property
    def idle(self) -> pl.DataFrame:
        """One row per cause for which a device idled, in ns a step."""
        return changed_idle(self.runs)

    @cached_property
    def settings(self) -> pl.DataFrame:
        """What differs besides: versions, devices, flags, shapes, metadata; as text, one row per ``name``."""
        return changed_settings(self.before.trace, self.after.trace)

    @cached_property
    def code(self) -> pl.DataFrame:
        """The lines of both cells: ``sign`` is ``+`` for a new one, ``-`` for one that went, else empty."""
        return cell_diff(self.runs)

    @property
    def warnings(self) -> list[str]:
        """What makes the comparison less than fair, such as flags that only one run had."""
        return warnings_of(self.before.trace, self.after.trace)

    @property
    def line(self) -> str:
        """The change as one line: ``step 222 ms → 180 ms, −19 %, sure``."""
        return change_line(self.change)

    def summary(self) -> str:
        """Return the change as one screen of text."""
        return change_text(self._words, self.settings, self._tables)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the report of the run ``after``, opened at the comparison, as one file, and return its path.

        The file opens without a network. Raises ``ExportError`` when it cannot be written.
        """
        return self._report.to_html(path)

    @property
    def widget(self) -> ReportWidget:
        """The live view: the report of the run ``after``, opened at the comparison."""
        return self._report.widget

    @cached_property
    def runs(self) -> Runs:
        """Both traces, and the drift that ranks leave out where the steps alone do not tell what changed."""
        drift = 1.0 if self.change.basis == "steps" else self.change.drift
        return Runs(self.before.trace, self.after.trace, drift)

    @property
    def title(self) -> str:
        """The change in a few words, with its sign: ``▼ 20 % faster, likely``."""
        return f"{SIGNS[self.kind]} {change_title(self.change)}"

    @property
    def numbers(self) -> str:
        """The step times of both runs with the interval of the difference."""
        return change_numbers(self.change)

    @property
    def evidence(self) -> str:
        """Why the change is known, or why not."""
        return change_evidence(self.change)

    @property
    def _samples(self) -> tuple[RunSample, RunSample]:
        return sample_of(self.before.trace), sample_of(self.after.trace)

    @property
    def _compared_steps(self) -> ComparedSteps:
        return compared_steps(*self._samples)

    @property
    def _words(self) -> list[str]:
        """What is said of the change, line by line."""
        return [f"{self.title}: {self.numbers}", self.evidence, *self.warnings]

    @property
    def _tables(self) -> dict[str, pl.DataFrame]:
        """The tables that a summary shows."""
        return {
            "Ops": self.ops,
            "Kernels": self.kernels,
            "Modules": self.modules,
            "Lines": self.lines,
            "Phases": self.phases,
            "Waits": self.waits,
            "Idle": self.idle,
            "Memory": self.memory,
        }

    def other_than(self, trace: Trace) -> Trace:
        """Return the recording that this one is compared with."""
        return self.after.trace if self.before.trace is trace else self.before.trace

    def page(self, *, shown: Trace, is_first: bool) -> ComparedPage:
        """Return what the page of a report of the recording ``shown`` says of this comparison."""
        change = self.change
        head = {
            "kind": self.kind,
            "title": change_title(change),
            "numbers": self.numbers,
            "evidence": self.evidence,
            "warnings": self.warnings,
            "runs": [
                {
                    "title": title,
                    "isShown": report.trace is shown,
                    "steps": list(steps),
                    "typical": None if isnan(ns) else ns,
                }
                for title, report, steps, ns in zip(
                    self._titles,
                    (self.before, self.after),
                    self._compared_steps[:2],
                    (change.before_ns, change.after_ns),
                    strict=True,
                )
            ],
            "settings": self.settings.rows(),
        }
        views = tuple((view, view.build(self.runs)) for view in COMPARED_VIEWS)
        return ComparedPage(head=head, views=views, is_first=is_first)

    @property
    def _titles(self) -> tuple[str, str]:
        """What the runs are called; equal titles are told apart."""
        before, after = (report.trace.meta.title for report in (self.before, self.after))
        return (
            (before, after)
            if before and after and before != after
            else (f"{before} before".strip(), f"{after} after".strip())
        )

    @cached_property
    def _report(self) -> Report:
        return self.after.with_comparison(self, is_first=True)

    def _repr_html_(self) -> str:
        return change_html(self._words, self.settings, self._tables)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the comparison as text and as HTML without scripts."""
        del include, exclude
        return {"text/plain": self.summary(), "text/html": self._repr_html_()}

    def _ipython_display_(self) -> None:
        """Show the live view with a static copy, as a report."""
        from torchprof_magic.render.display import show_here  # noqa: PLC0415 - IPython calls this, so it is installed

        show_here(self)

    def _repr_png_(self) -> None:
        """Return no image: the text and the HTML say it all."""

    def _display_(self) -> object:
        """Return what marimo shows."""
        return self.widget

    def __repr__(self) -> str:
        return f"<Comparison {self.title}: {self.numbers}>"
