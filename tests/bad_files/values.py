"""Files in good JSON whose values have kinds and sizes that no trace should hold."""

from __future__ import annotations

import json

from bad_files.making import A, B, BadFile, C, counter, event, kept, refused, trace, with_b

ODD = {"chrome.odd_value": 1}
NO_TIME = {"chrome.no_time": 1}
NO_DURATION = {"chrome.no_duration": 1}
STRAY = {"chrome.stray_time": 1}
NO_LAUNCH = {"chrome.no_launch": 1}
NO_EVENT = {"chrome.not_an_event": 1}
UNCLOSED = {"chrome.unclosed_event": 1}
STRAY_END = {"chrome.end_without_begin": 1}
# Each brace begins an object that the next one ends.
GIVEN_UP = {
    "json.structure": 100_001,
    "json.comma": 100_000,
    "chrome.not_an_event": 100_001,
    "json.given_up": 1,
}
MANY_DIGITS = "9" * 5000
DEEP = 100_000
LARGE_TEXT = 1 << 20

TIMES: tuple[BadFile, ...] = (
    kept("a time as text", with_b(ts='"3"'), "a b c", starts_ns=[0, 2000, 4000]),
    kept("a time as text with spaces", with_b(ts='" 3.5 "'), "a b c", starts_ns=[0, 2500, 4000]),
    kept("a time as other text", with_b(ts='"N/A"'), "a c", NO_TIME),
    kept("a time as empty text", with_b(ts='""'), "a c", NO_TIME),
    kept("null as a time", with_b(ts="null"), "a c", NO_TIME),
    kept("true as a time", with_b(ts="true"), "a c", NO_TIME),
    kept("a list as a time", with_b(ts="[3]"), "a c", NO_TIME),
    kept("an object as a time", with_b(ts='{"us": 3}'), "a c", NO_TIME),
    kept("no time", with_b(ts=None), "a c", NO_TIME),
    kept("a negative time", with_b(ts="-3"), "b a c", starts_ns=[0, 4000, 8000]),
    kept("a time with an exponent", with_b(ts="3.5e0"), "a b c", starts_ns=[0, 2500, 4000]),
    kept("a time finer than a ns", with_b(ts="3.00049"), "a b c", starts_ns=[0, 2000, 4000]),
    kept("a time past every number", with_b(ts="1e999"), "a c", NO_TIME),
    kept("a time before every number", with_b(ts="-1e999"), "a c", NO_TIME),
    kept("a time of 5,000 digits", with_b(ts=MANY_DIGITS), "a c", NO_TIME),
    kept("a time that int64 holds in us but not in ns", with_b(ts="9223372036854775807"), "a c", NO_TIME),
    kept("a time 3 years after all others", with_b(ts="1e14"), "a c", STRAY),
    kept("a time 3 years before all others", with_b(ts="-1e14"), "a c", STRAY),
    kept(
        "a time that was lost: 0, and a duration of 0",
        trace(event("a", 5000), event("b", 0, 0), event("c", 5002)),
        "a c",
        {"chrome.zero_time": 1},
        starts_ns=[0, 2000],
    ),
    kept(
        "one time of 0 among times since 1970",
        trace(event("a", 1.7e15), event("b", 0), event("c", 1.7e15 + 2)),
        "a c",
        STRAY,
        starts_ns=[0, 2000],
    ),
    kept(
        "times in ns past 2^53 are exact",
        trace(
            event("a", "9007199254740.992"), event("b", "9007199254740.993", "0.001"), event("c", "9007199254740.994")
        ),
        "a b c",
        {"chrome.partial_overlap": 1},
        starts_ns=[0, 1, 2],
    ),
    kept("a duration as text", with_b(dur='"1.5"'), "a b c", durs_ns=[1000, 1500, 1000]),
    kept("no duration", with_b(dur=None), "a b c", NO_DURATION, durs_ns=[1000, 0, 1000]),
    kept("null as a duration", with_b(dur="null"), "a b c", NO_DURATION, durs_ns=[1000, 0, 1000]),
    kept("a list as a duration", with_b(dur="[]"), "a b c", NO_DURATION, durs_ns=[1000, 0, 1000]),
    kept("a duration past every number", with_b(dur="1e999"), "a b c", NO_DURATION, durs_ns=[1000, 0, 1000]),
    kept("a duration of -1", with_b(dur="-1"), "a b c", {"chrome.negative_duration": 1}, durs_ns=[1000, 0, 1000]),
    kept(
        "a very negative duration",
        with_b(dur="-1e14"),
        "a b c",
        {"chrome.negative_duration": 1},
        durs_ns=[1000, 0, 1000],
    ),
    kept("a duration of 3 years", with_b(dur="1e14"), "a b c", {"chrome.absurd_duration": 1}, durs_ns=[1000, 0, 1000]),
    kept(
        "a duration of 30 days to the ns", trace(event("b", 3, "2592000000000")), "b", durs_ns=[2_592_000_000_000_000]
    ),
    kept(
        "a duration of 30 days and a ns",
        trace(event("b", 3, "2592000000000.001")),
        "b",
        {"chrome.absurd_duration": 1},
        durs_ns=[0],
    ),
)

