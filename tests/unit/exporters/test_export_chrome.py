from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from amount import sampled
from chrome_validator import parse, validate
from polars.testing import assert_frame_equal
from support import PID, allocation, annotation, chrome, counter, frame, kernel, launch, make_trace, span

from torchprof_magic.exporters.chrome import write_chrome
from torchprof_magic.ingest import read_chrome
from torchprof_magic.loading import load
from torchprof_magic.model.trace import Trace

HOSTILE = (
    'quote " and \\ backslash',
    "line\nfeed, tab\t, NUL\0, escape\x1b[31m",
    "</script><img src=x onerror=alert(1)>",
    "\u2028\u2029 \u202eright to left",
    "模型 😀",
    "NaN",
    "",
    "{}{}{name}",
    "x" * 10_000,
)
SPILL = r" \(overlapping( \d+)?\)$| annotations$"


def exported(trace: Trace, folder: Path) -> bytes:
    return write_chrome(trace, folder / "trace.json").read_bytes()


def events_of(data: bytes, phase: str) -> list[dict[str, Any]]:
    return [event for event in parse(data)["traceEvents"] if event["ph"] == phase]


def canonical(trace: Trace) -> tuple[pl.DataFrame, np.ndarray]:
    """Return the events in an order that does not depend on tracks, and the place of each row in it."""
    lanes = trace.lanes.select(
        pl.concat_str("kind", pl.lit("|"), pl.col("name").str.strip_chars_end().str.replace(SPILL, "")).alias("at")
    ).with_row_index("lane")
    events = trace.events.with_row_index("row").join(
        lanes.with_columns(pl.col("lane").cast(pl.Int32)), on="lane", maintain_order="left"
    )
    events = events.with_columns(pl.col("name").cast(pl.String)).sort(
        "at", "start_ns", -pl.col("dur_ns"), "name", "depth"
    )
    place = np.full(events.height + 1, -1)
    place[events["row"].to_numpy()] = np.arange(events.height)
    parent = events.select(pl.when("overlaps").then(-1).otherwise("parent")).to_series()
    events = events.with_columns(pl.Series("parent", place[parent]))
    return events.drop("row", "lane", "depth", "overlaps", "stack", "cycle", "correlation"), place


def placed(frame: pl.DataFrame, place: np.ndarray, *columns: str) -> pl.DataFrame:
    return frame.with_columns(pl.Series(column, place[frame[column]]) for column in columns)


def assert_same_recording(left: Trace, right: Trace) -> None:
    """Compare everything that a Chrome trace can hold; an event on a spill track is at the top there."""
    (events, place), (again, place_again) = canonical(left), canonical(right)
    assert_frame_equal(events, again)
    order = ["kind", "source", "target"]
    assert_frame_equal(
        placed(left.flows, place, "source", "target").sort(order),
        placed(right.flows, place_again, "source", "target").sort(order),
    )
    assert_frame_equal(
        placed(left.memory, place, "event").drop("cycle"), placed(right.memory, place_again, "event").drop("cycle")
    )
    assert_frame_equal(left.steps.drop("cycle"), right.steps.drop("cycle"))
    assert left.meta.start_unix_ns == right.meta.start_unix_ns


def _replaced(trace: Trace, **frames: pl.DataFrame) -> Trace:
    return Trace(**{name: getattr(trace, name) for name in Trace.__dataclass_fields__} | frames)


def busy_trace() -> Trace:
    return make_trace(
        annotation("ProfilerStep#3", 0, 100),
        frame("train.py(3): step", 1, 90),
        span("aten::mm", 2, 30, **{"Input Dims": [[2, 3], []], "Input type": ["float", ""], "Sequence number": 4}),
        launch(4, 2, correlation=1),
        kernel("gemm", 20, 70, correlation=1),
        kernel("copy", 90, 5, correlation=1),
        span("MmBackward0", 50, 9, tid=2, **{"Sequence number": 4, "Fwd thread id": 1}),
        {"ph": "s", "cat": "fwdbwd", "id": 8, "pid": PID, "tid": 1, "ts": 2, "name": "fwdbwd"},
        {"ph": "f", "cat": "fwdbwd", "id": 8, "pid": PID, "tid": 2, "ts": 50, "name": "fwdbwd", "bp": "e"},
        allocation(12, 512, 512),
        allocation(13, -512, 2**40, device=1),
        allocation(99.5, 64, 64, tid=77),
        baseTimeNanoseconds=1_700_000_000_000_000_000,
        deviceProperties=[{"id": 0, "name": "H100"}],
        distributedInfo={"rank": 3, "world_size": 8},
        record_shapes=1,
    )


