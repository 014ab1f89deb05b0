"""What speaks against a verdict, in sentences."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
from support import annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.facts.device.believable import believable
from torchprof_magic.findings.verdict.decision import find_verdict
from torchprof_magic.findings.verdict.doubts import find_doubts
from torchprof_magic.model.meta import StepMark, TwoPass


def doubts(*lengths_us: int) -> list[str]:
    """Return the doubts about steps of these lengths, one after another."""
    starts = [0, *accumulate(lengths_us)]
    steps = [
        event
        for number, (start, length) in enumerate(zip(starts, lengths_us, strict=False), 1)
        for event in (annotation(f"ProfilerStep#{number}", start, length), span("aten::mm", start, length))
    ]
    return list(find_doubts(make_trace(*steps)))


def test_a_step_that_is_far_longer_than_the_others_is_left_out_and_named() -> None:
    (doubt,) = doubts(100, 101, 99, 100, 300, 100)
    assert doubt.startswith("Step 5 took 3 times as long as the median")
    assert doubt.endswith("; it is left out.")


def test_of_several_outliers_the_longest_is_named_and_all_are_counted() -> None:
    (doubt,) = doubts(100, 250, 100, 100, 300, 100, 100)
    assert doubt.startswith("Step 5 took 3 times as long as the median")
    assert doubt.endswith("; 2 long steps are left out.")


def test_other_programs_that_take_the_cores_of_the_run_are_told() -> None:
    steps = [
        event
        for n in range(4)
        for event in (annotation(f"ProfilerStep#{n}", n * 100, 100), span("aten::mm", n * 100, 100))
    ]
    trace = make_trace(*steps)

    def doubts_with(**facts: object) -> tuple[str, ...]:
        return find_doubts(replace(trace, meta=replace(trace.meta, **facts)))  # type: ignore[arg-type]

    # Four threads on four cores, two of which are taken: half of the threads share a core.
    (doubt,) = doubts_with(others_share=0.5, cpu_cores=4, cpu_threads=4)
    assert doubt == "Other programs used 50 % of the machine's cores meanwhile, which makes steps longer."
    # Two threads find the other two cores free.
    assert doubts_with(others_share=0.5, cpu_cores=4, cpu_threads=2) == ()
    assert doubts_with(others_share=0.1, cpu_cores=4, cpu_threads=4) == ()
    assert doubts_with(cpu_cores=4, cpu_threads=4) == ()


def test_few_steps_are_called_few() -> None:
    assert doubts(100, 100) == ["Only 2 complete steps recorded, too few to tell how much steps differ."]


def test_few_steps_beside_an_outlier_do_not_count_as_all_that_were_recorded() -> None:
    outlier, few = doubts(100, 300, 100)
    assert outlier.startswith("Step 2 took 3 times")
    assert few == "Only 2 typical steps left, too few to tell how much steps differ."


def test_even_steps_leave_no_doubt() -> None:
    assert doubts(100, 100, 101, 99, 100, 100) == []


def test_steps_that_become_shorter_say_that_the_warm_up_was_not_over() -> None:
    (doubt, *_) = doubts(140, 130, 120, 112, 105, 100)
    assert doubt == "Steps became 24.1 % shorter during the recording, so the warm-up was not over."


@pytest.mark.parametrize(
    ("plain_us", "seen", "advised"),
    [
        # Of 50 steps, four were recorded, which are 0 to 3, and 46 not: the last 30 of them are 20 to 49.
        ([*14 * [90], 300, 90, *30 * [300]], 50, 20),
        ([*46 * [300]], 50, 4),  # from the step after the recording on
        ([*47 * [300]], 50, None),  # one of them came before it
        ([*30 * [90], *5 * [300]], 39, None),  # not long enough to be the rest of the loop
        ([*30 * [90, 90, 300]], 94, None),  # every third step
        ([*14 * [90], *30 * [300]], 2_000, None),  # of so many steps, most are not known
        ([*14 * [90], *30 * [300]], 0, None),  # nobody has counted them
    ],
)
def test_where_a_loop_takes_longer_from_some_step_on_that_step_is_named(
    plain_us: list[int], seen: int, advised: int | None
) -> None:
    trace = make_trace(*(annotation(f"ProfilerStep#{n}", n * 1000, 100) for n in range(4)))
    marks = tuple(StepMark(number=number, cycle=0, is_complete=True) for number in range(4))
    passes = TwoPass(times_cycle=0, details_cycle=1, steps_seen=seen)
    plain = tuple(each * 1000 for each in plain_us)
    meta = replace(trace.meta, plain_step_ns=plain, recorded_steps=marks, two_pass=passes)
    (doubt,) = [each for each in find_doubts(replace(trace, meta=meta)) if "without the profiler took" in each]
    if advised is None:
        assert doubt.endswith("Record more steps, with --active.")
    else:
        assert f"From about step {advised} on, most take that long: record those, with --wait {advised}." in doubt


def test_time_in_steps_that_do_more_than_those_recorded_is_told() -> None:
    """As of a GAN whose generator is trained in every fifth step."""

    def doubts_with(*plain_us: int, counting: int = 100) -> list[str]:
        steps = [
            event
            for n in range(4)
            for event in (annotation(f"ProfilerStep#{n}", n * 1000, counting), span("aten::mm", n * 1000, counting))
        ]
        trace = make_trace(*steps)
        plain = tuple(each * 1000 for each in plain_us)
        return list(find_doubts(replace(trace, meta=replace(trace.meta, plain_step_ns=plain))))

    (doubt,) = doubts_with(90, 90, 90, 90, 160, 90, 90, 90, 90, 200)
    assert doubt == (
        "2 of 10 steps without the profiler took more than 1.5 times as long as each that counts, 33.3 % of their "
        "time: what takes longer there is in none of these figures. Record more steps, with --active."
    )
    assert doubts_with(90, 90, 90, 90, 140, 90, 90, 90, 90, 140) == []
    assert doubts_with(90, 90, 90, 1000) == []  # one may have been a collection of garbage
    assert doubts_with(*30 * [90], 160, 200) == []
    assert doubts_with(*5 * [90], 160, 200, counting=130) == []


def launches_in_steps(*lost: int) -> list[dict[str, Any]]:
    """Five steps of 100 us, each with a launch and its kernel, unless that is lost, and a wait for it."""
    events: list[dict[str, Any]] = []
    for number in range(1, 6):
        at = 100 * number
        events += [annotation(f"ProfilerStep#{number}", at, 100), span("aten::mm", at, 50), launch(at + 5, 5, number)]
        events.append(span("cudaDeviceSynchronize", at + 90, 8, cat="cuda_runtime", correlation=number + 50))
        if number not in lost:
            events.append(kernel("gemm", at + 15, 70, number))
    return events


def test_steps_that_miss_work_are_left_out_and_named() -> None:
    verdict = find_verdict(believable(make_trace(*launches_in_steps(2, 4))))
    assert verdict.doubts == ("2 of 5 launches have no work in the file, in steps 2 and 4; these steps are left out.",)
    assert (verdict.certainty, verdict.whole_ns) == ("likely", 300_000)


def test_a_verdict_of_steps_that_all_miss_work_is_not_sure() -> None:
    verdict = find_verdict(make_trace(*launches_in_steps(1, 2, 3, 4, 5)[:], kernel("other", 560, 5, 999)))
    assert verdict.doubts[0].startswith("5 of 5 launches have no work in the file (100 %), so the device may have been")
    assert verdict.certainty == "not sure"


def test_a_clock_that_was_off_is_a_doubt_although_it_is_set_right() -> None:
    moved = [
        event | {"ts": event["ts"] - 5_000} if event["cat"] == "kernel" else event for event in launches_in_steps()
    ]  # type: ignore[operator]
    trace = make_trace(*moved)
    assert find_doubts(believable(trace)) == ("The clock of the device was off by about 5 ms, which is corrected.",)
    assert find_doubts(trace) == ("The clock of the device was off by about 5 ms.",)  # of the file as it is


def test_times_that_cannot_be_true_are_called_cut_off_only_where_they_are() -> None:
    long = [
        event | {"dur": 300} if event["name"] == "gemm" and event["ts"] == 215 else event
        for event in launches_in_steps()
    ]
    trace = make_trace(*long)
    assert find_doubts(believable(trace)) == (
        "One piece of the device's work has times that cannot be true; what is impossible was cut off.",
    )
    assert find_doubts(trace) == ("One piece of the device's work has times that cannot be true.",)
    early = [
        event | {"ts": 195, "dur": 20} if event["name"] == "gemm" and event["ts"] == 215 else event
        for event in launches_in_steps()
    ]
    assert find_doubts(believable(make_trace(*early))) == (
        "One piece of the device's work has times that cannot be true.",
    )


def test_an_outlier_says_what_it_did_only_once() -> None:
    steps = [(0, 90_000), (100_000, 1_000), (110_000, 1_000), (120_000, 1_000)]
    events = [
        event
        for number, (at, dur) in enumerate(steps)
        for event in (annotation(f"ProfilerStep#{number}", at, dur + 100), span("aten::conv2d", at, dur))
    ]
    (doubt,) = find_doubts(make_trace(*events))
    assert "90 ms of it for work that is done once: the first call of an op (aten::conv2d); it is left out." in doubt


def test_the_first_step_says_what_it_did_only_once_also_if_a_later_one_took_longer() -> None:
    steps = [(0, 90_000), (100_000, 1_000), (110_000, 1_000), (120_000, 1_000), (130_000, 1_000)]
    events = [
        event
        for number, (at, dur) in enumerate(steps)
        for event in (annotation(f"ProfilerStep#{number}", at, dur + 100), span("aten::conv2d", at, dur))
    ]
    slow = [annotation("ProfilerStep#5", 200_000, 301_100), span("aten::conv2d", 200_000, 1_000)]
    (doubt, *_) = find_doubts(make_trace(*events, *slow, span("aten::sort", 201_100, 300_000)))
    assert doubt.startswith("Step 5 took 274 times as long as the median")  # 301.1 ms to 1.1 ms
    once = "90 ms of it for work that is done once: the first call of an op (aten::conv2d)"
    assert f"; 2 long steps are left out. Step 0 took 90.1 ms, {once}." in doubt


def test_a_step_that_imported_modules_says_so() -> None:
    trace = make_trace(*(annotation(f"ProfilerStep#{n}", at, dur) for n, at, dur in IMPORTING), span("aten::mm", 0, 1))
    marks = tuple(
        StepMark(number=n, cycle=0, is_complete=True, imported=90 * (n == 0), imports=("pandas",) * (n == 0))
        for n in range(4)
    )
    (doubt,) = find_doubts(replace(trace, meta=replace(trace.meta, recorded_steps=marks)))
    assert doubt.endswith(
        "times as long as the median, 89.9 ms longer in python, and imported 90 modules (pandas), which is done "
        "once; it is left out."
    )
    few = replace(trace, steps=trace.steps.head(1), meta=replace(trace.meta, recorded_steps=marks))
    assert find_doubts(few)[0] == ("A step imported 90 modules (pandas), which is done once; record later steps too.")


def test_imports_that_take_most_of_the_steps_are_initialisation_and_not_python() -> None:
    trace = make_trace(annotation("ProfilerStep#0", 0, 90_000), span("aten::mm", 0, 20_000))
    mark = StepMark(
        number=0, cycle=0, is_complete=True, cpu_ns=90_000_000, imported=90, imports=("pandas",), import_ns=60_000_000
    )
    verdict = find_verdict(replace(trace, meta=replace(trace.meta, recorded_steps=(mark,))))
    assert verdict.kind == "initialisation"
    assert "takes 60 ms of 90 ms per step (66.7 %), above all in pandas." in str(verdict)


def steps_with_ops_before(lengths_us: tuple[int, ...], ops_before: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the doubts about steps of one op, from a process that had recorded these ops before."""
    starts = [0, *accumulate(lengths_us)]
    events = [
        event
        for number, (start, length) in enumerate(zip(starts, lengths_us, strict=False))
        for event in (annotation(f"ProfilerStep#{number}", start, length), span("aten::conv2d", start, length))
    ]
    trace = make_trace(*events)
    return find_doubts(replace(trace, meta=replace(trace.meta, ops_before=ops_before)))