# Another thread, process or category is another lane, and lanes stand one after the other.
PLACES: tuple[BadFile, ...] = (
    *(
        kept(f"{value} as a {key}", with_b(**{key: value}), "a c b", counted)
        for key in ("pid", "tid")
        for value, counted in (
            ("true", ODD),
            ("[7]", ODD),
            ('{"id": 7}', ODD),
            ("null", {}),
            ("-1", {}),
            ('"Spans"', {}),
            ('""', {}),
            ("1.5", {}),
            ("1e999", ODD),
            ("9007199254740993", {}),
            ("9" * 30, {}),
        )
    ),
    kept("a process of 5,000 digits", with_b(pid=MANY_DIGITS), "a c b", ODD),
    kept("no process and no thread", with_b(pid=None, tid=None), "a c b"),
    kept(
        "a thread as a float and as text is the same",
        trace(A, event("b", 3, tid="1.0"), event("c", 5, tid='"1"')),
        "a b c",
    ),
    kept("a number as a category", with_b(cat="5"), "a c b", ODD),
    kept("a list as a category", with_b(cat="[]"), "a c b", ODD),
    kept("null as a category", with_b(cat="null"), "a c b"),
    kept("no category", with_b(cat=None), "a c b"),
    kept("an unknown category", with_b(cat='"quantum"'), "a c b"),
)

NAMES: tuple[BadFile, ...] = (
    kept("a number as a name", with_b(name="5"), ["a", "5", "c"]),
    kept("null as a name", with_b(name="null"), ["a", "", "c"]),
    kept("an empty name", with_b(name='""'), ["a", "", "c"]),
    kept("no name", with_b(name=None), ["a", "", "c"]),
    kept("true as a name", with_b(name="true"), ["a", "", "c"], ODD),
    kept("an object as a name", with_b(name='{"x": 1}'), ["a", "", "c"], ODD),
    kept("a list as a name", with_b(name='["b"]'), ["a", "", "c"], ODD),
    kept("a number of 5,000 digits as a name", with_b(name=MANY_DIGITS), ["a", "", "c"], ODD),
    kept(
        "a name of a megabyte",
        with_b(name='"' + "b" * 1_000_000 + '"'),
        ["a", "b" * 9_999 + "…", "c"],
        {"chrome.long_text": 1},
        smallest_block=LARGE_TEXT >> 6,
    ),
    # An event of more than 8 MB (two blocks) is not waited for.
    kept(
        "a name of twenty megabytes",
        with_b(name='"' + "b" * 20_000_000 + '"'),
        "a c",
        {"json.lost": 1},
        smallest_block=LARGE_TEXT,
    ),
    kept("no phase", with_b(ph=None), "a c", NO_EVENT),
    kept("null as a phase", with_b(ph="null"), "a c", ODD | NO_EVENT),
    kept("a number as a phase", with_b(ph="5"), "a c", ODD | NO_EVENT),
    kept("a phase that nothing knows", with_b(ph='"Q"'), "a c", {"chrome.other_kind": 1}),
    *(
        kept(f"an event of phase {phase}", with_b(ph=f'"{phase}"', id="1"), "a c", {"chrome.other_kind": 1})
        for phase in "nNODTpPRcvVa("
    ),
    *(
        kept(f"a range that begins with {phase} and never ends", with_b(ph=f'"{phase}"', id="1"), "a c b", UNCLOSED)
        for phase in "bS"
    ),
    *(
        kept(f"a range that ends with {phase} and never began", with_b(ph=f'"{phase}"', id="1"), "a c", STRAY_END)
        for phase in "eF"
    ),
    kept("a phase that says nothing of its own", with_b(ph='"t"', id="1"), "a c"),
    kept("a key twice, of which the last counts", trace(A, B[:-1] + ', "name": "b2"}', C), "a b2 c"),
)