def test_an_exported_trace_is_valid_and_reads_back_as_the_same_recording(tmp_path: Path) -> None:
    trace = busy_trace()
    data = exported(trace, tmp_path)
    assert validate(data)["X"] == trace.events.height
    again = load(tmp_path / "trace.json").trace
    assert_same_recording(trace, again)
    assert (again.meta.rank, again.meta.world_size, again.meta.device_names) == (3, 8, ("H100",))
    assert again.meta.has_shapes
    assert again.events["correlation"].drop_nulls().to_list() == [1, 1, 1]


def test_times_are_written_exactly_with_three_decimals(tmp_path: Path) -> None:
    trace = make_trace(span("a", 0, 1), span("b", 1_000_000_000.001, 0.009))
    text = exported(trace, tmp_path).decode()
    assert '"ts": 1000000000.001, "dur": 0.009' in text
    assert '"ts": 0.000, "dur": 1.000' in text


def test_every_launch_has_an_arrow_of_its_own_from_call_to_kernel(tmp_path: Path) -> None:
    data = exported(busy_trace(), tmp_path)
    starts = [(event["cat"], event["id"], int(event["ts"])) for event in events_of(data, "s")]
    finishes = {(event["cat"], event["id"]): int(event["ts"]) for event in events_of(data, "f")}
    assert sorted((cat, at, finishes[cat, number]) for cat, number, at in starts) == [
        ("ac2g", 4, 20),
        ("ac2g", 4, 90),
        ("fwdbwd", 2, 50),
    ]


def test_an_arrow_directly_follows_its_event_so_that_viewers_attach_it_there(tmp_path: Path) -> None:
    events = parse(exported(busy_trace(), tmp_path))["traceEvents"]
    at = next(index for index, event in enumerate(events) if event["name"] == "gemm")
    assert (events[at + 1]["ph"], events[at + 1]["cat"]) == ("f", "ac2g")


def test_a_kernel_whose_clock_runs_ahead_of_its_launch_gets_no_arrow_into_the_past(tmp_path: Path) -> None:
    trace = make_trace(
        launch(50, 2, 1), kernel("early", 10, 5, 1), launch(60, 2, 2), kernel("around", 55, 9, 2), span("a", 0, 99)
    )
    data = exported(trace, tmp_path)
    assert validate(data)["s"] == 1
    assert [int(event["ts"]) for event in events_of(data, "f")] == [60]


def test_events_that_outlive_their_parent_move_to_a_spill_thread_with_their_children(tmp_path: Path) -> None:
    trace = make_trace(
        span("a", 0, 10), span("b", 5, 10), span("in b", 6, 1), span("c", 12, 10), span("d", 30, 5), span("e", 32, 9)
    )
    data = exported(trace, tmp_path)
    validate(data)
    name_of = {event["tid"]: event["args"]["name"] for event in events_of(data, "M") if event["name"] == "thread_name"}
    found = {event["name"]: name_of[event["tid"]] for event in events_of(data, "X")}
    first, second = "thread 1 (overlapping)", "thread 1 (overlapping 2)"
    # e begins after b has ended, so it finds the first spill thread free again.
    assert found == {"a": "thread 1", "d": "thread 1", "b": first, "in b": first, "c": second, "e": first}
    assert_same_recording(trace, load(tmp_path / "trace.json").trace)


def test_threads_streams_and_annotations_that_share_numbers_do_not_share_a_track(tmp_path: Path) -> None:
    on_device = {"pid": 0, "tid": 7}
    trace = make_trace(
        span("a", 0, 10) | on_device,
        kernel("k", 5, 10, 1, stream=7, device=0),
        span("ProfilerStep#1", 2, 6, cat="gpu_user_annotation") | on_device,
        span("odd", 4, 20, cat="somebody's own") | on_device,
        span("text", 0, 5) | {"pid": "Spans", "tid": "main"},
        span("negative", 0, 5) | {"pid": -1, "tid": 2**40},
    )
    data = exported(trace, tmp_path)
    assert validate(data)["X"] == 6
    assert len({(event["pid"], event["tid"]) for event in events_of(data, "X")}) == 6
    assert_same_recording(trace, load(tmp_path / "trace.json").trace)


