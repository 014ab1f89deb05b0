"""Files that end too early, as of a full disk or a killed process."""

from __future__ import annotations

import gzip

from bad_files.making import ABC, A, B, BadFile, event, kept, trace, unreadable, upto

CUT = {"json.cut_off": 1}
ESCAPED = trace(A, B, event("c", 5, name=r'"new\nline \u00e9"'))
ACCENT = trace(A, B, event("c", 5, name='"é"'))
BARE = f"[{A}, {B}".encode()

JSON: tuple[BadFile, ...] = (
    kept("cut in a name", upto(ABC, '"name": "'), "a b", CUT),
    kept("cut in a key", upto(ABC, '"na'), "a b", CUT),
    kept("cut between a key and its colon", upto(ABC, '"dur"'), "a b", CUT),
    kept("cut between a colon and the value", upto(ABC, '"dur":'), "a b", CUT),
    kept("cut in a number, which may lack digits", upto(ABC, '"dur": 1'), "a b", CUT),
    kept("cut behind the comma of a member", upto(ABC, '"dur": 1,'), "a b", CUT),
    kept("cut in an escape", upto(ESCAPED, "new\\"), "a b", CUT),
    kept("cut in an escape of four digits", upto(ESCAPED, "\\u00"), "a b", CUT),
    kept("cut in a character of two bytes", upto(ACCENT, "é")[:-1], "a b", CUT),
    kept("cut in the arguments", upto(ABC, '"External id"'), "a b", CUT),
    kept("cut before the brace of an event whose arguments are whole", upto(ABC, "}]", behind=False), "a b", CUT),
    kept("cut between an event and its comma", upto(ABC, ", " + event("c", 5), behind=False), "a b", CUT),
    kept("cut behind the comma of an event", upto(ABC, event("c", 5), behind=False).rstrip(), "a b", CUT),
    kept("cut behind the brace that begins an event", upto(ABC, event("c", 5), behind=False) + b"{", "a b", CUT),
    kept("cut behind the last event", upto(ABC, "]", behind=False), "a b c", CUT),
    kept("cut behind the list", upto(ABC, "]"), "a b c", CUT),
    kept("cut in a key behind the list", upto(ABC, '"trace'), "a b c", CUT),
    kept("cut in a value behind the list", upto(ABC, '"x.j'), "a b c", CUT),
    kept("only the last brace is missing", ABC[:-1], "a b c", CUT),
    kept("cut behind the bracket that begins the list", b'{"traceEvents": [', "", CUT),
    kept("cut in the first event", b'{"traceEvents": [{"ph": "X", "na', "", CUT),
    kept("a disk filled the rest with zeros", upto(ABC, '"name": "c') + b"\0" * 5000, "a b", CUT),
    kept("a whole file is padded with zeros", ABC + b"\0" * 5000, "a b c"),
    # The format of 2010 allows a list to lack its end, so that programs can append to it.
    kept("a bare list with its end", f"[{A}, {B}]\n".encode(), "a b"),
    kept("a bare list without its end", BARE, "a b"),
    kept("a bare list that ends in a comma", BARE + b",\n", "a b"),
    kept("a bare list that only begins", b"[", ""),
    kept("a bare list cut in an event", BARE + b', {"ph": "X", "na', "a b", CUT),
    unreadable("cut behind the first brace", b"{", "damaged or cut off before its first event"),
    unreadable("cut in the first key", b'{"schemaVer', "damaged or cut off before its first event"),
    unreadable("cut in the name of the list", b'{"schemaVersion": 1, "traceEv', "cut off before its first event"),
    unreadable("cut between the list's key and the list", b'{"traceEvents": ', "cut off before its first event"),
    unreadable("nothing at all", b"", "the file is empty"),
    unreadable("only spaces and lines", b" \n\t\r\n" * 30, "the file is empty"),
    unreadable("only zeros", b"\0" * 3000, "the file is empty"),
)

# Many events, so that much of the packed text stands before the cut; stored, so that the cut's place is known.
MANY = [event(f"op{number}", 10 * number) for number in range(40)]
STORED = gzip.compress(trace(*MANY), 0)
PACKED = gzip.compress(ABC, 9)
HEADER_BYTES, TRAILER_BYTES = 10, 8
AT_OP30 = STORED.index(b'"op30"')

GZIP: tuple[BadFile, ...] = (
    kept("gzip cut in an event", STORED[:AT_OP30], 30, CUT | {"file.cut_off_gzip": 1}),
    kept("gzip cut before its trailer", PACKED[:-TRAILER_BYTES], "a b c", {"file.cut_off_gzip": 1}),
    kept("gzip cut in its trailer", PACKED[:-3], "a b c", {"file.cut_off_gzip": 1}),
    unreadable("gzip cut in its header", PACKED[: HEADER_BYTES - 4], "gzip data is cut off"),
    unreadable("gzip cut behind its header", PACKED[:HEADER_BYTES], "gzip data is cut off"),
    unreadable("gzip of nothing", gzip.compress(b""), "the file is empty"),
    kept(
        "gzip of a text that was cut before it was packed",
        gzip.compress(upto(ABC, '"name": "')),
        "a b",
        CUT,
    ),
    kept(
        "the last of several gzip members is cut",
        gzip.compress(trace(*MANY)[:2000]) + gzip.compress(trace(*MANY)[2000:])[:-TRAILER_BYTES],
        40,
        {"file.cut_off_gzip": 1},
    ),
    kept(
        "gzip in gzip, the outer cut in its trailer",
        gzip.compress(PACKED)[:-3],
        "a b c",
        {"file.cut_off_gzip": 1},
    ),
    kept(
        "gzip in gzip, the inner cut in its trailer",
        gzip.compress(PACKED[:-3]),
        "a b c",
        {"file.cut_off_gzip": 1},
    ),
)

FILES = JSON + GZIP
