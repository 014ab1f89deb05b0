"""The data of a report for the page: a JSON header and a container of columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import polars as pl
from msgspec.structs import replace

from torchprof_magic.facts.counted_steps import counted_part, counted_steps, has_counted_steps
from torchprof_magic.facts.source.fused_titles import shown_titles
from torchprof_magic.facts.source.shown_files import spot_of
from torchprof_magic.findings.nearest_roof import without_advice
from torchprof_magic.findings.verdict.diagnosis import all_problems
from torchprof_magic.findings.verdict.doubts import what_to_record
from torchprof_magic.findings.verdict.words import first_sentence, with_place
from torchprof_magic.model.meta import shortened
from torchprof_magic.model.shapes import Facts, Problems, Slices, count_rows
from torchprof_magic.render.arrow import encode, pack, with_header
from torchprof_magic.render.exports import EXPORTS, Export, export_header
from torchprof_magic.render.header import (
    ChangeHeader,
    CodeHeader,
    MissingHeader,
    ReportHeader,
    SpanHeader,
    VerdictHeader,
    as_json,
    late_header,
    view_header,
    waiting_header,
)
from torchprof_magic.render.questions import Answers
from torchprof_magic.render.range_views import RangeViews
from torchprof_magic.render.text import machine_of, steps_sentence
from torchprof_magic.tables.execution_trace import has_graph
from torchprof_magic.tables.source.lines import lines_table
from torchprof_magic.tables.timeline.slice_windows import is_windowed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torchprof_magic.findings.verdict.decision import Verdict
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.shapes import FramedShape, Shape
    from torchprof_magic.model.trace import Trace
    from torchprof_magic.render.view import View
    from torchprof_magic.tables.timeline.slice_windows import SliceWindows


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPage:
    """What a page says of the change from an earlier run: its head, and the views of the tab Compare.

    ``is_first`` opens the page at that tab.
    """

    head: ChangeHeader
    views: tuple[tuple[View[Any], Shape], ...]
    is_first: bool = False

    def counted(self) -> dict[View[Any], FramedShape]:
        """Return the views that have something to show."""
        return {
            view: shape for view, shape in self.views if not isinstance(shape, (Facts, Problems)) and count_rows(shape)
        }

    @property
    def first(self) -> str:
        """The view at which the page is opened, empty for the usual one."""
        return next((view.name for view in self.counted()), "") if self.is_first else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A header as JSON text, the embedded bytes, and the views that the page reads on request, encoded then.

    ``answers`` has the timelines that are too long for a page, which asks for parts of them, and ``ranges`` the views
    that it asks for when a range of time is chosen.
    """

    header: str
    data: bytes
    pulled: Mapping[str, Callable[[], bytes]]
    answers: Mapping[str, Answers]
    ranges: RangeViews | None = None


def build_page(
    trace: Trace,
    views: Sequence[View[Trace]],
    shapes: Mapping[str, Shape],
    verdict: Verdict,
    run_id: str,
    *,
    is_standalone: bool = False,
    exports: Sequence[Export] = EXPORTS,
    live: Mapping[str, Callable[[], Shape]] = MappingProxyType({}),
    parent: str = "",
    can_compare: bool = False,
    can_choose_steps: bool = False,
    can_try: bool = False,
    change_line: str = "",
    compared: ComparedPage | None = None,
) -> Page:
    """Return the data for the front end, which offers the ``exports``, and a way back to the page called ``parent``.

    ``can_compare``: the page can ask for a comparison, with ``can_choose_steps`` for a page in which other steps count,
    and with ``can_try`` for one in which advice has been measured. ``change_line`` says in the header how the steps
    changed since the last run of the cell. ``compared`` is a comparison with another run, which has a tab of its own.

    A standalone page has no kernel, so none of its views is built on request, and it must contain what it exports.
    ``live`` builds the views that ask this process, each time that they are asked for.
    """
    shown = [view for view in views if _is_shown(view, trace, live)]
    waiting = [] if is_standalone else [view for view in shown if view.is_there is not None and view.place != "tab"]
    ready = [view for view in shown if view not in waiting and (view.place == "about" or count_rows(shapes[view.name]))]
    answers = _answers({view.name: shapes[view.name] for view in ready})
    excerpts = {name: _excerpt(each.windows, is_standalone=is_standalone) for name, each in answers.items()}
    changed = compared.counted() if compared is not None else {}
    built = {view: excerpts.get(view.name, shapes[view.name]) for view in ready} | changed
    ranges = RangeViews(trace, [] if is_standalone else [*ready, *waiting])
    packed = pack(framed({view.name: shape for view, shape in built.items()}))
    place = packed.places.get
    header = replace(
        _of_recording(trace, verdict, run_id),
        parent=parent,
        views=tuple(
            waiting_header(view) if view in waiting else view_header(view, built[view], place(view.name, (0, 0)))
            for view in (*shown, *changed)
            if view in built or view in waiting
        ),
        can_compare=can_compare,
        can_choose_steps=can_choose_steps,
        can_try=can_try,
        change_line=change_line,
        change=compared.head if compared is not None else None,
        ranged=tuple(ranges.names),
        first=(compared.first if compared is not None else "") or _first(trace),
        missing=() if has_graph(trace) else _missing(views, shapes),
        exports=tuple(export_header(export, run_id) for export in exports),
    )
    pulled = dict(packed.pulled) | {view.name: partial(_encoded, view, shapes, live) for view in waiting}
    return Page(header=as_json(header), data=packed.data, pulled=pulled, answers=answers, ranges=ranges)


