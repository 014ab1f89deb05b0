"""Does a Ctrl-C at a random moment ever kill the process? ``interrupts.py --runs 1000`` is the long run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_random_interrupts_never_kill_hang_or_leave_the_profiler_on() -> None:
    script = Path(__file__).with_name("interrupts.py")
    done = subprocess.run([sys.executable, str(script), "--runs", "30"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
