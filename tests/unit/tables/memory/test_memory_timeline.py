"""The memory timeline has the actions and the order of torch, and adds up to the curve."""

from __future__ import annotations

import pytest
from support import allocation, make_trace, span

from torchprof_magic.facts.memory.levels import memory_levels
from torchprof_magic.model.memory_categories import TORCH_NUMBERS, TORCH_ORDER
from torchprof_magic.model.trace import MEMORY_CATEGORIES, Trace
from torchprof_magic.tables.memory.memory_timeline import category_curve, recorded_changes, timeline_device, timeline_of


def at(at_us: float, delta: int, address: int | None, total: int | None = None, device: int = 0) -> dict[str, object]:
    event = allocation(at_us, delta, total, device=device)
    event["args"]["Addr"] = address
    if address is None:
        del event["args"]["Addr"]
    return event


def rows(trace: Trace, device: str = "cpu") -> list[tuple[int, ...]]:
    timeline = timeline_of(recorded_changes(trace, device), device, 10**12)
    return list(zip(*(column.tolist() for column in timeline[1:4]), strict=True))


def test_blocks_are_created_and_destroyed_in_order_of_time_and_what_was_there_before_comes_first() -> None:
    trace = make_trace(at(1, 100, 1), at(2, -30, 2), at(3, -100, 1), at(3, 50, 3), span("a", 0, 9))
    assert rows(trace) == [
        (-1, 1, 30),
        (10**12 + 1000, 2, 100),
        (10**12 + 2000, 4, -30),
        (10**12 + 3000, 2, 50),
        (10**12 + 3000, 4, -100),
    ]


def test_what_the_allocator_counts_beyond_the_recorded_blocks_was_there_before() -> None:
    trace = make_trace(at(1, 100, 1, 1100, 1), at(2, -100, 1, 1000, 1), span("a", 0, 9))
    assert rows(trace, "cuda:0")[0] == (-1, 1, 1000)


def test_what_the_first_record_releases_was_there_before_once() -> None:
    trace = make_trace(at(1, -30, 2), at(2, 100, 1), span("a", 0, 9))
    assert rows(trace) == [(-1, 1, 30), (10**12 + 1000, 4, -30), (10**12 + 2000, 2, 100)]


def test_records_without_addresses_add_up_as_well() -> None:
    trace = make_trace(at(1, 100, None), at(2, -30, None), at(3, -70, None), span("a", 0, 9))
    assert sum(size for _, _, size in rows(trace)) == memory_levels(trace).total[-1]


def test_the_curve_has_whole_microseconds_and_a_column_a_category() -> None:
    trace = make_trace(at(1, 100, 1), at(1.5, 20, 4), at(2, -30, 2), span("a", 0, 9))
    timeline = timeline_of(recorded_changes(trace, "cpu"), "cpu", 10**12)
    times, sizes = category_curve(timeline)
    assert times == [10**9 + 1, 10**9 + 1, 10**9 + 2]
    assert [sum(row) for row in sizes] == [30, 150, 120]
    assert {len(row) for row in sizes} == {len(TORCH_ORDER) + 1}


def test_every_category_has_a_number_of_torch() -> None:
    assert set(TORCH_NUMBERS) == set(MEMORY_CATEGORIES)


def test_a_device_without_memory_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no memory of 'cuda:3' was recorded; choose from cpu"):
        timeline_device(make_trace(at(1, 100, 1)), "cuda:3")
    with pytest.raises(ValueError, match="memory was not recorded; add --memory"):
        timeline_device(make_trace(span("a", 0, 1)), None)
    accelerator = allocation(2, 5, 5, device=1)
    assert timeline_device(make_trace(at(1, 100, 1), accelerator), None) == "cuda:0"