def framed(shapes: Mapping[str, Shape]) -> dict[str, FramedShape]:
    """Return the shapes that have columns."""
    return {name: shape for name, shape in shapes.items() if not isinstance(shape, (Facts, Problems))}


def _answers(shapes: Mapping[str, Shape]) -> dict[str, Answers]:
    """Return what answers for the timelines that are too long for a page."""
    return {name: Answers(shape) for name, shape in shapes.items() if isinstance(shape, Slices) and is_windowed(shape)}


def _of_recording(trace: Trace, verdict: Verdict, run_id: str) -> ReportHeader:
    """Return the header with what it says of the recording, whatever views it has."""
    meta = trace.meta
    return ReportHeader(
        run_id=run_id,
        title=meta.title,
        subtitle="" if has_graph(trace) else steps_sentence(meta, trace.steps),
        code=meta.stepping.code if meta.stepping else "",
        machine=machine_of(trace),
        notice=_notice(trace),
        verdict=_verdict(trace, verdict),
        steps=counted_steps(trace).steps,
        step_ns=counted_steps(trace).mean_ns if has_counted_steps(trace) else None,
        titles=tuple(shown_titles(trace).items()),
        generated=tuple(trace.fx_code.select(pl.col("file").cast(pl.String), "text").iter_rows()),
        views=(),
        exports=(),
    )


def _first(trace: Trace) -> str:
    """Return the view to begin with, if it is not the first one: an execution trace has little else than its calls."""
    return "graph_ops" if has_graph(trace) else ""


def _missing(views: Sequence[View[Trace]], shapes: Mapping[str, Shape]) -> tuple[MissingHeader, ...]:
    """Return the views that were not recorded, with the flags that bring them."""
    missing = (view for view in views if view.flag and not count_rows(shapes[view.name]))
    return tuple(MissingHeader(title=view.title, flag=view.flag) for view in missing)


def _excerpt(windows: SliceWindows, *, is_standalone: bool) -> Slices:
    """Return what the page has of a timeline before it asks for more, which a standalone one cannot."""
    return windows.excerpt() if is_standalone else windows.overview()


def _is_shown(view: View[Trace], trace: Trace, live: Mapping[str, Callable[[], Shape]]) -> bool:
    """Return whether a recording has a view that can be built here."""
    return (view.name in live or not view.is_live) and (view.is_there is None or view.is_there(trace))


def _encoded(view: View[Trace], shapes: Mapping[str, Shape], live: Mapping[str, Callable[[], Shape]]) -> bytes:
    """Return a view that is built only now. Its own header comes first, because the page's was sent without it."""
    shape = live[view.name]() if view.name in live else shapes[view.name]
    assert not isinstance(shape, (Facts, Problems))
    head = late_header(view, shape, None if count_rows(shape) else view.empty)
    return with_header(head, encode(shape))


def verdict_line(trace: Trace, verdict: Verdict) -> CodeHeader | None:
    """Return the number and the source of the line that a verdict names, or None if it names none that is known."""
    rows = lines_table(trace, counted_part(trace)).frame.rows(named=True)
    line = next((row for row in rows if (row["file"], row["line"]) == (verdict.file, verdict.line)), None)
    if line is None or not verdict.line or not line["source"] or not (trace.sites["kind"] == "line").any():
        return None
    spot = spot_of(trace, verdict.file, verdict.line)
    return CodeHeader(line=line["line"], source=shortened(line["source"].strip()), spot=spot)


def _verdict(trace: Trace, verdict: Verdict) -> VerdictHeader:
    """Return the verdict with the line that it names, and its gravest doubt apart from the rest."""
    code = verdict_line(trace, verdict)
    said, more = first_sentence(with_place(verdict.text, () if code else verdict.where))
    to_record = what_to_record(verdict.doubts)
    # What is done once is no work to make faster.
    instead = to_record or without_advice(trace)
    return VerdictHeader(
        title=verdict.title,
        text=tuple(SpanHeader(text=span.short, style=span.style) for span in said),
        more=tuple(SpanHeader(text=span.short, style=span.style) for span in more),
        code=code,
        doubts=tuple(doubt for doubt in verdict.doubts if doubt != to_record),
        without_advice=instead,
    )


def _notice(trace: Trace) -> str:
    """Return the most severe data loss as a sentence, or an empty string."""
    if lost := [problem for problem in all_problems(trace) if problem.severity == "data_loss"]:
        return sentence(lost[0])
    if trace.meta.is_partial:
        cut = trace.steps.filter(~trace.steps["complete"]).height
        return f"Partial result: {cut} step{'s are' if cut != 1 else ' is'} incomplete."
    return ""


def sentence(problem: Problem) -> str:
    """Return a problem with what to do about it."""
    text = problem.message[:1].upper() + problem.message[1:]
    return f"{text.rstrip('.')}. {problem.fix}".strip()
