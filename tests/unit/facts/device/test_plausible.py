from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.facts.device.believable import as_recorded, believable
from torchprof_magic.facts.device.plausible import NOTHING, impossible_times
from torchprof_magic.model.trace import Trace

Event = dict[str, Any]
STEPS = 6


def step(number: int) -> list[Event]:
    """A step of 1 ms: three launches, of which each reaches an idle device after 10 us, and a wait for all of them."""
    at = 1_000 * number
    events = [annotation(f"ProfilerStep#{number}", at, 990)]
    for n in range(3):
        name = 10 * number + n + 1
        events += [launch(at + 200 * n, 5, name), kernel("gemm", at + 200 * n + 10, 100, name)]
    return [*events, span("cudaDeviceSynchronize", at + 600, 50, cat="cuda_runtime", correlation=1000 + number)]


def steps() -> list[Event]:
    return [event for number in range(STEPS) for event in step(number)]


def moved(events: list[Event], by_us: float) -> list[Event]:
    """The same with the clock of the device ahead by so much; the first kernel begins at 10 us."""
    return [event | {"ts": event["ts"] + by_us + 50_000 if event["cat"] == "kernel" else event["ts"] + 50_000}
            for event in events]  # fmt: skip


def kernel_starts(trace: Trace) -> list[int]:
    return sorted(trace.events.filter(trace.events["category"] == "kernel")["start_ns"].to_list())


def test_an_ordinary_recording_is_believed_as_it_is() -> None:
    trace = make_trace(*steps())
    found = impossible_times(trace)
    assert found.clocks == ()
    assert {found.before_launch, found.after_wait, found.over_next, found.over_steps} == {NOTHING}
    assert believable(trace) is trace


@pytest.mark.parametrize("by_us", [-30_000, -1_000, 1_000, 30_000])
def test_a_clock_that_is_off_is_set_right_to_5_us(by_us: int) -> None:
    trace = make_trace(*moved(steps(), by_us))
    (clock,) = impossible_times(trace).clocks
    assert clock.ahead_ns == by_us * 1_000 + 10_000 - 5_000  # 10 us of delay, of which 5 us are certain
    right = believable(trace)
    host_start = next(iter(right.events.filter(right.events["name"] == "cudaLaunchKernel")["start_ns"]))
    assert kernel_starts(right)[0] - host_start == 5_000
    assert as_recorded(right) is trace
    assert believable(right) is right


@pytest.mark.parametrize("by_us", [100, 300])
def test_a_clock_that_is_slightly_ahead_is_set_right_where_no_call_reaches_the_device_in_the_usual_time(
    by_us: int,
) -> None:
    # Waits end 140 us after the work, so 100 us contradict nothing, and 300 us do.
    (clock,) = impossible_times(make_trace(*moved(steps(), by_us))).clocks
    assert clock.ahead_ns == by_us * 1_000 + 10_000 - 5_000
    assert clock.works == 3 * STEPS - 1  # all but the first begin after the device was idle


def launched_after(*delays_us: float) -> list[Event]:
    """A call of 5 us every ms, each with a kernel of 100 us, whose delays come in turn."""
    events = []
    for number in range(20):
        begun = 1_000 * number + delays_us[number % len(delays_us)]
        events += [launch(1_000 * number, 5, number + 1), kernel("gemm", begun, 100, number + 1)]
    return events


def test_a_device_that_takes_its_time_has_no_clock_that_is_ahead() -> None:
    assert [clock.ahead_ns for clock in impossible_times(make_trace(*launched_after(90, 100))).clocks] == [85_000]
    assert impossible_times(make_trace(*launched_after(90, 300, 400, 500))).clocks == ()  # other programs use it, too
    assert impossible_times(make_trace(*launched_after(40, 50))).clocks == ()  # a slow driver


def test_a_wait_that_returns_right_after_late_work_says_that_the_clock_is_right() -> None:
    wait = span("cudaDeviceSynchronize", 19_010, 200, cat="cuda_runtime", correlation=99)  # ends 20 us after the work
    assert impossible_times(make_trace(*launched_after(90, 90), wait)).clocks == ()


def test_a_deep_queue_is_no_late_clock() -> None:
    # All is launched at once, and the device is busy from the first kernel on.
    events = [launch(10 * n, 5, n + 1) for n in range(20)]
    events += [kernel("gemm", 15 + 1_000 * n, 995, n + 1) for n in range(20)]
    assert impossible_times(make_trace(*events)).clocks == ()


def test_a_single_kernel_before_its_launch_is_counted_and_moves_nothing() -> None:
    events = steps()
    early = next(event for event in events if event["cat"] == "kernel" and event["ts"] == 3_010)
    changed = [event | {"ts": 2_900, "dur": 20} if event is early else event for event in events]
    trace = make_trace(*changed)
    assert impossible_times(trace).before_launch == (1, 100_000)
    assert impossible_times(trace).clocks == ()


