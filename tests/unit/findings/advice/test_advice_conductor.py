from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import annotation, make_trace, span

import torchprof_magic as tp
from torchprof_magic.findings.advice import Advice, Settings, Spans, find_advice
from torchprof_magic.findings.advice.kinds import Found
from torchprof_magic.model.errors import OptionsError
from torchprof_magic.model.trace import Trace
from torchprof_magic.model.units import saving_words
from torchprof_magic.report.trace_report import Report

# Two steps of 10 ms.
STEPS = (annotation("ProfilerStep#0", 0, 10_000), annotation("ProfilerStep#1", 10_000, 10_000))


def trace() -> Trace:
    return make_trace(*STEPS, span("aten::mm", 100, 5_000))


def spans(start_ms: float, end_ms: float) -> Spans:
    return Spans(np.array([start_ms * 1e6], np.int64), np.array([end_ms * 1e6], np.int64))


def found(*advice: Advice, **settings: object) -> list[Advice]:
    def rule(_: Trace) -> Found:
        return advice

    return list(find_advice(trace(), Settings(own=(rule,), **settings)).advice)  # type: ignore[arg-type]


def saving(ms: float, rule: str = "own", **more: object) -> Advice:
    return Advice(rule=rule, title="t", saving_ns=round(ms * 1e6), certainty="measured", **more)  # type: ignore[arg-type]


def test_advice_is_sorted_by_time_then_by_memory_and_guesses_come_last() -> None:
    guess = Advice(rule="g", title="t")
    memory = Advice(rule="m", title="t", saving_bytes=5, certainty="measured")
    less = Advice(rule="l", title="t", saving_bytes=3, certainty="measured")
    rules = [advice.rule for advice in found(guess, less, saving(1, "short"), memory, saving(2, "long"))]
    assert rules == ["long", "short", "m", "l", "g"]


def test_what_saves_less_than_a_hundredth_of_a_step_is_left_out() -> None:
    assert [advice.rule for advice in found(saving(0.0999, "less"), saving(0.1, "enough"))] == ["enough"]


def test_what_was_measured_stays_even_if_it_saves_nothing() -> None:
    said = saving(2)
    own = Settings(own=(lambda _: said,))
    (kept,) = find_advice(trace(), own).advice
    nothing = replace(kept, saving_ns=0, certainty="measured here")
    assert list(find_advice(trace(), own, {kept: nothing}).advice) == [nothing]
    assert saving_words(0, None, "measured here") == "nothing"


def test_savings_of_steps_that_timing_lines_made_far_slower_are_those_of_steps_without_the_profiler() -> None:
    slow = trace()
    # Steps of 10 ms are of 2.5 ms without the profiler, and their one op took 1.2 us of recording at most.
    slow = replace(slow, meta=replace(slow.meta, plain_step_ns=(2_500_000,) * 5, has_function_lines=True))
    own = Settings(own=(lambda _: (saving(4), Advice(rule="g", title="t")),))
    scaled, guess = (advice for advice in find_advice(slow, own).advice if advice.rule in ("own", "g"))
    assert scaled.saving_ns == pytest.approx(1_000_000, rel=0.001)
    assert scaled.certainty == "estimated"
    assert "Timing the lines of functions made steps 4 times as long" in scaled.evidence
    assert guess.saving_ns is None
    # Something else made them longer, such as compilation, which others have no part of.
    other = replace(slow, meta=replace(slow.meta, has_function_lines=False))
    assert find_advice(other, own).advice[0].saving_ns == 4_000_000


def test_what_a_line_was_told_already_is_no_second_card_for_it() -> None:
    large = saving(4, "large", spans=spans(0, 8), file="train.py", line=3)
    # 2.4 of its 4 ms lie in the large one, and 1.6 ms are its own, in one of two steps: less than half.
    small = saving(2, "small", spans=spans(5.6, 9.6), file="train.py", line=3)
    assert [each.rule for each in found(small, large)] == ["large"]
    other = replace(small, line=4)
    assert [(each.rule, each.saving_ns) for each in found(other, large)] == [("large", 4_000_000), ("small", 800_000)]
    own = replace(small, spans=spans(7, 11))  # of which only 1 ms lies in it
    assert [each.rule for each in found(own, large)] == ["large", "small"]