def test_an_op_that_the_process_recorded_before_is_not_called_for_the_first_time() -> None:
    (known,) = steps_with_ops_before((90_000, 1_000, 1_000, 1_000), ("aten::conv2d",))
    assert "89 ms longer in forward; it is left out." in known
    (new,) = steps_with_ops_before((90_000, 1_000, 1_000, 1_000), ())
    assert "90 ms of it for work that is done once: the first call of an op (aten::conv2d)" in new


def test_a_first_step_of_ops_that_are_new_may_have_done_what_is_done_once() -> None:
    (doubt,) = steps_with_ops_before((2_000, 900, 900, 900), ())
    assert doubt.endswith("1.10 ms longer in forward, and may have done what is done once; it is left out.")


def test_a_single_step_says_whether_what_is_done_once_may_be_in_it() -> None:
    (new,) = steps_with_ops_before((90_000,), ())
    assert "so work that is done once may be part of it. Record it again, or more steps." in new
    for known in (("aten::conv2d",), None):
        (doubt,) = steps_with_ops_before((90_000,), known)
        assert doubt == "Only 1 complete step recorded, too few to tell how much steps differ."


IMPORTING = ((0, 0, 90_000), (1, 90_000, 100), (2, 90_100, 100), (3, 90_200, 100))


def test_recorded_python_calls_are_a_doubt_where_the_host_is_the_limit() -> None:
    (doubt,) = find_doubts(make_trace(span("aten::mm", 0, 90), frame("model.py(3): forward", 0, 100)))
    assert doubt.startswith("Python calls were recorded (with_stack)")