def test_hostile_names_are_exported_unchanged(tmp_path: Path) -> None:
    spans = [span(name, 10 * at, 5) for at, name in enumerate(HOSTILE)]
    named = {"ph": "M", "name": "thread_name", "pid": PID, "tid": 1, "args": {"name": HOSTILE[0]}}
    trace = make_trace(*spans, named)
    data = exported(trace, tmp_path)
    validate(data)
    assert data.isascii()
    assert load(tmp_path / "trace.json").trace.events["name"].to_list() == list(HOSTILE)


def test_shapes_that_are_not_valid_json_become_text(tmp_path: Path) -> None:
    odd = make_trace(span("a", 0, 1, **{"Input Dims": [[1]]}), span("b", 2, 1))
    values = ['{"a": 1, "a": 2}', "[NaN]", '["\\ud800"]', "[[1"]
    for value in values:
        shapes = pl.Series("shapes", [value, None], dtype=pl.Categorical)
        data = exported(_replaced(odd, events=odd.events.with_columns(shapes)), tmp_path)
        validate(data)
        assert events_of(data, "X")[0]["args"] == {"Input Dims": value}


def test_cycles_go_into_one_file_and_equal_correlations_stay_apart(tmp_path: Path) -> None:
    first = chrome(annotation("ProfilerStep#1", 0, 50), launch(1, 2, 5), kernel("one", 10, 5, 5))
    second = chrome(annotation("ProfilerStep#9", 100, 50), launch(101, 2, 5), kernel("two", 110, 5, 5))
    trace = read_chrome([first, second])
    data = exported(trace, tmp_path)
    assert validate(data)["s"] == 2
    again = load(tmp_path / "trace.json").trace
    assert_same_recording(trace, again)
    assert again.steps["number"].to_list() == [1, 9]


def test_memory_keeps_its_device_totals_and_op(tmp_path: Path) -> None:
    kinds = {
        0: "cpu",
        1: "cuda:0",
        6: "hip:0",
        12: "xpu:0",
        13: "mps:0",
        15: "hpu:0",
        19: "mtia:0",
        20: "privateuse1:0",
    }
    rows = [allocation(at + 1, 8, 2**50 + at, device=device) for at, device in enumerate(kinds)]
    trace = make_trace(span("aten::empty", 0, 50), *rows, allocation(99, -8, device=55))
    assert trace.memory["device"].to_list() == [*kinds.values(), "device:0"]
    data = exported(trace, tmp_path)
    assert validate(data)["i"] == 9
    assert events_of(data, "i")[0]["args"] == {
        "Total Reserved": 0,
        "Total Allocated": 2**50,
        "Bytes": 8,
        "Addr": 4096,
        "Device Id": -1,
        "Device Type": 0,
    }
    assert_same_recording(trace, load(tmp_path / "trace.json").trace)


def test_times_before_the_start_move_the_base_of_the_file(tmp_path: Path) -> None:
    trace = make_trace(span("a", 0, 5), span("b", 10, 5))
    early = _replaced(trace, events=trace.events.with_columns(pl.col("start_ns") - 7))
    data = exported(early, tmp_path)
    validate(data)
    assert parse(data)["baseTimeNanoseconds"] == -7
    assert [float(event["ts"]) for event in events_of(data, "X")] == [0.0, 10.0]


def test_a_recording_without_events_is_a_valid_file(tmp_path: Path) -> None:
    assert validate(exported(make_trace(), tmp_path))["X"] == 0
    assert validate(exported(make_trace(allocation(3, 8)), tmp_path))["i"] == 1


def test_a_file_name_that_ends_in_gz_is_compressed(tmp_path: Path) -> None:
    path = write_chrome(busy_trace(), tmp_path / "trace.json.gz")
    assert validate(gzip.decompress(path.read_bytes()))["X"] == busy_trace().events.height
    assert json.loads(gzip.decompress(path.read_bytes()))["schemaVersion"] == 1


