"""``ranks(view)``: one report of the runs that were recorded on the engines of an ipyparallel cluster."""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from torchprof_magic.findings.ranks.frames import rank_frames
from torchprof_magic.jobs.load import joined, report_of_saved
from torchprof_magic.jobs.wire import Sent, failed, packed
from torchprof_magic.model.errors import IngestError
from torchprof_magic.model.problems import problem
from torchprof_magic.model.units import printable
from torchprof_magic.report.trace_report import Report
from torchprof_magic.runs.this_process import last

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.jobs.report import RanksReport

# An engine that computes answers when its cell has ended, one that has died never.
ANSWER_S = 60.0
_NO_REPORT = "no report"


class Views(Protocol):
    """What is used of the ``DirectView`` of ipyparallel."""

    targets: Any
    client: Any


def ranks(view: Views, name: str = "", *, timeout: float = ANSWER_S) -> RanksReport:
    """Return one report of the runs that ``%%px`` and ``%%torchprof`` recorded on the engines of a view.

    Args:
        view: A ``DirectView`` of ipyparallel, such as ``client[:]``.
        name: The variable of ``-o`` on the engines; by default the last run of each.
        timeout: How many seconds to wait for the answer of an engine, in all.

    Each engine sends small frames, not its trace. Engines that have died, that do not answer or that have recorded
    nothing are problems of the report, which has the others; ``rank(n)`` fetches the whole recording of one. Raises
    ``IngestError`` if no engine has a run.
    """
    targets = [view.targets] if isinstance(view.targets, int) else view.targets
    targets = targets if isinstance(targets, (list, tuple)) else view.client.ids
    asked = {int(engine): _ask(view, int(engine), frames_of_last, name) for engine in targets}
    sent: list[Sent] = []
    problems, silent = [], []
    for engine, answer in asked.items():
        found = _answer(answer, timeout, f"engine {engine}")
        if isinstance(found, str):
            problems.append(problem("ranks.engine_lost", error=found))
        elif found["error"] == _NO_REPORT:
            silent.append(engine)
        else:
            found.update(source=str(engine), file=f"engine {engine}")
            sent.append(found)
    if silent:
        problems.append(problem("ranks.no_report", count=len(silent), engines=", ".join(map(str, silent))))
    if not sent:
        raise IngestError(" ".join(f"{each.message} {each.fix}" for each in problems) or "the view has no engines")
    title = f"{name or 'last run'} on {len(asked)} engines"
    return joined(sent, title=title, opener=partial(_fetched, view, name, timeout), problems=problems)


def frames_of_last(name: str) -> Sent:
    """Return the frames of the last run of this process, or of the one called ``name``; runs on an engine."""
    report = _run_called(name)
    if report is None:
        return failed("", "", _NO_REPORT)
    return packed("", "", rank_frames(report.trace))


def saved_last(name: str) -> bytes:
    """Return the whole recording as a saved run; runs on an engine."""
    report = _run_called(name)
    if report is None:
        raise IngestError("the engine no longer has this run")
    with tempfile.TemporaryDirectory(prefix="torchprof-rank-") as folder:
        return report.save(Path(folder) / "run.torchprof").read_bytes()


def _run_called(name: str) -> Report | None:
    """Return the last run of this process, or the variable of its cells that is called ``name``."""
    found = getattr(sys.modules["__main__"], name, None) if name else last()
    return found if isinstance(found, Report) else None


def _ask(view: Views, engine: int, function: Callable[[str], object], name: str) -> object:
    """Return the pending answer of one engine, or why it cannot be asked."""
    try:
        return view.client[engine].apply_async(function, name)
    except Exception as exc:  # noqa: BLE001 - the client raises what it likes for an engine that is gone
        return printable(f"engine {engine} is gone ({type(exc).__name__}: {exc})")


def _answer(pending: Any, timeout: float, engine: str) -> Any:
    """Return what an engine answered, or a text that says why it did not."""
    if isinstance(pending, str):
        return pending
    try:
        return pending.get(timeout)
    except Exception as exc:  # noqa: BLE001 - remote errors are wrapped
        return printable(f"{engine}: {type(exc).__name__}: {exc}")


def _fetched(view: Views, name: str, timeout: float, engine: str) -> Report:
    data = _answer(_ask(view, int(engine), saved_last, name), timeout, f"engine {engine}")
    if isinstance(data, str):
        raise IngestError(data)
    return report_of_saved(data)
