"""``Changes``: what changed from one recording to another, as tables, in words, and for a page."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import isnan
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import left_out_of_whole
from torchprof_magic.facts.device.believable import believable
from torchprof_magic.findings.compare.cause import cause_of, new_or_gone, only_of_one
from torchprof_magic.findings.compare.change_words import (
    SIGNS,
    change_evidence,
    change_interval,
    change_line,
    change_numbers,
    change_times,
    change_title,
    largest_change,
    of_recorded,
    recorded_words,
)
from torchprof_magic.findings.compare.changes import Runs, code_change
from torchprof_magic.findings.compare.per_step import sample_of
from torchprof_magic.findings.compare.phase_changes import phase_words, sure_phases
from torchprof_magic.findings.compare.run_change import compared_steps, find_change
from torchprof_magic.findings.compare.setting_changes import warnings_of
from torchprof_magic.findings.compare.work_change import what_is_same
from torchprof_magic.model.outliers import are_outliers
from torchprof_magic.model.shapes import Table
from torchprof_magic.render.header import ChangeHeader, RunHeader
from torchprof_magic.render.page import ComparedPage
from torchprof_magic.report.changed_views import TABLES, TABS
from torchprof_magic.report.tables import HasTables, Tables, with_tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchprof_magic.findings.compare.cause import Cause
    from torchprof_magic.findings.compare.per_step import RunSample
    from torchprof_magic.findings.compare.run_change import RunChange
    from torchprof_magic.findings.compare.step_change import Certainty, ChangeKind
    from torchprof_magic.model.shapes import Shape
    from torchprof_magic.model.trace import Trace
    from torchprof_magic.render.view import View


# A row explains a change of the steps from this share of the largest one on.
LEAST_EXPLAINING = 0.05
_EXPLAINING_FIRST = "First what explains the change, then the rest, each with the largest change on top."


@with_tables(TABLES)
class Changes(HasTables[Runs]):
    """What changed from the recording ``before`` to the recording ``after``."""

    def __init__(self, before: Trace, after: Trace) -> None:
        self.before = believable(before)
        self.after = believable(after)

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

        If only work that one run does tells a change (``change.basis`` is ``work``), it is the ratio by that work.
        """
        return self.change.ratio

    @property
    def interval(self) -> tuple[float, float]:
        """The confidence interval of 98 % of the change, which holds ``step_ratio``; open with too few steps."""
        return self.change.interval

    @cached_property
    def change(self) -> RunChange:
        """The change of the step time with all that it is decided by; see docs/comparing.md."""
        return find_change(*self._samples)

    @property
    def warnings(self) -> list[str]:
        """What makes the comparison less than fair, such as flags that only one run had."""
        return warnings_of(self.before, self.after)

    @property
    def line(self) -> str:
        """The change as one line: ``▼ 42 ms faster per step than before (−18.9 %)``."""
        return change_line(self.change)

    @property
    def runs(self) -> Runs:
        """Both traces."""
        return Runs(self.before, self.after)

    @property
    def title(self) -> str:
        """The change in a few words, with its sign: ``▼ 20 % faster, likely``."""
        return f"{SIGNS[self.kind]} {change_title(self.change)}"

    @property
    def numbers(self) -> str:
        """The step times of both runs with the interval of the difference."""
        return change_numbers(self.change)

    @cached_property
    def answer(self) -> str:
        """What makes most of the change, and which waiting changed for sure; empty if nothing is more than noise."""
        before_ns, after_ns = (sample.step_ns for sample in self._samples)
        words = self._cause.words if self._cause is not None else ""
        most = of_recorded(words, self.change, before_ns, after_ns)
        if not most and self.change.basis in ("steps", "waits"):
            most = largest_change(next(iter(self.largest.values())), self.change.ratio)
        waiting = phase_words(sure_phases(self.before, self.after))
        return " ".join(part for part in (most, waiting) if part)

    @property
    def _basis(self) -> str:
        """What the answer and the tables compare, where that is not what the title compares."""
        if not self.change.is_plain:
            return ""
        before_ns, after_ns = (sample.step_ns for sample in self._samples)
        return recorded_words(before_ns, after_ns, self.answer)

    @property
    def evidence(self) -> str:
        """What changed most, and why the change is known, or why not."""
        return " ".join(part for part in (self.answer, change_evidence(self.change), self._basis) if part)

    @property
    def words(self) -> list[str]:
        """What is said of the change, line by line."""
        return [f"{self.title}: {self.numbers}", self.evidence, *self.warnings]

    def other_than(self, trace: Trace) -> Trace:
        """Return the recording that a recording is compared with."""
        return self.after if self.before is believable(trace) else self.before

    def with_trace(self, trace: Trace, other: Trace) -> Changes:
        """Return the changes with another recording in the place of one."""
        return Changes(*(other if each is trace else each for each in (self.before, self.after)))

    def page(self, *, shown: Trace, is_first: bool) -> ComparedPage:
        """Return what the page of the recording ``shown`` says of this comparison."""
        change = self.change
        head = ChangeHeader(
            kind=self.kind,
            title=change_title(change),
            numbers=change_times(change),
            answer=self.answer,
            opens=self._opens,
            evidence=". ".join(
                part for part in (change_interval(change), f"{change_evidence(change)} {self._basis}".rstrip()) if part
            ),
            warnings=tuple(self.warnings),
            runs=tuple(
                RunHeader(
                    title=title,
                    is_shown=trace is shown,
                    steps=tuple(steps),
                    left_out=self._left_out(trace, steps),
                    typical=None if isnan(ns) else ns,
                )
                for title, trace, steps, ns in zip(
                    self._titles,
                    (self.before, self.after),
                    compared_steps(*self._samples)[:2],
                    (change.before_ns, change.after_ns),
                    strict=True,
                )
            ),
            settings=tuple(self.settings.iter_rows()),
            same=self._same(),
        )
        return ComparedPage(head=head, views=self._shown_shapes, is_first=is_first)

    def _same(self) -> str:
        """Return what both runs have in common, and whether their cells differ."""
        return what_is_same(*self._samples, code_change(self.runs))

    def _left_out(self, trace: Trace, steps: tuple[int, ...]) -> tuple[int, ...]:
        """Return which of the compared steps of a run do not count in its typical step."""
        if self.change.is_plain:
            return tuple(np.flatnonzero(are_outliers(np.asarray(steps, np.float64))).tolist())
        return tuple(left_out_of_whole(trace).tolist()) if steps else ()

    @property
    def largest(self) -> dict[str, Table]:
        """The tables of the page whose largest change comes first, by their titles, in its order."""
        shapes = ((view.group, shape) for view, shape in self._shapes)
        return {title: shape for title, shape in shapes if isinstance(shape, Table) and shape.sort_by}

    @cached_property
    def _shapes(self) -> tuple[tuple[View[Runs], Shape], ...]:
        return tuple((view, view.shape(self.runs)) for view in TABS)

    @property
    def _shown_shapes(self) -> tuple[tuple[View[Runs], Shape], ...]:
        """The views; where a run has no steps, the titles of their times say what each is of."""
        bases = {
            f"{kind}{which}_ns": "per step" if trace.steps.height else "in all"
            for kind in ("", "device_")
            for which, trace in (("before", self.before), ("after", self.after))
        }
        way = {"slower": 1, "faster": -1}.get(self.kind, 0)
        shapes = tuple((view, explaining_first(shape, way)) for view, shape in self._shapes)
        if "in all" not in bases.values():
            return shapes
        return tuple((view, _based(shape, bases)) for view, shape in shapes)

    @cached_property
    def _cause(self) -> Cause | None:
        """What makes most of the change; of one that may be chance what is new or gone, as that is none.

        Where the recorded steps changed the other way than those that are compared, what both runs do took other times
        for other reasons, so that only what one of them does can be the cause.
        """
        before, after = (sample.step_ns for sample in self._samples)
        is_slower = self.change.ratio > 1
        compared_ns = self.change.after_ns - self.change.before_ns
        if self.change.certainty == "too few steps":
            return None
        if self.kind == "unclear" or self.change.basis == "work":
            told_ns = after - before if self.kind != "unclear" and (after > before) == is_slower else 0
            alone = new_or_gone(self.largest, min(self.change.before_ns, self.change.after_ns), told_ns)
            if alone is not None or self.kind == "unclear":
                return alone
        if (after > before) == is_slower:
            return cause_of(self.largest, after - before)
        if (compared_ns > 0) != is_slower:
            return None
        return cause_of({title: only_of_one(table) for title, table in self.largest.items()}, compared_ns)

    @property
    def _opens(self) -> str:
        """The name of the view that explains the change; empty for the first."""
        title = self._cause.table if self._cause is not None else ""
        return next((view.name for view, _ in self._shapes if view.group == title), "")

    @cached_property
    def _tables(self) -> Tables[Runs]:  # type: ignore[override]
        return Tables(TABLES, self.runs)

    @property
    def _samples(self) -> tuple[RunSample, RunSample]:
        return sample_of(self.before), sample_of(self.after)

    @property
    def _titles(self) -> tuple[str, str]:
        """What the runs are called; equal titles are told apart."""
        before, after = (trace.meta.title for trace in (self.before, self.after))
        return (
            (before, after)
            if before and after and before != after
            else (f"{before} before".strip(), f"{after} after".strip())
        )


def explaining_first(shape: Shape, way: int) -> Shape:
    """Return a table of changes, those first that go the way of the steps, 1 for longer, and are not small.

    It says so where that is not the order of their sizes alone.
    """
    if not isinstance(shape, Table) or not (shape.sort_by or "").endswith("delta_ns") or not way:
        return shape
    change = pl.col(str(shape.sort_by))
    explains = change * way >= (LEAST_EXPLAINING * change.abs().max()).clip(1)
    frame = shape.frame.sort(explains, descending=True, maintain_order=True)
    return replace(shape, frame=frame, answer="" if frame.equals(shape.frame) else _EXPLAINING_FIRST)


def _based(shape: Shape, bases: Mapping[str, str]) -> Shape:
    """Return a table with what some columns are of in their titles, by their names; other shapes as they are."""
    if not isinstance(shape, Table):
        return shape
    columns = [
        replace(each, title=f"{each.title} {bases[each.name]}") if each.name in bases else each
        for each in shape.columns
    ]
    return replace(shape, columns=tuple(columns))
