"""Tests of how `make test` runs the tests: what fails beside others is tried once more alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "run_tests.py"
# Fails the first time that it runs in a folder.
ONCE = """
from pathlib import Path

def test_{name}():
    was_there = Path("{name}").exists()
    Path("{name}").touch()
    assert was_there
"""
TWICE = "\ndef test_broken():\n    assert False\n"


def run(folder: Path, *tests: str) -> tuple[int, str]:
    """Return the status and the end of what is printed."""
    (folder / "test_few.py").write_text("".join(tests))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    # Other plugins are imported for seconds, in each of the four processes.
    clean |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist.plugin"}
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), "-n", "1", "-q", "--rootdir", "."],
        cwd=folder, env=clean, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    return ran.returncode, ran.stdout


def test_what_passes_alone_is_named_and_is_no_failure(tmp_path: Path) -> None:
    status, text = run(tmp_path, ONCE.format(name="slow"), "\ndef test_good():\n    pass\n")
    assert status == 0
    assert text.rstrip().endswith("failed beside others, and passed alone:\n  test_few.py::test_slow")


def test_what_fails_twice_is_a_failure(tmp_path: Path) -> None:
    status, text = run(tmp_path, ONCE.format(name="slow"), TWICE)
    assert status == 1
    assert "1 failed, 1 passed" in text


SKIPPED = """
import pytest
from pathlib import Path

def test_skipped():
    if Path("skipped").exists():
        pytest.skip("not again")
    Path("skipped").touch()
    assert False
"""
CRASH = """
import os
from pathlib import Path

def test_crash():
    if not Path("crash").exists():
        Path("crash").touch()
        os.abort()
"""


@pytest.mark.parametrize("other", [SKIPPED, pytest.param(CRASH, marks=pytest.mark.thorough)])
def test_what_is_skipped_the_second_time_or_ended_its_process_has_not_passed(tmp_path: Path, other: str) -> None:
    status, text = run(tmp_path, ONCE.format(name="slow"), other)
    assert status == 1
    assert "passed alone" not in text


@pytest.mark.thorough
def test_where_many_tests_fail_none_is_tried_again(tmp_path: Path) -> None:
    status, text = run(tmp_path, *(ONCE.format(name=f"slow{number}") for number in range(6)))
    assert status == 1
    assert "Once more" not in text
