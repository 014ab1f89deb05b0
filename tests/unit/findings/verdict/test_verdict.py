from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
import torch
from support import Event, annotation, frame, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.facts.device.kernel_names import kernel_title
from torchprof_magic.findings.verdict.decision import Verdict, find_verdict
from torchprof_magic.findings.verdict.words import Span, code, with_place
from torchprof_magic.model.meta import Problem, StepMark
from torchprof_magic.model.trace import FRAME_SCHEMAS, Trace
from torchprof_magic.report.trace_report import Report
from torchprof_magic.tables.ops.kernels import kernels_table
from torchprof_magic.tables.ops.op_table import ops_table

STEP = annotation("ProfilerStep#0", 0, 100)


@pytest.mark.parametrize(
    ("events", "title", "evidence"),
    [
        ([], "Nothing recorded", "No torch op ran"),
        ([STEP, span("enumerate(DataLoader)#x", 0, 50), span("aten::mm", 50, 50)], "Data-bound", "50 µs of 100 µs"),
        ([STEP, span("aten::mm", 0, 30)], "Python-bound", "70 µs of 100 µs"),
        ([STEP, annotation("gloo:all_reduce", 0, 50), span("aten::mm", 50, 50)], "Communication-bound", "50 µs"),
        ([STEP, annotation("Optimizer.step#A", 0, 60), span("aten::mm", 60, 40)], "Optimizer-bound", "60 µs"),
        (
            [STEP, span("aten::mm", 0, 90), span("aten::add", 90, 10)],
            "Bound by CPU ops",
            "aten::mm takes the most, 90 µs",
        ),
        (
            [STEP, span("aten::mm", 0, 90), launch(5, 1, correlation=1), kernel("k", 10, 20, correlation=1)],
            "Bound by op dispatch",
            "66 µs of 100 µs",
        ),
        (
            [STEP, span("aten::mm", 0, 90), launch(5, 1, correlation=1), kernel("k", 10, 85, correlation=1)],
            "Device-bound",
            "85 µs of 100 µs per step (85 %); aten::mm takes the most, 85 µs. What limits the kernels is not known:",
        ),
    ],
)
def test_the_verdict_names_the_limit_and_its_evidence(events: list[Event], title: str, evidence: str) -> None:
    verdict = find_verdict(make_trace(*events))
    assert verdict.title == title
    assert evidence in str(verdict)


def compiled_once(name: str) -> Trace:
    steps = [annotation("ProfilerStep#0", 0, 900_000)]
    steps += [annotation(f"ProfilerStep#{at}", 900_000 + at * 1_000, 1_000) for at in range(1, 5)]
    ops = [span("aten::mm", 900_000 + at * 1_000 + 50, 800) for at in range(1, 5)]
    return make_trace(*steps, span(name, 1_000, 890_000), *ops)


def test_a_recording_that_is_nearly_all_compilation_says_so_and_what_limits_the_other_steps() -> None:
    found = find_verdict(compiled_once("entire_frame_compile (dynamo_timed)"))
    assert (found.kind, found.title) == ("compile", "Compilation")
    # 890 of 904 ms.
    assert (
        "Compilation or graph capture takes 890 ms of 904 ms that were recorded (98.5 %), most of it in step 0, mostly "
        "in entire_frame_compile (dynamo_timed). Record later steps. The others take 1 ms each. Bound by CPU ops: Ops "
        "take 800 µs of 1 ms"
    ) in str(found)
    assert find_verdict(compiled_once("my own range")).title == "Bound by CPU ops"


def test_advice_to_record_stacks_is_given_only_if_there_are_none() -> None:
    idle = [STEP, span("aten::mm", 0, 30)]
    assert "Record with --stack" in str(find_verdict(make_trace(*idle)))
    assert "Record with" not in str(find_verdict(make_trace(*idle, with_stack=1)))


def test_averages_leave_out_an_interrupted_step() -> None:
    trace = make_trace(STEP, annotation("ProfilerStep#1", 100, 900), span("aten::mm", 0, 30), span("aten::mm", 100, 30))
    cut = replace(trace, steps=trace.steps.with_columns(complete=trace.steps["number"] == 0))
    assert "70 µs of 100 µs" in str(find_verdict(cut))
    assert "Mean step 100 µs" in Report(cut).summary()


