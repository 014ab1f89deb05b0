from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

from torchprof_magic.findings.compare.change_words import change_evidence, change_line
from torchprof_magic.findings.compare.per_step import Cells, RunSample
from torchprof_magic.findings.compare.run_change import RunChange, find_change

# A program as it starts: the first steps take a fifth longer than those in the end.
WARMING_MS = (9.62, 8.04, 9.73, 8.07, 8.02, 7.16, 6.71, 6.64, 6.57, 6.53, 6.64, 6.77, 6.66, 6.69)
SLEEPING_MS = (10.34, 10.13, 9.98, 10.1, 11.0, 10.14, 9.83, 10.1, 10.22, 10.24, 10.06, 9.93, 9.85, 9.91)
SHORT_MS, LONG_MS = (4.062, 4.060, 4.038), (7.094, 7.160, 7.159)


def run(plain_ms: tuple[float, ...], idle_ms: tuple[float, ...]) -> RunSample:
    """Three recorded steps of which the thread waits for a part, and steps without the profiler."""
    none = np.zeros((0, 3), np.int64)
    cells = Cells(pl.DataFrame({"name": []}, schema={"name": pl.String}), none, none, none)
    plain, idle = (tuple(round(ms * 1e6) for ms in each) for each in (plain_ms, idle_ms))
    recorded = tuple(ns + 5_000_000 for ns in idle)
    return RunSample(recorded, cells, cells, idle, has_device=False, plain_durations=plain, step_ns=9e6)


def changed(idle_ms: tuple[float, ...], plain_ms: tuple[float, ...] = SLEEPING_MS) -> RunChange:
    return find_change(run(WARMING_MS, SHORT_MS), run(plain_ms, idle_ms))


def test_a_wait_that_is_longer_in_every_recorded_step_is_sure_while_the_first_run_still_warms_up() -> None:
    change = changed(LONG_MS)
    assert (change.kind, change.certainty, change.basis) == ("slower", "sure", "waits")
    # 10.1 ms over 7.4 ms, the means of the steps without the profiler, and by the waits 9.8 over 6.6 ms.
    assert change.ratio == pytest.approx(1.37, abs=0.03)
    assert 1.2 < change.interval[0] < 1 + 3.1 / 6.6 < change.interval[1] < 1.8
    assert re.fullmatch(r"▲ 2\.\d+ ms slower per step than before \(\+3\S+ %\)", change_line(change))
    assert "Every recorded step sleeps or waits longer after" in change_evidence(change)


def test_a_shorter_wait_makes_the_steps_faster() -> None:
    change = find_change(run(SLEEPING_MS, LONG_MS), run(WARMING_MS, SHORT_MS))
    assert (change.kind, change.basis) == ("faster", "waits")


@pytest.mark.parametrize("idle_ms", [SHORT_MS, (4.1, 7.16, 7.159), (5.1, 6.2, 7.3)])
def test_waits_that_are_as_long_or_vary_as_much_tell_nothing(idle_ms: tuple[float, ...]) -> None:
    assert changed(idle_ms).basis != "waits"


def test_waits_that_the_steps_without_the_profiler_do_not_show_tell_nothing() -> None:
    assert changed(LONG_MS, WARMING_MS).kind == "unclear"
