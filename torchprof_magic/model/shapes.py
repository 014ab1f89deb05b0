"""The shapes that can be shown, each with its units and definitions.

Analyses return one of them and know no renderer; renderers draw one of them and know no analysis.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - of a field, which the page's types are made from
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import polars as pl

    from torchprof_magic.model.meta import Problem

Unit = Literal["text", "code", "count", "ns", "bytes", "flop", "ratio", "phase", "step", "bool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BarPart:
    """One part of a bar: its column, and the phase that gives its hue; empty for that of the row."""

    column: str
    phase: str


def both_passes(forward: str, backward: str) -> tuple[BarPart, ...]:
    """Return the parts of a bar of the forward and the backward pass, from the column of each."""
    return BarPart(column=forward, phase="forward"), BarPart(column=backward, phase="backward")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a shape: its name, title and unit, and an exact definition.

    ``is_minor`` columns are hidden first if the view is narrow; ``has_bar`` draws a bar behind the number. Text of an
    ``is_verbatim`` column keeps its spaces and is not shortened, as source code. An ``is_sum`` column adds up over the
    recorded steps, so it can be shown per step; ``share`` is the part of the steps that it is of. Numbers of an
    ``is_change`` column are differences, drawn from a middle line to either side. A bar with ``parts`` is the sum of
    other columns, each in the hue of a phase.
    """

    name: str
    title: str
    unit: Unit
    definition: str
    is_minor: bool = False
    has_bar: bool = False
    is_verbatim: bool = False
    is_sum: bool = False
    share: float = 1.0
    is_change: bool = False
    parts: tuple[BarPart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The columns that make rows a tree: the ``id`` of each row, and that of the row around it, empty for none.

    Rows stand after the row around them. Those up to ``open_levels`` deep are open at first, except those that are
    true in the column ``closed``. Rows that are true in the column ``aside`` repeat others to explain the row around
    them; filters and searches for a name skip them. Rows that are true in the column ``extra`` stand for others or for
    a rest, and all rows but these count; without that column, those in no other row do.
    """

    id: str
    parent: str
    open_levels: int = 1
    closed: str | None = None
    aside: str | None = None
    extra: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """The columns that draw each row of a table as a bar, stacked by phase, all on one scale.

    ``number`` labels a bar, ``start`` is when it began, ``total`` is its length, and ``parts`` gives the column of each
    phase. ``complete`` is false for a bar that was cut. ``left_out`` says why a bar does not count, and is empty for
    those that do. ``line`` is drawn below the parts on the same scale. ``lost`` is how many launches of a bar have no
    work in the file; a bar with some is marked.
    """

    number: str
    start: str
    total: str
    complete: str
    left_out: str
    parts: Mapping[str, str]
    line: str | None = None
    lost: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """What a device can do at most: operations per second, or bytes per second of its memory; 0 for the other."""

    title: str
    flops_per_s: float = 0.0
    bytes_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """The columns that draw each row of a table as a point below ``roofs``, on axes that both grow by factors.

    ``x`` is operations per byte and ``y`` operations per second. A row without operations stands at the left edge, as
    high below the roof of the memory as the bytes per second in ``x_of_none`` are. ``size`` is the area of a point, and
    ``phase`` its hue.
    """

    x: str
    y: str
    x_of_none: str
    size: str
    phase: str
    roofs: tuple[Roof, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChange:
    """A line of the user's as it is and as it should be, without its indent, and its number in its file."""

    line: int
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One piece of advice. Code in its texts stands between backticks.

    ``saving_ns`` is what a step would be shorter, ``saving_bytes`` what less memory would be used; None if unknown.
    ``per`` follows the bytes: `` a step`` if it is so much less with each step. ``place`` is the line to change, or
    empty, ``at`` what stands before it, ``view`` the view that shows it, and ``spot`` the line in that view, as
    ``file:line``. ``level`` is how sure it is, from 1
    for a guess to 3 for what was measured; ``certainty`` says so in words. ``can_try`` is set if it can be measured on
    this machine, with what was recorded. ``changes`` are lines to write instead, and ``is_whole`` is set if they are
    all of ``fix``.
    """

    rule: str
    title: str
    fix: str
    place: str
    evidence: str
    saving_ns: int | None
    saving_bytes: int | None
    certainty: str
    level: int
    view: str = ""
    spot: str = ""
    at: str = " in"
    per: str = ""
    can_try: bool = False
    changes: tuple[LineChange, ...] = ()
    is_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPart:
    """One part of the bar of a rank: its column, title and look.

    The look is the hue of a phase, ``both`` for that of computation and communication at once, or ``idle`` for waiting.
    """

    column: str
    title: str
    look: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBars:
    """The columns that draw each row of a table as a rank: a bar in parts, and numbers beside it.

    ``number`` is the number of the rank, ``total`` the length of its bar, and ``late`` is true for the rank that the
    verdict names. ``beside`` are the columns shown as numbers. ``waits`` is the view with what each rank waits in each
    collective, empty for none. ``cards`` say what to change.
    """

    number: str
    total: str
    late: str
    parts: tuple[RankPart, ...]
    beside: tuple[str, ...]
    waits: str = ""
    cards: tuple[Card, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTime:
    """Of what summed device time consists: its parts add up to it.

    ``busy_ns`` is the time in the steps that count in which each of the ``devices`` did anything, ``overlap_ns`` that
    of work beyond it, at the same time as other work of its device, and ``outside_ns`` that of work outside of these
    steps. Where the trace ``has_steps`` no, they are the time from the first op to the last work.
    """

    devices: int
    busy_ns: int
    overlap_ns: int
    outside_ns: int
    has_steps: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows with typed, documented columns.

    ``sort_by`` is the column of the initial sort order, descending; without it rows keep their order. A table with
    ``bars`` can also be drawn as bars, one with ``points`` as points, and one with ``ranks`` as the ranks of a job.
    With an ``outline``, rows open and close. In an ``is_sparse`` table, rows without any number other than 0 are
    dim and show no numbers. ``note`` is a column with a remark on a row, which is shown beside its name. ``device``
    is of what the device time of all rows consists, where they add up to that of all devices. ``answer`` is a
    sentence above the rows, with code between backticks. Rows that are true in the column ``rest`` are what has no name
    of its own, such as work outside of ops: they stand last in any order, and dim, with
    the bars on the scale of the others, unless the bars have parts, which add up to the whole over all rows.
    """

    frame: pl.DataFrame
    columns: tuple[Column, ...]
    sort_by: str | None = None
    bars: Bars | None = None
    points: Points | None = None
    outline: Outline | None = None
    is_sparse: bool = False
    ranks: RankBars | None = None
    note: str | None = None
    device: DeviceTime | None = None
    answer: str = ""
    rest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One measure for the boxes of a tree: columns ``self_<name>`` and ``total_<name>``; ``share`` as for a column."""

    name: str
    title: str
    unit: Unit
    share: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostThread:
    """A thread, and the time in which it had boxes."""

    name: str
    host_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A merged call tree in preorder: ``parent`` (row, -1 for the root), ``name``, ``kind``, ``phase`` and weights.

    ``threads`` are those whose host time the boxes add up; empty where there is no such time. ``device`` is of what
    their device time consists.
    """

    frame: pl.DataFrame
    weights: tuple[Weight, ...]
    threads: tuple[HostThread, ...] = ()
    device: DeviceTime | None = None


EVERY_LANE = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment worth showing on a series, such as its peak or, on ``EVERY_LANE``, the start of a step."""

    lane: str
    time_ns: int
    label: str
    kind: Literal["peak", "step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSpan:
    """A stretch of a step that one phase takes most of; ``phase`` is one of ``PHASES``."""

    start_ns: int
    end_ns: int
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSpan:
    """One call of a module, by the path of its attributes from the model or from the part that holds all of them."""

    start_ns: int
    end_ns: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Values over time: ``lane``, ``time_ns`` and one column a band. A value holds until the next row of its lane.

    The bands of ``stacked`` add up to the first of ``bands``; the frame has a column for each of them, too.
    """

    frame: pl.DataFrame
    bands: tuple[Column, ...]
    marks: tuple[Mark, ...] = ()
    stacked: tuple[Column, ...] = ()
    phases: tuple[PhaseSpan, ...] = ()
    modules: tuple[ModuleSpan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What the levels of a curve mean: 0 is ``low`` and ``MOST_LEVEL`` is ``high``, in ``unit``, which may be empty.

    ``least`` and ``most`` are the smallest and the largest value that there are.
    """

    low: float
    high: float
    unit: str
    least: float
    most: float


MOST_LEVEL = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceLane:
    """One row of a timeline: a thread, its calls of the device's interface, a stream, or what one waits for.

    ``group`` is the thread or device that it belongs to, whose lanes stand together. A lane of kind ``counters`` has no
    slices: it heads the counters of its group, and folds them at first if it ``is_folded``. Each ``counter`` is a curve
    on its ``scale``, on which the slices give the levels.
    """

    title: str
    kind: Literal[
        "steps", "thread", "calls", "host_waits", "waits", "stream", "annotations", "queue", "counters", "counter"
    ]
    group: str
    scale: Scale | None = None
    is_folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One choice of what a timeline shows of the threads: its column gives the depth of a slice, -1 for hidden."""

    title: str
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Says that slices are only a picture of more: of how many, and from when to when.

    Those shorter than ``bucket_ns`` are merged where they begin in the same multiple of it.
    """

    slices: int
    start_ns: int
    end_ns: int
    bucket_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """Bars on lanes over time, sorted by lane and start.

    The frame has the columns ``lane`` (a row of ``lanes``), one depth for each layer, ``start_ns``, ``dur_ns``,
    ``name``, ``kind``, ``phase``, ``note``, and ``source`` and ``op``: the rows of what launched a slice, and of the op
    around that, -1 for none. ``count`` is how much a slice stands for: the length of the queue, or the level of a
    curve. ``columns`` are details that were recorded, such as shapes. The frame of an ``excerpt`` lacks them, and says
    which slice of the complete frame each row is, or names: ``slice``, and how many it stands for: ``merged``.
    ``typical_step`` is the number of the step that is shown first, None without steps. From ``waits_from_ns`` on it is
    known whether devices wait. ``answer`` is a sentence where the page has none of its own, such as on ranks.
    """

    frame: pl.DataFrame
    lanes: tuple[SliceLane, ...]
    layers: tuple[Layer, ...]
    columns: tuple[Column, ...] = ()
    excerpt: Excerpt | None = None
    typical_step: int | None = None
    waits_from_ns: int = 0
    answer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One number or one text with its label.

    ``value`` is in ``unit``, which is ``text`` for a text; None means unknown. ``note`` says how the number is defined
    or what it is compared with, and ``op`` names the op that the fact is about. ``phase`` colors its bar. ``view`` is
    the view that shows more of it, and ``spot`` the line in it that the fact is about, as ``file:line``, or empty.
    """

    label: str
    value: float | str | None
    unit: Unit
    note: str = ""
    op: str = ""
    phase: str = ""
    view: str = ""
    spot: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One quantity over a whole run, as a value for each of equally long parts; None where it is not known.

    ``most`` is the largest single value that went into it, which can be larger than any mean.
    """

    title: str
    unit: Unit
    values: tuple[float | None, ...]
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Facts under one title.

    With the kind ``phases`` the labels are phases, and the values add up to a whole. With ``bars`` all values are
    of one unit, and are drawn as bars on one scale; with ``stack`` they add up to a whole, and stand in one bar,
    too. With ``memory`` the facts stand below the curve of the memory. With ``strip`` they stand below ``lanes`` on
    one axis of time, in which ``marks`` are the parts with recorded steps. ``aside`` says what the numbers are.
    Those of the group ``top`` stand side by side, and those of ``more`` and ``about`` are folded away.
    """

    title: str
    facts: tuple[Fact, ...]
    kind: Literal["facts", "phases", "bars", "stack", "memory", "strip"] = "facts"
    aside: str = ""
    group: Literal["main", "top", "more", "about"] = "main"
    lanes: tuple[Lane, ...] = ()
    marks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The headline facts of a recording by section, in reading order, and what to change."""

    sections: tuple[Section, ...]
    cards: tuple[Card, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problems:
    """The problems of a recording, the most severe first."""

    problems: tuple[Problem, ...]


FramedShape: TypeAlias = Table | Tree | Series | Slices
Shape: TypeAlias = FramedShape | Facts | Problems


def top_rows(table: Table) -> pl.DataFrame:
    """Return the rows of a table that are in no other row, in the order in which the table opens."""
    rows = table.frame
    if table.outline is not None:
        rows = rows.filter(rows[table.outline.parent].fill_null("") == "")
    if table.sort_by is None:
        return rows
    return rows.sort(table.sort_by, descending=True, nulls_last=True, maintain_order=True)


def count_rows(shape: Shape) -> int:
    """Return how many rows, facts or problems a shape holds; 0 means that there is nothing to show."""
    match shape:
        case Facts():
            return sum(len(section.facts) for section in shape.sections)
        case Problems():
            return len(shape.problems)
        case _:
            return shape.frame.height
