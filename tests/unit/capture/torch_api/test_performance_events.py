"""Performance events that this machine cannot count are refused before the run, instead of an error for every op."""

from __future__ import annotations

import pytest
import torch
from torch._C._profiler import _ExperimentalConfig

import torchprof_magic as tp
from torchprof_magic.capture.torch_api import performance_events
from torchprof_magic.capture.torch_api.performance_events import flaw_of_performance_events
from torchprof_magic.model.errors import CaptureError


def test_events_that_torch_does_not_know_are_refused_and_nothing_is_written(capfd: pytest.CaptureFixture[str]) -> None:
    ran = []
    config = _ExperimentalConfig(performance_events=["no such event"])
    with (
        pytest.raises(CaptureError, match="performance_events in experimental_config cannot be recorded"),
        tp.profile(experimental_config=config),
    ):
        ran.append(1)
    assert ran == []
    assert "RecordFunction" not in capfd.readouterr().err
    with tp.profile() as p:  # nothing was left on
        torch.ones(3).sin()
    assert "aten::sin" in p.report.ops["name"].to_list()


@pytest.mark.parametrize("config", [None, _ExperimentalConfig(), _ExperimentalConfig(verbose=True)])
def test_nothing_is_tried_without_such_events(
    config: _ExperimentalConfig | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(performance_events, "_record_one_op", lambda _config: pytest.fail("an op was recorded"))
    assert flaw_of_performance_events(config) == ""


def test_the_reason_is_torchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"[W record_function.cpp:504] Exception in RecordFunction callback: perf: no permission\nframe #0: x\n"
    monkeypatch.setattr(performance_events, "_stderr_of", lambda _call: text)
    assert flaw_of_performance_events(_ExperimentalConfig(performance_events=["cycles"])) == "perf: no permission"
    monkeypatch.setattr(performance_events, "_stderr_of", lambda _call: b"other text")
    assert flaw_of_performance_events(_ExperimentalConfig(performance_events=["cycles"])) == ""
