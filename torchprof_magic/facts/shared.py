"""Results that several analyses need, computed once per trace."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl

from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.model.intervals import NO_PARENT

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import Trace

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


def once_per_trace(build: Callable[[Trace], Result]) -> Callable[[Trace], Result]:
    """Cache the result of ``build`` for as long as the trace lives. Callers share it and must not change it."""
    kept: WeakKeyDictionary[Trace, Result] = WeakKeyDictionary()

    @wraps(build)
    def once(trace: Trace) -> Result:
        if trace not in kept:
            kept[trace] = build(trace)
        return kept[trace]

    return once


class OfPart(Protocol[Result_co]):
    """A result of a trace, or of what lies in a part of its time."""

    def __call__(self, trace: Trace, part: TimeRange = WHOLE) -> Result_co:
        """Return it; by default that of the whole trace."""


def once_for_the_whole(build: Callable[[Trace, TimeRange], Result]) -> OfPart[Result]:
    """Cache the result of ``build`` for the whole trace, as ``once_per_trace`` does; that of a part is made anew."""
    whole = once_per_trace(lambda trace: build(trace, WHOLE))

    @wraps(build)
    def of_part(trace: Trace, part: TimeRange = WHOLE) -> Result:
        return whole(trace) if part == WHOLE else build(trace, part)

    return of_part


def ask_names(names: pl.Series, question: pl.Expr) -> npt.NDArray[np.generic]:
    """Return the answer to an expression over the text column ``name`` for every row, evaluated once per distinct name.

    ``names`` is categorical: a trace has millions of rows but few names.
    """
    if len(names) == 0:
        return names.cast(pl.String).to_frame("name").select(question).to_series().to_numpy()
    codes = names.to_physical().to_numpy()
    row_of = np.full(int(codes.max()) + 1, NO_PARENT, np.int32)
    row_of[codes] = np.arange(len(codes), dtype=np.int32)
    used = np.flatnonzero(row_of != NO_PARENT)
    distinct = names[row_of[used]].cast(pl.String).to_frame("name")
    answers = distinct.select(question.alias("answer"))["answer"].to_numpy()
    table = np.zeros(len(row_of), answers.dtype)
    table[used] = answers
    return table[codes]


def launch_sources(trace: Trace) -> npt.NDArray[np.int32]:
    """Return for each event the row of the call that launched it, or -1."""
    launches = trace.flows.filter(pl.col("kind") == "launch")
    source = np.full(trace.events.height, NO_PARENT, np.int32)
    source[launches["target"].to_numpy()] = launches["source"].to_numpy()
    return source
