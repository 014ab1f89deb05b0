"""The phases of the steps over time."""

from __future__ import annotations

from support import annotation, make_trace, span

from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.tables.phase_strip import phase_strip


def spans(*events: object, parts: int) -> list[tuple[int, int, str]]:
    strip = phase_strip(make_trace(*events), parts)  # type: ignore[arg-type]
    rows = zip(strip.start_ns.tolist(), strip.end_ns.tolist(), strip.phase.tolist(), strict=True)
    return [(start, end, PHASES[phase]) for start, end, phase in rows]


def test_equal_neighbors_are_one_span_and_a_step_is_covered_without_gaps() -> None:
    found = spans(
        annotation("ProfilerStep#1", 0, 100),
        span("aten::mm", 0, 40),
        span("Optimizer.step#SGD.step", 60, 40),
        parts=10,
    )
    assert found == [(0, 40_000, "forward"), (40_000, 60_000, "python"), (60_000, 100_000, "optimizer")]


def test_a_part_has_the_phase_with_the_most_time_in_it() -> None:
    events = (annotation("ProfilerStep#1", 0, 100), span("aten::mm", 0, 30), span("aten::mm", 50, 20))
    assert spans(*events, parts=2) == [(0, 50_000, "forward"), (50_000, 100_000, "python")]


def test_without_steps_there_are_no_spans() -> None:
    assert spans(span("aten::mm", 0, 30), parts=8) == []
