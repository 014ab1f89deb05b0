"""The allocator history is recorded, saved, and restored to its earlier state. torch's functions are replaced."""

from __future__ import annotations

import gc
import inspect
import pickle
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from capturing import codes, work

import torchprof_magic as tp
from torchprof_magic.capture import CaptureSession
from torchprof_magic.capture.torch_api import compat
from torchprof_magic.model.errors import CaptureError, OptionsError
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import ProfileOptions, ScheduleOptions
from torchprof_magic.run.cleanup import sweep
from torchprof_magic.run.reading import read_recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchprof_magic.model.recording import Recording

MB = 1 << 20


class FakeAllocator:
    """What torch's functions do to the allocator of one device, as torch documents it."""

    def __init__(self) -> None:
        self.is_on = False
        self.calls: list[dict[str, Any]] = []
        self.entries: list[dict[str, Any]] = []
        self.observers: list[Callable[..., None]] = []
        self.failure: Exception | None = None
        self.snapshots = 0

    def record(
        self, enabled: str | None = "all", context: str = "all", stacks: str = "all", max_entries: int = sys.maxsize
    ) -> None:
        self._fail()
        self.calls.append({"enabled": enabled, "context": context, "stacks": stacks, "max_entries": max_entries})
        self.is_on = enabled is not None
        if not self.is_on:
            self.entries = []

    def snapshot(self) -> dict[str, Any]:
        self._fail()
        self.snapshots += 1
        return {"segments": [], "device_traces": [list(self.entries)]}

    def allocate(self, name: str, size: int = MB, limit: int | None = None) -> None:
        """Allocate under a name, so that a snapshot shows how far the code had come."""
        is_too_much = limit is not None and size > limit
        if self.is_on:
            self.entries.append(
                {"action": "oom" if is_too_much else "alloc", "size": size, "time_us": len(self.entries), "name": name}
            )
        if is_too_much:
            for observer in self.observers:
                observer(0, size, limit, 0)
            raise torch.cuda.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {size // MB}.00 MiB. GPU 0 has a total capacity of 1.00 MiB."
            )

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeAllocator:
    """Let torch believe in a device, and remember what it is told."""
    fake = FakeAllocator()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", fake.record)
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", fake.snapshot)
    monkeypatch.setattr(torch._C, "_cuda_isHistoryEnabled", lambda: fake.is_on, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_attach_out_of_memory_observer", fake.observers.append, raising=False)
    monkeypatch.setattr(compat, "_oom_observers", [])
    return fake


@pytest.fixture
def without_observer(device: FakeAllocator, monkeypatch: pytest.MonkeyPatch) -> FakeAllocator:
    monkeypatch.delattr(torch._C, "_cuda_attach_out_of_memory_observer")
    return device


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., CaptureSession]:
    def make_session(snapshot: bool | str = True, **schedule: int) -> CaptureSession:
        wanted = ScheduleOptions(**schedule) if schedule else ScheduleOptions(wait=0, warmup=0, active=2, repeat=1)
        options = ProfileOptions(schedule=wanted, activities=("cpu",), snapshot=snapshot)
        return CaptureSession(options, stepping=Stepping(how="manual"), folder=tmp_path / "run")

    return make_session


@pytest.fixture(autouse=True)
def _nothing_stays_behind() -> Iterator[None]:
    yield
    assert compat._oom_callbacks == []


def names(path: Path | None) -> list[str]:
    """Return what was allocated until the snapshot was taken."""
    assert path is not None
    return [entry["name"] for entry in pickle.loads(path.read_bytes())["device_traces"][0]]  # noqa: S301 - our own


def stepped(session: CaptureSession, device: FakeAllocator, steps: int) -> Recording:
    session.start()
    for number in range(steps):
        work()
        device.allocate(f"step {number}")
        session.step()
    return session.stop()


def failing(session: CaptureSession, device: FakeAllocator, at: int) -> tuple[Recording, BaseException]:
    """Run steps until the device is full."""
    session.start()

    def steps() -> None:
        for number in range(at + 1):
            work()
            device.allocate(f"step {number}", 20 * MB, 1 * MB if number == at else None)
            session.step()

    return ended(session, device, steps)


