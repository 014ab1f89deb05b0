"""Advice on lines that sleep or wait, in two steps of 100 ms."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from support import Event, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.findings.advice import Advice
from torchprof_magic.findings.advice.rules.host_waits import sleeping, waiting
from torchprof_magic.model.trace import FRAME_SCHEMAS, Trace
from torchprof_magic.report.trace_report import Report

STEPS = (annotation("ProfilerStep#1", 0, 100_000), annotation("ProfilerStep#2", 100_000, 100_000))
OPS = (span("aten::mm", 0, 10_000), span("aten::mm", 100_000, 10_000))
BATCH = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def seen(call: str, *starts_ms: int, events: tuple[Event, ...] = ()) -> Trace:
    """A trace in which a live run saw a call of line 3 wait for 20 ms at some moments."""
    rows = [("wait", call, "cell", 3, 0, start * 1_000_000, 20_000_000, 0) for start in starts_ms]
    waits = pl.DataFrame(rows, schema=FRAME_SCHEMAS["waits"], orient="row")
    return replace(make_trace(*STEPS, *OPS, *events), waits=waits)


def only(trace: Trace, rule: str = "sleeping") -> Advice:
    (found,) = (each for each in Report(trace).advice if each.rule == rule)
    return found


def test_a_line_that_sleeps_in_each_step_is_told_not_to() -> None:
    found = only(seen("time.sleep", 50, 150))
    assert (found.file, found.line, found.saving_ns, found.certainty) == ("cell", 3, 20_000_000, "measured")
    assert found.evidence == "The program sleeps 20 ms per step on this line."


def test_a_sleep_in_one_step_of_two_costs_half_of_it() -> None:
    assert only(seen("asyncio.sleep", 150)).saving_ns == 10_000_000


def test_a_sleep_at_the_end_of_a_step_costs_all_of_it_and_nothing_of_the_time_between_steps() -> None:
    # The steps end 20 ms before what the profiler calls a step, as where ending it takes so long.
    trace = seen("time.sleep", 60, 160)
    steps = trace.steps.with_columns(pl.col("end_ns") - 20_000_000)
    assert only(replace(trace, steps=steps)).saving_ns == 20_000_000


def test_other_waits_are_no_sleep() -> None:
    assert sleeping(seen("Queue.get", 50, 150)) == []
    assert sleeping(seen("oversleep", 50, 150)) == []


def test_a_queue_that_is_empty_is_to_be_filled_faster() -> None:
    found = only(seen("Queue.get", 50, 150), "waiting")
    assert (found.file, found.line, found.saving_ns, found.certainty) == ("cell", 3, 20_000_000, "measured")
    assert (found.op, found.title) == ("Queue.get", "Fill the queue faster")
    assert found.evidence == "The program waits in `Queue.get` for 20 ms per step on this line."


def test_what_is_waited_for_can_run_beside_the_rest_of_the_step_at_best() -> None:
    found = only(seen("c.recv", 50, 150), "waiting")
    assert (found.saving_ns, found.certainty) == (20_000_000, "estimated")
    assert found.fix == "start what `c.recv` waits for a step earlier, in a thread or a process of its own"
    # Four waits of 20 ms leave 20 of the 100 ms of a step.
    found = only(seen("c.recv", 10, 30, 50, 70, 110, 130, 150, 170), "waiting")
    assert found.saving_ns == 20_000_000
    assert found.evidence.endswith("At most 20 ms of it can run beside the rest of the step.")


@pytest.mark.parametrize("call", ["torch.save", "f.write", "sys.stdout.flush", "print", "q.put"])
def test_nobody_is_told_to_start_earlier_what_the_program_writes(call: str) -> None:
    assert waiting(seen(call, 50, 150)) == []


def test_two_calls_of_one_line_that_wait_are_two_pieces_of_advice() -> None:
    trace = seen("c.poll", 20, 120)
    trace = replace(trace, waits=pl.concat([trace.waits, seen("c.recv", 50, 150).waits]).sort("start_ns"))
    assert {each.op for each in waiting(trace)} == {"c.poll", "c.recv"}


def test_sleeping_and_collecting_garbage_wait_for_nobody() -> None:
    assert waiting(seen("time.sleep", 50, 150)) == []
    trace = seen("gc.collect", 50, 150)
    collections = trace.waits.with_columns(kind=pl.lit("collection", trace.waits.schema["kind"]))
    assert waiting(replace(trace, waits=collections)) == []


def test_the_name_of_a_call_cannot_end_the_code_that_it_stands_in() -> None:
    (found,) = waiting(seen("a`b", 50, 150))
    assert "`a'b`" in found.fix


def test_waiting_while_a_loader_fetches_is_left_to_the_advice_on_it() -> None:
    fetches = annotation(BATCH, 45_000, 30_000), annotation(BATCH, 145_000, 30_000)
    assert waiting(seen("Queue.get", 50, 150, events=fetches)) == []


def test_while_a_step_waits_for_the_device_anyway_sleeping_costs_nothing() -> None:
    # In the first step the host then waits for a device that works until 85 ms; in the other it idles.
    work = launch(5_000, 1, correlation=1), kernel("gemm", 5_010, 79_990, correlation=1)
    wait = span("cudaDeviceSynchronize", 70_000, 15_010, cat="cuda_runtime", correlation=2)
    found = only(seen("time.sleep", 50, 150, events=(*work, wait)))
    assert found.saving_ns == 10_000_000
    assert found.evidence == "The program sleeps 20 ms per step on this line, and the device waits 10 ms of it."


def test_a_sleep_beside_work_of_the_device_costs_what_the_host_is_later() -> None:
    # The device works until 65 ms, and nothing waits for it: without sleeping, each step takes 80 ms.
    work = launch(5_000, 1, correlation=1), kernel("gemm", 5_010, 59_990, correlation=1)
    assert only(seen("time.sleep", 50, 150, events=work)).saving_ns == 20_000_000


def test_a_dataset_that_sleeps_is_left_to_the_advice_on_its_loader() -> None:
    fetches = annotation(BATCH, 45_000, 30_000), annotation(BATCH, 145_000, 30_000)
    assert sleeping(seen("time.sleep", 50, 150, events=fetches)) == []


def test_a_recorded_call_of_sleep_has_the_line_of_its_caller() -> None:
    calls = [
        frame(name, start, dur)
        for at in (50_000, 150_000)
        for name, start, dur in (("/home/me/train.py(7): rest", at, 20_000), ("<built-in function sleep>", at, 20_000))
    ]
    found = only(make_trace(*STEPS, *OPS, *calls))
    assert (found.file, found.line, found.saving_ns) == ("/home/me/train.py", 7, 20_000_000)


def test_less_than_a_ms_per_step_is_not_worth_a_word() -> None:
    calls = [frame("<built-in function sleep>", at, 900) for at in (50_000, 150_000)]
    assert sleeping(make_trace(*STEPS, *OPS, *calls)) == []
