"""The parts of a snapshot are frames, whatever the version of torch left out."""

from __future__ import annotations

import pytest
from made_snapshots import BEGIN_US, Entry, entry, segment, snapshot_of

from torchprof_magic.model.errors import IngestError


def mark(stage: str, name: str, at_us: int, device: int = 0) -> Entry:
    return {"stage": stage, "name": name, "device": device, "time_us": BEGIN_US + at_us}


def test_ranges_of_one_name_end_from_the_inside_out_and_may_lack_an_end() -> None:
    marks = [
        mark("END", "older", 1),
        mark("START", "a", 2),
        mark("START", "a", 3),
        mark("END", "a", 4),
        mark("END", "a", 5),
        mark("START", "b", 6),
        mark("START", "c", 7, device=1),
        mark("END", "c", 8),
    ]
    rows = snapshot_of(entry("alloc", 0, 1), external_annotations=marks).annotations.rows()
    assert rows == [
        ("older", "cuda:0", None, 1000),
        ("a", "cuda:0", 2000, 5000),
        ("a", "cuda:0", 3000, 4000),
        ("b", "cuda:0", 6000, None),
        ("c", "cuda:1", 7000, None),
        ("c", "cuda:0", None, 8000),
    ]


def test_an_entry_keeps_what_the_program_and_the_compiler_said_about_it() -> None:
    history = snapshot_of(
        entry("alloc", 0, 1, user_metadata="layer 3", compile_context="0/0", pool_id=(1, 2)),
        entry("alloc", 1, 1, user_metadata="", compile_context="N/A", pool_id="x"),
        entry("oom", 2, 9, device_free=7),
        entry("a new action", 3, 9),
    ).history
    assert history.select("user_metadata", "compile_context", "pool").rows() == [
        ("layer 3", "0/0", "1.2"),
        *[(None, None, None)] * 3,
    ]
    assert history["device_free_bytes"].to_list() == [None, None, 7, None]
    assert history["action"].to_list() == ["alloc", "alloc", "oom", "other"]


def test_blocks_without_an_address_follow_one_another() -> None:
    blocks = [{"size": 10, "state": "active_allocated"}, {"size": 5, "state": "inactive"}, {"size": 1}]
    found = snapshot_of(segments=(segment(16, *blocks) | {"address": 100},)).blocks
    assert found.select("address", "size_bytes", "requested_bytes").rows() == [(100, 10, 10), (110, 5, 5), (115, 1, 1)]


@pytest.mark.parametrize("state", ["active_pending_free", "active_awaiting_free"])
def test_both_names_of_a_block_that_waits_for_a_stream_are_known(state: str) -> None:
    found = snapshot_of(segments=(segment(9, {"size": 9, "state": state}),)).blocks
    assert found["state"].to_list() == ["active_pending_free"]


def test_free_blocks_of_impossible_sizes_are_refused() -> None:
    many = [{"size": 2**52, "state": "inactive"}] * 2048
    with pytest.raises(IngestError, match="impossible sizes"):
        snapshot_of(segments=(segment(1, *many),))