def test_exposed_collectives_are_named_as_the_limit() -> None:
    events = [
        STEP,
        span("aten::mm", 0, 90),
        launch(5, 1, correlation=1),
        kernel("ncclDevKernel_AllReduce", 10, 60, correlation=1),
        kernel("gemm", 10, 20, correlation=1, stream=8),
        span("cudaStreamSynchronize", 10, 62, cat="cuda_runtime", correlation=2),
    ]
    verdict = find_verdict(make_trace(*events))
    # 60 us of the collective, 20 us of them beside a kernel
    assert (verdict.title, "40 µs of 100 µs" in str(verdict)) == ("Communication-bound", True)


def device_work(busy_us: float) -> list[Event]:
    """An op of 90 us that launches one kernel at 0, and a last kernel that ends the window at 100 us."""
    first = launch(0, 1, correlation=1), kernel("gemm", 0, busy_us - 1, correlation=1)
    last = launch(97, 1, correlation=2), kernel("tail", 99, 1, correlation=2)
    return [span("aten::mm", 0, 90), *first, *last]


@pytest.mark.parametrize(
    ("busy_us", "title", "evidence"),
    [
        (20, "Bound by op dispatch", "The device is busy 20 %"),
        (
            95,
            "Device-bound",
            "95 µs of 100 µs (95 %); aten::mm takes the most, 94 µs. What limits",
        ),
    ],
)
def test_without_steps_the_busy_share_of_the_device_decides(busy_us: float, title: str, evidence: str) -> None:
    verdict = find_verdict(make_trace(*device_work(busy_us)))
    assert verdict.title == title
    assert evidence in str(verdict)


def test_of_two_parts_that_are_too_large_the_larger_one_is_named() -> None:
    data, optimizer = span("enumerate(DataLoader)#x", 0, 30), annotation("Optimizer.step#A", 30, 65)
    assert find_verdict(make_trace(STEP, data, optimizer)).title == "Optimizer-bound"
    data, optimizer = span("enumerate(DataLoader)#x", 0, 50), annotation("Optimizer.step#A", 50, 45)
    assert find_verdict(make_trace(STEP, data, optimizer)).title == "Data-bound"


def test_kernels_without_any_op_give_the_advice_to_record_the_cpu() -> None:
    verdict = find_verdict(make_trace(kernel("gemm", 0, 10, correlation=1)))
    assert verdict.title == "Only device work"
    assert "Record the cpu activity" in str(verdict)


def test_python_frames_without_any_op_are_not_an_empty_recording() -> None:
    verdict = find_verdict(make_trace(frame("train.py(3): step", 0, 10)))
    assert (verdict.title, str(verdict)) == (
        "No ops",
        "No ops. No torch op was recorded on the profiled threads.",
    )


@pytest.mark.parametrize(("step_us", "title"), [(999, "Nothing recorded"), (1_000, "Python-bound")])
def test_a_step_without_any_op_has_a_limit_from_a_millisecond_on(step_us: int, title: str) -> None:
    assert find_verdict(make_trace(annotation("ProfilerStep#0", 0, step_us))).title == title


def test_a_lost_recording_is_explained_by_its_first_loss() -> None:
    lost = Problem(code="run.unreadable_cycle", severity="data_loss", count=1, message="The file is gone.")
    verdict = find_verdict(replace(make_trace(STEP), problems=(lost,)))
    assert (verdict.title, str(verdict)) == ("Nothing recorded", "Nothing recorded. The file is gone.")


def test_the_verdict_names_a_kernel_if_most_device_work_belongs_to_no_op() -> None:
    # The launch at 8 is not within any op, as that of a CUDA graph.
    small = span("aten::mm", 0, 7), launch(5, 1, correlation=1), kernel("gemm", 10, 10, correlation=1)
    graph = launch(8, 1, correlation=2), kernel("fused", 20, 30, correlation=2), kernel("fused", 50, 5, correlation=2)
    verdict = find_verdict(make_trace(*small, *graph))
    assert verdict.kind == "compute"
    assert "fused takes the most, 35 µs. Next is gemm, 10 µs." in str(verdict)


