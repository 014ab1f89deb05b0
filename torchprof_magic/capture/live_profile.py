"""What a ``torch.profiler.profile`` offers, for a run whose recording is driven by a session."""

from __future__ import annotations

import json
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch.profiler import profile

from torchprof_magic.capture.torch_api import compat, features
from torchprof_magic.capture.torch_api.settled import settled
from torchprof_magic.capture.watch.pauses import Pause
from torchprof_magic.model.errors import CaptureError, OptionsError, TorchProfError
from torchprof_magic.options import activities_of, metadata_of
from torchprof_magic.system.process.memory import lack_for_reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torchprof_magic.capture.session import CaptureSession
    from torchprof_magic.capture.torch_api.cycle_profile import CycleProfile, TorchState
    from torchprof_magic.options import ProfileOptions


class LastCycle:
    """The handler of every cycle of a run: keeps torch's profiler of the last one, then calls the user's handler.

    torch holds the events of the last cycle in memory for as long as its profiler lives, six to eight times as many
    bytes as the trace has (measured with 1,000,000 events). So do we, until the profile is used again or gone, unless
    reading the trace needs that memory: then they are ``released``, and only the file is left. ``state`` returns where
    the run is if it has no schedule, by which each profiler is marked.
    """

    def __init__(
        self, handler: Callable[[Any], object] | None, state: weakref.WeakMethod[Callable[[], TorchState | None]]
    ) -> None:
        self.handler = handler
        self.profiler: CycleProfile | None = None
        self.released: CycleProfile | None = None
        self._state = state
        self._trace_bytes = 0  # of all cycles, which are read together

    def __call__(self, profiler: CycleProfile) -> None:
        """Keep the profiler of a cycle that has been saved, and hand it over."""
        ask = self._state()  # not of a profile that is gone, which this must not keep alive
        state = None if ask is None else ask()
        if state is not None:
            profiler.mark(state)
        self._trace_bytes += profiler.trace_bytes
        is_short = lack_for_reading(self._trace_bytes) is not None
        self.profiler = None if is_short else profiler
        self.released = profiler.without_results() if is_short else None
        if self.handler is not None:
            self.handler(profiler)

    def drop(self) -> None:
        """Release what is kept: the session that has this as its handler may live on for a while."""
        self.profiler = self.released = None


def _settled(options: ProfileOptions) -> ProfileOptions:
    """Return the options without what torch would leave out; as they are where that cannot be told."""
    try:
        return settled(options)
    except (Warning, TorchProfError):  # the program may want warnings to be errors
        raise
    except Exception:  # noqa: BLE001 - the check before the recording fails as well, and says so
        return options


