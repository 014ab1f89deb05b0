"""When are the raw files of a run deleted? Soon after its report has gone, and at the end of the process.

Not while it goes: Python drops what is raised at that moment, a Ctrl-C too. Only ``deque.append`` runs then, C code
that no signal comes into; ``sweep`` deletes later, at moments at which an interrupt may end what is going on.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import weakref
from collections import deque
from typing import TYPE_CHECKING

from torchprof_magic.capture import FOLDER_PREFIX

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.capture.recording import Recording
    from torchprof_magic.report import Report


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
_known: dict[int, _RawFiles] = {}
_gone: deque[_RawFiles] = deque()
# Folders that were promised to a user who has no report of them.
_promised: set[Path] = set()


def delete_with(report: Report, recording: Recording) -> None:
    """Have the raw files of a run deleted when its report is not needed any more.

    Only a folder that a run made for itself is ever deleted; no folder at all is the empty path, which is "here".
    """
    if not recording.folder.name.startswith(FOLDER_PREFIX):
        return
    pid = os.getpid()
    files = _RawFiles(report, _gone.append)
    files.folder, files.snapshot, files.pid = recording.folder, recording.snapshot, pid  # no interrupt comes between
    _known[id(files)] = files


def keep_raw(recording: Recording) -> None:
    """Never delete the raw files of this run: its report may be half made, and goes with the interrupt that came."""
    _promised.add(recording.folder)


def sweep() -> None:
    """Delete the files of the runs whose reports have gone; what an interrupt leaves, the next call deletes."""
    while True:
        try:
            files = _gone.popleft()  # each by one thread only
        except IndexError:
            return
        try:
            files.delete()
        except BaseException:
            _gone.appendleft(files)
            raise
        _known.pop(id(files), None)


@atexit.register
def _delete_all() -> None:
    for files in list(_known.values()):
        files.delete()
