"""An older torch is asked for what it has: the recording goes on with less, and says what it could not do."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
import torch
from capturing import work
from torch import nn
from torch.profiler import ProfilerActivity
from torch.profiler.profiler import _KinetoProfile

import torchprof_magic as tp
from torchprof_magic.capture.checks import doctor
from torchprof_magic.capture.torch_api import features
from torchprof_magic.model.errors import CaptureError
from torchprof_magic.options import ProfileOptions

if TYPE_CHECKING:
    from collections.abc import Callable

CPU = [ProfilerActivity.CPU]


def without(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """Return a function of torch as an older torch has it, without these parameters."""
    known = inspect.signature(function)
    left = [parameter for name, parameter in known.parameters.items() if name not in names]

    def old(*args: Any, **kwargs: Any) -> Any:
        if unknown := set(names) & set(kwargs):
            raise TypeError(f"unexpected keyword argument {unknown.pop()!r}")
        return function(*args, **kwargs)

    old.__signature__ = known.replace(parameters=left)  # type: ignore[attr-defined]
    return old


@pytest.fixture
def torch_24(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the installed torch lack what 2.4 lacks."""
    hook = torch.nn.modules.module.register_module_forward_hook
    monkeypatch.setattr(torch.nn.modules.module, "register_module_forward_hook", without(hook, "with_kwargs"))
    rare = ("acc_events", "custom_trace_id_callback", "post_processing_timeout_s")
    monkeypatch.setattr(_KinetoProfile, "__init__", without(_KinetoProfile.__init__, *rare))
    monkeypatch.delattr(_KinetoProfile, "toggle_collection_dynamic", raising=False)
    monkeypatch.setattr(features, "HAS_PYTHON_EXPORT", False)


class Net(nn.Module):
    """Takes one input by place and one by keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(input=x) * scale
        return result


def shapes_of_inputs(p: tp.profile) -> dict[str, str]:
    sites = p.report.trace.sites.drop_nulls("class_name")  # a line of memory is a site, too
    return dict(sites.select("class_name", "inputs").iter_rows())


@pytest.mark.usefixtures("torch_24")
def test_a_torch_like_2_4_records_ops_modules_and_the_shapes_of_keyword_arguments() -> None:
    model = Net()
    with tp.profile(activities=CPU, with_modules=True, profile_memory=True) as p:
        model(torch.ones(3, 4), scale=torch.ones(3, 1)).sum().backward()
    assert [problem.code for problem in p.report.problems] == []
    assert "aten::linear" in p.report.ops["name"].to_list()
    assert shapes_of_inputs(p) == {"Net": "[3, 4], [3, 1]", "Linear": "[3, 4]"}
    assert p.acc_events is False


def test_the_shapes_of_keyword_arguments_are_those_that_a_newer_torch_tells() -> None:
    model = Net()
    with tp.profile(activities=CPU, with_modules=True) as p:
        model(torch.ones(3, 4), scale=torch.ones(3, 1))
    assert shapes_of_inputs(p) == {"Net": "[3, 4], [3, 1]", "Linear": "[3, 4]"}


@pytest.mark.usefixtures("torch_24")
@pytest.mark.parametrize(
    ("name", "value"),
    [("acc_events", True), ("custom_trace_id_callback", lambda: "id"), ("post_processing_timeout_s", 1.0)],
)
def test_an_argument_that_this_torch_lacks_is_refused_before_anything_runs(name: str, value: object) -> None:
    p = tp.profile(activities=CPU, **{name: value})  # type: ignore[arg-type]
    with pytest.raises(CaptureError, match=f"does not support {name}"):
        p.start()


@pytest.mark.usefixtures("torch_24")
def test_a_pause_that_this_torch_cannot_make_is_told_once_and_loses_nothing() -> None:
    with tp.profile(activities=CPU) as p:
        for _ in range(2):
            with tp.paused():
                work("paused")
        work("after")
    (problem,) = p.report.problems
    assert (problem.code, problem.count) == ("capture.torch_lacks", 2)
    assert problem.message.endswith("has no toggle_collection_dynamic: paused() has no effect.")
    assert {"paused", "after"} <= {event.name for event in p.events()}


@pytest.mark.usefixtures("torch_24")
def test_the_doctor_says_what_this_torch_lacks() -> None:
    said = [check.what for check in doctor.examine()]
    (refused,) = [text for text in said if text.endswith(f"{features.REFUSED}.")]
    assert {"acc_events", "custom_trace_id_callback"} <= set(
        refused.removeprefix("torch has no ").replace(":", ",").split(", ")
    )
    assert "torch has no toggle_collection_dynamic: paused() has no effect." in said


def test_every_argument_that_not_all_versions_have_is_in_the_table_and_asked_for_when_it_is_given() -> None:
    assert {"acc_events", "with_modules", "custom_trace_id_callback", "post_processing_timeout_s"} <= {
        feature.name for feature in features.FEATURES
    }
    with pytest.raises(KeyError):
        features.is_known("no_such_feature")


@pytest.mark.parametrize(
    ("python", "torch_version", "is_known"),
    [
        ((3, 13, 0), "2.6.0+cu124", False),
        ((3, 13, 0), "2.7.0", False),
        ((3, 13, 0), "2.7.1+cu126", True),
        ((3, 14, 1), "2.5.1", False),
        ((3, 12, 9), "2.6.0", True),
        ((3, 13, 0), "2.13.0a0+git1", True),
    ],
)
def test_stacks_that_would_kill_the_process_are_refused(
    monkeypatch: pytest.MonkeyPatch, python: tuple[int, ...], torch_version: str, *, is_known: bool
) -> None:
    monkeypatch.setattr(features, "VERSION", torch_version)
    monkeypatch.setattr(features.sys, "version_info", python)
    assert features.is_known(features.STACKS) is is_known
    asked = features.lacking(ProfileOptions(with_stack=True))
    assert (features.STACKS in asked) is not is_known
    assert features.STACKS not in features.lacking(ProfileOptions())
