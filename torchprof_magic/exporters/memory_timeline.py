"""Writes a memory timeline in the JSON formats of torch's ``export_memory_timeline``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from torchprof_magic.system.files.atomic import write_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

CHUNK_ROWS = 100_000
CURVE_ENDINGS = (".json", ".json.gz")
RAW_ENDING = ".raw.json.gz"


def write_curve(times_us: Sequence[int], sizes: Sequence[Sequence[int]], path: Path) -> Path:
    """Write ``[times in µs, bytes of each category at each of them]``, gzipped if the name ends in ``.gz``."""
    return write_text(path, _curve(times_us, sizes))


def write_raw(columns: Sequence[npt.NDArray[np.int64]], path: Path) -> Path:
    """Write ``[time in ns, action, bytes, category]`` for every row, given as columns, gzipped."""
    return write_text(path, _list(columns))


def _curve(times_us: Sequence[int], sizes: Sequence[Sequence[int]]) -> Iterator[str]:
    yield f"[{json.dumps(times_us)}, ["
    for at in range(0, len(sizes), CHUNK_ROWS):
        yield (", " if at else "") + json.dumps(sizes[at : at + CHUNK_ROWS])[1:-1]
    yield "]]"


def _list(columns: Sequence[npt.NDArray[np.int64]]) -> Iterator[str]:
    yield "["
    for at in range(0, len(columns[0]), CHUNK_ROWS):
        rows = list(zip(*(column[at : at + CHUNK_ROWS].tolist() for column in columns), strict=True))
        yield (", " if at else "") + json.dumps(rows)[1:-1]
    yield "]"
