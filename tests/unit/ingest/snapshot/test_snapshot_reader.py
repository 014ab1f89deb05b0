"""A memory snapshot of torch becomes a curve, and notes on failed allocations and on memory in use."""

from __future__ import annotations

import gzip
import pickle
import random
import time
from pathlib import Path
from typing import Any

import pytest
from amount import sampled
from made_snapshots import BEGIN_US, MB, Entry, block, entry, frame, segment, snapshot

import torchprof_magic as tp
from torchprof_magic.ingest.snapshot import reader
from torchprof_magic.model.errors import IngestError, NotATraceError
from torchprof_magic.report.views import TABS


@pytest.fixture
def load(tmp_path: Path) -> Any:
    def loaded(value: object, protocol: int = 4) -> tp.Report:
        path = tmp_path / "snapshot.pickle"
        path.write_bytes(pickle.dumps(value, protocol))
        return tp.load(path)

    return loaded


def found(report: tp.Report, code: str) -> list[Any]:
    return [problem for problem in report.problems if problem.code == f"snapshot.{code}"]


def test_the_curve_ends_with_what_the_segments_hold_and_begins_with_what_was_there_before(load: Any) -> None:
    # 7 MB are in use at the end, and the history adds 8 - 8 + 3 of them, so it began with 4.
    history = [
        entry("segment_alloc", 0, 20 * MB),
        entry("alloc", 10, 8 * MB),  # 4 -> 12
        entry("free_requested", 20, 8 * MB),  # still held
        entry("free_completed", 30, 8 * MB),  # 12 -> 4
        entry("alloc", 40, 3 * MB),  # 4 -> 7
        entry("segment_free", 50, 6 * MB),
        entry("snapshot", 60, 0, 0),
    ]
    held = segment(24 * MB, block(3 * MB), block(4 * MB, "active_pending_free"), block(9 * MB, "inactive"))
    report = load(snapshot(history, segments=(held,)))
    rows = report.trace.memory.select("time_ns", "delta_bytes", "allocated_bytes", "reserved_bytes").rows()
    assert rows == [
        (0, 0, 4 * MB, 30 * MB),
        (10_000, 8 * MB, 12 * MB, 30 * MB),
        (30_000, -8 * MB, 4 * MB, 30 * MB),
        (40_000, 3 * MB, 7 * MB, 30 * MB),
        (50_000, 0, 7 * MB, 24 * MB),
    ]
    assert report.trace.memory["device"].unique().to_list() == ["cuda:0"]
    assert report.trace.meta.start_unix_ns == BEGIN_US * 1000
    assert report.events.height == 0


