"""What can go wrong, as one small tree.

TorchProfError
├── CaptureError          a recording could not be started, stopped or saved
│   └── ProfilerBusyError another profiler is already running in this process
├── IngestError           a file could not be read as a trace
│   └── NotATraceError    the file is something else; the message names what
├── ExportError           a file could not be written
├── StoreError            a trace could not be kept in the folder or at the address that was asked for
├── ProfileAssertionError  a run breaks the limits of ``Report.assert_profile``; also an AssertionError
└── OptionsError          options exclude each other or are out of range

Oddities *inside* a trace are not exceptions: they are counted as ``meta.Problem`` and shown in the report.
The user's own exception never becomes one of these.
"""

from __future__ import annotations

from torchprof_magic.model.units import printable_lines


class TorchProfError(Exception):
    """Base of every error that torchprof-magic raises on its own account."""

    def __str__(self) -> str:
        """Return the message; names of files and of other programs in it cannot take control of a terminal."""
        return printable_lines(super().__str__())


class CaptureError(TorchProfError):
    """A recording could not be started, stopped or saved."""


class ProfilerBusyError(CaptureError):
    """Another profiler is already running; torch cannot nest them without losing data."""


class IngestError(TorchProfError):
    """A file could not be read as a trace; the message says what happened and what to do."""


class NotATraceError(IngestError):
    """The file is readable but is something other than a Kineto trace."""


class ExportError(TorchProfError):
    """A file could not be written; what was there before is untouched."""


class StoreError(TorchProfError):
    """A trace could not be stored or uploaded; the file it was to come from is still there."""


class ProfileAssertionError(TorchProfError, AssertionError):
    """A run breaks limits; the message is a table of them."""


class OptionsError(TorchProfError, ValueError):
    """Options exclude each other or are out of range; nothing was run."""