def test_two_ways_to_save_the_time_of_one_op_are_one_card() -> None:
    first = Advice(rule="a", title="t", fix="do this", op="aten::mm", line=3)
    second = replace(first, rule="b", fix="do that")
    (card,) = found(second, first)
    assert (card.rule, card.fix) == ("a", "do this; or do that")
    others = [replace(second, op="aten::add"), replace(second, line=4), replace(second, fix=""), replace(second, op="")]
    assert all(len(found(first, other)) == 2 for other in others)


def test_time_that_two_would_save_counts_for_the_larger_one_alone() -> None:
    large, small = saving(4, "large", spans=spans(0, 8)), saving(2, "small", spans=spans(6, 10))
    # Two of the four ms of the small one lie in the large one.
    assert [(advice.rule, advice.saving_ns) for advice in found(small, large)] == [
        ("large", 4_000_000),
        ("small", 1_000_000),
    ]


def test_the_evidence_says_where_the_rest_of_a_saving_counts() -> None:
    large, small = saving(4, "large", spans=spans(0, 8)), saving(2, "small", spans=spans(6, 10))
    said = "is not counted again here. Alone it would save 2 ms; once the changes before it are made,"
    assert [each.evidence for each in found(small, large)] == ["", f"What “t” saves {said} 1 ms."]
    other = saving(5, "other", spans=spans(9, 20))
    assert found(small, large, other)[-1].evidence == f"What other advice saves {said} 500 µs."


def test_what_was_measured_takes_its_part_from_a_model_that_covers_more() -> None:
    model = Advice(rule="model", title="t", saving_ns=4_000_000, certainty="estimated", spans=spans(0, 8))
    assert [(advice.rule, advice.saving_ns) for advice in found(model, saving(2, "seen", spans=spans(0, 4)))] == [
        ("model", 2_000_000),
        ("seen", 2_000_000),
    ]


def test_advice_that_is_counted_already_is_left_out() -> None:
    both = found(saving(4, "large", spans=spans(0, 8)), saving(2, "small", spans=spans(2, 4)))
    assert [advice.rule for advice in both] == ["large"]


def test_a_threshold_holds_for_all_rules_or_for_one() -> None:
    advice = (saving(2, "a"), saving(1, "b"))
    assert [each.rule for each in found(*advice, threshold=0.15)] == ["a"]
    assert [each.rule for each in found(*advice, thresholds={"a": 0.5})] == ["b"]
    assert [each.rule for each in found(*advice, mute=frozenset({"a"}))] == ["b"]


def test_texts_are_printable_and_of_bounded_length() -> None:
    advice = Advice(rule="r", title="a\x1b[2Jb", evidence="x" * 10_000)
    assert advice.title == "a\\x1b[2Jb"
    assert len(advice.evidence) == 600


def test_an_unknown_certainty_is_refused() -> None:
    with pytest.raises(ValueError, match="certainty must be one of measured, measured here, estimated, guess"):
        Advice(rule="r", title="t", certainty="sure")  # type: ignore[arg-type]


def test_printed_advice_says_the_change_its_line_what_it_saves_and_how_sure_that_is() -> None:
    advice = Advice(rule="r", title="Fuse it", fix="`fused=True`", line=3, saving_ns=169_000, certainty="measured here")
    assert str(advice) == "Fuse it: fused=True (line 3) [saves 169 µs, measured here]"
    assert str(Advice(rule="r", title="Fuse it", saving_bytes=2 * 2**20)) == "Fuse it [saves 2 MiB, guess]"


@pytest.fixture
def _no_rules_of_others() -> Iterator[None]:
    yield
    for own in tp.rules.current().own:
        tp.rules.remove(own)
    tp.rules.configure({})


