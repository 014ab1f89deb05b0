"""Devices, pools, segments and blocks of a snapshot say how much is used, and what lies between."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_snapshots import Entry, at, entry, frame, segment, snapshot_of

import torchprof_magic as tp
from torchprof_magic.tables.snapshot.frames import blocks_table, pools_table, segments_table, snapshot_devices


def held(*blocks: Entry, **more: object) -> Entry:
    return segment(sum(block["size"] for block in blocks), *blocks) | more


USED = held(
    at(0, 60) | {"size": 64},
    at(64, 16, state="active_pending_free"),
    at(80, 20, state="inactive"),
    segment_type="small",
)
FREE = held(at(1000, 100, state="inactive"), segment_type="large")
PRIVATE = held(at(2000, 40), segment_pool_id=(3, 1), is_expandable=True, stream=7)


def test_a_device_says_what_is_reserved_used_free_and_fragmented() -> None:
    trace = snapshot_of(segments=(USED, FREE, PRIVATE))
    (row,) = snapshot_devices(trace).to_dicts()
    assert row["reserved_bytes"] == 240
    assert row["allocated_bytes"] == 104
    assert row["active_bytes"] == 120
    assert row["requested_bytes"] == 116
    assert row["inactive_bytes"] == 120
    assert row["inactive_split_bytes"] == 20  # the free segment can be given back
    assert row["largest_free_bytes"] == 100
    assert row["unused_ratio"] == pytest.approx(0.5)
    assert row["fragmentation_ratio"] == pytest.approx(1 / 6)
    assert row["private_pool_bytes"] == 40
    assert (row["segments"], row["blocks"]) == (3, 5)


def test_a_device_says_when_its_peak_was_and_what_was_reserved_then() -> None:
    trace = snapshot_of(
        entry("segment_alloc", 0, 50, 1),
        entry("alloc", 1, 40, 1),
        entry("free_completed", 2, 40, 1),
        entry("segment_alloc", 3, 20, 100),
        entry("oom", 4, 999, device_free=5),
        segments=(segment(50, at(1, 50, state="inactive")), segment(20, at(100, 20, state="inactive"))),
    )
    (row,) = snapshot_devices(trace).to_dicts()
    assert (row["start_bytes"], row["peak_bytes"], row["end_bytes"]) == (0, 40, 0)
    assert (row["peak_at_ns"], row["peak_reserved_bytes"], row["reserved_bytes"]) == (1000, 50, 70)
    assert row["out_of_memory"] == 1


def test_ratios_of_nothing_are_unknown() -> None:
    (row,) = snapshot_devices(snapshot_of(entry("alloc", 0, 5))).to_dicts()
    assert row["unused_ratio"] is None
    assert row["fragmentation_ratio"] is None


def test_private_pools_stand_after_the_default_one() -> None:
    rows = pools_table(snapshot_of(segments=(PRIVATE, USED, FREE)))
    assert rows.select("pool", "is_private", "reserved_bytes", "active_bytes", "segments").rows() == [
        ("0.0", False, 200, 80, 2),
        ("3.1", True, 40, 40, 1),
    ]


def test_a_segment_says_what_its_blocks_hold() -> None:
    empty = segment(30)
    rows = segments_table(snapshot_of(segments=(USED, FREE, PRIVATE, empty)))
    assert rows.select(
        "kind", "pool", "stream", "is_expandable", "active_bytes", "inactive_bytes", "blocks"
    ).rows() == [
        ("small", "0.0", 0, False, 80, 20, 3),
        ("large", "0.0", 0, False, 0, 100, 1),
        ("", "3.1", 7, True, 40, 0, 1),
        ("", "0.0", 0, False, 0, 0, 0),
    ]


def test_a_block_says_who_allocated_it_and_when() -> None:
    stack = [frame("/u/train.py", 3, "main")]
    blocks = (at(1, 5, *stack), at(2, 9, *stack), at(3, 7, state="inactive"))
    trace = snapshot_of(
        entry("alloc", 0, 1, 9),
        entry("alloc", 4, 9, 2, frames=stack),
        entry("alloc", 5, 7, 3, frames=stack),
        entry("free_completed", 6, 7, 3),
        segments=(segment(21, *blocks),),
    )
    rows = blocks_table(trace).select("address", "state", "allocated_at_ns", "line", "function", "device").rows()
    assert rows == [
        (1, "active_allocated", None, "/u/train.py:3", "main", "cuda:0"),
        (2, "active_allocated", 4000, "/u/train.py:3", "main", "cuda:0"),
        (3, "inactive", None, None, None, "cuda:0"),
    ]


def test_a_real_snapshot_has_the_segments_and_blocks_that_were_counted_independently(traces: Path) -> None:
    report = tp.load(traces / "09_snapshot_train_ctx128.pickle")
    (row,) = report.snapshot.devices.to_dicts()
    assert (row["segments"], row["blocks"]) == (377, 918)
    assert row["reserved_bytes"] == 7_235_174_400
    assert (row["active_bytes"], row["requested_bytes"]) == (6_816_891_392, 6_808_535_044)
    blocks = report.snapshot.blocks
    states = blocks["state"].cast(str)
    assert ((states == "active_allocated").sum(), (states == "inactive").sum()) == (885, 33)
    assert (blocks.filter(states != "inactive")["stack"].is_not_null()).sum() == 659
    assert report.snapshot.annotations["name"].to_list() == ["Optimizer.step#AdamW.step"]
    assert report.sql("SELECT count(*) AS n FROM blocks WHERE state = 'inactive'")["n"].to_list() == [33]
