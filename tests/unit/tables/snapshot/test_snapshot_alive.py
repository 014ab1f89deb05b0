"""The peak of a snapshot is explained block by block, from its history."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_snapshots import at, entry, frame, random_history, segment, snapshot, snapshot_of

import torchprof_magic as tp
from torchprof_magic.facts.memory.alive import alive_at, held_at
from torchprof_magic.ingest.snapshot.reader import snapshot_trace
from torchprof_magic.model.meta import Meta
from torchprof_magic.tables.snapshot.memory_snapshot import Snapshot

OWN = [frame("/site-packages/torch/nn/linear.py", 9, "forward"), frame("/u/train.py", 31, "step")]


def test_the_peak_holds_what_was_allocated_before_and_after_and_is_freed_later() -> None:
    trace = snapshot_of(
        entry("alloc", 0, 30, 4096, frames=OWN),
        entry("free_completed", 10, 100, 8192),  # from before the history
        entry("alloc", 20, 50, 12288),
        entry("free_completed", 30, 30, 4096),
        segments=(segment(999, at(12288, 50), at(16384, 7)),),
    )
    peak = alive_at(trace)
    columns = ("size_bytes", "allocated_at_ns", "freed_at_ns", "line", "function", "address")
    assert peak.select(columns).rows() == [
        (100, None, 10_000, None, None, 8192),
        (30, 0, 30_000, "/u/train.py:31", "step", 4096),
        (7, None, None, None, None, 16384),
    ]
    assert peak["device"].to_list() == ["cuda:0"] * 3
    assert peak["category"].to_list() == [None] * 3


@pytest.mark.parametrize("seed", range(10))
def test_the_blocks_at_every_time_add_up_to_the_curve(seed: int) -> None:
    entries, _, blocks = random_history(seed)
    trace = snapshot_of(*entries[-100:], segments=(segment(10**6, *blocks),))
    assert alive_at(trace)["size_bytes"].sum() == trace.memory["allocated_bytes"].max()
    assert alive_at(trace, "end")["size_bytes"].sum() == trace.memory["allocated_bytes"][-1]
    for time_ns, level in trace.memory.select("time_ns", "allocated_bytes").rows()[::7]:
        assert alive_at(trace, time_ns)["size_bytes"].sum() == level


def test_each_device_has_a_peak_of_its_own() -> None:
    value = snapshot(
        [entry("alloc", 0, 5, 1), entry("free_completed", 1, 5, 1)],
        [entry("alloc", 0, 2, 1), entry("alloc", 9, 4, 2)],
    )
    trace = snapshot_trace(value, Meta(), most_entries=99)
    peak = alive_at(trace)
    assert peak.select("device", "size_bytes").rows() == [("cuda:0", 5), ("cuda:1", 4), ("cuda:1", 2)]
    assert alive_at(trace, device="cuda:1")["size_bytes"].to_list() == [4, 2]
    assert held_at(trace, "peak")["device"].unique().to_list() == ["cuda:1"]


def test_an_unknown_device_or_moment_is_refused_with_the_known_ones() -> None:
    trace = snapshot_of(entry("alloc", 0, 5))
    with pytest.raises(ValueError, match="no snapshot of 'cuda:7'; there is one of: cuda:0"):
        alive_at(trace, device="cuda:7")
    with pytest.raises(ValueError, match="at must be 'peak', 'end' or a time in ns"):
        alive_at(trace, "begin")  # type: ignore[arg-type]


def test_who_allocated_is_summed_up_by_line() -> None:
    blocks = [at(1, 5, *OWN), at(2, 6, *OWN), at(3, 20)]
    trace = snapshot_of(entry("alloc", 0, 5, 1, frames=OWN), segments=(segment(99, *blocks),))
    rows = Snapshot(trace=trace).by_line("end").rows()
    assert rows == [("cuda:0", None, None, 20, 1), ("cuda:0", "/u/train.py:31", "step", 11, 2)]


def test_memory_at_of_a_snapshot_has_its_lines_and_adds_up(tmp_path: Path) -> None:
    trace = snapshot_of(
        entry("alloc", 0, 30, 4096, frames=OWN),
        entry("free_completed", 5, 30, 4096),
        segments=(segment(99, at(8192, 8)),),
    )
    report = tp.load(tp.Report(trace).save(tmp_path / "run.torchprof"))
    rows = report.memory_at().select("size_bytes", "file", "line", "age_ns", "lifetime_ns", "category").rows()
    assert rows == [(30, "/u/train.py", 31, 0, 5000, "unknown"), (8, None, None, None, None, "unknown")]
    assert report.memory_at(5000)["size_bytes"].sum() == 8


def test_a_report_without_a_snapshot_has_empty_frames() -> None:
    report = tp.Report(snapshot_of())
    assert report.snapshot.peak.height == report.snapshot.devices.height == report.snapshot.blocks.height == 0
    assert report.snapshot.flame().frame["name"].to_list() in ([], ["all"])


def test_the_peak_of_a_real_snapshot_has_the_numbers_that_were_computed_independently(traces: Path) -> None:
    found = tp.load(traces / "09_snapshot_train_ctx128.pickle").snapshot
    assert found.history.height == 19_136
    (device,) = found.devices.to_dicts()
    assert (device["start_bytes"], device["peak_bytes"], device["end_bytes"]) == (
        5_095_321_600,
        7_013_335_044,
        6_808_535_044,
    )
    assert device["peak_at_ns"] == 105_068_000
    assert found.history["time_ns"][9_966] == 105_068_000
    assert found.peak["size_bytes"].sum() == 7_013_335_044
    before = found.alive(-1).filter(found.alive(-1)["freed_at_ns"].is_not_null())
    assert (before.height, before["size_bytes"].sum()) == (438, 3_385_466_880)
    gradients = found.by_line().filter(found.by_line()["function"] == "AccumulateGrad")
    assert gradients.select("size_bytes", "blocks").row(0) == (1_651_572_736, 169)
    assert found.flame().frame["total_bytes"][0] == 7_013_335_044