@pytest.mark.parametrize(
    ("paused_us", "title"),
    # Of 100 us ops take 30: without the pause others take 12 of 42 us (29 %), or 28 of 58 us (48 %).
    [(58, "Partly paused"), (42, "Python-bound")],
)
def test_time_in_which_the_recording_was_paused_does_not_count_as_python(paused_us: int, title: str) -> None:
    trace = make_trace(STEP, span("aten::mm", 0, 30))
    marks = tuple(
        StepMark(number=0, cycle=cycle, is_complete=True, paused_ns=paused_us * 1000 * (1 + 9 * cycle))
        for cycle in (0, 1)  # the second is none of this report's
    )
    verdict = find_verdict(replace(trace, meta=replace(trace.meta, recorded_steps=marks)))
    assert verdict.title == title
    assert "70 µs of 100 µs per step" in str(verdict)
    assert ("the recording was paused for 58 µs of it" in str(verdict)) == (title == "Partly paused")


def test_collectives_of_an_interrupted_step_are_left_out() -> None:
    computing = span("aten::mm", 0, 90), launch(5, 1, correlation=1), kernel("gemm", 10, 80, correlation=1)
    waiting = launch(105, 1, correlation=2), kernel("ncclDevKernel_AllReduce", 110, 800, correlation=2)
    trace = make_trace(STEP, annotation("ProfilerStep#1", 100, 900), *computing, *waiting)
    cut = replace(trace, steps=trace.steps.with_columns(complete=trace.steps["number"] == 0))
    assert find_verdict(trace).title == "Communication-bound"
    assert find_verdict(cut).title == "Device-bound"  # gemm runs for 80 us of step 0, the collective only in step 1


def test_collectives_of_several_devices_are_not_added_up() -> None:
    devices = (
        (launch(device, 1, correlation=device), kernel("ncclAllReduce", 10, dur_us, correlation=device, device=device))
        for device, dur_us in ((1, 60), (2, 30), (3, 20))
    )
    verdict = find_verdict(make_trace(STEP, span("aten::mm", 0, 90), *(event for pair in devices for event in pair)))
    assert verdict.title == "Communication-bound"
    assert "60 µs of 100 µs per step (60" in str(verdict)


def test_a_device_that_waits_for_the_loader_is_data_bound_and_not_host_bound() -> None:
    loading = span("enumerate(DataLoader)#x", 0, 30)
    computing = span("aten::mm", 30, 70), launch(31, 1, correlation=1), kernel("gemm", 40, 50, correlation=1)
    verdict = find_verdict(make_trace(STEP, loading, *computing))
    assert (verdict.title, "30 µs of 100 µs" in str(verdict)) == ("Data-bound", True)
    # A device that is busy for 60 us or more has enough to do, however long the loader takes beside it: if that is what
    # the host waits for.
    computing = span("aten::mm", 30, 70), launch(31, 1, correlation=1), kernel("gemm", 35, 60, correlation=1)
    wait = span("cudaDeviceSynchronize", 40, 57, cat="cuda_runtime", correlation=2)
    assert find_verdict(make_trace(STEP, loading, *computing, wait)).title == "Device-bound"
    assert find_verdict(make_trace(STEP, loading, *computing)).title == "Data-bound"


def test_without_steps_the_busiest_device_decides() -> None:
    other = launch(3, 1, correlation=3), kernel("early", 0, 1, 3, device=1), kernel("late", 99, 1, 4, device=1)
    verdict = find_verdict(make_trace(*device_work(95), *other))
    assert verdict.title == "Device-bound"  # device 0 is busy for 95 us of 100 us, device 1 for 2 us


def test_without_steps_and_device_the_ops_are_named() -> None:
    verdict = find_verdict(make_trace(span("aten::mm", 0, 30), span("aten::add", 30, 10)))
    assert str(verdict) == (
        "Bound by CPU ops. aten::mm takes 75 % of the self CPU time (30 µs in 1 call), then aten::add."
    )


def test_the_users_own_ranges_are_named_only_where_no_op_is() -> None:
    alone = find_verdict(make_trace(annotation("tokenize", 0, 30)))
    assert (alone.title, "tokenize takes" in str(alone)) == ("Bound by CPU ops", True)
    beside = find_verdict(make_trace(annotation("tokenize", 0, 30), span("aten::mm", 30, 10)))
    assert "aten::mm takes" in str(beside)


