from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.profiler.profiler import _KinetoProfile

import torchprof_magic as tp

CLEARS = (
    "Profiler clears events at the end of each cycle. Only events from the current cycle will be reported. "
    "To keep events across cycles, set acc_events=True."
)


@pytest.mark.parametrize("text", [CLEARS, f"Warning: {CLEARS}", "with_modules is deprecated and will be removed"])
def test_a_warning_of_torch_that_our_use_of_it_causes_is_no_problem_and_any_other_is(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    prepare = _KinetoProfile.prepare_trace

    def warn_too(self: Any) -> None:
        warnings.warn(text, stacklevel=1)
        warnings.warn("CUPTI could not be initialised", stacklevel=1)
        prepare(self)

    monkeypatch.setattr(_KinetoProfile, "prepare_trace", warn_too)
    with tp.profile() as run:
        torch.ones(3).sum()
    texts = [problem.message for problem in run.report.problems if problem.code == "capture.torch_warning"]
    assert texts == ["CUPTI could not be initialised"]
