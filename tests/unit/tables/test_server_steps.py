"""Steps of an inference server, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support import annotation, counter, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.facts.budget import PARTS
from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.findings.overview import overview_facts
from torchprof_magic.tables.budget import budget_table
from torchprof_magic.tables.serving import serving_kinds_table, serving_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchprof_magic.model.trace import Trace

PREFILL = "execute_200_context_2(sq200sk200sqsq20000sqsk20000)_generation_0(sq0sk0sqsq0sqsk0)"


def work(at: float, dur: float, number: int, name: str = "gemm") -> list[dict[str, Any]]:
    return [span("aten::mystery", at, 5), launch(at + 1, 1, number), kernel(name, at + 5, dur, number)]


def made(*more: dict[str, Any]) -> Trace:
    return make_trace(
        annotation(PREFILL, 0, 90),
        *work(0, 90, 1),
        annotation("step[DECODE bs=4]", 100, 30),
        *work(100, 20, 2),
        annotation("step[DECODE bs=2]", 150, 30),
        *work(150, 45, 3),
        *more,
    )


def test_each_step_lasts_until_the_next_one_and_its_parts_add_up() -> None:
    frame = serving_table(made()).frame
    assert frame.select("kind", "batch", "tokens", "start_ns", "dur_ns", "ns_per_token").rows() == [
        ("prefill", 2, 200, 0, 100_000, 500.0),
        ("decode", 4, 4, 100_000, 50_000, 12_500.0),
        ("decode", 2, 2, 150_000, 50_000, 25_000.0),
    ]
    assert frame["other_work_ns"].to_list() == [90_000, 20_000, 45_000]
    sums = frame.select(f"{part}_ns" for part in PARTS).sum_horizontal()
    assert sums.to_list() == frame["dur_ns"].to_list()


def test_a_range_in_another_one_is_the_same_step_and_says_what_the_other_leaves_open() -> None:
    trace = make_trace(annotation("step[EXTEND bs=2 toks=200]", 0, 95), annotation(PREFILL, 5, 85), span("a", 6, 5))
    assert serving_table(trace).frame.select("kind", "batch", "tokens", "keys").rows() == [("prefill", 2, 200, 200)]


def test_kinds_say_what_limits_them() -> None:
    rows = serving_kinds_table(made()).frame.select(
        "kind", "steps", "requests_per_step", "tokens", "sum_ns", "ns_per_token", "tokens_per_s", "limit", "limit_ratio"
    )
    assert rows.rows() == [
        ("decode", 2, 3.0, 6, 100_000, pytest.approx(100_000 / 6), pytest.approx(60_000), "other work", 0.65),
        ("prefill", 1, 2.0, 200, 100_000, 500.0, pytest.approx(2_000_000), "other work", 0.9),
    ]


def test_the_overview_names_the_kinds_with_their_time() -> None:
    (section,) = [each for each in overview_facts(made()).sections if each.title == "Steps of the server, on average"]
    assert [(fact.label, fact.value, fact.note) for fact in section.facts] == [
        ("decode", 50_000, "Device-bound, 2 steps, 3 requests, 16.7 µs a token, 65 % other work"),
        ("prefill", 100_000, "Device-bound, 1 step, 2 requests, 500 ns a token, 90 % other work"),
    ]


def test_steps_of_a_server_are_the_steps_of_a_recording_without_others_and_all_of_them_count() -> None:
    trace = made()
    assert trace.steps.select("number", "start_ns", "end_ns", "complete").rows() == [
        (0, 0, 100_000, True),
        (1, 100_000, 150_000, True),
        (2, 150_000, 200_000, True),
    ]
    assert counted_steps(trace).row.tolist() == [0, 1, 2]  # the prefill takes twice as long as the others
    of_kernels = trace.events.filter(trace.events["category"] == "kernel")
    assert of_kernels["step"].to_list() == [0, 1, 2]
    assert budget_table(trace).frame["dur_ns"].to_list() == [100_000, 50_000, 50_000]


def test_a_recording_with_steps_of_its_own_keeps_them() -> None:
    trace = made(annotation("ProfilerStep#7", 0, 200))
    assert trace.steps["number"].to_list() == [7]
    assert serving_table(trace).frame.height == 3


@pytest.mark.parametrize(
    "name",
    ["step[TRAIN bs=4]", "step[DECODE]", "step[decode bs=4]", "execute_query", "execute_context_0", "step", "prefill"],
)
def test_ranges_of_the_users_are_no_steps_of_a_server(name: str) -> None:
    trace = make_trace(annotation(name, 0, 50), span("aten::mm", 5, 10), annotation(name, 60, 50))
    assert trace.steps.height == 0
    assert serving_table(trace).frame.height == 0


def test_other_recordings_have_no_such_steps() -> None:
    trace = make_trace(annotation("ProfilerStep#1", 0, 100), span("aten::mm", 0, 10))
    assert serving_table(trace).frame.height == 0
    assert serving_kinds_table(trace).frame.height == 0
    assert not [each for each in overview_facts(trace).sections if each.title == "Steps of the server, on average"]


def test_power_makes_joules_of_each_step_and_token() -> None:
    # 100 W for the first 100 us, then 300 W.
    power = [counter("Power (W)", at, pid="GPU 0 Counters", **{"": watts}) for at, watts in ((0, 100), (100, 300))]
    rows = serving_kinds_table(made(*power)).frame.select("kind", "joules_per_token").rows()
    assert dict(rows) == {"prefill": pytest.approx(0.01 / 200), "decode": pytest.approx(0.03 / 6)}


def test_counters_stand_beside_the_budget_of_a_step() -> None:
    active = [counter("SM Active (%)", at, pid="GPU 0 Counters", **{"": share}) for at, share in ((0, 80), (50, 40))]
    power = [counter("Power (mW)", 0, pid="GPU 0 Counters", **{"": 2000})]
    trace = make_trace(annotation("ProfilerStep#1", 0, 100), *work(0, 90, 1), *active, *power)
    report = tp.Report(trace)
    assert report.budget.select("joules", "sm_active_ratio", "dram_active_ratio").rows() == [
        (pytest.approx(2e-4), pytest.approx(0.6), None)
    ]


NAME = "Round 3000"


@pytest.fixture
def _round_peaks() -> Iterator[None]:
    tp.peaks.add(NAME, bytes_per_s=1e12, flops_per_s={"bf16": 1e15}, vector_flops_per_s={"f32": 1e13})
    yield
    tp.peaks.remove(NAME)


def served(name: str, at: float, tokens: int, dur: float, number: int) -> list[dict[str, Any]]:
    """Return a step with one product of as many rows as it has tokens, with a weight of 4096 x 4096."""
    shapes = {"Input Dims": [[tokens, 4096], [4096, 4096]], "Input type": ["c10::BFloat16"] * 2}
    product = [span("aten::mm", at + 1, 10, **shapes), launch(at + 2, 1, number), kernel("gemm", at + 5, dur, number)]
    return [annotation(name, at, 40), *product]


@pytest.mark.usefixtures("_round_peaks")
def test_steps_of_vllm_have_kinds_tables_joules_and_a_verdict_by_kind() -> None:
    # At 1,000 TFLOP/s 2 x 2048 x 4096 x 4096 operations take 68.7 us. The weight alone takes 33.6 us at 1 TB/s.
    decode = "execute_context_0(0)_generation_4(4)"
    trace = make_trace(
        *served("execute_context_2(2048)_generation_0(0)", 0, 2048, 400, 1),
        *served("execute_context_1(512)_generation_3(3)", 500, 515, 150, 2),
        *served(decode, 700, 4, 60, 3),
        *served(decode, 800, 4, 70, 4),
        counter("Power (W)", 0, pid="GPU 0 Counters", **{"": 500}),
        deviceProperties=[{"id": 0, "name": NAME}],
    )
    frame = serving_table(trace).frame
    assert frame.select("kind", "batch", "tokens", "prefill_tokens", "decode_tokens", "dur_ns").rows() == [
        ("prefill", 2, 2048, 2048, 0, 500_000),
        ("mixed", 4, 515, 512, 3, 200_000),
        ("decode", 4, 4, 0, 4, 100_000),
        ("decode", 4, 4, 0, 4, 75_000),  # the last one ends with its kernel
    ]
    assert frame.select(f"{part}_ns" for part in PARTS).sum_horizontal().to_list() == frame["dur_ns"].to_list()
    assert frame.select("compute_roof_ns", "compute_above_ns", "memory_roof_ns", "memory_above_ns").rows() == [
        (68_719, 331_281, 0, 0),
        (0, 0, 41_992, 108_008),  # (515 x 4096 x 2 + 4096 x 4096) x 2 bytes
        (0, 0, 33_619, 26_381),
        (0, 0, 33_619, 36_381),
    ]
    kinds = serving_kinds_table(trace).frame
    assert kinds.select(
        "kind", "steps", "tokens", "ns_per_token", "limit", "limit_ratio", "joules_per_token"
    ).rows() == [
        ("prefill", 1, 2048, pytest.approx(500_000 / 2048), "compute", 0.8, pytest.approx(500 * 500e-6 / 2048)),
        ("mixed", 1, 515, pytest.approx(200_000 / 515), "memory", 0.75, pytest.approx(500 * 200e-6 / 515)),
        ("decode", 2, 8, 21_875.0, "memory", pytest.approx(130 / 175), pytest.approx(500 * 175e-6 / 8)),
    ]
    (section,) = [each for each in overview_facts(trace).sections if each.title == "Steps of the server, on average"]
    assert [(fact.label, fact.note) for fact in section.facts] == [
        ("prefill", "Compute-bound, 1 step, 2 requests, 244 ns a token, 80 % compute"),
        ("mixed", "Memory-bound, 1 step, 4 requests, 388 ns a token, 75 % memory"),
        ("decode", "Memory-bound, 2 steps, 4 requests, 21.9 µs a token, 74.3 % memory"),
    ]


def test_steps_of_sglang_in_the_range_of_its_scheduler_have_the_kinds_of_its_modes() -> None:
    # As it names them: only EXTEND says how many tokens it has.
    names = ["EXTEND bs=2 toks=300", "DECODE bs=2", "MIXED bs=3", "TARGET_VERIFY bs=2", "DECODE bs=4", "IDLE bs=0"]
    events = list[dict[str, Any]]()
    for place, name in enumerate(names):
        at = 100 * place
        events += [annotation("scheduler.run_batch", at, 60), annotation(f"step[{name}]", at + 10, 40)]
        events += work(at + 10, 50, place + 1)
    trace = make_trace(*events)
    frame = serving_table(trace).frame
    assert frame.select("kind", "batch", "tokens", "start_ns", "dur_ns").rows() == [
        ("prefill", 2, 300, 10_000, 100_000),
        ("decode", 2, 2, 110_000, 100_000),
        ("mixed", 3, None, 210_000, 100_000),
        ("decode", 2, None, 310_000, 100_000),
        ("decode", 4, 4, 410_000, 100_000),
        ("", 0, None, 510_000, 55_000),
    ]
    assert frame.select(f"{part}_ns" for part in PARTS).sum_horizontal().to_list() == frame["dur_ns"].to_list()
    # The tokens of all steps of a kind are only known if those of each are.
    kinds = serving_kinds_table(trace).frame.select("kind", "steps", "tokens", "requests_per_step").rows()
    assert kinds[0] == ("decode", 3, None, pytest.approx(8 / 3))
    assert sorted(kinds[1:]) == [("", 1, None, 0.0), ("mixed", 1, None, 3.0), ("prefill", 1, 300, 2.0)]


def test_servers_among_real_traces_have_their_steps(traces: Path) -> None:
    found = {
        name: tp.load(next(traces.glob(f"{name}_*"))).serving.select("kind", "batch", "tokens", "keys").rows()
        for name in ("04", "15", "03")
    }
    assert found == {"04": [("decode", 32, 32, 55086)], "15": [("prefill", 15, 15360, 15360)], "03": []}
