"""The problems of a report, the most severe first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.findings.verdict.diagnosis import all_problems
from torchprof_magic.model.shapes import Problems

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

_WORST_FIRST = {"data_loss": 0, "warning": 1, "info": 2}


def problem_list(trace: Trace) -> Problems:
    """Return every kind of problem of recording and reading, the most severe first."""
    return Problems(problems=tuple(sorted(all_problems(trace), key=lambda problem: _WORST_FIRST[problem.severity])))
