"""A recording that reaches its budget leaves out Python calls, then shapes, and then stops."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import torch
from capturing import codes, work
from torch.profiler import ProfilerAction

from torchprof_magic.capture import CaptureSession, budget, recorder
from torchprof_magic.capture.budget import Budget
from torchprof_magic.capture.output.finished_cycles import FinishedCycles
from torchprof_magic.capture.problems import ProblemLog
from torchprof_magic.capture.torch_api.engine import Engine
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import EVERY_STEP, ProfileOptions, ScheduleOptions
from torchprof_magic.system.process.memory import Growth

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchprof_magic.capture import Progress
    from torchprof_magic.capture.interrupts.guard import InterruptGuard
    from torchprof_magic.model.recording import Cycle, Recording

MB = 1_000_000
PYTHON_CALLS, SHAPES = "Python calls (--stack)", "shapes (--shapes)"


@dataclass
class World:
    """How large the process is, and what time it is."""

    resident_bytes: int = 0
    now_ns: int = 1_000


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Stand in for the memory of the process and the clock."""
    made = World()
    begun: dict[int, int] = {}

    def begin(growth: Growth) -> None:
        begun[id(growth)] = made.resident_bytes

    monkeypatch.setattr(Growth, "begin", begin)
    monkeypatch.setattr(Growth, "end", lambda growth: begun.pop(id(growth), None))
    monkeypatch.setattr(
        Growth, "grown_bytes", lambda growth: made.resident_bytes - begun.get(id(growth), made.resident_bytes)
    )
    monkeypatch.setattr(budget, "perf_counter_ns", lambda: made.now_ns)
    monkeypatch.setattr(budget, "MEMORY_INTERVAL_NS", 0)
    monkeypatch.setattr(budget, "ENDING_FACTORS", {"ops": 1.0, "memory": 1.0})
    return made


