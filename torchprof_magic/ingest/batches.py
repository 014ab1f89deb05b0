"""Where in the text do the events lie? Text blocks in; events in batches, and the JSON around them, out.

No JSON is ever held whole: a file of gigabytes passes through a buffer of a few blocks.
"""

from __future__ import annotations

import gc
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from torchprof_magic.errors import IngestError, NotATraceError
from torchprof_magic.ingest.salvage import salvage
from torchprof_magic.ingest.schema import Event, ExactEvent, Head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchprof_magic.ingest.blocks import Block
    from torchprof_magic.ingest.findings import Findings

_LIST_KEY = re.compile(rb'"traceEvents"\s*:\s*(\[|null\b)')
_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
# Before the events stand a few lines; after them too. More is not read.
MAX_AROUND_BYTES = 64 << 20
_WINDOW_BYTES = 128 << 10
_MAX_CUTS = 8

_EVENTS = msgspec.json.Decoder(list[Event])
_EXACT_EVENTS = msgspec.json.Decoder(list[ExactEvent])
_BETWEEN = re.compile(rb"[\s,]*")
_HEAD = msgspec.json.Decoder(Head)


class EventText:
    """The text of one file: iterating yields its events in batches; ``head`` is known after that.

    The batches are lists of ``Event``, a few tens of thousands each. Damage is repaired or left out, and counted in
    ``findings``. Raises ``IngestError`` for a file without text and ``NotATraceError`` for JSON that is no trace.
    """

    def __init__(self, blocks: Iterator[Block], findings: Findings, report: Callable[[int], None]) -> None:
        self.head = Head()
        self._blocks = blocks
        self._findings = findings
        self._report = report
        self._buffer = b""
        self._offset = 0  # of the buffer within the text
        self._is_end = False
        self._kind: type[Event] = Event
        self._batch = b""

    def __iter__(self) -> Iterator[list[Event]]:
        is_bare = self._enter_list()
        with _without_gc():
            while (batch := self._next_batch()) is not None:
                yield batch
        self._leave_list(is_bare=is_bare)

    def exactly(self) -> list[Event]:
        """Return the last batch again, and all that follow, as events whose times are text."""
        self._kind = ExactEvent
        return self._decoded(self._batch)

    def _decoded(self, text: bytes) -> list[Event]:
        self._batch = text
        decoder = _EVENTS if self._kind is Event else _EXACT_EVENTS
        return decoder.decode(text)  # type: ignore[return-value]

    def _listed(self, end: int) -> bytes:
        """Return the buffer up to ``end`` as a list."""
        return b"".join((b"[", memoryview(self._buffer)[:end], b"]"))

    def _fill(self) -> bool:
        """Read one more block into the buffer; False at the end of the file."""
        block = next(self._blocks, None)
        if block is None:
            self._is_end = True
            return False
        self._buffer = self._buffer + block.text if self._buffer else block.text
        self._report(block.read_bytes)
        return True

    def _drop(self, size: int) -> None:
        self._buffer = self._buffer[size:]
        self._offset += size

    # Before the events.

    def _enter_list(self) -> bool:
        """Skip to the first event and keep what stands before it; True when the file is a bare list."""
        while not self._buffer.strip() and self._fill():
            pass
        start = len(self._buffer) - len(self._buffer.lstrip())
        if start == len(self._buffer):
            raise IngestError("the file is empty; the program that wrote it may have been stopped")
        if self._buffer.startswith(b"[", start):
            self._drop(start + 1)
            return True
        if not self._buffer.startswith(b"{", start):
            raise NotATraceError("this is no JSON, so it is no profiler trace (.json or .json.gz)")
        found = self._find_list()
        before = self._buffer[: found.start()]
        self._read_head(before + b'"traceEvents":[]}')
        if found[1] == b"[":
            self._drop(found.end())
        else:  # null instead of a list
            self._drop(found.end())
            self._buffer = b"]" + self._buffer
        return False

    def _find_list(self) -> re.Match[bytes]:
        searched = 0
        while True:
            first = None
            for found in _LIST_KEY.finditer(self._buffer, searched):
                first = first or found
                if _is_json(self._buffer[: found.start()] + b'"":0}'):
                    return found
            if first is not None and (self._is_end or len(self._buffer) > MAX_AROUND_BYTES):
                self._findings.add("json.head", at=0)
                return first
            if first is None:
                searched = max(len(self._buffer) - 64, 0)
            if len(self._buffer) > MAX_AROUND_BYTES or not self._fill():
                if first is not None:
                    self._findings.add("json.head", at=0)
                    return first
                raise self._no_list()

    def _no_list(self) -> IngestError:
        try:
            head = msgspec.json.decode(self._buffer, type=Head)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            return IngestError(
                f"the JSON is damaged or cut off before its first event ({exc}); copy or export it again"
            )
        if bytes(head.nodes):
            return NotATraceError("this is a PyTorch execution trace (nodes, no times), not a profiler trace")
        return NotATraceError('this is JSON without "traceEvents", so it is no profiler trace')

    def _read_head(self, text: bytes) -> None:
        try:
            self.head = _HEAD.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            events, _ = salvage(text, self._findings, 0, kind=Head, is_last=True)
            self._findings.add("json.head", at=0)
            self.head = events[0] if events else Head()

    # The events.

    def _next_batch(self) -> list[Event] | None:
        while True:
            if not self._is_end:
                self._fill()
            if start := _BETWEEN.match(self._buffer).end():  # type: ignore[union-attr]
                self._drop(start)
            if self._is_end and not self._buffer:
                return None
            if self._buffer.startswith(b"]"):
                return None
            batch = self._last_batch() if self._is_end else self._inner_batch()
            if batch:
                return batch
            if self._is_end and (not self._buffer or self._buffer.startswith(b"]")):
                return None

    def _inner_batch(self) -> list[Event]:
        """Return the events up to a boundary between two; what follows waits for the next block."""
        for cut in self._boundaries():
            try:
                events = self._decoded(self._listed(cut))
            except msgspec.DecodeError as exc:
                if "truncated" in str(exc):  # not a boundary between events, but within one
                    continue
                return self._until_end_of_list(exc)
            except (UnicodeDecodeError, RecursionError):
                break
            self._drop(cut)
            return events
        return self._salvaged()

    def _boundaries(self) -> Iterator[int]:
        """Yield where the last events may end, the last one first."""
        cuts: list[int] = []
        window = _WINDOW_BYTES
        while not cuts:
            low = max(len(self._buffer) - window, 0)
            cuts = [found.start() + 1 for found in _BOUNDARY.finditer(self._buffer, low)]
            if low == 0:
                break
            window *= 8
        yield from reversed(cuts[-_MAX_CUTS:])

    def _until_end_of_list(self, exc: msgspec.DecodeError) -> list[Event]:
        """Return the rest of the events when the list ends within the buffer; else what can be salvaged."""
        found = _TRAILING.search(str(exc))
        if found is None:
            return self._salvaged()
        end = self._buffer.rfind(b"]", 0, int(found[1]) - 1)  # the message counts the bracket put before
        try:
            events = self._decoded(self._listed(end))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._salvaged()
        self._drop(end)
        return events

    def _last_batch(self) -> list[Event]:
        """Return the rest of the events; the buffer then begins with the end of their list, or is empty."""
        low = max(len(self._buffer) - _WINDOW_BYTES, 0)
        end = self._buffer.rfind(b"]", low)
        rest = self._buffer[end + 1 :]
        if end >= 0 and (not rest.strip() or _is_json(b'{"":0' + rest)):
            try:
                events = self._decoded(self._listed(end))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return self._salvaged()
            self._drop(end)
            return events
        try:
            events = self._decoded(b"[" + self._buffer)
        except msgspec.DecodeError as exc:
            return self._until_end_of_list(exc)
        except (UnicodeDecodeError, RecursionError):
            return self._salvaged()
        self._buffer = b""
        return events

    def _salvaged(self) -> list[Event]:
        self._batch = b"[]"
        events, used = salvage(self._buffer, self._findings, self._offset, kind=ExactEvent, is_last=self._is_end)
        self._drop(used)
        return list(events)

    # After the events.

    def _leave_list(self, *, is_bare: bool) -> None:
        """Read the facts after the events."""
        while not self._is_end and len(self._buffer) <= MAX_AROUND_BYTES:
            self._fill()
        rest = self._buffer.removeprefix(b"]").strip()
        if is_bare:
            # The format allows a bare list to lack its end.
            if rest:
                self._findings.add("json.head", at=self._offset)
            return
        if not self._buffer.startswith(b"]"):
            self._findings.add("json.cut_off", at=self._offset + len(self._buffer))
            return
        try:
            tail = _HEAD.decode(b'{"":0' + rest)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            is_cut = "truncated" in str(exc)
            self._findings.add("json.cut_off" if is_cut else "json.head", at=self._offset)
            return
        for name in tail.__struct_fields__:
            if getattr(tail, name) != getattr(Head(), name):
                setattr(self.head, name, getattr(tail, name))


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


@contextmanager
def _without_gc() -> Iterator[None]:
    """Keep the collector from walking fresh structs again and again (3x slower otherwise)."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