def cut_last(*events: Event) -> Trace:
    """A whole step of 100 us with one short op, and a cut one of 900 us."""
    trace = make_trace(STEP, annotation("ProfilerStep#1", 100, 900), span("aten::mm", 0, 30), *events)
    return replace(trace, steps=trace.steps.with_columns(complete=trace.steps["number"] == 0))


def test_kernels_of_an_interrupted_step_do_not_count_towards_kernels_per_step() -> None:
    calls = [
        event
        for number, start_us in enumerate((5, 105, 115, 125), start=1)
        for event in (launch(start_us, 1, correlation=number), kernel("gemm", start_us + 1, 2, correlation=number))
    ]
    # 30 us of host work, one kernel of 2 us; the three others belong to the cut step
    verdict = find_verdict(cut_last(*calls))
    assert verdict.causes[0].kind == "python"
    assert verdict.whole_ns == 100_000


def _short_ops(count: int, us: float, at_us: float = 0) -> list[Event]:
    return [span("aten::add", at_us + place * us, us) for place in range(count)]


def test_an_optimizer_of_many_short_ops_is_the_optimizer_and_not_dispatch() -> None:
    step = annotation("ProfilerStep#0", 0, 1000), annotation("Optimizer.step#Adam.step", 0, 900)
    verdict = find_verdict(make_trace(*step, *_short_ops(90, 10)))
    assert (verdict.kind, verdict.share) == ("optimizer", 0.9)
    assert "foreach=True or fused=True calls fewer" in str(verdict)
    long = find_verdict(make_trace(*step, span("aten::mm", 0, 900)))
    assert "foreach" not in str(long)


@pytest.mark.parametrize(("plain_us", "kind"), [(1000, "compute"), (400, "dispatch")])
def test_ops_that_the_recording_made_longer_count_as_short(plain_us: int, kind: str) -> None:
    trace = make_trace(annotation("ProfilerStep#0", 0, 1000), *_short_ops(33, 30))
    meta = replace(trace.meta, plain_step_ns=(plain_us * 1000,) * 5)
    assert find_verdict(replace(trace, meta=meta)).kind == kind


def test_python_between_short_ops_is_not_called_by_the_name_of_an_op() -> None:
    ops = [span("aten::detach", place * 100, 10) for place in range(10)]
    verdict = find_verdict(make_trace(annotation("ProfilerStep#0", 0, 1000), *ops))
    assert verdict.kind == "python"
    assert "aten::detach" not in str(verdict)


def test_a_line_of_python_beside_some_short_ops_is_not_called_short_ops() -> None:
    def train() -> None:
        for _ in tp.steps(range(6)):
            words = [int(word) for word in " ".join(map(str, range(30_000))).split()]
            torch.tensor(words[:64]).add(1).mul(2).sum()

    with tp.profile(lines=True, wait=1, warmup=1, active=3) as p:
        train()
    verdict = p.report.verdict
    assert (verdict.kind, verdict.line) == ("python", train.__code__.co_firstlineno + 2)
    assert "No op runs for" in str(verdict)


def test_a_pause_that_nothing_names_is_told_by_what_stands_around_it() -> None:
    step = annotation("ProfilerStep#0", 0, 1000), span("aten::randn", 10, 40), span("aten::addmm", 800, 150)
    small = annotation("Net.prepare", 60, 100)  # in which there is less than outside of it
    verdict = find_verdict(make_trace(*step, small))
    assert verdict.kind == "python"
    assert verdict.name == ""
    assert "above all between Net.prepare and aten::addmm" in str(verdict)
    assert verdict.causes[0].between == ("Net.prepare", "aten::addmm")


def test_a_name_of_thousands_of_characters_is_cut_in_the_sentence_but_not_in_the_verdict() -> None:
    name = "W" * 10_000
    verdict = find_verdict(make_trace(span(name, 0, 90), span("aten::mm", 90, 1)))
    assert str(verdict).startswith(f"Bound by CPU ops. {'W' * 63}… takes")
    assert verdict.name == name


GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_32x5_nn_align8>(Params)"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"


def short(verdict: Verdict) -> str:
    """Return a verdict as the page shows it."""
    return "".join(span.short for span in verdict.text)


def test_a_piece_of_text_is_short_if_it_is_the_name_of_a_kernel() -> None:
    assert code("Kernel2", GEMM) == Span(text="Kernel2", style="code", kernel=GEMM)
    assert code("Kernel2", GEMM).short == kernel_title(GEMM) == "gemm bf16 128x64 · cutlass nn"
    # Without a kernel it is what it is, even if it looks like one.
    assert code(GEMM).short == Span(text=GEMM).short == GEMM


