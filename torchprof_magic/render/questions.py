"""What the page may ask about a timeline of millions of slices, checked, and the answers."""

from __future__ import annotations

import math
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

import msgspec

from torchprof_magic.model.errors import TorchProfError
from torchprof_magic.render.arrow import encode
from torchprof_magic.tables.timeline.slice_ranges import SliceRanges
from torchprof_magic.tables.timeline.slice_search import Search, find_slices
from torchprof_magic.tables.timeline.slice_windows import SliceWindows

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.shapes import Slices

MOST_PIXELS = 16_384  # more than any screen has
MOST_TEXT = 1_000  # characters of a search

_Id: TypeAlias = int | str
_Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=MOST_TEXT)]
_Pixels: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MOST_PIXELS)]


class WindowQuestion(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="window", kw_only=True):
    """What does a part of the recording look like on so many pixels?"""

    id: _Id
    view: str
    layer: str
    start_ns: float
    end_ns: float
    pixels: _Pixels


class SliceQuestion(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="slice", kw_only=True):
    """What belongs to a slice?"""

    id: _Id
    view: str
    layer: str
    slice: int


class SearchQuestion(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="search", kw_only=True):
    """How many slices match, and which is the one at a place among them?

    ``at`` counts from 0 and goes round; without it, the first match that begins between ``start_ns`` and ``end_ns`` is
    wanted, or else the first of all.
    """

    id: _Id
    view: str
    layer: str
    text: _Text
    is_wait: bool
    least_ns: float
    most_ns: float | None
    start_ns: float
    end_ns: float
    at: int | None


class RangeQuestion(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="range", kw_only=True):
    """Why do devices wait in a range, and how long do they work?"""

    id: _Id
    view: str
    start_ns: float
    end_ns: float


Question: TypeAlias = WindowQuestion | SliceQuestion | SearchQuestion | RangeQuestion


class Answer(NamedTuple):
    """Facts as JSON, and frames as Arrow streams."""

    facts: dict[str, object]
    frames: tuple[bytes, ...] = ()


class Answers:
    """Answers questions about one timeline."""

    def __init__(self, slices: Slices) -> None:
        self.windows = SliceWindows(slices)
        self._found: tuple[Search, IntArray] | None = None

    @cached_property
    def _ranges(self) -> SliceRanges:
        return SliceRanges(self.windows)

    def answer(self, question: Question) -> Answer:
        """Return the answer; raises ``TorchProfError`` for what no page asks."""
        match question:
            case WindowQuestion():
                return self._window(question)
            case SliceQuestion():
                return self._slice(question)
            case SearchQuestion():
                return self._search(question)
            case RangeQuestion():
                return self._range(question)

    def _window(self, question: WindowQuestion) -> Answer:
        start_ns, end_ns = self._span(question.start_ns, question.end_ns)
        found = self.windows.window(self._layer(question.layer), start_ns, end_ns, question.pixels)
        facts: dict[str, object] = {
            "start_ns": found.start_ns,
            "end_ns": found.end_ns,
            "bucket_ns": found.bucket_ns,
            "is_exact": found.is_exact,
        }
        return Answer(facts, (encode(found.slices),))

    def _slice(self, question: SliceQuestion) -> Answer:
        if not 0 <= question.slice < self.windows.frame.height:
            raise TorchProfError("The recording has no such slice.")
        return Answer({}, (encode(self.windows.around(question.slice, self._layer(question.layer))),))

    def _search(self, question: SearchQuestion) -> Answer:
        search = Search(
            layer=self._layer(question.layer),
            text=question.text,
            is_wait=question.is_wait,
            least_ns=question.least_ns,
            most_ns=math.inf if question.most_ns is None else question.most_ns,
        )
        if self._found is None or self._found[0] != search:
            self._found = search, find_slices(self.windows, search)
        rows = self._found[1]
        facts: dict[str, object] = {"count": len(rows), "ns": int(self.windows.times.dur_ns[rows].sum())}
        if len(rows) == 0:
            return Answer({**facts, "at": -1})
        at = self._nearest(rows, question) if question.at is None else question.at % len(rows)
        return Answer({**facts, "at": at, **self._place(int(rows[at]))})

    def _nearest(self, rows: IntArray, question: SearchQuestion) -> int:
        start_ns = self.windows.times.start_ns[rows]
        at = int(start_ns.searchsorted(self._moment(question.start_ns)))
        return at if at < len(rows) and start_ns[at] < question.end_ns else 0

    def _place(self, number: int) -> dict[str, object]:
        """Return which slice it is, when it runs and what it is called."""
        columns = ["start_ns", "dur_ns", "name", "kind"]
        return {"slice": number, **self.windows.frame.select(columns)[[number]].row(0, named=True)}

    def _range(self, question: RangeQuestion) -> Answer:
        start_ns, end_ns = map(round, self._span(question.start_ns, question.end_ns))
        return Answer({"sums": [asdict(each) for each in self._ranges.sums(start_ns, end_ns)]})

    def _layer(self, layer: str) -> str:
        if layer not in [each.column for each in self.windows.slices.layers]:
            raise TorchProfError("The timeline has no such layer.")
        return layer

    def _span(self, start_ns: float, end_ns: float) -> tuple[float, float]:
        return self._moment(start_ns), self._moment(end_ns)

    def _moment(self, at_ns: float) -> float:
        """Return a moment of the recording; others are moved to its ends."""
        if math.isnan(at_ns):
            raise TorchProfError("A time is not a number.")
        low, high = self.windows.span
        return float(min(max(low, at_ns), high))
