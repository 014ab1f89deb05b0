"""What does the launcher of a job, such as torchrun, say of this process?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


def number_of(environ: Mapping[str, str], name: str) -> int | None:
    """Return the number that a variable holds, such as RANK or WORLD_SIZE; ``None`` if it is missing or holds none."""
    text = environ.get(name, "").strip()
    return int(text) if _NUMBER.fullmatch(text) else None
