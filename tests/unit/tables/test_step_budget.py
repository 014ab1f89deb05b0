"""The time of a step in parts that add up to it, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support import annotation, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.facts.budget import PARTS
from torchprof_magic.findings.overview import overview_facts
from torchprof_magic.tables.budget import budget_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchprof_magic.model.trace import Trace

NAME = "Round 1000"
# At the peak: 0.1 ms for the product, and 6 us for the sum of a million elements.
PRODUCT, ADDED = [[100, 5000], [5000, 100]], [[1000, 1000], [1000, 1000]]
BF16 = ["c10::BFloat16"] * 2


@pytest.fixture(autouse=True)
def _round_peaks() -> Iterator[None]:
    figures = {"bytes_per_s": 1e12, "flops_per_s": {"bf16": 1e12, "f32": 1e12}, "vector_flops_per_s": {"f32": 5e11}}
    tp.peaks.configure({NAME: figures, "CPU": figures})
    yield
    tp.peaks.configure({})


def op(name: str, at: float, dur: float, shapes: list[Any] | None = None) -> dict[str, Any]:
    return span(name, at, dur, **({"Input Dims": shapes, "Input type": BF16} if shapes else {}))


def made(*events: dict[str, Any]) -> Trace:
    return make_trace(*events, deviceProperties=[{"id": 0, "name": NAME}])


def parts_of(trace: Trace) -> list[dict[str, int]]:
    """Return the parts of each step in us, without those that are empty."""
    rows = budget_table(trace).frame.to_dicts()
    for row in rows:
        assert sum(row[f"{part}_ns"] for part in PARTS) == row["dur_ns"]
        assert all(row[f"{part}_ns"] >= 0 for part in PARTS)
    return [{part: row[f"{part}_ns"] / 1000 for part in PARTS if row[f"{part}_ns"]} for row in rows]


def test_kernels_are_split_at_their_roof_and_idle_time_by_its_cause() -> None:
    trace = made(
        annotation("ProfilerStep#1", 0, 1000),
        op("aten::mm", 0, 10, PRODUCT),
        launch(2, 1, 1),
        kernel("gemm", 20, 400, 1),  # 100 at the roof
        op("aten::add", 20, 10, ADDED),
        launch(22, 1, 2),
        kernel("add", 420, 12, 2),  # 6 at the roof
        op("aten::mystery", 420, 130),
        launch(540, 1, 3),
        kernel("mystery", 545, 55, 3),
    )
    (found,) = parts_of(trace)
    assert {
        name: found[name] for name in ("compute_roof", "compute_above", "memory_roof", "memory_above", "other_work")
    } == {
        "compute_roof": 100,
        "compute_above": 300,
        "memory_roof": 6,
        "memory_above": 6,
        "other_work": 55,
    }
    # From 432 to 545 the host is in an op, from its launch on the kernel is late; after it there is nothing.
    assert found["dispatch"] == 2 + 18 + 113


def test_work_at_the_same_time_counts_once_computation_before_communication_before_copies() -> None:
    trace = made(
        annotation("ProfilerStep#1", 0, 300),
        op("aten::mm", 0, 5, PRODUCT),
        launch(1, 1, 1),
        kernel("gemm", 0, 200, 1),  # half of it at the roof
        launch(10, 1, 2),
        kernel("ncclDevKernel_AllReduce", 150, 100, 2, stream=8),  # 50 of them exposed
        launch(20, 1, 3),
        kernel("Memcpy HtoD (Pinned -> Device)", 240, 60, 3, stream=9) | {"cat": "gpu_memcpy"},  # 50 behind it
    )
    assert parts_of(trace) == [{"compute_roof": 100, "compute_above": 100, "communication": 50, "copies": 50}]


def test_kernels_at_the_same_time_count_for_the_one_that_began_first() -> None:
    trace = made(
        annotation("ProfilerStep#1", 0, 300),
        op("aten::mm", 0, 5, PRODUCT),
        launch(1, 1, 1),
        kernel("gemm", 0, 200, 1),
        op("aten::add", 10, 5, ADDED),
        launch(11, 1, 2),
        kernel("add", 100, 200, 2, stream=8),  # 100 alone; 6 of 200 are at the roof
    )
    assert parts_of(trace) == [{"compute_roof": 100, "compute_above": 100, "memory_roof": 3, "memory_above": 97}]


def test_a_kernel_over_the_edge_of_a_step_counts_in_both() -> None:
    trace = made(
        annotation("ProfilerStep#1", 0, 100),
        annotation("ProfilerStep#2", 100, 300),
        op("aten::mm", 0, 5, PRODUCT),
        launch(1, 1, 1),
        kernel("gemm", 0, 400, 1),
    )
    assert parts_of(trace) == [
        {"compute_roof": 25, "compute_above": 75},
        {"compute_roof": 75, "compute_above": 225},
    ]


def test_the_utilisation_of_a_step_is_the_time_of_its_flops_at_the_peak() -> None:
    trace = made(
        annotation("ProfilerStep#1", 0, 1000), op("aten::mm", 0, 5, PRODUCT), launch(1, 1, 1), kernel("gemm", 0, 400, 1)
    )
    assert budget_table(trace).frame.select("mfu_ratio", "hfu_ratio").row(0) == (0.1, 0.1)


def test_what_a_checkpoint_computes_again_is_hardware_not_model() -> None:
    def node(name: str, at: float, dur: float, sequence: int, **more: Any) -> dict[str, Any]:
        return span(name, at, dur, **{"Sequence number": sequence, "Fwd thread id": 0} | more)

    shapes = {"Input Dims": PRODUCT, "Input type": BF16}
    flows = [
        {"ph": ph, "id": number, "pid": 7, "tid": 1, "ts": at, "cat": "fwdbwd", "name": "fwdbwd"}
        for number, (begin, end) in enumerate(((1, 101), (121, 131)))
        for ph, at in (("s", begin), ("f", end))
    ]
    trace = make_trace(
        annotation("ProfilerStep#1", 0, 1000),
        node("CheckpointFunction", 0, 50, 5),
        node("CheckpointFunctionBackward", 100, 500, 5, **{"Fwd thread id": 1}),
        node("aten::mm", 120, 5, 6, **shapes),
        node("MmBackward0", 130, 300, 6, **{"Fwd thread id": 1}),
        span("aten::mm", 140, 100, **shapes),
        *flows,
    )
    model, hardware = budget_table(trace).frame.select("mfu_ratio", "hfu_ratio").row(0)
    assert (model, hardware) == (pytest.approx(0.1), pytest.approx(0.2))


def test_without_a_device_ops_are_split_at_their_roof_and_short_ones_are_dispatch() -> None:
    trace = make_trace(
        annotation("ProfilerStep#1", 0, 1000),
        op("aten::mm", 100, 400, PRODUCT),
        op("aten::view", 520, 10),
        op("aten::mystery", 540, 60),
        op("aten::add", 700, 60, ADDED),
    )
    (found,) = parts_of(trace)
    # With bfloat16 at 1 TFLOP/s and 1 TB/s.
    assert found == {
        "compute_roof": 100,
        "compute_above": 300,
        "memory_roof": 6,
        "memory_above": 54,
        "other_work": 60,
        "dispatch": 10,
        "python": 470,
    }


def test_without_steps_the_window_is_one_row() -> None:
    trace = made(op("aten::mm", 0, 5, PRODUCT), launch(1, 1, 1), kernel("gemm", 10, 400, 1))
    frame = budget_table(trace).frame
    assert frame.select("number", "dur_ns", "compute_roof_ns", "compute_above_ns").rows() == [
        (None, 410_000, 100_000, 300_000)
    ]
    assert parts_of(trace)


def test_the_overview_says_the_parts_in_one_bar_and_the_utilisation() -> None:
    trace = made(
        annotation("ProfilerStep#1", 0, 1000), op("aten::mm", 0, 5, PRODUCT), launch(1, 1, 1), kernel("gemm", 0, 400, 1)
    )
    (section,) = [each for each in overview_facts(trace).sections if each.kind == "stack"]
    assert (section.title, section.aside) == ("How near the limit", "per step, MFU 10 %")
    assert [(fact.label, fact.value) for fact in section.facts[:2]] == [
        ("Compute at the roof", 100_000),
        ("Compute above it", 300_000),
    ]
    assert sum(float(fact.value or 0) for fact in section.facts) == 1_000_000


def test_without_known_work_the_overview_has_no_such_bar() -> None:
    trace = made(annotation("ProfilerStep#1", 0, 100), op("aten::mm", 0, 5))
    assert not [each for each in overview_facts(trace).sections if each.kind == "stack"]


def test_the_parts_of_real_traces_add_up(traces: Path) -> None:
    for file in sorted(traces.glob("[01]*.json.gz")):
        if file.name.startswith(("11_", "17_")):
            continue
        parts_of(tp.load(file).trace)


def test_products_that_torch_does_not_count_are_a_part_of_mfu() -> None:
    # 2 · 100 · 100 · 5000 operations take 0.1 ms at the peak.
    trace = made(
        annotation("ProfilerStep#1", 0, 1000),
        op("aiter::gemm_a16w16", 0, 10, [[100, 5000], [100, 5000]]),
        launch(2, 1, 1),
        kernel("gemm", 20, 400, 1),
        op("aten::add", 500, 10, ADDED),
        launch(502, 1, 2),
        kernel("add", 520, 12, 2),
    )
    assert budget_table(trace).frame["mfu_ratio"].to_list() == [pytest.approx(0.1)]
