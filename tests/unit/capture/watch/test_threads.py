"""Threads and processes that begin while one thread is recorded are named in the report."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import torch
from capturing import codes, work
from versions import needs

from torchprof_magic.capture.parts import Parts
from torchprof_magic.capture.watch.threads import OtherThreads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchprof_magic.capture import CaptureSession
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.recording import Recording

    Make = Callable[..., CaptureSession]
    Run = Callable[..., Recording]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1, thread_name_prefix="mine") as found:
        yield found


def test_no_thread_is_reported_when_there_is_no_other(run: Run) -> None:
    assert OtherThreads(Parts()).threads_seen() == []
    assert codes(run(6)) == []


def test_a_thread_that_began_later_is_reported_and_an_older_one_is_not(pool: ThreadPoolExecutor) -> None:
    before = OtherThreads(Parts())
    pool.submit(int).result()
    assert before.threads_seen() == ["mine_0"]
    assert OtherThreads(Parts()).threads_seen() == []


def test_other_threads_are_listed_before_torch_stops(make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(OtherThreads, "threads_seen", lambda *_: asked.append(torch.autograd._profiler_enabled()) or [])
    session = make_session("cell")
    session.start()
    work()
    session.stop()
    assert asked == [True]


def test_threads_of_data_loaders_and_progress_bars_are_not_reported() -> None:
    others, may_go = OtherThreads(Parts()), threading.Event()
    feeder = threading.Thread(target=may_go.wait, name="QueueFeederThread", args=(30,))
    feeder.start()
    assert others.threads_seen() == []
    may_go.set()
    feeder.join()


def process_notes(recording: Recording) -> list[Problem]:
    return [problem for problem in recording.problems if problem.code == "capture.other_processes"]


@pytest.mark.parametrize("way", ["process", "pool", "executor"])
def test_processes_that_are_active_in_recorded_steps_are_reported_once(make_session: Make, way: str) -> None:
    context = multiprocessing.get_context("spawn")
    session = make_session(schedule=(1, 0, 2, 1))
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        executor.submit(abs, -1).result()
        if way != "executor":
            executor.shutdown()
        session.start()
        for _ in range(3):
            work()
            if way == "process":
                process = context.Process(target=abs, args=(1,))
                process.start()
                process.join()
            elif way == "pool":
                with context.Pool(1) as pool:
                    pool.map(abs, [1])
            else:
                executor.submit(abs, -1).result()
            session.step()
        recording = session.stop()
    told = process_notes(recording)
    assert len(told) == 1
    name = {"process": "SpawnProcess-", "pool": "SpawnPoolWorker-", "executor": "SpawnProcess-"}[way]
    assert told[0].message.startswith(f"Other processes were active during the recording ({name}")
    assert told[0].fix == "To record their work, run a few steps that do it in this process."
    assert "capture.other_threads" not in codes(recording)  # what a pool keeps for itself runs no op


@pytest.mark.parametrize("is_persistent", [False, True])
def test_workers_of_a_data_loader_are_not_reported_as_processes(make_session: Make, *, is_persistent: bool) -> None:
    loader = torch.utils.data.DataLoader(
        range(4), num_workers=1, multiprocessing_context="fork", persistent_workers=is_persistent
    )
    batches = iter(loader)
    next(batches)
    session = make_session(schedule=(0, 0, 2, 1))
    session.start()
    next(batches)
    session.step()
    assert [batch.item() for batch in loader] == [0, 1, 2, 3]
    session.step()
    assert process_notes(session.stop()) == []


def test_older_processes_that_belong_to_no_pool_are_not_reported(make_session: Make) -> None:
    context = multiprocessing.get_context("fork")
    unjoined = context.Process(target=abs, args=(1,))
    unjoined.start()
    with context.Manager():
        session = make_session("cell")
        session.start()
        work()
        assert process_notes(session.stop()) == []
    unjoined.join()


def test_every_process_of_the_users_starts_as_without_the_profiler(make_session: Make) -> None:
    context = multiprocessing.get_context("fork")
    session = make_session("cell")
    session.start()
    work()
    ended = []
    for target, name in (("x".join, None), (abs, 5)):  # a bound method of C knows no module; any name is taken
        process = context.Process(target=target, args=([],) if name is None else (1,), name=name)
        process.start()
        process.join()
        ended.append(process.exitcode)
    recording = session.stop()
    assert ended == [0, 0]
    (told,) = process_notes(recording)
    assert ", 5). Their ops were not recorded." in told.message


@pytest.mark.parametrize("all_threads", [False, pytest.param(True, marks=needs("profile_all_threads"))])
def test_missing_ops_of_a_pool_are_reported_once_unless_all_threads_are_recorded(
    make_session: Make, pool: ThreadPoolExecutor, *, all_threads: bool
) -> None:
    session = make_session(schedule=(0, 0, 3, 1), all_threads=all_threads)
    session.start()
    for _ in range(3):
        work()
        pool.submit(work).result()
        session.step()
    recording = session.stop()
    assert codes(recording) == ([] if all_threads else ["capture.other_threads"])
    if not all_threads:
        assert "(mine_0)" in recording.problems[0].message
        assert recording.problems[0].count == 1


@pytest.mark.parametrize("all_threads", [False, pytest.param(True, marks=needs("profile_all_threads"))])
def test_a_pool_from_before_the_recording_is_reported_if_modules_run_on_it(
    make_session: Make, pool: ThreadPoolExecutor, *, all_threads: bool
) -> None:
    model = torch.nn.Linear(2, 2)
    pool.submit(int).result()  # its thread begins
    session = make_session(schedule=(0, 0, 3, 1), all_threads=all_threads, watch_modules=True)
    session.start()
    for _ in range(3):
        model(torch.ones(1, 2))
        pool.submit(model, torch.ones(1, 2)).result()
        session.step()
    recording = session.stop()
    assert codes(recording) == ([] if all_threads else ["capture.other_threads"])
    assert all("(mine_0)" in problem.message for problem in recording.problems)


def test_an_idle_pool_from_before_the_recording_is_not_reported(make_session: Make, pool: ThreadPoolExecutor) -> None:
    pool.submit(int).result()
    session = make_session(schedule=(0, 0, 3, 1), watch_modules=True)
    session.start()
    for _ in range(3):
        torch.nn.Linear(2, 2)(torch.ones(1, 2))
        session.step()
    assert codes(session.stop()) == []


def test_a_pool_that_lives_within_one_recorded_step_is_reported(make_session: Make) -> None:
    session = make_session(schedule=(1, 1, 1, 1))
    session.start()
    for name in ("waiting", "warming", "recorded"):
        with ThreadPoolExecutor(1, thread_name_prefix=name) as short:
            short.submit(work).result()
        session.step()
    recording = session.stop()
    (problem,) = [problem for problem in recording.problems if problem.code == "capture.other_threads"]
    assert "(recorded_0)" in problem.message


def test_threads_start_as_usual_after_the_recording(run: Run) -> None:
    before = threading.Thread.start
    run(6)
    assert threading.Thread.start is before
