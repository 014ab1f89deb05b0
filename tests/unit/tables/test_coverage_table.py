from __future__ import annotations

from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.tables.coverage import coverage_table


def test_each_device_and_step_has_a_row_below_that_of_the_whole() -> None:
    trace = make_trace(
        annotation("ProfilerStep#1", 0, 100),
        launch(10, 5, 1),
        kernel("a", 20, 5, 1),
        launch(30, 5, 2),
        annotation("ProfilerStep#2", 100, 100),
        launch(110, 5, 3),
        kernel("b", 120, 5, 3),
        kernel("from before", 0, 5, 88),
        span("cudaDeviceSynchronize", 180, 5, cat="cuda_runtime", correlation=9),
    )
    frame = coverage_table(trace).frame
    columns = ("device", "step", "launches", "answered", "missing", "events", "without_launch")
    assert frame.select(columns).rows() == [
        (None, None, 3, 2, 1, 2, 1),
        (0, None, 3, 2, 1, 2, 1),
        (0, 1, 2, 1, 1, 1, 1),
        (0, 2, 1, 1, 0, 1, 0),
    ]


def test_work_of_two_devices_is_counted_apart() -> None:
    trace = make_trace(
        launch(0, 5, 1), kernel("a", 10, 5, 1), launch(20, 5, 2), kernel("b", 30, 5, 2, device=1), launch(40, 5, 3),
        span("cudaDeviceSynchronize", 60, 5, cat="cuda_runtime", correlation=9),
    )  # fmt: skip
    rows = coverage_table(trace).frame.select("device", "launches", "missing").rows()
    # The lost one belongs to the device that its thread used last.
    assert rows == [(None, 3, 1), (0, 1, 0), (1, 2, 1)]


def test_a_graph_launch_without_kernels_is_counted_twice_over() -> None:
    graph = span("cudaGraphLaunch", 10, 5, cat="cuda_runtime", correlation=1)
    trace = make_trace(
        graph, kernel("a", 20, 5, 1), graph | {"ts": 40, "args": {"correlation": 2}},
        span("cudaDeviceSynchronize", 60, 5, cat="cuda_runtime", correlation=9),
    )  # fmt: skip
    row = coverage_table(trace).frame.row(0, named=True)
    assert (row["graph_launches"], row["graphs_without_kernels"], row["missing"]) == (2, 1, 1)


def test_a_recording_without_launches_has_no_rows() -> None:
    assert coverage_table(make_trace(span("aten::mm", 0, 5))).frame.height == 0
