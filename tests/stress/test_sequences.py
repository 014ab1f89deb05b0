"""Random sequences of steps, pauses, ranges and other profilers; a short run of ``sequences.py``."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from amount import examples
from forking import forked_python


@pytest.mark.slow
def test_whatever_is_done_in_whatever_order_the_profiler_is_off_and_steps_are_kept_or_told() -> None:
    script = Path(__file__).with_name("sequences.py")
    done = subprocess.run(
        forked_python(str(script), "--runs", str(examples(150))), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
