"""The data of a report for the page: a JSON header and a container of columns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from torchprof_magic.facts.device.kernel_names import titles_of
from torchprof_magic.findings.verdict.diagnosis import all_problems
from torchprof_magic.model.meta import shortened
from torchprof_magic.model.shapes import Facts, Problems, Slices, Table, count_rows, top_rows
from torchprof_magic.render.arrow import encode, pack, with_header
from torchprof_magic.render.exports import EXPORTS, Export, export_header
from torchprof_magic.render.header import describe
from torchprof_magic.render.questions import Answers
from torchprof_magic.render.range_views import RangeViews
from torchprof_magic.render.text import machine_of, steps_sentence
from torchprof_magic.tables.execution_trace import has_graph
from torchprof_magic.tables.source.lines import lines_table
from torchprof_magic.tables.steps import steps_worth
from torchprof_magic.tables.timeline.slice_windows import is_windowed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torchprof_magic.findings.verdict.decision import Verdict
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.shapes import Shape
    from torchprof_magic.model.trace import Trace
    from torchprof_magic.render.view import View
    from torchprof_magic.tables.timeline.slice_windows import SliceWindows

HEADER_VERSION = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPage:
    """What a page says of the change from an earlier run: its head, and the views of the tab Compare.

    ``is_first`` opens the page at that tab.
    """

    head: Mapping[str, object]
    views: tuple[tuple[View[Any], Shape], ...]
    is_first: bool = False


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
    change_line: str = "",
    compared: ComparedPage | None = None,
) -> Page:
    """Return the data for the front end, which offers the ``exports``, and a way back to the page called ``parent``.

    ``can_compare``: the page can ask for a comparison. ``change_line`` says in the header how the steps changed since
    the last run of the cell. ``compared`` is a comparison with another run, which has a tab of its own.

    A standalone page has no kernel, so none of its views is built on request, and it must contain what it exports.
    ``live`` builds the views that ask this process, each time that they are asked for.
    """
    shown = [view for view in views if _is_shown(view, trace, live)]
    is_late = not is_standalone
    waiting = [view for view in shown if is_late and view.is_there is not None and view.place != "tab"]
    ready = [view for view in shown if view not in waiting and (view.place == "about" or count_rows(shapes[view.name]))]
    framed = {view.name: shape for view in ready if not isinstance(shape := shapes[view.name], (Facts, Problems))}
    answers = {
        name: Answers(shape) for name, shape in framed.items() if isinstance(shape, Slices) and is_windowed(shape)
    }
    sent = framed | {name: _excerpt(each.windows, is_standalone=is_standalone) for name, each in answers.items()}
    ranges = RangeViews(trace, [] if is_standalone else ready)
    pairs = compared.views if compared is not None else ()
    changed = [(view, shape) for view, shape in pairs if not isinstance(shape, (Facts, Problems)) and count_rows(shape)]
    packed = pack(sent | {view.name: shape for view, shape in changed})
    header = {
        "version": HEADER_VERSION,
        "runId": run_id,
        "parent": parent,
        **_recording_header(trace, verdict),
        "views": [
            _waiting_header(view)
            if view in waiting
            else view_header(view, sent.get(view.name, shapes[view.name]), packed.places)
            for view in shown
            if view in ready or view in waiting
        ]
        + [view_header(view, shape, packed.places) for view, shape in changed],
        "canCompare": can_compare,
        "changeLine": change_line,
        "change": dict(compared.head) if compared is not None else None,
        "ranged": ranges.names,
        "first": changed[0][0].name if compared is not None and compared.is_first and changed else _first(trace),
        "missing": [] if has_graph(trace) else _missing(views, shapes),
        "exports": [export_header(export, run_id) for export in exports],
    }
    pulled = dict(packed.pulled) | {view.name: partial(_encoded, view, shapes, live) for view in waiting}
    return Page(header=json.dumps(header), data=packed.data, pulled=pulled, answers=answers, ranges=ranges)


def _recording_header(trace: Trace, verdict: Verdict) -> dict[str, object]:
    """Return what the page says of the recording, whatever views it has."""
    meta = trace.meta
    return {
        "title": meta.title,
        "subtitle": "" if has_graph(trace) else steps_sentence(meta, trace.steps),
        "code": meta.stepping.code if meta.stepping else "",
        "machine": machine_of(trace),
        "notice": _notice(trace),
        "verdict": _verdict(trace, verdict),
        "steps": steps_worth(trace),
        "titles": list(titles_of(trace).items()),
    }


def _first(trace: Trace) -> str:
    """Return the view to begin with, if it is not the first one: an execution trace has little else than its calls."""
    return "graph_ops" if has_graph(trace) else ""


def _missing(views: Sequence[View[Trace]], shapes: Mapping[str, Shape]) -> list[dict[str, str]]:
    """Return the views that were not recorded, with the flags that bring them."""
    missing = (view for view in views if view.flag and not count_rows(shapes[view.name]))
    return [{"title": view.title, "flag": view.flag} for view in missing]


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
    head = {"empty": None if count_rows(shape) else view.empty, **describe(shape, (0, 0))}
    return with_header(json.dumps(head), encode(shape))


def verdict_line(trace: Trace, verdict: Verdict) -> dict[str, object] | None:
    """Return the number and the source of the line that a verdict names, or None if it names none that is known."""
    rows = lines_table(trace).frame.rows(named=True)
    line = next((row for row in rows if (row["file"], row["line"]) == (verdict.file, verdict.line)), None)
    if line is None or not verdict.line or not line["source"] or not (trace.sites["kind"] == "line").any():
        return None
    return {"line": line["line"], "source": shortened(line["source"].strip())}


def _verdict(trace: Trace, verdict: Verdict) -> dict[str, object]:
    """Return the verdict with the line that it names, and its gravest doubt apart from the rest."""
    code = verdict_line(trace, verdict)
    return {
        "title": verdict.title,
        "text": [
            {"text": span.short, "style": span.style} for span in (*verdict.text, *(() if code else verdict.where))
        ],
        "code": code,
        "doubts": list(verdict.doubts),
    }


def view_header(view: View[Any], shape: Shape, places: Mapping[str, tuple[int, int]]) -> dict[str, object]:
    """Return the header of a view that is built."""
    rows = count_rows(shape)
    return {
        **_tab_header(view),
        "count": _top_rows(shape) if view.is_counted else None,
        "empty": None if rows else view.empty,
        **describe(shape, places.get(view.name, (0, 0))),
    }


def _top_rows(shape: Shape) -> int:
    """Return the rows that are in no other row."""
    return top_rows(shape).height if isinstance(shape, Table) else count_rows(shape)


def _waiting_header(view: View[Any]) -> dict[str, object]:
    """Return the header of a table that is built when it is first shown."""
    return {**_tab_header(view), "count": None, "empty": None, "shape": "waiting"}


def _tab_header(view: View[Any]) -> dict[str, object]:
    return {
        "name": view.name,
        "title": view.title,
        "place": view.place,
        "tab": view.tab or view.name,
        "group": view.group,
    }


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
