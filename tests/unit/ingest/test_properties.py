"""What holds for every trace, tried on random ones; the same ones in every run."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from amount import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import PID

from torchprof_magic.facts.ops.calls import rows_among
from torchprof_magic.ingest import read_chrome
from torchprof_magic.ingest.json import blocks
from torchprof_magic.ingest.json.repair import MAX_DEPTH, Repairer
from torchprof_magic.model.errors import IngestError
from torchprof_magic.model.intervals import own_time, union_ns
from torchprof_magic.model.trace import Trace

ROWS = ("name", "lane", "start_ns", "dur_ns", "parent", "depth", "overlaps")


def tried(count: int) -> settings:
    return settings(
        max_examples=examples(count),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


class Span(NamedTuple):
    """An op in ns; ops of the same times have the same name, so that their order in the file cannot matter."""

    tid: int
    start_ns: int
    dur_ns: int

    @property
    def event(self) -> dict[str, Any]:
        name = f"op{(self.start_ns * 7 + self.dur_ns) % 5}"
        times = {"ts": self.start_ns / 1000, "dur": self.dur_ns / 1000}
        return {"ph": "X", "cat": "cpu_op", "name": name, "pid": PID, "tid": self.tid, **times, "args": {}}


def nested(tid: int, moves: list[tuple[int, bool]]) -> list[Span]:
    """Return calls in one another: with each move some ns pass, and then a call begins or the innermost one ends."""
    now, begun, spans = 0, [], []
    for passed_ns, is_call in [*moves, *[(1, False)] * len(moves)]:
        now += passed_ns
        if is_call:
            begun.append(now)
        elif begun:
            start = begun.pop()
            spans.append(Span(tid, start, now - start))
    return spans


def threads_of(make: st.SearchStrategy[list[Any]]) -> st.SearchStrategy[list[Any]]:
    return st.lists(make, min_size=1, max_size=3)


MOVES = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30)
# No time passes often, so that calls begin together, last no time, or touch.
NESTED = threads_of(MOVES).map(
    lambda threads: [span for tid, moves in enumerate(threads, 1) for span in nested(tid, moves)]
)
ANY = st.lists(st.builds(Span, st.integers(1, 3), st.integers(0, 12), st.integers(0, 8)), max_size=25)


def text_of(spans: list[Span]) -> bytes:
    return json.dumps({"schemaVersion": 1, "traceEvents": [span.event for span in spans], "traceName": "x"}).encode()


def read(content: bytes) -> Trace:
    return read_chrome([content])


def outcome(content: bytes) -> tuple[object, ...]:
    try:
        trace = read(content)
    except IngestError as error:
        return type(error), str(error)
    lanes = trace.lanes.select("pid", "tid", "kind").rows()
    return trace.events.select(ROWS).rows(), lanes, {problem.code: problem.count for problem in trace.problems}


def in_blocks(content: bytes, size: int) -> tuple[object, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", size)
        patch.setattr(blocks, "_PACKED_BYTES", size)
        return outcome(content)


@tried(300)
@given(st.one_of(NESTED, ANY))
def test_children_lie_inside_their_parents_on_the_same_thread(spans: list[Span]) -> None:
    events = read(text_of(spans)).events
    parent = events["parent"].to_numpy()
    child = np.flatnonzero(parent >= 0)
    above = parent[child]
    start, end = events["start_ns"].to_numpy(), (events["start_ns"] + events["dur_ns"]).to_numpy()
    assert events.height == len(spans)
    assert (above < child).all()
    assert (events["lane"].to_numpy()[above] == events["lane"].to_numpy()[child]).all()
    assert (start[above] <= start[child]).all()
    assert (end[child] <= end[above]).all()
    assert (events["depth"].to_numpy()[child] == events["depth"].to_numpy()[above] + 1).all()


@tried(300)
@given(NESTED)
def test_self_times_of_a_thread_add_up_to_the_time_under_its_outermost_calls(spans: list[Span]) -> None:
    trace = read(text_of(spans))
    ops = rows_among(trace, ("cpu_op",))
    lane = trace.events["lane"].to_numpy()
    own_ns = pl.DataFrame({"lane": lane[ops.row], "self": ops.self_cpu_ns}).group_by("lane").agg(pl.col("self").sum())
    for number, self_ns in own_ns.rows():
        roots = trace.events.filter((pl.col("lane") == number) & (pl.col("parent") == -1))
        start = roots["start_ns"].to_numpy()
        assert self_ns == union_ns(start, start + roots["dur_ns"].to_numpy())
    assert not trace.events["overlaps"].any()


@tried(200)
@given(ANY)
def test_self_time_of_a_call_is_never_negative_even_if_calls_overlap(spans: list[Span]) -> None:
    events = read(text_of(spans)).events
    columns = (events[name].to_numpy().astype(np.int64) for name in ("parent", "start_ns", "dur_ns"))
    own_ns = own_time(*columns, events["overlaps"].to_numpy())
    assert (own_ns >= 0).all()
    assert (own_ns <= events["dur_ns"].to_numpy()).all()


@tried(200)
@given(st.one_of(NESTED, ANY), st.integers(0, 2**32))
def test_the_order_of_events_in_the_file_changes_nothing(spans: list[Span], seed: int) -> None:
    shuffled = random.Random(seed).sample(spans, len(spans))  # noqa: S311 - a test's own disorder
    assert outcome(text_of(shuffled)) == outcome(text_of(spans))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Return a small trace with a few bytes cut out, doubled, replaced or put in."""
    text = text_of(draw(NESTED))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        end = at + draw(st.one_of(st.integers(0, 3), st.integers(0, 150)))
        new = draw(
            st.sampled_from([b"", text[at:end] * 2, b'"', b"\\", b"}", b"]", b"{", b"[", b",", b"\0", b"\xff", b"NaN"])
        )
        text = text[:at] + new + text[end:]
    return text