def test_kernels_in_a_verdict_are_called_as_in_the_views_and_in_its_text_by_their_names() -> None:
    events = [span("aten::mm", 0, 90), launch(5, 1, correlation=1), kernel(GEMM, 10, 60, correlation=1)]
    verdict = find_verdict(make_trace(STEP, *events, launch(6, 1, correlation=2), kernel(ADD, 70, 20, correlation=2)))
    said = "By kernel, gemm bf16 128x64 · cutlass nn takes the most, 60 µs, then add f32 · vectorized 20 µs."
    assert said in short(verdict)
    said = "By kernel, Kernel2 takes the most, 60 µs, then vectorized_elementwise_kernel · add 20 µs."
    assert said in str(verdict)


def test_a_kernel_that_is_a_second_cause_is_short_too_and_the_name_of_an_op_is_not() -> None:
    events = [span("my::attention<float>", 0, 100), launch(95, 1, correlation=1), kernel(GEMM, 100, 20, correlation=1)]
    verdict = find_verdict(make_trace(annotation("ProfilerStep#0", 0, 120), *events))
    assert verdict.title == "Bound by op dispatch"
    assert "launches ops one by one, 1 kernel per step, mostly in attention. The" in short(verdict)
    assert "computation takes 16.7 %, mostly in gemm bf16 128x64 · cutlass nn." in short(verdict)


@pytest.mark.parametrize(
    ("name", "title"),
    [("aten::_scaled_dot_product_flash_attention", "Bound by CPU ops"), ("aten::copy_", "Bound by memory traffic")],
)
def test_on_the_host_no_op_is_taken_for_a_kernel(name: str, title: str) -> None:
    verdict = find_verdict(make_trace(STEP, span(name, 0, 90)))
    assert verdict.title == title
    assert name in short(verdict)
    assert not [span for span in verdict.text if span.kernel]


def test_short_ops_on_the_host_keep_their_names() -> None:
    name = "aten::_scaled_dot_product_flash_attention"
    ops = [span(name, place * 10, 10) for place in range(100)]
    verdict = find_verdict(make_trace(annotation("ProfilerStep#0", 0, 1000), *ops))
    assert (verdict.kind, verdict.title) == ("dispatch", "Bound by calling short ops")
    assert f"mostly in {name}" in short(verdict)


@pytest.mark.parametrize(("most", "said"), [(51, "mostly in aten::a"), (40, "above all in aten::a (400 µs)")])
def test_mostly_is_said_of_more_than_half_only(most: int, said: str) -> None:
    # 100 short ops in 1 ms, so many of which are calls of a; the others are of three ops in equal parts.
    names = ["aten::a"] * most + [f"aten::{'bcd'[number % 3]}" for number in range(100 - most)]
    ops = [span(name, place * 10, 10) for place, name in enumerate(names)]
    verdict = find_verdict(make_trace(annotation("ProfilerStep#0", 0, 1000), *ops))
    assert said in short(verdict)


def test_without_steps_no_number_is_called_one_of_a_step() -> None:
    events = [span("aten::mm", 0, 900), launch(890, 5, correlation=1), kernel("gemm", 900, 100, correlation=1)]
    verdict = find_verdict(make_trace(*events))
    assert verdict.title == "Bound by op dispatch"
    assert "launches ops one by one, 1 kernel, mostly in aten::mm." in str(verdict)
    assert "per step" not in str(verdict)


def test_shares_of_the_work_are_those_of_the_tables_also_for_work_before_the_first_op() -> None:
    early = [kernel(name, at, 100, correlation=at + 50) for name, at in (("pre", 0), ("work", 100))]
    late = [kernel("work", 320, 100, correlation=1), kernel("copy", 420, 80, correlation=2)]
    trace = make_trace(*early, span("aten::mm", 300, 20), *late)
    # Of 380 us in all, 180 are in the window that begins with the op.
    assert "work takes the most, 200 µs. Next is pre, 100 µs, then copy, 80 µs." in str(find_verdict(trace))
    shares = {row["name"]: row["sum_ratio"] for row in Report(trace).kernels.to_dicts()}
    assert shares == pytest.approx({"work": 200 / 380, "pre": 100 / 380, "copy": 80 / 380})