class LiveProfile(profile):
    """A ``torch.profiler.profile`` that starts and stops nothing itself; its methods act on the session of a run.

    What torch answers from the recorded events (``events``, ``key_averages``, the exports) comes from the last finished
    cycle. torch's ``__init__`` is not called, because it counts steps for the whole process: attributes are looked up
    in torch's profiler of the current cycle.
    """

    def __init__(self, options: ProfileOptions) -> None:
        self._options = _settled(options)
        self._last = LastCycle(options.on_trace_ready, weakref.WeakMethod(self._unscheduled))
        self._metadata: dict[str, str] = {}
        self._toggled: list[Pause] = []
        self._blank: CycleProfile | None = None

    def __del__(self) -> None:
        if "_last" in vars(self):  # it may have been refused
            self._last.drop()

    def _live(self) -> CaptureSession | None:
        """Return the session of the run, or ``None`` before it; overridden by the class that has runs."""
        return None

    def _unscheduled(self) -> TorchState | None:
        """Return where a run without a schedule is, ``None`` if it has one; overridden by the class that has runs."""
        return None

    def _prepared(self, options: ProfileOptions) -> ProfileOptions:
        """Return the options for a new run, with the metadata so far; what the last run left behind is released."""
        self._last.drop()
        self._last = LastCycle(self._options.on_trace_ready, weakref.WeakMethod(self._unscheduled))
        self._blank = None
        self._toggled = []
        metadata = {**dict(options.metadata), **self._metadata}
        return replace(options, on_trace_ready=self._last, metadata=tuple(metadata.items()))

    def events(self) -> Any:
        """Return torch's events of the last finished cycle, as ``torch.profiler.profile.events`` does."""
        return self._finished().events()  # type: ignore[no-untyped-call]

    def key_averages(self, *args: Any, **kwargs: Any) -> Any:
        """Return torch's averages of the last finished cycle, with its ``table()``."""
        return self._finished().key_averages(*args, **kwargs)

    def export_chrome_trace(self, path: str, use_python_export: bool = False, **more: Any) -> None:
        """Write the trace of the last finished cycle; the same file that the run has saved.

        ``more`` are arguments of newer versions of torch, with which torch writes the file.
        """
        finished = self._finished() if more else self._last.released or self._finished()
        finished.export_chrome_trace(path, use_python_export, **more)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> Any:
        """Write the stacks of the last finished cycle as torch does."""
        return self._finished().export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write the memory timeline of the last finished cycle as torch does."""
        self._finished().export_memory_timeline(path, device)

    def add_metadata(self, key: str, value: str) -> None:
        """Add a string to the metadata of the current and all later cycles. Raises ``OptionsError``."""
        self._add(metadata_of({key: value}))

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON value to the metadata of the current and all later cycles. Raises ``OptionsError``."""
        try:
            parsed = json.loads(value)
        except (ValueError, TypeError) as exc:
            raise OptionsError(f"the metadata of {key!r} must be JSON (got {value!r})") from exc
        self._add(metadata_of({key: parsed}))

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Do what ``add_metadata_json`` does, which may also be called before the run."""
        self.add_metadata_json(key, value)

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Set the function that names the trace of every later cycle."""
        options = replace(self._options, custom_trace_id_callback=callback)
        if missing := features.lacking(options):
            raise CaptureError(f"torch {features.VERSION} lacks {', '.join(missing)}")
        self._options = options
        if (session := self._live()) is not None:
            session.set_trace_ids(callback)

    def get_trace_id(self) -> str | None:
        """Return the ID of the current trace, or of the last one; ``None`` before the first."""
        found: str | None = self._current().get_trace_id()  # type: ignore[no-untyped-call]
        return found

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Stop recording some activities until they are switched on again, or the cycle ends, as torch does."""
        names, _ = activities_of(tuple(activities))
        session = self._live()
        if session is None:
            return
        if not enable:
            self._toggled += [Pause(frozenset({name}), is_of_cycle=True) for name in names]
            for pause in self._toggled[-len(names) :] if names else ():
                session.pause(pause)
            return
        ending = [pause for pause in self._toggled if pause.kinds & set(names)]
        self._toggled = [pause for pause in self._toggled if pause not in ending]
        for pause in ending:
            session.resume(pause)

    def prepare_trace(self) -> None:
        """Do nothing: ``start`` prepares the recording."""

    def start_trace(self) -> None:
        """Start the recording, as ``start`` does."""
        self.start()

    def stop_trace(self) -> None:
        """End the recording, as ``stop`` does."""
        self.stop()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of torch's profiler, such as ``step_num`` or ``record_shapes``."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name == "on_trace_ready":
            return self._options.on_trace_ready
        if name == "schedule" and self._options.schedule_function is not None:
            return self._options.schedule_function
        session = self._live()
        state = self._unscheduled() or (None if session is None else session.torch_state)
        return getattr(state if state is not None and name in state._fields else self._current(), name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *vars(self._current())})

    def _add(self, metadata: tuple[tuple[str, str], ...]) -> None:
        self._metadata.update(metadata)
        if (session := self._live()) is not None:
            session.add_metadata(dict(metadata))

    def _current(self) -> CycleProfile:
        """Return torch's profiler of the current cycle, or else of the last one."""
        session = self._live()
        live = None if session is None else session.torch_profiler
        return live or self._last.profiler or self._last.released or self._unused()

    def _finished(self) -> CycleProfile:
        """Return torch's profiler of the last finished cycle; before that, one that raises as torch's does."""
        if self._last.released is not None:
            raise CaptureError(
                "torch's events of the last cycle were released, because reading its trace needed the memory that they "
                "take; use p.report, or on_trace_ready, or record fewer steps"
            )
        return self._last.profiler or self._unused()

    def _unused(self) -> CycleProfile:
        """Return a profiler that has recorded nothing, with the arguments of this one."""
        if self._blank is None:
            has_schedule = self._unscheduled() is None
            self._blank = compat.make_profiler(replace(self._options, has_step_rows=has_schedule))
        return self._blank