@pytest.mark.parametrize("seed", sampled(range(20)))
def test_the_curve_is_that_of_an_allocator_whose_history_keeps_only_the_newest_entries(load: Any, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same ones in every run
    in_use, held, address = {1: 700, 2: 90}, 2000, 2
    entries, levels = [], []
    for at_us in range(200):
        if in_use and chance.random() < 0.45:
            gone = chance.choice(list(in_use))
            entries += [entry(action, at_us, in_use[gone], gone) for action in ("free_requested", "free_completed")]
            del in_use[gone]
        elif chance.random() < 0.1:
            grown = chance.choice([-1, 1]) * chance.randrange(1, 100)
            action = chance.choice(["segment_alloc", "segment_map"] if grown > 0 else ["segment_free", "segment_unmap"])
            entries.append(entry(action, at_us, abs(grown)))
            held += grown
        else:
            address += 1
            in_use[address] = chance.randrange(1, 1000)
            entries.append(entry("alloc", at_us, in_use[address], address))
        levels.append((at_us * 1000, sum(in_use.values()), held))
    blocks = [block(size) for size in in_use.values()]
    newest = 1 + seed * 10
    kept = entries[-newest:]
    report = load(snapshot(kept, segments=(segment(held, *blocks),)))
    changes = [one for one in kept if one["action"] != "free_requested"]
    begin_us = changes[0]["time_us"]
    known = [
        (time - (begin_us - BEGIN_US) * 1000, *rest) for time, *rest in levels if time >= (begin_us - BEGIN_US) * 1000
    ]
    assert report.trace.memory.select("time_ns", "allocated_bytes", "reserved_bytes").rows() == known


def test_every_view_export_and_saved_copy_of_a_snapshot_can_be_made(load: Any, tmp_path: Path) -> None:
    report = load(snapshot([entry("alloc", 0, 5)], segments=(segment(9, block(5)),)))
    assert "peak 5 B on cuda:0" in str(report.verdict)
    assert set(report._analysis) == {view.name for view in TABS}
    assert "Memory on cuda:0: peak 5 B at 0 ns" in report.summary()
    assert '"memory"' in report._forms.page.header
    report.to_html(tmp_path / "page.html")
    report.figure("memory")
    for name in ("a.json", "a.speedscope.json", "a.collapsed", "a.csv"):
        assert report.export(tmp_path / name).exists()
    assert report.sql("SELECT max(total_bytes) AS peak FROM memory")["peak"].to_list() == [5]
    again = tp.load(report.save(tmp_path / "run.torchprof"))
    assert again.trace.memory.equals(report.trace.memory)
    assert again.problems == report.problems


def test_devices_are_kept_apart_and_share_one_clock(load: Any) -> None:
    value = snapshot(
        [entry("alloc", 5, 100)],
        [entry("alloc", 2, 30), entry("free_completed", 9, 30)],
        segments=(segment(500, block(100), device=0), segment(40, device=1), segment(70, block(6), device=2)),
    )
    rows = load(value).trace.memory.select("time_ns", "device", "allocated_bytes", "reserved_bytes").rows()
    # The third device has no history: one row, at the beginning, of what it held.
    assert sorted(rows) == [
        (0, "cuda:1", 30, 40),
        (0, "cuda:2", 6, 70),
        (3000, "cuda:0", 100, 500),
        (7000, "cuda:1", 0, 40),
    ]


def test_a_snapshot_of_another_accelerator_says_which(load: Any) -> None:
    value = snapshot([entry("alloc", 0, 1)], allocator_settings={"PYTORCH_XPU_ALLOC_CONF": ""})
    assert load(value).trace.memory["device"].to_list() == ["xpu:0"]


def test_out_of_memory_says_what_was_requested_by_which_line_and_what_was_free(load: Any) -> None:
    frames = [frame("??", 0, "unwind"), frame("/x/torch/nn/linear.py", 9, "forward"), frame("/u/train.py", 31, "step")]
    value = snapshot([entry("alloc", 0, 5), entry("oom", 3, 20 * MB, device_free=7 * MB, frames=frames)])
    (problem,) = found(load(value), "out_of_memory")
    assert problem.severity == "warning"
    assert problem.message == (
        "Out of memory on cuda:0: train.py:31 step requested 19.1 MiB while the device had 6.68 MiB free."
    )


def test_a_device_that_never_got_any_memory_still_says_so(load: Any) -> None:
    report = load(snapshot([entry("oom", 3, 20 * MB, device_free=0)]))
    assert "requested 19.1 MiB while the device had 0 B free" in found(report, "out_of_memory")[0].message
    assert report.trace.memory.height == 0


def test_what_is_in_use_at_the_end_is_named_by_the_line_of_the_users_code(load: Any) -> None:
    library = frame("/site-packages/torch/optim/adam.py", 5, "step")
    held = segment(
        99,
        block(30, "active_allocated", frame("a.cpp", 1, "x"), library, frame("C:\\code\\train.py", 7, "main")),
        block(40, "active_allocated", frame("/code/train.py", 7, "main")),
        block(20, "active_allocated", library),
        block(10),
        block(5, "active_allocated", frame("??", 0, "at::empty")),
        block(900, "inactive", frame("/code/other.py", 1, "x")),
    )
    (problem,) = found(load(snapshot([entry("alloc", 0, 5)], segments=(held,))), "in_use")
    assert problem.count == 5
    assert problem.message == (
        "In use on cuda:0 at the end: 105 B, allocated 70 B by train.py:7 main (2 blocks), 20 B by adam.py:5 step "
        "(1 block), 10 B by code that ran before the history was recorded (1 block), and the rest by 1 other place."
    )


def test_ranges_of_steps_become_the_steps(load: Any) -> None:
    def mark(stage: str, name: str, at_us: int) -> Entry:
        return {"stage": stage, "name": name, "device": 0, "time_us": BEGIN_US + at_us}

    marks = [
        mark("START", "ProfilerStep#3", 0),
        mark("START", "Optimizer.step#SGD.step", 2),
        mark("END", "Optimizer.step#SGD.step", 4),
        mark("END", "ProfilerStep#3", 10),
        mark("START", "ProfilerStep#4", 12),
        mark("START", "body", 15),
    ]
    report = load(snapshot([entry("alloc", 1, 5)], external_annotations=marks))
    assert report.trace.steps.select("number", "start_ns", "end_ns", "complete").rows() == [
        (3, 0, 10_000, True),
        (4, 12_000, 15_000, False),
    ]
    assert report.trace.memory["time_ns"].to_list() == [1000]
    labels = [mark.label for mark in report._analysis["memory"].marks]
    assert "step 3" in labels
    assert report.summary()


def test_a_snapshot_without_a_history_shows_what_was_in_use_and_says_so(load: Any) -> None:
    report = load(snapshot([], segments=(segment(9, block(5)),)))
    assert report.trace.memory.select("allocated_bytes", "reserved_bytes").rows() == [(5, 9)]
    assert len(found(report, "no_history")) == 1


def test_a_snapshot_of_an_old_torch_has_no_times_and_is_shown_in_order(load: Any) -> None:
    history = [entry("alloc", 0, 5), entry("alloc", 0, 7)]
    for one in history:
        del one["time_us"]
    report = load(snapshot(history))
    assert report.trace.memory.select("time_ns", "allocated_bytes").rows() == [(0, 5), (1000, 12)]
    assert len(found(report, "no_times")) == 1


def test_invalid_entries_are_left_out_and_counted(load: Any) -> None:
    bad = [
        entry("alloc", 0, -5),
        entry("alloc", 0, 2**60),
        entry("alloc", 0, 1) | {"size": "1"},
        entry("alloc", 0, 1) | {"size": True},
        entry("alloc", 0, 1) | {"time_us": None},
        entry("alloc", 0, 1) | {"time_us": -1},
    ]
    report = load(snapshot([entry("alloc", 0, 5), *bad, {}, entry("no such action", 1, 5)]))
    assert report.trace.memory["allocated_bytes"].to_list() == [5]
    assert found(report, "damaged_entries")[0].count == 7


def test_memory_never_falls_below_zero_despite_too_many_releases(load: Any) -> None:
    report = load(snapshot([entry("free_completed", 0, 50), entry("alloc", 1, 20)]))
    assert report.trace.memory["allocated_bytes"].to_list() == [0, 20]


@pytest.mark.parametrize("value", [{}, [], {"a": 1}, 5, "text", None, {"state_dict": {}}, [{"segments": []}]], ids=repr)
def test_a_pickle_of_something_else_is_distinguished_from_a_snapshot(load: Any, value: object) -> None:
    with pytest.raises(NotATraceError, match="not a memory snapshot of torch"):
        load(value)


@pytest.mark.parametrize(
    "value",
    [
        {"segments": None, "device_traces": None},
        {"segments": 5, "device_traces": "x"},
        {"segments": [5, None], "device_traces": [5, None, [5, None]]},
        {"segments": [{"blocks": 5}, {"device": "x"}, {"device": 10**9}, {"device": -1}], "device_traces": []},
        {"segments": [{"blocks": [{"frames": 5, "size": None}, {"frames": [5, {"filename": 5}]}]}]},
        {"device_traces": [[{"action": [], "size": 1, "time_us": 1}]]},
        {"device_traces": [[{"action": "oom", "size": 1, "time_us": 1, "device_free": "x", "frames": 5}]]},
        {"device_traces": [[{"action": "alloc", "size": 1, "time_us": 1, "addr": -1}]], "external_annotations": 5},
        {"device_traces": [], "external_annotations": [5, {"time_us": "x"}, {"time_us": 1, "name": 5}]},
        {"device_traces": [], "allocator_settings": 5},
    ],
    ids=str,
)
def test_values_of_a_wrong_type_never_stop_the_reading(load: Any, value: object) -> None:
    report = load(value)
    assert report.summary()
    assert report.problems is not None


def test_sizes_that_would_overflow_are_refused(load: Any) -> None:
    with pytest.raises(IngestError, match="impossible sizes"):
        load(snapshot([entry("alloc", 0, 2**52)] * 2048))


def test_a_list_that_is_referenced_a_thousand_times_is_refused(load: Any) -> None:
    shared = [entry("alloc", 0, 1)] * 1000
    with pytest.raises(IngestError, match="refers to the same entries again and again"):
        load({"segments": [], "device_traces": [shared] * 1000})


def test_a_snapshot_that_runs_a_command_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "evil.pickle"
    path.write_bytes(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.")
    with pytest.raises(IngestError, match=r"evil\.pickle: this pickle contains more than plain values \(STACK_GLOBAL"):
        tp.load(path)


def test_a_snapshot_that_is_too_large_names_another_viewer(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_FILE_BYTES", 10)
    with pytest.raises(IngestError, match="memory_viz"):
        load(snapshot([]))


def test_a_packed_snapshot_says_how_it_can_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle.gz"
    path.write_bytes(gzip.compress(pickle.dumps(snapshot([]), 4)))
    with pytest.raises(NotATraceError, match="unpack it"):
        tp.load(path)


def test_a_real_snapshot_has_the_numbers_that_were_computed_independently(traces: Path) -> None:
    report = tp.load(traces / "09_snapshot_train_ctx128.pickle")
    memory = report.trace.memory
    level = memory["allocated_bytes"]
    assert memory.height == 6526 + 6305  # allocations and completed releases
    assert level[0] - memory["delta_bytes"][0] == 5_095_321_600
    assert level.max() == 7_013_335_044
    assert memory["time_ns"][level.arg_max() or 0] == 105_068_000
    assert level[-1] == 6_808_535_044
    assert memory["reserved_bytes"].unique().to_list() == [7_235_174_400]
    assert found(report, "in_use")[0].count == 885


def nested_twice(levels: int) -> list[Any]:
    """A list of which a naive text has 2 ** levels words, and which takes a few bytes a level in a pickle."""
    value: list[Any] = ["x"]
    for _ in range(levels):
        value = [value, value]
    return value


SHARED_FRAMES = [frame("/site-packages/torch/nn/module.py", 1, "f")] * 30_000
LONG_PATH = "a" * 1_000_000 + "/torch/x.py"
LONG_PATHS = [frame(LONG_PATH, line, "f") for line in range(20_000)]
WIDE = {"action": "alloc", "size": 1, "frames": []} | {f"key{number}": 0 for number in range(20_000)}
DOUBLING = nested_twice(26)


def in_use(*blocks: Entry) -> Entry:
    return snapshot([], segments=(segment(1, *blocks),))


SMALL_FILES_WITH_MUCH_WORK = {
    "many devices and many segments": snapshot(*([[]] * 120), segments=tuple([segment(1)] * 400_000)),
    "one long stack of many blocks": in_use(*[block(1) | {"frames": SHARED_FRAMES}] * 30_000),
    "one long path in many frames": in_use(block(1, "active", *LONG_PATHS)),
    "one wide entry many times, without times": snapshot([WIDE] * 30_000),
    "a name that doubles with each level": in_use(block(1, "active", frame("a.py", 1, DOUBLING))),
    "a mark that doubles with each level": snapshot([], external_annotations=[{"name": DOUBLING, "time_us": 1}]),
}


@pytest.mark.parametrize("what", SMALL_FILES_WITH_MUCH_WORK)
def test_the_work_grows_with_the_file_however_much_its_parts_are_shared(load: Any, what: str) -> None:
    began = time.process_time()
    load(SMALL_FILES_WITH_MUCH_WORK[what])
    assert time.process_time() - began < 4


@pytest.mark.parametrize(
    "value",
    [
        snapshot(*([[entry("alloc", 0, 1)] * 10_000] * 100)),
        snapshot(segments=(segment(1, *[block(1)] * 10_000),) * 100_000),
        snapshot(*([[]] * 20_000), segments=tuple([segment(1)] * 20_000)),
    ],
    ids=["traces", "blocks", "devices"],
)
def test_a_snapshot_that_refers_to_the_same_lists_again_and_again_is_refused_at_once(load: Any, value: object) -> None:
    began = time.process_time()
    with pytest.raises(IngestError, match=r"again and again|more devices than any machine"):
        load(value)
    assert time.process_time() - began < 4