def replays(*kernels: int) -> Trace:
    """Steps of 1 ms without ops, in each of which a graph of so many kernels of 85 us is replayed, and waited for."""
    events = []
    for number, count in enumerate(kernels):
        at = 1_000 * number
        graph = span("cudaGraphLaunch", at + 10, 20, cat="cuda_runtime", correlation=number + 1)
        wait = span("cudaDeviceSynchronize", at + 40, 900, cat="cuda_runtime", correlation=number + 101)
        work = [kernel(f"k{each}", at + 40 + 90 * each, 85, number + 1) for each in range(count)]
        events += [annotation(f"ProfilerStep#{number}", at, 1_000), graph, wait, *work]
    return make_trace(*events)


def test_a_program_that_only_replays_graphs_has_a_limit_although_it_runs_no_op() -> None:
    verdict = find_verdict(replays(10, 10, 10, 10))
    assert verdict.kind == "compute"
    assert "The device is busy 850 µs of 1 ms per step (85 %)" in str(verdict)


def test_where_most_replays_lack_their_kernels_the_limit_is_not_known() -> None:
    verdict = find_verdict(replays(10, 0, 0, 0))
    assert (verdict.kind, verdict.title) == ("none", "Not known")
    assert verdict.doubts[0].startswith("3 of 4 launches have no work in the file")


def test_kernels_whose_launches_are_not_recorded_need_the_activity_of_the_host() -> None:
    verdict = find_verdict(make_trace(STEP, kernel("k", 10, 85, 7)))
    assert (verdict.kind, verdict.title) == ("none", "Only device work")


def test_the_ops_in_the_sentence_are_those_of_the_steps_that_count() -> None:
    steps = [annotation(f"ProfilerStep#{n}", 1_000 * n, 1_000) for n in range(4)]
    ops = [span("aten::mm", 1_000 * n, 900) for n in range(4)]
    outlier = [annotation("ProfilerStep#4", 4_000, 9_000), span("aten::linalg_svd", 4_000, 9_000)]
    text = str(find_verdict(make_trace(*steps, *ops, *outlier)))
    assert "aten::mm takes the most, 900 µs." in text
    assert "svd takes" not in text


def test_the_sentence_and_the_advice_count_the_same_kernels_where_a_step_is_left_out() -> None:
    events = []
    for number in range(5):
        at, count = 10_000 * number, 10 if number == 2 else 60
        events += [annotation(f"ProfilerStep#{number}", at, 9_000), span("aten::mm", at, 8_900)]
        for each in range(count):
            name = 1_000 * number + each + 1
            events += [launch(at + 140 * each, 5, name), kernel("k", at + 140 * each + 10, 3, name)]
    report = Report(make_trace(*events))
    assert report.verdict.kind == "dispatch"
    assert "60 kernels per step" in str(report.verdict)
    (evidence,) = [row.evidence for row in report.advice if row.rule == "small_kernels"]
    assert evidence.startswith("60 kernels per step")


def test_the_recordings_own_work_beside_the_steps_is_told_where_it_is_not_small() -> None:
    trace = make_trace(annotation("ProfilerStep#1", 0, 200), span("aten::mm", 60, 80))
    cut = trace.steps.with_columns(pl.col("start_ns") + 55_000, pl.col("end_ns") - 45_000)
    verdict = find_verdict(replace(trace, steps=cut))
    assert (verdict.whole_ns, verdict.title) == (100_000, "Bound by CPU ops")
    assert "Recording takes another 100 µs per step, which is in none of these figures." in str(verdict)
    barely = trace.steps.with_columns(pl.col("start_ns") + 10_000)
    assert "Recording takes" not in str(find_verdict(replace(trace, steps=barely)))


def slept(trace: Trace, *waits: tuple[str, str | None, int, float, float]) -> Trace:
    """The trace with waits of its host: kind, call, line of train.py, start and duration in us."""
    rows = [(kind, call, "train.py", line, 0, int(at * 1e3), int(dur * 1e3), 0) for kind, call, line, at, dur in waits]
    return replace(trace, waits=pl.DataFrame(rows, schema=FRAME_SCHEMAS["waits"], orient="row"))


