"""Lines in which the program sleeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.host.asleep import SLEEP_CALL
from torchprof_magic.facts.host.seen_waits import seen_waits
from torchprof_magic.findings.advice.kinds import Advice, Effect, Spans
from torchprof_magic.findings.advice.times import (
    by_place,
    critical,
    each,
    ns_in_steps,
    rows_named,
    spans_of,
    within_steps,
    without,
)
from torchprof_magic.model.units import format_ns
from torchprof_magic.tables.waiting.loaders import fetch_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

LEAST_SLEEP_NS = 1_000_000
_FRAME = r"^<built-in (method|function) sleep\b"


def sleeping(trace: Trace) -> list[Advice]:
    """Advise not to sleep in a step; sleep while data is loaded is that of the loader."""
    places = list(_seen(trace)) or list(_recorded(trace))
    found = [_of_line(trace, *place) for place in places]
    return [advice for advice in found if advice is not None]


def _seen(trace: Trace) -> Iterator[tuple[str, int | None, Spans]]:
    """Yield the lines that a live run saw sleep, each with when that was."""
    seen = seen_waits(trace)
    waits = trace.waits.select(pl.col("call", "file").cast(pl.String), "line")[seen.row.tolist()]
    sleeps = waits.with_row_index("piece").filter(pl.col("call").str.contains(SLEEP_CALL))
    for (file, line), rows in sleeps.group_by("file", "line", maintain_order=True):
        piece: IntArray = rows["piece"].to_numpy().astype(np.int64)
        spans = Spans(seen.start_ns[piece], seen.whole_end_ns[piece])
        yield str(file or ""), None if line is None else int(str(line)), spans


def _recorded(trace: Trace) -> Iterator[tuple[str, int | None, Spans]]:
    """Yield the lines whose calls of ``sleep`` are among the recorded Python functions."""
    for file, line, rows in by_place(trace, rows_named(trace, _FRAME, "python_function")):
        yield file, line, spans_of(trace, rows)


def _of_line(trace: Trace, file: str, line: int | None, sleep: Spans) -> Advice | None:
    asleep = without(sleep, spans_of(trace, fetch_rows(trace)))
    asleep_ns = ns_in_steps(trace, asleep)
    if asleep_ns < LEAST_SLEEP_NS:
        return None
    inside = critical(trace, asleep)
    waits = f", and the device waits {format_ns(ns_in_steps(trace, inside))} of it" if trace.has_device else ""
    return Advice(
        rule="sleeping",
        title="Do not sleep in the step",
        fix="remove the `sleep`, or wait for what it waits for",
        evidence=f"The program sleeps {format_ns(asleep_ns)} {each(trace)} on this line{waits}.",
        file=file,
        line=line,
        op="time.sleep",
        certainty="measured",
        spans=within_steps(trace, asleep),
        effect=Effect(),
    )
