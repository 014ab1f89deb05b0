"""The runs that this process has recorded: the last one, those still in memory, and what all others are compared by."""

from __future__ import annotations

import time
from collections import deque
from difflib import SequenceMatcher
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torchprof_magic.model.meta import CellSource
    from torchprof_magic.model.trace import Trace

# Memory must not grow with the number of runs.
MAX_ENTRIES = 200
MAX_CELLS = 32
MAX_OPS = 20_000
# A cell of whose lines so many are the same is the same cell, edited.
SAME_CELL = 0.6
_MOST_COMPARED_LINES = 200


class Run(Protocol):
    """What is used of a ``Report`` of a run."""

    trace: Trace

    @property
    def run_id(self) -> str:
        """The id of the run."""

    @property
    def change_line(self) -> str:
        """How the steps changed since an earlier run, once that is known."""

    @property
    def step_ns(self) -> float:
        """The typical complete step in ns, else nan."""

    def sample(self) -> Any:
        """Return what the steps of a later run are compared with when this report is gone."""

    def compare_with_sample(self, earlier: Any) -> None:
        """Say in ``change_line`` how the steps changed since an earlier run."""


class Entry(NamedTuple):
    """A summary of a run whose report may be gone. ``step_ns`` is its typical complete step.

    ``change`` says how the steps changed since the run of the same cell before, empty for the first.
    """

    unix_s: float
    title: str
    run_id: str
    events: int
    steps: int
    step_ns: float | None
    cell: int | None = None
    change: str = ""


class _Sample:
    """What a later run of a cell is compared with; the report is kept until that is taken from it."""

    def __init__(self, report: Run) -> None:
        self._report: Run | None = report
        self._sample: Any = None

    def take(self) -> Any:
        """Return it, or ``None`` if taking it failed before."""
        report, self._report = self._report, None
        if report is not None:
            self._sample = report.sample()
        return self._sample


class _Cell(NamedTuple):
    """The last run of a cell: its number among the cells, its id in the notebook if known, its text, its steps."""

    number: int
    cell_id: str
    source: str
    sample: _Sample


_reports: list[Run] = []
# The recordings that the user or an open live view still holds, by run.
_held: WeakValueDictionary[str, Trace] = WeakValueDictionary()
_entries: deque[Entry] = deque(maxlen=MAX_ENTRIES)
_cells: deque[_Cell] = deque(maxlen=MAX_CELLS)
_ops: set[str] = set()


def at_once(work: Callable[[], object]) -> None:
    """Do what could wait."""
    work()


def remember(
    report: Run, name: str = "", cell_id: str = "", later: Callable[[Callable[[], object]], None] = at_once
) -> None:
    """Make ``report`` the value of ``torchprof_magic.last``, and add it to the history under ``name`` or its title.

    The report of a cell that ran before is told how its steps changed; ``cell_id`` is that of the notebook, if known.
    ``later`` is called with what only the next run of the cell needs.
    """
    _reports[:] = [report]
    _held[report.run_id] = report.trace
    trace = report.trace
    number = _compare_with_last(report, cell_id, later)
    whole = trace.steps.filter("complete")
    _entries.append(
        Entry(
            unix_s=time.time(),
            title=name or trace.meta.title,
            run_id=report.run_id,
            events=trace.events.height,
            steps=whole.height,
            step_ns=None if isnan(report.step_ns) else report.step_ns,
            cell=number,
            change=report.change_line,
        )
    )


def _compare_with_last(report: Run, cell_id: str, later: Callable[[Callable[[], object]], None]) -> int | None:
    """Tell the report how it changed since the last run of its cell, and return the number of the cell."""
    cell = report.trace.meta.cell
    if cell is None:
        return None
    known = _same_cell(cell, cell_id)
    number = known.number if known is not None else max((each.number for each in _cells), default=0) + 1
    if known is not None:
        _cells.remove(known)
    earlier = known.sample.take() if known is not None else None
    if earlier is not None and not report.change_line:  # it was compared with another run, as was asked for
        report.compare_with_sample(earlier)
    sample = _Sample(report)
    _cells.append(_Cell(number, cell_id, cell.source, sample))
    later(sample.take)
    return number


def _same_cell(cell: CellSource, cell_id: str) -> _Cell | None:
    """Return the last run of a cell: that of the same id, or else, where ids are not known, of nearly the same text."""
    for known in reversed(_cells):
        if cell_id and known.cell_id:
            if cell_id == known.cell_id:
                return known
        elif _is_alike(known.source, cell.source):
            return known
    return None


def _is_alike(first: str, second: str) -> bool:
    """Return whether most lines of two cells are the same; flags may differ."""
    lines = [
        [line for line in text.split("\n") if not line.startswith("%%")][:_MOST_COMPARED_LINES]
        for text in (first, second)
    ]
    return SequenceMatcher(None, lines[0], lines[1], autojunk=False).ratio() >= SAME_CELL


def ops_before(names: Iterable[str]) -> tuple[str, ...]:
    """Return which ops an earlier run has recorded, in order; from now on, these have all been."""
    names = set(names)
    before = tuple(sorted(names & _ops))
    if len(_ops) + len(names) <= MAX_OPS:
        _ops.update(names)
    return before


def known_ops() -> frozenset[str]:
    """Return the ops that earlier runs have recorded."""
    return frozenset(_ops)


def last() -> Any:
    """Return the newest report of this process, or ``None`` before the first."""
    return _reports[0] if _reports else None


def entries() -> list[Entry]:
    """Return the summaries of the runs of this process, the oldest first."""
    return list(_entries)


def held(run_id: str) -> Trace | None:
    """Return the recording of a run of this process, or ``None`` if nothing holds it any more."""
    return _held.get(run_id)
