from __future__ import annotations

from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.facts.counted_steps import counted_part, counted_steps
from torchprof_magic.facts.device.device_time import device_time
from torchprof_magic.facts.time_range import TimeRange
from torchprof_magic.findings.verdict.accounts import device_account
from torchprof_magic.model.shapes import DeviceTime
from torchprof_magic.tables.flame.call_tree import flame_tree
from torchprof_magic.tables.ops.op_table import ops_table

# From 10 to 110 us the step; 5 us of a kernel before it, 20 after, and 10 in which two streams work.
EVENTS = (
    annotation("ProfilerStep#0", 10, 100),
    span("aten::mm", 12, 5),
    launch(13, 1, correlation=1),
    kernel("early", 5, 10, correlation=2),
    kernel("gemm", 40, 30, correlation=1),
    kernel("copy", 60, 20, stream=9, correlation=3),
    kernel("late", 100, 30, correlation=4),
)


def test_device_time_is_busy_time_and_work_at_the_same_time_and_outside_of_the_steps() -> None:
    trace = make_trace(*EVENTS)
    found = device_time(trace)
    # In the step: 5 of early, 40 to 80 of two streams, 10 of late; times begin with the first event, at 5 us.
    assert found == DeviceTime(devices=1, busy_ns=55_000, overlap_ns=10_000, outside_ns=25_000, has_steps=True)
    assert flame_tree(trace).frame["total_device_ns"][0] == ops_table(trace).frame["self_device_ns"].sum() == 90_000
    account = device_account(trace)
    assert account is not None
    assert account.busy_ns == 55_000


def test_in_a_range_nothing_is_outside() -> None:
    found = device_time(make_trace(*EVENTS), TimeRange(55_000, 105_000))
    assert found == DeviceTime(devices=1, busy_ns=30_000, overlap_ns=10_000, outside_ns=0, has_steps=True)


def test_without_steps_what_is_outside_ran_before_the_first_op() -> None:
    found = device_time(make_trace(*EVENTS[1:]))
    # The first op begins at 12 us, the last work ends at 130 us.
    assert found == DeviceTime(devices=1, busy_ns=73_000, overlap_ns=10_000, outside_ns=7_000, has_steps=False)


def test_busy_times_of_devices_add_up() -> None:
    events = (
        annotation("ProfilerStep#0", 0, 100),
        kernel("a", 0, 30, device=0, correlation=5),
        kernel("b", 10, 40, device=1, correlation=6),
    )
    found = device_time(make_trace(*events))
    assert found == DeviceTime(devices=2, busy_ns=70_000, overlap_ns=0, outside_ns=0, has_steps=True)


def test_a_trace_without_device_work_has_no_device_time() -> None:
    assert device_time(make_trace(span("aten::mm", 0, 5))) is None


def test_work_of_a_step_that_does_not_count_is_in_no_part() -> None:
    """Four steps of 10 us with 6 us of work each, of which 1 us runs after the step; the fifth takes far longer."""
    events = [annotation("ProfilerStep#4", 48, 100), kernel("k", 60, 50, correlation=7)]
    for number, start in enumerate((0, 12, 24, 36)):
        events += [annotation(f"ProfilerStep#{number}", start, 10), kernel("k", start + 5, 6, correlation=8)]
    trace = make_trace(*events)
    assert counted_steps(trace).steps == 4
    found = device_time(trace, counted_part(trace))
    assert found == DeviceTime(devices=1, busy_ns=20_000, overlap_ns=0, outside_ns=4_000, has_steps=True)
