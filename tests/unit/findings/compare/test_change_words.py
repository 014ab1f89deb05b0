from __future__ import annotations

from dataclasses import replace

from torchprof_magic.findings.compare.change_words import change_evidence, change_line, change_numbers, change_title
from torchprof_magic.findings.compare.run_change import RunChange

BY_STEPS = RunChange(
    kind="slower", certainty="sure", ratio=1.25, interval=(1.2, 1.3), p=0.001, basis="steps",
    before_ns=8e6, after_ns=10e6, before_steps=24, after_steps=24, drift=1.0, shown_drift=1.0,
)  # fmt: skip


def test_a_change_of_the_steps_begins_with_their_times() -> None:
    assert change_line(BY_STEPS) == "step 8 ms → 10 ms, +25 %, sure"
    assert change_numbers(BY_STEPS) == "8 ms → 10 ms per step, 98 % interval +20 % to +30 %"


def test_too_few_steps_give_no_percentage() -> None:
    few = replace(BY_STEPS, kind="unclear", certainty="too few steps", basis="")
    assert change_line(few) == "step 8 ms → 10 ms, too few steps to tell"


def test_what_the_machine_changed_is_said_also_of_few_steps_and_of_those_without_the_profiler() -> None:
    unclear = replace(BY_STEPS, kind="unclear", certainty="not sure", basis="", p=0.3, drift=1.4, shown_drift=1.3)
    of_machine = (
        "Ops that both runs call equally often took 30 % longer, as on a busier or slower machine: changes of about "
        "that size in the tables are not those of single ops."
    )
    for change in (unclear, replace(unclear, certainty="too few steps"), replace(unclear, is_plain=True)):
        assert change_evidence(change).count(of_machine) == 1
    # Recording more makes ops longer, too.
    assert "machine" not in change_evidence(replace(unclear, same_details=False))
    assert "Ops that both" not in change_evidence(replace(unclear, drift=1.04))


def test_a_change_of_the_work_does_not_seem_to_be_that_of_the_steps() -> None:
    # The machine became faster meanwhile, and the program slower.
    by_work = replace(BY_STEPS, basis="work", ratio=1.0125, interval=(1.01, 1.015), after_ns=4e6)
    assert change_line(by_work) == "+1.25 % by other work, sure"
    assert change_title(by_work) == "1.25 % slower by other work, sure"
    assert change_numbers(by_work) == "98 % interval +1 % to +1.50 %; recorded 8 ms → 4 ms per step"
