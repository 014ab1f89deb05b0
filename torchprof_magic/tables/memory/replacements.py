"""Blocks that took the place of others from before the recording, so that the program holds no more than it did."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from torchprof_magic.facts.memory.blocks import HOST
from torchprof_magic.tables.memory.block_table import allocations_table, step_at

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

_KEYS = ("device", "cycle", "step", "size_bytes")
_ALLOCATED, _RELEASED = "allocated_at_ns", "released_at_ns"


class Replacements(NamedTuple):
    """Releases of older blocks, with ``device``, ``cycle``, ``step`` and ``size_bytes``.

    Those of ``pairs`` gave their place to the block in a ``row``. None explains the ``others``.
    """

    pairs: pl.DataFrame
    others: pl.DataFrame


def find_replacements(trace: Trace, blocks: pl.DataFrame) -> Replacements:
    """Return which of some blocks, rows of ``allocations`` with a step, took the place of an older one.

    In a ring of tensors that was full before the recording, each new one releases an old one of its size in the same
    step. It is taken to be the last one before the release, or else the first of that size in the step.
    """
    released = _older_releases(trace).sort(_RELEASED)
    numbered = blocks.select(_ALLOCATED, *_KEYS).with_row_index("row").sort(_ALLOCATED)
    pairs = released.join_asof(
        numbered,
        left_on=_RELEASED,
        right_on=_ALLOCATED,
        by=list(_KEYS),
        strategy="backward",
        check_sortedness=False,
    )
    before = pairs.filter(pl.col("row").is_not_null()).unique("row", keep="first", maintain_order=True)
    rest = _nth(numbered.join(before, on="row", how="anti", maintain_order="left"))
    others = _nth(released.join(before, on="release", how="anti", maintain_order="left"))
    after = rest.join(others, on=[*_KEYS, "nth"], how="inner")
    others = others.join(after, on="release", how="anti", maintain_order="left")
    return Replacements(pl.concat([found.select("row", *_KEYS) for found in (before, after)]), others.select(_KEYS))


def _nth(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.int_range(pl.len()).over(*_KEYS).alias("nth"))


def _older_releases(trace: Trace) -> pl.DataFrame:
    """Return the releases of blocks from before the recording, where the moment is known.

    torch records those of accelerators; those of the host are known from the live objects.
    """
    recorded = allocations_table(trace).frame.filter(
        pl.col(_ALLOCATED).is_null() & pl.col("freed_at_ns").is_not_null() & (pl.col("device") != HOST)
    )
    of_host = trace.storages.filter(pl.col("gone_ns").is_not_null()).select(
        pl.lit(HOST).alias("device"), "cycle", pl.col("bytes").alias("size_bytes"), pl.col("gone_ns").alias(_RELEASED)
    )
    found = recorded.select("device", "cycle", "size_bytes", pl.col("freed_at_ns").alias(_RELEASED))
    found = pl.concat([found, of_host])
    steps = step_at(trace, found[_RELEASED], found["cycle"]).alias("step")
    return found.with_columns(steps).filter(pl.col("step").is_not_null()).with_row_index("release")
