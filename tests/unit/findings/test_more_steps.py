from __future__ import annotations

from dataclasses import replace

import pytest
from support import annotation, make_trace, span

from torchprof_magic.findings.more_steps import more_steps
from torchprof_magic.findings.verdict.decision import find_verdict
from torchprof_magic.model.meta import CellSource, Stepping
from torchprof_magic.model.trace import Trace
from torchprof_magic.report.trace_report import Report


def recorded(source: str | None, how: str = "cell", steps: int = 1) -> Trace:
    """Return the trace of a run of a cell, or of a block of ``profile()`` without a source."""
    ranges = [annotation(f"ProfilerStep#{number}", 100 * number, 100) for number in range(steps)]
    trace = make_trace(*ranges, span("aten::mm", 10, 80))
    cell = None if source is None else CellSource(label="In [1]", filename="cell", source=source)
    return replace(trace, meta=replace(trace.meta, stepping=Stepping(how=how), cell=cell))


@pytest.mark.parametrize(
    "source",
    [
        "%%torchprof\ntrain(b)",
        "trainer.fit()",
        "if x:\n  go()",
        "def f():\n  for b in data: go(b)\nf()",
        "a = [f(b) for b in c]",
    ],
)
def test_a_cell_without_a_loop_says_how_to_get_several_steps(source: str) -> None:
    for how in ("cell", "optimizer"):
        said = more_steps(recorded(source, how))
        assert "in a loop of the cell" in said
        assert "--step manual" in said
        assert said in Report(recorded(source, how)).summary()


@pytest.mark.parametrize(
    ("source", "how", "steps"),
    [
        ("for b in data: go(b)", "cell", 1),
        ("with x:\n  while True: go()", "cell", 1),
        ("try: pass\nexcept E:\n  for b in data: go(b)", "cell", 1),
        ("trainer.fit()", "optimizer", 3),
        ("for b in data: go(b)", "loop", 1),
        ("go(); tp.step()", "manual", 1),
        ("%%torchprof --step cell\ngo()", "cell", 1),
        ("this is no Python", "cell", 1),
    ],
)
def test_one_with_a_loop_or_several_steps_or_whose_steps_were_chosen_does_not(
    source: str, how: str, steps: int
) -> None:
    assert more_steps(recorded(source, how, steps)) == ""


def test_a_block_of_profile_says_so_for_itself_and_a_file_of_another_program_says_nothing() -> None:
    assert "p.steps(...)" in more_steps(recorded(None))
    assert more_steps(recorded(None, "manual")) == ""
    assert more_steps(make_trace(annotation("ProfilerStep#1", 0, 100), span("aten::mm", 10, 80))) == ""


def test_the_doubt_of_a_single_step_says_it() -> None:
    (doubt,) = [one for one in find_verdict(recorded("go()")).doubts if one.startswith("Only 1 complete step recorded")]
    assert doubt.endswith(more_steps(recorded("go()")))
    assert not any("For several steps" in one for one in find_verdict(recorded("go()", steps=2)).doubts)
