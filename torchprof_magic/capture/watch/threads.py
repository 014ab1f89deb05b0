"""Threads and processes that begin while one thread is recorded.

torch records the thread that started the profiler and what autograd runs for it. Other threads and processes are not
recorded, and nothing in the trace says so.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from functools import wraps
from multiprocessing import process as processes
from typing import TYPE_CHECKING

from torchprof_magic.capture.parts import OTHER_THREADS
from torchprof_magic.capture.torch_api.patching import stand_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from torchprof_magic.capture.parts import Parts
    from torchprof_magic.capture.problems import ProblemLog

# Threads of front ends, debuggers, progress bars, loaders and pools. None of them runs ops.
_MODULES = ("IPython", "ipykernel", "zmq", "tornado", "jupyter_client", "tqdm", "debugpy", "pydevd", "_pydevd_bundle")
_LOADER = "torch.utils.data"
_POOL_WORKER = "PoolWorker"  # multiprocessing.Pool names its processes so
_EXECUTOR = "_ExecutorManagerThread"  # of concurrent.futures.ProcessPoolExecutor
_OF_C = "_DummyThread"  # as those of autograd, which torch records
_NAMES = (
    "QueueFeederThread",
    "_pin_memory_loop",
    "IPythonHistorySavingThread",
    "_handle_workers",  # this and the next two are of multiprocessing.Pool, beside its workers
    "_handle_tasks",
    "_handle_results",
    "torchprof-early",
)


class OtherThreads:
    """The threads and processes that began in recorded steps, or that belong to a pool of this process."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        nobody: set[int | None] = set()
        self._before = parts.ask(OTHER_THREADS, _idents, default=nobody)
        self._begun: dict[str, None] = {}
        self._begun_processes: dict[str, None] = {}

    def watch(self, is_recording: Callable[[], bool]) -> Callable[[], None]:
        """Note every thread and process that begins while ``is_recording()``; return a function that ends this.

        Listing them at the end of a step would miss a pool that ends within it.
        """
        original, original_process = threading.Thread.start, processes.BaseProcess.start

        @wraps(original)
        def start(thread: threading.Thread) -> None:
            __tracebackhide__ = True
            self._parts.run(OTHER_THREADS, self._note_thread, thread, is_recording)
            original(thread)

        @wraps(original_process)
        def start_process(process: processes.BaseProcess) -> None:
            __tracebackhide__ = True
            self._parts.run(OTHER_THREADS, self._note_process, process, is_recording)
            original_process(process)

        with ExitStack() as undo:
            undo.callback(stand_in(threading.Thread, "start", start))
            undo.callback(stand_in(processes.BaseProcess, "start", start_process))
            return undo.pop_all().close

    def _note_thread(self, thread: threading.Thread, is_recording: Callable[[], bool]) -> None:
        if is_recording() and not _is_known(thread):
            self._begun[thread.name] = None

    def _note_process(self, process: processes.BaseProcess, is_recording: Callable[[], bool]) -> None:
        if is_recording() and not _is_loader(process):
            self._begun_processes[str(process.name)] = None

    def processes_seen(self) -> list[str]:
        """Return the names of processes that began in recorded steps, or belong to a pool or an executor.

        Other processes that began earlier are left out, because they may be idle. Workers of a DataLoader show in the
        time that the loop waits for them.
        """
        # The public active_children() also joins processes that have ended, which is for the user's code to do.
        children = [str(child.name) for child in list(getattr(processes, "_children", ()))]
        pools = [name for name in children if _POOL_WORKER in name]
        managers = [thread for thread in threading.enumerate() if type(thread).__name__ == _EXECUTOR]
        workers = [
            worker for thread in managers for worker in list((getattr(thread, "processes", None) or {}).values())
        ]
        return list(dict.fromkeys([*self._begun_processes, *pools, *(str(worker.name) for worker in workers)]))

    def note_threads(self, problems: ProblemLog, at_work: Collection[int] = ()) -> None:
        """Note, once, which other threads are or were active; those ``at_work``, by native id, whenever they began."""
        if not problems.has("capture.other_threads") and (names := self.threads_seen(at_work)):
            problems.note("capture.other_threads", names=_few(names))

    def note_processes(self, problems: ProblemLog) -> None:
        """Note, once, which other processes are or were active."""
        if not problems.has("capture.other_processes") and (names := self.processes_seen()):
            problems.note("capture.other_processes", names=_few(names))

    def may_have_begun(self) -> bool:
        """Return, within a microsecond, whether listing the threads, which takes twenty, may find any."""
        return bool(self._begun) or threading.active_count() > len(self._before)

    def threads_seen(self, at_work: Collection[int] = ()) -> list[str]:
        """Return the names of the threads that began since this object was made, and of those ``at_work``."""
        alive = [
            thread.name
            for thread in threading.enumerate()
            if (thread.ident not in self._before or _is_one_of(thread, at_work)) and not _is_known(thread)
        ]
        return list(dict.fromkeys([*self._begun, *alive]))


def _idents() -> set[int | None]:
    return {thread.ident for thread in threading.enumerate()}


def _is_one_of(thread: threading.Thread, native_ids: Collection[int]) -> bool:
    """Return whether it is a thread of Python's with one of these ids, and not the one that asks."""
    is_other = thread is not threading.current_thread() and type(thread).__name__ != _OF_C
    return is_other and thread.native_id in native_ids


def _few(names: list[str]) -> str:
    return ", ".join(names[:3])


def _is_loader(process: processes.BaseProcess) -> bool:
    """Return whether a process that is about to start is a worker of a DataLoader; later this is not known."""
    target = vars(process).get("_target")
    return str(getattr(target, "__module__", "")).startswith(_LOADER)


def _is_known(thread: threading.Thread) -> bool:
    module = type(thread).__module__.partition(".")[0]
    return module in _MODULES or any(name in thread.name for name in _NAMES)
