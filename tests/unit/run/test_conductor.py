"""Every failure around a recording, through the magic and through ``profile()``, which behave alike."""

from __future__ import annotations

import gc
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

import torchprof_magic as tp
from torchprof_magic.capture import busy_profiler, live_session, switch_off
from torchprof_magic.ipython import extension
from torchprof_magic.ipython.idle import Idle
from torchprof_magic.model.errors import IngestError, TorchProfError
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import KeepOptions, ProfileOptions
from torchprof_magic.run import conductor, recorded_trace
from torchprof_magic.run.archive import Archive
from torchprof_magic.run.cleanup import sweep
from torchprof_magic.runs import this_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchprof_magic.capture.progress import Progress
    from torchprof_magic.report.trace_report import Report

    Arm = Callable[[pytest.MonkeyPatch], None]

KINETO = "torch.profiler.profiler._KinetoProfile"
WORK = "done.append(1)\ny = torch.ones(16).mul(2)\n"


@dataclass(frozen=True)
class Outcome:
    """What a user sees of a run: the exception, the printed text, and the report."""

    error: BaseException | None
    said: str
    report: Report | None
    done: list[int]

    @property
    def codes(self) -> list[str]:
        assert self.report is not None
        return [problem.code for problem in self.report.problems]


class Door:
    """Runs code under the magic or within ``profile()``."""

    def __init__(self, shell: InteractiveShell | None, capsys: pytest.CaptureFixture[str]) -> None:
        self.is_magic = shell is not None
        self._shell = shell
        self._capsys = capsys

    def record(self, code: str = WORK, **options: Any) -> Outcome:
        """Record code that has ``torch``, ``done``, ``interrupt`` and the options that are objects as variables."""
        this_process._reports.clear()
        self._capsys.readouterr()
        done: list[int] = []
        variables: dict[str, Any] = {"torch": torch, "tp": tp, "done": done, "interrupt": interrupt}
        run = self._run_cell if self.is_magic else self._run_block
        error = run(code, variables, options)
        return Outcome(error, self._capsys.readouterr().out, this_process.last(), done)

    def _run_cell(self, code: str, variables: dict[str, Any], options: dict[str, Any]) -> BaseException | None:
        assert self._shell is not None
        flags = []
        for name, value in options.items():
            flag = f"--{name.replace('_', '-')}"
            if callable(value):
                variables[name] = value
                flags.append(f"{flag} {name}")
            else:
                flags.append(f"{flag} {value}")
        self._shell.push(variables)
        result = self._shell.run_cell(
            f"%%torchprof -q --preset quick --step cell {' '.join(flags)}\n{code}", silent=True
        )
        return result.error_in_exec

    def _run_block(self, code: str, variables: dict[str, Any], options: dict[str, Any]) -> BaseException | None:
        try:
            with tp.profile(**options):
                exec(code, variables)  # noqa: S102 - the test's own text
        except BaseException as exc:  # noqa: BLE001 - what a user would see
            return exc
        return None


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(params=["magic", "profile"])
def door(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[Door]:
    if request.param == "profile":
        yield Door(None, capsys)
        return
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.showtraceback = lambda *_, **__: None  # its text is IPython's
    extension.load(shell)
    yield Door(shell, capsys)
    extension.unload(shell)
    InteractiveShell.clear_instance()


@pytest.fixture(autouse=True)
def _nothing_runs_afterwards(door: Door) -> Iterator[None]:
    """Whatever failed, torch's profiler is off, interrupts go where they went, and the next recording is whole."""
    yield
    assert busy_profiler() is None
    assert live_session() is None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    after = door.record()
    assert (after.error, after.said, after.codes) == (None, "", [])
    switch_off()


def test_a_successful_run_prints_nothing_and_has_a_report(door: Door) -> None:
    run = door.record()
    assert (run.error, run.said, run.done, run.codes) == (None, "", [1], [])
    assert run.report is not None
    assert "aten::mul" in run.report.ops["name"].to_list()


@pytest.mark.parametrize("error", ["KeyError('mine')", "KeyboardInterrupt", "SystemExit(3)"])
def test_the_users_exception_is_raised_and_the_report_has_the_steps_before(door: Door, error: str) -> None:
    run = door.record(f"{WORK}raise {error}")
    assert type(run.error).__name__ in error
    assert run.report is not None
    assert run.report.steps["complete"].to_list() == [False]
    assert "aten::mul" in run.report.ops["name"].to_list()


# -- before the code runs ------------------------------------------------------------------------------------------


def refused(run: Outcome, says: str) -> None:
    """Assert that nothing ran, and that the error says why."""
    assert isinstance(run.error, (TorchProfError, UsageError))
    assert says in str(run.error)
    assert (run.done, run.report, run.said) == ([], None, "")


def test_nothing_runs_where_no_report_can_be_made(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(conductor, "can_report", lambda: False)
        run = door.record()
    refused(run, "Nothing was run")


def test_nothing_runs_beside_another_profiler(door: Door) -> None:
    with torch.profiler.profile():
        run = door.record()
    refused(run, "profiler")


def test_a_folder_that_cannot_be_written_is_named_before_anything_runs(door: Door, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused(door.record(trace_dir=tmp_path / "file"), str(tmp_path / "file"))


def test_a_nested_recording_is_refused_and_the_outer_one_is_complete(door: Door) -> None:
    run = door.record("try:\n    tp.profile().__enter__()\nexcept tp.ProfilerBusyError:\n    done.append(2)\n" + WORK)
    assert (run.error, run.done) == (None, [2, 1])
    assert run.report is not None
    assert "aten::mul" in run.report.ops["name"].to_list()


# -- while the recording ends --------------------------------------------------------------------------------------


def test_a_report_says_that_the_profiler_could_not_stop(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(f"{KINETO}.stop_trace", lambda _: 1 / 0)
        run = door.record()
    assert (run.error, run.done) == (None, [1])
    assert any(problem.severity == "data_loss" for problem in run.report.problems)  # type: ignore[union-attr]


def test_a_report_says_that_the_trace_could_not_be_saved(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(f"{KINETO}.export_chrome_trace", lambda *_, **__: 1 / 0)
        run = door.record()
    assert (run.error, run.codes) == (None, ["capture.not_saved"])


def test_a_handler_that_raises_is_a_problem_in_the_report(door: Door) -> None:
    run = door.record(on_trace_ready=lambda _: 1 / 0)
    assert (run.error, run.codes) == (None, ["capture.handler_failed"])


def test_one_interrupt_while_the_recording_is_saved_is_raised_after_the_report(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        interrupt_in(patch, f"{KINETO}.stop_trace", times=1)
        run = door.record()
    assert isinstance(run.error, KeyboardInterrupt)
    assert run.said == "torchprof: Saving the recording. Interrupt again to skip the report.\n"
    assert run.codes == []


def test_two_interrupts_while_the_recording_is_saved_keep_only_the_trace(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        interrupt_in(patch, f"{KINETO}.stop_trace", times=2)
        run = door.record()
    assert isinstance(run.error, KeyboardInterrupt)
    assert run.report is None
    assert_opens(door, run.said)


def interrupt_in(patch: pytest.MonkeyPatch, name: str, *, times: int) -> None:
    """Have a method of torch's interrupted as it begins."""
    original = torch.profiler.profiler._KinetoProfile.__dict__[name.rpartition(".")[2]]

    def interrupted(self: object, *rest: object, **more: object) -> object:
        for _ in range(times):
            interrupt()
        return original(self, *rest, **more)

    patch.setattr(name, interrupted)


# -- after the recording -------------------------------------------------------------------------------------------


class PanicException(BaseException):
    """What a compiled library raises when it gives up: no ``Exception``."""


FAILURES = [RuntimeError("no analysis"), RecursionError("too deep"), PanicException("unwrap on None")]


@pytest.mark.parametrize("is_raising", [False, True])
@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_a_failed_analysis_keeps_the_trace_and_does_not_hide_the_users_exception(
    door: Door, monkeypatch: pytest.MonkeyPatch, failure: BaseException, *, is_raising: bool
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(recorded_trace, "read_chrome", fail)
        run = door.record(f"{WORK}raise KeyError('mine')" if is_raising else WORK)
    assert isinstance(run.error, KeyError if is_raising else type(None))
    assert (run.report, run.done) == (None, [1])
    assert f"torchprof: The report could not be made ({'RuntimeError: ' * isinstance(failure, PanicException)}" in (
        run.said
    )
    assert f"{type(failure).__name__}: {failure}). The trace is kept in " in run.said
    assert_opens(door, run.said)


def test_an_interrupt_while_the_trace_is_read_keeps_the_trace(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    original = recorded_trace.read_chrome

    def interrupted(*arguments: Any, **named: Any) -> object:
        interrupt()
        return original(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(recorded_trace, "read_chrome", interrupted)
        run = door.record()
    assert isinstance(run.error, KeyboardInterrupt)
    assert run.said.startswith("torchprof: Analysis interrupted. The trace is kept in ")
    assert_opens(door, run.said)


@pytest.mark.parametrize("failure", [IngestError("broken"), MemoryError()], ids=["unreadable", "too large"])
def test_a_cycle_that_cannot_be_read_is_a_problem_that_names_its_file(
    door: Door, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    original = recorded_trace.read_chrome

    def read(files: list[Path | bytes], *rest: Any, **more: Any) -> object:
        if isinstance(files[0], Path):
            raise failure
        return original(files, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(recorded_trace, "read_chrome", read)
        run = door.record()
    assert run.error is None
    assert run.codes == ["run.unreadable_cycle" if isinstance(failure, IngestError) else "run.too_large"]
    assert run.report is not None
    (path,) = run.report.trace_paths
    assert str(path) in run.report.problems[0].fix


def test_a_copy_that_cannot_be_stored_is_a_problem_and_the_original_stays(
    door: Door, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("disk on fire")

    with monkeypatch.context() as patch:
        patch.setattr(Archive, "_put", refuse)
        run = door.record(trace_dir=tmp_path)
    assert (run.error, run.codes) == (None, ["store.not_stored"])
    assert run.report is not None
    assert "disk on fire" in run.report.problems[0].message
    (path,) = run.report.trace_paths
    del run
    this_process._reports.clear()
    sweep()
    assert path.exists()


def test_a_report_that_cannot_be_remembered_keeps_the_trace(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(this_process, "remember", lambda *_: 1 / 0)
        run = door.record()
    assert run.error is None
    assert "ZeroDivisionError" in run.said


def assert_opens(door: Door, said: str) -> None:
    """Assert that the message names a file, in the words of the door, and that it holds what was recorded."""
    start, end = ("%torchprof load ", "\n") if door.is_magic else ("torchprof_magic.load('", "')")
    path = said.partition(start)[2].partition(end)[0]
    sweep()
    assert "aten::mul" in tp.load(path).ops["name"].to_list()


@pytest.mark.parametrize(("least_bytes", "is_long"), [(0, True), (10**9, False)])
def test_what_is_done_until_the_report_is_there_is_told_in_order(
    least_bytes: int, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conductor, "SLOW_BYTES", least_bytes)
    seen: list[tuple[str, bool]] = []
    notes: list[str] = []

    def tell(progress: Progress) -> None:
        seen.append((progress.phase, progress.is_long))
        notes.append(progress.note)

    run = conductor.Run(
        ProfileOptions(activities=("cpu",)), KeepOptions(), stepping=Stepping(how="cell"), on_progress=tell
    )
    run.open()
    try:
        run.session.start()
        torch.ones(3)
    finally:
        run.session.stop(is_held=True)
        run.finish(show=lambda _report: seen.append(("shown", False)))
    assert seen == [
        ("active", False),
        ("ending", False),
        ("saving", False),
        ("checking", False),
        ("reading", is_long),
        ("showing", is_long),
        ("shown", False),
        ("done", False),
    ]
    # The trace is a file, whose size is decimal as that of all files.
    assert re.fullmatch(r"[0-9.]+ (kB|MB)", notes[4])


def test_no_garbage_is_looked_for_while_the_report_is_made_and_then_it_is_again(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_for: list[bool] = []
    read = conductor.read_recording

    def noting(*args: Any, **kwargs: Any) -> Report:
        looked_for.append(gc.isenabled())
        return read(*args, **kwargs)

    monkeypatch.setattr(conductor, "read_recording", noting)
    door.record()
    assert looked_for == [False]
    assert gc.isenabled()


@pytest.mark.parametrize("door", ["magic"], indirect=True)
def test_a_kernel_looks_for_garbage_again_when_nobody_waits_for_its_cell(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[Callable[[], object]] = []
    with monkeypatch.context() as patch:
        patch.setattr(Idle, "later", lambda _, work: waiting.append(work))
        door.record()
    was_on = gc.isenabled()
    for work in waiting:
        work()
    assert (was_on, gc.isenabled()) == (False, True)


@pytest.mark.parametrize("door", ["magic"], indirect=True)
def test_garbage_is_looked_for_again_at_once_where_nothing_can_be_done_later(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ArithmeticError("no loop")

    with monkeypatch.context() as patch:
        patch.setattr(Idle, "later", fails)
        assert door.record().error is None
    assert gc.isenabled()


def test_garbage_that_the_user_does_not_want_to_be_looked_for_is_not_looked_for_afterwards(door: Door) -> None:
    gc.disable()
    try:
        door.record()
        assert not gc.isenabled()
    finally:
        gc.enable()
