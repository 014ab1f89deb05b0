"""What speaks against a verdict, in sentences."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from support import annotation, make_trace, span

from torchprof_magic.findings.verdict.doubts import find_doubts


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
    assert doubt.endswith(" (2 steps of this kind left out).")


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
