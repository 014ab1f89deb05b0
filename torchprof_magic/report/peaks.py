"""What devices can do at most: a table of their makers' figures, the user's own, and what was measured.

``tp.peaks.add("MI300X", bytes_per_s=4.0e12)`` replaces figures, ``tp.measure_peak()`` measures the CPU of this machine.
Both hold for all reports of this process that are made from then on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from typing import TYPE_CHECKING, Any

from torchprof_magic.model.dtypes import KINDS
from torchprof_magic.model.errors import OptionsError, StoreError
from torchprof_magic.model.peaks import PEAKS, TERA, Figures, Peak, measured, peak_of, set_by_user, with_figures
from torchprof_magic.model.units import enumerated, format_ratio
from torchprof_magic.runs.run_library import data_folder
from torchprof_magic.system.files.atomic import read_own, replacing
from torchprof_magic.system.process.cores import cpu_model

if TYPE_CHECKING:
    from pathlib import Path

_FILE = "peaks.json"
_MOST_BYTES = 2**20
# Threads that ran less than this part of the time shared their cores.
SHARED_CORES = 0.8
_KEYS = ("bytes_per_s", "flops_per_s", "vector_flops_per_s")


@dataclass(frozen=True, slots=True)
class Measured:
    """What ``measure_peak`` found: operations per second by type, bytes per second, threads, and where it is kept.

    ``path`` is None where it could not be kept. ``cores_ratio`` is which part of the time the threads ran: where that
    is well below 1, other programs took the rest, and the figures are too low.
    """

    device: str
    flops_per_s: dict[str, float]
    bytes_per_s: float
    threads: int
    path: Path | None
    cores_ratio: float = 1.0

    def __str__(self) -> str:
        rates = [f"{rate / 1e9:.3g} GFLOP/s in {kind}" for kind, rate in self.flops_per_s.items()]
        kept = f"kept in {self.path}" if self.path else "not kept"
        busy = f". {_too_low(self.cores_ratio)} Measure again." if self.cores_ratio < SHARED_CORES else ""
        found = f"{enumerated(rates)}, {self.bytes_per_s / 1e9:.3g} GB/s"
        return f"{self.device}, {self.threads} threads: {found} ({kept}){busy}"

    __repr__ = __str__


def add(
    name: str,
    *,
    bytes_per_s: float | None = None,
    flops_per_s: Mapping[str, float] | None = None,
    vector_flops_per_s: Mapping[str, float] | None = None,
) -> None:
    """Set figures of all devices with a text in their names; others of a known device stay as they are.

    Args:
        name: A part of the name, in capital or small letters; ``CPU`` is a processor whose name was not recorded.
        bytes_per_s: Bytes per second of the memory.
        flops_per_s: Operations per second of products of matrices by type: f64, f32, tf32, bf16, f16, f8, f4, i8.
        vector_flops_per_s: Operations per second of all else, for f32 and f64.

    Raises ``OptionsError`` for another type, and for what is no positive number.
    """
    if not isinstance(name, str) or not name:
        raise OptionsError(f"peaks: a name of a device must be a text (got {name!r})")
    matrix, vector = (
        _rates(key, value) for key, value in (("flops_per_s", flops_per_s), ("vector_flops_per_s", vector_flops_per_s))
    )
    memory = None if bytes_per_s is None else _positive("bytes_per_s", bytes_per_s)
    set_by_user.pop(name, None)
    set_by_user[name] = Figures(flops_per_s=matrix, vector_flops_per_s=vector, bytes_per_s=memory)


def remove(name: str) -> None:
    """Remove figures that were set. Raises ``ValueError`` if there are none."""
    if set_by_user.pop(name, None) is None:
        raise ValueError(f"no peak of {name!r} was set")


def known() -> list[Peak]:
    """Return what is known: set, measured on this machine, and the table that comes with the package."""
    read_kept()
    own = [with_figures(Peak(title=name, pattern=""), figures) for name, figures in set_by_user.items()]
    return [*own, *measured.values(), *PEAKS]


def of(name: str) -> Peak | None:
    """Return the peak of a device by its name, None if it is not known."""
    read_kept()
    return peak_of(name)


def configure(values: Mapping[str, object]) -> None:
    """Set figures of several devices, each with the keywords of ``add``; in place of all that were set before.

    Raises ``OptionsError`` for another keyword or value; then nothing is changed.
    """
    before = dict(set_by_user)
    set_by_user.clear()
    try:
        for name, figures in values.items():
            add(str(name), **_figures(figures))
    except OptionsError:
        set_by_user.clear()
        set_by_user.update(before)
        raise


def _figures(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not set(value) <= set(_KEYS):
        raise OptionsError(f"peaks: each device takes a dict of {enumerated(_KEYS)} (got {value!r})")
    return dict(value)


def measure_peak(seconds: float = 2.0) -> Measured:
    """Measure what the CPU of this machine can do at most, and keep it for later reports on this machine.

    Products of matrices in several types, and a copy through memory, with as many threads as torch uses now. Let
    nothing else run meanwhile: what others take is missing in the figures, which say so then.

    Args:
        seconds: About how long to measure.

    Raises ``OptionsError`` if that is not positive.
    """
    from torchprof_magic.trials.peak import measure_cpu  # noqa: PLC0415 - imports torch

    found = measure_cpu(_positive("seconds", seconds))
    name = cpu_model()
    entry = {
        "flops_per_s": found.flops_per_s,
        "bytes_per_s": found.bytes_per_s,
        "threads": found.threads,
        "cores_ratio": round(found.cores_ratio, 3),
        "when": datetime.now(timezone.utc).date().isoformat(),
    }
    path: Path | None = _path()
    kept = {**_read(path), name: entry} if path else {name: entry}
    try:
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                file.write(json.dumps(kept, indent=1).encode())
    except OSError:
        path = None
    _use(name, entry)
    return Measured(name, found.flops_per_s, found.bytes_per_s, found.threads, path, found.cores_ratio)


def _too_low(ran: float) -> str:
    return f"Its threads ran {format_ratio(ran)} of the time, as other programs took the cores: it is too low."


@cache
def read_kept() -> None:
    """Read what was measured on this machine, once in a process. What cannot be read is as if it was not there."""
    path = _path()
    for name, entry in (_read(path) if path else {}).items():
        _use(name, entry)


def _use(name: str, entry: Mapping[str, object]) -> None:
    """Make what was measured known under the name of the processor; what makes no sense is left out."""
    try:
        matrix = _rates("flops_per_s", entry.get("flops_per_s"))
        memory = _positive("bytes_per_s", entry.get("bytes_per_s"))
    except OptionsError:
        return
    ran = entry.get("cores_ratio")
    measured[name] = Peak(
        title=name,
        pattern="",
        matrix={kind: rate / TERA for kind, rate in matrix.items()},
        vector={kind: rate / TERA for kind, rate in matrix.items() if kind in ("f32", "f64")},
        memory=memory / TERA,
        source=f"measured on {entry.get('when', 'an unknown day')} with {entry.get('threads', 'some')} threads",
        note=_too_low(ran) if isinstance(ran, float) and 0 <= ran < SHARED_CORES else "",
    )


def _path() -> Path | None:
    try:
        return data_folder() / _FILE
    except StoreError:
        return None


def _read(path: Path) -> dict[str, dict[str, object]]:
    try:
        found = json.loads(read_own(path, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    entries = found.items() if isinstance(found, dict) else ()
    return {name: entry for name, entry in entries if isinstance(entry, dict)}


def _rates(key: str, value: object) -> dict[str, float]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise OptionsError(f"peaks: {key} takes a dict of types and numbers (got {value!r})")
    if unknown := [kind for kind in value if kind not in KINDS]:
        raise OptionsError(f"peaks: no type {unknown[0]!r}; choose from {', '.join(KINDS)}")
    return {str(kind): _positive(key, rate) for kind, rate in value.items()}


def _positive(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise OptionsError(f"{key} must be a positive number (got {value!r})")
    return float(value)
