"""Points below the roofs, worked out by hand: in the table, the figure and the static picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support import kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.model.shapes import Roof
from torchprof_magic.render.pictures import roofline_picture
from torchprof_magic.render.roof_plane import plane_of
from torchprof_magic.render.text import column_text
from torchprof_magic.report.trace_report import Report
from torchprof_magic.tables.ops.roofline import has_kernels, has_points, roofline_of_kernels, roofline_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.trace import Trace

NAME = "Round 1000"
PRODUCT = [[100, 5000], [5000, 100]]
BF16 = ["c10::BFloat16"] * 2


@pytest.fixture(autouse=True)
def _round_peaks() -> Iterator[None]:
    tp.peaks.add(NAME, bytes_per_s=1e12, flops_per_s={"bf16": 1e15}, vector_flops_per_s={"f32": 1e13})
    yield
    tp.peaks.remove(NAME)


def op(name: str, at: float, shapes: list[Any], dur: float) -> list[dict[str, Any]]:
    number = int(at) + 1
    return [
        span(name, at, 10, **{"Input Dims": shapes, "Input type": BF16}),
        launch(at + 1, 1, number),
        kernel(f"{name} kernel", at + 50, dur, number),
    ]


def made(device: str = NAME) -> Trace:
    events = [
        *op("aten::mm", 0, PRODUCT, 400),
        *op("aten::copy_", 1000, [[1000], [1000]], 40),
        span("aten::view", 2000, 10),
    ]
    return make_trace(*events, deviceProperties=[{"id": 0, "name": device}])


def test_each_op_with_known_work_is_a_point_and_each_limit_a_roof() -> None:
    table = roofline_table(made())
    assert table.frame.select("name", "worked_ns", "flops_per_s").rows() == [
        ("aten::mm", 400_000, 2.5e11),
        ("aten::copy_", 40_000, None),
    ]
    assert table.frame["flops_per_byte"].to_list() == [pytest.approx(10**8 / 2_020_000), 0]
    assert table.points is not None
    assert table.points.roofs == (
        Roof(title="memory", bytes_per_s=1e12),
        Roof(title="bf16 products", flops_per_s=1e15),
        Roof(title="vector units", flops_per_s=1e13),
    )


def test_kernels_are_points_as_well() -> None:
    assert roofline_of_kernels(made()).frame["name"].to_list() == ["aten::mm kernel", "aten::copy_ kernel"]
    assert has_kernels(made())


def test_a_device_without_a_known_peak_has_points_without_roofs() -> None:
    table = roofline_table(made("Nobody knows it"))
    assert table.frame.height == 2
    assert table.points is not None
    assert table.points.roofs == ()
    assert len(plane_of(table).points) == 2


def test_work_above_its_roof_has_a_reason() -> None:
    events = [
        *op("aten::copy_", 0, [[1_000_000], [1_000_000]], 2),  # 4 MB in 2 us are 2 TB/s
        *op("aten::fill_", 1000, [[10**9]], 1000),  # 2 GB in 1 ms are 2 TB/s
        *op("aten::bmm", 2000, [[1, 4000, 4000], [1, 4000, 4000]], 64),  # 128 GFLOP in 64 us are 2 PFLOP/s
        *op("aten::mm", 3000, PRODUCT, 400),
    ]
    trace = make_trace(*events, deviceProperties=[{"id": 0, "name": NAME}])
    found = dict(roofline_table(trace).frame.select("name", "beyond").rows())
    assert found["aten::copy_"] == "in caches"
    assert found["aten::fill_"] == found["aten::bmm"] == "it had less to do than its shapes say, or the peak is too low"
    assert found["aten::mm"] is None
    events[8] = kernel("winograd_3x3", 2050, 64, 2001)
    transformed = make_trace(*events, deviceProperties=[{"id": 0, "name": NAME}])
    found = dict(roofline_table(transformed).frame.select("name", "beyond").rows())
    assert found["aten::bmm"] == "fewer operations than a product needs: Winograd or FFT"


def test_without_known_work_there_is_nothing() -> None:
    trace = make_trace(span("aten::mm", 0, 10))
    assert not has_points(trace)
    assert roofline_table(trace).frame.height == 0
    with pytest.raises(ValueError, match="The work of no op is known"):
        Report(trace).figure("roofline")


def test_what_computes_nothing_stands_near_the_left_edge_as_far_below_the_memory_as_its_bytes() -> None:
    plane = plane_of(roofline_table(made()))
    (_, copy), (memory, *_) = plane.points, plane.lines
    assert copy.x == 10 ** (plane.x[0] + 0.2)
    # 4,000 bytes in 40 us are 1e8 a second, one ten thousandth of the bandwidth.
    assert copy.y == pytest.approx(copy.x * 1e8)
    assert memory.y[0] / memory.x[0] == pytest.approx(1e12)
    assert memory.x[1] == pytest.approx(1000)  # where the product's roof begins
    assert memory.title == "memory 1 TB/s"
    # 1,000 TFLOP/s at 1 TB/s: with fewer than 1,000 operations a byte the memory limits.
    assert next(line.ridge_title for line in plane.lines if line.ridge) == "ridge 1,000"


def test_the_figure_and_the_static_picture_draw_it() -> None:
    report = Report(made())
    figure = report.figure("roofline")
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "FLOP/byte"
    assert roofline_picture(roofline_table(made())).startswith(b"\x89PNG")


def test_a_rate_has_its_prefix_in_the_title_of_its_column() -> None:
    table = roofline_table(made())
    titles = {column.name: column_text(column, table.frame, 1)[0] for column in table.columns if column.unit == "flop"}
    assert titles["flops_per_s"] == "GFLOP/s"
    assert titles["flops_per_byte"] == "FLOP/B"
    assert titles["work_flops"] == "Operations MFLOP"
