"""Which process of a job is this, where each would give a file the same name?"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from torchprof_magic.capture.torch_api import compat
from torchprof_magic.distributed import number_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def name_of_rank(path: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the name of a file of this process: with its rank at the end of the stem if there are several processes.

    A stem whose last number is the rank tells them apart already. Source: torch.distributed, or before it is set up
    RANK and WORLD_SIZE, as launchers such as torchrun set them; a process without a rank takes its own number.
    """
    rank, size = compat.rank_and_size() or (number_of(environ, "RANK"), number_of(environ, "WORLD_SIZE"))
    if size is None or size < 2:  # noqa: PLR2004 - two processes are several
        return path
    if rank is None:
        return path.with_stem(f"{path.stem}-pid{os.getpid()}")
    numbers = re.findall(r"[0-9]+", path.stem)
    is_told = bool(numbers) and numbers[-1].lstrip("0") == str(rank or "")
    return path if is_told else path.with_stem(f"{path.stem}-rank{rank}")
