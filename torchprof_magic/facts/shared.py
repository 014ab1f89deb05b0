"""Results that several analyses need, computed once per trace."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import polars as pl

from torchprof_magic.facts.known_names import KnownNames, known_names
from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.model.distinct import codes_of, distinct, last_rows
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray

if TYPE_CHECKING:
    from collections.abc import Callable

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


class _EventNames(NamedTuple):
    """The names of events: each once, their codes, the code of each event, and where and how they are looked up."""

    distinct: pl.DataFrame
    codes: npt.NDArray[np.uint32]
    of_events: npt.NDArray[np.uint32]
    known: KnownNames
    numbers: IntArray


@once_per_trace
def _event_names(trace: Trace) -> _EventNames:
    names = trace.events["name"]
    once = distinct(names)
    texts = once.cast(pl.String)
    known = known_names(texts)
    return _EventNames(texts.to_frame("name"), codes_of(once), codes_of(names), known, known.numbers_of(texts))


def ask_event_names(trace: Trace, question: pl.Expr) -> npt.NDArray[np.generic]:
    """Return the answer to an expression over the text column ``name`` for every event, evaluated once per name."""
    names = _event_names(trace)
    return _of_codes(names, names.distinct.select(question).to_series().to_numpy())


def is_named(trace: Trace, pattern: str) -> BoolArray:
    """Return for every event whether its name matches a regular expression somewhere."""
    names = _event_names(trace)
    return _of_codes(names, names.known.matches(pattern, names.distinct["name"], names.numbers))


def _of_codes(names: _EventNames, answers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    table = np.zeros(int(names.codes.max(initial=0)) + 1, answers.dtype)
    table[names.codes] = answers
    return table[names.of_events]


def readable_names(trace: Trace, rows: IntArray, readable: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Return the names of some events as ``readable`` writes them, which is asked once per name; categorical."""
    names = _event_names(trace)
    at = _of_codes(names, np.arange(len(names.codes)))[rows]
    return readable(names.distinct["name"]).cast(pl.Categorical())[at]


def ask_names(names: pl.Series, question: pl.Expr) -> npt.NDArray[np.generic]:
    """Return the answer to an expression over the text column ``name`` for every row, evaluated once per distinct name.

    ``names`` is categorical: a trace has millions of rows but few names.
    """
    if len(names) == 0:
        return names.cast(pl.String).to_frame("name").select(question).to_series().to_numpy()
    codes = codes_of(names)
    used = last_rows(codes)
    once = names[used].cast(pl.String).to_frame("name")
    answers = once.select(question.alias("answer"))["answer"].to_numpy()
    table = np.zeros(int(codes.max()) + 1, answers.dtype)
    table[codes[used]] = answers
    return table[codes]


@once_per_trace
def launch_sources(trace: Trace) -> npt.NDArray[np.int32]:
    """Return for each event the row of the call that launched it, or -1."""
    launches = trace.flows.filter(pl.col("kind") == "launch")
    source = np.full(trace.events.height, NO_PARENT, np.int32)
    source[launches["target"].to_numpy()] = launches["source"].to_numpy()
    source.flags.writeable = False
    return source
