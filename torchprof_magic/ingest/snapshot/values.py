"""Values of a decoded pickle that may be of any type: what is not as expected becomes empty or 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchprof_magic.model.intervals import IntArray

Entry: TypeAlias = dict[str, Any]
MAX_TIME_US = 1 << 52  # until the year 2112; in ns it fits into int64 with room for sums
MAX_SIZE_BYTES = 1 << 53
MAX_SUM_BYTES = float(1 << 62)


def is_count(value: object, below: int = MAX_TIME_US) -> bool:
    """Return whether a value is a whole number of at least 0."""
    return type(value) is int and 0 <= value < below


def size_of(value: object) -> int:
    """Return a size in bytes."""
    return value if isinstance(value, int) and is_count(value, MAX_SIZE_BYTES) else 0


def address_of(value: object) -> int:
    """Return an address, or the number of a stream."""
    return value if isinstance(value, int) and is_count(value, 1 << 64) else 0


def stream_of(value: object) -> int:
    """Return the number of a stream, which is an address for all but the default one."""
    return value if isinstance(value, int) and is_count(value, 1 << 63) else 0


def requested_bytes(block: Entry) -> int:
    """Return the requested size, as in the history; the size of the block is rounded up."""
    return size_of(block.get("requested_size", block.get("size")))


def text_of(value: object) -> str:
    """Return a text, empty for any other value: lists in lists could become texts of any length."""
    return value if isinstance(value, str) else ""


def pool_of(value: object) -> str | None:
    """Return the id of a memory pool, which is a pair of numbers."""
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(is_count(part) for part in value):  # noqa: PLR2004
        return f"{value[0]}.{value[1]}"
    return None


def ints(values: Iterable[int]) -> IntArray:
    """Return numbers as an array."""
    return np.fromiter(values, np.int64)


def lists_of(value: object) -> list[list[Entry]]:
    """Return lists of entries."""
    return [dicts_of(item) for item in value] if isinstance(value, (list, tuple)) else []


def dicts_of(value: object) -> list[Entry]:
    """Return a list without invalid entries."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, (list, tuple)) else []


def keys_of(value: object) -> list[str]:
    """Return the keys of a dict."""
    return list(value) if isinstance(value, dict) else []
