"""The arguments of torch's profiler that no other test compares with torch itself."""

from __future__ import annotations

import inspect
import json
from itertools import count
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, record_function, schedule
from torch.profiler import profile as torchs
from torch.profiler.profiler import _KinetoProfile
from versions import needs

import torchprof_magic as tp
from torchprof_magic.capture.torch_api import features
from torchprof_magic.model.errors import OptionsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CPU = [ProfilerActivity.CPU]


def ranges_of_cycles(kind: Callable[..., Any], *, acc_events: bool) -> tuple[list[list[str]], list[str], int]:
    """Return the ranges in the events in each call of the handler, those of the block, and a number of calls."""
    seen: list[list[str]] = []

    def ranges(p: Any) -> list[str]:
        return [event.name for event in p.events() if event.name.startswith("range ")]

    plan = schedule(wait=0, warmup=1, active=2, repeat=3)
    with kind(
        activities=CPU, schedule=plan, on_trace_ready=lambda p: seen.append(ranges(p)), acc_events=acc_events
    ) as p:
        for step in range(9):
            with record_function(f"range {step}"):
                torch.ones(3)
            p.step()
    ones = next(row.count for row in p.key_averages() if row.key == "aten::ones")
    return seen, ranges(p), ones


@pytest.mark.filterwarnings("ignore::UserWarning:torch")  # torch says that it keeps only the last cycle
@pytest.mark.parametrize("acc_events", [True, False])
@needs("acc_events")
def test_events_of_earlier_cycles_are_kept_as_torch_keeps_them(*, acc_events: bool) -> None:
    ours = ranges_of_cycles(tp.profile, acc_events=acc_events)
    assert ours == ranges_of_cycles(torchs, acc_events=acc_events)
    assert ours[2] == (6 if acc_events else 2)


@needs("acc_events")
def test_accumulating_events_needs_no_handler_and_is_an_attribute_as_in_torch() -> None:
    with tp.profile(activities=CPU, wait=0, warmup=0, active=1, repeat=2, acc_events=True) as p:
        for _ in range(2):
            torch.ones(3)
            p.step()
    assert p.acc_events is True
    assert next(row.count for row in p.key_averages() if row.key == "aten::ones") == 2


@needs("use_cuda")
@pytest.mark.parametrize("use_cuda", [True, False])
@pytest.mark.parametrize("kind", [torchs, tp.profile])
def test_use_cuda_warns_and_records_the_same(kind: Callable[..., Any], *, use_cuda: bool) -> None:
    with pytest.warns(FutureWarning, match="`use_cuda` is deprecated, use `activities`"):  # noqa: SIM117
        with kind(activities=CPU, use_cuda=use_cuda) as p:
            torch.ones(3)
    assert "aten::ones" in {row.key for row in p.key_averages()}


def test_use_cuda_is_refused_if_this_torch_has_removed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "profile", _KinetoProfile)  # which never had it
    with pytest.raises(TypeError, match="unexpected keyword argument 'use_cuda'"):
        tp.profile(activities=CPU, use_cuda=True)
    assert tp.profile(activities=CPU, use_cuda=None)


@pytest.mark.filterwarnings("ignore:with_modules is deprecated:FutureWarning")
@pytest.mark.parametrize("with_modules", [True, False])
def test_with_modules_is_torchs_and_its_deprecation_is_no_note(*, with_modules: bool) -> None:
    with tp.profile(activities=CPU, with_modules=with_modules) as p:
        torch.ones(3)
    assert p.with_modules is with_modules
    assert p.report.problems == []


def test_a_deprecated_argument_is_not_passed_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[set[str]] = []
    make = _KinetoProfile.__init__

    def note(self: Any, **arguments: Any) -> None:
        given.append(set(arguments))
        make(self, **arguments)

    note.__signature__ = inspect.signature(make)  # type: ignore[attr-defined]
    monkeypatch.setattr(_KinetoProfile, "__init__", note)
    with tp.profile(activities=CPU):
        torch.ones(3)
    assert given
    assert not set().union(*given) & {"with_modules", "acc_events", "custom_trace_id_callback", "use_cuda"}


