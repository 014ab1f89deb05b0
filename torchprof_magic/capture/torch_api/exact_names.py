"""Names as they were recorded, for torch's Python export.

Since torch 2.15, Kineto gets names with single quotes in place of double ones, and both exports write what it got.
``events()`` has the recorded names.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def exact_names(profiler: Any) -> Iterator[None]:
    """Let torch's profiler of a finished cycle export recorded names in this block, if Kineto got others."""
    results = profiler.kineto_results
    names = _changed_names(results)
    if names:
        profiler.kineto_results = _Results(results, names)
    try:
        yield
    finally:
        profiler.kineto_results = results


def _changed_names(results: Any) -> dict[tuple[int, str], str]:
    """Return the names with a double quote, by the start of the event in ns and what Kineto got."""
    found = ((event, event.name()) for event in results.events())
    return {(event.start_ns(), name.replace('"', "'")): name for event, name in found if '"' in name}


class _Results:
    """torch's results of a cycle with the recorded names."""

    def __init__(self, results: Any, names: dict[tuple[int, str], str]) -> None:
        self._results = results
        self._names = names

    def trace_activities(self) -> list[Any]:
        """Return Kineto's activities, of which those with another name stand behind one with the recorded name."""
        return [self._named(activity) for activity in self._results.trace_activities()]

    def _named(self, activity: Any) -> Any:
        name = self._names.get((activity.timestamp(), activity.name()))
        return activity if name is None else _Activity(activity, name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._results, name)


class _Activity:
    """One of Kineto's activities under the name that was recorded."""

    def __init__(self, activity: Any, name: str) -> None:
        self._activity = activity
        self._name = name

    def name(self) -> str:
        """Return the recorded name."""
        return self._name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._activity, name)
