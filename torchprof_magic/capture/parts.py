"""The parts that are set up around the user's code; a failure ends the part, never that code or the recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch

from torchprof_magic.capture.interrupts.guard import raised_by_handler
from torchprof_magic.capture.problems import ProblemLog
from torchprof_magic.model.errors import TorchProfError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

T = TypeVar("T")

BACKWARD = "The check for backward()"
CHECKS = "The check of options and this machine"
CLEANUP = "The deletion of old trace files"
COLLECTIONS = "The pause of garbage collection while a report is made"
COMPILATIONS = "The list of what torch.compile compiles"
COMPILED_CODE = "The lookup of why torch.compile compiled again or broke graphs"
COMPILED_STEPS = "The check for step() in compiled code"
CRASH_MARKER = "The marker for runs that are killed"
CUDA_GRAPHS = "The check for CUDA graphs"
DESCRIPTORS = "The reserve of file descriptors"
DEVICE_STATE = "The check whether the device still records"
EARLY = "The report that is shown while the loop runs"
FACTS = "The lookup of the CPU and the devices"
FREED_EVENTS = "Freeing torch's events of a saved recording"
FREE_MEMORY = "The check of free memory"
FUNCTIONS = "The timing of lines in your functions (--lines)"
FX_NAMES = "The naming of what runs in compiled code"
GRAPH_NOTES = "The lookup of what annotations say of CUDA graphs"
GARBAGE = "The watch for garbage collection"
HAND_OVER = "The change to the steps of a trainer"
HISTORY = "The history of the device's allocator (--snapshot)"
IMPORTS = "The count of modules that a step imports"
INTERRUPTS = "The handler that holds interrupts back while torch starts and stops"
KEPT_TRACES = "The check of the folder for kept traces"
LENGTHS = "The count of the steps of a loop"
LIMITS = "The check of the limits of a recording (--budget)"
LINES = "The timing of the cell's lines"
MARKED_LOOP = "The choice of the loop that makes the steps"
MODEL_CALLS = "The hook that begins a step when a model is called"
MODULES = "The timing of modules"
OBSERVER = "The execution trace"
OPTIMIZER = "The hook that ends a step when an optimizer steps"
OPTIMIZER_WATCH = "The watch for optimizers in the loops of the cell"
OTHER_PROFILERS = "The watch for other profilers"
OTHER_PROGRAMS = "The measurement of other programs' load"
OTHER_TASKS = "The watch for other asyncio tasks"
OTHER_THREADS = "The watch for other threads and processes"
PLACE = "The lookup of where a block begins"
PROGRESS = "The progress bar"
PYTHON_CALLS = "The limit of Python calls (--budget-calls)"
PYTHON_PROFILER = "The watch for another profiler of Python functions"
RANGES = "The watch for open record_function ranges"
RESTART = "The restart of the recording at its loop"
SAMPLE = "The summary with which the next run of the cell is compared"
START_OVER = "The change to another loop"
STDERR = "The filter of torch's log lines"
STORAGES = "The lookup of memory that was in use before the recording"
SUMMARY = "The account of missing steps"
TAGS = "The lookup of what memory is used for"
THREAD_TIME = "The reading of the thread's CPU time"
WAITS = "The watch for sleeps and waits"
WATCH = "The watch of the whole run (--watch)"


class Parts:
    """Runs each part so that an exception in it becomes one problem, and the part is not run again.

    An exception that the user's own signal handler raised, such as a timeout, is not the part's, and is let through.
    """

    def __init__(self, problems: ProblemLog | None = None) -> None:
        self._problems = ProblemLog() if problems is None else problems
        self._off: set[str] = set()

    def is_off(self, part: str) -> bool:
        """Return whether the part has failed."""
        return part in self._off

    def run(self, part: str, act: Callable[..., object], *arguments: object) -> None:
        """Call ``act(*arguments)`` unless the part has failed before."""
        self.ask(part, act, *arguments, default=None)

    def ask(self, part: str, act: Callable[..., T], *arguments: object, default: T) -> T:
        """Return ``act(*arguments)``; ``default`` if it fails, or if the part has failed before."""
        if part in self._off:
            return default
        try:
            return act(*arguments)
        except Exception as exc:  # noqa: BLE001 - the user's code must not fail because of us
            self.fail(part, exc)
            return default

    def check(self, part: str, act: Callable[..., object], *arguments: object) -> None:
        """Call ``act(*arguments)``, which raises a ``TorchProfError`` for what the user has to know first."""
        try:
            act(*arguments)
        except TorchProfError:
            raise
        except Exception as exc:  # noqa: BLE001 - the same
            self.fail(part, exc)

    def set_up(self, part: str, begin: Callable[[], Callable[[], object]], undo: ExitStack) -> None:
        """Call ``begin``, and add what it returns, a function that ends the part again, to ``undo``."""
        end = self.ask(part, begin, default=None)
        if end is not None:
            undo.callback(self.undo, part, end)

    def undo(self, part: str, act: Callable[[], object]) -> None:
        """Call ``act``, which undoes what the part has set up, also after the part has failed."""
        try:
            act()
        except Exception as exc:  # noqa: BLE001 - the same
            self.fail(part, exc)

    def fail(self, part: str, error: Exception) -> None:
        """Switch the part off because of ``error``, which is being handled, and note it once."""
        if raised_by_handler(error):
            raise error
        if part not in self._off:
            self._off.add(part)
            text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            self._problems.note("capture.part_failed", part=part, error=text, torch=torch.__version__)
