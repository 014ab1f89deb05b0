from __future__ import annotations

import pytest
from support import allocation, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.findings.overview import overview_facts
from torchprof_magic.model.shapes import Table, Tree
from torchprof_magic.model.trace import Trace
from torchprof_magic.report.analysis import Analysis
from torchprof_magic.report.trace_report import Report
from torchprof_magic.report.views import VIEWS

# On the host mm takes 60 us and add 20 us.
MM, ADD = 60, 20


def two_functions(mm_kernel_us: float, add_kernel_us: float) -> Trace:
    """A step of 100 us with an op in each of two functions, whose kernels run for so long."""
    return make_trace(
        annotation("ProfilerStep#0", 0, 100),
        frame("/home/me/model.py(9): second", 1, ADD + 2),
        span("aten::add", 2, ADD),
        launch(3, 1, correlation=2),
        kernel("add", 5, add_kernel_us, correlation=2),
        frame("/home/me/model.py(3): first", 31, MM + 2),
        span("aten::mm", 32, MM),
        launch(33, 1, correlation=1),
        kernel("gemm", max(35, 5 + add_kernel_us), mm_kernel_us, correlation=1),
    )


# The device works for 12 us of 100, and for 92.
BY_HOST, BY_DEVICE = two_functions(2, 10), two_functions(20, 72)


@pytest.mark.parametrize(
    ("trace", "kind", "first", "opened"),
    [
        (BY_HOST, "dispatch", "aten::mm", ("self_cpu_ns", "cpu_ns", "cpu_ns")),
        (BY_DEVICE, "compute", "aten::add", ("self_device_ns", "device_ns", "both_device_ns")),
    ],
)
def test_each_view_opens_on_the_time_that_the_verdict_decides_by(
    trace: Trace, kind: str, first: str, opened: tuple[str, str, str]
) -> None:
    found = Analysis(trace)
    assert found.verdict.kind == kind
    ops, by_phase, flame, source = (found[name] for name in ("ops", "ops_phase", "flame", "source"))
    assert isinstance(ops, Table)
    assert isinstance(by_phase, Table)
    assert isinstance(flame, Tree)
    assert isinstance(source, Table)
    assert (ops.sort_by, flame.weights[0].name, source.sort_by) == opened
    assert by_phase.sort_by == ops.sort_by
    assert {weight.name for weight in flame.weights} >= {"cpu_ns", "device_ns"}
    # Overview and text have the same order.
    of_title = {section.title: section for section in overview_facts(trace).sections}
    where = "host" if kind == "dispatch" else "device"
    assert of_title["Ops"].facts[0].label == first
    assert of_title["Ops"].aside.startswith(f"self {where} time")
    assert of_title["Lines"].facts[0].label == ("first" if kind == "dispatch" else "second")
    assert of_title["Lines"].aside.startswith(f"{where} time")
    text = Report(trace).summary()
    assert text.index(f"\n{first} ") < text.index("\naten::add " if kind == "dispatch" else "\naten::mm ")


def test_without_a_device_views_open_on_host_time_whatever_else_was_recorded() -> None:
    found = Analysis(make_trace(annotation("ProfilerStep#0", 0, 100), span("aten::mm", 0, 90), allocation(5, 64, 64)))
    ops, flame = found["ops"], found["flame"]
    assert isinstance(ops, Table)
    assert isinstance(flame, Tree)
    assert (ops.sort_by, flame.weights[0].name) == ("self_cpu_ns", "cpu_ns")


@pytest.mark.parametrize(
    ("trace", "first"), [(BY_HOST, ["both_cpu_ns", "own_cpu_ns"]), (BY_DEVICE, ["both_device_ns", "own_device_ns"])]
)
def test_modules_begin_with_the_time_that_decides_and_have_no_halves_without_backward(
    trace: Trace, first: list[str]
) -> None:
    build = next(view for view in VIEWS if view.name == "modules")
    shape = build.shape(trace)
    assert isinstance(shape, Table)
    names = [column.name for column in shape.columns if column.unit == "ns"]
    assert names[:2] == first
    assert sorted(names) == sorted({*names})
    assert {"both_cpu_ns", "both_device_ns", "wait_ns"} <= {*names}
