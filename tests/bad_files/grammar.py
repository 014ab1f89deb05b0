"""Files whose JSON breaks its own grammar: quotes, backslashes, commas, brackets, words that are no values."""

from __future__ import annotations

from bad_files.making import ABC, HEAD, A, B, BadFile, C, event, kept, trace, unreadable, with_b

COMMA = {"json.comma": 1}
STRUCTURE = {"json.structure": 1}
NO_NUMBER = {"json.not_a_number": 1}
ESCAPE = {"json.bad_escape": 1}
LOST = {"json.lost": 1}
# A key runs on to the end of the next one; both are lost.
RUNS_ON = {"json.inner_quote": 1, "chrome.no_duration": 1}
HEAD_DAMAGED = {"json.head": 1}


def _joined(*pieces: str) -> bytes:
    return ('{"traceEvents": [' + "".join(pieces) + "]}").encode()


QUOTES: tuple[BadFile, ...] = (
    kept("quotes within a name", with_b(name='"say "b" twice"'), ["a", 'say "b" twice', "c"], {"json.inner_quote": 2}),
    kept("quotes around a name, inside its own", with_b(name='""b""'), ["a", '"b"', "c"], {"json.inner_quote": 2}),
    kept("a quote within an argument", with_b(args='{"note": "3" disk"}'), "a b c", {"json.inner_quote": 1}),
    kept(
        "quotes, a comma and a colon within a name",
        with_b(name='"f("x", y: 1)"'),
        ["a", 'f("x", y: 1)', "c"],
        {"json.inner_quote": 2},
    ),
    kept("an escaped and an unescaped quote", with_b(name=r'"b\" "b"'), ["a", 'b" "b', "c"], {"json.inner_quote": 1}),
    kept("escaped JSON as a name", with_b(name=r'"{\"b\": [1, \"x\"]}"'), ["a", '{"b": [1, "x"]}', "c"]),
    # What the name was cannot be told; its event goes, those around it stay.
    kept("the quote that ends a name is missing", with_b(name='"b'), "a c", LOST),
    kept(
        "the quote that ends a key is missing", _joined(A, ", ", B.replace('"dur"', '"dur'), ", ", C), "a b c", RUNS_ON
    ),
    # Behind the last event nothing tells such a text from one that was cut.
    kept(
        "the quote that ends the last name is missing",
        trace(A, B, event("c", 5, name='"c')),
        "a b",
        {"json.cut_off": 1},
    ),
)

BACKSLASHES: tuple[BadFile, ...] = (
    kept("backslashes of Windows in a name", with_b(name=r'"C:\users\x.py"'), ["a", r"C:\users\x.py", "c"], ESCAPE),
    kept("a backslash before the quote that ends a name", with_b(name=r'"C:\dir\"'), ["a", "C:\\dir\\", "c"], ESCAPE),
    kept("the same where every other escape is good", with_b(name=r'"C:\new\"'), ["a", "C:\\new\\", "c"], ESCAPE),
    kept(
        "a backslash before the last quote of an event",
        trace(A, event("b", 3, args=r'{"dir": "C:\dir\"}'), C),
        "a b c",
        ESCAPE,
    ),
    kept("doubled backslashes", with_b(name=r'"C:\\dir\\"'), ["a", "C:\\dir\\", "c"]),
    kept("an escape of too few digits", with_b(name=r'"b\u12"'), ["a", r"b\u12", "c"], ESCAPE),
    kept("an escape that JSON does not know", with_b(name=r'"b\x41"'), ["a", r"b\x41", "c"], ESCAPE),
    # Another name of the file proves that its writer escapes nothing, so this line feed was a backslash and an n.
    kept(
        "a name that would be read as a line feed",
        trace(A, event("b", 3, name=r'"C:\new"'), event("c", 5, name=r'"C:\dir"')),
        ["a", r"C:\new", r"C:\dir"],
        {"json.bad_escape": 2},
    ),
)

COMMAS: tuple[BadFile, ...] = (
    kept("a comma behind the last event", _joined(A, ", ", B, ","), "a b", COMMA),
    kept("a comma before the first event", _joined(", ", A, ", ", B), "a b", COMMA),
    kept("no comma between two events", _joined(A, " ", B, ", ", C), "a b c", COMMA),
    kept("no commas at all between events", _joined(A, B, C), "a b c", {"json.comma": 2}),
    kept("two commas between events", _joined(A, ", , ", B, ",", C), "a b c", COMMA),
    kept("a comma behind the last member", _joined(A, ", ", B[:-1] + ", }", ", ", C), "a b c", COMMA),
    kept("a comma missing between members", _joined(A, ",", B.replace(', "dur"', ' "dur"'), ",", C), "a b c", COMMA),
    kept("two commas between members", _joined(A, ", ", B.replace(', "dur"', ',, "dur"'), ", ", C), "a b c", COMMA),
    kept("a comma behind the last item of a list", with_b(args='{"Input Dims": [[2, 3], ]}'), "a b c", COMMA),
    kept("a comma behind the last member of the file", trace(A, B, after=', "x": 1,'), "a b", HEAD_DAMAGED),
    kept("a comma behind the list and nothing else", trace(A, B, after=","), "a b", HEAD_DAMAGED),
)