@pytest.fixture
def run(tmp_path: Path, world: World) -> Callable[..., Recording]:
    """Run steps in which the process grows, each by the given number of bytes or lasting so many seconds."""

    def run_steps(
        options: ProfileOptions,
        *,
        grown: list[int] | None = None,
        lasted_s: list[float] | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Recording:
        session = CaptureSession(
            options, stepping=Stepping(how="manual"), folder=tmp_path / "run", on_progress=on_progress
        )
        session.start()
        steps = max(len(grown or []), len(lasted_s or []))
        for grown_bytes, step_s in zip(grown or [0] * steps, lasted_s or [0] * steps, strict=True):
            work()
            world.resident_bytes += grown_bytes
            world.now_ns += round(step_s * 1e9)
            session.step()
        return session.stop()

    return run_steps


def asked(wait: int, warmup: int, active: int, repeat: int, *, size_mb: int = 10, **options: object) -> ProfileOptions:
    schedule = ScheduleOptions(wait=wait, warmup=warmup, active=active, repeat=repeat)
    return ProfileOptions(schedule=schedule, budget_bytes=size_mb * MB, activities=("cpu",), **options)  # type: ignore[arg-type]


def steps_by_cycle(recording: Recording) -> list[list[int]]:
    assert all(mark.is_complete for cycle in recording.cycles for mark in cycle.steps)
    return [[mark.number for mark in cycle.steps] for cycle in recording.cycles]


def details_in(cycle: Cycle) -> tuple[bool, bool]:
    """Return whether there are Python calls, and whether there are shapes."""
    events = json.loads(cycle.path.read_bytes())["traceEvents"]
    assert sum(event["name"] == "aten::ones" for event in events) == len(cycle.steps)
    has_calls = any(event.get("cat") == "python_function" for event in events)
    return has_calls, any("Input Dims" in event.get("args", {}) for event in events)


def messages(recording: Recording, code: str) -> list[str]:
    return [problem.message for problem in recording.problems if problem.code == code]


def degraded(cycle: int, step: int, grown: str, what: str) -> str:
    return (
        f"Cycle {cycle} ended early, after step {step}: memory use grew by {grown}, and ending the recording takes "
        f"about {grown} (budget 10 MB). "
        f"Later cycles leave out {what}."
    )


def test_cycles_leave_out_python_calls_then_shapes_and_then_recording_stops(run: Callable[..., Recording]) -> None:
    options = asked(1, 0, 3, 0, with_stack=True, record_shapes=True)
    recording = run(options, grown=[0, 6 * MB, 5 * MB, MB] * 4)  # 11 MB in the second recorded step of each cycle
    assert steps_by_cycle(recording) == [[1, 2], [5, 6], [9, 10]]
    assert [details_in(cycle) for cycle in recording.cycles] == [(True, True), (False, True), (False, False)]
    assert messages(recording, "capture.degraded") == [
        degraded(0, 2, "11 MB", PYTHON_CALLS),
        degraded(1, 6, "11 MB", f"{PYTHON_CALLS} and {SHAPES}"),
    ]
    stopped = "Recording stopped after step 10: memory use grew by 11 MB, and ending the recording takes about 11 MB"
    assert messages(recording, "capture.budget") == [f"{stopped} (budget 10 MB)."]
    assert [(problem.severity, problem.count) for problem in recording.problems] == [("warning", 1)] * 3
    assert (recording.ended_in, recording.steps_seen) == ("active", 11)


def test_memory_is_counted_per_cycle_and_not_between_cycles(run: Callable[..., Recording]) -> None:
    recording = run(asked(1, 1, 2, 0, with_stack=True), grown=[99 * MB, 99 * MB, 2 * MB, 2 * MB] * 3)
    assert steps_by_cycle(recording) == [[2, 3], [6, 7], [10, 11]]
    assert codes(recording) == []


def test_the_rest_of_a_cycle_that_ended_early_is_idle(run: Callable[..., Recording]) -> None:
    seen: list[tuple[str, int]] = []
    recording = run(
        asked(0, 1, 4, 2, with_stack=True),
        grown=[0, 11 * MB, 99 * MB, 99 * MB, 99 * MB, *[0] * 5],
        on_progress=lambda progress: seen.append((progress.phase, progress.step)),
    )
    assert steps_by_cycle(recording) == [[1], [6, 7, 8, 9]]
    assert messages(recording, "capture.degraded") == [degraded(0, 1, "11 MB", PYTHON_CALLS)]
    assert seen[:6] == [("warmup", 0), ("active", 1), ("wait", 2), ("wait", 3), ("wait", 4), ("warmup", 5)]
    assert len(recording.plain_step_ns) == 3
    assert (codes(recording), recording.ended_in) == (["capture.degraded"], "done")


def test_a_cycle_that_ended_early_is_on_disk_before_the_next_step_runs(tmp_path: Path, world: World) -> None:
    session = CaptureSession(
        asked(0, 0, 3, 2, with_stack=True), stepping=Stepping(how="manual"), folder=tmp_path / "run"
    )
    session.start()
    work()
    world.resident_bytes += 11 * MB
    session.step()
    assert [path.name for path in (tmp_path / "run").glob("cycle-*")] == ["cycle-0.pt.trace.json"]
    session.stop()


def test_a_cycle_that_ended_early_is_followed_directly_by_the_next(run: Callable[..., Recording]) -> None:
    """The limit is reached in the last step of a cycle, whose next step is recorded too."""
    recording = run(asked(0, 0, 2, 2, with_stack=True), grown=[MB, 10 * MB, 1, 1])
    assert steps_by_cycle(recording) == [[0, 1], [2, 3]]
    assert [details_in(cycle)[0] for cycle in recording.cycles] == [True, False]
    assert codes(recording) == ["capture.degraded"]


@pytest.mark.parametrize(
    ("switches", "says"),
    [
        ({"with_modules": True}, "Python calls (--modules)"),
        ({"with_stack": True, "with_modules": True}, "Python calls (--stack, --modules)"),
        ({"with_flops": True}, "shapes (--flops)"),
        ({"record_shapes": True, "with_flops": True, "profile_memory": True}, "shapes (--shapes, --flops)"),
    ],
)
def test_only_requested_details_are_listed_as_left_out(
    run: Callable[..., Recording], switches: dict[str, bool], says: str
) -> None:
    recording = run(asked(1, 0, 2, 2, **switches), grown=[0, 11 * MB, 0, 0, MB, MB])
    assert messages(recording, "capture.degraded") == [degraded(0, 1, "11 MB", says)]
    assert [details_in(cycle) for cycle in recording.cycles][1] == (False, False)
    assert steps_by_cycle(recording) == [[1], [4, 5]]


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        (asked(0, 0, 5, 1, with_stack=True), [[0, 1]]),  # no other cycle follows
        (asked(0, 0, EVERY_STEP, 0, with_stack=True), [[0, 1]]),  # nor here: profile() without a schedule
        (asked(0, 0, 5, 2), [[0, 1]]),  # nothing to leave out
        (asked(0, 0, 5, 2, profile_memory=True), [[0, 1]]),
        (asked(1, 0, 5, 1, with_stack=True, two_pass=True), [[1, 2]]),  # the passes must be alike
        (asked(0, 1, 2, 1, with_stack=True, two_pass=True, size_mb=13), [[1, 2], [4]]),
    ],
)
def test_the_recording_stops_if_nothing_can_be_left_out(
    run: Callable[..., Recording], options: ProfileOptions, steps: list[list[int]]
) -> None:
    recording = run(options, grown=[5 * MB, 6 * MB, 6 * MB, 6 * MB, 14 * MB, 6 * MB])
    assert steps_by_cycle(recording) == steps
    notes = ("capture.partial", "capture.budget_half")
    assert [code for code in codes(recording) if code not in notes] == ["capture.budget"]


