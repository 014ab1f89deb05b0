"""The live view as an anywidget: a header, embedded columns, and messages to pull the rest."""

from __future__ import annotations

import weakref
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import anywidget
import msgspec
from ipywidgets import widget_serialization
from traitlets import Bool, Bytes, Instance, Unicode

from torchprof_magic.model.errors import TorchProfError
from torchprof_magic.model.trace import MAX_NAME_CHARS
from torchprof_magic.model.units import printable
from torchprof_magic.render.arrow import EMBEDDED_BYTES
from torchprof_magic.render.exports import EXPORTS, file_name
from torchprof_magic.render.front_end import built, loader, packed
from torchprof_magic.render.questions import Question
from torchprof_magic.render.shared_front_end import FrontEnd, can_share, shared_front_end
from torchprof_magic.system.files.gzip_streams import packer
from torchprof_magic.system.files.temporary import written_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from torchprof_magic.render.page import Page

CHUNK_BYTES = EMBEDDED_BYTES


class _Get(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="get"):
    """A request for one chunk of a view or an export, or of a view from ``start_ns`` until ``end_ns``."""

    id: int | str
    name: str
    chunk: int = 0
    start_ns: float | None = None
    end_ns: float | None = None


class _Open(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="open"):
    """A request to show the report of a rank in this place, or all ranks again with ``ALL_RANKS``."""

    id: int | str
    rank: int


class _Runs(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="runs"):
    """A request for the runs that this one can be compared with."""

    id: int | str


class _FrontEnd(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="front_end"):
    """A request for the front end itself, from a page that does not find the model with it."""

    id: int | str


class _Compare(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="compare"):
    """A request to show, in this place, what changed since a run, or with ``is_swapped`` from this one to it.

    An empty ``run`` is the one that this is compared with already.
    """

    id: int | str
    run: str = ""
    is_swapped: bool = False


class _Count(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="count"):
    """A request to show, in this place, the report in which only some steps count, by their rows."""

    id: int | str
    rows: tuple[int, ...]


class _Try(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="try"):
    """A request to measure the advice of a card, by its number from 1, and to show the report with what was found."""

    id: int | str
    card: int


class _WhatIf(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="what_if"):
    """What would a step take if what has this name, or lies in this range of ns, were twice as fast?"""

    id: int | str
    name: Annotated[str, msgspec.Meta(max_length=MAX_NAME_CHARS)] = ""
    start_ns: int | None = None
    end_ns: int | None = None

    @property
    def what(self) -> str | tuple[int, int]:
        """What is meant, as ``Report.what_if`` takes it."""
        return self.name if self.start_ns is None or self.end_ns is None else (self.start_ns, self.end_ns)


_Request = _Get | Question | _Open | _Runs | _Compare | _FrontEnd | _Count | _Try | _WhatIf
ALL_RANKS = -1
# Number of live views that stay open; the static copy replaces older ones. A kernel keeps every widget that it has
# shown, and is not notified when the output that shows it is cleared.
OPEN_WIDGETS = 32
# Limit of the frames that are kept only for open live views; those of the newest view are always kept.
KEPT_FRAME_BYTES = 512 << 20
_open: deque[ReportWidget] = deque()
_kept: deque[Shown] = deque()


class Comparing(NamedTuple):
    """How a page is compared: the runs that it offers, each with a ``key``, and the page with one of them.

    ``compare(key, is_swapped)`` raises ``TorchProfError``.
    """

    runs: Callable[[], Sequence[Mapping[str, str]]]
    compare: Callable[[str, bool], Shown]


class Shown:
    """The data of a live view: a page, and the report as files for export.

    ``frame_bytes`` is the size of the frames of the report in memory. ``writers`` has for each of ``EXPORTS`` a
    function that writes the file to a path and returns the path. ``counting`` returns the page in which only some steps
    count, by their rows, and ``trying`` that in which the advice of a card was measured. ``asking`` says in words what
    a step would take if what has a name were twice as fast. All raise ``TorchProfError``.
    """

    def __init__(
        self,
        page: Page,
        *,
        title: str,
        frame_bytes: int,
        writers: Mapping[str, Callable[[Path], Path]],
        comparing: Comparing | None = None,
        counting: Callable[[Sequence[int]], Shown] | None = None,
        trying: Callable[[int], Shown] | None = None,
        asking: Callable[[str | tuple[int, int]], str] | None = None,
    ) -> None:
        self.page = page
        self.asking = asking
        self.counting = counting
        self.trying = trying
        self.comparing = comparing
        self.title = title
        self.frame_bytes = frame_bytes
        self._exports = {
            f"export:{export.name}": partial(written_bytes, writers[export.name], file_name(export, "report"))
            for export in EXPORTS
            if export.name in writers
        }

    def resource(self, name: str) -> bytes:
        """Return a pulled view or an export, encoded now. Raises ``TorchProfError``."""
        encode = self.page.pulled.get(name) or self._exports.get(name)
        if encode is None:
            raise TorchProfError("The report has no data of this name.")
        return encode()


