"""Sizes, durations, activities and metadata, from what users write."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping

from torchprof_magic.errors import OptionsError
from torchprof_magic.model.meta import KINETO_KEYS
from torchprof_magic.options.checked import ACTIVITIES

_SIZE = re.compile(r"(\d+(?:\.\d+)?) *([kmgt]?b?)", re.ASCII | re.IGNORECASE)
_UNITS = {f"{prefix}{b}": 1000**power for power, prefix in enumerate(("", "k", "m", "g", "t")) for b in ("", "b")}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) *(s|min|h)", re.ASCII)
_UNITS_S = {"s": 1, "min": 60, "h": 3600}


def bytes_of(size: str | int | None) -> int | None:
    """Return a size in bytes from ``"2GB"``, ``"500 MB"`` (decimal) or a number; raises ``OptionsError``."""
    if size is None or size == "":
        return None
    found = _SIZE.fullmatch(str(size).strip())
    value = float(found[1]) * _UNITS[found[2].lower()] if found else 0
    if not 1 <= value < math.inf:
        raise _no_budget(size)
    return int(value)


def seconds_of(duration: str) -> float:
    """Return seconds from ``"30s"``, ``"1.5 min"`` or ``"2h"``; raises ``OptionsError``."""
    found = _DURATION.fullmatch(duration.strip())
    value = float(found[1]) * _UNITS_S[found[2]] if found else 0
    if not 0 < value < math.inf:
        raise _no_budget(duration)
    return value


def budget_of(budget: str | int | None) -> tuple[int | None, float | None]:
    """Return the size in bytes and the duration in seconds that a budget names: one of them, or both with a comma.

    A number is one of bytes; what is not named is ``None``. Raises ``OptionsError``.
    """
    if budget is None or budget == "":
        return None, None
    if isinstance(budget, bool) or not isinstance(budget, (str, int)):
        raise _no_budget(budget)
    parts = [part.strip() for part in str(budget).split(",")]
    if "" in parts:
        raise _no_budget(budget)
    durations = [seconds_of(part) for part in parts if _DURATION.fullmatch(part)]
    sizes = [bytes_of(part) for part in parts if not _DURATION.fullmatch(part)]
    if len(sizes) > 1 or len(durations) > 1:
        raise OptionsError(f"--budget takes one size and one time, such as 2GB,5min (got {budget!r})")
    return next(iter(sizes), None), next(iter(durations), None)


def _no_budget(value: object) -> OptionsError:
    return OptionsError(
        f"--budget takes a size such as 2GB, a time such as 30s, 5min or 1h, or both as in 2GB,5min (got {value!r})"
    )


def metadata_of(values: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return metadata as keys and JSON texts, which torch writes into the trace unread, but for backslashes.

    So there are as few of these as can be: letters of any language stand for themselves. Raises ``OptionsError`` for a
    key that would break the file, or a value that JSON cannot hold.
    """
    if not isinstance(values, Mapping):
        raise OptionsError(f"metadata must be a dict of keys and values (got {values!r})")
    pairs = []
    for key, value in values.items():
        if key in KINETO_KEYS:
            raise OptionsError(f"metadata: {key!r} is a key that torch writes itself; choose another")
        if not isinstance(key, str) or not key.isascii() or not key.isprintable() or not key or set(key) & set('"\\'):
            raise OptionsError(f"metadata: {key!r} cannot be a key; use plain letters without quotes or backslashes")
        try:
            text = json.dumps(value, allow_nan=False, ensure_ascii=False)
            text.encode()  # half of a surrogate pair is no text
            pairs.append((key, text))
        except (TypeError, ValueError, RecursionError) as exc:
            raise OptionsError(f"metadata: the value of {key!r} cannot be written as JSON ({exc})") from None
    return tuple(pairs)


def activities_of(values: object) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return names of activities, and types of records by activity, from names, torch's own objects, or dicts of both.

    A dict narrows an activity down, as in torch: ``{ProfilerActivity.CUDA: ["GPU_MEMCPY"]}``. Raises ``OptionsError``
    for anything else, or an activity that is named twice.
    """
    names: list[str] = []
    types: dict[str, tuple[str, ...]] = {}
    many = values if isinstance(values, Iterable) and not isinstance(values, (str, dict)) else (values,)
    for value in many:
        if isinstance(value, dict):
            narrowed = {_activity_name(key): _record_types(kinds) for key, kinds in value.items()}
            types |= narrowed
            names += narrowed
        else:
            names.append(_activity_name(value))
    if len(set(names)) < len(names):
        raise OptionsError(f"activities: {max(names, key=names.count)} is named twice")
    return tuple(names), types


def _record_types(kinds: object) -> tuple[str, ...]:
    if isinstance(kinds, str):
        return (kinds,)
    if not isinstance(kinds, Iterable) or not all(isinstance(kind, str) for kind in kinds):
        raise OptionsError(f"activities: the types of records must be texts such as 'GPU_MEMCPY' (got {kinds!r})")
    return tuple(kinds)


def _activity_name(value: object) -> str:
    name = getattr(value, "name", value)
    if not isinstance(name, str):
        raise OptionsError(f"activities: {value!r} is no activity; choose from {', '.join(ACTIVITIES)}")
    return name.lower()
