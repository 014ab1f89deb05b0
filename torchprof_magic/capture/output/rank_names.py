"""A file name of its own for each process of a distributed job."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from torchprof_magic.system.process.distributed import rank_flaw, ranks

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
        return with_ending(path, f"-pid{os.getpid()}")
    numbers = re.findall(r"[0-9]+", _stem_of(path))
    has_rank = bool(numbers) and numbers[-1].lstrip("0") == str(rank or "")
    return path if has_rank else with_ending(path, f"-rank{rank}")


def with_ending(path: Path, ending: str) -> Path:
    """Return the name with ``ending`` at the end of its stem; a packed file has two suffixes (``graph.json.gz``)."""
    stem = _stem_of(path)
    return path.with_name(f"{stem}{ending}{path.name[len(stem) :]}")


def _stem_of(path: Path) -> str:
    return path.with_suffix("").stem if path.suffix.lower() == ".gz" else path.stem
