"""A sample of the written programs; ``make programs`` runs all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from amount import sampled

sys.path.insert(0, str(Path(__file__).parent))
from programs import PROGRAMS
from run import run

# Those whose limit is so clear that a busy machine does not hide it.
SAMPLE = (
    "a DataLoader whose dataset sleeps",
    "a generator that sleeps before each batch",
    "a slow backward of a custom function",
    "a sleep in a range that is called backward",
    "one slow line in forward",
    "sleep in the loop",
    "inference without gradients",
    "a model that compiles again for every length",
)


@pytest.mark.parametrize("name", sampled(SAMPLE, 4))
def test_the_verdict_and_the_line_of_a_program_are_right(name: str) -> None:
    (program,) = (program for program in PROGRAMS if program.name == name)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert run(program).flaws == []
    finally:
        torch.set_num_threads(threads)
