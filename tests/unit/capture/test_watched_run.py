"""Which steps of a watched run are recorded, and what is kept of all of them, with times that the test makes."""

from __future__ import annotations

import pytest

from torchprof_magic.capture.schedule import Action, WatchSchedule
from torchprof_magic.capture.watched_run import (
    DETAILS_ACTIVE,
    KEPT_DETAILS,
    KEPT_TIMES,
    LATER_ACTIVE,
    MAX_SLOW,
    MAX_STRETCHES,
    RunWatch,
    Strip,
)
from torchprof_magic.model.meta import SlowLine, Stretch

MS = 1_000_000
S = 1_000 * MS


class Loop:
    """A loop whose steps take as long as it is told; recording one costs ``cost_ns`` between steps."""

    def __init__(self, interval_s: float = 10.0, cost_ns: int = MS, **options: bool) -> None:
        self.schedule = WatchSchedule()
        self.watch = RunWatch(self.schedule, interval_s, lambda: 1_000, **options)
        self.cost_ns = cost_ns
        self.step = 0
        self.now_ns = 5 * S
        self.actions: list[Action] = []

    def run(self, steps: int, step_ns: int = 10 * MS, lines: tuple[SlowLine, ...] = ()) -> None:
        for _ in range(steps):
            action = self.schedule.action(self.step)
            self.actions.append(action)
            following = self.schedule.action(self.step + 1)
            began_ns, self.now_ns = self.now_ns, self.now_ns + step_ns
            self.watch.end_step(
                self.step, began_ns, self.now_ns, fetch_ns=MS, is_recorded=action.is_recording, lines=lines
            )
            assert self.schedule.action(self.step + 1) is following, "the next step was decided before"
            if action is Action.RECORD_AND_SAVE:
                cost_ns = self.cost_ns * (4 if self.schedule.is_detailed(self.schedule.cycle(self.step)) else 1)
                self.now_ns += cost_ns
                self.watch.add_between(cost_ns, is_of_cycle=True)
            self.step += 1

    def cycles(self) -> list[tuple[int, int, bool]]:
        """Return the first step, the number of steps, and whether they have details, of each recording so far."""
        found: list[tuple[int, int, bool]] = []
        for step, action in enumerate(self.actions):
            if not action.is_recording:
                continue
            if found and found[-1][0] + found[-1][1] == step:
                found[-1] = (found[-1][0], found[-1][1] + 1, found[-1][2])
            else:
                found.append((step, 1, self.schedule.is_detailed(self.schedule.cycle(step))))
        return found


def test_a_run_begins_with_times_and_has_details_as_soon_as_it_is_known_what_is_usual() -> None:
    loop = Loop()
    loop.run(40)
    first, second = loop.cycles()
    assert first == (2, 3, False)
    assert second[1:] == (DETAILS_ACTIVE, True)
    assert loop.actions[:2] == [Action.NONE, Action.WARMUP]


def test_times_are_recorded_again_after_the_interval() -> None:
    loop = Loop(interval_s=1.0)
    loop.run(500)  # 5 s
    times = [first for first, steps, is_detailed in loop.cycles() if not is_detailed]
    # The last one ended some 100 steps before the next begins.
    assert len(times) == 5
    assert all(100 <= later - earlier <= 108 for earlier, later in zip(times[1:], times[2:], strict=False))
    assert all(steps == LATER_ACTIVE for _, steps, is_detailed in loop.cycles()[1:] if not is_detailed)


def test_where_recording_is_dear_times_are_recorded_so_rarely_that_they_cost_a_hundredth() -> None:
    loop = Loop(interval_s=0.1, cost_ns=100 * MS)
    loop.run(6_000)  # 60 s and what recording takes
    assert loop.watch.so_far().cost_ns <= 2 * S + 0.01 * 60 * S
    times = [cycle for cycle in loop.cycles() if not cycle[2]]
    assert 2 <= len(times) <= 6


def test_a_step_that_takes_far_longer_is_kept_with_its_lines_and_has_details_recorded() -> None:
    loop = Loop(interval_s=1_000)
    loop.run(100)
    before = len(loop.cycles())
    line = SlowLine(file="train.py", line=7, call="time.sleep", share=1.0)
    loop.run(1, 40 * MS, (line,))
    loop.run(20)
    (slow,) = loop.watch.so_far().slow
    assert (slow.step, slow.step_ns, slow.usual_ns, slow.lines) == (100, 40 * MS, 10 * MS, (line,))
    assert loop.cycles()[before:] == [(103, DETAILS_ACTIVE, True)]


def test_a_step_is_slow_from_half_more_than_usual_on_and_two_milliseconds() -> None:
    loop = Loop(interval_s=1_000)
    loop.run(100)
    loop.run(1, 15 * MS)
    assert loop.watch.so_far().slow == ()
    loop.run(1, 15 * MS + 1)
    assert [slow.step for slow in loop.watch.so_far().slow] == [101]
    quick = Loop(interval_s=1_000)
    quick.run(100, MS)
    quick.run(1, 3 * MS)  # twice more, and no more than 2 ms
    assert quick.watch.so_far().slow == ()


def test_a_recorded_step_is_slow_as_well_with_details_from_three_times_the_usual_on() -> None:
    loop = Loop(interval_s=1_000)
    loop.run(10)
    while loop.schedule.action(loop.step) is not Action.RECORD:
        loop.run(1)
    assert loop.schedule.is_detailed(loop.schedule.cycle(loop.step))
    loop.run(1, 30 * MS)
    assert loop.watch.so_far().slow == ()
    loop.run(1, 31 * MS)
    assert [slow.step for slow in loop.watch.so_far().slow] == [loop.step - 1]