def ended(
    session: CaptureSession, device: FakeAllocator, last: Callable[[], object]
) -> tuple[Recording, BaseException]:
    """Run the end of the user's code, which raises, as a magic does; allocate while the exception is on its way."""

    def run() -> None:
        try:
            last()
        finally:
            device.allocate("unwinding")
            session.stop()

    with pytest.raises(RuntimeError) as caught:
        run()
    assert session.recording is not None
    return session.recording, caught.value


def test_each_of_several_ranks_has_a_snapshot_of_its_own(
    make: Callable[..., CaptureSession], device: FakeAllocator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    recording = stepped(make(snapshot=str(tmp_path / "held.pickle")), device, 2)
    assert recording.snapshot == tmp_path / "held-rank1.pickle"


def test_the_history_is_limited_and_on_from_before_the_code_until_its_end(
    device: FakeAllocator, make: Callable[..., CaptureSession]
) -> None:
    session = make()
    session.open()
    assert device.is_on
    session.stop()
    assert not device.is_on
    assert [call["enabled"] for call in device.calls] == ["all", None]
    assert device.calls[0] == {"enabled": "all", "context": "all", "stacks": "python", "max_entries": 100_000}


def test_the_snapshot_is_taken_after_the_last_recorded_step_and_saved_beside_the_traces(
    device: FakeAllocator, make: Callable[..., CaptureSession], tmp_path: Path
) -> None:
    recording = stepped(make(), device, 5)
    assert recording.snapshot == tmp_path / "run" / "snapshot.pickle"
    assert names(recording.snapshot) == ["step 0", "step 1"]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["cycle-0.pt.trace.json", "snapshot.pickle"]
    assert codes(recording) == ["capture.snapshot"]
    assert str(recording.snapshot) in recording.problems[0].message
    assert "torchprof_magic.load" in recording.problems[0].fix


def test_a_run_that_ends_early_has_the_history_until_its_end(
    device: FakeAllocator, make: Callable[..., CaptureSession]
) -> None:
    assert names(stepped(make(active=9), device, 3).snapshot) == ["step 0", "step 1", "step 2"]


def test_taking_the_snapshot_does_not_count_for_the_next_step(
    device: FakeAllocator, make: Callable[..., CaptureSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = [0]
    for module in ("recorder", "session"):
        monkeypatch.setattr(f"torchprof_magic.capture.{module}.perf_counter_ns", lambda: now_ns[0])
    taken = device.snapshot

    def slow() -> dict[str, Any]:
        now_ns[0] += 1_000_000
        return taken()

    monkeypatch.setattr(torch.cuda.memory, "_snapshot", slow)
    session = make(active=1, wait=0, warmup=0, repeat=1)
    session.start()
    work()
    session.step()
    now_ns[0] += 7
    session.step()
    assert session.stop().plain_step_ns == (7,)


def test_the_snapshot_is_in_the_format_of_torch(device: FakeAllocator, make: Callable[..., CaptureSession]) -> None:
    recording = stepped(make(), device, 2)
    assert recording.snapshot is not None
    data = recording.snapshot.read_bytes()
    assert data[:2] == b"\x80\x04"  # the protocol that torch's viewer reads
    report = tp.load(recording.snapshot)
    assert report.trace.memory["allocated_bytes"].to_list() == [MB, 2 * MB]


def test_a_named_file_is_written_where_the_user_wants_it_and_replaces_an_older_one(
    device: FakeAllocator, make: Callable[..., CaptureSession], tmp_path: Path
) -> None:
    target = tmp_path / "new folder" / "mine.pickle"
    stepped(make(str(target)), device, 1)
    assert names(stepped(make(str(target)), device, 2).snapshot) == ["step 0", "step 1"]
    assert [path.name for path in target.parent.iterdir()] == ["mine.pickle"]


def test_without_the_option_the_allocator_is_not_touched(
    device: FakeAllocator, make: Callable[..., CaptureSession]
) -> None:
    recording = stepped(make(snapshot=False), device, 2)
    assert (device.calls, device.snapshots, device.observers) == ([], 0, [])
    assert recording.snapshot is None


def test_a_history_that_was_on_before_stays_on_and_the_report_says_so(
    device: FakeAllocator, make: Callable[..., CaptureSession]
) -> None:
    device.record(max_entries=7)
    device.allocate("before")
    recording = stepped(make(), device, 2)
    assert device.is_on
    assert len(device.calls) == 1
    assert names(recording.snapshot) == ["before", "step 0", "step 1"]
    assert codes(recording) == ["capture.history_was_on", "capture.snapshot"]


def test_an_empty_history_that_was_on_before_stays_on_too(
    device: FakeAllocator, make: Callable[..., CaptureSession]
) -> None:
    device.record()
    recording = stepped(make(), device, 2)
    assert device.is_on
    assert codes(recording) == ["capture.history_was_on", "capture.snapshot"]


def test_a_history_is_detected_by_its_entries_where_torch_has_no_query(
    device: FakeAllocator, make: Callable[..., CaptureSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(torch._C, "_cuda_isHistoryEnabled")
    assert "capture.history_was_on" not in codes(stepped(make(), device, 2))
    device.record()
    device.allocate("before")
    assert "capture.history_was_on" in codes(stepped(make(), device, 2))
    assert device.is_on


def test_out_of_memory_keeps_the_snapshot_of_that_moment_and_raises_the_users_exception(
    device: FakeAllocator, make: Callable[..., CaptureSession]
) -> None:
    recording, error = failing(make(active=9), device, 1)
    # What was allocated while the exception was on its way is not in it.
    assert names(recording.snapshot) == ["step 0", "step 1"]
    assert str(error).startswith("CUDA out of memory. Tried to allocate 20.00 MiB.")
    (problem,) = [problem for problem in recording.problems if problem.code == "capture.out_of_memory_snapshot"]
    assert problem.message == "The device ran out of memory at step 1, allocating 20.00 MiB."
    assert str(recording.snapshot) in problem.fix
    assert not device.is_on


def test_out_of_memory_after_the_recorded_steps_still_has_its_snapshot(
    device: FakeAllocator, make: Callable[..., CaptureSession]
) -> None:
    recording, _ = failing(make(), device, 4)
    assert names(recording.snapshot) == ["step 0", "step 1", "step 2", "step 3", "step 4"]
    assert "ran out of memory after the recorded steps" in recording.problems[-1].message


def test_out_of_memory_without_an_observer_in_torch_has_the_snapshot_of_the_end(
    without_observer: FakeAllocator, make: Callable[..., CaptureSession]
) -> None:
    recording, _ = failing(make(active=9), without_observer, 1)
    assert names(recording.snapshot) == ["step 0", "step 1", "unwinding"]


def test_out_of_memory_on_another_thread_has_a_snapshot_too(
    device: FakeAllocator, make: Callable[..., CaptureSession]
) -> None:
    session = make(active=9)
    session.start()
    errors: list[BaseException] = []

    def backward() -> None:
        try:
            device.allocate("backward", 20 * MB, MB)
        except torch.cuda.OutOfMemoryError as exc:
            errors.append(exc)

    thread = threading.Thread(target=backward)
    thread.start()
    thread.join()

    def join() -> None:
        raise errors[0]

    recording, error = ended(session, device, join)
    assert error is errors[0]
    assert names(recording.snapshot) == ["backward"]


def test_out_of_memory_that_the_code_catches_changes_nothing(
    device: FakeAllocator, make: Callable[..., CaptureSession]
) -> None:
    session = make()
    session.start()
    with pytest.raises(torch.cuda.OutOfMemoryError):
        device.allocate("too much", 20 * MB, MB)
    for number in range(2):
        work()
        device.allocate(f"step {number}")
        session.step()
    recording = session.stop()
    assert names(recording.snapshot) == ["too much", "step 0", "step 1"]
    assert codes(recording) == ["capture.snapshot"]


def test_the_last_of_several_failed_allocations_is_kept(
    device: FakeAllocator, make: Callable[..., CaptureSession]
) -> None:
    session = make(active=9)
    session.start()
    with pytest.raises(torch.cuda.OutOfMemoryError):
        device.allocate("first", 20 * MB, MB)
    recording, _ = ended(session, device, lambda: device.allocate("second", 20 * MB, MB))
    assert names(recording.snapshot) == ["first", "second"]


def test_torch_has_one_observer_however_many_runs_there_are(
    device: FakeAllocator, make: Callable[..., CaptureSession]
) -> None:
    for _ in range(3):
        stepped(make(), device, 1)
    assert len(device.observers) == 1
    before = device.snapshots
    with pytest.raises(torch.cuda.OutOfMemoryError):
        device.allocate("outside", 20 * MB, MB)
    assert device.snapshots == before  # between runs it does nothing


def test_out_of_memory_without_a_snapshot_says_how_to_get_one(
    device: FakeAllocator, make: Callable[..., CaptureSession]
) -> None:
    recording, _ = failing(make(snapshot=False, active=9), device, 1)
    (problem,) = [problem for problem in recording.problems if problem.code == "capture.out_of_memory"]
    assert (
        problem.fix
        == "Run again with --snapshot (snapshot=True) to see what held the memory, if the device supports it."
    )


def test_out_of_memory_on_the_cpu_is_an_ordinary_error(
    device: FakeAllocator, make: Callable[..., CaptureSession]
) -> None:
    session = make(active=9)
    session.start()
    recording, error = ended(session, device, lambda: torch.empty(1 << 60))
    assert "memory" in str(error)
    assert not {"capture.out_of_memory", "capture.out_of_memory_snapshot"} & set(codes(recording))
    assert names(recording.snapshot) == ["unwinding"]


def test_a_snapshot_is_refused_without_an_accelerator(
    make: Callable[..., CaptureSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(CaptureError, match=r"--snapshot needs an accelerator .* Leave it out, or use --memory"):
        make().open()


def test_a_snapshot_is_refused_by_a_torch_without_a_history(
    device: FakeAllocator, make: Callable[..., CaptureSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_in_torch_2_0(enabled: bool, record_context: bool) -> None:
        pytest.fail(f"called with {enabled}, {record_context}")

    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", as_in_torch_2_0)
    with pytest.raises(CaptureError, match="--snapshot needs an accelerator"):
        make().open()
    assert device.calls == []


def test_a_snapshot_is_refused_with_the_error_of_the_allocator(
    device: FakeAllocator, make: Callable[..., CaptureSession], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    device.failure = RuntimeError("cudaMallocAsync does not yet support recordHistory")
    with pytest.raises(CaptureError, match=r"cudaMallocAsync does not yet support recordHistory.*Leave it out"):
        make().open()
    options = ProfileOptions(activities=("cpu",), snapshot=True)
    with pytest.raises(CaptureError):
        CaptureSession(options, stepping=Stepping(how="cell")).open()
    assert list(Path(tempfile.gettempdir()).iterdir()) == []  # no folder is left of a run that never was
    device.failure = None
    assert stepped(make(), device, 2).snapshot is not None  # what was refused is in nobody's way


def test_a_snapshot_cannot_replace_a_folder(
    device: FakeAllocator, make: Callable[..., CaptureSession], tmp_path: Path
) -> None:
    with pytest.raises(CaptureError, match=r"is a folder\. Name a file in it"):
        make(str(tmp_path)).open()
    assert device.calls == []


def test_a_snapshot_in_an_invalid_folder_is_refused(
    device: FakeAllocator, make: Callable[..., CaptureSession], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match="Nothing was run"):
        make(str(tmp_path / "file" / "snapshot.pickle")).open()
    assert device.calls == []


def test_a_snapshot_that_cannot_be_taken_loses_neither_recording_nor_result(
    device: FakeAllocator, make: Callable[..., CaptureSession]
) -> None:
    session = make()
    session.start()
    work()
    device.failure = RuntimeError("device-side assert")
    session.step()
    recording = session.stop()
    assert recording.snapshot is None
    assert len(recording.cycles) == 1
    assert {"capture.no_snapshot", "capture.history_stays_on"} <= set(codes(recording))


def test_a_snapshot_that_cannot_be_written_is_reported_and_an_older_one_stays(
    device: FakeAllocator, make: Callable[..., CaptureSession], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "mine.pickle"
    first = stepped(make(str(target)), device, 1)

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    session = make(str(target))
    session.open()
    device.allocate("new")
    recording = session.stop()
    assert recording.snapshot is None
    assert any("No space left on device" in problem.message for problem in recording.problems)
    assert names(first.snapshot) == ["step 0"]
    assert [path.name for path in tmp_path.glob("*.part")] == []


def test_repeated_interrupts_abort_a_slow_snapshot(
    device: FakeAllocator, make: Callable[..., CaptureSession], tmp_path: Path
) -> None:
    class Slow:
        sent = 0

        def __reduce__(self) -> tuple[object, ...]:
            for _ in range(3):
                Slow.sent += 1
                signal.raise_signal(signal.SIGINT)
            return (int, ())

    session = make()
    session.start()
    work()
    device.entries.append({"slow": Slow()})
    with pytest.raises(KeyboardInterrupt):
        session.stop()
    assert Slow.sent == 3  # two are held back, the third one ends the writing, and the cell after it
    assert session.recording is not None
    assert len(session.recording.cycles) == 1
    assert not device.is_on
    notes = [problem.message for problem in session.recording.problems if problem.code == "capture.snapshot_not_saved"]
    assert [note.endswith("it was interrupted repeatedly.") for note in notes] == [True]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["cycle-0.pt.trace.json"]


def test_a_discarded_run_leaves_no_snapshot_and_no_history(
    device: FakeAllocator, make: Callable[..., CaptureSession], tmp_path: Path
) -> None:
    session = make(active=9)
    session.start()
    work()
    session.discard()
    assert not device.is_on
    assert not (tmp_path / "run").exists()
    left_behind = make(active=9)
    left_behind.start()
    left_behind.reclaim()
    assert not device.is_on
    assert left_behind.recording is not None
    assert left_behind.recording.snapshot is None


@pytest.mark.usefixtures("device")
def test_the_snapshot_outlives_its_report_and_the_traces_do_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    options = ProfileOptions(activities=("cpu",), snapshot=True)
    session = CaptureSession(options, stepping=Stepping(how="cell"))
    session.start()
    work()
    recording = session.stop()
    report = read_recording(recording)
    assert report.trace_paths[0].exists()
    del report
    gc.collect()
    sweep()
    assert [path.name for path in recording.folder.iterdir()] == ["snapshot.pickle"]


def test_a_block_takes_a_snapshot_too_and_counts_its_own_steps(device: FakeAllocator, tmp_path: Path) -> None:
    with tp.profile(activities=["cpu"], snapshot=tmp_path / "mine.pickle") as p:
        device.allocate("before the loop")
        for number in p.steps(range(3)):
            work()
            device.allocate(f"step {number}")
    assert names(tmp_path / "mine.pickle") == ["step 0", "step 1", "step 2"]
    assert "capture.snapshot" in [problem.code for problem in p.report.problems]
    with pytest.raises(OptionsError, match="--snapshot takes a file name"):
        tp.profile(snapshot=5)


def test_the_report_says_in_which_step_the_memory_ran_out(device: FakeAllocator) -> None:
    p = tp.profile(activities=["cpu"])

    def run() -> None:
        with p:
            for number in p.steps(range(9)):
                work()
                device.allocate(f"step {number}", 20 * MB, MB if number == 2 else None)

    with pytest.raises(torch.cuda.OutOfMemoryError):
        run()
    notes = [problem.message for problem in p.report.problems if problem.code == "capture.out_of_memory"]
    assert notes == ["The device ran out of memory at step 2, allocating 20.00 MiB."]


def test_a_real_torch_accepts_the_arguments_of_the_history() -> None:
    # Without a device this only holds our arguments against those of the installed torch.
    inspect.signature(torch.cuda.memory._record_memory_history).bind(
        enabled="all", context="all", stacks="python", max_entries=100_000
    )
    inspect.signature(torch.cuda.memory._snapshot).bind()


@pytest.mark.parametrize(
    ("stacks", "context", "asked"), [("python", "all", "python"), ("all", "all", "all"), ("none", None, "python")]
)
def test_the_length_and_the_stacks_of_the_history_are_the_users_choice(
    device: FakeAllocator, tmp_path: Path, stacks: str, context: str | None, asked: str
) -> None:
    with tp.profile(activities=["cpu"], snapshot=tmp_path / "s.pickle", snapshot_entries=7, snapshot_stacks=stacks):
        work()
    assert device.calls[0] == {"enabled": "all", "context": context, "stacks": asked, "max_entries": 7}


def test_out_of_memory_shows_who_held_the_memory_and_raises_the_same_error(
    device: FakeAllocator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    def run() -> None:
        with tp.profile(activities=["cpu"], snapshot=tmp_path / "s.pickle") as p:
            reports.append(p)
            work()
            device.allocate("weights", 3 * MB)
            with pytest.raises(torch.cuda.OutOfMemoryError):
                device.allocate("too much", 20 * MB, MB)
            raise error

    reports: list[Any] = []
    with pytest.raises(torch.cuda.OutOfMemoryError) as caught:
        run()
    assert caught.value is error
    assert "Out of memory on cuda:0. In use: 3 MiB in 1 block" in capsys.readouterr().out
    assert reports[0].report.snapshot.devices["out_of_memory"].to_list() == [1]
    assert "snapshot.out_of_memory" in [problem.code for problem in reports[0].report.problems]
