"""A sample of the cells in as many shapes of loops; ``make programs`` runs all of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from amount import sampled

sys.path.insert(0, str(Path(__file__).parent))
from loops import SHAPES, Shape
from run_loops import run, shell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from IPython.core.interactiveshell import InteractiveShell


@pytest.fixture(scope="module")
def found() -> Iterator[InteractiveShell]:
    made = shell()
    yield made
    made.run_line_magic("unload_ext", "torchprof_magic")


@pytest.mark.parametrize("shape", sampled(SHAPES, 22), ids=lambda shape: shape.name)
def test_the_loop_that_a_person_would_name_makes_the_steps(found: InteractiveShell, shape: Shape) -> None:
    assert run(found, shape)[1] == []