def host_steps(*extra: Event) -> Trace:
    steps = [annotation(f"ProfilerStep#{n}", n * 100_000, 100_000) for n in range(3)]
    return make_trace(*steps, *(span("aten::mm", n * 100_000, 20_000) for n in range(3)), *extra)


def test_a_sleep_is_named_by_its_call_and_line() -> None:
    sleeps = [("wait", "time.sleep", 7, n * 100_000 + 30_000, 60_000) for n in range(3)]
    verdict = find_verdict(slept(host_steps(), *sleeps))
    assert (verdict.kind, verdict.name, verdict.file, verdict.line) == ("waiting", "time.sleep", "train.py", 7)
    said = "The host sleeps or waits for 60 ms of 100 ms per step (60 %), mostly in time.sleep, at train.py:7."
    assert said in str(verdict)


def test_of_several_waits_the_call_with_the_most_time_is_named_at_its_largest_line() -> None:
    waits = [
        row
        for n in range(3)
        for row in (
            ("wait", "Queue.get", 5, n * 100_000 + 21_000, 15_000),
            ("wait", "time.sleep", 7, n * 100_000 + 40_000, 10_000),
            ("wait", "Queue.get", 8, n * 100_000 + 60_000, 20_000),
        )
    ]
    verdict = find_verdict(slept(host_steps(), *waits))
    assert (verdict.name, verdict.line) == ("Queue.get", 8)


def test_garbage_collection_names_python_and_not_waiting() -> None:
    collections = [("collection", "gc.collect", 9, n * 100_000 + 30_000, 60_000) for n in range(3)]
    verdict = find_verdict(slept(host_steps(), *collections))
    assert (verdict.kind, verdict.name, verdict.line) == ("python", "gc.collect", 9)


def test_a_device_that_waits_for_a_sleeping_host_is_told_where_it_sleeps() -> None:
    work = [
        event
        for n in range(3)
        for event in (
            launch(n * 100_000 + 100, 10, correlation=n + 1),
            kernel("gemm", n * 100_000 + 120, 10_000, correlation=n + 1),
        )
    ]
    sleeps = [("wait", "time.sleep", 7, n * 100_000 + 25_000, 70_000) for n in range(3)]
    verdict = find_verdict(slept(host_steps(*work), *sleeps))
    assert (verdict.kind, verdict.name, verdict.line) == ("waiting", "time.sleep", 7)
    assert "while the host sleeps or waits, mostly in time.sleep, at train.py:7." in str(verdict)


@pytest.mark.parametrize("folder", ["/home/ipykernel_7", f"/var/folders/{'long/' * 20}ipykernel_7"])
def test_a_function_of_a_cell_is_named_with_the_label_of_the_cell(folder: str) -> None:
    file = f"{folder}/12.py"
    trace = make_trace(STEP, frame(f"{file}(3): prepare", 10, 70, 1), span("aten::mm", 85, 10), with_stack=1)
    labelled = replace(trace, meta=replace(trace.meta, cell_labels=((file, "In [4]"),)))
    assert "mostly in In [4] line 3: prepare" in str(find_verdict(labelled))
    assert find_verdict(labelled).name == f"{file}(3): prepare"  # by which it is found in the trace


def test_shares_of_the_work_are_those_of_the_tables_also_where_it_ends_after_the_step() -> None:
    events = (
        *(span("aten::mm", 0, 10), launch(5, 1, correlation=1), kernel("gemm", 10, 60, correlation=1)),
        *(span("aten::mul", 70, 10), launch(75, 1, correlation=2), kernel("times", 80, 40, correlation=2)),
    )
    trace = make_trace(STEP, *events)
    # The last 20 us of `times` run after the step, and Ops, Kernels and Flame count them: 60 and 40 of 100 us.
    said = str(find_verdict(trace))
    assert "aten::mm takes the most, 60 µs. Next is aten::mul, 40 µs." in said
    assert "By kernel, gemm takes the most, 60 µs, then times 40 µs." in said
    assert kernels_table(trace).frame["sum_ratio"].to_list() == pytest.approx([0.6, 0.4])


