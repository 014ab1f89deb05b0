from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from support import allocation, annotation, make_trace, span

from torchprof_magic.facts.time_range import TimeRange
from torchprof_magic.model.trace import FRAME_SCHEMAS, MEMORY_CATEGORIES, TAGS_SCHEMA, Trace
from torchprof_magic.tables.memory.block_table import allocations_table, allocations_view
from torchprof_magic.tables.memory.in_use import memory_frame, memory_series
from torchprof_magic.tables.memory.leaks import leaks_table
from torchprof_magic.tables.memory.memory_at import BEFORE, memory_at

SIZES = [f"{name}_bytes" for name in MEMORY_CATEGORIES]


def change(at_us: float, address: int, delta: int, total: int | None = None, device: int = 0) -> dict[str, Any]:
    event = allocation(at_us, delta, total, device=device)
    event["args"]["Addr"] = address
    return event


def tagged(trace: Trace, *tags: tuple[float, str, int, int, str | None], device: str = "cpu") -> Trace:
    """Tag addresses: time in us, category, address, bytes and name."""
    rows = [
        (int(us * 1000), category, device, address, size, name, "[2]", "float32", 0)
        for us, category, address, size, name in tags
    ]
    return replace(trace, tags=pl.DataFrame(rows, schema=TAGS_SCHEMA, orient="row"))


