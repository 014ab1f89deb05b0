"""The text of a trace file in blocks: unpacked, in UTF-8, and bounded in size."""

from __future__ import annotations

import codecs
import io
import itertools
import re
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from torchprof_magic.ingest.json.other_programs import kind_of_bytes
from torchprof_magic.ingest.regular import GZIP_MAGIC, GZIP_WINDOW, open_regular, read_pieces
from torchprof_magic.model.errors import IngestError, NotATraceError
from torchprof_magic.model.problems import PROBLEMS
from torchprof_magic.system.files import gzip_streams

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from torchprof_magic.ingest.findings import Findings

# The events of 1 MB fit into memory that the next ones use again. With more, the system clears new pages for the first
# blocks, half as many again with 2 MB, and with 4 MB for each.
BLOCK_BYTES = 1 << 20
_PACKED_BYTES = 64 << 10
# Real traces compress to a thirtieth at most. A file that expands more than this is an attempt to exhaust memory.
MAX_RATIO = 250
RATIO_FREE_BYTES = 64 << 20
MAX_LAYERS = 2
_STEP_BYTES = 64 << 10  # how much is unpacked at once, and lost if it fails
_KEPT_PACKED_BYTES = 16 << 20
_REPLAY_BYTES = 4 << 10
_SNIFFED_BYTES = 4096
_UTF16 = {
    "utf-16": re.compile(rb"\xff\xfe|\xfe\xff"),
    "utf-16-le": re.compile(rb"[\[{]\0[^\0]\0"),
    "utf-16-be": re.compile(rb"\0[\[{]\0[^\0]"),
}


class Block(NamedTuple):
    """A piece of the text, and how many bytes of the file have been read so far."""

    text: bytes
    read_bytes: int


def read_blocks(source: str | os.PathLike[str] | bytes, findings: Findings) -> Iterator[Block]:
    """Yield the JSON text of a trace file, or of its bytes, in pieces of some MB. The content decides how it is read.

    Raises ``IngestError`` when the file cannot be opened and ``NotATraceError`` when it clearly is something else.
    Damaged gzip ends the text early and is noted in ``findings``.
    """
    if isinstance(source, bytes):
        with io.BytesIO(source) as memory:
            yield from _text_blocks(memory, findings)
        return
    try:
        with open_regular(Path(source)) as file:
            yield from _text_blocks(file, findings)
    except FileNotFoundError as exc:
        raise IngestError("no such file") from exc
    except OSError as exc:
        raise IngestError(f"the file cannot be read ({exc.strerror or exc})") from exc


def size_of(source: str | os.PathLike[str] | bytes) -> int:
    """Return the size in bytes on disk, 0 if unknown."""
    try:
        return len(source) if isinstance(source, bytes) else Path(source).stat().st_size
    except (OSError, ValueError):
        return 0


def _text_blocks(file: IO[bytes], findings: Findings) -> Iterator[Block]:
    beginning = next(read_pieces(file, len(GZIP_MAGIC)), b"")  # and not looked for again: not every file can be rewound
    size = _PACKED_BYTES if beginning == GZIP_MAGIC else BLOCK_BYTES
    first = beginning + next(read_pieces(file, size - len(beginning)), b"")
    pieces = itertools.chain((first,) if first else (), read_pieces(file, size))
    raw = (Block(data, file.tell()) for data in pieces)
    yield from _without_padding(_in_utf8(_identified(_unpacked(raw, findings), findings), findings))


def _identified(blocks: Iterator[Block], findings: Findings, layer: int = 1) -> Iterator[Block]:
    """Pass the blocks on, unless they begin like something other than a trace."""
    first = _beginning(blocks)
    if first is None:
        return
    if first.text.startswith(GZIP_MAGIC):
        if layer >= MAX_LAYERS:
            raise NotATraceError("this is gzip inside gzip inside gzip; unpack it and open the trace inside")
        yield from _identified(_unpacked(_chained(first, blocks), findings), findings, layer + 1)
        return
    if kind := kind_of_bytes(first.text):
        raise NotATraceError(str(kind))
    yield from _chained(first, blocks)


def _beginning(blocks: Iterator[Block]) -> Block | None:
    """Return the first blocks as one that is long enough to tell what they are, ``None`` if there is no text."""
    gathered = Block(b"", 0)
    while len(gathered.text) < _SNIFFED_BYTES and (block := next(blocks, None)):
        gathered = Block(gathered.text + block.text, block.read_bytes)
    return gathered if gathered.text else None


def _chained(first: Block, rest: Iterator[Block]) -> Iterator[Block]:
    yield first
    yield from rest


def _in_utf8(blocks: Iterator[Block], findings: Findings) -> Iterator[Block]:
    """Drop a byte order mark, and turn UTF-16 into UTF-8."""
    first = next(blocks, None)
    if first is None:
        return
    encoding = next((name for name, beginning in _UTF16.items() if beginning.match(first.text)), None)
    if encoding is None:
        yield first._replace(text=first.text.removeprefix(codecs.BOM_UTF8))
        yield from blocks
        return
    findings.add("text.utf16")
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for block in _chained(first, blocks):
        yield block._replace(text=decoder.decode(block.text).encode("utf-8", "replace"))


