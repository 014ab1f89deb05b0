"""What a step would take, on traces whose answers are worked out by hand, and on real ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from support import annotation, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.findings.what_if.ladder import ladder
from torchprof_magic.model.errors import OptionsError
from torchprof_magic.model.meta import CellSource
from torchprof_magic.model.trace import FRAME_SCHEMAS, SCOPES_SCHEMA, SITES_SCHEMA
from torchprof_magic.report.trace_report import Report

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

STEP_US = 1_000


def steps(*events: dict[str, Any], count: int = 3, step_us: int = STEP_US) -> Report:
    """A report of some equal steps; the events are those of each."""
    found: list[dict[str, Any]] = []
    for step in range(count):
        found.append(annotation(f"ProfilerStep#{step}", step * step_us, step_us))
        for event in events:
            args = event.get("args", {})
            number = {"correlation": args["correlation"] + 1_000 * step} if "correlation" in args else {}
            found.append(event | {"ts": event["ts"] + step * step_us, "args": args | number})
    return Report(make_trace(*found))


def sync(start_us: float, dur_us: float) -> dict[str, Any]:
    return span("cudaDeviceSynchronize", start_us, dur_us, cat="cuda_runtime", correlation=900)


FETCH = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
HOST = (
    annotation(FETCH, 0, 400),
    span("aten::mm", 400, 200),
    span("aten::addmm", 600, 100),
    span("aten::mm", 610, 60),
    annotation("Optimizer.step#SGD.step", 750, 100),
    span("aten::add_", 760, 80),
)
DEVICE = (
    span("aten::mm", 0, 20),
    launch(5, 10, correlation=1),
    kernel("gemm", 20, 600, correlation=1),
    span("aten::add", 30, 20),
    launch(35, 10, correlation=2),
    kernel("add", 622, 200, correlation=2),
    sync(100, 730),
)


@pytest.mark.parametrize(
    ("asked", "step_us"),
    [
        ({"faster": {"aten::mm": 2}}, STEP_US - 130),
        ({"faster": {"aten::addmm": 2}}, STEP_US - 50),
        ({"faster": {"aten::mm": 2, "aten::add_": 4}}, STEP_US - 130 - 60),
        ({"faster": {"aten::mm": 0.5}}, STEP_US + 260),
        ({"faster": {"data": 4}}, STEP_US - 300),
        ({"faster": {"optimizer": 2}}, STEP_US - 50),
        ({"faster": {"cpu": 2}}, STEP_US / 2),
        ({"without": "data"}, STEP_US - 400),
        ({"without": ("data", "optimizer")}, STEP_US - 500),
        ({"without": (0, 400_000)}, STEP_US - 400 / 3),  # of the first of three steps
    ],
)
def test_on_one_thread_a_step_is_as_much_shorter_as_what_it_runs(asked: dict[str, Any], step_us: float) -> None:
    found = steps(*HOST).what_if(**asked)
    assert found.before_ns == STEP_US * 1_000
    assert found.step_ns == pytest.approx(step_us * 1_000, abs=2)
    assert found.low_ns <= found.step_ns <= found.high_ns


@pytest.mark.parametrize(
    ("asked", "step_us"),
    [
        ({"faster": {"gemm": 2}}, STEP_US - 300),
        ({"faster": {"device": 2}}, STEP_US - 400),
        ({"faster": {"cuda:0": 2}}, STEP_US - 400),
        ({"faster": {"aten::add": 1_000}}, STEP_US - 199.8),
        ({"without": "gemm"}, 50 + 200 + 8 + 170),
    ],
)
def test_a_faster_device_helps_as_far_as_the_host_waits_for_it(asked: dict[str, Any], step_us: float) -> None:
    assert steps(*DEVICE).what_if(**asked).step_ns == pytest.approx(step_us * 1_000, abs=5_000)


def test_a_slower_device_delays_steps_even_where_nothing_waits_for_it() -> None:
    report = steps(span("aten::mm", 0, 20), launch(5, 10, correlation=1), kernel("gemm", 20, 800, correlation=1))
    assert report.what_if(faster={"gemm": 2}).step_ns == STEP_US * 1_000
    # Twice as long, each kernel ends 600 µs after its step, and the next one waits for it.
    assert report.what_if(faster={"gemm": 0.5}).step_ns == pytest.approx(1_607_000, abs=10_000)


def test_without_waits_a_step_lasts_as_long_as_the_device_is_busy() -> None:
    found = steps(*DEVICE).what_if(no_sync=True)
    # The host needs 100 µs, 8 for the call, and 170; the device 802 and its gaps.
    assert found.step_ns == pytest.approx(825_000, abs=20_000)
    assert "gemm" not in found.change


def test_workers_load_while_the_program_works() -> None:
    report = steps(annotation(FETCH, 0, 8_000), span("aten::mm", 8_000, 2_000), step_us=10_000)
    # Handing a batch over takes up to 0.5 ms; then two workers decide, who need 8 ms each.
    assert report.what_if(workers=8).step_ns == pytest.approx(2_500_000, abs=1_000)
    two = report.what_if(workers=2)
    assert two.step_ns == 4_000_000
    assert two.limit == "Then the workers decide how long a step takes."


def test_communication_beside_other_work_takes_no_longer_than_itself() -> None:
    report = steps(
        span("aten::mm", 0, 20), launch(5, 10, correlation=1), kernel("gemm", 20, 300, correlation=1),
        span("nccl:all_reduce", 30, 20), launch(35, 10, correlation=2),
        kernel("ncclKernel_AllReduce", 322, 500, correlation=2), sync(100, 730),
    )  # fmt: skip
    assert report.what_if(overlap="communication").step_ns == pytest.approx(500_000, abs=1_000)


def test_a_larger_batch_leaves_the_optimizer_and_the_cost_of_calls_as_they_are() -> None:
    found = steps(*HOST).what_if(batch=2)
    # Fetching 400 µs, and the ops but for 5 µs a call: 195 and 25 to 35 in addmm with 55 inside it.
    assert found.step_ns == pytest.approx((STEP_US + 395 + 195 + 30 + 55) * 1_000, abs=12_000)
    assert found.certainty == "guess"


def test_long_ops_are_divided_among_as_many_threads_as_there_are_cores() -> None:
    made = steps(span("aten::mm", 0, 400), span("aten::relu", 500, 100)).trace
    report = Report(replace(made, meta=replace(made.meta, cpu_threads=1, cpu_cores=2)))
    found = report.what_if(threads=8)
    assert found.saving_ns == pytest.approx(200_000, abs=10)
    assert found.certainty == "guess"
    with pytest.raises(OptionsError, match="does not say how many threads"):
        Report(made).what_if(threads=2)


@pytest.mark.parametrize(("own_us", "low_us", "high_us"), [(600, 634, 766), (20, 983.5, 996.5)])
def test_the_interval_is_a_part_of_what_is_saved_and_a_little_of_the_step(
    own_us: int, low_us: float, high_us: float
) -> None:
    # Of the 300 us saved 15 % are 45, and of 700 us 3 % are 21; of 10 us saved it is 15 % and half.
    found = steps(span("aten::mm", 0, own_us)).what_if(faster={"aten::mm": 2})
    assert (found.low_ns / 1_000, found.high_ns / 1_000) == pytest.approx((low_us, high_us), abs=0.1)


def test_steps_that_recording_makes_far_longer_give_a_guess() -> None:
    made = steps(span("aten::mm", 0, 400)).trace
    quiet, loud = (
        Report(replace(made, meta=replace(made.meta, plain_step_ns=(plain_ns,) * 5))).what_if(faster={"aten::mm": 2})
        for plain_ns in (900_000, 500_000)
    )
    assert (quiet.certainty, loud.certainty) == ("estimated", "guess")
    assert "recording makes steps 2 times as long" in str(loud)


def test_a_fetch_that_is_faster_lets_workers_have_the_next_batch_sooner() -> None:
    # Workers need 5 ms for a batch, and the program 1 ms of it for the step: it waits the rest in each fetch.
    fetch = span("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0, 4_000)
    report = steps(fetch, span("aten::mm", 4_000, 1_000), step_us=5_000, count=4)
    assert report.what_if(faster={"data": 2}).step_ns == pytest.approx(2_500_000, rel=0.15)
    assert report.what_if(without="data").step_ns == pytest.approx(1_000_000, rel=0.15)


def test_graphs_leave_python_and_the_device() -> None:
    busy = [span("aten::mm", 10 * at, 9) for at in range(40)]
    found = steps(*busy, launch(0, 5, correlation=1), kernel("gemm", 20, 300, correlation=1)).what_if(graphs=True)
    assert found.step_ns < STEP_US * 1_000 - 300_000


def test_the_answer_says_what_limits_then_and_what_it_rests_on() -> None:
    found = steps(*DEVICE).what_if(faster={"gemm": 2})
    assert str(found).splitlines()[0] == "gemm 2 times as fast: 1 ms → 700 µs per step, 300 µs less (30 %)"
    assert "of the critical path is work of the device, most of it `gemm`" in found.limit
    assert found.saving_ns == found.before_ns - found.step_ns
    assert found.speedup == pytest.approx(1 / 0.7)
    assert found.path["dur_ns"].sum() == pytest.approx(3 * found.step_ns, abs=10)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "nothing would be different"),
        ({"faster": {"aten::m": 2}}, "nothing called 'aten::m' was recorded; did you mean 'aten::mm'"),
        ({"faster": {"aten::mm": 0}}, "must be faster by a number above 0, such as 2 (got 0)"),
        ({"faster": {"aten::mm": float("nan")}}, "must be faster by a number above 0"),
        ({"faster": {"aten::mm": True}}, "must be faster by a number above 0"),
        ({"faster": {"aten::mm": float("inf")}}, "at most a million"),
        ({"faster": {"aten::mm": 2}, "without": "aten::mm"}, "'aten::mm' cannot be faster and gone at once"),
        ({"faster": "aten::mm"}, "faster must be a dict"),
        ({"faster": {(0, 10**30): 2}}, "a range must be a pair of times in ns"),
        ({"faster": {"x" * 10_000: 2}}, "xxx…' was recorded"),
        ({"no_sync": "yes"}, "no_sync must be True or False (got 'yes')"),
        ({"batch": 1e300}, "how many times as large"),
        ({"faster": {1.5: 2}}, "a name, a line or a pair of times"),
        ({"faster": {77: 2}}, "line 77 did not run; lines were not recorded"),
        ({"faster": {(5, 1): 2}}, "the first before the second"),
        ({"without": "compile"}, "no time is of the phase 'compile'"),
        ({"no_sync": True}, "no call of this recording waits for a device"),
        ({"graphs": True}, "this recording has none"),
        ({"workers": 0}, "workers must be a whole number of at least 1 (got 0)"),
        ({"overlap": "data"}, "overlap must be one of 'communication'"),
        ({"overlap": "communication"}, "no communication was recorded"),
        ({"batch": -1}, "how many times as large"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionsError) as caught:
        steps(*HOST).what_if(**asked)
    assert words in str(caught.value)


def test_loaders_with_workers_cannot_get_more_of_an_unknown_number() -> None:
    report = steps(annotation(FETCH.replace("Single", "Multi").replace("Process", "Processing"), 0, 400))
    with pytest.raises(OptionsError, match="the file does not say how many"):
        report.what_if(workers=4)


def test_a_recording_of_nothing_is_refused() -> None:
    with pytest.raises(OptionsError, match="no thread with a step was recorded"):
        Report(make_trace()).what_if(faster={"aten::mm": 2})


def test_a_recording_without_steps_is_one_step_and_says_so() -> None:
    found = Report(make_trace(span("aten::mm", 0, 60), span("aten::add", 60, 40))).what_if(faster={"aten::mm": 2})
    assert (found.before_ns, found.step_ns) == (100_000, 70_000)
    assert "the recording has no steps, so all of it is taken for one" in found.rests_on


def test_work_without_launches_is_a_guess_that_says_so() -> None:
    report = Report(make_trace(annotation("ProfilerStep#0", 0, 500), kernel("gemm", 10, 400, correlation=1)))
    found = report.what_if(faster={"gemm": 2})
    assert "no launch is in the file, so work of devices begins when it began" in found.rests_on


def test_where_nobody_knows_what_waits_for_what_a_step_may_be_shorter_by_all_that_is_saved() -> None:
    # A kernel begins 290 us after its launch, for no reason in the file, and another stream works meanwhile.
    events = (
        annotation("ProfilerStep#0", 0, 500),
        launch(0, 5, correlation=1),
        launch(5, 5, correlation=2),
        kernel("late", 300, 100, correlation=1),
        kernel("other", 20, 250, correlation=2, stream=9),
        sync(10, 390),
    )
    found = Report(make_trace(*events)).what_if(faster={"other": 2})
    assert (found.certainty, found.low_ns, found.before_ns) == ("guess", 375_000, 500_000)
    assert any("inferred or assumed" in text for text in found.rests_on)


def test_times_that_contradict_one_another_still_give_an_answer() -> None:
    events = [event | {"ts": 0.0} if event["name"] == "gemm" else event for event in DEVICE]
    found = steps(*events).what_if(faster={"aten::add": 2})
    assert 0 <= found.step_ns <= STEP_US * 1_000 + 1


def test_steps_that_do_not_count_are_not_in_the_answer() -> None:
    report = steps(*HOST)
    counted = report.counting(1)
    assert counted.what_if(without=(0, 400_000)).step_ns == STEP_US * 1_000


def waiting(*calls: tuple[str, int, int], events: Sequence[dict[str, Any]] = (span("aten::mm", 0, 100),)) -> Report:
    """Steps of which the watch of a live run has seen some waits: call, start and length in us."""
    made = steps(*events).trace
    rows = [("wait", call, "cell", 3, 0, start * 1_000, dur * 1_000, 0) for call, start, dur in calls]
    waits = pl.DataFrame(rows, schema=FRAME_SCHEMAS["waits"], orient="row")
    return Report(replace(made, waits=waits))


def test_what_the_host_waits_for_is_named_as_in_the_table_of_waits() -> None:
    report = waiting(*(("time.sleep", 1_000 * step + 200, 600) for step in range(3)), ("Queue.get", 850, 90))
    assert report.waits["call"].to_list() == ["time.sleep", "Queue.get"]
    assert report.what_if(without="time.sleep").step_ns == pytest.approx(400_000, abs=2)
    assert report.what_if(faster={"time.sleep": 2}).step_ns == pytest.approx(700_000, abs=2)
    assert report.what_if(without="Queue.get").step_ns == pytest.approx(1_000_000 - 30_000, abs=2)  # in one of three
    with pytest.raises(OptionsError, match=r"nothing called 'sleep' was recorded; did you mean 'time.sleep'"):
        report.what_if(without="sleep")


# A fetch of 500 us that sleeps for 400 in all, of which its op is no part, and then another sleep of 300.
SLEEPY = (annotation(FETCH, 0, 500), span("aten::stack", 200, 50), span("aten::mm", 500, 100))
SLEEPS = tuple(("time.sleep", 1_000 * step + start, dur) for step in range(3) for start, dur in ((0, 450), (600, 300)))


def test_a_call_that_sleeps_while_data_is_loaded_is_meant_as_well() -> None:
    report = waiting(*SLEEPS, events=SLEEPY)
    assert report.what_if(without="time.sleep").step_ns == pytest.approx(300_000, abs=2)
    assert report.what_if(without="data").step_ns == pytest.approx(500_000, abs=2)


def test_what_limits_a_step_that_sleeps_is_the_call_in_which_it_does() -> None:
    found = waiting(*SLEEPS, events=SLEEPY).what_if(without="data")
    assert "60 % of the critical path is waits of the host, most of it `time.sleep`." in found.limit
    found = waiting(*SLEEPS, events=SLEEPY).what_if(faster={"aten::mm": 2})
    assert "is loading data, most of it `time.sleep`." in found.limit


@pytest.mark.parametrize("call", ["Queue.get", "lock.acquire", "Event.wait", "socket.recv"])
def test_what_comes_from_elsewhere_need_not_come_sooner(call: str) -> None:
    # A thread that fills a queue does so at its own pace: then a wait is as much longer as the rest is shorter.
    report = waiting(*((call, 1_000 * step + 200, 600) for step in range(3)))
    found = report.what_if(without="aten::mm")
    assert (found.certainty, found.high_ns) == ("guess", found.before_ns)
    assert found.rests_on == (f"what `{call}` waits for need not come sooner, so that less may be saved",)
    alone = report.what_if(without=call)
    assert (alone.certainty, alone.rests_on) == ("estimated", ())


@pytest.mark.parametrize("call", ["time.sleep", "sleep", "asyncio.sleep"])
def test_a_sleep_takes_as_long_as_it_is_told_to(call: str) -> None:
    found = waiting(*((call, 1_000 * step + 200, 600) for step in range(3))).what_if(without="aten::mm")
    assert (found.certainty, found.rests_on) == ("estimated", ())
    assert found.high_ns < found.before_ns


def test_a_sleep_is_a_rung_of_its_own() -> None:
    _, rungs = ladder(waiting(*SLEEPS, events=SLEEPY).trace)
    assert [(rung.change, rung.step_ns) for rung in rungs[:2]] == [
        ("loading data gone", pytest.approx(500_000, abs=2)),
        ("waits of the host gone", pytest.approx(200_000, abs=2)),
    ]


def with_lines(*runs: tuple[str, int, int, int]) -> Report:
    """Steps of which forward takes 200 us and its backward 300, with runs of lines: file, line, start and length."""
    node = span("MmBackward0", 400, 300, **{"Sequence number": 1, "Fwd thread id": 1})
    made = steps(span("aten::mm", 100, 200, **{"Sequence number": 1}), node, count=1).trace
    places = list(dict.fromkeys((file, line) for file, line, _, _ in runs))
    sites = [{"kind": "line", "parent": -1, "name": "f(x)", "file": file, "line": line} for file, line in places]
    scopes = [(places.index((file, line)), 0, start * 1_000, dur * 1_000, 0) for file, line, start, dur in runs]
    meta = replace(made.meta, cell=CellSource(source="", filename="<cell 2>", label="In [2]"))
    return Report(
        replace(
            made,
            meta=replace(meta, cell_labels={"<cell 1>": "In [1]"}),
            sites=pl.DataFrame(sites, schema=SITES_SCHEMA),
            scopes=pl.DataFrame(scopes, schema=SCOPES_SCHEMA, orient="row"),
        )
    )


@pytest.mark.parametrize(
    ("what", "saved_us"),
    [
        (3, (220 + 300) / 2),  # all that it runs, with the backward pass of what it calls
        ("In [2]:3", (220 + 300) / 2),
        ("In [1]:9", (210 + 300) / 2),
        ("<cell 1>:9", (210 + 300) / 2),
        (4, 10 / 2),  # where backward was called, its time is not
    ],
)
def test_a_line_is_named_as_the_page_shows_it_and_is_all_that_it_calls(what: int | str, saved_us: float) -> None:
    runs = [("<cell 2>", 3, 90, 220), ("<cell 1>", 9, 95, 210), ("<cell 2>", 4, 395, 310)]
    found = with_lines(*runs).what_if(faster={what: 2})
    assert found.saving_ns == pytest.approx(saved_us * 1_000, abs=2)


def test_a_line_of_a_recorded_stack_is_what_it_calls(traces: Path) -> None:
    # Lines were not watched, and older torch wrote stacks at ops alone. Line 42 is the header of the loop.
    report = tp.load(traces / "05_v100_resnet50_old_schema.json.gz")
    of_line, of_data = (report.what_if(without=what) for what in ("resnet50_profiler_api.py:42", "data"))
    assert of_line.step_ns == pytest.approx(of_data.step_ns, rel=0.01)
    assert {advice.line for advice in report.advice if advice.rule == "dataloader_workers"} == {42}
    deep = report.lines["line"][0]
    assert 0 < report.what_if(without=f"resnet.py:{deep}").saving_ns < of_line.saving_ns


def test_names_of_files_are_no_code() -> None:
    hostile = "<img src=x onerror=alert(1)>`\x1b[31m"
    found = steps(span(hostile, 0, 500)).what_if(faster={hostile: 2})
    assert found.step_ns == 750_000
    assert "\x1b" not in str(found)


REAL = {
    "02_a100*": ({"graphs": True}, "dispatch"),
    "05_v100*": ({"workers": 4}, "data"),
    "06_v100*/rank1*": ({"overlap": "communication"}, "communication"),
    "18_synthetic/s0*": ({"faster": {"gemm_kernel": 2}}, "compute"),
}


@pytest.mark.parametrize("pattern", REAL)
def test_what_the_verdict_names_makes_a_real_step_shorter(traces: Path, pattern: str) -> None:
    report = tp.load(next(iter(sorted(traces.glob(pattern)))))
    asked, kind = REAL[pattern]
    assert report.verdict.kind == kind
    found = report.what_if(**asked)  # type: ignore[arg-type]
    assert found.step_ns < 0.95 * found.before_ns
    assert found.low_ns <= found.step_ns <= found.high_ns


def test_what_is_not_on_the_path_changes_nothing(traces: Path) -> None:
    report = tp.load(traces / "02_a100_ddp_rank0of2.json.gz")
    beside = report.kernels.filter(pl.col("on_path_ns") == 0)["name"][0]
    assert report.what_if(faster={beside: 2}).step_ns == pytest.approx(report.what_if(faster={beside: 1}).step_ns)


def test_an_answer_is_frozen() -> None:
    found = steps(*HOST).what_if(without="data")
    assert replace(found, step_ns=1.0).step_ns == 1.0


def test_the_page_asks_what_a_step_would_take_and_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    widget, answers = steps(*HOST).widget, list[dict[str, Any]]()
    monkeypatch.setattr(widget, "send", lambda head, _=(): answers.append(head))
    widget._answer(None, {"kind": "what_if", "id": "tp-1", "name": "aten::mm"}, [])
    widget._answer(None, {"kind": "what_if", "id": "tp-2", "name": "aten::m"}, [])
    assert answers[0] == {"kind": "what_if", "id": "tp-1", "text": "2× faster: 1 ms → 870 µs per step"}
    # The first 400 us of one of three steps, as a range that is dragged in the timeline.
    widget._answer(None, {"kind": "what_if", "id": "tp-3", "start_ns": 0, "end_ns": 400_000}, [])
    assert answers.pop()["text"] == "2× faster: 1 ms → 933 µs per step"
    assert answers[1]["kind"] == "error"
    assert answers[1]["message"].startswith("nothing called 'aten::m' was recorded; did you mean 'aten::mm'")


def test_a_step_as_graphs_is_not_shorter_than_the_work_of_its_busiest_stream() -> None:
    # An op of 990 us launches two kernels of 200 us. As a graph, the host has nothing else to do.
    found = steps(
        span("aten::mm", 0, 990),
        launch(100, 10, correlation=1),
        kernel("gemm", 120, 200, correlation=1),
        launch(500, 10, correlation=2),
        kernel("gemm", 520, 200, correlation=2),
    ).what_if(graphs=True)
    assert 400_000 <= found.step_ns < 500_000
    assert "kernels of the device decide how long a step takes" in found.limit


def test_where_little_of_a_step_is_left_the_answer_is_a_guess_that_says_so() -> None:
    report = steps(*HOST)
    assert report.what_if(faster={"cpu": 2}).certainty == "estimated"
    found = report.what_if(faster={"cpu": 4})
    assert found.certainty == "guess"
    assert any("little of a step is left" in text for text in found.rests_on)


@pytest.mark.parametrize("has_steps", [True, False])
def test_nothing_is_said_to_be_per_step_where_no_step_was_recorded(*, has_steps: bool) -> None:
    events = [span("aten::mm", 0, 90), launch(10, 5, correlation=1), kernel("gemm", 20, 60, correlation=1)]
    found = Report(make_trace(*events, *([annotation("ProfilerStep#0", 0, 100)] if has_steps else [])))
    for answer in (found.what_if(faster={"aten::mm": 2}), found.what_if(graphs=True), found.what_if(without="gemm")):
        assert ("step" in str(answer).replace("the recording has no steps", "")) == has_steps
        assert answer.has_steps == has_steps
