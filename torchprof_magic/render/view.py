"""``View``: what a page needs to know of one tab besides its shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.shapes import Column, FramedShape, Shape

Source = TypeVar("Source")


@dataclass(frozen=True, slots=True, kw_only=True)
class View(Generic[Source]):
    """One tab of a report.

    Attributes:
        name: Stable name, as in ``report.figure(name)``.
        title: What the tab is called.
        description: What it shows, in Markdown for the documentation.
        build: Returns what the tab shows of a trace, of a job of many ranks, or of two runs.
        empty: The sentence that stands there when there is nothing to show.
        columns: Its columns or bands with their definitions, for the documentation.
        is_counted: Whether the tab carries its number of entries.
        place: Where it is shown: in a tab, as a grouping of the tab called ``tab``, in the strip of the steps, or in
            "About this run".
        tab: Name of the tab that a grouping belongs to.
        group: What a grouping is called.
        flag: What brings it, if it was not recorded: a flag of ``%%torchprof``.
        is_there: Whether a recording has it. Such a view is built when it is first shown, unless it has a tab.
        is_live: Whether it asks the objects of the process, which only the one that recorded has. Files have no such
            view.
        in_range: Returns the same of what lies in a range of time. The page asks the kernel for it when a step or a
            range is chosen; without it, the page counts what it can itself, or shows all steps.
    """

    name: str
    title: str
    build: Callable[[Source], Shape]
    empty: str
    description: str = ""
    columns: tuple[Column, ...] = ()
    is_counted: bool = False
    place: Literal["tab", "group", "strip", "about"] = "tab"
    tab: str = ""
    group: str = ""
    flag: str = ""
    is_there: Callable[[Source], bool] | None = None
    is_live: bool = False
    in_range: Callable[[Source, TimeRange], FramedShape] | None = None