BRACKETS: tuple[BadFile, ...] = (
    kept("an event without its brace", _joined(A, ", ", B[:-1], ", ", C), "a b c", STRUCTURE),
    kept("a list without its bracket", with_b(args='{"Input Dims": [[2, 3]}'), "a b c", STRUCTURE),
    kept("a bracket too many in an event", with_b(args='{"Input Dims": [2]]}'), "a b c", STRUCTURE),
    kept("a brace too many behind an event", _joined(A, ", ", B + "}", ", ", C), "a b c", {"chrome.not_an_event": 1}),
    kept("a bracket too many between events", _joined(A, "], ", B, ", ", C), "a b c", STRUCTURE),
    kept(
        "an event cut in a list, and the next one follows",
        _joined(A, ", ", event("b", 3, args='{"Input Dims": [[2, ')[:-1], B, ", ", C),
        "a b b c",
        STRUCTURE,
    ),
    kept(
        "an event cut in a name, and the next one follows",
        _joined(A, ", ", event("b", 3)[:39], B, ", ", C),
        "a b c",
        LOST,
    ),
    kept("the last event lacks its brace", _joined(A, ", ", B[:-1]), "a b", STRUCTURE),
    kept(
        "a colon missing",
        _joined(A, ", ", B.replace('"dur": 1', '"dur" 1'), ", ", C),
        "a b c",
        RUNS_ON | {"json.inner_quote": 2},
    ),
    kept("two colons", _joined(A, ", ", B.replace('"dur": 1', '"dur":: 1'), ", ", C), "a b c", STRUCTURE),
    kept("a value missing", with_b(dur=""), "a b c", STRUCTURE | {"chrome.no_duration": 1}),
    kept("brackets in a name", with_b(name='"b}]"'), ["a", "b}]", "c"]),
    kept("an event in a name", with_b(name='"b}, {"'), ["a", "b}, {", "c"]),
    kept(
        "an event in a name, and damage elsewhere",
        with_b(name='"b}, {"', dur="NaN"),
        ["a", "b}, {", "c"],
        NO_NUMBER | {"chrome.no_duration": 1},
    ),
    kept("damage before the events", trace(A, B, before='"x": NaN, '), "a b", {"json.head": 1, "json.not_a_number": 1}),
    kept("damage behind the events", trace(A, B, after=', "x": NaN'), "a b", HEAD_DAMAGED),
    kept("text behind the end", ABC + b"\nKilled\n", "a b c", HEAD_DAMAGED),
    kept("a second trace behind the end", ABC + b"\n" + trace(event("d", 9)), "a b c", {"json.second_list": 1}),
    kept("text behind the end of a bare list", f"[{A}, {B}] Killed".encode(), "a b", HEAD_DAMAGED),
    kept("single quotes around an entry", _joined(A, ", 'no', ", B), "a b", {"chrome.not_an_event": 1}),
    kept("the list's key in a text before it", trace(A, before=r'"x": "\"traceEvents\": [", '), "a"),
    kept("a list of the same name further inside", trace(A, before='"x": {"traceEvents": [1]}, '), "a"),
)

WORDS: tuple[BadFile, ...] = (
    *(
        kept(f"{word} as an argument", with_b(args='{"Bandwidth (GB/s)": ' + word + "}"), "a b c", NO_NUMBER)
        for word in ("NaN", "nan", "-nan", "Infinity", "-Infinity", "inf", "-inf", "N/A", "None", "undefined", "True")
    ),
    kept("NaN as a time", with_b(ts="NaN"), "a c", NO_NUMBER | {"chrome.no_time": 1}),
    kept(
        "Infinity as a duration",
        with_b(dur="Infinity"),
        "a b c",
        NO_NUMBER | {"chrome.no_duration": 1},
        durs_ns=[1000, 0, 1000],
    ),
    kept(
        "NaN twice in one event and once in another",
        trace(event("a", args='{"x": NaN, "y": NaN}'), event("b", 3, args='{"x": NaN}')),
        "a b",
        {"json.not_a_number": 3},
    ),
    kept("a number with a plus", with_b(dur="+1"), "a b c", STRUCTURE, durs_ns=[1000, 1000, 1000]),
    kept("a number without its zero", with_b(dur=".5"), "a b c", STRUCTURE, durs_ns=[1000, 500, 1000]),
    kept("a number that ends in its point", with_b(dur="1."), "a b c", STRUCTURE, durs_ns=[1000, 1000, 1000]),
    kept("a number with zeros before it", with_b(dur="007"), "a b c", STRUCTURE, durs_ns=[1000, 7000, 1000]),
    kept("a comment between events", _joined(A, ", /* note */ ", B), "a b", {"chrome.not_an_event": 3}),
)

OTHER: tuple[BadFile, ...] = (
    unreadable(
        "the key of the list lacks its quote",
        ("{" + HEAD + 'traceEvents": [' + A + "]}").encode(),
        "damaged or cut off before its first event",
    ),
)

FILES = QUOTES + BACKSLASHES + COMMAS + BRACKETS + WORDS + OTHER