class ReportWidget(anywidget.AnyWidget):
    """The live view of one report, with all its tabs. The front end that shows it is a model that reports share."""

    _esm = Unicode().tag(sync=True)
    _css = Unicode().tag(sync=True)
    _front_end = Instance(FrontEnd, allow_none=True).tag(sync=True, **widget_serialization)
    _digest = Unicode().tag(sync=True)
    _header = Unicode().tag(sync=True)
    _data = Bytes().tag(sync=True)
    _progress = Unicode().tag(sync=True)
    _is_more = Bool().tag(sync=True)

    def __init__(self, shown: Shown, open_rank: Callable[[int], Shown] | None = None) -> None:
        """Show a report; ``open_rank`` returns that of a rank, or all ranks again for ``ALL_RANKS``."""
        super().__init__(**_front_end_traits(), _header=shown.page.header, _data=_packed(shown.page))
        self.is_closed = False
        # The kernel keeps the widget, so the widget must not keep the data.
        self._shown = weakref.ref(shown)
        self._title = shown.title
        self._open_rank = open_rank
        self._exported: dict[str, bytes] = {}
        self._pulled: dict[str, bytes] = {}
        self.on_msg(self._answer)
        _open.append(self)
        _kept.append(shown)
        _make_room()

    def tell(self, progress: str) -> None:
        """Say in the head of the report what of it is still to come; nothing if it is complete."""
        self._progress = progress

    def show_instead(self, shown: Shown, open_rank: Callable[[int], Shown] | None = None) -> None:
        """Show the whole in place of its beginning, as what was shown of it: same view, selection and range."""
        self._open_rank = open_rank
        self._replace(shown, is_more=True)

    def close(self) -> None:
        """Close the live view; the report creates a new one when it is shown again."""
        self.is_closed = True
        _forget(self)
        super().close()

    def _answer(self, _widget: object, content: object, _buffers: object) -> None:
        """Reply to a request of the page, or with an error to any other message."""
        try:
            request = msgspec.convert(content, _Request)
        except msgspec.ValidationError as exc:
            self.send({"kind": "error", "id": _id_of(content), "message": f"invalid request: {exc}"})
            return
        try:
            head, frames = self._reply(request)
        except TorchProfError as exc:
            self.send({"kind": "error", "id": request.id, "message": str(exc)})
            return
        except BaseException as exc:
            # The page waits for an answer, whatever happened.
            self.send({"kind": "error", "id": request.id, "message": f"The kernel failed: {exc!r}"})
            raise
        self.send({**head, "id": request.id}, frames)

    def _reply(self, request: _Request) -> tuple[dict[str, object], list[bytes]]:
        """Return the head and the buffers of the reply."""
        if isinstance(request, _Open | _Compare | _Count | _Try):
            self._replace(self._wished(request))
            return {"kind": "opened"}, []
        if isinstance(request, _FrontEnd):
            module, style, _ = packed()
            return {"kind": "front_end"}, [module, style]
        if isinstance(request, _Runs):
            return {"kind": "runs", "runs": list(self._comparing().runs())}, []
        if isinstance(request, _WhatIf):
            return {"kind": "what_if", "text": self._asking(request.what)}, []
        if isinstance(request, _Get):
            return self._chunk(request)
        answers = self._alive().page.answers.get(request.view)
        if answers is None:
            raise TorchProfError("The report has no such timeline.")
        facts, frames = answers.answer(request)
        return {"kind": "answer", "facts": facts}, list(frames)

    def _wished(self, request: _Open | _Compare | _Count | _Try) -> Shown:
        """Return what is to be shown in this place."""
        match request:
            case _Open():
                return self._rank(request.rank)
            case _Compare():
                return self._comparing().compare(request.run, request.is_swapped)
            case _Count():
                return self._counting(request.rows)
            case _Try():
                return self._trying(request.card)

    def _rank(self, rank: int) -> Shown:
        if self._open_rank is None:
            raise TorchProfError("The report has no ranks.")
        return self._open_rank(rank)

    def _comparing(self) -> Comparing:
        comparing = self._alive().comparing
        if comparing is None:
            raise TorchProfError("This report cannot be compared here.")
        return comparing

    def _counting(self, rows: Sequence[int]) -> Shown:
        counting = self._alive().counting
        if counting is None:
            raise TorchProfError("This report cannot be shown with other steps.")
        return counting(rows)

    def _trying(self, card: int) -> Shown:
        trying = self._alive().trying
        if trying is None:
            raise TorchProfError("Advice of this report cannot be tried here.")
        return trying(card)

    def _asking(self, name: str | tuple[int, int]) -> str:
        asking = self._alive().asking
        if asking is None:
            raise TorchProfError("Nobody can say what this report would be like.")
        return asking(name)

    def _replace(self, shown: Shown, *, is_more: bool = False) -> None:
        """Show another report in this place; header, data and whether it is more of the same change together."""
        self._shown, self._title = weakref.ref(shown), shown.title
        self._exported, self._pulled = {}, {}
        if shown not in _kept:
            _kept.append(shown)
            _make_room()
        with self.hold_sync():
            self._data, self._header, self._is_more = _packed(shown.page), shown.page.header, is_more

    def _chunk(self, request: _Get) -> tuple[dict[str, object], list[bytes]]:
        data = self._ranged(request) if request.start_ns is not None else self._resource(request.name)
        chunks = max(1, -(-len(data) // CHUNK_BYTES))
        if not 0 <= request.chunk < chunks:
            raise TorchProfError("The report has no such chunk.")
        if request.chunk == chunks - 1:
            self._exported.pop(request.name, None)
        part = data[request.chunk * CHUNK_BYTES : (request.chunk + 1) * CHUNK_BYTES]
        return {"kind": "chunk", "name": request.name, "chunk": request.chunk, "chunks": chunks}, [part]

    def _alive(self) -> Shown:
        shown = self._shown()
        if shown is None:
            raise TorchProfError("The kernel no longer has the data of this run. Run the cell again.")
        return shown

    def _ranged(self, request: _Get) -> bytes:
        ranges = self._alive().page.ranges
        if ranges is None or request.start_ns is None or request.end_ns is None:
            raise TorchProfError("The report has no such range.")
        return ranges.encoded(request.name, request.start_ns, request.end_ns)

    def _resource(self, name: str) -> bytes:
        shown = self._alive()
        if name in shown.page.pulled:
            if name not in self._pulled:
                # One view at a time: the page asks for the chunks of one after the other.
                self._pulled = {name: shown.resource(name)}
            return self._pulled[name]
        if name not in self._exported:
            # Kept until its last chunk is sent: it can be as large as the trace.
            self._exported[name] = shown.resource(name)
        return self._exported[name]

    def __repr__(self) -> str:
        """Return the text for front ends without widgets; the static copy next to it shows the numbers."""
        return printable(f"torchprof report {self._title} (the live view needs a running kernel)")

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle: Any = super()._repr_mimebundle_(**kwargs)
        data = bundle[0] if isinstance(bundle, tuple) else bundle  # older anywidget returns the data alone
        data["text/plain"] = repr(self)
        return bundle


def _packed(page: Page) -> bytes:
    """Return the embedded columns packed with gzip, as a saved notebook holds them."""
    packing = packer()
    return packing.compress(page.data) + packing.flush()


def _front_end_traits() -> dict[str, object]:
    """Return the traits that give a report its front end. Raises ``TorchProfError`` when that is not built."""
    if not can_share():
        module, style = built()
        return {"_esm": module, "_css": style}
    return {"_esm": loader(), "_front_end": shared_front_end(), "_digest": packed().digest}


def _id_of(content: object) -> int | str | None:
    """Return the id of a request that is wrong otherwise, so that the page need not wait for a reply."""
    number = content.get("id") if isinstance(content, dict) else None
    return number if isinstance(number, int | str) else None


def _forget(widget: ReportWidget) -> None:
    """Close the layout of a closed widget, which ipywidgets leaves open."""
    if widget in _open:
        _open.remove(widget)
    if widget.layout is not None:
        widget.layout.close()


def _make_room() -> None:
    """Close the oldest views, and release the oldest data, beyond the limits."""
    while len(_open) > OPEN_WIDGETS:
        _open[0].close()
    while len(_kept) > OPEN_WIDGETS or (len(_kept) > 1 and _frame_bytes() > KEPT_FRAME_BYTES):
        _kept.popleft()


def _frame_bytes() -> int:
    return sum(shown.frame_bytes for shown in _kept)
