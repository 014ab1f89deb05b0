from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no disk: what fsync does only matters when the machine dies."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
