"""How near the roof work is, with a device of round figures: 1 TFLOP/s in bfloat16, 0.5 otherwise, and 1 TB/s."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from support import annotation, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.facts.ops.op_work import timed_work
from torchprof_magic.facts.time_range import TimeRange
from torchprof_magic.tables.ops.kernels import kernels_table
from torchprof_magic.tables.ops.op_groups import ops_grouped
from torchprof_magic.tables.ops.op_table import ops_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.trace import Trace

NAME = "Round 1000"
DEVICE = [{"id": 0, "name": NAME}]
# 2 · 100 · 100 · 5000 operations are 0.1 ms at the peak; 1,020,000 elements of two bytes are 2.04 us.
PRODUCT = [[100, 5000], [5000, 100]]
COLUMNS = ("work_flops", "moved_bytes", "worked_ns", "roof_ns", "above_ns", "flops_per_s", "roof_ratio", "roof")


@pytest.fixture(autouse=True)
def _round_peaks() -> Iterator[None]:
    tp.peaks.add(NAME, bytes_per_s=1e12, flops_per_s={"bf16": 1e12, "tf32": 2e12}, vector_flops_per_s={"f32": 5e11})
    yield
    tp.peaks.remove(NAME)


def op(name: str, shapes: list[Any], at: float, *kernels: float, dtype: str = "c10::BFloat16") -> list[dict[str, Any]]:
    """Return an op of 10 us with a kernel 50 us later for each of some durations."""
    events = [span(name, at, 10, **{"Input Dims": shapes, "Input type": [dtype] * len(shapes)})]
    for place, dur in enumerate(kernels):
        number = int(at) * 10 + place
        events += [launch(at + 1 + place, 1, number), kernel(f"{name} {place}", at + 50 + 1000 * place, dur, number)]
    return events


def made(*events: list[dict[str, Any]]) -> Trace:
    return make_trace(*(event for each in events for event in each), deviceProperties=DEVICE)


def row(frame: pl.DataFrame, name: str) -> tuple[Any, ...]:
    return frame.filter(pl.col("name") == name).select(COLUMNS).row(0)


def test_products_are_limited_by_their_operations() -> None:
    found = row(ops_table(made(op("aten::mm", PRODUCT, 0, 400))).frame, "aten::mm")
    assert found == (10**8, 2_020_000, 400_000, 100_000, 300_000, 2.5e11, 0.25, "compute")


def test_elementwise_ops_are_limited_by_their_bytes() -> None:
    found = row(ops_table(made(op("aten::add", [[1000, 1000], [1000, 1000]], 0, 12))).frame, "aten::add")
    assert found == (10**6, 6 * 10**6, 12_000, 6_000, 6_000, 10**6 / 12e-6, 0.5, "memory")


def test_the_kernels_of_a_call_share_its_work_by_their_time() -> None:
    frame = kernels_table(made(op("aten::mm", PRODUCT, 0, 300, 100))).frame
    assert row(frame, "aten::mm 0") == (75 * 10**6, 1_515_000, 300_000, 75_000, 225_000, 2.5e11, 0.25, "compute")
    assert row(frame, "aten::mm 1")[:4] == (25 * 10**6, 505_000, 100_000, 25_000)


def test_an_op_in_another_one_has_no_work_of_its_own() -> None:
    inner = span("aten::copy_", 1, 5, **{"Input Dims": PRODUCT, "Input type": ["float", "float"]})
    assert timed_work(made(op("aten::mm", PRODUCT, 0, 400), [inner])).flops.tolist() == [1e8]


def test_work_that_beats_the_roof_has_nothing_above_it() -> None:
    found = row(ops_table(made(op("aten::mm", PRODUCT, 0, 50))).frame, "aten::mm")
    assert found[3:5] == (100_000, 0)
    assert found[6] == 1.0


def test_products_of_float_are_of_units_for_matrices_only_where_the_kernel_says_so() -> None:
    plain = op("aten::mm", PRODUCT, 0, 400, dtype="float")
    assert row(ops_table(made(plain)).frame, "aten::mm")[3] == 200_000  # at 0.5 TFLOP/s
    tensor_cores = [event | {"name": "sgemm_tf32f32"} if event["cat"] == "kernel" else event for event in plain]
    assert row(ops_table(made(tensor_cores)).frame, "aten::mm")[3] == 50_000


def test_a_group_of_ops_has_the_rates_of_their_sums() -> None:
    trace = made(op("aten::mm", PRODUCT, 0, 400), op("aten::add", [[1000, 1000], [1000, 1000]], 500, 12))
    frame = ops_grouped(trace, "phase").frame.filter(pl.col("above") == "")
    assert row(frame, "forward")[2:5] == (412_000, 106_000, 306_000)
    assert row(frame, "forward")[6:] == (pytest.approx(106 / 412), "compute")


def test_of_a_kernel_that_is_cut_so_much_counts_as_lies_inside() -> None:
    trace = made(op("aten::mm", PRODUCT, 0, 400))
    half = ops_table(trace, TimeRange(50_000, 250_000)).frame
    assert row(half, "aten::mm")[:5] == (5 * 10**7, 1_010_000, 200_000, 50_000, 150_000)


def test_a_device_without_a_known_peak_has_rates_but_no_roof() -> None:
    trace = make_trace(*op("aten::mm", PRODUCT, 0, 400), deviceProperties=[{"id": 0, "name": "Nobody knows it"}])
    frame = ops_table(trace).frame
    assert frame["flops_per_s"][0] == 2.5e11
    assert not {"roof_ratio", "above_ns", "roof", "roof_ns"} & {*frame.columns}


def test_without_shapes_there_are_no_columns_of_work() -> None:
    assert not {*COLUMNS} & {*ops_table(make_trace(span("aten::mm", 0, 10))).frame.columns}


def test_without_a_device_the_time_is_that_of_the_op_on_the_host() -> None:
    tp.peaks.add("CPU", bytes_per_s=1e10, flops_per_s={"f32": 1e11})
    found = row(ops_table(make_trace(*op("aten::mm", PRODUCT, 0, dtype="float"))).frame, "aten::mm")
    tp.peaks.remove("CPU")
    assert found[:3] == (10**8, 4_040_000, 10_000)


def test_collectives_and_copies_to_the_host_have_no_work() -> None:
    copy = span("aten::copy_", 0, 10, **{"Input Dims": [[9], [9]], "Input type": ["float", "float"]})
    moved = kernel("Memcpy DtoH (Device -> Pageable)", 50, 5, 1) | {"cat": "gpu_memcpy"}
    assert len(timed_work(make_trace(copy, launch(1, 1, 1), moved)).row) == 0
    onto = moved | {"name": "Memcpy DtoD (Device -> Device)"}
    assert timed_work(make_trace(copy, launch(1, 1, 1), onto)).bytes.tolist() == [72.0]


def test_an_annotation_around_is_no_op() -> None:
    trace = made(op("aten::mm", PRODUCT, 0, 400), [annotation("aten::mm", -1, 20)])
    assert timed_work(trace).flops.tolist() == [1e8]


def test_without_its_bytes_nothing_has_a_roof() -> None:
    lists = span(
        "aten::_fused_sgd_", 0, 10, **{"Input Dims": [[[9], [4]], [[9], [4]]], "Input type": ["TensorList"] * 2}
    )
    product = span("aten::mm", 20, 10, **{"Input Dims": PRODUCT})
    events = [launch(1, 1, 1), kernel("unnamed", 50, 5, 1), launch(21, 1, 2), kernel("gemm", 60, 400, 2)]
    # What takes longer, its operations or its bytes, is not known without a type.
    frame = ops_table(made([lists, product, *events], op("aten::add", [[9], [9]], 2000, 12))).frame
    assert frame.sort("name").select("name", "work_flops", "moved_bytes", "roof_ns").rows() == [
        ("aten::_fused_sgd_", 78, None, None),
        ("aten::add", 9, 54, 0),
        ("aten::mm", 10**8, None, None),
    ]


@pytest.mark.parametrize(("kind", "roof"), [("bf16", "compute"), ("f8", None)])
def test_a_product_has_no_roof_without_the_peak_of_its_type(kind: str, roof: str | None) -> None:
    tp.peaks.add(NAME, bytes_per_s=1e12, flops_per_s={kind: 1e12})
    rows = ops_table(made(op("aten::mm", PRODUCT, 0, 400))).frame.to_dicts()
    assert [row.get("roof") for row in rows] == [roof]
