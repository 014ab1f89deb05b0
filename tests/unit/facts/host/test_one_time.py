from __future__ import annotations

from typing import Any

from support import annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.facts.host.one_time import one_time_events, one_time_spans
from torchprof_magic.model.trace import Trace

Event = dict[str, Any]


def call(name: str, start_us: float, dur_us: float) -> Event:
    return span(name, start_us, dur_us, cat="cuda_runtime", correlation=int(start_us) + 500_000)


def once(*events: Event) -> list[tuple[str, int]]:
    """The names and starts in us of the events that are done once."""
    trace = make_trace(*events)
    found = trace.events.filter(one_time_events(trace))
    return [(name, start // 1_000) for name, start in found.select("name", "start_ns").rows()]


def launches(name: str, first_us: float, *lengths_us: float) -> list[Event]:
    """Launches of one kernel, one after the other, with these lengths."""
    events, at = [], first_us
    for number, length in enumerate(lengths_us):
        correlation = int(first_us) + number + 1
        events += [launch(at, length, correlation), kernel(name, at + length + 5, 2, correlation)]
        at += length + 20
    return events


def test_a_slow_first_launch_of_a_kernel_loads_it_and_a_later_one_does_not() -> None:
    assert once(*launches("a", 0, 2_000, 10, 2_000)) == [("cudaLaunchKernel", 0)]
    both = [*launches("a", 0, 2_000, 10), *launches("b", 5_000, 1_500, 10)]
    assert once(*both) == [("cudaLaunchKernel", 0), ("cudaLaunchKernel", 5_000)]


def test_launches_of_less_than_1_ms_are_ordinary() -> None:
    assert once(*launches("a", 0, 900, 10, 10)) == []


def test_the_first_call_that_takes_20_times_as_long_as_later_ones_starts_the_driver() -> None:
    name = "cudaDeviceGetStreamPriorityRange"
    assert once(call(name, 0, 5_000), call(name, 6_000, 10), call(name, 7_000, 10)) == [(name, 0)]
    assert once(call(name, 0, 5_000), call(name, 6_000, 4_000)) == []
    assert once(call(name, 0, 5_000)) == [(name, 0)]


def test_waits_and_copies_are_long_for_other_reasons() -> None:
    assert once(call("cudaDeviceSynchronize", 0, 50_000), call("cudaMemcpyAsync", 60_000, 50_000)) == []


def test_a_range_of_the_program_with_a_number_in_its_name_is_no_call_of_the_driver() -> None:
    assert once(call("predictor_executor::run thread:17", 0, 50_000)) == []


def test_the_first_call_of_an_op_counts_without_what_it_waits_for() -> None:
    device = launches("a", 500_000, 10)
    later = [span("aten::conv2d", 300_000 + 1_000 * n, 100) for n in range(3)]
    assert once(span("aten::conv2d", 0, 50_000), *later, *device) == [("aten::conv2d", 0)]
    waiting = [span("aten::conv2d", 0, 50_000), call("cudaStreamSynchronize", 10, 49_000)]
    assert once(*waiting, *later, *device) == []


def test_without_a_device_the_first_call_of_an_op_may_just_be_the_largest() -> None:
    assert once(span("aten::mm", 0, 50_000), span("aten::mm", 60_000, 100)) == []


def test_imports_are_done_once() -> None:
    name = "<frozen importlib._bootstrap>(1022): _find_and_load"
    assert once(frame(name, 0, 500)) == [(name, 0)]


def test_the_first_batch_waits_for_worker_processes_to_start() -> None:
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    fetches = [annotation(name, 0, 30_000), annotation(name, 40_000, 500), annotation(name, 50_000, 500)]
    assert once(*fetches) == [(name, 0)]
    assert once(*(event | {"dur": 30_000} for event in fetches)) == []


def test_the_times_of_what_is_done_once_are_disjoint_and_hold_captures() -> None:
    trace: Trace = make_trace(
        *launches("a", 0, 2_000, 10), call("cudaStreamBeginCapture", 5_000, 5), call("cudaStreamEndCapture", 6_000, 5)
    )
    start, end = one_time_spans(trace)
    assert list(zip(start.tolist(), end.tolist(), strict=True)) == [(0, 2_000_000), (5_000_000, 6_005_000)]


def in_steps(*steps: list[tuple[str, float]], first: int = 0) -> list[Event]:
    """Steps of 100 ms from number ``first`` on, each with these ops, one after the other, of so many us."""
    events = []
    for number, ops in enumerate(steps, first):
        at = 100_000.0 * number
        events.append(annotation(f"ProfilerStep#{number}", at, 99_000))
        for name, dur in ops:
            events.append(span(name, at, dur))
            at += dur + 10
    return events


def test_an_op_of_the_first_step_counts_if_it_is_far_longer_than_in_the_same_place_of_others() -> None:
    usual = [("aten::conv2d", 3_000), ("aten::conv2d", 500)]
    first = [("aten::conv2d", 40_000), ("aten::conv2d", 500)]
    assert once(*in_steps(first, usual, usual)) == [("aten::conv2d", 0)]
    assert once(*in_steps(usual, first, usual)) == []
    # The larger one is the first in every step, and is no sign of anything.
    larger_first = [("aten::mm", 40_000.0), ("aten::mm", 500.0)]
    assert once(*in_steps(larger_first, larger_first, larger_first)) == []


def test_an_op_that_steps_before_the_recording_have_called_is_slow_for_other_reasons() -> None:
    usual, slow = [("aten::conv2d", 3_000)], [("aten::conv2d", 40_000)]
    assert once(*in_steps(slow, usual, usual, first=2)) == []
    only_there = [*usual, ("aten::svd", 5_000)]
    assert once(*in_steps(only_there, usual, usual, first=2)) == [("aten::svd", 3_010)]


def test_an_op_that_is_long_in_a_later_step_as_well_is_no_work_that_is_done_once() -> None:
    usual, slow = [("aten::mm", 1_000)], [("aten::mm", 20_000)]
    assert once(*in_steps([("aten::mm", 40_000)], slow, usual, usual, usual)) == []


def test_an_op_that_only_the_first_step_has_builds_something() -> None:
    first = [("aten::uniform_", 5_000), ("aten::mm", 500)]
    assert once(*in_steps(first, [("aten::mm", 500)], [("aten::mm", 500)])) == [("aten::uniform_", 0)]
    assert once(*in_steps(first, [("aten::mm", 500)])) == []  # two steps are too few to tell


def test_an_op_that_takes_5_ms_for_each_launch_looks_for_an_algorithm_or_compiles() -> None:
    slow = [span("aten::conv2d", 0, 30_000), launch(29_000, 10, 1), kernel("a", 29_020, 50, 1)]
    assert once(*slow) == [("aten::conv2d", 0)]
    # Ten launches take 3 ms each, as in a loop over many small tensors.
    many = [span("aten::_foreach_add_", 0, 30_000)]
    for n in range(10):
        many += [launch(3_000 * n, 10, n + 1), kernel("a", 3_000 * n + 20, 5, n + 1)]
    assert once(*many) == []
    # What launches nothing computes on the host.
    assert once(span("aten::mm", 0, 30_000), *launches("a", 40_000, 10)) == []


def test_in_later_steps_an_op_may_take_long_again_and_again() -> None:
    steps = [
        event
        for n in range(3)
        for event in (
            annotation(f"ProfilerStep#{n}", 100_000 * n, 90_000),
            span("aten::conv2d", 100_000 * n, 30_000),
            launch(100_000 * n + 29_000, 10, n + 1),
            kernel("a", 100_000 * n + 29_020, 50, n + 1),
        )
    ]
    assert once(*steps) == []


def test_slow_ops_that_take_as_long_whenever_they_are_called_are_steady_work() -> None:
    def calls(*lengths_us: float) -> list[Event]:
        events, at = [], 0.0
        for number, length in enumerate(lengths_us, 1):
            op = span("aten::linalg_eigh", at, length)
            events += [op, launch(at + length - 100, 10, number), kernel("a", at + length - 80, 50, number)]
            at += length + 10
        return events

    assert once(*calls(12_000, 12_000, 12_000, 12_000)) == []
    assert once(*calls(60_000, 12_000, 300, 300))[0] == ("aten::linalg_eigh", 0)
