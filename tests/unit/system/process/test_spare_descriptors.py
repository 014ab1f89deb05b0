"""A recording is saved and read although the user's code has used up all file descriptors."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
import torch
from forking import forked_python

import torchprof_magic as tp
from torchprof_magic.system.process.spare_descriptors import RESERVE, SpareDescriptors

# Opens files in step 3 until no descriptor is left, and goes on.
PROGRAM = """
import os, resource
import torch, torchprof_magic as tp
with tp.profile() as p:  # what is opened once, such as modules
    torch.ones(3).sum()
p.report.summary()
used = len(os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (used + 60, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = []
with tp.profile() as p:
    for step in p.steps(range(12)):
        torch.ones(3).sum()
        while step == 3:
            try:
                held.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
codes = [problem.code for problem in p.report.problems if problem.severity != "info"]
print(len(held) > 30, p.report.steps.height, codes)
"""


@pytest.fixture
def spare() -> SpareDescriptors:
    return SpareDescriptors()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors as Linux lists them")
def test_a_loop_that_uses_up_all_descriptors_is_recorded() -> None:
    done = subprocess.run(forked_python("-c", PROGRAM), capture_output=True, text=True, timeout=200, check=True)
    held, steps, codes = done.stdout.split(maxsplit=2)
    assert (held, steps) == ("True", "3"), done.stdout
    assert "capture" not in codes


def test_the_reserve_is_free_while_it_is_lent_and_held_again_afterwards(spare: SpareDescriptors) -> None:
    before = os.dup(1)
    os.close(before)
    spare.hold()
    assert len(spare._held) == RESERVE
    with spare.lent():
        assert spare._held == []
        lowest = os.dup(1)
        os.close(lowest)
        assert lowest == before
    assert len(spare._held) == RESERVE
    spare.release()
    assert spare._held == []


def test_nothing_is_held_after_lending_what_was_not_held(spare: SpareDescriptors) -> None:
    with spare.lent():
        pass
    assert spare._held == []


def test_a_descriptor_whose_number_the_program_uses_for_its_own_file_stays_open(
    spare: SpareDescriptors, tmp_path: Path
) -> None:
    spare.hold()
    number = spare._held[0]
    os.close(number)
    own = os.open(tmp_path / "own", os.O_RDWR | os.O_CREAT)
    assert own == number
    spare.release()
    assert os.write(own, b"x") == 1
    os.close(own)


def test_what_is_released_while_it_is_lent_is_not_taken_again(spare: SpareDescriptors) -> None:
    spare.hold()
    with spare.lent():
        spare.release()
    assert spare._held == []


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors as Linux lists them")
def test_no_descriptor_stays_open_after_a_run() -> None:
    kept = []

    def record() -> None:
        with tp.profile(profile_memory=True) as p:
            for _ in p.steps(range(6)):
                torch.ones(3).sum()
        kept.append(p)

    record()
    record()
    before = count_open()
    record()
    record()
    # Threads of this process, such as those of other tests, have files open for a moment.
    deadline = time.monotonic() + 10
    while count_open() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert count_open() <= before


def count_open() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
