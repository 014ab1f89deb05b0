"""Deleting the raw files of a run soon after its report is garbage-collected, and at the end of the process.

They are not deleted in the callback of the weak reference, because Python ignores exceptions there, even a Ctrl-C. The
callback is ``deque.append``, C code that no signal handler interrupts; ``sweep`` deletes later, where an interrupt may
be raised.
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

    from torchprof_magic.model.recording import Recording
    from torchprof_magic.report.trace_report import Report


class _RawFiles(weakref.ref["Report"]):
    """The folder of one run, until its report is gone. A ``snapshot`` in it stays, for use after a restart."""

    __slots__ = ("folder", "pid", "snapshot")

    folder: Path
    snapshot: Path | None
    pid: int

    def delete(self) -> None:
        """Delete the files; does nothing in a forked child, because its parent may still use them."""
        if os.getpid() != self.pid or self.folder in _promised:
            return
        if self.snapshot is None or self.snapshot.parent != self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        for path in self.folder.glob("*"):
            if path != self.snapshot:
                with contextlib.suppress(OSError):
                    path.unlink()


# The files of existing reports, and of reports that are gone.
_known: dict[int, _RawFiles] = {}
_gone: deque[_RawFiles] = deque()
# Folders of runs without a report, which the user was told to open.
_promised: set[Path] = set()


def delete_with(report: Report, recording: Recording) -> None:
    """Delete the raw files of a run when its report is gone.

    Only a folder that a run created itself is ever deleted, never the empty path, which is the current directory.
    """
    if not recording.folder.name.startswith(FOLDER_PREFIX):
        return
    pid = os.getpid()
    files = _RawFiles(report, _gone.append)
    files.folder, files.snapshot, files.pid = recording.folder, recording.snapshot, pid  # no interrupt comes between
    _known[id(files)] = files


def keep_raw(recording: Recording) -> None:
    """Never delete the raw files of this run, even if a partly made report of it is garbage-collected."""
    _promised.add(recording.folder)


def sweep() -> None:
    """Delete the files of runs whose reports are gone; after an interrupt the next call continues."""
    while True:
        try:
            files = _gone.popleft()  # so that only one thread deletes it
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
