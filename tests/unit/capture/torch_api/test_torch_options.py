"""Every option of torch's profiler reaches torch, and none of them loses the recording."""

from __future__ import annotations

import gzip
import json
import signal
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from capturing import codes, work
from torch._C._profiler import _ExperimentalConfig
from torch._inductor.codecache import PyCodeCache
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule, tensorboard_trace_handler
from versions import needs

import torchprof_magic as tp
from torchprof_magic.capture import CaptureSession
from torchprof_magic.capture.torch_api import compat, features
from torchprof_magic.model.errors import CaptureError, OptionsError
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import ProfileOptions, ScheduleOptions, metadata_of

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.model.recording import Recording


def recorded(folder: Path, *, cycles: int = 1, has_thread: bool = False, **options: Any) -> Recording:
    """Record one step a cycle, each with work on this thread, and on another if ``has_thread``."""
    schedule = ScheduleOptions(wait=0, warmup=1, active=1, repeat=cycles)
    session = CaptureSession(
        ProfileOptions(schedule=schedule, **options), stepping=Stepping(how="manual"), folder=folder / "run"
    )
    session.start()
    for number in range(2 * cycles):
        work(f"body{number}")
        if has_thread:
            thread = threading.Thread(target=torch.ones(3).cumsum, args=(0,))
            thread.start()
            thread.join()
        session.step()
    return session.stop()


def document(recording: Recording, cycle: int = 0) -> Any:
    return json.loads(recording.cycles[cycle].path.read_bytes())


def spans(recording: Recording, cycle: int = 0) -> list[Any]:
    return [event for event in document(recording, cycle)["traceEvents"] if event["ph"] == "X"]


def names(recording: Recording, cycle: int = 0) -> set[str]:
    return {event["name"] for event in spans(recording, cycle)}


@needs("profile_all_threads")
def test_ops_of_another_thread_are_recorded_only_with_all_threads(tmp_path: Path) -> None:
    alone = recorded(tmp_path / "a", has_thread=True)
    together = recorded(tmp_path / "b", has_thread=True, all_threads=True)
    assert "aten::cumsum" not in names(alone)
    assert {"aten::cumsum", "body1", "ProfilerStep#1"} <= names(together)
    assert codes(alone) == ["capture.other_threads"]
    assert codes(together) == []


@needs("profile_all_threads")
def test_a_config_with_all_threads_records_completely_too(tmp_path: Path) -> None:
    config = _ExperimentalConfig(profile_all_threads=True)
    recording = recorded(tmp_path, cycles=2, has_thread=True, experimental_config=config)
    assert codes(recording) == []
    assert [mark.number for cycle in recording.cycles for mark in cycle.steps] == [1, 3]
    assert "aten::cumsum" in names(recording, 1)


@needs("trace_only")
def test_the_trace_is_the_same_without_torchs_event_tree(tmp_path: Path) -> None:
    with_tree, without = recorded(tmp_path / "a"), recorded(tmp_path / "b", trace_only=True)
    assert [event["name"] for event in spans(with_tree)] == [event["name"] for event in spans(without)]
    assert codes(without) == []


def test_the_flops_of_torch_are_in_the_trace(tmp_path: Path) -> None:
    session = CaptureSession(ProfileOptions(with_flops=True), stepping=Stepping(how="cell"), folder=tmp_path / "run")
    session.start()
    torch.ones(3, 5).mm(torch.ones(5, 7))
    recording = session.stop()
    assert document(recording)["with_flops"] == 1


@needs("use_python_export")
def test_metadata_is_in_the_trace_of_every_cycle_whatever_it_contains(tmp_path: Path) -> None:
    values = {"run": 'he said "x" \\ 模型', "learning rate": 1e-3, "sizes": [1, {"a": None}]}
    recording = recorded(tmp_path, cycles=2, metadata=metadata_of(values))
    for cycle in (0, 1):
        assert {key: document(recording, cycle)[key] for key in values} == values


