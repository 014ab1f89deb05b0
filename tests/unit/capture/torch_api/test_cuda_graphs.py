"""Priming makes CUDA graphs recordable where that is needed, and a capture in progress is noticed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import torch
from capturing import codes, work
from torch._inductor import config as inductor_config

import torchprof_magic as tp
from torchprof_magic.capture import busy_profiler, examine
from torchprof_magic.capture.torch_api import compat, cuda_graphs
from torchprof_magic.model.errors import ProfilerBusyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.capture import CaptureSession
    from torchprof_magic.model.recording import Recording

SETTINGS = ("DISABLE_CUPTI_LAZY_REINIT", "TEARDOWN_CUPTI")


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Let torch be one for CUDA 12.4, and note at every touch of the device if a profiler was on."""
    found: list[bool] = []
    monkeypatch.setattr(torch.version, "cuda", "12.4")
    monkeypatch.setattr(compat, "available_activities", lambda: ("cpu", "cuda"))
    monkeypatch.setattr(cuda_graphs, "ProfileOptions", lambda: _CPU_ALONE)
    monkeypatch.setattr(compat, "touch_device", lambda: found.append(compat.is_profiler_on()))
    monkeypatch.setattr(cuda_graphs, "_primed", set())
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    return found


_CPU_ALONE = cuda_graphs.ProfileOptions(activities=("cpu",))


@pytest.fixture(autouse=True)
def _environment_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.setenv(name, "restored")  # so that it is put back, whatever the test does
        monkeypatch.delenv(name)


def test_priming_runs_the_profiler_once_and_leaves_it_off(touched: list[bool]) -> None:
    assert tp.prime()
    assert touched == [True]
    assert busy_profiler() is None
    assert not tp.prime()
    assert touched == [True]


@pytest.mark.usefixtures("touched")
def test_priming_keeps_cupti_loaded_as_torch_does_for_its_own_graphs() -> None:
    tp.prime()
    assert [os.environ[name] for name in SETTINGS] == ["1", "0"]


@pytest.mark.usefixtures("touched")
def test_priming_leaves_what_the_user_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEARDOWN_CUPTI", "1")
    tp.prime()
    assert os.environ["TEARDOWN_CUPTI"] == "1"


@pytest.mark.parametrize("version", ["12.6", "12.8", "13.0", None])
def test_priming_does_nothing_where_it_is_not_needed(
    touched: list[bool], monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    monkeypatch.setattr(torch.version, "cuda", version)
    assert not tp.prime()
    assert touched == []
    assert not any(name in os.environ for name in SETTINGS)


@pytest.mark.usefixtures("touched")
@pytest.mark.parametrize("version", ["11.8", "12.1", "12.4"])
def test_versions_of_cuda_before_the_fix_are_known(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(torch.version, "cuda", version)
    assert compat.cuda_before_graph_safe() == version


@pytest.mark.usefixtures("touched")
def test_a_torch_that_records_no_device_needs_no_priming(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "available_activities", lambda: ("cpu",))
    assert not tp.prime()


def test_priming_refuses_while_a_profiler_runs(touched: list[bool], run: Callable[..., Recording]) -> None:
    with torch.profiler.profile(), pytest.raises(ProfilerBusyError):
        tp.prime()
    assert touched == []
    assert tp.prime()
    assert run(6).ended_in == "done"  # a recording after it is as any other


@pytest.mark.usefixtures("touched")
def test_priming_that_fails_leaves_the_profiler_off_and_can_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("CUDA driver version is insufficient")

    with monkeypatch.context() as context:
        context.setattr(compat, "touch_device", fail)
        with pytest.raises(RuntimeError, match="driver"):
            tp.prime()
    assert busy_profiler() is None
    assert tp.prime()


@pytest.mark.usefixtures("touched")
def test_the_doctor_says_when_graphs_need_priming_and_when_it_was_done() -> None:
    (check,) = [check for check in examine() if "CUDA graph" in check.what]
    assert check.fix == "Run %torchprof prime before you capture a graph."
    assert "12.4" in check.what
    tp.prime()
    checks = [check for check in examine() if "CUDA" in check.what or "CUPTI" in check.what]
    assert "CUDA 12.4 is ready for recording CUDA graphs." in [check.what for check in checks if check.is_good]
    assert any("TEARDOWN_CUPTI=0 is set" in check.what for check in checks)


def test_a_cycle_that_starts_in_a_capture_is_reported_with_its_step(
    make_session: Callable[..., CaptureSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    capturing = [False]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing[0])
    session = make_session(schedule=(1, 0, 1, 2))  # idle, recorded, idle, recorded
    session.start()
    for number in range(4):
        work()
        capturing[0] = number == 2
        session.step()
    recording = session.stop()
    assert codes(recording) == ["capture.during_graph_capture"]
    assert recording.problems[0].message.startswith("The profiler started at step 3 while a CUDA graph")
    assert len(recording.cycles) == 2


def test_a_recording_after_which_kernels_stay_slower_says_so_once(
    make_session: Callable[..., CaptureSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "12.4")
    found = []
    with inductor_config.patch({"triton.cudagraphs": True}):  # torch's profiler looks at it when it starts
        for _ in range(2):
            session = make_session("cell")
            session.start()
            work()
            found.append(codes(session.stop()))
    assert found == [["capture.cupti_kept"], []]
    assert [os.environ[name] for name in SETTINGS] == ["1", "0"]


def test_captures_are_not_queried_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> bool:
        raise AssertionError("torch without CUDA raises here")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", fail)
    assert not compat.is_capturing()
