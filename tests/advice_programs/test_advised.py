"""A sample of the programs with something to change; ``make advice`` runs all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from amount import sampled

sys.path.insert(0, str(Path(__file__).parent))
from advice_run import run
from advised import PROGRAMS

# Those whose advice is so clear that a busy machine does not hide it, and that run for less than a second.
SAMPLE = (
    "a DataLoader that loads in the program",
    "a DataLoader that loads quickly",
    "a loop over the elements of a tensor",
    "a recurrent cell over time",
    "a table that is converted in every step",
    "a weight with a gradient that is converted in every step",
    "weights from a list in every step",
    "a buffer that each step fills anew",
    "a causal mask in forward",
    "SGD with momentum of large parameters",
    "a fused optimizer",
    "gradients of large layers that are filled with zeros",
    "zero_grad with its default",
    "an activation between the bias and the batch norm",
    "attention with a mask and dropout in single ops",
    "fused attention",
    "accumulation with no_sync",
    "a cache that is never emptied",
    "a buffer of fixed size that is full before the recording",
    "a list of numbers",
)


TRIES = 3


@pytest.mark.parametrize("name", sampled(SAMPLE, 3))
def test_a_program_is_told_what_to_change_and_nothing_else(name: str) -> None:
    (program,) = (program for program in PROGRAMS if program.name == name)
    # On a machine that is busy with something else, one recording may look otherwise: not each of three.
    for _ in range(TRIES):
        found = run(program)
        if not (found.misses or found.alarms):
            break
    assert found.misses == []
    assert found.alarms == []