NO_VALUE = {"chrome.counter_value": 1}
# The second event of each is a counter.
COUNTERS: tuple[BadFile, ...] = (
    kept("a counter", counter(args='{"v": 1}'), "a c"),
    kept("a counter without arguments", counter(args=None), "a c", NO_VALUE),
    kept("a counter with null as its arguments", counter(args="null"), "a c", NO_VALUE),
    kept("a counter with a list of values", counter(args="[1, 2]"), "a c", ODD | NO_VALUE),
    kept("a counter with no values", counter(args="{}"), "a c", NO_VALUE),
    kept("a counter with one value of two", counter(args='{"v": 1, "w": null}'), "a c", NO_VALUE),
    *(
        kept(f"{value} as the value of a counter", counter(args=f'{{"v": {value}}}'), "a c", NO_VALUE)
        for value in ("null", "true", '"N/A"', '""', '"1 2"', "[3]", '{"x": 3}', "1e999", "-1e301", '"inf"', '"nan"')
    ),
    *(
        kept(f"{value} as the value of a counter", counter(args=f'{{"v": {value}}}'), "a c")
        for value in ('"1.5"', '" -3 "', "1e300", "-0.0", "99999999999999999999999")
    ),
    kept("NaN as the value of a counter", counter(args='{"v": NaN}'), "a c", {"json.not_a_number": 1} | NO_VALUE),
    kept("a counter without a time", counter(ts=None, args='{"v": 1}'), "a c", NO_TIME),
    kept("a counter 3 years after all events", counter(ts="1e14", args='{"v": 1}'), "a c", STRAY),
    kept("a counter with a list as its name", counter(name="[]", args='{"v": 1}'), "a c", ODD),
    kept("a counter with an object as its id", counter(id='{"x": 1}', args='{"v": 1}'), "a c", ODD),
    kept("a name of a counter of half a surrogate", counter(args='{"\\ud800": 1}'), "a c", {"json.bad_utf8": 1}),
    kept("a value of a counter nested too deeply", counter(args=f'{{"v": {"[" * 100 + "]" * 100}}}'), "a c", NO_VALUE),
    kept("a counter with 10,000 values", counter(args=json.dumps({f"{n}": n for n in range(10_000)})), "a c"),
    kept(
        "a counter with a name of a megabyte",
        counter(name='"' + "b" * 1_000_000 + '"', args='{"v": 1}'),
        "a c",
        {"chrome.long_text": 1},
        smallest_block=LARGE_TEXT >> 6,
    ),
)

