"""The kernels, copies and fills that keep the device busy."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from amount import sampled
from support import Event, annotation, kernel, launch, make_trace, span

from torchprof_magic.tables.ops.kernels import kernels_table


def work(category: str, name: str, start_us: float, dur_us: float, **args: Any) -> Event:
    place = {"correlation": 0, "stream": 7, "device": 0} | args
    return span(name, start_us, dur_us, cat=category, **place) | {"pid": place["device"], "tid": place["stream"]}


def copy(name: str, start_us: float, dur_us: float, size: int | None) -> Event:
    return work("gpu_memcpy", name, start_us, dur_us, **({} if size is None else {"bytes": size}))


def rows(*events: Event, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return kernels_table(make_trace(*events)).frame.select("name", *columns).rows()


def test_a_kernel_has_the_sum_of_its_runs_and_their_mean_and_spread() -> None:
    # 1, 2, ... 29 us, and one of 100 us: 28 of 30 runs are 93 %, so the 29th is the first that 95 % do not exceed.
    runs = [kernel("a", 200 * at, dur, correlation=at) for at, dur in enumerate((*range(1, 30), 100))]
    columns = ("calls", "sum_ns", "sum_ratio", "mean_ns", "median_ns", "p95_ns", "max_ns")
    found = rows(*runs, kernel("b", 0, 535, correlation=99), columns=columns)
    assert found == [
        ("a", 30, 535_000, 0.5, pytest.approx(535_000 / 30), 15_500, 29_000, 100_000),
        ("b", 1, 535_000, 0.5, 535_000, 535_000, 535_000, 535_000),
    ]


def test_kernels_are_sorted_by_their_time_and_then_by_name() -> None:
    runs = [kernel(name, 0, dur, correlation=at) for at, (name, dur) in enumerate([("b", 5), ("c", 9), ("a", 5)])]
    assert [name for (name,) in rows(*runs, columns=())] == ["c", "a", "b"]
    assert kernels_table(make_trace(*runs)).sort_by == "sum_ns"


def test_runs_at_the_same_time_count_once_on_a_device_and_devices_add_up() -> None:
    runs = [
        kernel("a", 0, 30, correlation=1, stream=7),
        kernel("a", 10, 30, correlation=2, stream=8),  # 20 us of it at the same time
        kernel("a", 100, 5, correlation=3, stream=7),
        kernel("a", 0, 30, correlation=4, device=1),
        kernel("b", 0, 200, correlation=5, stream=9),  # another kernel does not matter
    ]
    assert rows(*runs, columns=("sum_ns", "union_ns")) == [("b", 200_000, 200_000), ("a", 95_000, 75_000)]


def test_a_kernel_is_launched_by_the_op_that_launched_most_of_its_time() -> None:
    trace = make_trace(
        annotation("ProfilerStep#3", 0, 300),
        span("aten::linear", 0, 50),
        span("aten::mm", 5, 30),
        launch(6, 1, correlation=1),
        launch(8, 1, correlation=2),
        kernel("gemm", 60, 10, correlation=1),
        kernel("gemm", 80, 10, correlation=2),
        launch(40, 1, correlation=3),
        kernel("gemm", 100, 15, correlation=3),
        # In a step, but in no op.
        launch(200, 1, correlation=4),
        kernel("graph", 210, 15, correlation=4),
        kernel("queued before", 0, 1, correlation=77),
        annotation("my range", 250, 20),
        launch(255, 1, correlation=5),
        kernel("of a range", 260, 2, correlation=5),
    )
    frame = kernels_table(trace).frame
    assert dict(frame.select("name", "op").rows()) == {
        "gemm": "aten::mm",  # 20 us, and linear itself 15 us
        "graph": "",
        "of a range": "my range",
        "queued before": "",
    }
    assert dict(frame.select("name", "op_count").rows()) == {"gemm": 2, "graph": 0, "of a range": 1, "queued before": 0}


def test_a_kernel_has_the_phase_of_most_of_its_time() -> None:
    events = [
        span("aten::mm", 0, 10),
        *(launch(1 + at, 0.5, correlation=at) for at in range(2)),
        *(kernel("gemm", 20 + 20 * at, 7, correlation=at) for at in range(2)),
        span("MmBackward0", 100, 10),
        launch(101, 1, correlation=5),
        kernel("gemm", 110, 13, correlation=5),
        launch(200, 1, correlation=6),
        kernel("alone", 210, 5, correlation=6),
    ]
    # 14 us of forward, and 13 us of backward.
    assert rows(*events, columns=("phase",)) == [("gemm", "forward"), ("alone", "unknown")]


def test_copies_and_fills_have_their_bytes_and_bandwidth_and_kernels_have_none() -> None:
    found = rows(
        copy("Memcpy HtoD", 0, 4, 8_000),
        copy("Memcpy HtoD", 10, 6, 2_000),
        work("gpu_memset", "Memset", 20, 2, bytes=512),
        kernel("gemm", 30, 1, correlation=1),
        columns=("kind", "calls", "bytes", "bytes_per_s"),
    )
    # 10 kB in 10 us, and 512 B in 2 us.
    assert found == [
        ("Memcpy HtoD", "memcpy", 2, 10_000, pytest.approx(1e9)),
        ("Memset", "memset", 1, 512, pytest.approx(256e6)),
        ("gemm", "kernel", 1, None, None),
    ]


def test_a_copy_of_unknown_size_has_no_bytes_beside_one_that_has() -> None:
    found = rows(copy("Memcpy DtoH", 0, 4, None), copy("Memcpy HtoD", 10, 2, 0), columns=("bytes", "bytes_per_s"))
    assert found == [("Memcpy DtoH", None, None), ("Memcpy HtoD", 0, 0)]


def test_what_no_work_has_has_no_column() -> None:
    absent = {"bytes", "bytes_per_s", "grid", "block", "registers", "shared_bytes", "occupancy_ratio"}
    columns = {column.name for column in kernels_table(make_trace(kernel("gemm", 0, 1, correlation=1))).columns}
    assert not absent & columns
    with_copy = make_trace(kernel("gemm", 0, 1, correlation=1), copy("Memcpy", 5, 1, 3))
    assert {column.name for column in kernels_table(with_copy).columns} - columns == {"bytes", "bytes_per_s"}


def test_work_of_one_name_and_two_kinds_has_two_rows() -> None:
    found = rows(
        kernel("x", 0, 3, correlation=1), work("gpu_memset", "x", 10, 2), columns=("kind", "sum_ns", "union_ns")
    )
    assert found == [("x", "kernel", 3_000, 3_000), ("x", "memset", 2_000, 2_000)]


def test_work_of_no_length_has_no_bandwidth_and_no_share() -> None:
    found = rows(copy("Memcpy", 0, 0, 8_000), columns=("sum_ns", "sum_ratio", "bytes_per_s"))
    assert found == [("Memcpy", 0, 0, None)]


def test_without_device_work_there_are_no_rows() -> None:
    assert kernels_table(make_trace(span("aten::mm", 0, 10))).frame.height == 0


def op_around(launched_us: int) -> str:
    """Return which of the ops below holds a launch of 1 us."""
    ops = (("b", 10, 60), ("a", 0, 100), ("c", 200, 300))
    return next((name for name, start, end in ops if start <= launched_us and launched_us + 1 <= end), "")


@pytest.mark.parametrize("seed", sampled(range(40)))
def test_the_rows_of_random_traces_are_those_of_a_count_by_hand(seed: int) -> None:
    chance = np.random.default_rng(seed)
    events = [span("a", 0, 100), span("b", 10, 50), span("c", 200, 100)]
    calls = {at: launch(int(chance.integers(0, 320)), 1, correlation=at) for at in range(30)}
    expected: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    by_op: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for at in range(int(chance.integers(1, 30))):
        device, stream, start, dur = (int(each) for each in chance.integers((2, 3, 400, 60)))
        name = f"k{chance.integers(4)}"
        events += [calls[at], kernel(name, start, dur, correlation=at, stream=stream, device=device)]
        expected[name].append((device, start, dur))
        by_op[name][op_around(calls[at]["ts"])] += dur
    frame = kernels_table(make_trace(*events)).frame
    whole = sum(dur for runs in expected.values() for _, _, dur in runs)
    assert set(frame["name"]) == set(expected)
    assert frame["sum_ns"].sum() == whole * 1000
    assert frame["sum_ratio"].sum() == pytest.approx(1 if whole else 0)
    for row in frame.to_dicts():
        runs = expected[row["name"]]
        lengths = sorted(dur for _, _, dur in runs)
        busy = {(device, us) for device, start, dur in runs for us in range(start, start + dur)}
        assert row["calls"] == len(runs)
        assert row["sum_ns"] == 1000 * sum(lengths)
        assert row["union_ns"] == 1000 * len(busy)
        assert row["max_ns"] == 1000 * lengths[-1]
        assert row["median_ns"] == 1000 * np.median(lengths)
        assert row["p95_ns"] == 1000 * np.percentile(lengths, 95, method="higher")
        assert row["op"] == min(by_op[row["name"]], key=lambda op: (-by_op[row["name"]][op], op))
