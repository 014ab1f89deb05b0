"""The callbacks with the real libraries: what is recorded of tiny trainings, and that stand-ins are called alike."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from amount import thorough
from made_trainers import Events, Hooks, MadeLightning, MadeTrainer

HERE = Path(__file__).parent
TRANSFORMERS, ACCELERATE = ("transformers_program.py",), ("accelerate_program.py",)
LIGHTNING = [("lightning_program.py", name) for name in ("lightning.pytorch", "pytorch_lightning")]
LIBRARIES = {TRANSFORMERS: "transformers", ACCELERATE: "accelerate"} | {
    program: program[1].partition(".")[0] for program in LIGHTNING
}
pytestmark = [thorough, pytest.mark.slow]


@cache
def printed_by(program: tuple[str, ...]) -> dict[str, Any]:
    """Return what a program prints that trains with a library; skip the test where that is not installed."""
    if importlib.util.find_spec(LIBRARIES[program]) is None:
        pytest.skip(f"{LIBRARIES[program]} is not installed; `make thorough` installs it")
    name, *arguments = program
    ran = subprocess.run(
        [sys.executable, str(HERE / name), *arguments], capture_output=True, text=True, check=False, timeout=600
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


# The trainings have eight batches per epoch. The bias is added by one op, which is called once per batch.
COMPLETE: dict[str, tuple[int, int]] = {
    "plain": (8, 8),
    "accumulated": (4, 8),
    "evaluated": (16, 16),
    "evaluated by epoch": (16, 16),
    "evaluated on start": (8, 8),
    "validated": (16, 16),
    "validated by epoch": (16, 16),
    "manual": (8, 16),  # two optimizers, each with its own forward
    "tried again": (16, 16),  # with half the batch size
}
CASES = [
    (program, case)
    for program, cases in {
        TRANSFORMERS: [
            "plain",
            "accumulated",
            "evaluated",
            "evaluated by epoch",
            "evaluated on start",
            "tried again",
        ],
        **{each: ["plain", "accumulated", "manual", "validated", "validated by epoch"] for each in LIGHTNING},
    }.items()
    for case in cases
]


@pytest.mark.parametrize(("program", "case"), CASES)
def test_each_update_of_the_weights_is_a_step_and_evaluation_is_in_none(program: tuple[str, ...], case: str) -> None:
    found, (steps, batches) = printed_by(program)[case], COMPLETE[case]
    assert found["numbers"] == [*range(steps)]
    assert found["complete"] == [True] * steps
    assert (found["addmm"], found["cumsum"]) == (batches, 0)
    assert found["epochs"] == sorted(found["epochs"])
    assert max(found["epochs"]) == ("evaluated" in case or "validated" in case) * (steps > 8)
    assert ("capture.evaluation" in found["codes"]) == ("evaluated" in case or "validated" in case)
    assert found["is_off"]


@pytest.mark.parametrize("program", [TRANSFORMERS, *LIGHTNING])
def test_a_training_that_fails_or_is_interrupted_is_reported_until_there(program: tuple[str, ...]) -> None:
    for case, raised in (("failed", "the data is gone"), ("interrupted", "1" if program in LIGHTNING else "")):
        found = printed_by(program)[case]
        assert (found["raised"], found["complete"]) == (raised, [True, True, True, False])
        assert found["codes"] == ["capture.partial"]
        assert found["is_off"]


@pytest.mark.parametrize("program", [TRANSFORMERS, *LIGHTNING])
def test_in_a_block_the_training_makes_its_steps(program: tuple[str, ...]) -> None:
    found = printed_by(program)["in a block"]
    assert (found["numbers"], found["cumsum"], found["codes"]) == ([2, 3, 4], 0, [])
    assert program[0] in found["sentence"]


def test_the_callback_is_of_the_library_that_is_used() -> None:
    assert [printed_by(program)["base"] for program in LIGHTNING] == ["lightning", "pytorch_lightning"]


def test_accelerate_gets_a_profile_whose_steps_its_loop_makes() -> None:
    found = printed_by(ACCELERATE)
    assert found["scheduled"]["numbers"] == [2, 3, 4]
    assert found["whole"]["addmm"] == 8
    assert found["failed"]["complete"] == [True, True, True, False]
    assert found["failed"]["raised"] == "the data is gone"
    assert all(each["sentence"].startswith("accelerate_program.py:") for each in found.values())


def test_the_stand_in_for_transformers_calls_as_the_trainer_does() -> None:
    kept, kept_by_epoch = Events(), Events()
    MadeTrainer(kept, batches=4, epochs=2, accumulates=2, evaluates=2).train()
    MadeTrainer(kept_by_epoch, batches=4, epochs=2, evaluates="epoch", on_start=True).train()
    found = printed_by(TRANSFORMERS)
    assert kept.told == found["events"]
    assert kept_by_epoch.told == found["events by epoch"]


@pytest.mark.parametrize("program", LIGHTNING)
def test_the_stand_in_for_lightning_calls_as_the_trainer_does(program: tuple[str, ...]) -> None:
    kept, kept_by_epoch = Hooks(), Hooks()
    MadeLightning(kept, batches=4, epochs=2, validates=2).fit()
    MadeLightning(kept_by_epoch, batches=4, epochs=2, accumulates=3, validates=4).fit()
    assert kept.told == printed_by(program)["hooks"]
    assert kept_by_epoch.told == printed_by(program)["hooks by epoch"]