ARGUMENTS: tuple[BadFile, ...] = (
    *(
        kept(
            f"{value} as the correlation of a kernel",
            with_b(cat='"kernel"', args=f'{{"correlation": {value}}}'),
            "a c b",
            counted,
        )
        for value, counted in (
            ("5.0", NO_LAUNCH),
            ('"5"', NO_LAUNCH),
            ('"N/A"', NO_LAUNCH),
            ("5.7", NO_LAUNCH | ODD),
            ('"0x5"', NO_LAUNCH | ODD),
            (f"{2**63}", NO_LAUNCH | ODD),
        )
    ),
    kept(
        "a device of too large a number",
        with_b(cat='"kernel"', args=f'{{"device": {2**31}}}'),
        "a c b",
        NO_LAUNCH | ODD,
    ),
    kept(
        "a copy of more bytes than there are",
        with_b(cat='"gpu_memcpy"', args=f'{{"bytes": {2**62}}}'),
        "a c b",
        NO_LAUNCH | ODD,
    ),
    kept(
        "a thousand copies of a petabyte, whose sum still fits",
        trace(*[event("m", n, cat='"gpu_memset"', args=f'{{"bytes": {2**50}}}') for n in range(1000)]),
        1000,
        {"chrome.no_launch": 1000},
        smallest_block=1000,
    ),
    kept(
        "so many petabytes that no sum holds them",
        trace(*[event("m", n, cat='"gpu_memset"', args=f'{{"bytes": {2**50}}}') for n in range(5000)], event("n", 1)),
        5001,
        {"chrome.no_launch": 5000, "chrome.odd_value": 5000},
        smallest_block=1000,
    ),
    kept(
        "so many months that no sum holds them",
        trace(*[event("m", 1, 29 * 24 * 3600e6, tid=f"{n}") for n in range(2000)], A),
        2001,
        {"chrome.absurd_duration": 2000},
        smallest_block=1000,
    ),
    kept("no arguments", with_b(args=None), "a b c"),
    kept("null as arguments", with_b(args="null"), "a b c"),
    kept("a list as arguments", with_b(args="[1]"), "a b c", ODD),
    kept("a text as arguments", with_b(args='"x"'), "a b c", ODD),
    kept("a number as arguments", with_b(args="5"), "a b c", ODD),
    kept("an argument of another kind", with_b(args='{"Sequence number": [1], "stream": 7}'), "a b c", ODD),
    kept(
        "two arguments of another kind",
        with_b(args='{"Sequence number": {}, "Fwd thread id": true}'),
        "a b c",
        {"chrome.odd_value": 2},
    ),
    kept(
        "a stream of another kind",
        with_b(cat='"kernel"', args='{"stream": [7]}'),
        "a c b",
        {**ODD, "chrome.no_launch": 1},
    ),
    kept("ids past int64", with_b(args='{"correlation": 99999999999999999999, "stream": -99999999999}'), "a b c"),
    kept("ids of 5,000 digits", with_b(args='{"Sequence number": ' + MANY_DIGITS + "}"), "a b c", ODD),
    kept("shapes of another kind", with_b(args='{"Input Dims": 5, "Input type": null}'), "a b c"),
    kept(
        "a list 100,000 deep as an argument",
        with_b(args='{"x": ' + "[" * DEEP + "]" * DEEP + "}"),
        "a b c",
        {"json.deep_nesting": 1},
        smallest_block=LARGE_TEXT,
    ),
    kept(
        "objects 100,000 deep as arguments",
        with_b(args='{"x": ' * DEEP + "1" + "}" * DEEP),
        "a b c",
        {"json.deep_nesting": 1},
        smallest_block=LARGE_TEXT,
    ),
    kept(
        "a name 100,000 lists deep",
        with_b(name="[" * DEEP + "]" * DEEP),
        ["a", "", "c"],
        ODD | {"json.deep_nesting": 1},
        smallest_block=LARGE_TEXT,
    ),
)

