"""Profile PyTorch inside the notebook cell.

In a notebook: ``%load_ext torchprof_magic``, then ``%%torchprof`` at the top of a cell. Anywhere else:
``with torchprof_magic.profile() as p: ...``. Importing this package loads neither torch nor IPython.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from torchprof_magic.capture import name_compiled_code, prime
    from torchprof_magic.findings.advice import Advice
    from torchprof_magic.jobs.engines import ranks
    from torchprof_magic.jobs.report import RanksReport
    from torchprof_magic.loading import load
    from torchprof_magic.model.errors import (
        CaptureError,
        ExportError,
        IngestError,
        NotATraceError,
        OptionsError,
        ProfileAssertionError,
        ProfilerBusyError,
        StoreError,
        TorchProfError,
    )
    from torchprof_magic.profiling import add_metadata, paused, profile, step, steps
    from torchprof_magic.report import formulas, peaks, rules
    from torchprof_magic.report.comparison import Comparison
    from torchprof_magic.report.peaks import measure_peak
    from torchprof_magic.report.trace_report import Report
    from torchprof_magic.trainers import callbacks

__version__ = "0.1.0"

__all__ = [
    "Advice",
    "CaptureError",
    "Comparison",
    "ExportError",
    "IngestError",
    "NotATraceError",
    "OptionsError",
    "ProfileAssertionError",
    "ProfilerBusyError",
    "RanksReport",
    "Report",
    "StoreError",
    "TorchProfError",
    "__version__",
    "add_metadata",
    "callbacks",
    "formulas",
    "last",
    "load",
    "measure_peak",
    "name_compiled_code",
    "paused",
    "peaks",
    "prime",
    "profile",
    "ranks",
    "rules",
    "step",
    "steps",
]

# Where each public name is defined. Loaded on first use, because torch alone takes more than a second to import.
_HOMES = {
    "Advice": "torchprof_magic.findings.advice",
    "Comparison": "torchprof_magic.report.comparison",
    "RanksReport": "torchprof_magic.jobs.report",
    "Report": "torchprof_magic.report.trace_report",
    "add_metadata": "torchprof_magic.profiling",
    "load": "torchprof_magic.loading",
    "measure_peak": "torchprof_magic.report.peaks",
    "name_compiled_code": "torchprof_magic.capture",
    "paused": "torchprof_magic.profiling",
    "prime": "torchprof_magic.capture",
    "profile": "torchprof_magic.profiling",
    "ranks": "torchprof_magic.jobs.engines",
    "step": "torchprof_magic.profiling",
    "steps": "torchprof_magic.profiling",
    **{name: "torchprof_magic.model.errors" for name in __all__ if name.endswith("Error")},
}
_MODULES = {
    "callbacks": "torchprof_magic.trainers.callbacks",
    "formulas": "torchprof_magic.report.formulas",
    "peaks": "torchprof_magic.report.peaks",
    "rules": "torchprof_magic.report.rules",
}
last: Report | None


def __getattr__(name: str) -> Any:
    from torchprof_magic.system.process.imports import import_whole  # noqa: PLC0415 - only for those who use a name

    if name == "last":
        return import_whole("torchprof_magic.runs.this_process").last()
    if name in _MODULES:
        return import_whole(_MODULES[name])
    if name in _HOMES:
        return getattr(import_whole(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register ``%%torchprof`` and ``%torchprof``; called by ``%load_ext torchprof_magic``."""
    from torchprof_magic.system.process.imports import import_whole  # noqa: PLC0415 - IPython is loaded by then

    import_whole("torchprof_magic.ipython.extension").load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Remove the magics; called by ``%unload_ext torchprof_magic``."""
    from torchprof_magic.ipython.extension import unload  # noqa: PLC0415

    unload(shell)
