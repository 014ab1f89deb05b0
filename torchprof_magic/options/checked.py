"""What one run records, which steps, and where its traces are kept: values that were checked, and go together."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from torchprof_magic.errors import OptionsError
from torchprof_magic.model import vendors
from torchprof_magic.options.presets import DETAILS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Schedules count steps; this many stand for "all of them", in a single cycle.
EVERY_STEP = 1_000_000_000
ACTIVITIES = vendors.ACTIVITIES


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """Which steps are recorded, in torch's own terms; ``None`` means: chosen from the length of the loop.

    After ``skip_first`` steps every cycle is ``wait`` idle steps, ``warmup`` steps with the profiler running but
    nothing kept, and ``active`` recorded steps. ``repeat`` counts cycles; 0 means until the loop ends.
    ``skip_first_wait`` leaves the idle steps of the first cycle out.
    """

    wait: int | None = None
    warmup: int | None = None
    active: int | None = None
    repeat: int | None = None
    skip_first: int | None = None
    skip_first_wait: bool = False

    def __post_init__(self) -> None:
        for name, least in (("wait", 0), ("warmup", 0), ("active", 1), ("repeat", 0), ("skip_first", 0)):
            value = getattr(self, name)
            if value is None:
                continue
            _check_count(name, value, least)

    @property
    def cycles(self) -> int | None:
        """How many cycles there will be at most; ``None`` when that depends on the length of the run."""
        return 1 if self.repeat is None else self.repeat or None

    @property
    def is_adaptive(self) -> bool:
        """True when nothing was asked for, so that the schedule may follow the length of the loop."""
        values = [getattr(self, field.name) for field in fields(self)]
        return all(value is None or value is False for value in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """Everything that shapes one recording.

    ``schedule_function`` says in place of ``schedule`` what happens in each step, as torch's own schedules do.
    ``activities`` empty means: all that this machine has. ``activity_types`` narrows one of them down to the kinds of
    records that torch calls by these names (``{"cuda": ("GPU_MEMCPY",)}``). ``budget_bytes`` bounds the growth of the
    process in each cycle, and the files of all; ``None`` is half of the free memory, and any files. ``budget_s`` bounds
    how long the recorded steps of all cycles last together; ``None`` is any time. torch tells no count of events while
    it records, so events are bounded by the memory they take. ``execution_trace`` is the file that torch's execution
    trace of the same steps goes to; ``snapshot`` is that for the history of the device's allocator, or True for one
    beside the traces. ``metadata`` are keys with JSON texts that go into the trace. With ``two_pass`` a first cycle
    records times alone, and a second one all that the switches ask for; see ``passes``. ``experimental_config``,
    ``custom_trace_id_callback`` and ``post_processing_timeout_s`` are passed to torch unchanged; ``on_trace_ready`` is
    called with the profiler of every finished cycle.
    """

    schedule: ScheduleOptions = ScheduleOptions()
    schedule_function: Callable[[int], Any] | None = None
    activities: tuple[str, ...] = ()
    activity_types: Mapping[str, tuple[str, ...]] | None = None
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    all_threads: bool = False
    sync_events: bool = False
    trace_only: bool = False
    two_pass: bool = False
    budget_bytes: int | None = None
    budget_s: float | None = None
    execution_trace: str = ""
    snapshot: bool | str = False
    metadata: tuple[tuple[str, str], ...] = ()
    experimental_config: Any = None
    custom_trace_id_callback: Callable[[], str] | None = None
    post_processing_timeout_s: float | None = None
    on_trace_ready: Callable[[Any], object] | None = None

    def __post_init__(self) -> None:
        self._check_values()
        self._check_together()

    def _check_values(self) -> None:
        unknown = [name for name in (*self.activities, *(self.activity_types or ())) if name not in ACTIVITIES]
        if unknown:
            raise OptionsError(f"--activities: unknown {', '.join(unknown)}; choose from {', '.join(ACTIVITIES)}")
        for name in ("on_trace_ready", "custom_trace_id_callback", "schedule_function"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise OptionsError(f"{name} must be a function (got {getattr(self, name)!r})")
        config = self.experimental_config
        if config is not None and "Config" not in type(config).__name__:
            raise OptionsError(f"experimental_config must be one of torch's _ExperimentalConfig (got {config!r})")
        if not isinstance(self.snapshot, (bool, str)):
            raise OptionsError(f"--snapshot takes the name of a file, or nothing (got {self.snapshot!r})")
        for name in ("budget_s", "post_processing_timeout_s"):
            value = getattr(self, name)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is not None and not (is_number and math.isfinite(value) and value > 0):
                raise OptionsError(f"{name} must be a number of seconds above 0 (got {value!r})")

    def _check_together(self) -> None:
        if self.all_threads and self.profile_memory:
            raise OptionsError(
                "--all-threads and --memory (which some presets hold) exclude each other: torch records no allocation "
                "while it watches all threads. Add --no-memory, and record memory in a run of its own."
            )
        if self.schedule_function is not None and not self.schedule.is_adaptive:
            raise OptionsError("a schedule says itself which steps are recorded: leave --wait, --active and such out")
        if self.two_pass:
            self._check_two_pass()
        if self.trace_only and self.with_stack:
            raise OptionsError("--trace-only and --stack exclude each other: torch needs its event tree for stacks")
        if self.experimental_config is not None and (set_by_flag := self.experimental_flags):
            raise OptionsError(
                f"set {', '.join(set_by_flag)} in experimental_config, or leave experimental_config out: not both"
            )

    @property
    def is_adaptive(self) -> bool:
        """True when the schedule may follow the length of the loop."""
        return self.schedule_function is None and self.schedule.is_adaptive

    def _check_two_pass(self) -> None:
        if self.schedule_function is not None:
            raise OptionsError("--two-pass makes a schedule of its own: leave --schedule out")
        repeat = self.schedule.repeat
        if repeat not in (None, 1):
            raise OptionsError(
                f"--repeat {repeat} and --two-pass exclude each other: two passes are two cycles, one of times and one "
                "of details. Leave --repeat out, and record more steps with --active."
            )
        if not any(getattr(self, name) for name in DETAILS):
            raise OptionsError("--two-pass has no details to record: ask for --shapes, --memory or --stack")

    @property
    def cycles(self) -> int | None:
        """How many cycles there will be at most; ``None`` when that depends on the run."""
        if self.schedule_function is not None:
            return None
        return len(self.passes) if self.two_pass else self.schedule.cycles

    @property
    def passes(self) -> tuple[ProfileOptions, ...]:
        """What each cycle records: the times and then the details with ``two_pass``, else every cycle the same.

        The execution trace comes with the details, because writing it takes time as well.
        """
        details = replace(self, two_pass=False)
        if not self.two_pass:
            return (details,)
        without: dict[str, Any] = dict.fromkeys(DETAILS, False)
        return (replace(details, execution_trace="", **without), details)

    @property
    def experimental_flags(self) -> dict[str, Any]:
        """What has to be set in torch's experimental configuration, by torch's names."""
        flags = {
            "profile_all_threads": self.all_threads,
            "enable_cuda_sync_events": self.sync_events,
            "trace_only": self.trace_only,
        }
        return {name: True for name, is_on in flags.items() if is_on}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepOptions:
    """Where the traces of a run are kept; nowhere but with its report when ``trace_dir`` is empty.

    ``trace_dir`` and ``filename`` are templates (see docs/traces.md). ``keep_last`` is how many traces of each rank
    stay. ``remote`` is an address that fsspec knows; traces go there from ``trace_dir``, in the background.
    """

    trace_dir: str = ""
    filename: str = ""
    run_name: str = ""
    gzip: bool = False
    overwrite: bool = False
    keep_last: int | None = None
    remote: str = ""
    tensorboard: bool = False

    def __post_init__(self) -> None:
        for name in ("trace_dir", "filename", "run_name", "remote"):
            if not isinstance(getattr(self, name), str):
                raise OptionsError(f"--{name.replace('_', '-')} must be a text (got {getattr(self, name)!r})")
        if self.keep_last is not None:
            _check_count("keep_last", self.keep_last, 1)
        given = [field.name for field in fields(self) if getattr(self, field.name) not in ("", None, False)]
        if given and not self.trace_dir:
            raise OptionsError(f"--{given[0].replace('_', '-')} needs --trace-dir: a folder where traces are kept")
        if self.tensorboard and self.filename:
            raise OptionsError("--tensorboard and --filename exclude each other: TensorBoard looks for its own names")


def _check_count(name: str, value: object, least: int) -> None:
    flag = f"--{name.replace('_', '-')}"
    try:
        count = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise OptionsError(f"{flag} must be a whole number (got {value!r})") from None
    if isinstance(value, bool):
        raise OptionsError(f"{flag} must be a whole number (got {value!r})")
    if count < least:
        raise OptionsError(f"{flag} must be at least {least} (got {value})")