def blocks(trace: Trace) -> list[tuple[Any, ...]]:
    """Size, times in us, and category."""
    frame = allocations_table(trace).frame
    rows = frame.select("size_bytes", "allocated_at_ns", "freed_at_ns", "category").rows()
    return [(size, *(None if ns is None else ns // 1000 for ns in times), category) for size, *times, category in rows]


def bands(trace: Trace) -> list[dict[str, int]]:
    """What is not 0 in each row, by category."""
    frame = memory_frame(trace)
    assert frame.select(pl.sum_horizontal(SIZES).alias("total_bytes")).equals(frame.select("total_bytes"))
    return [
        {name: row[f"{name}_bytes"] for name in MEMORY_CATEGORIES if row[f"{name}_bytes"]} for row in frame.to_dicts()
    ]


def test_an_allocation_and_the_next_release_at_its_address_are_one_block() -> None:
    trace = make_trace(change(0, 8, 100), change(1, 16, 50), change(2, 8, -100), change(3, 8, 30), change(4, 16, -50))
    assert blocks(trace) == [(100, 0, 2, "unknown"), (50, 1, 4, "unknown"), (30, 3, None, "unknown")]


def test_a_block_belongs_to_the_part_in_which_it_was_allocated() -> None:
    trace = make_trace(change(0, 8, 100), change(1, 16, 50), change(2, 8, -100), change(3, 8, 30), change(4, 24, -70))
    # The last one releases a block from before the recording, which is in no part.
    assert allocations_table(trace).frame["size_bytes"].to_list() == [70, 100, 50, 30]
    parts = TimeRange(-1, 1_000), TimeRange(1_000, 3_001)
    found = [allocations_table(trace, part).frame.select("size_bytes", "freed_at_ns").rows() for part in parts]
    assert found == [[(100, 2_000)], [(50, None), (30, None)]]
    assert allocations_view(trace, parts[0]).frame.height == 1


def test_the_same_address_on_two_devices_is_two_blocks() -> None:
    trace = make_trace(change(0, 8, 100), change(1, 8, 50, device=1), change(2, 8, -100))
    assert blocks(trace) == [(100, 0, 2, "unknown"), (50, 1, None, "unknown")]


def test_a_release_without_an_allocation_is_a_block_from_before_the_recording() -> None:
    trace = make_trace(change(0, 8, 100), change(2, 16, -70))
    assert blocks(trace) == [(70, None, 2, "unknown"), (100, 0, None, "unknown")]
    assert memory_frame(trace)["total_bytes"].to_list() == [170, 100]


def test_a_block_whose_release_is_missing_ends_when_its_address_is_used_again() -> None:
    assert blocks(make_trace(change(0, 8, 100), change(3, 8, 40)))[0] == (100, 0, 3, "unknown")


@pytest.mark.parametrize("is_reversed", [False, True])
def test_rows_are_paired_in_order_of_time_whatever_their_order_in_the_file(is_reversed: bool) -> None:
    rows = [change(0, 8, 100), change(2, 8, -100), change(3, 8, 30)]
    trace = make_trace(*(reversed(rows) if is_reversed else rows))
    assert blocks(trace) == [(100, 0, 2, "unknown"), (30, 3, None, "unknown")]


def test_the_bytes_of_all_blocks_add_up_to_the_curve() -> None:
    trace = make_trace(change(0, 8, 100), change(1, 16, 50), change(2, 8, -100), change(4, 24, -20), change(5, 24, 5))
    frame = allocations_table(trace).frame
    for time, total in memory_frame(trace).select("time_ns", "total_bytes").rows():
        is_born = pl.col("allocated_at_ns").is_null() | (pl.col("allocated_at_ns") <= time)
        is_kept = pl.col("freed_at_ns").is_null() | (pl.col("freed_at_ns") > time)
        assert frame.filter(is_born & is_kept)["size_bytes"].sum() == total


def test_a_tag_inside_the_life_of_a_block_says_what_it_is_for_and_a_later_one_does_not() -> None:
    trace = make_trace(change(0, 8, 100), change(5, 8, -100), change(6, 8, 100))
    trace = tagged(trace, (3, "gradient", 8, 100, "w"))
    assert [row[-1] for row in blocks(trace)] == ["gradient", "unknown"]


def test_the_strongest_of_several_tags_counts() -> None:
    trace = tagged(make_trace(change(0, 8, 100)), (1, "input", 8, 100, None), (2, "parameter", 8, 100, "w"))
    assert allocations_table(trace).frame.select("category", "name").rows() == [("parameter", "w")]


def test_tagged_tensors_from_before_the_recording_are_where_the_curve_of_the_cpu_starts() -> None:
    # The file's own total of 1000 also counts what earlier recordings left behind.
    trace = make_trace(change(1, 8, 100, total=1000), change(2, 8, -100, total=900))
    trace = tagged(trace, (0, "parameter", 64, 500, "w"), (3, "parameter", 64, 500, "w"))
    assert bands(trace) == [{"parameter": 500, "unknown": 100}, {"parameter": 500}]


def test_on_a_device_the_total_of_the_allocator_stays_and_tags_divide_it() -> None:
    trace = make_trace(change(1, 8, 512, total=4096, device=1), change(2, 8, -512, total=3584, device=1))
    trace = tagged(trace, (0, "parameter", 64, 1000, "w"), device="cuda:0")
    assert bands(trace) == [{"parameter": 1024, "unknown": 3072}, {"parameter": 1024, "unknown": 2560}]


def test_categories_never_exceed_a_total_that_is_too_low() -> None:
    trace = make_trace(change(1, 8, 512, total=512, device=1))
    trace = tagged(trace, (0, "parameter", 64, 1000, "w"), (0.5, "input", 128, 100, None), device="cuda:0")
    assert bands(trace) == [{"parameter": 512}]


def test_a_gradient_from_before_is_gone_when_its_parameter_has_another_one() -> None:
    trace = make_trace(change(1, 8, 100), change(2, 16, 40))
    trace = tagged(trace, (0, "gradient", 64, 40, "w"), (3, "gradient", 16, 40, "w"))
    assert bands(trace) == [{"gradient": 40, "unknown": 100}, {"gradient": 40, "unknown": 100}]


def test_tags_of_one_cycle_say_nothing_about_another_one() -> None:
    trace = make_trace(change(1, 8, 100))
    other = tagged(trace, (2, "parameter", 8, 100, "w")).tags.with_columns(pl.lit(1, pl.Int32).alias("cycle"))
    assert blocks(replace(trace, tags=other)) == [(100, 0, None, "unknown")]


def step_of(number: int, *, is_kept: bool) -> list[dict[str, Any]]:
    start = 100 * number
    kept = [change(start + 20, 1000 + number, 10)] if is_kept else []
    return [
        annotation(f"ProfilerStep#{number}", start, 90),
        span("aten::clone", start + 10, 20),
        change(start + 15, 8, 100),
        change(start + 40, 8, -100),
        *kept,
    ]


def test_what_nearly_every_step_leaves_behind_is_a_leak() -> None:
    trace = make_trace(*(event for number in range(5) for event in step_of(number, is_kept=number != 2)))
    found = leaks_table(trace).frame
    assert found.select("op", "size_bytes", "bytes_per_step", "blocks", "steps").rows() == [
        ("aten::clone", 40, 8, 4, 4)
    ]
    assert found["addresses"].to_list() == [[1000, 1001, 1003, 1004]]


@pytest.mark.parametrize("kept", [(4,), (0, 1), (0, 1, 4)])
def test_what_only_some_steps_leave_behind_is_none(kept: tuple[int, ...]) -> None:
    trace = make_trace(*(event for number in range(5) for event in step_of(number, is_kept=number in kept)))
    assert leaks_table(trace).frame.height == 0


def test_two_steps_are_too_few_to_tell() -> None:
    trace = make_trace(*(event for number in range(2) for event in step_of(number, is_kept=True)))
    assert leaks_table(trace).frame.height == 0


def test_at_the_peak_everything_in_use_is_listed_with_its_age() -> None:
    trace = make_trace(change(0, 8, 100), change(1, 16, 50), change(2, 8, -100))
    found = memory_at(trace, "peak").frame
    assert found.select("size_bytes", "age_ns", "lifetime_ns").rows() == [(100, 1000, 2000), (50, 0, None)]


def test_at_any_moment_the_sizes_add_up_and_the_rest_from_before_has_a_row() -> None:
    first = span("aten::mm", 0, 0.5)
    trace = make_trace(first, change(1, 8, 100, total=600, device=1), change(4, 8, -100, total=500, device=1))
    for us, sizes in ((0, [500]), (1, [100, 500]), (3, [100, 500]), (9, [500])):
        found = memory_at(trace, us * 1000).frame
        assert found["size_bytes"].to_list() == sizes  # what nobody can name is last, however large it is
        assert found["name"][-1] == BEFORE


def test_the_accelerator_with_the_highest_peak_is_shown_before_the_cpu() -> None:
    trace = make_trace(change(0, 8, 10**6), change(1, 8, 100, total=100, device=1))
    assert memory_at(trace, "peak").frame["device"].unique().to_list() == ["cuda:0"]
    assert memory_at(trace, "peak", "cpu").frame["size_bytes"].to_list() == [10**6]


def test_an_unknown_device_or_moment_is_refused_with_what_there_is() -> None:
    trace = make_trace(change(0, 8, 100))
    with pytest.raises(ValueError, match="choose from cpu"):
        memory_at(trace, "peak", "cuda:7")
    with pytest.raises(ValueError, match="'peak' or a time"):
        memory_at(trace, "top")


def test_a_recording_without_memory_has_empty_frames_with_all_columns() -> None:
    trace = make_trace(span("aten::mm", 0, 5))
    frames = (
        memory_frame(trace),
        allocations_table(trace).frame,
        memory_at(trace, "peak").frame,
        leaks_table(trace).frame,
    )
    assert [frame.height for frame in frames] == [0, 0, 0, 0]
    assert all(frame.width > 5 for frame in frames)


def test_the_series_stacks_the_categories_that_occur() -> None:
    series = memory_series(tagged(make_trace(change(0, 8, 100)), (1, "parameter", 8, 100, "w")))
    assert [band.name for band in series.stacked] == ["parameter_bytes"]
    assert [band.name for band in series.bands] == ["allocated_bytes"]


def live(trace: Trace, *storages: tuple[int, int, bool, float | None]) -> Trace:
    """A run that knows its older storages: address, bytes, whether they are in use at the end, and when they went."""
    rows = [
        (address, size, True, stays, None if gone is None else int(gone * 1000), 0)
        for address, size, stays, gone in storages
    ]
    frame = pl.DataFrame(rows, schema=FRAME_SCHEMAS["storages"], orient="row")
    return replace(trace, storages=frame, meta=replace(trace.meta, knows_storages=True))


def begun(*events: dict[str, Any]) -> Trace:
    """A trace whose clock begins at 0."""
    return make_trace(span("a", 0, 0.5), *events)


def curve(trace: Trace) -> list[tuple[int, int]]:
    """Time in us and total."""
    return [(ns // 1000, total) for ns, total in memory_frame(trace).select("time_ns", "total_bytes").rows()]


def test_the_curve_of_the_host_starts_with_the_live_storages_and_not_with_a_total_of_torch() -> None:
    trace = live(begun(change(1, 8, 100, total=9100), change(5, 8, -100, total=9000)), (64, 500, True, None))
    assert curve(trace) == [(1, 600), (5, 500)]
    found = memory_at(trace, "peak").frame.select("size_bytes", "name", "address").rows()
    assert found == [(100, None, 8), (500, BEFORE, 64)]


def test_a_release_that_torch_does_not_record_is_in_the_curve_at_its_time() -> None:
    trace = live(begun(change(1, 8, 100), change(5, 8, -100)), (64, 500, False, 3), (72, 20, False, 2))
    assert curve(trace) == [(1, 620), (2, 600), (3, 100), (5, 0)]
    assert blocks(trace)[:2] == [(500, None, 3, "unknown"), (20, None, 2, "unknown")]
    held = [memory_at(trace, us * 1000).frame["size_bytes"].sum() for us in (0, 1, 2, 3, 4, 5)]
    assert held == [520, 620, 600, 100, 100, 0]


def test_releases_before_the_first_record_and_after_the_last_are_in_the_curve() -> None:
    trace = live(begun(change(2, 8, 100)), (64, 500, False, 1), (72, 20, False, 9))
    assert curve(trace) == [(1, 20), (2, 120), (9, 100)]
    assert blocks(trace) == [(500, None, 1, "unknown"), (20, None, 9, "unknown"), (100, 2, None, "unknown")]


def test_the_size_of_a_live_storage_counts_and_not_that_of_an_earlier_block_in_the_table_of_torch() -> None:
    trace = live(begun(change(1, 8, 100), change(4, 64, -9000)), (64, 500, False, 4))
    assert curve(trace) == [(1, 600), (4, 100)]
    assert blocks(trace)[0] == (500, None, 4, "unknown")


def test_an_older_storage_is_gone_when_its_address_is_used_again_whatever_the_clock_says() -> None:
    trace = live(begun(change(1, 8, 100), change(4, 64, 30)), (64, 500, False, 6), (72, 20, False, None))
    assert curve(trace) == [(1, 620), (4, 120), (4, 150)]


def test_each_cycle_has_the_older_storages_of_its_own() -> None:
    trace = live(begun(change(1, 8, 100), change(5, 16, 50)), (64, 500, True, None))
    second = trace.storages.with_columns(pl.lit(700, pl.Int64).alias("bytes"), pl.lit(1).cast(pl.Int32).alias("cycle"))
    cycles = pl.Series("cycle", [0, 1], dtype=pl.Int32)
    trace = replace(trace, memory=trace.memory.with_columns(cycles), storages=pl.concat([trace.storages, second]))
    assert curve(trace) == [(1, 600), (5, 750)]


def test_the_level_before_a_record_without_an_address_is_known() -> None:
    event = change(2, 8, 40)
    del event["args"]["Addr"]
    trace = live(begun(event, change(4, 8, 100)), (64, 500, False, 1), (72, 20, True, None))
    assert curve(trace) == [(1, 20), (2, 60), (4, 160)]


def test_a_tag_of_an_older_storage_says_what_it_is_for() -> None:
    trace = live(begun(change(1, 8, 100)), (64, 500, True, None), (72, 20, True, None))
    trace = tagged(trace, (0, "parameter", 64, 500, "w"))
    assert bands(trace) == [{"parameter": 500, "unknown": 120}]


def names(trace: Trace) -> list[tuple[Any, ...]]:
    return allocations_table(trace).frame.select("category", "name").rows()


def test_a_tag_that_only_names_a_tensor_says_nothing_of_its_category() -> None:
    trace = make_trace(span("aten::mm", 0, 4), change(1, 8, 100))
    assert names(trace) == [("activation", None)]
    assert names(tagged(trace, (5, "unknown", 8, 100, "logits"))) == [("activation", "logits")]


def test_of_several_variables_the_last_names_a_tensor_and_a_parameter_is_called_by_its_path() -> None:
    trace = make_trace(change(0, 8, 100), change(1, 16, 40))
    seen = [(2, "unknown", 8, 100, "out"), (3, "unknown", 8, 100, None), (4, "unknown", 8, 100, "logits")]
    paths = [(2, "parameter", 16, 40, "head.weight"), (4, "unknown", 16, 40, "weight")]
    assert names(tagged(trace, *seen, *paths)) == [("unknown", "logits"), ("parameter", "head.weight")]


def test_an_input_is_called_by_its_variable() -> None:
    trace = make_trace(change(0, 8, 100))
    assert names(tagged(trace, (1, "input", 8, 100, None), (2, "unknown", 8, 100, "x"))) == [("input", "x")]


def test_the_name_of_an_older_tensor_is_that_of_its_variable() -> None:
    trace = live(begun(change(1, 8, 100)), (64, 500, True, None))
    found = memory_at(tagged(trace, (0, "unknown", 64, 500, "data")), "peak").frame
    assert found.select("size_bytes", "name").rows() == [(500, "data"), (100, None)]


def test_a_name_alone_makes_no_block_of_a_tensor_that_is_in_no_storage() -> None:
    assert names(tagged(make_trace(change(1, 8, 100)), (0, "unknown", 64, 500, "data"))) == [("unknown", None)]


def test_the_op_of_a_block_is_not_one_that_only_allocates_for_another() -> None:
    ops = span("aten::randn", 0, 9), span("aten::empty", 1, 3), span("aten::empty", 20, 5)
    trace = make_trace(*ops, change(2, 8, 100), change(22, 16, 40))
    assert allocations_table(trace).frame["op"].to_list() == ["aten::randn", "aten::empty"]
