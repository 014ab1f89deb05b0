"""How kernels were launched: grid, block, registers, shared memory and occupancy."""

from __future__ import annotations

import json
import re

import polars as pl

# Instructions of tensor cores, or of AMD's matrix cores, in the name of a kernel.
_MATRIX_CORES = re.compile(
    r"tensorop|wgmma|gmma|hmma|imma|(?<![a-z])mma(?![a-z])|xmma|"
    r"(?<![0-9])(?:884|1688|8816|16816|16832|16864|64x[0-9]+x16)(?=gemm|cudnn|fprop|dgrad|wgrad|_|\b)|"
    r"_MI[0-9]+x[0-9]+x[0-9]+|mfma|flash_(?:fwd|bwd)|fmha",
    re.IGNORECASE,
)
# Such kernels can also be for ordinary cores.
_ORDINARY_CORES = re.compile(r"simt|sgemm|(?<![a-z])ffma", re.IGNORECASE)
SCHEMA = {
    "grid": pl.String,
    "block": pl.String,
    "registers": pl.Int64,
    "shared_bytes": pl.Int64,
    "occupancy_ratio": pl.Float64,
}
MOST = 2**40  # no device has so many of anything that is counted here


def launch_configs(texts: pl.Series) -> pl.DataFrame:
    """Return one row per text of ``launch_config`` with its numbers; null where they are unknown or not plausible."""
    distinct = texts.unique().drop_nulls().cast(pl.String)
    rows = [_config(text) for text in distinct.to_list()]
    known = pl.DataFrame(rows, schema=SCHEMA, orient="row").with_columns(distinct.alias("text"))
    return (
        pl.DataFrame({"text": texts.cast(pl.String)})
        .join(known, on="text", how="left", maintain_order="left")
        .drop("text")
    )


def _config(text: str) -> tuple[str | None, str | None, int | None, int | None, float | None]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list) or len(values) != len(SCHEMA):
        return None, None, None, None, None
    grid, block, registers, shared, occupancy = values
    percent = _number(occupancy)
    return (
        _extent(grid),
        _extent(block),
        _whole(registers),
        _whole(shared),
        percent / 100 if percent is not None and percent <= 100 else None,  # noqa: PLR2004 - percent
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MOST:
        return None
    return float(value)


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _extent(value: object) -> str | None:
    """Return the size in three directions as ``512×1×1``."""
    if not isinstance(value, list) or not value or any(_whole(each) is None for each in value[:3]):
        return None
    return "×".join(str(_whole(each)) for each in value[:3])


def uses_matrix_cores(name: str) -> bool:
    """Return whether the name of a kernel says that it uses tensor cores, or AMD's matrix cores."""
    return _MATRIX_CORES.search(name) is not None and _ORDINARY_CORES.search(name) is None