def test_the_line_is_where_the_op_that_is_named_takes_most_and_not_the_line_with_most_of_all() -> None:
    events = (
        *(frame("train.py(3): forward", 0, 30), span("aten::mm", 1, 8), launch(2, 1, correlation=1)),
        *(kernel("gemm", 10, 20, correlation=1), span("aten::exp", 11, 8), launch(12, 1, correlation=2)),
        *(kernel("exp", 30, 20, correlation=2), frame("train.py(7): scale", 40, 20), span("aten::mul", 41, 8)),
        *(launch(42, 1, correlation=3), kernel("times", 50, 30, correlation=3)),
    )
    verdict = find_verdict(make_trace(STEP, *events, with_stack=1))
    # Line 3 has 40 us, of two ops, and line 7 only the 30 us of the largest one.
    assert "aten::mul takes the most, 30 µs, at train.py:7." in str(verdict)
    assert (verdict.file, verdict.line) == ("train.py", 7)
    # On the host, line 3 has 30 ms of two ops, and line 7 the 20 ms of one.
    host = (
        *(frame("train.py(3): forward", 0, 30_000), span("aten::mm", 0, 15_000), span("aten::exp", 15_000, 15_000)),
        *(frame("train.py(7): scale", 30_000, 20_000), span("aten::mul", 30_000, 20_000)),
    )
    verdict = find_verdict(make_trace(annotation("ProfilerStep#0", 0, 50_000), *host, with_stack=1))
    assert "aten::mul takes the most, 20 ms, at train.py:7." in str(verdict)
    assert (verdict.file, verdict.line) == ("train.py", 7)


@pytest.mark.parametrize(
    ("calls", "told"), [((90, 10), ", at train.py:1"), ((60, 40), ", mostly at train.py:1"), ((40, 35, 25), "")]
)
def test_a_line_without_half_of_the_op_is_not_told_as_its_line(calls: tuple[int, ...], told: str) -> None:
    at, events = 0, list[Event]()
    for line, us in enumerate(calls, 1):
        events += [frame(f"train.py({line}): f{line}", at, us), span("aten::mul", at, us)]
        at += us
    verdict = find_verdict(make_trace(annotation("ProfilerStep#0", 0, 100), *events, with_stack=1))
    assert (verdict.file, verdict.line) == ("train.py", 1)
    assert f"aten::mul takes the most, 100 µs{told}. Python calls" in str(verdict)


def test_the_first_sentence_says_mostly_once() -> None:
    def said(*pieces: str, where: tuple[Span, ...] = (Span(text=", mostly at "), code("train.py:7"))) -> str:
        text = [Span(text=piece, style="code" if piece.startswith("f") else "") for piece in pieces]
        return "".join(span.text for span in with_place(text, where))

    assert said("It waits, mostly in ", "f", ". Then it runs.") == "It waits, mostly in f, at train.py:7. Then it runs."
    assert said("It waits in ", "f", ". Then it runs.") == "It waits in f, mostly at train.py:7. Then it runs."
    assert said("It waits.") == "It waits, mostly at train.py:7."
    assert said("It waits in ", "f") == "It waits in f, mostly at train.py:7."
    assert said("It waits.", where=()) == "It waits."


def test_shares_of_cpu_ops_are_those_of_the_table() -> None:
    trace = make_trace(STEP, annotation("load", 0, 20), span("aten::mm", 20, 60), span("aten::mul", 80, 20))
    assert "aten::mm takes the most, 60 µs. Next is aten::mul, 20 µs." in str(find_verdict(trace))
    assert ops_table(trace).frame.filter(pl.col("name") == "aten::mm")["self_cpu_ratio"].to_list() == pytest.approx(
        [0.6]
    )


def test_without_steps_the_time_is_named_from_the_first_op_on_where_the_device_works_before_it() -> None:
    before = kernel("early", 0, 400, 3)
    ops = [span("aten::mm", 500, 90), launch(505, 5, 1), launch(515, 5, 2)]
    trace = make_trace(before, *ops, kernel("late", 520, 70, 1), kernel("last", 590, 10, 2))
    # From 500 to 600 µs: 70 + 10 of 100 are busy, and the 400 before are not in it.
    assert (
        "is busy 80 µs of 100 µs from the first op on (80 %); in the whole recording early takes the most, 400 µs."
        in str(find_verdict(trace))
    )
    assert "those from the first op" not in find_verdict(trace).statement
    at_once = make_trace(*ops, kernel("late", 520, 70, 1), kernel("last", 590, 10, 2))
    assert "80 µs of 100 µs (80 %)" in str(find_verdict(at_once))
