"""Helpers of the capture tests: run some operations, and read a trace back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from torchprof_magic.capture import CaptureSession
    from torchprof_magic.model.recording import Recording


def work(name: str = "body") -> None:
    """Run a few operations under one annotation."""
    with torch.profiler.record_function(name):
        torch.ones(4, 4).sum()


def record(make_session: Callable[..., CaptureSession], *names: str) -> Recording:
    """Return a recording of one step that holds an annotation of each name."""
    session = make_session("cell")
    session.start()
    for name in names:
        work(name)
    return session.stop()


def run_four_steps(session: CaptureSession) -> None:
    """Record as a loop of four steps does, and stop whatever comes."""
    try:
        session.start()
        for _ in range(4):
            work()
            session.step()
    finally:
        session.stop()


def shielded_steps(monkeypatch: pytest.MonkeyPatch, session: CaptureSession, step: Callable[[], int]) -> list[int]:
    """Return a list that grows by the number of the step, as ``step`` says it, in which interrupts are held back."""
    shield, steps = session.guard.shield, []
    monkeypatch.setattr(session.guard, "shield", lambda: steps.append(step()) or shield())
    return steps


def names_in(path: Path) -> list[str]:
    """Return the names of all complete events of a trace."""
    return [event["name"] for event in json.loads(path.read_bytes())["traceEvents"] if event["ph"] == "X"]


def codes(recording: Recording) -> list[str]:
    """Return the codes of all problems."""
    return [problem.code for problem in recording.problems]
