"""A sample of the programs whose cause, line and change are looked for in the Markdown of the report alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from amount import sampled

sys.path.insert(0, str(Path(__file__).parent))
from advised import PROGRAMS
from markdown_run import Read, read

SAMPLE = (
    "a DataLoader that loads in the program",
    "item() of every element",
    "SGD with momentum of large parameters",
)
TRIES = 3


@pytest.mark.parametrize("name", sampled(SAMPLE, 1))
def test_cause_line_and_change_are_in_the_markdown_alone(name: str) -> None:
    (program,) = (program for program in PROGRAMS if program.name == name)
    # A machine that is busy with something else can hide what a program should change, but not three times.
    assert any(read(program) == Read(cause=True, line=True, change=True) for _ in range(TRIES))
