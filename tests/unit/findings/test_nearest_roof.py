"""The sentence above the roofline: what could gain the most, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support import annotation, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.findings.nearest_roof import below_roofs, without_advice
from torchprof_magic.findings.overview import overview_facts
from torchprof_magic.findings.verdict.decision import find_verdict
from torchprof_magic.tables.ops.roofline import roofline_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchprof_magic.model.trace import Trace

NAME = "Round 2000"
BF16 = ["c10::BFloat16"] * 2


@pytest.fixture(autouse=True)
def _round_peaks() -> Iterator[None]:
    tp.peaks.add(NAME, bytes_per_s=1e12, flops_per_s={"bf16": 1e15}, vector_flops_per_s={"f32": 1e13})
    yield
    tp.peaks.remove(NAME)


def made(device: str = NAME) -> Trace:
    # 2 bytes x 1,000,000 elements are read and written: 4 us at 1 TB/s.
    copy = {"Input Dims": [[1_000_000], [1_000_000]], "Input type": BF16}
    events = [annotation("ProfilerStep#0", 0, 1_000)]
    events += [span("aten::copy_", 0, 10, **copy), launch(1, 1, 1), kernel("copy kernel", 50, 16, 1)]
    return make_trace(*events, deviceProperties=[{"id": 0, "name": device}])


def answer(trace: Trace) -> str:
    return below_roofs(roofline_table)(trace).answer


def test_the_sentence_says_what_could_gain_most() -> None:
    said = "`aten::copy_` could gain the most: up to 12 of 16 µs per step; its limit is memory bandwidth."
    assert answer(made()) == f"{said} It is at 25 % of its roof."


def test_work_at_its_roof_has_nothing_to_gain_and_its_row_says_why_it_is_faster() -> None:
    copy = {"Input Dims": [[1_000_000], [1_000_000]], "Input type": BF16}
    events = [span("aten::copy_", 0, 10, **copy), launch(1, 1, 1), kernel("copy kernel", 50, 2, 1)]
    trace = make_trace(*events, deviceProperties=[{"id": 0, "name": NAME}])
    assert answer(trace) == "Nothing can gain: all work of known size is at its roof."
    assert roofline_table(trace).frame["beyond"].to_list() == ["in caches"]


def test_a_share_of_all_calls_that_does_not_fit_the_gain_of_the_slow_ones_is_left_out() -> None:
    # At the roof each takes 4 us: one could gain 12 us of its 16, the other takes 2. Both reach 8 / 18 = 44.4 %.
    copy = {"Input Dims": [[1_000_000], [1_000_000]], "Input type": BF16}
    events = [annotation("ProfilerStep#0", 0, 1_000)]
    for number, (at, dur) in enumerate([(50, 16), (80, 2)], start=1):
        events += [span("aten::copy_", 10 * number, 9, **copy), launch(10 * number + 1, 1, number)]
        events += [kernel("copy kernel", at, dur, number)]
    trace = make_trace(*events, deviceProperties=[{"id": 0, "name": NAME}])
    said = "`aten::copy_` could gain the most: up to 12 of 18 µs per step; its limit is memory bandwidth."
    assert answer(trace) == f"{said} It is at 33.3 % of its roof."


def test_the_sentence_has_three_digits_as_all_sentences_also_where_the_table_has_four() -> None:
    # The product takes 128 us at its roof: it could gain 1,877.6 of 2,005.6 us.
    trace = busy(("aten::mm", [[4000, 4000], [4000, 4000]], 2005.6), COPY)
    said = "`aten::mm` could gain the most: up to 1.88 of 2.01 ms per step; its limit is arithmetic."
    assert answer(trace) == f"{said} It is at 6.38 % of its roof."


# At 1 TB/s the copy of 4 MB takes 4 us; at 1,000 TFLOP/s the product takes 128 us, and it takes 400.
COPY = ("aten::copy_", [[1_000_000], [1_000_000]], 10)
PRODUCT = ("aten::mm", [[4000, 4000], [4000, 4000]], 400)


def test_the_sentence_names_what_is_nearest_to_its_limit_if_that_takes_a_part_of_the_work() -> None:
    # The product is at 128 / 400 = 32 % of its limit, the copy at 4 / 10 = 40 %.
    most = "`aten::mm` could gain the most: up to 272 of 400 µs per step; its limit is arithmetic."
    assert answer(busy(PRODUCT, COPY)) == f"{most} `aten::copy_` is nearest to its roof, at 40 % of it."
    # 0.2 us at the roof of the memory: nearer, but it takes 0.01 % of the time.
    small = ("aten::add", [[50_000], [50_000]], 0.3)
    said = f"{most} Of those with at least 1 % of the work, `aten::copy_` is nearest to its roof, at 40 % of it."
    assert answer(busy(PRODUCT, COPY, small)) == said
    assert answer(busy(PRODUCT)) == f"{most} It is at 32 % of its roof."


def test_what_could_gain_the_most_can_be_the_nearest_of_those_with_a_part_of_the_work() -> None:
    # At 128 / 400 = 32 % and 4 / 20 = 20 % of their limits, and at 67 % what takes 0.07 % of the time.
    far, small = (*COPY[:2], 20), ("aten::add", [[50_000], [50_000]], 0.3)
    said = "`aten::mm` could gain the most: up to 272 of 400 µs per step; its limit is arithmetic."
    assert answer(busy(PRODUCT, far)) == f"{said} It is also the nearest to its roof, at 32 % of it."
    some = "Of those with at least 1 % of the work, it is also the nearest to its roof, at 32 % of it."
    assert answer(busy(PRODUCT, far, small)) == f"{said} {some}"


def test_without_advice_the_work_that_could_gain_much_of_a_step_is_what_to_change() -> None:
    said = "`aten::mm` could gain the most: up to 272 of 400 µs per step; its limit is arithmetic."
    assert without_advice(busy(PRODUCT, COPY)) == said


def test_without_advice_work_that_could_gain_little_of_a_step_is_said_to_be_so() -> None:
    # 12 of 1,000 us.
    said = (
        "No advice. Faster kernels could save 12 µs per step (1.20 %) at most, where the size of their work is known."
    )
    assert without_advice(made()) == said


def test_without_advice_and_known_work_nothing_is_said_of_it() -> None:
    none = "No advice: no rule applies."
    assert without_advice(make_trace(span("aten::mm", 0, 10))) == none
    assert without_advice(make_trace()) == none


def test_without_advice_it_is_said_what_would_tell_how_near_a_busy_device_is_to_its_limit() -> None:
    assert "`--shapes` (`record_shapes=True`)" in without_advice(busy(PRODUCT, keeps_shapes=False))
    assert "tp.peaks.add()" in without_advice(busy(PRODUCT, device="an unknown one"))


def test_without_advice_work_at_its_limit_is_said_to_be_there() -> None:
    said = "No advice. All work of known size is at its roof."
    assert without_advice(busy((*COPY[:2], 4))) == said


@pytest.mark.parametrize("is_recorded", [True, False])
def test_what_the_host_launches_has_no_roof_where_its_device_was_not_recorded(*, is_recorded: bool) -> None:
    copy = {"Input Dims": [[1_000_000], [1_000_000]], "Input type": BF16}
    launches = [launch(2 + 20 * at, 1, at + 1) for at in range(3)]
    ops = [span("aten::copy_", 20 * at, 10, **copy) for at in range(3)]
    made = make_trace(annotation("ProfilerStep#0", 0, 100), *ops, *([] if is_recorded else launches))
    trace = replace(made, meta=replace(made.meta, cpu_model=NAME))
    assert (roofline_table(trace).frame.height > 0) == is_recorded
    assert ("could gain the most" in answer(trace)) == is_recorded


def busy(*ops: tuple[str, list[list[int]], float], device: str = NAME, keeps_shapes: bool = True) -> Trace:
    """Return one step in which the device is busy with the kernel of each op, one after the other."""
    events, at = [annotation("ProfilerStep#0", 0, sum(op[2] for op in ops) + 5)], 4
    for number, (name, shapes, dur) in enumerate(ops, start=1):
        recorded = {"Input Dims": shapes, "Input type": BF16} if keeps_shapes else {}
        events += [span(name, number, 0.9, **recorded), launch(number + 0.1, 0.1, number)]
        events += [kernel(f"kernel {number}", at, dur, number)]
        at += dur
    return make_trace(*events, deviceProperties=[{"id": 0, "name": device}])


UNKNOWN = ("aten::unheard_of", [[1], [1]], 200)


@pytest.mark.parametrize(
    ("trace", "title", "said"),
    [
        (
            lambda: busy(COPY),
            "Memory-bound",
            " The memory limits 100 % of the time of kernels, at 40 % of the roof. By kernel",
        ),
        (
            lambda: busy(PRODUCT),
            "Compute-bound",
            " Arithmetic limits 100 % of the time of kernels, at 32 % of the roof.",
        ),
        (
            lambda: busy((*PRODUCT[:2], 4 * PRODUCT[2])),
            "Device-bound",
            " At 8 % of the roof, neither arithmetic nor the memory limits the kernels.",
        ),
        (
            lambda: busy(PRODUCT, UNKNOWN),
            "Compute-bound",
            " Arithmetic limits 66.7 % of the time of kernels, at 32 % of the roof, and of 33.3 % it is not known.",
        ),
        (
            lambda: busy((*PRODUCT[:2], 190), COPY, UNKNOWN),
            "Device-bound",
            " Arithmetic limits 47.5 % of the time of kernels, the memory 2.50 %, and of the rest it is not known.",
        ),
        (
            lambda: busy(UNKNOWN),
            "Device-bound",
            "What limits the kernels is not known: the recording does not tell what most",
        ),
        (
            lambda: busy(PRODUCT, keeps_shapes=False),
            "Device-bound",
            "not known: the recording has no shapes (--shapes).",
        ),
        (lambda: busy(PRODUCT, device="an unknown one"), "Device-bound", "the peak of this device is not known (tp.pe"),
    ],
)
def test_the_verdict_of_a_busy_device_says_which_roof_limits_its_work_only_where_that_is_known(
    trace: Callable[[], Trace], title: str, said: str
) -> None:
    verdict = find_verdict(trace())
    assert (verdict.kind, verdict.title) == ("compute", title)
    assert said in str(verdict)


def test_without_a_peak_it_says_how_to_get_one() -> None:
    assert "tp.peaks.add()" in answer(made("an unknown device"))
    on_host = make_trace(span("aten::copy_", 0, 10, **{"Input Dims": [[10], [10]], "Input type": ["float"] * 2}))
    assert "tp.measure_peak()" in answer(on_host)


def test_without_known_work_there_is_no_sentence() -> None:
    assert answer(make_trace(span("aten::mm", 0, 10))) == ""


@pytest.mark.parametrize(
    ("device", "value", "note"), [(NAME, NAME, "memory 1 TB/s"), ("an unknown one", "not known", "tp.peaks.add()")]
)
def test_words_of_ours_about_the_peak_are_not_read_as_a_name_of_the_recording(
    device: str, value: str, note: str
) -> None:
    # Names are quoted in Markdown, and what looks like a sentence in them is joined: only names may be values.
    found = next(fact for each in overview_facts(made(device)).sections for fact in each.facts if fact.label == "Peak")
    assert found.value == value
    assert note in found.note
