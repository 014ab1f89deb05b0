"""Lines in which the program sleeps, or waits for what others do."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

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
    step_ns,
    within_steps,
    without,
)
from torchprof_magic.model.units import format_ns, printable
from torchprof_magic.tables.waiting.loaders import fetch_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# Shorter ones are not worth a word, in ns per step.
LEAST_NS = 1_000_000
# Calls that take from a queue, and calls that write.
_GETS = re.compile(r"(?:^|\.)get$")
_WRITES = re.compile(r"(?:^|\.)(?:save|dump|print|(?:fd?sync|flush|put|send|sendall|write|writelines|writerows?))$")
_FRAME = r"^<built-in (method|function) sleep\b"


class _Wait(NamedTuple):
    """A call at a line that waits, and when it did; the call is empty where it is not known."""

    call: str
    file: str
    line: int | None
    spans: Spans


def sleeping(trace: Trace) -> list[Advice]:
    """Advise not to sleep in a step; sleep while data is loaded is that of the loader."""
    places = list(_seen(trace, is_sleep=True)) or list(_recorded(trace))
    found = [_of_sleep(trace, place) for place in places]
    return [advice for advice in found if advice is not None]


def waiting(trace: Trace) -> list[Advice]:
    """Advise to start what a step waits for earlier, such as a queue, a process or an answer from elsewhere."""
    found = [_of_wait(trace, place) for place in _seen(trace, is_sleep=False)]
    return [advice for advice in found if advice is not None]


def _seen(trace: Trace, *, is_sleep: bool) -> Iterator[_Wait]:
    """Yield the lines that a live run saw sleep, or else wait for something."""
    seen = seen_waits(trace)
    texts = pl.col("kind", "call", "file").cast(pl.String)
    waits = trace.waits.select(texts, "line")[seen.row.tolist()].with_row_index("piece")
    sleeps = pl.col("call").fill_null("").str.contains(SLEEP_CALL)
    chosen = waits.filter(pl.col("kind") == "wait", sleeps == is_sleep)
    by = ("file", "line") if is_sleep else ("call", "file", "line")
    for _, rows in chosen.group_by(by, maintain_order=True):
        piece: IntArray = rows["piece"].to_numpy().astype(np.int64)
        call, file, line = rows.select("call", "file", "line").row(0)
        yield _Wait(call or "", file or "", line, Spans(seen.start_ns[piece], seen.whole_end_ns[piece]))


def _recorded(trace: Trace) -> Iterator[_Wait]:
    """Yield the lines whose calls of ``sleep`` are among the recorded Python functions."""
    for file, line, rows in by_place(trace, rows_named(trace, _FRAME, "python_function")):
        yield _Wait("time.sleep", file, line, spans_of(trace, rows))


def _of_sleep(trace: Trace, wait: _Wait) -> Advice | None:
    found = _of_line(trace, wait, "sleeps")
    return (
        None
        if found is None
        else replace(
            found,
            rule="sleeping",
            title="Remove the sleep",
            fix="remove it, or wait for what it waits for",
            op="time.sleep",
        )
    )


def _of_wait(trace: Trace, wait: _Wait) -> Advice | None:
    """Return advice about a wait, unless it is one for what the program itself writes.

    An empty queue is filled too slowly, so that all of the wait can go. Anything else can run beside the rest of the
    step at best.
    """
    what = f"`{printable(wait.call).replace('`', chr(39))}`" if wait.call else "this line"
    found = _of_line(trace, wait, f"waits in {what} for" if wait.call else "waits")
    if found is None or found.spans is None or _WRITES.search(wait.call):
        return None
    if _GETS.search(wait.call):
        return replace(
            found, title="Fill the queue faster", fix="let more threads or processes fill it, or make an item cost less"
        )
    waited_ns = ns_in_steps(trace, found.spans)
    most_ns = min(waited_ns, step_ns(trace) - waited_ns)
    return replace(
        found,
        title="Start what is waited for earlier",
        fix=f"start what {what} waits for a step earlier, in a thread or a process of its own",
        evidence=f"{found.evidence} At most {format_ns(most_ns)} of it can run beside the rest of the step.",
        certainty="estimated",
        effect=Effect(most_ns=most_ns),
    )


def _of_line(trace: Trace, wait: _Wait, does: str) -> Advice | None:
    """Return what all advice on waits has in common; None for what is too short."""
    spans = without(wait.spans, spans_of(trace, fetch_rows(trace)))
    whole_ns = ns_in_steps(trace, spans)
    if whole_ns < LEAST_NS:
        return None
    inside = critical(trace, spans)
    also = f", and the device waits {format_ns(ns_in_steps(trace, inside))} of it" if trace.has_device else ""
    where = " on this line" if wait.line is not None else ""
    return Advice(
        rule="waiting",
        title="",
        evidence=f"The program {does} {format_ns(whole_ns)} {each(trace)}{where}{also}.",
        file=wait.file,
        line=wait.line,
        op=wait.call,
        certainty="measured",
        spans=within_steps(trace, spans),
        effect=Effect(),
    )
