"""What the process knows of its compiled functions, asked of torch itself and of what older versions keep."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch
import torch._dynamo
from torch._dynamo.utils import counters

import torchprof_magic as tp
from torchprof_magic.capture.torch_api.compiled_frames import compiled_frames

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_LINE = sys._getframe().f_lineno + 3


def broken(x: torch.Tensor, mode: str) -> torch.Tensor:
    y = x.sin()
    print(end="")  # breaks the graph
    if y.sum() > 100:
        y = y + len(mode)
    return y * 2


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def test_breaks_and_failed_guards_are_known_with_their_lines() -> None:
    compiled = torch.compile(broken, backend="eager", dynamic=False)
    for size in (3, 4, 5):
        compiled(torch.ones(size), "a")
    found = [frame for frame in compiled_frames() if frame.name == "broken"]
    breaks = [each for frame in found for each in frame.breaks]
    assert {each.file for each in breaks} == {__file__}
    assert [each.line for each in breaks] == [FIRST_LINE + 2]
    assert "print" in breaks[0].reason
    (guards,) = {frame.recompiles for frame in found if frame.frame == "0"}
    assert guards[0] == "tensor 'x' size mismatch at index 0. expected 3, actual 4"
    resumed = [frame for frame in compiled_frames() if frame.name.startswith("torch_dynamo_resume_in_broken")]
    assert any("branching" in each.reason and each.line == FIRST_LINE + 3 for f in resumed for each in f.breaks)


def test_a_recording_of_compiled_code_has_them_and_others_have_none() -> None:
    compiled = torch.compile(broken, backend="eager")
    x = torch.ones(8)
    compiled(x, "a")

    def record(work: object) -> tp.Report:
        with tp.profile() as run:
            for _ in tp.steps(range(8)):
                work(x, "a")  # type: ignore[operator]
        assert run.report is not None
        return run.report

    assert "broken" in {frame.name for frame in record(compiled).trace.meta.compiled}
    assert record(lambda x, _: x * 2).trace.meta.compiled == ()


def test_reasons_stay_in_a_saved_run(tmp_path: object) -> None:
    compiled = torch.compile(broken, backend="eager")
    with tp.profile() as run:
        for _ in tp.steps(range(8)):
            compiled(torch.ones(8), "a")
    assert run.report is not None
    loaded = tp.load(run.report.save(f"{tmp_path}/run.torchprof"))
    assert loaded.trace.meta.compiled == run.report.trace.meta.compiled != ()


def test_what_older_versions_of_torch_keep_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {broken.__code__: [SimpleNamespace(reason="2/0: x == 1  # at a place", orig_code=None)]}
    known = SimpleNamespace(guard_failures=failed, counters={"graph_break": {"call_function print [] {}\nmore": 2}})
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", known)
    frame, unplaced = compiled_frames()
    assert (frame.frame, frame.name, frame.line, frame.recompiles) == ("2", "broken", FIRST_LINE, ("x == 1",))
    assert [each.reason for each in unplaced.breaks] == ["call_function print [] {}"]


def test_a_process_that_has_compiled_nothing_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils")
    assert compiled_frames() == ()
