from __future__ import annotations

from dataclasses import replace

import polars as pl

from torchprof_magic.findings.compare.change_words import (
    change_evidence,
    change_line,
    change_numbers,
    change_title,
    largest_change,
    of_recorded,
)
from torchprof_magic.findings.compare.run_change import RunChange
from torchprof_magic.findings.compare.work_change import WAITING, WorkChange
from torchprof_magic.model.shapes import Column, Table

BY_STEPS = RunChange(
    kind="slower", certainty="sure", ratio=1.25, interval=(1.2, 1.3), p=0.001, basis="steps",
    before_ns=8e6, after_ns=10e6, before_steps=24, after_steps=24, drift=1.0, shown_drift=1.0,
)  # fmt: skip


def test_a_change_of_the_steps_begins_with_their_times() -> None:
    assert change_line(BY_STEPS) == "▲ 2 ms slower per step than before (+25 %)"
    assert change_numbers(BY_STEPS) == "8 ms → 10 ms per step, 98 % interval +20 % to +30 %"
    likely = replace(BY_STEPS, kind="faster", certainty="likely", ratio=0.75, after_ns=6e6)
    assert change_line(likely) == "▼ 2 ms faster per step than before (−25 %), likely"


def test_too_few_steps_give_no_percentage() -> None:
    few = replace(BY_STEPS, kind="unclear", certainty="too few steps", basis="")
    assert change_line(few) == "≈ Too few steps to say: step 8 ms → 10 ms"


def test_what_the_machine_changed_is_said_also_of_few_steps_and_of_those_without_the_profiler() -> None:
    unclear = replace(BY_STEPS, kind="unclear", certainty="not sure", basis="", p=0.3, drift=1.4, shown_drift=1.3)
    of_machine = (
        "Ops that both runs call equally often took 30 % longer after, as on a busier or slower machine. A "
        "change of about that size in a table says nothing about that op alone."
    )
    for change in (unclear, replace(unclear, certainty="too few steps"), replace(unclear, is_plain=True)):
        assert change_evidence(change).count(of_machine) == 1
    # Recording more makes ops longer, too.
    assert "machine" not in change_evidence(replace(unclear, same_details=False))
    assert "Ops that both" not in change_evidence(replace(unclear, drift=1.04))


def test_a_change_of_the_work_does_not_seem_to_be_that_of_the_steps() -> None:
    # The machine became faster meanwhile, and the program slower.
    work = WorkChange(difference=0.0125, error=0.001, p=0.001, name="aten::mul", calls_before=1, calls_after=3)
    by_work = replace(BY_STEPS, basis="work", work=work, ratio=1.0125, interval=(1.01, 1.015), after_ns=4e6)
    assert change_title(by_work) == "More work per step, sure, but not slower"
    assert change_title(replace(by_work, after_ns=9e6)) == "More work per step, sure"
    assert change_line(by_work) == "▲ More work per step, sure, but not slower: step 8 ms → 4 ms (−50 %)"
    assert change_title(replace(by_work, kind="faster", ratio=0.9)) == "Less work per step, sure"
    assert change_numbers(by_work) == "8 ms → 4 ms per step (−50 %), 98 % interval of the work alone +1 % to +1.50 %"
    evidence = change_evidence(by_work)
    assert evidence.startswith(
        "A step does more after than before: mostly aten::mul, 1 → 3 calls per step. By that alone a step would be "
        "1.25 % longer. Even so, the steps became shorter, 8 ms → 4 ms (−50 %), but they vary too much to be sure of "
        "that."
    )
    # How much more the work is: 1.25 % in the change, of which 1.26 % would be the work by itself.
    assert "1.26 %" not in evidence
    assert "(−50 %): the machine may have been faster." in change_evidence(replace(by_work, drift=0.5))
    assert "vary too much" in change_evidence(replace(by_work, drift=1.5))


def test_a_change_by_waiting_is_called_waiting_and_not_work() -> None:
    wait = WorkChange(difference=0.3, error=0.01, p=0.001, name=WAITING, calls_before=0, calls_after=0)
    alone = replace(BY_STEPS, basis="work", work=wait, ratio=1.35, interval=(1.3, 1.4), after_ns=16e6)
    assert change_line(alone) == "▲ 8 ms slower per step than before (+100 %)"
    assert change_evidence(alone).startswith(
        "A step waits more after than before. By that alone a step would be 35 % longer. The steps became longer"
    )
    # Where the typical steps changed by as much, the title has their percentage.
    assert change_title(replace(alone, basis="waits", ratio=2.0)) == "100 % slower by more waiting, sure"


def test_the_run_that_had_fewer_free_cores_is_the_slower_one_whatever_others_used_on_average() -> None:
    busy = replace(BY_STEPS, kind="unclear", certainty="not sure", basis="", p=0.3, others_shares=(0.512, 0.508))
    assert (
        "The machine had fewer free cores after, which alone makes the steps longer: other programs used 51.2 % of "
        "them before, 50.8 % after."
    ) in change_evidence(busy)
    assert "fewer free cores before" in change_evidence(replace(busy, after_ns=7e6))


OPS = (
    Column(name="name", title="Name", unit="code", definition=""),
    Column(name="before_ns", title="Before", unit="ns", definition=""),
    Column(name="after_ns", title="After", unit="ns", definition=""),
    Column(name="delta_ns", title="Change", unit="ns", definition="", is_change=True),
)


def test_the_largest_change_is_a_sentence() -> None:
    rows = {"name": ["aten::mm", "aten::add"], "before_ns": [2_000, 500], "after_ns": [5_000, 400]}
    frame = pl.DataFrame(rows).with_columns(delta_ns=pl.col("after_ns") - pl.col("before_ns"))
    changes = Table(frame=frame, columns=OPS, sort_by="delta_ns")
    assert largest_change(changes, 1.2) == "Largest change: aten::mm, 2 µs → 5 µs per step on the host."
    # What became slower explains no step that became faster.
    assert largest_change(changes, 0.8) == "Largest change: aten::add, 500 ns → 400 ns per step on the host."
    assert largest_change(replace(changes, frame=frame.clear()), 1.2) == ""
    assert largest_change(replace(changes, frame=frame.with_columns(delta_ns=0)), 1.2) == ""


def test_what_made_a_change_has_the_recorded_steps_where_these_changed_far_more_or_less_than_the_title_says() -> None:
    plain = replace(BY_STEPS, is_plain=True, before_ns=13_500_000, after_ns=25_300_000)  # 11.8 ms more
    words = "Mostly line 3, loss = f(x): 9.93 ms → 36.7 ms per step."
    of = "In the recorded steps (12.4 ms → 48 ms), mostly line 3, loss = f(x): 9.93 ms → 36.7 ms per step."
    assert of_recorded(words, plain, 12_400_000, 48_000_000) == of
    assert of_recorded(words, plain, 20_000_000, 34_000_000) == words  # 14 ms more
    assert of_recorded(words, replace(plain, is_plain=False), 12_400_000, 48_000_000) == words
    assert of_recorded("", plain, 12_400_000, 48_000_000) == ""
