"""Results that several analyses need, computed once per trace."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import polars as pl

from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.model.distinct import codes_of, last_rows, numbered
from torchprof_magic.model.fx_marks import SCOPE
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray
from torchprof_magic.model.known_names import KnownNames, known_names
from torchprof_magic.model.rows import are_in, filled, in_categories, rows_where, values_at
from torchprof_magic.model.trace import CATEGORIES, DEVICE_CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import Trace

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


def once_per_trace(build: Callable[[Trace], Result]) -> Callable[[Trace], Result]:
    """Cache the result of ``build`` for as long as the trace lives. Callers share it and must not change it."""
    kept: WeakKeyDictionary[Trace, tuple[Result]] = WeakKeyDictionary()

    @wraps(build)
    def once(trace: Trace) -> Result:
        found = kept.get(trace)
        if found is None:
            found = kept[trace] = (build(trace),)
        return found[0]

    return once


class OfPart(Protocol[Result_co]):
    """A result of a trace, or of what lies in a part of its time."""

    def __call__(self, trace: Trace, part: TimeRange = WHOLE) -> Result_co:
        """Return it; by default that of the whole trace."""


def once_for_the_whole(build: Callable[[Trace, TimeRange], Result]) -> OfPart[Result]:
    """Cache the result of ``build`` for the whole trace, as ``once_per_trace`` does, and for the steps that count.

    That of a range is made anew.
    """
    kept: WeakKeyDictionary[Trace, dict[TimeRange, Result]] = WeakKeyDictionary()

    @wraps(build)
    def of_part(trace: Trace, part: TimeRange = WHOLE) -> Result:
        if part != WHOLE and not part.left_out:
            return build(trace, part)
        known = kept.setdefault(trace, {})
        if part not in known:
            known[part] = build(trace, part)
        return known[part]

    return of_part


class _EventNames(NamedTuple):
    """The names of events: each once, which of these each event has, and where and how they are looked up."""

    distinct: pl.DataFrame
    of_events: npt.NDArray[np.int32]
    known: KnownNames
    numbers: IntArray


@once_per_trace
def _event_names(trace: Trace) -> _EventNames:
    names = trace.events["name"]
    rows, of_events = numbered(codes_of(names))
    texts = values_at(names, rows).cast(pl.String)
    known = known_names(texts)
    of_events.flags.writeable = False
    return _EventNames(texts.to_frame("name"), of_events, known, known.numbers_of(texts))


def name_numbers(trace: Trace) -> npt.NDArray[np.int32]:
    """Return a number for every event, from 0 on, which is that of all events of its name."""
    return _event_names(trace).of_events


def ask_event_names(trace: Trace, question: pl.Expr) -> npt.NDArray[np.generic]:
    """Return the answer to an expression over the text column ``name`` for every event, evaluated once per name."""
    names = _event_names(trace)
    answers: npt.NDArray[np.generic] = names.distinct.select(question).to_series().to_numpy()
    return answers[names.of_events]


def is_named(trace: Trace, pattern: str, *categories: str) -> BoolArray:
    """Return for every event whether its name matches a regular expression somewhere, and it is of some ``categories``.

    By default, all are. Most patterns match no name of most traces, which is known without looking at events.
    """
    if categories and _categories_there(trace).isdisjoint(categories):
        return np.zeros(trace.events.height, np.bool_)
    names = _event_names(trace)
    matches = names.known.matches(pattern, names.distinct["name"], names.numbers)
    if not matches.any():
        return np.zeros(trace.events.height, np.bool_)
    found = matches[names.of_events]
    return found & in_category(trace, *categories) if categories else found


@once_per_trace
def is_mark(trace: Trace) -> BoolArray:
    """Return which events are marks of torch.compile around others: scopes, and no ops."""
    return is_named(trace, SCOPE, "cpu_op", "user_annotation")


def readable_names(trace: Trace, rows: IntArray, readable: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Return the names of some events as ``readable`` writes them, which is asked once per name; categorical."""
    names = _event_names(trace)
    return values_at(readable(names.distinct["name"]).cast(pl.Categorical()), names.of_events[rows])


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
def _category_numbers(trace: Trace) -> npt.NDArray[np.unsignedinteger]:
    return codes_of(trace.events["category"])


@once_per_trace
def _categories_there(trace: Trace) -> frozenset[str]:
    """Return the categories of all events."""
    counts = np.bincount(_category_numbers(trace), minlength=len(CATEGORIES))
    return frozenset(name for name, count in zip(CATEGORIES, counts.tolist(), strict=True) if count)


def in_category(trace: Trace, *names: str) -> BoolArray:
    """Return which events are in one of a few categories."""
    return in_categories(_category_numbers(trace), *names)


@once_per_trace
def device_rows(trace: Trace) -> IntArray:
    """Return the rows of the work of devices: kernels, copies and fills."""
    rows = np.flatnonzero(in_category(trace, *DEVICE_CATEGORIES))
    rows.flags.writeable = False
    return rows


@once_per_trace
def device_numbers(trace: Trace) -> IntArray:
    """Return the device of each event as its number, 0 where it has none."""
    return filled(trace.events["device"], 0)


@once_per_trace
def launch_links(trace: Trace) -> pl.DataFrame:
    """Return the rows of launches and of their work, ``source`` and ``target``."""
    return rows_where(trace.flows, are_in(trace.flows["kind"], ("launch",)))


@once_per_trace
def launch_sources(trace: Trace) -> npt.NDArray[np.int32]:
    """Return for each event the row of the call that launched it, or -1."""
    launches = launch_links(trace)
    source = np.full(trace.events.height, NO_PARENT, np.int32)
    source[launches["target"].to_numpy()] = launches["source"].to_numpy()
    source.flags.writeable = False
    return source
