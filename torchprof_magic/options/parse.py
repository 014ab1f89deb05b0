"""Parses sizes, durations, activities and metadata."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any

from torchprof_magic.model.errors import OptionsError
from torchprof_magic.model.meta import KINETO_KEYS
from torchprof_magic.options.checked import ACTIVITIES

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) *((?:[kmgt]i?)?b?)", re.ASCII | re.IGNORECASE)
_UNITS = {f"{prefix}{b}": 1000**power for power, prefix in enumerate(("", "k", "m", "g", "t")) for b in ("", "b")}
_UNITS |= {f"{prefix}i{b}": 1024**power for power, prefix in enumerate("kmgt", 1) for b in ("", "b")}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) *(s|min|h)", re.ASCII)
# What torch's ProfilerActivityConfig has.
CONFIGURED = ("activity_types", "profiler_configs")
_UNITS_S = {"s": 1, "min": 60, "h": 3600}


def bytes_of(size: str | int | None) -> int | None:
    """Return a size in bytes from ``"2GB"``, ``"500 MB"``, ``"2GiB"`` or a number; raises ``OptionsError``."""
    if size is None or size == "":
        return None
    found = _SIZE.fullmatch(str(size).strip())
    value = float(found[1]) * _UNITS[found[2].lower()] if found else 0
    if not 1 <= value < math.inf:
        raise _no_budget(size)
    return int(value)


def file_bytes_of(size: str | int | None) -> int | None:
    """Return the limit of trace files in bytes; ``None`` if there is none. Raises ``OptionsError``."""
    if isinstance(size, bool) or not isinstance(size, (str, int, NoneType)):
        raise _no_file_budget(size)
    try:
        return bytes_of(size)
    except OptionsError:
        raise _no_file_budget(size) from None


def seconds_of(duration: str) -> float:
    """Return seconds from ``"30s"``, ``"1.5 min"`` or ``"2h"``; raises ``OptionsError``."""
    found = _DURATION.fullmatch(duration.strip())
    value = float(found[1]) * _UNITS_S[found[2]] if found else 0
    if not 0 < value < math.inf:
        raise _no_budget(duration)
    return value


def budget_of(budget: str | int | None) -> tuple[int | None, float | None]:
    """Return the size in bytes and the duration in seconds of a budget: one of them, or both separated by a comma.

    A number is a size in bytes; what is not given is ``None``. Raises ``OptionsError``.
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


def _no_file_budget(value: object) -> OptionsError:
    return OptionsError(f"--budget-files takes a size such as 10GB (got {value!r})")


def _no_budget(value: object) -> OptionsError:
    return OptionsError(
        f"--budget takes a size such as 2GB, a time such as 30s, 5min or 1h, or both as in 2GB,5min (got {value!r})"
    )


def metadata_of(values: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return metadata as keys and JSON strings.

    torch copies the strings into the trace as they are, except for backslashes, so letters of any language are not
    escaped. Raises ``OptionsError`` for a key that would break the file, or a value that is not valid JSON.
    """
    if not isinstance(values, Mapping):
        raise OptionsError(f"metadata must be a dict (got {values!r})")
    pairs = []
    for key, value in values.items():
        if key in KINETO_KEYS:
            raise OptionsError(f"metadata: {key!r} is a key that torch writes itself; choose another")
        if not isinstance(key, str) or not key.isascii() or not key.isprintable() or not key or set(key) & set('"\\'):
            raise OptionsError(
                f"metadata: {key!r} is not a valid key; use ASCII characters without quotes or backslashes"
            )
        try:
            text = json.dumps(value, allow_nan=False, ensure_ascii=False)
            text.encode()  # a lone surrogate cannot be encoded
            pairs.append((key, text))
        except (TypeError, ValueError, RecursionError) as exc:
            raise OptionsError(f"metadata: the value of {key!r} cannot be written as JSON ({exc})") from None
    return tuple(pairs)


def activities_of(values: object) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the names of activities and the record types of each, from names, torch's objects, or dicts of both.

    A dict limits an activity to some record types, as in torch: ``{ProfilerActivity.CUDA: ["GPU_MEMCPY"]}``, or
    configures it by a ``ProfilerActivityConfig``, which is returned in place of record types. None limits nothing.
    Raises ``OptionsError`` for anything else, or an activity that is given twice.
    """
    names: list[str] = []
    types: dict[str, Any] = {}
    many = values if isinstance(values, Iterable) and not isinstance(values, (str, dict)) else (values,)
    for value in many:
        if isinstance(value, dict):
            narrowed = {_activity_name(key): _record_types(kinds) for key, kinds in value.items()}
            types |= {name: kinds for name, kinds in narrowed.items() if kinds is not None}
            names += narrowed
        else:
            names.append(_activity_name(value))
    if len(set(names)) < len(names):
        raise OptionsError(f"activities: {max(names, key=names.count)} is given twice")
    return tuple(names), types


def _record_types(kinds: object) -> Any:
    """Return the names of record types, None for all, or torch's configuration of an activity as it is."""
    if kinds is None or all(hasattr(kinds, name) for name in CONFIGURED):
        return kinds
    if isinstance(kinds, str):
        return (kinds,)
    if not isinstance(kinds, Iterable) or not all(isinstance(kind, str) for kind in kinds):
        raise OptionsError(f"activities: record types must be strings such as 'GPU_MEMCPY' (got {kinds!r})")
    return tuple(kinds)


def _activity_name(value: object) -> str:
    name = getattr(value, "name", value)
    if not isinstance(name, str):
        raise OptionsError(f"activities: {value!r} is not an activity; choose from {', '.join(ACTIVITIES)}")
    return name.lower()
