from __future__ import annotations

from typing import Any

import pytest
from support import kernel, launch, make_trace

from torchprof_magic.facts.device.coverage import loss_of, work_without_launch
from torchprof_magic.model.trace import Trace

Event = dict[str, Any]


def on_device(event: Event, device: int) -> Event:
    return event | {"pid": device, "args": event["args"] | {"device": device}}


def rank(number: int, calls: int = 4, late_us: float = 0, *lost: int) -> list[Event]:
    """A process with its own device: a call every 100 us with the numbers 1, 2, 3, ..., each with a kernel."""
    events = []
    for n in range(calls):
        begin = 100 * n + late_us
        events.append(launch(begin, 5, n + 1) | {"pid": 500 + number})
        if n not in lost:
            events.append(on_device(kernel("gemm", begin + 10, 50, n + 1), number))
    return events


def process_of_device(trace: Trace) -> set[tuple[int, str]]:
    """The pairs of device and process that launches connect."""
    links = trace.flows.filter(trace.flows["kind"] == "launch")
    pid = trace.lanes["pid"].gather(trace.events["lane"].gather(links["source"]))
    return set(zip(trace.events["device"].gather(links["target"]).to_list(), pid.to_list(), strict=True))


@pytest.mark.parametrize("late_us", [-300, -2, 0, 2, 300])
def test_processes_with_the_same_numbers_launch_the_work_of_their_own_devices(late_us: float) -> None:
    trace = make_trace(*rank(0), *rank(1, 4, late_us))
    assert process_of_device(trace) == {(0, "500"), (1, "501")}
    assert loss_of(trace).missing == 0
    assert [problem.code for problem in trace.problems] == ["chrome.repeated_launch"]


def test_work_that_one_of_two_processes_with_the_same_numbers_lost_is_missing_there() -> None:
    trace = make_trace(*rank(0), *rank(1, 4, 3, 0, 1))
    assert process_of_device(trace) == {(0, "500"), (1, "501")}
    assert (loss_of(trace).missing, loss_of(trace).launches) == (2, 8)


def test_work_of_another_process_with_a_number_of_this_one_has_no_launch() -> None:
    # The second process has a kernel with the number 20, whose launch came before the recording.
    before = on_device(kernel("gemm", 1, 5, 20), 1)
    trace = make_trace(*rank(0, 20), *rank(1, 19, 30), before)
    (row,) = work_without_launch(trace).tolist()
    assert (trace.events["device"][row], trace.events["dur_ns"][row]) == (1, 5_000)


def test_numbers_that_begin_anew_are_those_of_the_last_call_before_the_work() -> None:
    again = [event | {"ts": event["ts"] + 5_000} for event in rank(0)]
    trace = make_trace(*rank(0), *again)
    links = trace.flows.filter(trace.flows["kind"] == "launch")
    start = trace.events["start_ns"]
    delays = start.gather(links["target"]) - start.gather(links["source"])
    assert delays.to_list() == [10_000] * 8


def test_a_number_that_all_events_share_links_them_to_the_first_call() -> None:
    events = [launch(100 * n, 5, 7) for n in range(40)] + [kernel("gemm", 100 * n + 10, 50, 7) for n in range(40)]
    links = make_trace(*events).flows
    assert links["source"].n_unique() == 1
    assert links.height == 40