@pytest.mark.parametrize(
    "value", ["模型", "é", "😀", "line\nbreak", "C:\\data", "C:/data", ["a\tb", {"é": "\\"}], "\x07"]
)
def test_metadata_is_in_the_trace_as_it_was_given(tmp_path: Path, value: object) -> None:
    recording = recorded(tmp_path, metadata=metadata_of({"value": value}))
    if features.HAS_PYTHON_EXPORT or "\\" not in json.dumps(value, ensure_ascii=False):
        assert codes(recording) == []
        assert document(recording)["value"] == value
    else:
        assert codes(recording) == ["capture.invalid_trace"]


@pytest.mark.parametrize(
    ("switch", "flag", "says"),
    [("profile_all_threads", "profile_memory", "Add --no-memory"), ("trace_only", "with_stack", "Add --no-stack")],
)
def test_invalid_combinations_with_a_config_are_refused_as_with_flags(
    tmp_path: Path, switch: str, flag: str, says: str
) -> None:
    try:
        config = _ExperimentalConfig(**{switch: True})
    except TypeError:
        pytest.skip(f"this torch has no {switch}")
    with pytest.raises(CaptureError, match=says):
        recorded(tmp_path, experimental_config=config, **{flag: True})
    assert codes(recorded(tmp_path, experimental_config=config)) == []
    assert codes(recorded(tmp_path, experimental_config=_ExperimentalConfig(), **{flag: True})) == []


@needs("custom_trace_id_callback")
def test_the_trace_id_callback_of_the_user_is_used(tmp_path: Path) -> None:
    recording = recorded(tmp_path, custom_trace_id_callback=lambda: "my-run-7")
    assert document(recording)["trace_id"] == "my-run-7"


@needs("types of activities")
def test_activities_can_be_limited_to_types_of_events(tmp_path: Path) -> None:
    recording = recorded(tmp_path, activities=("cpu",), activity_types={"cpu": ("CPU_OP",)})
    assert {event["cat"] for event in spans(recording)} == {"cpu_op", "Trace"}


def test_unsupported_options_are_refused_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        def __init__(self, *, activities: object = None, record_shapes: bool = False) -> None: ...

    class OldConfig:
        def __init__(self, *, verbose: bool = False) -> None: ...

    monkeypatch.setattr(features, "_KinetoProfile", Old)
    monkeypatch.setattr(features, "_ExperimentalConfig", OldConfig)
    options = ProfileOptions(
        trace_only=True, post_processing_timeout_s=5, activities=("cpu",), activity_types={"cpu": ("CPU_OP",)}
    )
    session = CaptureSession(options, stepping=Stepping(how="cell"), folder=tmp_path / "run")
    missing = (
        r"does not support post_processing_timeout_s, trace_only, types of activities\. Leave it out, or update torch"
    )
    with pytest.raises(CaptureError, match=missing):
        session.open()
    assert not (tmp_path / "run").exists()


def test_the_handler_receives_the_profiler_of_every_cycle(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def note(profiler: Any) -> None:
        seen.append((profiler.step_num, profiler.key_averages()[0].count))

    recording = recorded(tmp_path, cycles=3, on_trace_ready=note)
    assert [step for step, _ in seen] == [2, 4, 6]
    assert codes(recording) == []


@pytest.mark.parametrize("is_packed", [True, False])
def test_the_tensorboard_handler_of_torch_writes_copies_of_our_files(tmp_path: Path, *, is_packed: bool) -> None:
    handler = tensorboard_trace_handler(str(tmp_path / "board"), worker_name="w", use_gzip=is_packed)
    recording = recorded(tmp_path, cycles=2, on_trace_ready=handler)
    files = sorted((tmp_path / "board").iterdir(), key=lambda path: int(path.name.split(".")[1]))
    assert [path.suffix == ".gz" for path in files] == [is_packed] * 2
    texts = [gzip.decompress(path.read_bytes()) if is_packed else path.read_bytes() for path in files]
    assert texts == [cycle.path.read_bytes() for cycle in recording.cycles]


@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), SystemExit(3)])
def test_a_handler_that_raises_loses_nothing(tmp_path: Path, error: BaseException) -> None:
    def fail(_profiler: object) -> None:
        raise error

    recording = recorded(tmp_path, cycles=2, on_trace_ready=fail)
    assert codes(recording) == ["capture.handler_failed"]
    assert recording.problems[0].count == 2
    assert type(error).__name__ in recording.problems[0].message
    assert [mark.is_complete for cycle in recording.cycles for mark in cycle.steps] == [True, True]