def test_imports_that_sleep_are_no_waiting_of_the_program() -> None:
    trace = make_trace(annotation("ProfilerStep#0", 0, 90_000), span("aten::mm", 0, 20_000))
    mark = StepMark(
        number=0, cycle=0, is_complete=True, cpu_ns=25_000_000, imported=3, imports=("slow",), import_ns=60_000_000
    )
    verdict = find_verdict(replace(trace, meta=replace(trace.meta, recorded_steps=(mark,))))
    assert verdict.kind == "initialisation"


def test_what_ending_a_step_takes_is_no_sleep() -> None:
    def kind(length_us: int, cpu_us: int) -> str:
        steps = [annotation(f"ProfilerStep#{n}", n * length_us, length_us) for n in range(4)]
        ops = [span("aten::mm", n * length_us, length_us // 3) for n in range(4)]
        trace = make_trace(*steps, *ops)
        marks = tuple(StepMark(number=n, cycle=0, is_complete=True, cpu_ns=1_000 * cpu_us) for n in range(4))
        return find_verdict(replace(trace, meta=replace(trace.meta, recorded_steps=marks))).kind

    assert kind(300, 120) == "python"
    assert kind(30_000, 12_000) == "waiting"


def with_launches(*counts: int) -> tuple[str, ...]:
    """The doubts about steps of 1 ms with so many launches, all answered."""
    events = []
    for number, count in enumerate(counts):
        at = 1_000 * number
        events += [annotation(f"ProfilerStep#{number}", at, 1_000), span("aten::mm", at, 900)]
        for each in range(count):
            events += [launch(at + 80 * each, 5, at + each + 1), kernel("k", at + 80 * each + 10, 60, at + each + 1)]
    return find_doubts(make_trace(*events))


def test_a_step_that_launches_far_less_than_the_others_is_left_out_and_named() -> None:
    (doubt, *_) = with_launches(10, 10, 0, 10, 10)
    assert doubt == "Step 2 has 0 launches where others have 10, so part of it may be missing; it is left out."
    assert with_launches(10, 10, 6, 10, 10) == ()
    assert with_launches(10, 0, 10, 0, 10, 0) == ()  # that is how the program works


def test_the_first_step_which_holds_the_start_of_the_recording_makes_no_trend() -> None:
    assert not [doubt for doubt in doubts(200, 104, 103, 102, 101, 100) if "shorter" in doubt]


def test_work_of_the_device_without_a_duration_is_a_doubt_where_times_are_fine_enough() -> None:
    def doubts_about(dur_us: float, first_us: float, usual_us: float = 60) -> list[str]:
        events = [annotation(f"ProfilerStep#{n}", 1_000 * n, 1_000) for n in range(4)]
        for number in range(40):
            at = 100 * number
            events += [launch(at, 5, number + 1), span("aten::mm", at, 90)]
            events.append(kernel("k", at + first_us, usual_us if number % 4 else dur_us, number + 1))
        return [doubt for doubt in find_doubts(make_trace(*events)) if "lasts 0 ns" in doubt]

    (doubt,) = doubts_about(0, 10.5)
    assert doubt == "25 % of the device's work lasts 0 ns in the file, so the device may have been busier."
    assert doubts_about(60, 10.5) == []
    # In times of whole us, a kernel of 0 is one of less than 1 us, unless its like take far longer.
    assert doubts_about(0, 10, 2) == []
    assert doubts_about(0, 10) == [doubt]


def test_work_that_is_cut_off_because_it_cannot_be_is_not_said_to_be_of_0_ns_in_the_file() -> None:
    # Both kernels begin after the wait for them returned, so nothing of them can be believed.
    events = [launch(0, 5, 1), launch(10, 5, 2), span("cudaDeviceSynchronize", 20, 10, cat="cuda_runtime")]
    events += [span("aten::mm", 0, 90), kernel("k", 40.5, 20, 1), kernel("k", 61, 20, 2)]
    trace = make_trace(*events)
    assert believable(trace).events.filter(trace.events["category"] == "kernel")["dur_ns"].to_list() == [0, 0]
    assert not any("lasts 0 ns" in doubt for doubt in find_doubts(believable(trace)))


def test_without_any_launch_in_the_file_no_work_is_said_to_be_from_before() -> None:
    events = [annotation(f"ProfilerStep#{n}", 1_000 * n, 1_000) for n in range(3)]
    for n in range(3):
        events += [span("aten::mm", 1_000 * n, 900), kernel("k", 1_000 * n + 20, 600, n + 1)]
    launches = [launch(1_000 * n + 5, 5, n + 1) for n in range(3)]
    assert find_doubts(make_trace(*events, *launches)) == ()
    assert find_doubts(make_trace(*events)) == (
        "No launch of the device's work is in the file, so what the device waits for is not known.",
    )
