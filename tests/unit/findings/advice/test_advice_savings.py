"""What advice saves by the graph of the steps, alone and after other advice: two steps of 10 ms, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support import annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.findings.advice import RULES, Advice, Settings, Spans, find_advice
from torchprof_magic.findings.advice.kinds import DEVICES, Effect
from torchprof_magic.findings.what_if.asked import can_replay
from torchprof_magic.model.trace import Trace
from torchprof_magic.report.trace_report import Report

STEPS = (annotation("ProfilerStep#0", 0, 10_000), annotation("ProfilerStep#1", 10_000, 10_000))
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def trace(*events: dict[str, Any], **meta: Any) -> Trace:
    found = [*STEPS]
    for step in (0, 1):
        for event in events:
            args = event.get("args", {})
            number = {"correlation": args["correlation"] + 1_000 * step} if "correlation" in args else {}
            found.append(event | {"ts": event["ts"] + 10_000 * step, "args": args | number})
    made = make_trace(*found)
    return replace(made, meta=replace(made.meta, **meta))


def both(start_ms: float, end_ms: float) -> Spans:
    """Return the same part of both steps."""
    start, end = (np.array([ms * 1e6, (ms + 10) * 1e6], np.int64) for ms in (start_ms, end_ms))
    return Spans(start, end)


def lost(rule: str, ms: float, start_ms: float, end_ms: float, **more: Any) -> Advice:
    at = both(start_ms, end_ms)
    return Advice(rule=rule, title=rule, saving_ns=round(ms * 1e6), certainty="measured", spans=at, **more)


def savings(of: Trace, *advice: Advice) -> list[tuple[str, int | None, int | None]]:
    others = frozenset(rule.name for rule in RULES)
    found = find_advice(of, Settings(own=(lambda _: advice,), mute=others)).advice
    return [(each.rule, each.saving_ns, each.alone_ns) for each in found if each.saving_ns is not None]


def test_what_is_lost_one_after_the_other_adds_up() -> None:
    ops = span("aten::mm", 0, 2_000), span("aten::exp", 2_000, 3_000)
    assert savings(trace(*ops), lost("a", 2, 0, 2), lost("b", 3, 2, 5)) == [
        ("b", 3_000_000, 3_000_000),
        ("a", 2_000_000, 2_000_000),
    ]


def test_half_of_the_time_that_is_gone_is_half_of_the_saving() -> None:
    assert savings(trace(span("aten::mm", 0, 4_000)), lost("a", 2, 0, 4)) == [("a", 2_000_000, 2_000_000)]


def test_time_of_the_host_saves_only_what_the_device_lets_it() -> None:
    # The host launches at 4 ms and at 8 ms, and the device works from 4 to 7 ms and from 8 to 9.9 ms.
    events = (
        span("aten::mm", 3_900, 100),
        launch(3_990, 10, correlation=1),
        kernel("gemm", 4_000, 3_000, correlation=1),
        span("aten::exp", 7_900, 100),
        launch(7_990, 10, correlation=2),
        kernel("exp", 8_000, 1_900, correlation=2),
        span("cudaDeviceSynchronize", 8_100, 1_800, cat="cuda_runtime", correlation=3),
    )
    first, second = lost("first", 3, 0, 3), lost("second", 3, 4, 7)
    # Without the first the step takes 7 ms. Without the second, the device goes on from 7 to 8.9 ms, 1 ms earlier.
    assert savings(trace(*events), first, second) == [("first", 3_000_000, 3_000_000), ("second", 1_000_000, 1_000_000)]


def test_advice_that_saves_no_more_after_another_says_so_and_what_it_would_alone() -> None:
    # Two workers load 8 ms in 4 ms, more than what is left of the step with or without the sleep.
    found = trace(annotation(LOADER, 0, 8_000), span("aten::mm", 8_000, 500), cpu_cores=2)
    asleep = lost("asleep", 1.5, 8.5, 10)
    loader, other = find_advice(found, Settings(own=(lambda _: asleep,))).advice
    assert (loader.rule, loader.saving_ns) == ("dataloader_workers", 6_000_000)
    assert (other.rule, other.saving_ns, other.alone_ns) == ("asleep", 0, 1_500_000)
    assert other.evidence == "Alone it would save 1.50 ms; once the changes before it are made, nothing more."
    assert str(other) == "asleep [saves nothing more, measured]"


def test_the_second_saves_what_the_first_leaves_of_it() -> None:
    # Without fetching a step takes 4.5 ms, and 2 ms without the sleep; two workers let it take no less than 3 ms.
    found = trace(annotation(LOADER, 0, 6_000), span("aten::mm", 6_000, 500), cpu_cores=2)
    asleep = lost("asleep", 2.5, 7, 9.5)
    loader, other = find_advice(found, Settings(own=(lambda _: asleep,))).advice
    assert (loader.saving_ns, loader.alone_ns) == (5_500_000, 5_500_000)
    assert (other.saving_ns, other.alone_ns) == (1_500_000, 2_500_000)
    assert other.evidence == "Alone it would save 2.50 ms; once the changes before it are made, 1.50 ms."


def test_workers_save_what_the_same_question_answers() -> None:
    report = Report(trace(annotation(LOADER, 0, 8_000), span("aten::mm", 8_000, 1_900), cpu_cores=4))
    (found,) = report.advice
    assert found.fix == "`num_workers=4` in the DataLoader"
    assert found.saving_ns == report.what_if(workers=4).saving_ns


def test_time_of_devices_that_is_gone_shortens_what_waits_for_it() -> None:
    events = (
        launch(10, 5, correlation=1),
        kernel("gemm", 20, 4_980, correlation=1),
        launch(30, 5, correlation=2),
        kernel("convert", 5_000, 4_000, correlation=2),
        span("cudaDeviceSynchronize", 50, 8_950, cat="cuda_runtime", correlation=3),
    )
    at_devices = lost("convert", 4, 5, 9, effect=Effect(where=DEVICES))
    assert savings(trace(*events), at_devices) == [("convert", 4_000_000, 4_000_000)]


def test_nothing_saves_more_than_its_rule_has_found_lost() -> None:
    found = trace(span("aten::mm", 0, 8_000))
    assert savings(found, lost("a", 1, 0, 8), lost("b", 1, 8, 10)) == [
        ("a", 1_000_000, 1_000_000),
        ("b", 1_000_000, 1_000_000),
    ]


@pytest.mark.parametrize("has_launches", [False, True])
def test_without_launches_what_was_lost_is_all_that_is_known(has_launches: bool) -> None:
    work = kernel("gemm", 1_000, 8_000, correlation=1 if has_launches else 77)
    found = trace(launch(990, 5, correlation=1), work)
    assert can_replay(found) == has_launches
    if not has_launches:
        assert savings(found, lost("a", 3, 1, 4), lost("b", 2, 3, 5)) == [
            ("a", 3_000_000, 3_000_000),
            ("b", 1_000_000, 1_000_000),
        ]


def test_what_workers_leave_is_known_without_the_graph() -> None:
    # The device waits 8 ms for a fetch of 8 ms; two workers let a step take no less than 4 ms.
    work = kernel("gemm", 8_100, 1_800, correlation=77)
    found = trace(annotation(LOADER, 0, 8_000), span("aten::mm", 8_000, 500), work, cpu_cores=2)
    assert not can_replay(found)
    (loader,) = find_advice(found).advice
    assert loader.saving_ns == 6_000_000


def test_a_saving_is_no_more_than_what_its_words_say_it_removes() -> None:
    # 2, 4 and 4 ms: half of the steps would be 4 ms shorter, and the mean is 3.33 ms.
    sleeps = [
        frame("<built-in function sleep>", step * 10_000 + 1_000, ms * 1_000) for step, ms in enumerate((2, 4, 4))
    ]
    steps = [annotation(f"ProfilerStep#{step}", step * 10_000, 10_000) for step in range(3)]
    (found,) = find_advice(make_trace(*steps, *sleeps, span("aten::mm", 0, 500))).advice
    assert found.evidence == "The program sleeps 3.33 ms per step."
    assert found.saving_ns == 3_333_333


def test_no_rule_of_ours_says_what_it_saves_itself() -> None:
    sleep = frame("<built-in function sleep>", 8_000, 1_000)
    adam = [span(f"aten::{name}", 6_500 + 10 * at, 9) for at, name in enumerate(("sqrt", "addcdiv_") * 9)]
    fetch, range_ = annotation(LOADER, 0, 6_000), annotation("Optimizer.step#Adam.step", 6_400, 400)
    made = trace(fetch, range_, *adam, sleep, cpu_cores=2)
    said = [advice for rule in RULES if rule.find is not None for advice in as_several(rule.find(made))]
    assert {each.rule for each in said} >= {"dataloader_workers", "single_tensor_optimizer", "sleeping"}
    assert all(each.saving_ns is None and each.has_number for each in said)
    assert all(each.saving_ns for each in find_advice(made).advice)


def as_several(found: Any) -> list[Advice]:
    return [] if found is None else [found] if isinstance(found, Advice) else list(found)


def test_a_share_that_is_left_is_no_part_of_what_is_saved() -> None:
    at = both(0, 4)
    found = Advice(rule="own", title="t", certainty="estimated", spans=at, effect=Effect(left=0.25))
    assert savings(trace(span("aten::mm", 0, 4_000)), found) == [("own", 3_000_000, 3_000_000)]


def test_a_rule_that_does_not_say_when_keeps_its_number() -> None:
    found = Advice(rule="own", title="t", saving_ns=4_000_000, certainty="estimated")
    assert savings(trace(span("aten::mm", 0, 100)), found) == [("own", 4_000_000, 4_000_000)]
