"""Which other threads and processes are at work while one thread is recorded?

torch records the thread that started the profiler and what autograd runs for it. A thread or a process of the user's
own is not seen at all, and nothing in the trace tells.
"""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from functools import wraps
from multiprocessing import process as processes
from typing import TYPE_CHECKING

from torchprof_magic.capture.torch_api.patching import stand_in
from torchprof_magic.capture.watch.frames import current_frames

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from torchprof_magic.capture.problems import ProblemLog

# Threads that front ends, debuggers, progress bars, loaders and pools keep for themselves; none of them runs an op.
_MODULES = ("IPython", "ipykernel", "zmq", "tornado", "jupyter_client", "tqdm", "debugpy", "pydevd", "_pydevd_bundle")
_LOADER = "torch.utils.data"
_POOL_WORKER = "PoolWorker"  # multiprocessing.Pool names its processes so
_EXECUTOR = "_ExecutorManagerThread"  # of concurrent.futures.ProcessPoolExecutor
_NAMES = (
    "QueueFeederThread",
    "_pin_memory_loop",
    "IPythonHistorySavingThread",
    "_handle_workers",  # this and the next two are of multiprocessing.Pool, beside its workers
    "_handle_tasks",
    "_handle_results",
)


class Bystanders:
    """The threads, and the processes begun by this one, that may run ops besides the recorded thread."""

    def __init__(self) -> None:
        self._before = {thread.ident for thread in threading.enumerate()}
        self._begun: dict[str, None] = {}
        self._begun_processes: dict[str, None] = {}

    def watch(self, is_recording: Callable[[], bool]) -> Callable[[], None]:
        """Note every thread and process that begins while ``is_recording()``; return what ends the watch.

        A pool that lives within one step is gone before anybody can look for it.
        """
        original, original_process = threading.Thread.start, processes.BaseProcess.start

        @wraps(original)
        def start(thread: threading.Thread) -> None:
            __tracebackhide__ = True
            if is_recording() and not _is_known(thread):
                self._begun[thread.name] = None
            original(thread)

        @wraps(original_process)
        def start_process(process: processes.BaseProcess) -> None:
            __tracebackhide__ = True
            if is_recording() and not _is_loader(process):
                self._begun_processes[str(process.name)] = None
            original_process(process)

        with ExitStack() as undo:
            undo.callback(stand_in(threading.Thread, "start", start))
            undo.callback(stand_in(processes.BaseProcess, "start", start_process))
            return undo.pop_all().close

    def processes_seen(self) -> list[str]:
        """Return the names of processes that began in recorded steps, or belong to a pool or an executor.

        Of others that were there before nobody knows what they do: workers of a DataLoader show by the waiting for
        them, and some are managers.
        """
        # Asking for them by the public name would end those that are done: that is the user's to do.
        children = [str(child.name) for child in list(getattr(processes, "_children", ()))]
        pools = [name for name in children if _POOL_WORKER in name]
        managers = [thread for thread in threading.enumerate() if type(thread).__name__ == _EXECUTOR]
        workers = [
            worker for thread in managers for worker in list((getattr(thread, "processes", None) or {}).values())
        ]
        return list(dict.fromkeys([*self._begun_processes, *pools, *(str(worker.name) for worker in workers)]))

    def note_threads(self, problems: ProblemLog) -> None:
        """Note, once, which other threads are or were at work."""
        _note_once(
            problems,
            "capture.other_threads",
            self.seen_now,
            "Other threads were at work too ({}); their ops are not in the recording.",
            "Record them with --all-threads, in a run without --memory.",
        )

    def note_processes(self, problems: ProblemLog) -> None:
        """Note, once, which other processes were there."""
        _note_once(
            problems,
            "capture.other_processes",
            self.processes_seen,
            "Other processes were there too ({}); what they do is not in the recording.",
            "Record a few steps that do the work in this process.",
        )

    def may_have_begun(self) -> bool:
        """Tell in a microsecond whether it is worth asking who is there: looking at every thread takes twenty."""
        return bool(self._begun) or threading.active_count() > len(self._before)

    def seen_now(self) -> list[str]:
        """Return the names of threads that began since, or that are at work at this moment and not waiting."""
        return list(dict.fromkeys([*self._begun, *self._alive()]))

    def _alive(self) -> list[str]:
        threads = threading.enumerate()
        if len(threads) == 1:
            return []
        here = threading.get_ident()
        # Our own frame would hold itself, and all around it: the user's iterator, and the batch of this step.
        frames = {ident: frame for ident, frame in current_frames().items() if ident != here}
        return [
            thread.name
            for thread in threads
            if thread.ident != here
            and not _is_known(thread)
            and (thread.ident not in self._before or _is_at_work(frames.get(thread.ident or 0)))
        ]


def _note_once(problems: ProblemLog, code: str, look: Callable[[], list[str]], message: str, fix: str) -> None:
    """Note three of the names that ``look`` finds, if any; it takes a while, so nobody looks for what is noted."""
    if not problems.has(code) and (names := look()):
        problems.note(code, "warning", message.format(", ".join(names[:3])), fix)


def _is_loader(process: processes.BaseProcess) -> bool:
    """Return whether a process that is about to begin will work for a DataLoader; later, Python has forgotten that."""
    target = vars(process).get("_target")
    return str(getattr(target, "__module__", "")).startswith(_LOADER)


def _is_known(thread: threading.Thread) -> bool:
    module = type(thread).__module__.partition(".")[0]
    return module in _MODULES or any(name in thread.name for name in _NAMES)


def _is_at_work(frame: FrameType | None) -> bool:
    """Tell a thread in the user's code, or a library's, from one that waits in the standard library for work."""
    if frame is None:
        return False
    module = frame.f_globals.get("__name__", "").partition(".")[0]
    return module == "__main__" or (module not in sys.stdlib_module_names and module not in _MODULES)
