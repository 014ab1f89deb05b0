"""A file name of its own for each process of a distributed job."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from torchprof_magic.distributed import rank_flaw, ranks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def name_of_rank(path: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the name with ``-rank3`` at the end of its stem if the job has several processes.

    Without a known rank the process ID is added instead. A stem whose last number is the rank stays as it is.
    """
    rank, world_size = ranks(environ).rank, ranks(environ).world_size
    if world_size == 1:
        return path
    if rank_flaw(environ):
        return path.with_stem(f"{path.stem}-pid{os.getpid()}")
    numbers = re.findall(r"[0-9]+", path.stem)
    has_rank = bool(numbers) and numbers[-1].lstrip("0") == str(rank or "")
    return path if has_rank else path.with_stem(f"{path.stem}-rank{rank}")
