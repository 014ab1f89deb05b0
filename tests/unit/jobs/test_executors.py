"""Ranks are read on any engine. `make thorough` has Dask and ipyparallel for real, with two workers and small files."""

from __future__ import annotations

import importlib.metadata
import multiprocessing
import os
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from amount import thorough
from made_ranks import write_job

import torchprof_magic as tp
from torchprof_magic.jobs import gather, workers
from torchprof_magic.jobs.wire import bytes_of, unpacked
from torchprof_magic.jobs.work import frames_of
from torchprof_magic.jobs.workers import Workers, worth_workers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Four ranks, of which the third is late, and a damaged file."""
    write_job(tmp_path, {2: 200.0})
    (tmp_path / "rank9.json").write_bytes(b"damaged")
    return tmp_path


def check(report: tp.RanksReport, job: Path) -> None:
    """The report is the one that a single process makes."""
    alone = tp.load(job)
    assert report.ranks.equals(alone.ranks)
    assert report.collectives.equals(alone.collectives)
    assert report.stragglers.equals(alone.stragglers)
    assert [each.code for each in report.problems] == [each.code for each in alone.problems]
    assert report.verdict == alone.verdict


def test_threads_read_ranks(job: Path) -> None:
    with ThreadPoolExecutor(2) as executor:
        check(tp.load(job, executor=executor), job)  # type: ignore[arg-type]


def test_spawned_processes_read_ranks(job: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        check(tp.load(job, executor=executor), job)  # type: ignore[arg-type]


@thorough
def test_dask_reads_ranks(job: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        check(tp.load(job, executor=client.get_executor(pure=False)), job)  # type: ignore[arg-type]


@thorough
def test_ipyparallel_reads_ranks(job: Path) -> None:
    ipyparallel = pytest.importorskip("ipyparallel")
    with ipyparallel.Cluster(n=2, log_level=50) as client:
        check(tp.load(job, executor=client.load_balanced_view().executor), job)  # type: ignore[arg-type]
        with pytest.raises(tp.IngestError, match="on all of its workers"):
            tp.load(job, executor=client[:].executor)


def test_workers_of_our_own_read_ranks_when_there_is_much_to_read(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(gather, "worth_workers", lambda sizes: asked.append(len(sizes)) or 2)
    report = tp.load(job)
    assert asked == [5]
    monkeypatch.undo()
    check(report, job)  # type: ignore[arg-type]


def test_few_small_files_are_not_worth_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(workers, "free_bytes", lambda: 64 << 30)
    assert worth_workers([50_000] * 8) == 1
    assert worth_workers([50_000] * 1024) == 8
    assert worth_workers([300 << 20] * 3) == 3
    monkeypatch.setattr(workers, "free_bytes", lambda: 1 << 30)
    assert worth_workers([50_000] * 1024) == 4
    assert worth_workers([300 << 20] * 3) == 1


def test_a_worker_that_dies_is_a_problem_of_its_rank_and_another_one_takes_over(job: Path) -> None:
    with Workers(1) as executor:
        first = executor.submit(frames_of, str(job / "rank0.json"))
        first.result()
        executor._processes[0].kill()
        executor._processes[0].wait()
        with pytest.raises(RuntimeError, match="has ended"):
            executor.submit(frames_of, str(job / "rank1.json")).result()
        assert not executor.submit(frames_of, str(job / "rank1.json")).result()["error"]


class _Broken(Executor):
    """An engine that does something else instead of the work."""

    def __init__(self, answer: Callable[[str], Any]) -> None:
        self.answer = answer
        self.submitted: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.submitted.append(future)
        try:
            if fn is importlib.metadata.version:
                future.set_result(fn(*args))
            else:
                answer = self.answer(args[0])
                if answer is not None:
                    future.set_result(answer)
        except Exception as exc:  # noqa: BLE001 - as an engine does
            future.set_exception(exc)
        return future


def test_what_an_engine_raises_is_a_problem_of_that_rank(job: Path) -> None:
    def answer(source: str) -> Any:
        if source.endswith("rank1.json"):
            raise OSError("worker lost")
        return frames_of(source)

    report = tp.load(job, executor=_Broken(answer))
    assert report.ranks["rank"].to_list() == [0, 2, 3]
    assert "worker lost" in " ".join(each.message for each in report.problems)


def test_workers_of_another_version_are_told(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(tp.IngestError, match="another version"):
        tp.load(job, executor=_Broken(lambda source: {**frames_of(source), "version": 99}))
    own = importlib.metadata.version(gather.PACKAGE)
    theirs = Future[str]()
    theirs.set_result("0.0.1")
    executor = _Broken(frames_of)
    monkeypatch.setattr(executor, "submit", lambda *_: theirs)
    with pytest.raises(tp.IngestError, match=rf"have torchprof-magic 0\.0\.1, and this process has {own}"):
        tp.load(job, executor=executor)


def test_an_engine_without_this_package_or_without_any_answer_is_an_error(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = Future[str]()
    missing.set_exception(importlib.metadata.PackageNotFoundError("torchprof-magic"))
    executor = _Broken(frames_of)
    monkeypatch.setattr(executor, "submit", lambda *_: missing)
    with pytest.raises(tp.IngestError, match="Install it where they run"):
        tp.load(job, executor=executor)
    monkeypatch.setattr(gather, "PROBE_S", 0.05)
    monkeypatch.setattr(executor, "submit", lambda *_: Future())
    with pytest.raises(tp.IngestError, match="no worker of this executor answered"):
        tp.load(job, executor=executor)


def test_progress_counts_files_and_an_interrupt_cancels_what_has_not_begun(job: Path) -> None:
    seen: list[tuple[int, int]] = []
    tp.load(job, progress=lambda done, whole: seen.append((done, whole)))
    assert seen == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]

    def stop(_done: int, _whole: int) -> None:
        raise KeyboardInterrupt

    executor = _Broken(lambda source: frames_of(source) if source.endswith("rank0.json") else None)
    with pytest.raises(KeyboardInterrupt):
        tp.load(job, executor=executor, progress=stop)
    assert sum(future.cancelled() for future in executor.submitted) == 4


def test_an_interrupt_ends_workers_of_our_own_at_once(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Workers] = []

    class Kept(Workers):
        def __init__(self, count: int) -> None:
            super().__init__(count)
            made.append(self)

    monkeypatch.setattr(gather, "Workers", Kept)
    monkeypatch.setattr(gather, "worth_workers", lambda _: 2)

    def stop(_done: int, _whole: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tp.load(job, progress=stop)
    assert made[0]._processes == []
    left = [thread for thread in threading.enumerate() if thread.name.startswith("torchprof-worker")]
    for thread in left:
        thread.join(5)
    assert not any(thread.is_alive() for thread in left)


def test_a_rank_sends_kilobytes_and_never_its_trace(job: Path) -> None:
    sent = frames_of(str(job / "rank0.json"))
    assert set(sent) == {"version", "source", "file", "error", "frames"}
    assert bytes_of(sent) < 20_000
    assert unpacked(sent).summary["rank"].item() == 0
    assert all(isinstance(value, (str, int, dict)) for value in sent.values())
