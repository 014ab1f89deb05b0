"""Three runs of a sample of the cells with memory; ``make programs`` runs all of them ten times."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest
from amount import sampled

sys.path.insert(0, str(Path(__file__).parent))
from memory_cells import CELLS, Cell
from run_memory import flaws_of, run, shell

FEWEST = 3  # the first finds no tensors of an earlier one, and two are compared


@pytest.mark.parametrize("cell", sampled(CELLS, 2), ids=lambda cell: cell.name)
def test_the_memory_of_a_cell_is_that_of_the_live_tensors_and_equal_in_every_run(cell: Cell) -> None:
    gc.unfreeze()  # what earlier tests left is freed, or counts as well
    gc.collect()
    found = shell()
    try:
        assert flaws_of([run(found, cell) for _ in range(FEWEST)]) == []
    finally:
        found.run_line_magic("unload_ext", "torchprof_magic")