def test_a_duration_over_the_next_work_of_the_stream_ends_where_that_begins() -> None:
    long = [event | {"dur": 900} if event["cat"] == "kernel" and event["ts"] == 2_010 else event for event in steps()]
    trace = make_trace(*long)
    assert impossible_times(trace).over_next == (1, 700_000)
    kernels = believable(trace).events.filter(believable(trace).events["start_ns"] == 2_010_000)
    assert kernels.filter(kernels["category"] == "kernel")["dur_ns"].to_list() == [200_000]
    assert trace.events.filter(trace.events["dur_ns"] == 900_000).height == 1


def test_work_that_ends_after_a_wait_for_it_ends_with_the_wait() -> None:
    # The last kernel of the last step, at 5,410 us; the wait returns at 5,650 us.
    long = [event | {"dur": 5_000} if event["cat"] == "kernel" and event["ts"] == 5_410 else event for event in steps()]
    trace = make_trace(*long)
    assert impossible_times(trace).after_wait == (1, 4_760_000)
    assert max(kernel_ends(believable(trace))) == 5_650_000


def test_a_copy_that_ends_after_the_wait_of_its_op_ends_with_it() -> None:
    def item(at: float, dur: float, number: int) -> list[Event]:
        """An op that copies a result to the host and waits 50 us for its stream."""
        return [
            span("aten::item", at, 100),
            launch(at + 5, 5, number),
            kernel("Memcpy DtoH", at + 20, dur, number),
            span("cudaStreamSynchronize", at + 20, 50, cat="cuda_runtime", correlation=500 + number),
        ]

    events = [event for n in range(6) for event in item(1_000 * n, 200 if n == 3 else 20, n + 1)]
    trace = make_trace(*events)
    assert impossible_times(trace).after_wait == (1, 150_000)
    assert sorted(kernel_ends(believable(trace)))[3] == 3_070_000


def kernel_ends(trace: Trace) -> list[int]:
    kernels = trace.events.filter(trace.events["category"] == "kernel")
    return (kernels["start_ns"] + kernels["dur_ns"]).to_list()


def test_work_of_several_steps_that_no_wait_bounds_ends_with_its_step() -> None:
    no_waits = [event for event in steps() if event["name"] != "cudaDeviceSynchronize"]
    long = [
        event | {"dur": 9_000} if event["cat"] == "kernel" and event["ts"] == 5_410 else event for event in no_waits
    ]
    trace = make_trace(*long)
    assert impossible_times(trace).over_steps == (1, 9_000_000)
    assert max(kernel_ends(believable(trace))) == 5_990_000


def test_what_lay_inside_a_duration_that_is_cut_off_does_so_no_longer() -> None:
    long = [event | {"dur": 900} if event["cat"] == "kernel" and event["ts"] == 2_010 else event for event in steps()]
    trace = make_trace(*long)
    is_kernel = trace.events["category"] == "kernel"
    assert trace.events.filter(is_kernel)["depth"].max() == 1
    assert believable(trace).events.filter(is_kernel)["depth"].max() == 0


def test_a_step_without_some_of_its_work_is_not_complete() -> None:
    lossy = [event for event in steps() if event["cat"] != "kernel" or event["ts"] != 2_010]
    found = believable(make_trace(*lossy)).steps
    assert found.filter(~found["complete"])["number"].to_list() == [2]


@pytest.mark.parametrize("by_us", [0, 1_000])
def test_nothing_keeps_a_trace_that_was_looked_at_alive(by_us: int) -> None:
    trace = make_trace(*moved(steps(), by_us))
    right = believable(trace)
    assert believable(trace) is right
    seen = [weakref.ref(trace), weakref.ref(right)]
    del trace, right
    gc.collect()
    assert [each() for each in seen] == [None, None]


def test_a_few_early_kernels_do_not_move_a_clock_that_all_others_contradict() -> None:
    events = [
        event | {"ts": event["ts"] - 3_000}
        if event["cat"] == "kernel" and 11 <= event["args"]["correlation"] <= 13
        else event
        for event in moved(steps(), 0)
    ]
    found = impossible_times(make_trace(*events))
    assert found.clocks == ()
    assert found.before_launch.works == 3


def test_a_device_that_begins_late_has_no_clock_that_is_ahead() -> None:
    events = []
    for number in range(20):
        at = 5_000 * number
        late = 700 + 15 * number
        events += [launch(at, 5, number + 1), kernel("gemm", at + late, 500, number + 1)]
        events.append(span("cudaDeviceSynchronize", at + 20, late + 488, cat="cuda_runtime", correlation=900 + number))
    found = impossible_times(make_trace(*events))
    assert found.clocks == ()
    assert found.before_launch == NOTHING


def test_in_a_file_of_nothing_but_work_no_kernel_outlasts_the_recording() -> None:
    events = [kernel("gemm", 1_000 * n, 900 if n == 5 else 10, n + 1) for n in range(20)]
    assert impossible_times(make_trace(*events)).over_steps == NOTHING
    longest = [event | {"dur": 900_000} if event["ts"] == 19_000 else event for event in events]
    assert impossible_times(make_trace(*longest, span("aten::mm", 0, 19_000))).over_steps == (1, 900_000_000)
