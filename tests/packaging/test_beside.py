"""Commands that run beside the tests, and a limit for what runs too long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import beside
import pytest

SCRIPT = Path(beside.__file__)
HANGS = "import faulthandler, time; faulthandler.enable(); time.sleep(600)"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_status_is_that_of_the_worst_command() -> None:
    assert run("true", "--", "true").returncode == 0
    assert run("false", "--", "true").returncode == 1
    assert run("true", "--", "false").returncode == 1


def test_a_command_that_does_not_end_says_where_it_is_and_fails(capfd: pytest.CaptureFixture[str]) -> None:
    assert beside.run_in_foreground([sys.executable, "-c", HANGS], limit_s=1.0) == 1
    captured = capfd.readouterr()
    assert "it did not end within 1 s" in captured.out
    assert "Fatal Python error: Aborted" in captured.err
    assert 'File "<string>", line 1' in captured.err
