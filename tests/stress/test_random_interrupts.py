"""Ctrl-C at random moments; a short run of ``interrupts.py``."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from amount import examples
from forking import forked_python


@pytest.mark.slow
def test_random_interrupts_never_kill_hang_or_leave_the_profiler_on() -> None:
    script = Path(__file__).with_name("interrupts.py")
    done = subprocess.run(
        forked_python(str(script), "--runs", str(examples(30))), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
