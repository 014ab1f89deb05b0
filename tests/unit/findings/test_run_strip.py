"""The strip of a whole run, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

from support import make_trace, span

from torchprof_magic.findings.watched import watched_run
from torchprof_magic.model.meta import Stretch, WatchedRun


def step_times(*steps: tuple[int, int]) -> tuple[float | None, ...]:
    """Return the lane of step times for steps that begin and last so long."""
    stretches = tuple(
        Stretch(
            step=number,
            steps=1,
            start_ns=begin,
            sum_ns=lasts,
            longest_ns=lasts,
            data_ns=None,
            memory_bytes=None,
            recorded=0,
        )
        for number, (begin, lasts) in enumerate(steps)
    )
    run = WatchedRun(stretches=stretches, slow=(), steps=len(steps), recorded=0, cost_ns=0)
    trace = make_trace(span("aten::mm", 0, 1))
    (lane,) = watched_run(replace(trace, meta=replace(trace.meta, watched=run))).lanes
    return lane.values


def test_a_slow_step_is_shown_for_as_long_as_it_ran() -> None:
    # Five parts of 200 ns. The slow step runs in the second and third, and in half of the fourth.
    steps = ((0, 100), (100, 100), (200, 500), (700, 100), (800, 200))
    assert step_times(*steps) == (100, 500, 500, 500, 200)


def test_nothing_is_shown_where_no_step_ran() -> None:
    # Four parts of 200 ns, in two of which a recording was saved.
    assert step_times((0, 100), (100, 100), (600, 100), (700, 100)) == (100, None, None, 100)
