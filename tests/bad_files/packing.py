"""Bytes around and below the text: gzip that is odd or damaged, encodings, bytes that are no text."""

from __future__ import annotations

import codecs
import gzip
import struct
import zlib

from bad_files.cut import HEADER_BYTES, MANY, PACKED, STORED, TRAILER_BYTES
from bad_files.making import ABC, A, B, BadFile, C, event, kept, refused, trace, unreadable, with_b

LARGE = 1 << 20


def _bomb(megabytes: int) -> bytes:
    """Return gzip of so many megabytes of spaces, which one of them is packed for."""
    spaces, crc = b" " * LARGE, 0
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    block = packer.compress(spaces) + packer.flush(zlib.Z_FULL_FLUSH)  # what follows does not refer to it
    for _ in range(megabytes):
        crc = zlib.crc32(spaces, crc)
    return PACKED[:HEADER_BYTES] + megabytes * block + packer.flush() + struct.pack("<II", crc, megabytes * LARGE)


BOMB = _bomb(100)


def _flipped(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 0xFF
    return bytes(changed)


def _packed_with_name() -> bytes:
    header = bytearray(PACKED[:HEADER_BYTES])
    header[3] |= 0x08  # "a file name follows"
    return bytes(header) + b"trace.json\0" + PACKED[HEADER_BYTES:]


def _length(part: bytes) -> bytes:
    """Return the length of a part of stored gzip as it is written: once, and once with all bits turned over."""
    return struct.pack("<HH", len(part), len(part) ^ 0xFFFF)


def _stored(*parts: bytes) -> bytes:
    """Return gzip that packs nothing: a header, the parts with their lengths, and the trailer."""
    body = b"".join(b"\0" + _length(part) + part for part in parts[:-1])
    body += b"\1" + _length(parts[-1]) + parts[-1]
    text = b"".join(parts)
    return PACKED[:HEADER_BYTES] + body + struct.pack("<II", zlib.crc32(text), len(text))


TEXT = trace(*MANY)
AT_OP30 = TEXT.index(MANY[30].encode())
HALVES = gzip.compress(ABC[:150]) + gzip.compress(ABC[150:])
AT_SECOND = len(gzip.compress(ABC[:150]))

TRAILING = {"file.trailing_bytes": 1}

GZIP: tuple[BadFile, ...] = (
    kept("gzip with a file name in its header", _packed_with_name(), "a b c"),
    kept("two gzip members, split in an event", HALVES, "a b c"),
    kept("a gzip member for every byte", b"".join(gzip.compress(ABC[at : at + 1]) for at in range(len(ABC))), "a b c"),
    kept("gzip that packs nothing, in two parts", _stored(TEXT[:AT_OP30], TEXT[AT_OP30:]), 40),
    kept("an empty gzip member before and behind", gzip.compress(b"") + PACKED + gzip.compress(b""), "a b c"),
    kept("zeros behind gzip", PACKED + b"\0" * 700, "a b c"),
    kept("zeros between gzip members", HALVES[:AT_SECOND] + b"\0" * 700 + HALVES[AT_SECOND:], "a b c"),
    kept("other bytes behind gzip", PACKED + b"garbage" * 9, "a b c", TRAILING),
    kept("one other byte behind gzip", PACKED + b"g", "a b c", TRAILING),
    kept("the beginning of another member behind gzip", PACKED + PACKED[:1], "a b c", {"file.cut_off_gzip": 1}),
    kept("a second trace in a member of its own", PACKED + PACKED, "a b c", {"json.second_list": 1}),
    kept(
        "a wrong checksum in gzip's trailer",
        _flipped(PACKED, -TRAILER_BYTES),
        "a b c",
        {"file.damaged_gzip": 1},
    ),
    kept("a wrong length in gzip's trailer", _flipped(PACKED, -1), "a b c", {"file.damaged_gzip": 1}),
    kept(
        "gzip whose second part has a wrong length",
        _stored(TEXT[:AT_OP30], TEXT[AT_OP30:]).replace(_length(TEXT[AT_OP30:]), b"\1\2\3\4"),
        30,
        {"file.damaged_gzip": 1, "json.cut_off": 1},
    ),
    kept(
        "a flipped byte in a text of stored gzip",
        STORED.replace(b'"op7"', b'"oP7"'),
        [f"op{number}" if number != 7 else "oP7" for number in range(40)],
        {"file.damaged_gzip": 1},
    ),
    unreadable("gzip damaged in its first block", _flipped(STORED, HEADER_BYTES), "gzip data is damaged"),
    unreadable("gzip of an unknown method", _flipped(PACKED, 2), "gzip data is damaged"),
    kept("gzip in gzip", gzip.compress(PACKED), "a b c"),
    refused("gzip in gzip in gzip", gzip.compress(gzip.compress(PACKED)), "gzip inside gzip inside gzip"),
    kept(
        "a gzip bomb between two events",
        gzip.compress(b'{"traceEvents": [' + A.encode() + b",") + BOMB + gzip.compress(B.encode() + b"]}"),
        "a",
        {"file.gzip_bomb": 1, "json.cut_off": 1},
        smallest_block=LARGE,
    ),
    kept(
        "a gzip bomb in gzip",
        gzip.compress(gzip.compress(b'{"traceEvents": [' + A.encode() + b",") + BOMB + gzip.compress(b"]}")),
        "a",
        {"file.gzip_bomb": 1, "json.cut_off": 1},
        smallest_block=LARGE,
    ),
    refused("gzip of a picture", gzip.compress(b"\x89PNG\r\n\x1a\n" + b"\0" * 99), "PNG image"),
)

BOM = codecs.BOM_UTF8
UTF16 = {"text.utf16": 1}
ACCENTS = trace(A, event("Größe 😀", 3), C).decode()

ENCODINGS: tuple[BadFile, ...] = (
    kept("a byte order mark", BOM + ABC, "a b c"),
    kept("a byte order mark inside gzip", gzip.compress(BOM + ABC), "a b c"),
    kept("a byte order mark and a bare list", BOM + f"[{A}]".encode(), "a"),
    unreadable("a byte order mark alone", BOM, "the file is empty"),
    kept("UTF-16, small end first", codecs.BOM_UTF16_LE + ACCENTS.encode("utf-16-le"), ["a", "Größe 😀", "c"], UTF16),
    kept("UTF-16, big end first", codecs.BOM_UTF16_BE + ACCENTS.encode("utf-16-be"), ["a", "Größe 😀", "c"], UTF16),
    kept("UTF-16 without a mark, small end first", ABC.decode().encode("utf-16-le"), "a b c", UTF16),
    kept("UTF-16 without a mark, big end first", ABC.decode().encode("utf-16-be"), "a b c", UTF16),
    kept(
        "UTF-16 cut in a character",
        codecs.BOM_UTF16_LE + ACCENTS.encode("utf-16-le")[:-1],
        ["a", "Größe 😀", "c"],
        UTF16 | {"json.cut_off": 1},
    ),
    kept("UTF-16 inside gzip", gzip.compress(ACCENTS.encode("utf-16")), ["a", "Größe 😀", "c"], UTF16),
)


def _raw(name: bytes) -> bytes:
    """Return the three ops, the middle one with these very bytes as its name."""
    return with_b(name='"NAME"').replace(b"NAME", name)


BAD_UTF8 = {"json.bad_utf8": 1}

TEXTS: tuple[BadFile, ...] = (
    kept("a byte that is no UTF-8 in a name", _raw(b"b\xff"), ["a", "b\ufffd", "c"], BAD_UTF8),
    kept("Latin-1 in a name", _raw("Größe".encode("latin-1")), ["a", "Gr\ufffd\ufffde", "c"], BAD_UTF8),
    kept("half of a character in a name", _raw("b😀".encode()[:-2]), ["a", "b\ufffd", "c"], BAD_UTF8),
    kept(
        "bytes that are no UTF-8 in an argument that is read",
        with_b(args='{"Call stack": "NAME"}').replace(b"NAME", b"\xfe"),
        "a b c",
        BAD_UTF8,
    ),
    kept(
        "bytes that are no UTF-8 in an argument that nothing reads",
        with_b(args='{"note": "NAME"}').replace(b"NAME", b"\xfe"),
        "a b c",
    ),
    kept("bytes that are no UTF-8 in a key", with_b(args='{"NAME": 1}').replace(b"NAME", b"\xfe"), "a b c"),
    kept(
        "bytes that are no UTF-8 before the events", trace(A, before='"user": "NAME", ').replace(b"NAME", b"\xfe"), "a"
    ),
    kept("a surrogate without its other half", with_b(name=r'"b\ud83d"'), ["a", "b\ufffd", "c"], BAD_UTF8),
    kept("two surrogates the wrong way round", with_b(name=r'"b\ude00\ud83d"'), ["a", "b\ufffd\ufffd", "c"], BAD_UTF8),
    kept("a pair of surrogates", with_b(name=r'"b\ud83d\ude00"'), ["a", "b😀", "c"]),
    kept("a zero byte in a name", _raw(b"b\0b"), ["a", "b\0b", "c"], {"json.control_character": 1}),
    kept("an escaped zero in a name", with_b(name=r'"b\u0000b"'), ["a", "b\0b", "c"]),
    kept("an unescaped line feed in a name", _raw(b"b\nb"), ["a", "b\nb", "c"], {"json.control_character": 1}),
    kept(
        "unescaped tabs and a bell in a name",
        _raw(b"\tb\t\x07"),
        ["a", "\tb\t\x07", "c"],
        {"json.control_character": 3},
    ),
    kept(
        "a zero byte between two events",
        trace(A, B, C).replace(b", {", b", \0{", 1),
        "a b c",
        {"chrome.not_an_event": 1},
    ),
    kept("a delete character and a line separator in a name", _raw("b\x7f\u2028".encode()), ["a", "b\x7f\u2028", "c"]),
)

FILES = GZIP + ENCODINGS + TEXTS
