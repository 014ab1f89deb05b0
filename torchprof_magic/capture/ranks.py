"""Which process of a job is this, where each would give a file the same name?"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NUMBERS = re.compile(r"[0-9]+", re.ASCII)


def name_of_rank(path: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the name of a file of this process: with its rank at the end of the stem if there are several processes.

    A stem whose last number is the rank tells them apart already. Source: RANK and WORLD_SIZE, as launchers such as
    torchrun set them; a process that has no rank takes its own number.
    """
    sizes = _NUMBERS.fullmatch(environ.get("WORLD_SIZE", "").strip())
    if sizes is None or int(sizes[0]) < 2:  # noqa: PLR2004 - two processes are several
        return path
    rank = _NUMBERS.fullmatch(environ.get("RANK", "").strip())
    if rank is None:
        return path.with_stem(f"{path.stem}-pid{os.getpid()}")
    numbers = _NUMBERS.findall(path.stem)
    if numbers and int(numbers[-1]) == int(rank[0]):
        return path
    return path.with_stem(f"{path.stem}-rank{int(rank[0])}")