def nodes(path: Path) -> list[str]:
    return [node["name"] for node in json.loads(path.read_bytes())["nodes"]]


def test_the_execution_trace_has_only_recorded_steps_and_one_file_per_cycle(tmp_path: Path) -> None:
    target = tmp_path / "new" / "graph.json"
    recording = recorded(tmp_path, cycles=2, execution_trace=str(target))
    assert codes(recording) == []
    assert [path.name for path in sorted(target.parent.iterdir())] == ["graph-1.json", "graph.json"]
    for path, step in ((target, 1), (target.with_name("graph-1.json"), 3)):
        assert {"aten::ones", "aten::sum", f"body{step}", f"ProfilerStep#{step}"} <= set(nodes(path))
        assert f"body{step - 1}" not in nodes(path)
    assert [path.name for path in recording.folder.iterdir() if "execution" in path.name] == []


def test_an_execution_trace_is_packed_if_its_name_ends_in_gz(tmp_path: Path) -> None:
    recorded(tmp_path, cycles=2, execution_trace=str(tmp_path / "graph.json.gz"))
    paths = sorted(path for path in tmp_path.iterdir() if path.suffix == ".gz")
    assert [path.name for path in paths] == ["graph-1.json.gz", "graph.json.gz"]
    names = [{node["name"] for node in json.loads(gzip.decompress(path.read_bytes()))["nodes"]} for path in paths]
    assert [f"body{step}" in found for step, found in zip((3, 1), names, strict=True)] == [True, True]


@needs("set_extra_resource_collection")
def test_the_resources_of_an_execution_trace_are_beside_it_as_torch_puts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = tmp_path / "c1.py"
    kernel.write_text("kernel")
    monkeypatch.setattr(PyCodeCache, "modules", [SimpleNamespace(__file__=str(kernel))])
    target = tmp_path / "graph.json"
    recording = recorded(tmp_path, execution_trace=str(target), execution_trace_resources=True)
    assert [path.name for path in (tmp_path / "graph_resources").iterdir()] == ["c1.py"]
    assert ExecutionTraceObserver.get_resources_dir_for_et_path(str(target)) == str(tmp_path / "graph_resources")
    assert [path.name for path in recording.folder.iterdir() if "execution" in path.name] == []


