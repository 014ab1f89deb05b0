"""Tests of what this process knows of its runs."""

from __future__ import annotations

import pytest

from torchprof_magic.runs import this_process


def test_ops_that_an_earlier_run_recorded_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_process, "_ops", set())
    assert this_process.ops_before(["aten::mm", "aten::add"]) == ()
    assert this_process.ops_before(["aten::mul", "aten::mm"]) == ("aten::mm",)
    assert this_process.ops_before(["aten::add", "aten::mul"]) == ("aten::add", "aten::mul")


def test_no_more_ops_are_known_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_process, "_ops", set())
    monkeypatch.setattr(this_process, "MAX_OPS", 2)
    assert this_process.ops_before(["a", "b", "c"]) == ()
    assert this_process.ops_before(["a"]) == ()
    assert this_process.ops_before(["a"]) == ("a",)
