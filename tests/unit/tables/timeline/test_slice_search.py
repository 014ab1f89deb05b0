"""Searching timelines that are too long for a page."""

from __future__ import annotations

from typing import Any

import pytest
from made_slices import ALL, CALLS, OPS, STEPS, STREAM, THREAD, WAITS, Made, make_slices

from torchprof_magic.tables.timeline.slice_search import Search, find_slices
from torchprof_magic.tables.timeline.slice_windows import SliceWindows

SLICES = make_slices(
    Made(STEPS, 0, 1000, "Step 1"),
    Made(THREAD, 100, 50, "aten::mm"),
    Made(THREAD, 300, 10, "aten::add_"),
    Made(THREAD, 400, 10, "train.py: mm", depth=-1, inner=0),
    Made(CALLS, 110, 5, "cudaLaunchKernel"),
    Made(WAITS, 0, 200, "aten::mm", note="launching ops\ttrain.py:3"),
    Made(WAITS, 200, 30, "", note="Python"),
    Made(WAITS, 500, 40, "", note="Python"),
    Made(STREAM, 230, 270, "GEMM_128x64"),
    Made(STREAM, 540, 20, "gemm_64"),
    has_python=True,
)


def found(text: str, **more: Any) -> list[int]:
    return find_slices(SliceWindows(SLICES), Search(layer=OPS, text=text, **more)).tolist()


def test_names_are_found_by_a_part_of_them_without_regard_to_case_in_order_of_time() -> None:
    assert found("gemm") == [8, 9]
    assert found(" AdD ") == [2]


def test_a_regular_expression_stands_between_slashes() -> None:
    assert found("/gemm_(64|32)$/") == [9]
    assert found("/^gemm/") == [8, 9]


@pytest.mark.parametrize("text", ["/gemm(/", "/(?=gemm)/"])
def test_an_expression_that_is_not_finished_or_not_supported_matches_nothing(text: str) -> None:
    assert found(text) == []


def test_only_slices_of_the_shown_layer_are_found() -> None:
    assert 3 not in found("train.py: mm")
    assert find_slices(SliceWindows(SLICES), Search(layer=ALL, text="train.py: mm")).tolist() == [3]


def test_steps_are_not_searched() -> None:
    assert found("step") == []


def test_a_gap_is_one_wait_named_by_its_longest_part() -> None:
    assert found("", is_wait=True) == [5, 7]
    # Of the first gap, 200 of 230 ns are for launching ops, and 30 for Python.
    assert found("python", is_wait=True) == [6, 7]
    assert found("launching", is_wait=True) == [5]
    assert found("train.py:3", is_wait=True) == [5]


def test_a_name_also_finds_what_the_host_did_while_the_device_waited() -> None:
    assert found("aten::mm") == [5, 1]


def test_durations_are_those_of_whole_gaps() -> None:
    assert found("", is_wait=True, least_ns=201) == [5]
    assert found("", is_wait=True, most_ns=100) == [7]
    assert found("gemm", least_ns=100) == [8]
    assert found("gemm", most_ns=100) == [9]


def test_an_empty_text_finds_all_of_some_duration() -> None:
    assert found("", least_ns=250) == [8]


def test_nothing_is_found_in_a_recording_without_devices() -> None:
    only_threads = SliceWindows(make_slices(Made(THREAD, 0, 5, "mm")))
    assert find_slices(only_threads, Search(layer=OPS, text="mm")).tolist() == [0]
    assert find_slices(only_threads, Search(layer=OPS, text="", is_wait=True)).tolist() == []
