"""The line of the matrix with the torch of the other tests and the lowest of everything else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from amount import thorough
from lines import TESTED_LINE
from results import matrix, read_results


@thorough
@pytest.mark.slow
@pytest.mark.timeout(1200)  # the first run downloads
def test_the_wheel_works_with_the_lowest_versions_that_are_allowed(tmp_path: Path) -> None:
    if shutil.which("uv") is None:
        pytest.skip("uv is not installed")
    script, out = Path(__file__).with_name("compat_run.py"), tmp_path / "results.json"
    command = [sys.executable, str(script), "--only", TESTED_LINE, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.exists(), done.stdout + done.stderr[-3000:]
    result = read_results(out)[TESTED_LINE]
    if result.unavailable:
        pytest.skip(result.unavailable)
    assert (result.failed, done.returncode) == ([], 0), matrix({TESTED_LINE: result})
