from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync, which only matters when the machine crashes."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
