"""When are the raw files of a run deleted? Soon after its report has gone, and at the end of the process.

Not while it goes: Python drops what is raised at that moment, a Ctrl-C too. Only a list's C code runs then, which no
signal comes into; ``sweep`` deletes later, at moments at which an interrupt may end what is going on.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import weakref
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.capture.recording import Recording
    from torchprof_magic.report import Report

RUN_FOLDER_PREFIX = "torchprof-"


class _RawFiles(weakref.ref["Report"]):
    """The folder of one run, by its report; ``snapshot`` in it stays, for it is wanted most after a restart."""

    __slots__ = ("folder", "pid", "snapshot")

    folder: Path
    snapshot: Path | None
    pid: int

    def delete(self) -> None:
        """Delete the files; a forked child leaves alone what its parent still shows."""
        if os.getpid() != self.pid or self.folder in _promised:
            return
        if self.snapshot is None or self.snapshot.parent != self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        for path in self.folder.glob("*"):
            if path != self.snapshot:
                with contextlib.suppress(OSError):
                    path.unlink()


# Those with a report, and those whose report has gone.
_known: list[_RawFiles] = []
_gone: deque[_RawFiles] = deque()
# Folders that were promised to a user who has no report of them.
_promised: set[Path] = set()


def delete_with(report: Report, recording: Recording) -> None:
    """Have the raw files of a run deleted when its report is not needed any more.

    Only a folder that a run made for itself is ever deleted; no folder at all is the empty path, which is "here".
    """
    if not recording.folder.name.startswith(RUN_FOLDER_PREFIX):
        return
    files = _RawFiles(report, _gone.append)
    files.folder, files.snapshot, files.pid = recording.folder, recording.snapshot, os.getpid()
    _known.append(files)


def keep_raw(recording: Recording) -> None:
    """Never delete the raw files of this run: its report may be half made, and goes with the interrupt that came."""
    _promised.add(recording.folder)


def sweep() -> None:
    """Delete the files of the runs whose reports have gone; what an interrupt leaves, the next call deletes."""
    while _gone:
        _gone[0].delete()
        _known[:] = [files for files in _known if files is not _gone[0]]
        _gone.popleft()


@atexit.register
def _delete_all() -> None:
    for files in _known:
        files.delete()
