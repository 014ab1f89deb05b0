"""Run pytest on all cores, and what failed there once more by itself.

    run_tests.py [ARGUMENT OF PYTEST] ...

Tests that wait for kernels, browsers and clocks share the cores with all others. What fails beside them and passes
alone is named at the end, and is no failure; what fails twice is one, and so are a process that crashes and a run in
which many tests fail.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Two more than cores, because tests wait for kernels and browsers to start. Long files come first in the tree.
_WORKERS = ("-n", str(2 + (os.cpu_count() or 1)), "--dist", "loadfile", "--no-loadscope-reorder")
# The plugin of hypothesis reads all of the package in each worker before the first test, whatever tests it is to run.
_BESIDE = (*_WORKERS, "-p", "no:hypothesispytest", "--durations=40")
_ALONE = ("-n", "0", "--last-failed", "--last-failed-no-failures=none")
_AGAIN = "--again"
_FAILED = 1  # pytest's status where tests failed, and nothing else went wrong
MOST_AGAIN = 5
_CACHE = Path(".pytest_cache", "v", "cache", "lastfailed")


class Outcomes:
    """The names of the tests that passed, and of all that failed, were it in a process that crashed."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what became of a part of a test."""
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.passed and report.when == "call":
            self.passed.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note what cannot be collected."""
        if report.failed:
            self.failed.add(report.nodeid)


def known_failures() -> set[str]:
    """Return the names of the tests that pytest would run again."""
    return set(json.loads(_CACHE.read_text(encoding="utf-8"))) if _CACHE.exists() else set()


def run_beside(arguments: list[str]) -> int:
    """Run all tests, and some again; return 0 if each has passed."""
    _CACHE.unlink(missing_ok=True)
    found = Outcomes()
    status = int(pytest.main([*_BESIDE, *arguments], plugins=[found]))
    # A test in whose process another one crashed is not known to pytest afterwards, nor are workers that differ.
    are_tests = found.failed == known_failures() and all("::" in name for name in found.failed)
    if status != _FAILED or not are_tests or not 0 < len(found.failed) <= MOST_AGAIN:
        return status
    print(
        f"\n{len(found.failed)} of the tests failed while others ran beside them. Once more, by themselves:", flush=True
    )
    status = subprocess.run([sys.executable, __file__, _AGAIN, *arguments], check=False).returncode
    if status == 0:
        print("\nfailed beside others, and passed alone:", *sorted(found.failed), sep="\n  ", flush=True)
    return status


def run_again(arguments: list[str]) -> int:
    """Run what failed the last time; return 0 if each has run to its end and passed."""
    wanted, found = known_failures(), Outcomes()
    status = int(pytest.main([*arguments, *_ALONE], plugins=[found]))
    return status or int(not wanted or found.passed != wanted)


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(run_again(given[1:]) if given[:1] == [_AGAIN] else run_beside(given))
