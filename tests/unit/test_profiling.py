"""``profile()`` around blocks, functions and between start and stop."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import operator
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import torch
from torch.profiler import ProfilerAction
from torch.utils._python_dispatch import TorchDispatchMode

import torchprof_magic as tp
from torchprof_magic import run
from torchprof_magic.capture.torch_api import features
from torchprof_magic.model.errors import CaptureError, OptionsError, ProfilerBusyError
from torchprof_magic.run import conductor, reading, recorded_trace  # noqa: F401 - the last two are looked up in ``run``
from torchprof_magic.run.cleanup import sweep

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEL = torch.nn.Linear(8, 8)


def work() -> None:
    MODEL(torch.randn(4, 8)).sum().backward()


def numbers(report: tp.Report) -> list[tuple[int, int, bool]]:
    return report.steps.select("cycle", "number", "complete").rows()


def test_a_block_without_schedule_is_recorded_as_one_step() -> None:
    with tp.profile() as p:
        work()
    assert numbers(p.report) == [(0, 0, True)]
    assert "aten::addmm" in p.report.ops["name"].to_list()
    assert "recorded as one step" in p.report.summary()


@pytest.mark.skipif(not features.HAS_PYTHON_EXPORT, reason="this torch has no export that escapes names")
@pytest.mark.parametrize("name", ['q"uote', "back\\slash", "\u00e9", "tab\there", "\x01", "path/like", "unknown"])
@pytest.mark.parametrize("repeat", [1, 2])
def test_names_that_torch_cannot_write_are_in_the_report_and_in_its_files(name: str, repeat: int) -> None:
    with tp.profile(wait=0, warmup=1, active=1, repeat=repeat) as p:
        for _ in range(5):
            with torch.profiler.record_function(name):
                work()
            p.step()
    assert [problem.code for problem in p.report.problems if problem.severity == "data_loss"] == []
    found = p.report.events.filter(p.report.events["name"] == name)
    assert found["cycle"].to_list() == list(range(repeat))
    for path in p.report.trace_paths:
        assert name in [event["name"] for event in json.loads(path.read_bytes())["traceEvents"]]


@pytest.mark.skipif(not features.HAS_PYTHON_EXPORT, reason="this torch has no export that escapes names")
def test_a_copy_that_is_kept_has_the_right_names(tmp_path: Path) -> None:
    with tp.profile(trace_dir=tmp_path) as p, torch.profiler.record_function("\u00e9"):
        work()
    (copy,) = p.report.trace_paths
    assert copy.parent == tmp_path
    assert "\u00e9" in [event["name"] for event in json.loads(copy.read_bytes())["traceEvents"]]


@pytest.mark.skipif(not features.HAS_PYTHON_EXPORT, reason="this torch has no export that escapes names")
def test_the_file_that_the_message_of_an_unread_recording_names_has_the_right_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    told: list[bytes] = []
    monkeypatch.setattr(conductor, "read_recording", stop)
    monkeypatch.setattr(
        conductor, "say_unread", lambda recording, **_: told.append(recording.cycles[0].path.read_bytes())
    )
    with pytest.raises(KeyboardInterrupt), tp.profile(), torch.profiler.record_function("\u00e9"):
        work()
    assert "\u00e9" in [event["name"] for event in json.loads(told[0])["traceEvents"]]


def test_step_ends_the_steps_of_a_block_without_schedule() -> None:
    with tp.profile() as p:
        for _ in range(3):
            work()
            p.step()
    assert numbers(p.report) == [(0, 0, True), (0, 1, True), (0, 2, True)]
    assert not p.report.problems


def test_steps_over_a_loop_records_what_the_magic_records() -> None:
    with tp.profile() as p:
        work()
        for _ in tp.steps(range(9)):
            work()
    assert numbers(p.report) == [(0, 2, True), (0, 3, True), (0, 4, True)]
    assert p.report.ops.filter(p.report.ops["name"] == "aten::addmm")["calls"].item() == 3


def test_a_short_loop_still_shows_something() -> None:
    with tp.profile() as p:
        for _ in p.steps([1, 2]):
            work()
    assert numbers(p.report) == [(0, 1, True)]


def test_cycles_are_kept_apart() -> None:
    with tp.profile(wait=1, warmup=1, active=1, repeat=2) as p:
        for _ in range(7):
            work()
            tp.step()
    assert numbers(p.report) == [(0, 2, True), (1, 5, True)]
    assert len(p.report.trace_paths) == 2
    assert p.report.steps["start_ns"].is_sorted()


def test_every_cycle_is_a_report_of_its_own() -> None:
    with tp.profile(wait=0, warmup=1, active=2, repeat=3, profile_memory=True) as p:
        for number in range(9):
            for _ in range(number // 3 + 1):
                torch.ones(1000).cumsum(0)
            p.step()
    assert p.report.cycles == [0, 1, 2]
    for cycle in p.report.cycles:
        one = p.report.cycle(cycle)
        assert numbers(one) == [(cycle, 3 * cycle + 1, True), (cycle, 3 * cycle + 2, True)]
        assert one.ops.filter(name="aten::cumsum")["calls"].to_list() == [2 * (cycle + 1)]
        assert one.trace.memory.filter(cycle=cycle).height == one.trace.memory.height > 0
        assert one.summary().startswith(f"{one.trace.meta.title} — steps {3 * cycle + 1}")
        parents = one.events["parent"].to_numpy()
        assert (parents < one.events.height).all()
    with pytest.raises(ValueError, match="no cycle 3; the recorded cycles are: 0, 1, 2"):
        p.report.cycle(3)


def test_memory_is_in_the_report_when_asked_for() -> None:
    with tp.profile(profile_memory=True, record_shapes=True) as p:
        work()
    assert p.report.trace.memory["delta_bytes"].sum() is not None
    assert p.report.trace.memory.height > 0
    assert p.report.trace.meta.has_shapes


def test_the_exception_of_a_block_propagates_and_its_report_is_there() -> None:
    p = tp.profile()

    def fail() -> None:
        with p:
            work()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert "aten::addmm" in p.report.ops["name"].to_list()
    with tp.profile() as after:
        work()
    assert after.report.ops.height > 0


def test_names_that_torch_cannot_write_arrive_as_they_are() -> None:
    names = ['say "hi"', "back\\slash", "naïve ☃", "tab\there"]
    with tp.profile() as p:
        for name in names:
            with torch.profiler.record_function(name):
                work()
    assert set(names) <= set(p.report.ops["name"].to_list())


def test_profilers_cannot_be_nested_and_the_outer_one_survives() -> None:
    with tp.profile() as outer:
        with pytest.raises(ProfilerBusyError, match="cannot be nested"), tp.profile():
            pass
        work()
    assert outer.report.ops.height > 0


def test_a_loop_that_cannot_be_stepped_deletes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text("precious")

    def nest() -> None:
        with tp.profile() as p, torch.profiler.profile():
            p.steps(range(3))

    with pytest.raises(ProfilerBusyError):
        nest()
    gc.collect()
    assert (tmp_path / "mine.txt").read_text() == "precious"
    with tp.profile() as after:
        work()
    assert after.report.ops.height


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_neither_steps_nor_deletes() -> None:
    with tp.profile() as p:
        work()
        child = os.fork()
        if child == 0:
            os._exit(0 if list(tp.steps(range(2))) == [0, 1] else 1)
        assert os.waitpid(child, 0)[1] == 0
        work()
    assert p.report.ops.filter(p.report.ops["name"] == "aten::addmm")["calls"].item() == 2


def test_an_activity_that_the_machine_lacks_is_named_with_those_it_has() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    with pytest.raises(CaptureError, match=r"cannot record cuda\. It can record cpu"), tp.profile(activities="cuda"):
        pass


def test_a_report_asked_for_too_early_says_when_it_is_ready() -> None:
    p = tp.profile()
    with pytest.raises(CaptureError, match="before the end of the `with` block"):
        _ = p.report
    with pytest.raises(CaptureError, match="inside `with"):
        p.steps([1])
    with p:
        pass
    with p, pytest.raises(CaptureError, match="already recording"):
        p.__enter__()


def test_step_and_steps_outside_a_recording_do_nothing() -> None:
    tp.step()
    assert list(tp.steps("abc")) == ["a", "b", "c"]


def test_the_last_report_is_kept() -> None:
    with tp.profile() as p:
        work()
    assert tp.last is p.report


def test_raw_files_live_as_long_as_the_report_unless_copies_are_kept(tmp_path: Path) -> None:
    with tp.profile() as p:
        work()
    (path,) = p.report.trace_paths
    assert path.exists()
    with tp.profile(trace_dir=tmp_path) as kept:
        work()
    (other,) = kept.report.trace_paths
    del p, kept
    with tp.profile() as _:
        pass
    gc.collect()
    assert not path.exists()
    assert other.exists()


def test_wrong_values_are_refused_before_anything_runs() -> None:
    with pytest.raises(OptionsError, match="--active must be at least 1"):
        tp.profile(active=0)


def test_a_with_block_of_a_script_is_named_by_its_file_and_line() -> None:
    line = sys._getframe().f_lineno + 1
    with tp.profile() as p:
        work()
    assert p.report.trace.meta.title == f"test_profiling.py:{line}"


def test_importing_the_package_loads_neither_torch_nor_ipython() -> None:
    code = "import sys, torchprof_magic; print(sorted({'torch', 'IPython', 'polars', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_schedule_of_torchs_own_is_followed() -> None:
    with tp.profile(schedule=torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)) as p:
        for _ in range(9):
            work()
            p.step()
    assert numbers(p.report) == [(0, 2, True), (0, 3, True), (1, 6, True), (1, 7, True)]


def test_a_schedule_that_raises_loses_only_later_steps() -> None:
    def plan(step: int) -> ProfilerAction:
        if step == 3:
            raise ValueError("no idea")
        return ProfilerAction.RECORD

    with tp.profile(schedule=plan) as p:
        for _ in range(6):
            work()
            p.step()
    assert numbers(p.report) == [(0, 0, True), (0, 1, True), (0, 2, True)]
    (said,) = [problem.message for problem in p.report.problems if problem.code == "capture.schedule_failed"]
    assert "at step 3: ValueError: no idea." in said


@pytest.mark.parametrize("answer", ["RECORD", None, 3])
def test_a_schedule_that_never_returns_an_action_is_named_as_the_cause(answer: object) -> None:
    with tp.profile(schedule=lambda _: answer) as p:  # type: ignore[arg-type, return-value]
        for _ in range(6):
            work()
            p.step()
    failed, nothing = p.report.problems
    assert (failed.code, nothing.code) == ("capture.schedule_failed", "capture.nothing_scheduled")
    assert f"it returned {answer!r} instead of a ProfilerAction" in failed.message
    assert "returns a torch.profiler.ProfilerAction" in failed.fix
    assert nothing.message == "No step was recorded: the run ended early, after 0 steps."
    assert nothing.fix == "Fix the schedule. It ended the recording before any step was recorded."


def test_a_schedule_that_only_warms_up_and_one_that_never_records_leave_the_profiler_off() -> None:
    for action in (ProfilerAction.WARMUP, ProfilerAction.NONE):
        with tp.profile(schedule=lambda _, action=action: action) as p:
            work()
            p.step()
        assert p.report.steps.height == 0
        assert [problem.code for problem in p.report.problems] == ["capture.nothing_recorded"]
        assert not torch.autograd._profiler_enabled()


@pytest.mark.parametrize("place", ["recorded_trace.read_chrome", "reading.Report", "reading.delete_with"])
def test_an_interrupt_while_reading_names_the_trace_and_the_trace_stays(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    original = operator.attrgetter(place)(run)

    def interrupted(*arguments: object, **named: object) -> object:
        made = original(*arguments, **named)
        signal.raise_signal(signal.SIGINT)
        return made

    monkeypatch.setattr(f"torchprof_magic.run.{place}", interrupted)
    with pytest.raises(KeyboardInterrupt), tp.profile() as p:
        torch.ones(3).sum()
    monkeypatch.undo()
    path = re.search(r"Open it with: torchprof_magic.load\('(.*)'\)\n", capsys.readouterr().out)
    assert path is not None
    gc.collect()
    sweep()
    assert "aten::sum" in tp.load(path[1]).ops["name"].to_list()
    with pytest.raises(CaptureError):
        _ = p.report
    shutil.rmtree(Path(path[1]).parent)


@pytest.mark.parametrize("interrupts", [1, 2])
def test_interrupts_while_the_recording_ends_are_raised_once_and_the_second_skips_the_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], interrupts: int
) -> None:
    profiler = torch.profiler.profiler._KinetoProfile
    original = profiler.stop_trace

    def interrupted(self: object) -> None:
        for _ in range(interrupts):
            signal.raise_signal(signal.SIGINT)
        original(self)

    monkeypatch.setattr(profiler, "stop_trace", interrupted)
    with pytest.raises(KeyboardInterrupt), tp.profile() as p:
        torch.ones(3).sum()
    said = capsys.readouterr().out.splitlines()
    assert ["Interrupt again" in line for line in said] == ([True] if interrupts == 1 else [True, True, False])
    if interrupts == 1:
        assert "aten::sum" in p.report.ops["name"].to_list()
    else:
        with pytest.raises(CaptureError, match="no report was made: the analysis was interrupted"):
            _ = p.report
        assert p._run is not None
        assert p._run.session.recording is not None
        shutil.rmtree(p._run.session.recording.folder)


def test_an_interrupt_while_the_last_step_is_saved_is_raised_after_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    profiler = torch.profiler.profiler._KinetoProfile
    original = profiler.stop_trace

    def interrupted(self: object) -> None:
        signal.raise_signal(signal.SIGINT)
        original(self)

    monkeypatch.setattr(profiler, "stop_trace", interrupted)
    p = tp.profile(wait=0, warmup=0, active=9)
    with pytest.raises(KeyboardInterrupt):
        _run_steps(p, 3)
    assert p.report.steps.filter("complete")["number"].to_list() == [0, 1, 2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _run_steps(p: tp.profile, count: int) -> None:
    with p:
        for _ in p.steps(range(count)):
            torch.ones(3).sum()


def test_dispatch_modes_of_the_user_see_no_op_of_this_package() -> None:
    class Seen(TorchDispatchMode):
        names: ClassVar[list[str]] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    with Seen(), tp.profile(wait=0, warmup=1, active=1, profile_memory=True) as p:
        for _ in range(2):
            torch.ones(3).sum()
            p.step()
    assert Seen.names.count("aten.sum.default") == 2
    assert "aten.empty.memory_format" not in Seen.names


def test_a_block_with_one_long_cycle_ends_at_its_budget_and_omits_nothing() -> None:
    with tp.profile(with_stack=True, budget="2GB,0.001s") as p:
        for _ in range(4):
            work()
            time.sleep(0.002)
            p.step()
    assert numbers(p.report) == [(0, 0, True)]
    said = {problem.code: problem.message for problem in p.report.problems}
    assert said["capture.budget"].startswith("Recording stopped after step 0: recording took ")
    assert said["capture.budget"].endswith(" (budget 1 ms).")
    assert "capture.degraded" not in said


@pytest.mark.parametrize("budget", [30.0, True, "30 days", "0s"])
def test_an_invalid_budget_is_refused_before_anything_runs(budget: Any) -> None:
    with pytest.raises(OptionsError, match="a time such as 30s"):
        tp.profile(budget=budget)


class Recorded:
    """A function and a coroutine function that are recorded at each call."""

    profiler = tp.profile()

    @staticmethod
    @profiler
    def twice(count: int, *, fails: bool = False) -> int:
        """Work as often as asked."""
        for _ in range(count):
            work()
        if fails:
            raise ValueError("mine")
        return 2 * count

    @staticmethod
    @tp.profile()
    async def later(count: int) -> int:
        await asyncio.sleep(0)
        work()
        return count


def calls(report: tp.Report | None) -> int:
    assert report is not None
    return int(report.ops.filter(report.ops["name"] == "aten::addmm")["calls"].item())


def test_a_decorated_function_is_recorded_at_each_call_and_keeps_its_signature() -> None:
    assert Recorded.twice(2) == 4
    assert calls(tp.last) == 2
    assert Recorded.twice(count=3) == 6
    assert calls(Recorded.profiler.report) == calls(tp.last) == 3
    assert Recorded.profiler.report.trace.meta.title == "Recorded.twice"
    assert Recorded.twice.__doc__ == "Work as often as asked."
    assert list(inspect.signature(Recorded.twice).parameters) == ["count", "fails"]


def test_the_exception_of_a_decorated_function_propagates_and_its_call_is_in_the_report() -> None:
    with pytest.raises(ValueError, match="mine"):
        Recorded.twice(1, fails=True)
    assert calls(Recorded.profiler.report) == 1


def test_a_decorated_coroutine_function_is_recorded_while_it_is_awaited() -> None:
    assert asyncio.run(Recorded.later(7)) == 7
    assert calls(tp.last) == 1


def test_a_decorated_function_that_calls_itself_is_one_recording() -> None:
    profiler = tp.profile()

    @profiler
    def down(count: int) -> int:
        work()
        return 1 + down(count - 1) if count else 0

    assert down(3) == 3
    assert calls(profiler.report) == 4


def test_generator_functions_cannot_be_decorated() -> None:
    def batches() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match="batches is a generator function"):
        tp.profile()(batches)


def test_start_and_stop_record_what_is_between_them() -> None:
    p = tp.profile()
    with pytest.raises(CaptureError, match="before start"):
        p.stop()
    p.start()
    work()
    p.stop()
    work()
    p.stop()  # a second time does nothing
    assert calls(p.report) == 1
    p.start()
    with pytest.raises(CaptureError, match="already recording"):
        p.start()
    work()
    work()
    p.stop()
    assert calls(p.report) == 2


def test_a_block_inside_an_except_clause_is_complete() -> None:
    try:
        int("no number")
    except ValueError:
        with tp.profile(wait=0, warmup=0, active=2) as p:
            for _ in range(2):
                work()
                p.step()
    assert numbers(p.report) == [(0, 0, True), (0, 1, True)]
    assert p.report.problems == []


def test_a_mode_that_refuses_ops_that_it_does_not_know_is_not_asked_about_ours() -> None:
    class Strict(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            assert str(func).startswith("aten")
            return func(*args, **(kwargs or {}))

    with Strict(), tp.profile(wait=0, warmup=0, active=2) as p:
        for _ in range(2):
            torch.ones(3).sum()
            p.step()
    assert numbers(p.report) == [(0, 0, True), (0, 1, True)]


def test_a_second_loop_after_the_schedule_is_named_and_an_epoch_is_not() -> None:
    with tp.profile() as p:
        for _ in tp.steps(range(8)):
            work()
        for _ in tp.steps(range(8)):
            work()
    (said,) = [problem.message for problem in p.report.problems if problem.code == "capture.later_loop"]
    assert "The loop at test_profiling.py:" in said
    with tp.profile() as p:
        for _ in range(3):
            for _ in tp.steps(range(8)):
                work()
    assert "capture.later_loop" not in [problem.code for problem in p.report.problems]


def test_metadata_added_during_the_run_is_in_the_report_and_in_the_files_of_later_cycles(tmp_path: Path) -> None:
    with tp.profile(wait=0, warmup=0, active=1, repeat=2, trace_dir=tmp_path, filename="{cycle}.json") as p:
        tp.add_metadata("first", 'a "b"')
        p.step()
        tp.add_metadata("second", {"lr": [0.1, None]})
        tp.add_metadata("first", 3)
        p.step()
        tp.add_metadata("after", True)  # noqa: FBT003 - a value
    added = {"first": "3", "second": '{"lr": [0.1, null]}', "after": "true"}
    assert p.report.metadata.items() >= added.items()
    files = [json.loads((tmp_path / f"{cycle}.json").read_bytes()) for cycle in range(2)]
    assert [[file.get(key) for key in ("first", "second", "after")] for file in files] == [
        ['a "b"', None, None],
        [3, {"lr": [0.1, None]}, None],
    ]
    assert p.report.sql("SELECT value FROM metadata WHERE key = 'after'").item() == "true"


def test_metadata_that_cannot_be_written_is_refused_and_none_is_added_without_a_recording() -> None:
    tp.add_metadata("a", 1)
    with tp.profile() as p, pytest.raises(OptionsError, match="the value of 'a' cannot be written as JSON"):
        tp.add_metadata("a", object())
    assert p.report.metadata.keys() == {"trace_id"}


@pytest.mark.parametrize("method", ["prepare_trace", "start_trace"])
def test_a_block_goes_on_where_torch_cannot_start_its_profiler(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("CUPTI is not there")

    done = []
    with monkeypatch.context() as patch:
        patch.setattr(torch.profiler.profile, method, fail)
        with tp.profile() as p:
            for number in p.steps(range(3)):
                work()
                done.append(number)
    assert done == [0, 1, 2]
    assert any("CUPTI is not there" in problem.message for problem in p.report.problems)
    with tp.profile() as p:
        work()
    assert p.report.ops.height > 0


def test_an_option_that_does_not_exist_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'modules'; did you mean with_modules\?$"):
        tp.profile(modules=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'qwxz'$"):
        tp.profile(qwxz=True)  # type: ignore[call-arg]
