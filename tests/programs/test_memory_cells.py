"""Three runs of a sample of the cells with memory; ``make programs`` runs all of them ten times."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from amount import sampled
from forking import forked_python

sys.path.insert(0, str(Path(__file__).parent))
from memory_cells import CELLS

RUN = Path(__file__).with_name("run_memory.py")
FEWEST = 3  # the first finds no tensors of an earlier one, and two are compared


def test_the_memory_of_a_cell_is_that_of_the_live_tensors_and_equal_in_every_run() -> None:
    # In a process of its own: what earlier tests left alive counts as well, and takes long to look through.
    names = [cell.name for cell in sampled(CELLS, 7)]
    done = subprocess.run(
        forked_python(str(RUN), "--runs", f"{FEWEST}", *names), capture_output=True, text=True, check=False
    )
    right = [line.removeprefix("right  ") for line in done.stdout.splitlines() if line.startswith("right")]
    assert (done.returncode, right) == (0, names), done.stdout + done.stderr