@pytest.mark.usefixtures("_no_rules_of_others")
class TestOwnRules:
    def test_a_rule_of_the_users_is_asked_for_every_report(self) -> None:
        @tp.rules.add
        def many_ops(trace: Trace) -> Advice:
            return Advice(rule="many_ops", title="Fewer ops", evidence=f"{trace.events.height} events")

        report = Report(trace())
        assert [str(advice) for advice in report.advice] == ["Fewer ops [guess]"]
        assert "1. Fewer ops [guess]\n" in report.summary()
        assert "Fewer ops" in report._repr_html_()
        assert "Fewer ops" in report.widget._header
        tp.rules.remove("many_ops")
        assert report.advice == []

    def test_a_rule_that_raises_is_a_problem_and_the_others_speak(self) -> None:
        def broken(_: Trace) -> Advice:
            raise KeyError("no such op")

        def whole(_: Trace) -> Advice:
            return Advice(rule="whole", title="t")

        tp.rules.add(broken)
        tp.rules.add(whole)
        report = Report(trace())
        assert [advice.rule for advice in report.advice] == ["whole"]
        assert [(problem.code, problem.count) for problem in report.problems] == [("advice.rule_failed", 1)]
        assert "broken failed: KeyError: 'no such op'" in report.problems[0].message

    def test_a_rule_that_returns_something_else_is_a_problem(self) -> None:
        tp.rules.add(lambda _: ["slow"])  # type: ignore[arg-type,list-item,return-value]
        assert "TypeError: a rule returns Advice" in Report(trace()).problems[0].message

    def test_a_rule_of_the_same_name_is_replaced(self) -> None:
        for text in ("first", "second"):

            def rule(_: Trace, text: str = text) -> Advice:
                return Advice(rule="rule", title=text)

            tp.rules.add(rule)
        assert [advice.title for advice in Report(trace()).advice] == ["second"]

    def test_what_is_no_function_and_what_was_never_added_are_refused(self) -> None:
        with pytest.raises(TypeError, match="a rule is a function"):
            tp.rules.add("slow")  # type: ignore[type-var]
        with pytest.raises(ValueError, match="no rule 'other' was added"):
            tp.rules.remove("other")

    def test_settings_mute_rules_for_all_reports_or_for_one_call(self) -> None:
        def own(_: Trace) -> Advice:
            return saving(2, "own")

        tp.rules.add(own)
        report = Report(trace())
        assert report.advice_with(mute=["own"]) == []
        assert report.advice_with(threshold=0.5) == []
        assert len(report.advice) == 1
        tp.rules.configure({"mute": ["own"]})
        assert report.advice == []
        tp.rules.configure({})
        assert len(report.advice) == 1

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"mute": "autocast"}, "mute takes a list"),
            ({"mute": ["no_such"]}, "no rule 'no_such'; choose from dataloader_workers"),
            ({"threshold": 2}, "threshold must be a share between 0 and 1"),
            ({"threshold": True}, "threshold must be a share"),
            ({"thresholds": {"autocast": "x"}}, "autocast must be a share"),
            ({"thresholds": 3}, "thresholds takes a dict"),
            ({"loud": 1}, "unknown 'loud'; choose from mute"),
        ],
    )
    def test_wrong_settings_are_refused_with_their_reason(self, values: dict[str, object], message: str) -> None:
        with pytest.raises(OptionsError, match=message):
            tp.rules.configure(values)


def test_every_rule_has_an_entry_of_the_documentation_and_a_name_of_its_own() -> None:
    names = [rule.name for rule in tp.rules.known()]
    assert len(set(names)) == len(names)
    page = (Path(__file__).parents[4] / "docs" / "advice.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in page for name in names)
    assert all(rule.speaks.endswith(".") for rule in tp.rules.known())
    assert [(rule.find or rule.find_in_job).__name__ for rule in tp.rules.known()] == names  # type: ignore[union-attr]
