"""Run pytest on all cores, and what failed there once more by itself.

    run_tests.py [ARGUMENT OF PYTEST] ...

Tests that wait for kernels, browsers and clocks share the cores with all others. What fails beside them and passes
alone is named at the end, and is no failure; what fails twice is one, and so is a run in which many tests fail.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Two more than cores, because tests wait for kernels and browsers to start. Long files come first in the tree.
_BESIDE = ("-n", str(2 + (os.cpu_count() or 1)), "--dist", "loadfile", "--no-loadscope-reorder", "--durations=40")
_ALONE = ("-n", "0", "--last-failed", "--last-failed-no-failures=none")
_FAILED = 1  # pytest's status where tests failed, and nothing else went wrong
MOST_AGAIN = 5
_CACHE = Path(".pytest_cache", "v", "cache", "lastfailed")


def failed() -> list[str]:
    """Return the names of the tests that failed in the last run."""
    return sorted(json.loads(_CACHE.read_text(encoding="utf-8"))) if _CACHE.exists() else []


def main(arguments: list[str]) -> int:
    """Run the tests, and some again; return 0 if each has passed."""
    _CACHE.unlink(missing_ok=True)
    status = int(pytest.main([*_BESIDE, *arguments]))
    names = failed()
    if status != _FAILED or not 0 < len(names) <= MOST_AGAIN:
        return status
    print(f"\n{len(names)} of the tests failed while others ran beside them. Once more, by themselves:", flush=True)
    status = subprocess.run([sys.executable, "-m", "pytest", *arguments, *_ALONE], check=False).returncode
    if status == 0:
        print("\nfailed beside others, and passed alone:", *names, sep="\n  ", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
