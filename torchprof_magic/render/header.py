"""The header of a page: everything that it needs besides the bytes of its columns.

These structs are the border between Python and the page. ``scripts/generate_header.py`` writes the checks and the types
of the page from them, so that a field is named and described once.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
import numpy as np

from torchprof_magic.model.meta import Problem  # noqa: TC001 - of a field
from torchprof_magic.model.shapes import (
    Bars,
    Card,
    Column,
    DeviceTime,
    Excerpt,
    Facts,
    HostThread,
    Layer,
    Mark,
    ModuleSpan,
    Outline,
    PhaseSpan,
    Points,
    Problems,
    RankBars,
    Section,
    Series,
    SliceLane,
    Slices,
    Table,
    Tree,
    Weight,
    count_rows,
    top_rows,
)

if TYPE_CHECKING:
    from typing import Any

    from torchprof_magic.model.shapes import FramedShape, Shape
    from torchprof_magic.render.view import View

Place: TypeAlias = Literal["tab", "group", "strip", "about"]


class TabHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What every view has.

    ``count`` is shown beside the title, if it is known, and ``empty`` in place of the view when there is no data.
    ``place`` is in a tab, as a grouping of a tab, in the strip of the steps, or in "About this run". ``tab`` is the tab
    that a grouping belongs to, and ``group`` what it is called there.
    """

    name: str
    title: str
    count: int | None
    empty: str | None
    place: Place
    tab: str
    group: str


class FramedHeader(TabHeader, frozen=True, kw_only=True):
    """A view with columns: its first byte in the container, -1 when it must be pulled, and how many there are."""

    offset: int
    length: int


class TableHeader(FramedHeader, frozen=True, kw_only=True, tag="table", tag_field="shape"):
    """A view of the shape ``Table``."""

    columns: tuple[Column, ...]
    sort_by: str | None
    bars: Bars | None
    points: Points | None
    outline: Outline | None
    is_sparse: bool
    ranks: RankBars | None
    note: str | None
    device: DeviceTime | None
    answer: str
    rest: str | None


class TreeHeader(FramedHeader, frozen=True, kw_only=True, tag="tree", tag_field="shape"):
    """A view of the shape ``Tree``."""

    weights: tuple[Weight, ...]
    threads: tuple[HostThread, ...]
    device: DeviceTime | None


class SeriesHeader(FramedHeader, frozen=True, kw_only=True, tag="series", tag_field="shape"):
    """A view of the shape ``Series``."""

    bands: tuple[Column, ...]
    stacked: tuple[Column, ...]
    marks: tuple[Mark, ...]
    phases: tuple[PhaseSpan, ...]
    modules: tuple[ModuleSpan, ...]


class SlicesHeader(FramedHeader, frozen=True, kw_only=True, tag="slices", tag_field="shape"):
    """A view of the shape ``Slices``."""

    lanes: tuple[SliceLane, ...]
    layers: tuple[Layer, ...]
    columns: tuple[Column, ...]
    excerpt: Excerpt | None
    typical_step: int | None
    waits_from_ns: int
    answer: str


class WaitingHeader(TabHeader, frozen=True, kw_only=True, tag="waiting", tag_field="shape"):
    """A view with columns that is built, and described, when it is first shown."""


class FactsHeader(TabHeader, frozen=True, kw_only=True, tag="facts", tag_field="shape"):
    """A view of the shape ``Facts``."""

    sections: tuple[Section, ...]
    cards: tuple[Card, ...]


class ProblemsHeader(TabHeader, frozen=True, kw_only=True, tag="problems", tag_field="shape"):
    """A view of the shape ``Problems``."""

    problems: tuple[Problem, ...]


ViewHeader: TypeAlias = (
    TableHeader | TreeHeader | SeriesHeader | SlicesHeader | WaitingHeader | FactsHeader | ProblemsHeader
)