def random_trace(seed: int) -> Trace:
    """Return a trace of random intervals that nest, touch and overlap; no two of a thread are equal."""
    choose = random.Random(seed)  # noqa: S311 - no secret
    places = {(choose.choice([1, 1, 2]), choose.randrange(60), choose.choice([0, 0, 1, 3, 10, 30])) for _ in range(60)}
    events = [annotation("ProfilerStep#1", 0, 45, tid=3)]
    for number, (tid, start, dur) in enumerate(sorted(places)):
        makers = (
            span(f"op {number}", start, dur, tid=tid, **{"Sequence number": number}),
            launch(start, dur, number, tid=tid),
            kernel(f"kernel {number}", start, dur, choose.randrange(60), stream=choose.choice([1, 7])),
            allocation(start, 8, 8, tid=choose.choice([1, 2, 9])),
        )
        events.append(choose.choices(makers, weights=(5, 2, 2, 1))[0])
    return make_trace(*choose.sample(events, len(events)))


@pytest.mark.parametrize("seed", sampled(range(30)))
def test_overlapping_events_are_valid_after_export_and_read_back_unchanged(tmp_path: Path, seed: int) -> None:
    trace = random_trace(seed)
    validate(exported(trace, tmp_path))
    assert_same_recording(trace, load(tmp_path / "trace.json").trace)


def test_counters_are_written_as_torch_writes_them_and_read_back_the_same(tmp_path: Path) -> None:
    trace = make_trace(
        span("aten::mm", 100, 10),
        counter("Power (W)", 40.125, pid="GPU 0 Counters", **{"": 312.25}),
        counter("Cycles (Current Kernel)", 105, pid="GPU 1 Counters", **{"": 1e-300}),
        counter("heap_bytes", 106, value=2**53 + 2),
        counter("clock", 107, MHz=-0.5),
        counter("batches", 108, ready=3, waiting=0.1),
        *(counter(text, 109, value=1, other=2) for text in HOSTILE),
    )
    data = exported(trace, tmp_path)
    assert validate(data)["C"] == trace.counters.height == 6 + 2 * len(HOSTILE)
    first, second = events_of(data, "C")[:2]
    # The file begins with the first value, before the op.
    assert (first["name"], first["pid"], str(first["ts"])) == ("Power (W)", "GPU 0 Counters", "0.000")
    assert (second["name"], second["pid"]) == ("Cycles (Current Kernel)", "GPU 1 Counters")
    assert {event["name"]: event["pid"] for event in events_of(data, "C")}["clock (MHz)"] == "Counters"
    again = load(tmp_path / "trace.json").trace
    assert again.counters.equals(trace.counters)
    assert again.meta.start_unix_ns == trace.meta.start_unix_ns
    assert again.problems == ()


def test_a_trace_without_counters_has_none_after_export(tmp_path: Path) -> None:
    data = exported(make_trace(span("aten::mm", 0, 10)), tmp_path)
    assert b"Counters" not in data
    assert load(tmp_path / "trace.json").trace.counters.height == 0


def real_names(folder: Path) -> list[Path]:
    found = [*folder.glob("*.json.gz"), *(folder / "06_v100_dlrm_8ranks").glob("*.json.gz")]
    return sorted(path for path in found if "execution_trace" not in path.name)


def test_every_real_trace_comes_out_valid_and_reads_back_as_the_same(traces: Path, tmp_path: Path) -> None:
    paths = real_names(traces)
    assert len(paths) > 10
    for path in sampled(paths):
        trace = load(path).trace
        data = exported(trace, tmp_path)
        counts = validate(data)
        assert counts["X"] - trace.events.height in (0, 1), path.name  # one more is the profiler's own span
        assert counts["s"] == trace.flows.filter(pl.col("kind") != "annotation").height, path.name
        assert_same_recording(trace, load(tmp_path / "trace.json").trace)


@pytest.mark.parametrize(
    ("breach", "message"),
    [
        ('{"traceEvents": [{"ph": "M", "ph": "M"}]}', "stands twice"),
        ('{"traceEvents": [NaN]}', "no JSON"),
        ('{"traceEvents": [{"ph": "X", "name": "a", "cat": "c", "pid": 1, "tid": 1, "ts": 0}]}', "missing"),
    ],
)
def test_the_validator_refuses_files_that_break_a_rule(breach: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        validate(breach.encode())


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([span("a", 0, 10), span("b", 9.999, 10)], "partly overlaps"),
        ([span("a", 0, -1)], "ts"),
        ([span("a", 0, 1), {"ph": "s", "name": "n", "cat": "c", "id": 1, "pid": PID, "tid": 1, "ts": 0}], "only"),
    ],
)
def test_the_validator_refuses_overlaps_negative_durations_and_lone_arrows(events: list[Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        validate(chrome(*events))