def test_steps_after_a_recording_that_stopped_early_are_timed_from_their_start(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = FinishedCycles.save

    def save_slowly(cycles: FinishedCycles, guard: InterruptGuard) -> None:
        world.now_ns += 500
        save(cycles, guard)

    monkeypatch.setattr(FinishedCycles, "save", save_slowly)
    monkeypatch.setattr(recorder, "perf_counter_ns", lambda: world.now_ns)
    monkeypatch.setattr("torchprof_magic.capture.session.perf_counter_ns", lambda: world.now_ns)
    options = ProfileOptions(schedule=ScheduleOptions(wait=0, warmup=0, active=9), budget_bytes=MB)
    session = CaptureSession(options, stepping=Stepping(how="manual"), folder=tmp_path)
    session.start()
    for step in range(4):
        work()
        world.now_ns += 50_000
        world.resident_bytes = 3 * MB if step else 0
        session.step()
    recording = session.stop()
    assert codes(recording) == ["capture.budget", "capture.partial"], recording.problems
    assert recording.plain_step_ns == (50_000, 50_000)


@pytest.mark.parametrize(
    ("switches", "rest"),
    [
        ({"record_shapes": True}, " Later cycles leave out shapes."),
        ({"profile_memory": True, "with_stack": True}, " Later cycles leave out memory and stacks."),
        ({"with_flops": True, "with_modules": True}, " Later cycles leave out FLOPs and modules."),
        ({}, ""),
    ],
)
def test_a_watched_run_leaves_out_only_what_was_asked_for_and_says_so_once(
    run: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch, switches: dict[str, bool], rest: str
) -> None:
    monkeypatch.setattr("torchprof_magic.capture.watched_run.MOST_SHARE", 1e9)
    options = ProfileOptions(watch_s=1e-6, budget_bytes=10 * MB, activities=("cpu",), **switches)  # type: ignore[arg-type]
    recording = run(options, grown=[11 * MB] * 60)
    assert len(recording.cycles) > 1
    reason = "memory use grew by 11 MB, and ending the recording takes about 11 MB (budget 10 MB)"
    assert messages(recording, "capture.watch_budget") == [f"Cycle 0 ended early, after step 2: {reason}.{rest}"]


def test_a_schedule_function_may_have_another_cycle(run: Callable[..., Recording]) -> None:
    plan = {0: ProfilerAction.RECORD, 1: ProfilerAction.RECORD, 2: ProfilerAction.RECORD_AND_SAVE}
    options = ProfileOptions(
        schedule_function=lambda step: plan.get(step % 4, ProfilerAction.WARMUP),
        budget_bytes=10 * MB,
        activities=("cpu",),
        with_stack=True,
    )
    recording = run(options, grown=[11 * MB, *[0] * 7])
    assert steps_by_cycle(recording) == [[0], [4, 5, 6]]
    assert [details_in(cycle)[0] for cycle in recording.cycles] == [True, False]
    assert codes(recording) == ["capture.degraded"]


def test_handlers_and_execution_traces_continue_in_lighter_cycles(
    run: Callable[..., Recording], tmp_path: Path
) -> None:
    handed: list[int] = []
    options = asked(
        1, 0, 2, 2, with_stack=True,
        on_trace_ready=lambda profiler: handed.append(profiler.step_num),
        execution_trace=str(tmp_path / "graph.json"),
    )  # fmt: skip
    recording = run(options, grown=[0, 11 * MB, 0, 0, MB, MB])
    assert codes(recording) == ["capture.degraded"]
    assert handed == [2, 6]
    assert sorted(path.name for path in tmp_path.glob("graph*")) == ["graph-1.json", "graph.json"]


def test_setting_up_torch_does_not_count_for_the_first_step(
    run: Callable[..., Recording], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = Engine.prepare

    def prepare_slowly(engine: Engine) -> None:
        prepare(engine)
        world.resident_bytes += 100 * MB
        world.now_ns += 9 * 10**9

    monkeypatch.setattr(Engine, "prepare", prepare_slowly)
    recording = run(asked(0, 0, 3, 1, budget_s=1.0), grown=[0, MB, MB])
    assert [mark.number for mark in recording.cycles[0].steps] == [0, 1, 2]
    assert codes(recording) == []


def test_a_recording_that_uses_more_than_half_of_its_budget_says_so_once(run: Callable[..., Recording]) -> None:
    recording = run(asked(1, 0, 2, 3), grown=[0, 2 * MB, 3 * MB, 0, 3 * MB, 3 * MB, 0, 4 * MB, 4 * MB])
    (problem,) = recording.problems  # 5 of 10 MB are not more than half
    assert (problem.code, problem.severity, problem.count) == ("capture.budget_half", "info", 1)
    assert problem.message == (
        "Recording up to step 5 used 60 % of its memory budget: memory use grew by 6 MB, and ending the "
        "recording takes about 6 MB (budget 10 MB)."
    )
    assert "Raise --budget" in problem.fix


def test_memory_that_torch_needs_to_end_a_recording_does_not_count(
    run: Callable[..., Recording], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = torch.profiler.profiler._KinetoProfile.stop_trace

    def stop_trace(profiler: torch.profiler.profiler._KinetoProfile) -> None:
        world.resident_bytes += 99 * MB
        world.now_ns += 10**12
        original(profiler)

    monkeypatch.setattr(torch.profiler.profiler._KinetoProfile, "stop_trace", stop_trace)
    recording = run(asked(1, 0, 2, 2, budget_s=5.0), grown=[0, MB, MB] * 2, lasted_s=[0, 1, 1] * 2)
    assert (codes(recording), steps_by_cycle(recording)) == ([], [[1, 2], [4, 5]])


def test_a_recording_that_exceeds_its_budget_in_its_last_step_was_not_stopped(run: Callable[..., Recording]) -> None:
    recording = run(asked(0, 0, 2, 1, budget_s=1.0, with_stack=True), grown=[0, 12 * MB], lasted_s=[0, 9])
    assert steps_by_cycle(recording) == [[0, 1]]
    assert codes(recording) == ["capture.budget_half"]
    assert "used 120 % of its memory budget" in recording.problems[0].message


def test_the_time_budget_applies_to_the_recorded_steps_of_all_cycles_together(run: Callable[..., Recording]) -> None:
    # 20 s in the first cycle, 11 in the second; what is idle or warms up takes as long as it likes
    recording = run(
        asked(1, 1, 2, 0, with_stack=True, budget_s=30.0), lasted_s=[500, 500, 10, 10, 500, 500, 11, 7, 1, 1, 1, 1]
    )
    assert steps_by_cycle(recording) == [[2, 3], [6]]
    assert messages(recording, "capture.budget") == [
        "Recording stopped after step 6: recording took 31 s (budget 30 s)."
    ]
    assert codes(recording) == ["capture.budget"], recording.problems


def test_a_recording_may_last_as_long_as_its_budget(run: Callable[..., Recording]) -> None:
    recording = run(asked(1, 0, 3, 1, budget_s=30.0), lasted_s=[99, 10, 10, 10])
    assert (codes(recording), steps_by_cycle(recording)) == ([], [[1, 2, 3]])


def test_an_exceeded_time_budget_stops_the_recording_at_once(run: Callable[..., Recording]) -> None:
    recording = run(asked(0, 1, 3, 2, with_stack=True, budget_s=1.0), grown=[0, 11 * MB, 0, 0], lasted_s=[0, 2, 0, 0])
    assert codes(recording) == ["capture.budget", "capture.partial"], recording.problems
    assert "recording took 2 s (budget 1 s)" in recording.problems[0].message


@pytest.mark.parametrize(("grown_bytes", "lasted_ns", "is_over"), [(10, 1000, False), (11, 0, True), (0, 1001, True)])
def test_a_budget_counts_nothing_before_and_after_a_cycle(
    world: World, grown_bytes: int, lasted_ns: int, is_over: bool
) -> None:
    watched, seen = Budget(ProfileOptions(budget_bytes=10, budget_s=1e-6), ProblemLog()), []
    for change in (lambda: None, watched.begin, lambda: watched.end(0)):
        change()
        world.resident_bytes += grown_bytes
        world.now_ns += lasted_ns
        seen.append(watched.is_reached())
    assert seen == [False, is_over, False]


@pytest.mark.parametrize(
    ("switches", "limit_mb"), [({}, 150), ({"with_stack": True}, 150), ({"profile_memory": True}, 220)]
)
def test_what_counts_is_the_memory_that_ending_the_recording_needs(
    world: World, monkeypatch: pytest.MonkeyPatch, switches: dict[str, bool], limit_mb: int
) -> None:
    monkeypatch.setattr(budget, "ENDING_FACTORS", {"ops": 7.5, "memory": 11.0})
    watched = Budget(ProfileOptions(budget_bytes=limit_mb * MB, **switches), ProblemLog())
    watched.begin()
    world.resident_bytes += 20 * MB
    assert not watched.is_reached()
    world.resident_bytes += 1
    assert watched.is_reached()