class SpanHeader(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the verdict's text. Pieces with the style ``code`` are names."""

    text: str
    style: Literal["", "strong", "code"] = ""


class CodeHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The line of the program that a verdict names; ``spot`` is where the view of the source has it."""

    line: int
    source: str
    spot: str


class VerdictHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What limits the speed, the line to look at if one is known, and what speaks against it, the gravest first.

    ``text`` is the sentence that says so, and ``more`` what follows it. ``without_advice`` stands where
    no rule for advice applies: what to record instead, where the limit is what is done once, or what could gain.
    """

    title: str
    text: tuple[SpanHeader, ...]
    more: tuple[SpanHeader, ...]
    code: CodeHeader | None
    doubts: tuple[str, ...]
    without_advice: str


class RunHeader(msgspec.Struct, frozen=True, kw_only=True):
    """One of two compared runs: whether the other tabs show it, its step times in ns, and the typical one if known.

    ``left_out`` are the places in ``steps`` of those that do not count in the typical one.
    """

    title: str
    is_shown: bool
    steps: tuple[float, ...]
    left_out: tuple[int, ...]
    typical: float | None


class ChangeHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The change from an earlier run to this one, which the tab Compare shows above its views.

    ``numbers`` are the step times with the interval of the difference, ``answer`` is what changed most, ``opens`` the
    view that shows it, and ``evidence`` why that is known or not. ``runs`` are those before and after, and each of
    ``settings`` has the name of a setting that differs, its value before, and that after. ``same`` says what is the
    same where none differs.
    """

    kind: Literal["faster", "slower", "unclear"]
    title: str
    numbers: str
    answer: str
    opens: str
    evidence: str
    warnings: tuple[str, ...]
    runs: tuple[RunHeader, ...]
    settings: tuple[tuple[str, str, str], ...]
    same: str


class MissingHeader(msgspec.Struct, frozen=True, kw_only=True):
    """A tab that has nothing to show, and the flag that brings it."""

    title: str
    flag: str


class ExportHeader(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the export menu: a file to save, or the trace for the Perfetto UI.

    ``aside`` is what the title does not say.
    """

    name: str
    title: str
    aside: str
    kind: Literal["save", "perfetto"]
    filename: str
    mime: str


class ReportHeader(msgspec.Struct, frozen=True, kw_only=True):
    """All that a page knows of a report.

    ``parent`` is the page that it was opened from. ``steps`` is how many steps count, by which sums are divided,
    ``step_ns`` is the typical one, null without steps, and ``titles`` are the names of kernels that have a shorter
    one, with it. ``generated`` are files of generated code with their texts. ``ranged`` are the views that the kernel
    computes for a range of time, ``first`` is the view to open, if not the first tab, and ``exports`` is what the menu
    offers, in a saved file only what it contains.
    ``can_compare`` says that the page can ask for a comparison with another run, ``can_choose_steps`` that it can
    choose which steps count, ``can_try`` that it can have advice measured; ``change_line`` says how the steps changed
    since the last run of the cell. Texts are empty where nothing is known.
    """

    version: Literal[14] = 14
    run_id: str
    title: str
    verdict: VerdictHeader
    views: tuple[ViewHeader, ...]
    exports: tuple[ExportHeader, ...]
    parent: str = ""
    subtitle: str = ""
    code: str = ""
    machine: str = ""
    notice: str = ""
    steps: float = 1
    step_ns: float | None = None
    titles: tuple[tuple[str, str], ...] = ()
    generated: tuple[tuple[str, str], ...] = ()
    can_compare: bool = False
    can_choose_steps: bool = False
    can_try: bool = False
    change_line: str = ""
    change: ChangeHeader | None = None
    ranged: tuple[str, ...] = ()
    first: str = ""
    missing: tuple[MissingHeader, ...] = ()


def view_header(view: View[Any], shape: Shape, place: tuple[int, int] = (0, 0)) -> ViewHeader:
    """Return the header of a view that is built; ``place`` is the place of its frame's bytes."""
    count = _top_rows(shape) if view.is_counted else None
    tab = _tab(view, count=count, empty=None if count_rows(shape) else view.empty)
    match shape:
        case Facts():
            return FactsHeader(**tab, sections=shape.sections, cards=shape.cards)
        case Problems():
            return ProblemsHeader(**tab, problems=shape.problems)
        case _:
            return _framed_header(shape, {**tab, "offset": place[0], "length": place[1]})


def _framed_header(shape: FramedShape, framed: dict[str, Any]) -> ViewHeader:
    """Return the header of a view with columns; ``framed`` are the fields of ``FramedHeader``."""
    match shape:
        case Table():
            return TableHeader(
                **framed,
                columns=shape.columns,
                sort_by=shape.sort_by,
                bars=shape.bars,
                points=shape.points,
                outline=shape.outline,
                is_sparse=shape.is_sparse,
                ranks=shape.ranks,
                note=shape.note,
                device=shape.device,
                answer=shape.answer,
                rest=shape.rest,
            )
        case Tree():
            return TreeHeader(**framed, weights=shape.weights, threads=shape.threads, device=shape.device)
        case Series():
            return SeriesHeader(
                **framed,
                bands=shape.bands,
                stacked=shape.stacked,
                marks=shape.marks,
                phases=shape.phases,
                modules=shape.modules,
            )
        case Slices():
            return SlicesHeader(
                **framed,
                lanes=shape.lanes,
                layers=shape.layers,
                columns=shape.columns,
                excerpt=shape.excerpt,
                typical_step=shape.typical_step,
                waits_from_ns=shape.waits_from_ns,
                answer=shape.answer,
            )


def waiting_header(view: View[Any]) -> WaitingHeader:
    """Return the header of a table that is built when it is first shown."""
    return WaitingHeader(**_tab(view))


def late_header(view: View[Any], shape: Shape, empty: str | None) -> str:
    """Return the header of a view that comes with its columns, as JSON; ``empty`` is shown in its place if not None."""
    return as_json(msgspec.structs.replace(view_header(view, shape), empty=empty))


def as_json(header: msgspec.Struct) -> str:
    """Return a header as JSON in ASCII, in which half of a surrogate pair does no harm."""
    return json.dumps(msgspec.to_builtins(header, enc_hook=_plain))


def _tab(view: View[Any], *, count: int | None = None, empty: str | None = None) -> dict[str, Any]:
    """Return the fields of ``TabHeader``."""
    tab = TabHeader(
        name=view.name,
        title=view.title,
        count=count,
        empty=empty,
        place=view.place,
        tab=view.tab or view.name,
        group=view.group,
    )
    return msgspec.structs.asdict(tab)


def _plain(value: object) -> object:
    """Return a number of numpy as one of Python. msgspec expects this error for everything else."""
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"{type(value).__name__} is not for a header")


def _top_rows(shape: Shape) -> int:
    """Return the rows that are in no other row, without those that have no name of their own."""
    if not isinstance(shape, Table):
        return count_rows(shape)
    rows = top_rows(shape)
    return rows.height if shape.rest is None else int((~rows[shape.rest].fill_null(value=False)).sum())
