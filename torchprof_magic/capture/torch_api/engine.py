"""One cycle of torch's profiler: preparing, starting, stopping, and recovering from interrupted transitions."""

from __future__ import annotations

import gzip
import shutil
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any

from torch.profiler import record_function

from torchprof_magic.capture.torch_api import compat
from torchprof_magic.capture.torch_api.exact_names import exact_names
from torchprof_magic.system.process.python_warnings import warnings_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from torch._C._autograd import _ProfilerResult

    from torchprof_magic.capture.torch_api.cycle_profile import CycleProfile
    from torchprof_magic.options import ProfileOptions


# torch's own methods: during a recording, those of the class are replaced to note the user's ranges.
_enter, _leave = record_function.__enter__, record_function.__exit__


class Stage(Enum):
    """The stage of an engine; an exception inside torch leaves it in a stage that ends in -ing."""

    NEW = "new"
    PREPARING = "preparing"
    PREPARED = "prepared"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    OFF = "off"


def _unpack(packed: Path, path: Path) -> None:
    """Unpack a file that torch gave another name, and delete it, unless it wrote the one that was asked for."""
    if packed.exists() and not path.exists():
        with gzip.open(packed) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)
    packed.unlink(missing_ok=True)


class Engine:
    """One cycle: new, prepared (warm-up), running, off. Each method makes one transition."""

    preparing = False
    """True, for the class, while any of our engines prepares; distinguishes our calls from those of other profilers."""

    _left: Engine | None = None
    """An engine that could not be started when it was abandoned; torch 2.6 prepares no other until it has been."""

    def __init__(self, options: ProfileOptions, execution_path: Path | None = None) -> None:
        self.execution_path = execution_path
        has_resources = options.execution_trace_resources
        self._observer = None
        if execution_path is not None:
            self._observer = compat.observe_execution(str(execution_path), has_resources=has_resources)
        self.profiler = compat.make_profiler(options, self._observer)
        self.metadata = options.metadata
        self._is_on = compat.is_profiler_on
        self.stage = Stage.NEW
        self.is_of_all_threads = False
        self.has_device = self.profiler.use_device is not None
        self._open_step: record_function | None = None

    def prepare(self) -> None:
        """Enter warm-up: Kineto is set up, nothing is kept."""
        Engine.settle()
        self._prepare()

    def _prepare(self) -> None:
        self.stage = Stage.PREPARING
        Engine.preparing = True
        try:
            self.profiler.prepare_trace()
        finally:
            Engine.preparing = False
        self.stage = Stage.PREPARED

    def start(self) -> None:
        """Start recording; only when prepared."""
        self.stage = Stage.STARTING
        block = compat.small_block() if self.profiler.profile_memory else None
        self.profiler.start_trace()
        del block  # torch warns when a block older than the recording is first released: here, not in a step
        for key, text in self.metadata:
            self.profiler.add_metadata_json(key, text)
        self.is_of_all_threads = not compat.is_profiler_on()  # such a profiler is not seen on its own thread
        if self.is_of_all_threads:
            self._is_on = compat.is_any_profiler_on
        self.stage = Stage.RUNNING

    def open_step(self, number: int) -> None:
        """Begin the annotation of one step, named as torch names it."""
        self._open_step = record_function(f"ProfilerStep#{number}")
        with compat.without_user_modes():
            _enter(self._open_step)  # type: ignore[no-untyped-call]

    def close_step(self) -> None:
        """End the annotation of the step that is open, if one is."""
        step, self._open_step = self._open_step, None
        if step is not None:
            with compat.without_user_modes():
                _leave(step, None, None, None)

    def stop(self) -> None:
        """End the recording; afterwards ``has_data`` tells if there is something to save."""
        self.close_step()
        self.stage = Stage.STOPPING
        self.profiler.stop_trace()
        self.stage = Stage.OFF
        self.end_observer()

    def abandon(self) -> None:
        """Switch the profiler off, whatever its stage, and keep its data if there is any.

        Stopping a profiler that was never prepared is a SIGSEGV in torch 2.13, so an interrupted one is prepared again
        first. If it cannot be started, it is left to ``settle``.
        """
        if self.stage is Stage.NEW:
            self.end_observer()
        if self.stage in (Stage.NEW, Stage.OFF):
            return
        if self.stage in (Stage.RUNNING, Stage.STARTING, Stage.STOPPING) and self._is_on():
            self.stop()
            return
        if self.stage is Stage.PREPARING:
            self._prepare()
        if self.stage is Stage.STARTING:
            with suppress(RuntimeError):  # torch 2.6 refuses to prepare again what is prepared, and needs no more
                self._prepare()
            self.stage = Stage.PREPARED
        if self.stage is Stage.PREPARED:
            Engine._left = self
            self.start()
            Engine._left = None
            self.stop()
        if self.stage is Stage.STOPPING:  # torch has failed to stop, but is off
            compat.note_off()
        self.stage = Stage.OFF
        self.end_observer()

    @staticmethod
    def settle() -> None:
        """Start and stop an engine that could not be started when it was abandoned, if there is one and it can be."""
        left = Engine._left
        if left is None or compat.is_any_profiler_on():
            return
        with suppress(Exception):
            left.profiler.start_trace()
            Engine._left = None
            left.profiler.stop_trace()
        compat.switch_off()

    def toggle(self, names: Iterable[str], *, is_on: bool) -> None:
        """Stop recording some activities, or continue; steps are marked in either case."""
        if self.stage is Stage.RUNNING:
            compat.toggle(self.profiler, names, is_on=is_on)

    def add_metadata(self, metadata: Mapping[str, str]) -> None:
        """Add JSON texts to the trace, now or when the recording starts."""
        self.metadata = tuple({**dict(self.metadata), **metadata}.items())
        if self.stage is Stage.RUNNING:
            for key, text in metadata.items():
                self.profiler.add_metadata_json(key, text)

    def end_observer(self) -> None:
        """Complete the execution trace, whose end torch writes only now."""
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.unregister_callback()

    @property
    def has_own_device_export(self) -> bool:
        """True if torch merges the device's work into the trace when it exports it, and perhaps does so later."""
        return bool(getattr(self.profiler, "_use_cuspy", False))

    def export(self, path: Path) -> None:
        """Write the trace by torch's fast export, which works once, and wait for one that torch writes later."""
        profiler: Any = self.profiler
        with warnings_to():  # a file that did not come is noticed
            profiler.export_chrome_trace(str(path))
            if self.has_own_device_export:
                with suppress(Exception):
                    profiler.wait_for_exports()
                _unpack(path.with_name(f"{path.name}.gz"), path)

    def export_again(self, path: Path) -> None:
        """Write the trace by torch's Python export, which is slower, escapes names and can be repeated.

        It has only the host's work if torch merges the device's work into the trace later.
        """
        profiler: Any = self.profiler
        with exact_names(profiler.profiler):
            if self.has_own_device_export:
                profiler.profiler.export_chrome_trace(str(path), profiler._trace_metadata, use_python_export=True)  # noqa: SLF001 - as its own method does
            else:
                profiler.export_chrome_trace(str(path), use_python_export=True)

    def finished_profiler(self, saved: Path | bytes, size_bytes: int) -> CycleProfile:
        """Return torch's profiler for the user's handler; its export copies the file that was saved.

        torch can export only once, which has been done. ``saved`` is the file, or what was in one that is not kept.
        """
        self.profiler.saved, self.profiler.trace_bytes = saved, size_bytes
        return self.profiler

    @property
    def is_torn(self) -> bool:
        """True if it should be running but torch's profiler is off, because another profiler took the session."""
        return self.stage is Stage.RUNNING and not self._is_on()

    @property
    def start_unix_ns(self) -> int | None:
        """Wall clock at the start of the trace, as Kineto noted it."""
        start_ns = getattr(self._results, "trace_start_ns", None)
        return start_ns() or None if start_ns else None

    @property
    def has_data(self) -> bool:
        """False if nothing was recorded; ``save`` on such a result is a SIGSEGV in torch 2.13."""
        return self._results is not None and (not hasattr(self._results, "trace_start_ns") or bool(self.start_unix_ns))

    def recorded_names(self) -> set[str]:
        """Return the names of all events, as they were recorded; only when there is data."""
        return set() if self._results is None else {event.name() for event in self._results.events()}

    @property
    def event_count(self) -> int:
        """The number of recorded events."""
        return 0 if self._results is None else len(self._results.events())

    @property
    def _results(self) -> _ProfilerResult | None:
        return getattr(self.profiler.profiler, "kineto_results", None)
