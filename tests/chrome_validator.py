"""A validator of Chrome traces, written from the rules of the format without code of the package.

Rules: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, and of JSON: RFC 8259.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from decimal import Decimal
from typing import Any

REQUIRED = {
    "X": ("name", "cat", "pid", "tid", "ts", "dur"),
    "i": ("name", "pid", "tid", "ts", "s"),
    "M": ("name", "pid", "args"),
    "C": ("name", "pid", "tid", "ts", "args"),
    "s": ("name", "cat", "id", "pid", "tid", "ts"),
    "f": ("name", "cat", "id", "pid", "tid", "ts", "bp"),
}
METADATA = {
    "process_name": ("name", str),
    "process_labels": ("labels", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}
COUNTER_PROCESS = re.compile(r"(GPU -?\d+ )?Counters")
MAX_NUMBER = 2**31 - 1  # viewers keep process and thread numbers in 32 bits
Lane = tuple[int, int]


def validate(data: bytes) -> Counter[str]:
    """Return the number of events per phase of a valid trace; raise AssertionError at the first violation."""
    events = parse(data)["traceEvents"]
    for event in events:
        check_fields(event)
    slices: dict[Lane, list[tuple[Decimal, Decimal, str]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"], event["name"]))
    for lane, spans in slices.items():
        check_nesting(lane, spans)
    check_flows([event for event in events if event["ph"] in "sf"], slices)
    return Counter(event["ph"] for event in events)


def parse(data: bytes) -> dict[str, Any]:
    """Return the document with exact decimals; only JSON that every parser accepts is allowed."""
    text = data.decode("utf-8", "strict")
    document = json.loads(
        text, parse_float=Decimal, parse_constant=refuse_constant, object_pairs_hook=refuse_duplicates, strict=True
    )
    json.dumps(document, ensure_ascii=False, default=str).encode("utf-8", "strict")  # fails on a lone surrogate
    assert isinstance(document, dict), "the object form was expected"
    assert isinstance(document["traceEvents"], list)
    return document


def refuse_constant(constant: str) -> float:
    raise AssertionError(f"{constant} is no JSON")


def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), f"a key stands twice in {keys}"
    return dict(pairs)


def is_number(value: object) -> bool:
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


def check_fields(event: dict[str, Any]) -> None:
    assert event["ph"] in REQUIRED, f"phase {event['ph']!r} is not written by this package"
    missing = [field for field in REQUIRED[event["ph"]] if field not in event]
    assert not missing, f"{missing} missing in {event}"
    assert isinstance(event["name"], str), event
    for field in ("pid", "tid"):
        number = event.get(field, 0)
        if field == "pid" and number in counter_processes(event):
            continue
        assert type(number) is int, event
        assert 0 <= number <= MAX_NUMBER, event
    for field in ("ts", "dur"):
        assert is_number(event.get(field, 0)), event
        assert event.get(field, 0) >= 0, event
    assert isinstance(event.get("args", {}), dict), event
    if event["ph"] == "M":
        key, kind = METADATA[event["name"]]
        assert isinstance(event["args"][key], kind), event
    if event["ph"] == "C":
        assert all(is_number(value) for value in event["args"].values()), event
        assert event["pid"] in counter_processes(event), event
    if event["ph"] == "f":
        assert event["bp"] == "e", event


def counter_processes(event: dict[str, Any]) -> tuple[object, ...]:
    """Counters are in processes that are named by their id, as torch writes them; only those may be texts."""
    is_theirs = event["ph"] == "C" or event["name"] == "process_sort_index"
    is_named = is_theirs and isinstance(event["pid"], str) and bool(COUNTER_PROCESS.fullmatch(event["pid"]))
    return (event["pid"],) if is_named else ()


def check_nesting(lane: Lane, spans: list[tuple[Decimal, Decimal, str]]) -> None:
    """On one thread, two events are nested or disjoint."""
    open_spans: list[tuple[Decimal, Decimal, str]] = []
    for start, end, name in sorted(spans, key=lambda span: (span[0], -span[1])):
        while open_spans and open_spans[-1][1] <= start:
            open_spans.pop()
        if open_spans:
            assert end <= open_spans[-1][1], f"on {lane} {name!r} partly overlaps {open_spans[-1][2]!r}"
        open_spans.append((start, end, name))


def check_flows(ends: list[dict[str, Any]], slices: dict[Lane, list[tuple[Decimal, Decimal, str]]]) -> None:
    """An arrow has one start and one end, in this order, each within an event of its thread."""
    pairs: dict[tuple[str, Any], dict[str, dict[str, Any]]] = defaultdict(dict)
    for end in ends:
        pair = pairs[end["cat"], end["id"]]
        assert end["ph"] not in pair, f"arrow {end['cat']} {end['id']} has two {end['ph']}"
        pair[end["ph"]] = end
    sorted_slices = {lane: sorted(spans) for lane, spans in slices.items()}
    for key, pair in pairs.items():
        assert set(pair) == {"s", "f"}, f"arrow {key} has only {sorted(pair)}"
        assert pair["s"]["ts"] <= pair["f"]["ts"], f"arrow {key} goes back in time"
    for lane, spans in sorted_slices.items():
        times = sorted(end["ts"] for end in ends if (end["pid"], end["tid"]) == lane)
        check_covered(lane, spans, times)
    assert all((end["pid"], end["tid"]) in slices for end in ends), "an arrow ends on a thread without events"


def check_covered(lane: Lane, spans: list[tuple[Decimal, Decimal, str]], times: list[Decimal]) -> None:
    """Every time is inside a span. Both are sorted and spans are nested, so the largest end so far is enough."""
    reach, at = Decimal(-1), 0
    for time in times:
        while at < len(spans) and spans[at][0] <= time:
            reach = max(reach, spans[at][1])
            at += 1
        assert time <= reach, f"on {lane} an arrow at {time} has no event around it"