@pytest.mark.parametrize(("after_ms", "is_told"), [(14, True), (7, True), (11, False), (9, False)])
def test_details_are_recorded_when_steps_become_slower_or_faster_by_a_fifth(after_ms: int, is_told: bool) -> None:
    loop = Loop(interval_s=1_000)
    loop.run(200)
    before = len(loop.cycles())
    loop.run(100, after_ms * MS)
    added = loop.cycles()[before:]
    assert [cycle[2] for cycle in added] == ([True] if is_told else [])


def test_details_cost_at_most_two_seconds_of_a_short_run() -> None:
    loop = Loop(interval_s=1_000, cost_ns=200 * MS)  # 800 ms with details
    for _ in range(10):
        loop.run(40)
        loop.run(1, 100 * MS)
    detailed = [cycle for cycle in loop.cycles() if cycle[2]]
    assert len(detailed) == 2
    assert loop.watch.so_far().cost_ns == 200 * MS + 2 * 800 * MS


def test_a_run_without_details_or_a_warm_up_has_none() -> None:
    loop = Loop(interval_s=0.5, has_details=False, has_warmup=False)
    loop.run(300)
    assert not any(is_detailed for _, _, is_detailed in loop.cycles())
    assert Action.WARMUP not in loop.actions
    assert loop.cycles()[0][0] == 0


def test_all_steps_of_a_long_run_stay_in_at_most_a_thousand_stretches() -> None:
    loop = Loop(interval_s=1_000)
    loop.run(5_000)
    run = loop.watch.so_far()
    assert len(run.stretches) <= MAX_STRETCHES
    assert sum(stretch.steps for stretch in run.stretches) == run.steps == 5_000
    assert sum(stretch.sum_ns for stretch in run.stretches) == 5_000 * 10 * MS
    assert sum(stretch.data_ns or 0 for stretch in run.stretches) == 5_000 * MS
    assert [stretch.step for stretch in run.stretches][:3] == [0, 8, 16]
    assert {stretch.memory_bytes for stretch in run.stretches} == {1_000}


def test_a_stretch_has_its_longest_step_and_its_most_memory() -> None:
    def step(number: int, ns: int, memory: int | None) -> Stretch:
        return Stretch(
            step=number, steps=1, start_ns=0, sum_ns=ns, longest_ns=ns, data_ns=None, memory_bytes=memory, recorded=0
        )

    strip = Strip()
    for number in range(MAX_STRETCHES):
        strip.add(step(number, 1, None))
    strip.add(step(MAX_STRETCHES, 9, 5))
    strip.add(step(MAX_STRETCHES + 1, 2, 3))
    last = strip.so_far()[-1]
    assert (last.step, last.steps, last.sum_ns, last.longest_ns, last.memory_bytes) == (MAX_STRETCHES, 2, 11, 9, 5)


def test_the_slowest_of_many_slow_steps_are_kept_in_order() -> None:
    loop = Loop(interval_s=1_000)
    loop.run(20)
    for number in range(MAX_SLOW + 10):
        loop.run(9)
        loop.run(1, (200 + number) * MS)
    slow = loop.watch.so_far().slow
    assert len(slow) == MAX_SLOW
    assert [each.step for each in slow] == sorted(each.step for each in slow)
    assert min(each.step_ns for each in slow) == 210 * MS


def test_the_first_times_and_the_newest_recordings_of_either_kind_are_kept() -> None:
    schedule = WatchSchedule()
    watch = RunWatch(schedule, 1.0, lambda: None)
    for number in range(1, 20):
        schedule.plan(10 * number, 1, is_detailed=number % 2 == 1)
    kept = watch.kept_of(list(range(20)))
    assert kept == {0, *range(18, 18 - 2 * KEPT_TIMES, -2), *range(19, 19 - 2 * KEPT_DETAILS, -2)}


def test_the_recordings_of_the_slowest_steps_are_kept_too() -> None:
    loop = Loop(interval_s=0.5, cost_ns=0)
    loop.run(100)
    while loop.schedule.action(loop.step) is not Action.RECORD:
        loop.run(1)
    loop.run(1, 300 * MS)
    slow = loop.schedule.cycle(loop.step)
    loop.run(2_000)
    cycles = list(range(len(loop.cycles())))
    assert slow in loop.watch.kept_of(cycles)
    assert slow not in cycles[-10:]


def test_a_planned_schedule_says_what_each_step_does_and_goes_on_for_ever() -> None:
    schedule = WatchSchedule()
    schedule.plan(2, 2, is_detailed=False)
    schedule.plan(6, 1, is_detailed=True, has_warmup=False)
    none, warmup, record, save = Action.NONE, Action.WARMUP, Action.RECORD, Action.RECORD_AND_SAVE
    assert [schedule.action(step) for step in range(9)] == [none, warmup, record, save, none, none, save, none, none]
    assert [schedule.cycle(step) for step in range(8)] == [0, 0, 0, 0, 1, 1, 1, 2]
    assert [schedule.is_detailed(cycle) for cycle in range(3)] == [False, True, False]
    assert (schedule.total, schedule.least) == (None, 4)
    assert not schedule.is_over(1_000_000)
    assert schedule.may_follow(5)
