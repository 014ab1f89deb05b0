"""Splits the text of a trace into batches of events and the JSON around them.

The JSON is never held in memory as a whole: files of gigabytes pass through a buffer of a few blocks.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import msgspec

from torchprof_magic.ingest.chrome.metadata import facts_of
from torchprof_magic.ingest.findings import Findings, example_of
from torchprof_magic.ingest.json.other_programs import kind_of_list, known_object, unknown_object
from torchprof_magic.ingest.json.repair import MORE_EVENTS, PERHAPS_MORE_EVENTS
from torchprof_magic.ingest.json.salvage import Commas, Salvager, salvaged
from torchprof_magic.ingest.json.schema import COUNTER, NO_RAW, CounterEvent, Event, ExactEvent, Head, HostEvent
from torchprof_magic.model.errors import IngestError, NotATraceError
from torchprof_magic.model.problems import PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchprof_magic.ingest.json.blocks import Block

_LIST_KEY = re.compile(rb'"traceEvents"\s*:\s*(\[|null\b)')
_BLANKS = re.compile(rb"\s*")
_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
_TRAILING = re.compile(r"trailing characters \(byte ([0-9]+)\)")
# At most this much is read before and after the events, where real files have a few lines.
MAX_AROUND_BYTES = 64 << 20
_WINDOW_BYTES = 128 << 10
_FEW_BYTES = 8 << 10  # with the ends of enough events, in most files
_MAX_CUTS = 8
_OPEN_HEAD = b'{"":0'  # a valid stand-in for what was before the list
_MAX_LIST_KEYS = 100
_LONGEST_KEY_BYTES = 64
_BEGINNING_BYTES = 4096

_DECODERS = {kind: msgspec.json.Decoder(list[kind]) for kind in (HostEvent, Event, ExactEvent)}  # type: ignore[valid-type]
_COUNTERS = msgspec.json.Decoder(list[CounterEvent])
_HEAD = msgspec.json.Decoder(Head)


class _Tail(Head, gc=False):
    """The JSON after the events. A second list of events is not read."""

    events: msgspec.Raw = msgspec.field(name="traceEvents", default=NO_RAW)


_TAIL = msgspec.json.Decoder(_Tail)


class EventText:
    """The text of one file. Iterating yields its events in batches; ``head`` and ``facts`` are known afterwards.

    The batches are lists of events, a few thousand each: of ``HostEvent`` until more is asked for. Damage is repaired
    or left out, and counted in ``findings``. Raises ``IngestError`` for a file without text and ``NotATraceError`` for
    JSON that is not a trace.
    """

    def __init__(self, blocks: Iterator[Block], findings: Findings, report: Callable[[int], None]) -> None:
        self.head = Head()
        self.facts: dict[str, str] = {}
        self._blocks = blocks
        self._findings = findings
        self._report = report
        self._buffer = b""
        self._offset = 0  # of the buffer within the text
        self._is_end = False
        self._beginning = b""
        self._kind: type[HostEvent] = HostEvent
        self._batch = b""
        self._commas = Commas(findings)
        self._salvager = Salvager(findings, self._commas)

    def __iter__(self) -> Iterator[list[Event]]:
        is_bare = self._enter_list()
        has_entries = has_events = False
        while (batch := self._next_batch()) is not None:
            has_events = has_events or any(event.ph for event in batch)
            has_entries = has_entries or bool(batch)
            yield batch
            del batch
        has_entries = has_entries or "chrome.not_an_event" in self._findings.counts
        if has_entries and not has_events and (is_bare or self._beginning.lstrip().startswith(b"{")):
            raise NotATraceError(kind_of_list(self._beginning))
        self._leave_list(is_bare=is_bare)
        if self.head.is_base_time_odd:
            self._findings.add("chrome.odd_value", example=example_of("baseTimeNanoseconds", self.head.base_time, ""))

    def with_all_args(self) -> list[Event]:
        """Return the last batch again, and all that follow, with the arguments of devices as well.

        Where one of these is of another kind, the batch is read event by event.
        """
        self._kind = Event
        try:
            return self._decoded(self._batch)
        except (msgspec.DecodeError, RecursionError):
            alone = Salvager(self._findings, Commas(Findings()))  # the commas of this batch are counted
            begin = self._offset + len(b"[]") - len(self._batch)
            return alone.events(self._batch[1:], begin, is_last=True)[0]

    def exactly(self) -> list[Event]:
        """Return the last batch again, and all that follow, with all arguments and with times as text."""
        self._kind = ExactEvent
        return self._decoded(self._batch)

    def counters(self) -> list[CounterEvent]:
        """Return the counter events of the last batch, with their values."""
        whole = [event for event in _COUNTERS.decode(self._batch) if event.ph == COUNTER]
        return whole or self._salvager.counters

    def _decoded(self, text: bytes) -> list[Event]:
        self._batch = text
        return _DECODERS[self._kind].decode(text)

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
        """Skip to the first event and keep the text before it; True if the file is a bare list."""
        while (start := _BLANKS.match(self._buffer).end()) == len(self._buffer) and self._fill():  # type: ignore[union-attr]
            pass
        if start == len(self._buffer):
            raise self._no_text()
        if self._buffer.startswith(b"[", start):
            self._drop(start + 1)
            self._look_ahead()
            return True
        if not self._buffer.startswith(b"{", start):
            raise NotATraceError("this is not JSON, so it is not a profiler trace (.json or .json.gz)")
        found = self._find_list()
        before = self._buffer[: found.start()]
        self._read_head(before + b'"traceEvents":[]}')
        if found[1] == b"[":
            self._drop(_BLANKS.match(self._buffer, found.end()).end())  # type: ignore[union-attr]
        else:  # null instead of a list
            self._drop(found.end())
            self._buffer = b"]" + self._buffer
        self._look_ahead()
        return False

    def _look_ahead(self) -> None:
        """Keep how the list begins, to say what it is if there is no event in it."""
        while len(self._buffer) < _BEGINNING_BYTES and self._fill():
            pass
        self._beginning = self._buffer[:_BEGINNING_BYTES]

    def _find_list(self) -> re.Match[bytes]:
        """Return the key and the bracket of the event list: the first ones in the outermost object."""
        first = None
        for found in itertools.islice(self._list_keys(), _MAX_LIST_KEYS):
            if _is_json(self._buffer[: found.start()] + b'"":0}'):
                return found
            first = first or found
        if first is None:
            raise self._no_list()
        return first

    def _list_keys(self) -> Iterator[re.Match[bytes]]:
        """Yield what looks like the key of the event list, and read on as far as metadata may reach."""
        searched = 0
        while True:
            for found in _LIST_KEY.finditer(self._buffer, searched):
                yield found
                searched = found.end()
            searched = max(searched, len(self._buffer) - _LONGEST_KEY_BYTES)
            if len(self._buffer) > MAX_AROUND_BYTES or not self._fill():
                return

    def _no_text(self) -> IngestError:
        for code in self._findings.counts:
            if code.startswith("file."):  # compressed data without any text
                return IngestError(f"{PROBLEMS[code].message} {PROBLEMS[code].fix}")
        return IngestError("the file is empty; the program that wrote it may have been stopped")

    def _no_list(self) -> IngestError:
        try:
            msgspec.json.decode(self._buffer, type=Head)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            if kind := known_object(self._buffer):  # of which as much was read as may stand before the events
                return NotATraceError(str(kind))
            return IngestError(
                f"the JSON is damaged or cut off before its first event ({exc}); copy or export it again"
            )
        return NotATraceError(str(known_object(self._buffer) or unknown_object(self._buffer)))

    def _read_head(self, text: bytes) -> None:
        try:
            self.head = _HEAD.decode(text)
            self.facts |= facts_of(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._findings.add("json.head", at=0)
            self.head = salvaged(text, Head, self._findings) or Head()

    # The events.

    def _next_batch(self) -> list[Event] | None:
        while not self._salvager.is_over:
            if not self._salvager.is_lost:  # before the rest is joined with the next block, which copies that
                self._drop(self._commas.skip(self._buffer, 0))
            if not self._is_end:
                self._fill()
            if not self._salvager.is_lost:
                self._drop(self._commas.skip(self._buffer, 0))
                if self._is_list_over():
                    return None
            size = len(self._buffer)
            batch = self._batch_of_list()
            if batch:
                return batch
            if self._is_end and len(self._buffer) == size:  # the rest is cut off by the end of the text
                return None
        return None

    def _batch_of_list(self) -> list[Event]:
        if self._salvager.is_lost:
            return self._salvaged()
        return self._last_batch() if self._is_end else self._inner_batch()

    def _is_list_over(self) -> bool:
        """Return whether the list ends here; a bracket with more events after it is skipped."""
        while self._buffer.startswith(b"]") and not self._is_end and PERHAPS_MORE_EVENTS.match(self._buffer):
            self._fill()
        if MORE_EVENTS.match(self._buffer):
            self._findings.add("json.structure", at=self._offset)
            self._drop(1)
            self._drop(self._commas.skip(self._buffer, 0))
            return self._is_list_over()
        return self._buffer.startswith(b"]") or (self._is_end and not self._buffer)

    def _inner_batch(self) -> list[Event]:
        """Return the events up to a boundary between two; what follows waits for the next block."""
        for cut in self._boundaries():
            try:
                events = self._decoded(self._listed(cut))
            except msgspec.DecodeError as exc:
                if "truncated" in str(exc):  # the boundary is within an event
                    continue
                return self._until_end_of_list(exc)
            except (UnicodeDecodeError, RecursionError):
                break
            return self._whole(events, cut)
        return self._salvaged()

    def _whole(self, events: list[Event], end: int) -> list[Event]:
        """Return the events up to ``end``, decoded strictly."""
        if events:
            self._commas.begin_entry()
        self._drop(end)
        return events

    def _boundaries(self) -> Iterator[int]:
        """Yield the positions where the last events may end, in reverse order."""
        cuts: list[int] = []
        window = _FEW_BYTES
        while not cuts or (len(cuts) < _MAX_CUTS and window <= _WINDOW_BYTES):
            low = max(len(self._buffer) - window, 0)
            cuts = [found.start() + 1 for found in _BOUNDARY.finditer(self._buffer, low)]
            if low == 0:
                break
            window *= _WINDOW_BYTES // _FEW_BYTES
        yield from reversed(cuts[-_MAX_CUTS:])

    def _until_end_of_list(self, exc: msgspec.DecodeError) -> list[Event]:
        """Return the rest of the events when the list ends within the buffer; else what can be salvaged."""
        found = _TRAILING.search(str(exc))
        if found is None:
            return self._salvaged()
        end = self._buffer.rfind(
            b"]", 0, int(found[1]) - 1
        )  # the position in the message includes the bracket added in front
        try:
            events = self._decoded(self._listed(end))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._salvaged()
        return self._whole(events, end)

    def _last_batch(self) -> list[Event]:
        """Return the rest of the events; the buffer then begins with the end of their list, or is empty."""
        low = max(len(self._buffer) - _WINDOW_BYTES, 0)
        end = self._buffer.rfind(b"]", low)
        rest = self._buffer[end + 1 :]
        if end >= 0 and (not rest.strip() or _is_json(_OPEN_HEAD + rest)):
            try:
                events = self._decoded(self._listed(end))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return self._salvaged()
            return self._whole(events, end)
        try:
            events = self._decoded(b"[" + self._buffer)
        except msgspec.DecodeError as exc:
            return self._until_end_of_list(exc)
        except (UnicodeDecodeError, RecursionError):
            return self._salvaged()
        return self._whole(events, len(self._buffer))

    def _salvaged(self) -> list[Event]:
        self._batch = b"[]"
        events, used = self._salvager.events(self._buffer, self._offset, is_last=self._is_end)
        self._drop(used)
        return events

    # After the events.

    def _leave_list(self, *, is_bare: bool) -> None:
        """Read the metadata after the events."""
        if self._salvager.is_over:  # where the list ends is not known
            return
        while not self._is_end and len(self._buffer) <= MAX_AROUND_BYTES:
            self._fill()
        has_end = self._buffer.startswith(b"]")
        rest = self._buffer[has_end:].strip()
        if has_end:
            self._commas.end_list()
        if not has_end and (rest or not is_bare):  # the format allows a bare list without its end
            self._findings.add("json.cut_off", at=self._offset)
        elif is_bare:
            self._findings.add(_behind(rest), int(bool(rest)), at=self._offset)
        else:
            self._read_tail(rest)

    def _read_tail(self, text: bytes) -> None:
        try:
            tail = _TAIL.decode(_OPEN_HEAD + text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            found = _TRAILING.search(str(exc))
            behind = text[int(found[1]) - 1 - len(_OPEN_HEAD) :] if found else b""
            code = "json.cut_off" if "truncated" in str(exc) else _behind(behind)
            self._findings.add(code, at=self._offset)
            return
        if bytes(tail.events) not in (b"", b"null", b"[]"):
            self._findings.add("json.second_list", at=self._offset)
        self.facts |= facts_of(_OPEN_HEAD + text)
        for name in Head.__struct_fields__:
            if bytes(getattr(tail, name)):
                setattr(self.head, name, getattr(tail, name))


def _behind(text: bytes) -> str:
    """Return the problem code for the text after the end of the trace."""
    return "json.second_list" if text.lstrip(b", \t\r\n").startswith((b"{", b"[")) else "json.head"


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
