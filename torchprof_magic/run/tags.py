"""Turns what a live run noted about its tensors into the frame ``tags`` of its trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.model.trace import MAX_NAME_CHARS, MAX_SUM, MEMORY_CATEGORIES, MEMORY_CATEGORY, TAGS_SCHEMA, TEXT
from torchprof_magic.run.scopes import clock_shift_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.model.recording import ProgramMarks, Recording, TaggedTensor
    from torchprof_magic.model.trace import Trace


def tags_of(trace: Trace, recording: Recording) -> pl.DataFrame:
    """Return the frame ``tags`` of a trace, on its clock and sorted by time.

    A cycle whose clock cannot be compared with that of the trace, or in which no memory was recorded, has none.
    """
    recorded = set(trace.memory["cycle"].unique().to_list())
    kinds = _kinds(recording.tagged)
    frames = [pl.DataFrame(schema=TAGS_SCHEMA)]
    for marks in recording.program:
        shift_ns = clock_shift_ns(trace, marks)
        if marks.tags and shift_ns is not None and marks.cycle in recorded:
            frames.append(_of_cycle(marks, shift_ns, kinds))
    return pl.concat(frames).sort("time_ns", maintain_order=True)


def _of_cycle(marks: ProgramMarks, shift_ns: int, kinds: pl.DataFrame) -> pl.DataFrame:
    counts = [len(batch.addresses) for batch in marks.tags]
    times = np.repeat([batch.time_ns + shift_ns for batch in marks.tags], counts)
    codes = np.repeat([MEMORY_CATEGORIES.index(batch.category) for batch in marks.tags], counts)
    addresses = np.concatenate([np.frombuffer(batch.addresses, np.int64) for batch in marks.tags])
    numbers = np.concatenate([np.frombuffer(batch.kinds, np.int64) for batch in marks.tags])
    has_storage = np.flatnonzero(addresses != 0)
    frame = pl.DataFrame(
        {
            "time_ns": times[has_storage],
            "category": pl.Series(MEMORY_CATEGORIES, dtype=MEMORY_CATEGORY).gather(codes[has_storage]),
            "address": addresses[has_storage].view(np.uint64),
            "cycle": np.full(len(has_storage), marks.cycle),
        }
    )
    return frame.hstack(kinds[numbers[has_storage]]).select(TAGS_SCHEMA.keys()).cast(TAGS_SCHEMA)  # type: ignore[arg-type]


def _kinds(tagged: Sequence[TaggedTensor]) -> pl.DataFrame:
    """Return a row for each kind of tensor, with texts as long as a trace may have."""
    rows = [
        (
            kind.device,
            min(kind.size_bytes, MAX_SUM),
            kind.name[:MAX_NAME_CHARS] or None,
            kind.shape[:MAX_NAME_CHARS],
            kind.dtype[:MAX_NAME_CHARS],
        )
        for kind in tagged
    ]
    schema = {"device": pl.String, "bytes": pl.Int64, "name": pl.String, "shape": pl.String, "dtype": pl.String}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return frame.with_columns(pl.col("name", "shape", "dtype").cast(TEXT))