ENTRIES: tuple[BadFile, ...] = (
    kept("null among the events", trace(A, "null", B), "a b", NO_EVENT),
    kept("a number among the events", trace(A, "12.5", B), "a b", NO_EVENT),
    kept("a text among the events", trace(A, '"x, {}"', B), "a b", NO_EVENT),
    kept("a list among the events", trace(A, "[1, [2]]", B), "a b", NO_EVENT),
    kept("a list of events among the events", trace(A, f"[{B}, {C}]", B), "a b", NO_EVENT),
    kept("null first and last", trace("null", A, B, "null"), "a b", {"chrome.not_an_event": 2}),
    kept("nothing but null", trace("null", "null"), "", {"chrome.not_an_event": 2}),
    kept("an empty object", trace(A, "{}", B), "a b", NO_EVENT),
    kept(
        "a list 100,000 deep among the events",
        trace(A, "[" * DEEP + "]" * DEEP, B),
        "a b",
        NO_EVENT,
        smallest_block=LARGE_TEXT,
    ),
    refused(
        "a bare list of nothing but lists, 100,000 deep",
        b"[" * DEEP + b"]" * DEEP,
        "a JSON list without any event",
        smallest_block=LARGE_TEXT,
    ),
    kept(
        "an event of torch's autograd profiler",
        b'[{"name": "a", "ph": "X", "ts": 1.0, "dur": 1.0, "tid": 1, "pid": "CPU functions", "args": {}}]',
        "a",
        {"chrome.autograd_export": 1},
    ),
    refused("a bare list of numbers", b"[1, 2, 3]", "a JSON list without any event"),
    refused(
        "a bare list of objects",
        b'[{"a": 1, "b": [{"c": 2}]}, {"a": 3}]',
        'a JSON list of objects with the keys "a", "b" and without events',
    ),
    refused(
        "a list of events of which none is one",
        trace('{"time": 1, "what": "x"}', '{"time": 2}'),
        'a JSON list of objects with the keys "time", "what" and without events',
    ),
    refused("objects with names that no list shows", rb'[{"\u001b[31m": 1}]', "a JSON list of objects"),
    kept(
        "an event, and brackets and nothing else",
        trace(A)[:-2] + b"," + b"{" * 200_000,
        "a",
        GIVEN_UP,
        smallest_block=LARGE_TEXT,
    ),
)

AROUND: tuple[BadFile, ...] = (
    kept("no metadata and nothing but events", trace(A, B, before=""), "a b"),
    kept("null for the events", b'{"schemaVersion": 1, "traceEvents": null, "x": 1}', ""),
    refused("an object for the events", b'{"traceEvents": {"a": 1}}', 'without a list "traceEvents"'),
    refused("a text for the events", b'{"traceEvents": "none"}', 'without a list "traceEvents"'),
    refused("JSON without events", b'{"hello": 1}', 'without a list "traceEvents"'),
    refused("an empty object and nothing else", b"{}", 'without a list "traceEvents"'),
    kept("two lists of events", trace(A, after=', "traceEvents": [' + B + "]"), "a", {"json.second_list": 1}),
    kept("a second document", trace(A, B) + trace(C), "a b", {"json.second_list": 1}),
    kept("a second document on a line of its own", trace(A, B) + b"\n" + trace(C), "a b", {"json.second_list": 1}),
    kept("a second bare list", f"[{A}, {B}]\n[{C}]".encode(), "a b", {"json.second_list": 1}),
    kept("words behind the document", trace(A, B) + b" and so on", "a b", {"json.head": 1}),
    *(
        kept(f"{value} as the base time", trace(A, B, before=f'"baseTimeNanoseconds": {value}, '), "a b", counted)
        for value, counted in (
            ("null", {}),
            ("0", {}),
            ("1700000000000000000", {}),
            ('"1700000000000000000"', {}),
            ("1.7e18", {}),
            ('"soon"', ODD),
            ("1e300", ODD),
            ("[]", ODD),
            ("true", ODD),
            ("1e999", ODD),
        )
    ),
    kept("a base time of 5,000 digits", trace(A, B, before=f'"baseTimeNanoseconds": {MANY_DIGITS}, '), "a b", ODD),
    kept("a base time behind the events", trace(A, B, after=', "baseTimeNanoseconds": 5'), "a b"),
    kept("devices of another kind", trace(A, B, before='"deviceProperties": {"x": 1}, "distributedInfo": 7, '), "a b"),
)

FILES = TIMES + PLACES + NAMES + COUNTERS + ARGUMENTS + ENTRIES + AROUND
