"""The process that makes early reports: ``python -m torchprof_magic.run.early.worker``.

It takes only what no other program wants of the machine, so that the loop that still runs does not get slower.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress
from typing import IO

import psutil

from torchprof_magic.report.trace_report import Report
from torchprof_magic.run.early.wire import GIVE_WAY, Asked, Made, asked_of, read, write
from torchprof_magic.run.recorded_trace import trace_of
from torchprof_magic.system.process.memory import lack_for_reading

_LEAST_PRIORITY = 19
# A notebook that is only read does not keep the memory of the process.
IDLE_S = 600.0


def page_of(asked: Asked) -> Made:
    """Return the page of a recording; an empty one where memory is short."""
    if lack_for_reading(asked.recording.size_bytes):
        return Made()
    trace, _ = trace_of(
        asked.recording,
        title=asked.title,
        cell=asked.cell,
        cell_labels=asked.cell_labels,
        ops_before=lambda names: tuple(sorted(asked.known_ops.intersection(names))),
        keeps=True,
    )
    page = Report(trace, run_id=asked.run_id).early_page()
    return Made(header=page.header, data=page.data)


def serve(asked: IO[bytes], answers: IO[bytes]) -> None:
    """Answer every request, until there is no more, or none for ten minutes."""
    while _is_asked(asked) and (packed := read(asked)) is not None:
        try:
            made = page_of(asked_of(packed))
        except Exception as exc:  # noqa: BLE001 - the report of the whole run is made in any case
            made = Made(error=f"{type(exc).__name__}: {exc}")
        write(answers, made)


def _is_asked(asked: IO[bytes]) -> bool:
    """Wait for the next request; returns False if there is none for long. Where that cannot be told, there is one."""
    try:
        return bool(select.select([asked], [], [], IDLE_S)[0])
    except (OSError, ValueError):  # on Windows, and of what is no file
        return True


def main() -> None:
    """Serve the process that started this one, until it closes the input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the user's cell
    if GIVE_WAY in sys.argv:
        _give_way()
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not be taken for an answer
        with suppress(OSError):  # the kernel has ended meanwhile
            serve(sys.stdin.buffer, answers)


def _give_way() -> None:
    """Run only while a core has nothing else to do, where the system can do that."""
    process = psutil.Process()
    with suppress(psutil.Error, OSError):
        process.nice(getattr(psutil, "IDLE_PRIORITY_CLASS", _LEAST_PRIORITY))
    with suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


if __name__ == "__main__":
    main()