class OwnObserver:
    """Notes what torch's profiler does with it."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def cleanup(self) -> None:
        self.calls.append("cleanup")


def test_an_observer_of_the_users_own_is_started_and_stopped_as_torch_does() -> None:
    ours, theirs = OwnObserver(), OwnObserver()
    for kind, observer in ((tp.profile, ours), (profile, theirs)):
        plan = schedule(wait=0, warmup=1, active=2, repeat=1)
        with kind(activities=[ProfilerActivity.CPU], schedule=plan, execution_trace_observer=observer) as p:
            for _ in range(4):
                torch.ones(2)
                p.step()
    assert ours.calls == theirs.calls == ["start", "stop", "cleanup"]


def test_an_observer_of_the_users_own_outlives_a_restart_for_a_loop(tmp_path: Path) -> None:
    observer = ExecutionTraceObserver().register_callback(str(tmp_path / "own.json"))
    with tp.profile(execution_trace_observer=observer) as p:
        for _ in p.steps(range(5)):
            torch.ones(3).tan()
    assert not observer.is_registered
    found = json.loads((tmp_path / "own.json").read_bytes())["nodes"]
    assert "aten::tan" in {node["name"] for node in found}


def test_an_observer_that_fails_at_its_end_is_reported(tmp_path: Path) -> None:
    class Failing(OwnObserver):
        def cleanup(self) -> None:
            raise ZeroDivisionError

    recording = recorded(tmp_path, execution_trace_observer=Failing())
    assert codes(recording) == ["capture.observer_failed"]
    with pytest.raises(OptionsError, match=r"must have a method start\(\)"):
        ProfileOptions(execution_trace_observer=print)
    with pytest.raises(OptionsError, match="cannot be combined"):
        ProfileOptions(execution_trace_observer=OwnObserver(), execution_trace="a.json")
    with pytest.raises(OptionsError, match="needs --execution-trace"):
        ProfileOptions(execution_trace_resources=True)


@needs("build_execution_trace_obs_from_env")
def test_the_environment_variable_of_torch_asks_for_an_execution_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "1")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    recording = recorded(tmp_path / "run", cycles=2)
    (path,) = tmp_path.glob("*.et.json")
    assert {"body1", "body3"} <= set(nodes(path))
    assert "body0" not in nodes(path)
    (note,) = recording.problems
    assert (note.code, note.message) == ("capture.execution_trace", f"An execution trace was saved to {path}.")
    assert (tmp_path / f"{path.stem}_resources").is_dir()
    target = tmp_path / "graph.json"
    recorded(tmp_path / "named", execution_trace=str(target))
    assert list(tmp_path.glob("*.et.json")) == [path]


def test_an_execution_trace_that_cannot_be_saved_is_reported_and_an_older_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "graph.json"
    target.write_text("older")
    monkeypatch.setattr(
        "torchprof_magic.capture.output.export.shutil.copyfileobj",
        lambda *_: (_ for _ in ()).throw(OSError(28, "No space")),
    )
    recording = recorded(tmp_path, execution_trace=str(target))
    assert codes(recording) == ["capture.no_execution_trace"]
    assert "No space" in recording.problems[0].message
    assert target.read_text() == "older"
    assert len(recording.cycles) == 1


def test_an_execution_trace_in_an_invalid_folder_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    options = ProfileOptions(execution_trace=str(tmp_path / "file" / "graph.json"))
    session = CaptureSession(options, stepping=Stepping(how="cell"), folder=tmp_path / "run")
    with pytest.raises(CaptureError, match=r"Nothing was run\. Choose another folder"):
        session.open()


def test_the_next_run_after_a_takeover_has_its_own_execution_trace(tmp_path: Path) -> None:
    options = ProfileOptions(execution_trace=str(tmp_path / "graph.json"))
    session = CaptureSession(options, stepping=Stepping(how="cell"), folder=tmp_path / "run")
    session.start()
    with torch.profiler.profile():
        work()
    session.stop()
    recording = recorded(tmp_path / "next", execution_trace=str(tmp_path / "next.json"))
    assert codes(recording) == []
    assert "body1" in nodes(tmp_path / "next.json")


@pytest.mark.parametrize(("steps", "is_lost"), [(0, False), (1, True)])
def test_a_cycle_that_is_not_kept_leaves_no_execution_trace(tmp_path: Path, steps: int, *, is_lost: bool) -> None:
    options = ProfileOptions(
        schedule=ScheduleOptions(wait=0, warmup=1, active=2), execution_trace=str(tmp_path / "graph.json")
    )
    session = CaptureSession(options, stepping=Stepping(how="manual"), folder=tmp_path / "run")
    session.start()
    for _ in range(steps):
        session.step()
    work()
    if is_lost:
        compat.switch_off()  # as what ends the recording without a word
        session.step()
    recording = session.stop()
    assert recording.cycles == ()
    nothing = "capture.nothing_recorded" if steps else "capture.step_not_called"
    assert codes(recording) == ["capture.taken_over" if is_lost else nothing]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_interrupt_ends_the_handler_at_once_and_is_raised_in_the_cell(tmp_path: Path) -> None:
    ended = []

    def endless(_profiler: object) -> None:
        signal.raise_signal(signal.SIGINT)
        ended.append("went on")  # pragma: no cover - must not be reached

    schedule = ScheduleOptions(wait=0, warmup=0, active=1, repeat=1)
    options = ProfileOptions(schedule=schedule, on_trace_ready=endless)
    session = CaptureSession(options, stepping=Stepping(how="manual"), folder=tmp_path / "run")
    session.start()
    work()
    with pytest.raises(KeyboardInterrupt):
        session.step()
    recording = session.stop()
    assert ended == []
    assert [mark.is_complete for cycle in recording.cycles for mark in cycle.steps] == [True]


def test_an_execution_trace_cannot_replace_a_folder(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"is a folder\. Name a file in it"):
        recorded(tmp_path, execution_trace=str(tmp_path))