def _without_padding(blocks: Iterator[Block]) -> Iterator[Block]:
    """Drop the zeros at the end of a file that a crash can leave, when the length was written before the data."""
    zeros = 0
    for block in blocks:
        text = block.text.rstrip(b"\0")
        if text:
            for at in range(0, zeros, BLOCK_BYTES):
                yield block._replace(text=b"\0" * min(zeros - at, BLOCK_BYTES))
            yield block._replace(text=text)
            zeros = 0
        zeros += len(block.text) - len(text)


def _unpacked(blocks: Iterator[Block], findings: Findings) -> Iterator[Block]:
    """Unpack gzip, also with several members, and gather the text into blocks; other bytes pass through."""
    first = next(blocks, None)
    if first is None:
        return
    if not first.text.startswith(GZIP_MAGIC):
        yield from _chained(first, blocks)
        return
    gathered: list[bytes] = []
    size, read_bytes = 0, 0
    for piece in _inflated(_chained(first, blocks), findings):
        gathered.append(piece.text)
        size, read_bytes = size + len(piece.text), piece.read_bytes
        if size >= BLOCK_BYTES:
            yield Block(b"".join(gathered), read_bytes)
            gathered, size = [], 0
    if gathered:
        yield Block(b"".join(gathered), read_bytes)


def _inflated(blocks: Iterator[Block], findings: Findings) -> Iterator[Block]:
    members = _Members(findings)
    for block in blocks:
        for text in members.unpacked(block.text):
            yield Block(text, block.read_bytes)
        if members.is_over:
            return
    members.end()


class _Members:
    """The gzip members of a file, one after the other. ``is_over`` is set when one of them cannot be read."""

    def __init__(self, findings: Findings) -> None:
        self.is_over = False
        self._findings = findings
        self._member: _Member | None = None
        self._packed_bytes = self._unpacked_bytes = 0

    def unpacked(self, packed: bytes) -> Iterator[bytes]:
        """Yield what the next bytes unpack to."""
        is_first = self._packed_bytes == 0
        self._packed_bytes += len(packed)
        while packed := packed if self._member else packed.lstrip(b"\0"):  # members can be padded with zeros
            if self._member is None and not (is_first or packed.startswith(GZIP_MAGIC[: len(packed)])):
                self._stop("file.trailing_bytes")
                return
            member = self._member = self._member or _Member()
            is_first = False
            for text in member.unpacked(packed):
                self._unpacked_bytes += len(text)
                if self._unpacked_bytes > max(RATIO_FREE_BYTES, MAX_RATIO * self._packed_bytes):
                    self._stop("file.gzip_bomb")
                    return
                yield text
            if member.is_damaged:
                self._stop("file.damaged_gzip")
                return
            packed = member.rest
            if member.is_whole:
                self._member = None

    def end(self) -> None:
        """Note that the file has ended."""
        if self._member is not None:
            self._stop("file.cut_off_gzip")

    def _stop(self, code: str) -> None:
        if self._unpacked_bytes == 0:
            raise IngestError(f"{PROBLEMS[code].message} {PROBLEMS[code].fix}")
        self._findings.add(code, at=self._unpacked_bytes)
        self.is_over = True


class _Member:
    """One gzip member. Once it ``is_whole``, ``rest`` holds the bytes after it.

    Small members keep their compressed bytes: the fast engine does not return what it unpacked just before damage.
    """

    def __init__(self) -> None:
        self.is_whole = self.is_damaged = False
        self.rest = b""
        self._engine = gzip_streams.unpacker(GZIP_WINDOW)
        self._kept: bytearray | None = bytearray()
        self._unpacked_bytes = 0

    def unpacked(self, packed: bytes) -> Iterator[bytes]:
        """Yield what the next bytes unpack to."""
        self._keep(packed)
        while not self.is_whole:
            try:
                text = self._engine.decompress(packed, _STEP_BYTES)
            except gzip_streams.DAMAGED:
                self.is_damaged = True
                yield from self._unpacked_before_damage()
                return
            self._unpacked_bytes += len(text)
            if text:
                yield text
            self.is_whole, self.rest = self._engine.eof, self._engine.unused_data
            packed = self._engine.unconsumed_tail
            if not packed and len(text) < _STEP_BYTES:
                return

    def _keep(self, packed: bytes) -> None:
        if self._kept is not None:
            self._kept += packed
            if len(self._kept) > _KEPT_PACKED_BYTES:
                self._kept = None

    def _unpacked_before_damage(self) -> Iterator[bytes]:
        """Unpack everything again with the slower engine, and yield what is new, up to the byte that is damaged."""
        engine, known_bytes = zlib.decompressobj(GZIP_WINDOW), self._unpacked_bytes
        kept, at, is_sound = bytes(self._kept or b""), 0, True
        while is_sound and at < len(kept):
            piece, before = kept[at : at + _REPLAY_BYTES], engine.copy()
            try:
                text = engine.decompress(piece)
            except zlib.error:
                text, is_sound = _unpacked_by_byte(before, piece), False
            if text[known_bytes:]:
                yield text[known_bytes:]
            known_bytes = max(known_bytes - len(text), 0)
            at += len(piece)


def _unpacked_by_byte(engine: zlib._Decompress, packed: bytes) -> bytes:
    gathered = bytearray()
    for at in range(len(packed)):
        try:
            gathered += engine.decompress(packed[at : at + 1])
        except zlib.error:
            break
    return bytes(gathered)