@tried(300)
@given(damaged(), st.integers(64, 3000))
def test_damaged_files_read_the_same_in_blocks_of_any_size(content: bytes, size: int) -> None:
    assert in_blocks(content, size) == outcome(content)


@tried(100)
@given(st.one_of(damaged(), NESTED.map(text_of)))
def test_gzip_changes_nothing(content: bytes) -> None:
    assert outcome(gzip.compress(content)) == outcome(content)


@tried(150)
@given(damaged(), st.integers(0, 10**6), st.integers(64, 3000))
def test_damaged_gzip_reads_the_same_in_blocks_of_any_size(content: bytes, place: int, size: int) -> None:
    packed = bytearray(gzip.compress(content))
    at = place % len(packed)
    packed[at] ^= 0x55
    assert in_blocks(bytes(packed), size) == outcome(bytes(packed))


TEXT = st.one_of(st.text(max_size=20), st.text('\\"{}[]:, abn\n\t/é😀', max_size=12))
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXT)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(TEXT, inner, max_size=5)),
    max_leaves=25,
)


@tried(400)
@given(
    VALUES, st.booleans(), st.sampled_from([None, 0, 2]), st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t: ")])
)
def test_the_repairer_leaves_good_json_as_it_is(
    value: object, is_ascii: bool, indent: int | None, separators: tuple[str, str]
) -> None:
    text = json.dumps({"value": value}, ensure_ascii=is_ascii, indent=indent, separators=separators).encode()
    repairer = Repairer(text, 0, len(text))
    assert json.loads(repairer.value()) == {"value": value}
    assert (+repairer.counts, repairer.at, repairer.is_cut, repairer.is_broken) == ({}, len(text), False, False)


@tried(50)
@given(st.integers(1, 3 * MAX_DEPTH))
def test_the_repairer_leaves_out_what_is_nested_too_deep_and_nothing_else(depth: int) -> None:
    text = b'{"x": ' + b"[" * depth + b"]" * depth + b', "y": 1}'
    repairer = Repairer(text, 0, len(text))
    assert json.loads(repairer.value())["y"] == 1
    assert repairer.counts["json.deep_nesting"] == (depth + 1 > MAX_DEPTH)
