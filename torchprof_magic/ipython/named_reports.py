"""Finds the report that a word on a line of ``%torchprof`` names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.model.errors import OptionsError
from torchprof_magic.report.opening import open_kept, open_report
from torchprof_magic.runs import this_process
from torchprof_magic.runs.known import known_runs
from torchprof_magic.system.files.place import place_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchprof_magic.report.trace_report import Report

LAST = "last"
_WHAT = "last, the name of a kept run (%torchprof history lists them), a variable with a report, or a file"


def named_report(word: str, variables: Mapping[str, object]) -> Report:
    """Return the report of ``last``, a variable, a kept run or a file, looked for in this order.

    Raises ``OptionsError`` if there is none, and other ``TorchProfError`` for a file that cannot be read.
    """
    if word == LAST:
        report = this_process.last()
        if report is None:
            raise OptionsError("no run has been recorded in this kernel yet, so there is no last one to compare with")
        return report
    if hasattr(found := variables.get(word), "compare") and hasattr(found, "trace"):
        return found  # type: ignore[return-value]
    if any(run.home == "library" and run.title == word for run in known_runs()):
        return open_kept(word)
    place = place_of(word)
    if "://" in word or place.is_there:
        return open_report(place)
    raise OptionsError(f"no run is named {word!r}: expected {_WHAT}")
