from __future__ import annotations

from support import annotation, make_trace, span

from torchprof_magic.analysis.overview import overview_facts


def test_phases_have_a_section_that_adds_up_to_the_mean_step() -> None:
    # Steps of 100 and 140 us; half of the first and all of the second that follows the op is in no op.
    trace = make_trace(
        annotation("ProfilerStep#1", 0, 100),
        span("aten::mm", 0, 50),
        annotation("ProfilerStep#2", 100, 140),
        span("aten::mm", 100, 30),
    )
    (phases,) = (section for section in overview_facts(trace).sections if section.kind == "phases")
    assert [(fact.label, fact.value) for fact in phases.facts] == [("forward", 40_000), ("python", 80_000)]


def test_a_fact_about_an_op_names_it() -> None:
    facts = [fact for section in overview_facts(make_trace(span("aten::mm", 0, 50))).sections for fact in section.facts]
    assert [(fact.op, fact.value, fact.unit) for fact in facts if fact.op] == [("aten::mm", 50_000, "ns")]


def test_a_ratio_that_cannot_be_computed_is_unknown() -> None:
    trace = make_trace(annotation("ProfilerStep#1", 0, 0), annotation("ProfilerStep#2", 10, 0))
    facts = {fact.label: fact.value for section in overview_facts(trace).sections for fact in section.facts}
    assert facts["Spread"] is None
