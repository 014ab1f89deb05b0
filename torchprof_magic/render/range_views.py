"""Views of a part of the time, which the page asks for when a step or a range is chosen."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.time_range import TimeRange
from torchprof_magic.model.errors import TorchProfError
from torchprof_magic.model.shapes import Facts, Problems, Table, Tree, count_rows
from torchprof_magic.model.trace import MAX_SUM
from torchprof_magic.render.arrow import encode, with_header
from torchprof_magic.render.header import late_header

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchprof_magic.model.shapes import Shape
    from torchprof_magic.model.trace import Trace
    from torchprof_magic.render.view import View

# Answers that are kept: those of a few ranges in each view, for as long as they are small.
KEPT_ANSWERS = 12
KEPT_BYTES = 32 << 20
_NOTHING = "Nothing in this range."


class RangeViews:
    """Computes the views of one trace for ranges of time, and keeps the last answers."""

    def __init__(self, trace: Trace, views: Iterable[View[Trace]]) -> None:
        self._trace = trace
        self._views = {view.name: view for view in views if view.follows_range}
        self._kept: dict[tuple[str, TimeRange], bytes] = {}

    @property
    def names(self) -> list[str]:
        """The views that can be asked for."""
        return list(self._views)

    def encoded(self, name: str, start_ns: float, end_ns: float) -> bytes:
        """Return a view from ``start_ns`` until ``end_ns``, its own header first.

        Raises ``TorchProfError`` for a view that has no ranges, and for a range that is none.
        """
        view, part = self._views.get(name), _part(start_ns, end_ns)
        if view is None:
            raise TorchProfError("This view cannot be computed for a range of time.")
        found = self._kept.pop((name, part), None)
        # The last one that was asked for stands last.
        self._kept[name, part] = found if found is not None else _encoded(view, view.shape(self._trace, part))
        self._make_room()
        return self._kept[name, part]

    def _make_room(self) -> None:
        """Forget the oldest answers beyond the limits, but not the last."""
        while len(self._kept) > 1 and (
            len(self._kept) > KEPT_ANSWERS or sum(map(len, self._kept.values())) > KEPT_BYTES
        ):
            del self._kept[next(iter(self._kept))]


def _part(start_ns: float, end_ns: float) -> TimeRange:
    """Return the range; its ends are moved to times that a trace can have."""
    if math.isnan(start_ns) or math.isnan(end_ns):
        raise TorchProfError("A time is not a number.")
    start, end = (round(min(max(float(-MAX_SUM), at), float(MAX_SUM))) for at in (start_ns, end_ns))
    if end < start:
        raise TorchProfError("The range ends before it begins.")
    return TimeRange(start, end)


def _encoded(view: View[Trace], shape: Shape) -> bytes:
    assert not isinstance(shape, Problems)  # these do not follow a range
    if isinstance(shape, Facts):  # which have no columns
        return with_header(late_header(view, shape, None), encode(Table(frame=pl.DataFrame(), columns=())))
    least = 1 if isinstance(shape, Tree) else 0  # a tree has its root
    head = late_header(view, shape, _NOTHING if count_rows(shape) <= least else None)
    return with_header(head, encode(shape))