@needs("ProfilerActivityConfig")
def test_an_activity_may_be_configured_by_torchs_own_object() -> None:
    config = torch.profiler.ProfilerActivityConfig(activity_types=["CPU_OP"])
    answers = []
    for kind in (torchs, tp.profile):
        with kind(activities=[{ProfilerActivity.CPU: config}]) as p, record_function("range"):
            torch.ones(3)
        answers.append(({event.name for event in p.events()}, p.activities, p.activity_configs))
    assert answers[0] == answers[1]


@needs("use_cuda")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_use_cuda_that_leaves_no_activity_is_refused_as_in_torch() -> None:
    with pytest.raises(AssertionError, match="No valid profiler activities"):
        torchs(activities=[ProfilerActivity.CUDA], use_cuda=False)
    with pytest.raises(OptionsError, match="leaves no activity to record"):
        tp.profile(activities=[ProfilerActivity.CUDA], use_cuda=False)


def test_an_argument_that_torch_does_not_have_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="use_gpu"):
        tp.profile(use_gpu=True)  # type: ignore[call-arg]


@needs("custom_trace_id_callback")
def test_the_trace_id_of_a_run_is_in_the_metadata_of_its_report() -> None:
    with tp.profile(activities=CPU) as p:
        torch.ones(3)
    assert p.report.metadata["trace_id"] == p.get_trace_id()
    with tp.profile(activities=CPU, custom_trace_id_callback=lambda: "run 7") as p:
        torch.ones(3)
    assert p.report.metadata["trace_id"] == "run 7"


@needs("custom_trace_id_callback")
def test_every_cycle_has_its_trace_id_also_in_exports_and_saved_runs(tmp_path: Path) -> None:
    numbers = count()
    with tp.profile(
        activities=CPU, wait=0, warmup=0, active=1, repeat=2, custom_trace_id_callback=lambda: f"id {next(numbers)}"
    ) as p:
        for _ in range(2):
            torch.ones(3)
            p.step()
    expected = {"trace_id of cycle 0": "id 0", "trace_id of cycle 1": "id 1"}
    assert p.report.metadata == expected
    assert p.report.cycle(1).metadata == {"trace_id": "id 1"}
    assert tp.load(p.report.export(tmp_path / "copy.json")).metadata == expected
    assert tp.load(p.report.save(tmp_path / "copy.torchprof")).metadata == expected


@needs("post_processing_timeout_s")
def test_the_time_limit_cuts_torchs_events_and_not_the_report(tmp_path: Path) -> None:
    answers = []
    for kind in (torchs, tp.profile):
        with kind(activities=CPU, post_processing_timeout_s=1e-9) as p:
            for _ in range(100):
                torch.ones(3)
        answers.append(len(p.events()))
        p.export_chrome_trace(str(tmp_path / "trace.json"))
        names = [event.get("name") for event in json.loads((tmp_path / "trace.json").read_bytes())["traceEvents"]]
        assert names.count("aten::ones") == 100
    assert answers == [0, 0]
    assert p.report.ops.filter(pl.col("name") == "aten::ones")["calls"].to_list() == [100]


def test_short_modules_hold_their_own_ops_on_the_clock_of_the_trace() -> None:
    model, x = nn.Sequential(*(nn.Linear(4, 4) for _ in range(20))), torch.ones(2, 4)
    model(x)
    with tp.profile(activities=CPU, with_modules=True) as p:  # one step: its range alone compares the clocks
        model(x)
    trace = p.report.trace
    ops = trace.events.filter(pl.col("name") == "aten::linear").select("start_ns", "dur_ns").rows()
    sites = trace.sites.with_row_index("site").with_columns(pl.col("site").cast(pl.Int32))
    calls = trace.scopes.join(sites, on="site").filter(pl.col("class_name") == "Linear").sort("start_ns")
    assert len(ops) == calls.height == 20
    held = [
        start <= op and op + op_dur <= start + dur
        for (op, op_dur), (start, dur) in zip(ops, calls.select("start_ns", "dur_ns").rows(), strict=True)
    ]
    assert sum(held) >= 18
