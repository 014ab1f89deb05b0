from __future__ import annotations

from support import chrome, kernel, launch, make_trace, span

from torchprof_magic.facts.time_range import TimeRange
from torchprof_magic.findings.overview import overview_facts
from torchprof_magic.ingest import read_chrome
from torchprof_magic.tables.devices import devices_table


def device_work(*events: dict[str, object], **head: object) -> list[dict[str, int]]:
    return devices_table(make_trace(*events, **head)).frame.to_dicts()


def overview_labels(*events: dict[str, object]) -> list[str]:
    return [fact.label for section in overview_facts(make_trace(*events)).sections for fact in section.facts]


def test_busy_time_unites_streams_and_idle_time_is_the_rest_of_the_window() -> None:
    (row,) = device_work(
        kernel("a", 0, 10, correlation=1),
        kernel("b", 5, 10, correlation=2, stream=8),
        kernel("c", 40, 5, correlation=3),
    )
    assert (row["busy_ns"], row["window_ns"], row["idle_ns"], row["sum_ns"]) == (20_000, 45_000, 25_000, 25_000)
    assert (row["streams"], row["events"], row["kernels"]) == (2, 3, 3)


def test_work_that_was_queued_before_the_recording_is_counted_separately() -> None:
    events = (
        kernel("early", 0, 10, correlation=1),
        launch(20, 1, correlation=2),
        kernel("ours", 30, 5, correlation=2),
        launch(21, 1, correlation=3),
        kernel("ours", 40, 5, correlation=3),
    )
    (row,) = device_work(*events)
    assert (row["busy_ns"], row["launched_busy_ns"]) == (20_000, 10_000)
    assert (row["window_ns"], row["launched_window_ns"]) == (45_000, 15_000)
    assert (row["events"], row["launched_events"]) == (3, 2)
    assert "Busy, launched in the recording" in overview_labels(*events)
    assert "Busy, launched in the recording" not in overview_labels(*events[1:])


def test_communication_is_exposed_while_no_computation_kernel_runs() -> None:
    copy = span("Memcpy HtoD", 30, 20, cat="gpu_memcpy", device=0, stream=9, correlation=9) | {"pid": 0, "tid": 9}
    (row,) = device_work(
        kernel("ncclDevKernel_AllReduce", 0, 60, correlation=1, stream=8),
        kernel("ncclDevKernel_AllReduce", 50, 50, correlation=2, stream=9),
        kernel("gemm", 10, 20, correlation=3),
        kernel("gemm", 90, 50, correlation=4),
        copy,
    )
    # The copy hides nothing: it computes nothing.
    assert (row["comm_ns"], row["hidden_comm_ns"], row["exposed_comm_ns"]) == (100_000, 30_000, 70_000)
    assert row["comm_kernels"] == 2


def test_devices_are_sorted_by_number_and_never_added_up() -> None:
    rows = device_work(kernel("b", 0, 3, correlation=1, device=9), kernel("a", 0, 2, correlation=2, device=2))
    assert [(row["device"], row["busy_ns"]) for row in rows] == [(2, 2000), (9, 3000)]


def test_work_without_a_device_number_is_on_device_0() -> None:
    bare = {"ph": "X", "cat": "kernel", "name": "k", "pid": "gpu", "tid": "stream", "ts": 0, "dur": 4, "args": {}}
    trace = read_chrome([chrome(bare, kernel("a", 2, 4, correlation=1))])
    assert devices_table(trace).frame.select("device", "busy_ns").rows() == [(0, 6000)]


def test_without_a_device_there_is_no_row() -> None:
    assert device_work(span("aten::mul", 0, 1)) == []


def test_a_part_has_the_work_in_it_and_the_idle_time_between_the_first_and_last_work_of_all() -> None:
    trace = make_trace(
        span("aten::mm", 0, 5),
        kernel("a", 10, 30, correlation=1),
        launch(50, 1, correlation=2),
        kernel("b", 60, 20, correlation=2, stream=8),
        kernel("c", 90, 10, correlation=3),
    )
    columns = ("busy_ns", "window_ns", "idle_ns", "launched_busy_ns", "launched_window_ns", "events", "streams")
    # Work from 10 to 100. Until 30, 20 us of it, all busy; until 70, idle from 40 to 60; then until 80 and from 90.
    parts = TimeRange(0, 30_000), TimeRange(30_000, 70_000), TimeRange(70_000, 200_000)
    assert [devices_table(trace, part).frame.select(columns).row(0) for part in parts] == [
        (20_000, 20_000, 0, 0, 0, 1, 1),
        (20_000, 40_000, 20_000, 10_000, 10_000, 2, 2),
        (20_000, 30_000, 10_000, 10_000, 10_000, 2, 2),
    ]
    # A device is idle in a part in which nothing of it runs.
    assert devices_table(trace, TimeRange(40_000, 60_000)).frame.select(columns).row(0) == (
        0,
        20_000,
        20_000,
        0,
        0,
        0,
        0,
    )
