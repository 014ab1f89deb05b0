"""The lines of the compatibility matrix: which Python meets which torch, with the newest or the lowest of all else."""

from __future__ import annotations

from typing import NamedTuple


class Line(NamedTuple):
    """One environment. Apart from torch it has the newest versions, or the lowest that pyproject.toml allows."""

    name: str
    python: str
    torch: str
    is_lowest: bool = False


LINES = (
    Line("py310-lowest", "3.10", "2.4.0", is_lowest=True),
    Line("py310-torch241", "3.10", "2.4.1"),
    Line("py312-torch251", "3.12", "2.5.1"),
    Line("py312-torch260", "3.12", "2.6.0"),
    Line("py313-lowest", "3.13", "2.9.1", is_lowest=True),
    Line("py313-torch291", "3.13", "2.9.1"),
    Line("py311-lowest", "3.11", "2.13.0", is_lowest=True),
    Line("py311-torch213", "3.11", "2.13.0"),
    Line("py311-torch214", "3.11", "2.14.1"),
    Line("py313-torch215", "3.13", "2.15.0"),
    Line("py314-torch215", "3.14", "2.15.0"),
)
# Run by the tests, too: it needs the Python and the torch that the tests run with.
TESTED_LINE = "py311-lowest"
