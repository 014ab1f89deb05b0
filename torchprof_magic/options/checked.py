"""Validated options of one run: what to record, which steps, and where to keep traces."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from torchprof_magic.model import vendors
from torchprof_magic.model.errors import OptionsError
from torchprof_magic.options.presets import AUTO, DETAIL_WORDS, DETAILS, QUICK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# A number of active steps that no run reaches: records every step in a single cycle.
EVERY_STEP = 1_000_000_000
ACTIVITIES = vendors.ACTIVITIES
# Python calls: torch takes 1 to 1.5 s and up to 1 GB to end a recording of so many, and the report twice that time.
BUDGET_CALLS = 300_000
# Between two recordings of a run that is watched, in s.
EVERY_S = 30.0
# Without a limit torch keeps every entry. Entries share their stacks: 100,000 of them are about 20 MB.
SNAPSHOT_ENTRIES = 100_000
SNAPSHOT_STACKS = ("python", "all", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """Which steps are recorded, in the terms of ``torch.profiler.schedule``; ``None`` where nothing was given.

    After ``skip_first`` steps, every cycle has ``wait`` idle steps, ``warmup`` steps whose events are discarded, and
    ``active`` recorded steps. ``repeat`` is the number of cycles; 0 repeats them until the loop ends, and is the
    default as soon as any other option is given, as in torch. ``skip_first_wait`` omits the idle steps of the first
    cycle. Without any option, the schedule fits the length of the loop and has one cycle.
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
        """The largest possible number of cycles; ``None`` when it depends on the length of the run."""
        return 1 if self.is_adaptive else self.repeat or None

    @property
    def is_adaptive(self) -> bool:
        """True when no schedule option was given, so that the schedule may fit the length of the loop."""
        values = [getattr(self, field.name) for field in fields(self)]
        return all(value is None or value is False for value in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """All options of one recording.

    ``schedule_function`` replaces ``schedule``: it maps a step number to a ``ProfilerAction``. Empty ``activities``
    mean all that this machine supports. ``activity_types`` limits an activity to torch's record types of these names
    (``{"cuda": ("GPU_MEMCPY",)}``), or has torch's ``ProfilerActivityConfig`` for it. ``budget_bytes`` limits the
    memory growth of the process in each cycle; ``None`` means half of the free memory. ``budget_file_bytes`` limits the
    total size of the trace files, ``budget_s`` the total duration of the recorded steps, and ``budget_calls`` the
    number of Python calls of all cycles. torch does not report the number of other events while it records, so they are
    limited by the memory that they take. ``execution_trace`` is the file for torch's execution trace of the same steps,
    with ``execution_trace_resources`` a folder beside it;
    ``execution_trace_observer`` is an observer of the user's; ``watch_modules`` says whether calls of modules are
    timed, None that they are if they are few; ``lines`` whether the lines of functions are, None that they are in a
    cycle of their own if ``is_auto``. ``snapshot`` is the file for the allocator's history, or True for one next to the
    traces; ``snapshot_entries`` is its length, and
    ``snapshot_stacks`` one of ``python``, ``all`` and ``none``. ``metadata`` holds keys and JSON strings to add to the
    trace. With ``watch_s`` the whole run is watched, and steps are recorded at least so many seconds apart. With
    ``two_pass`` the first cycle records only times, and the second one what the switches ask for; see
    ``passes``. ``experimental_config``, ``custom_trace_id_callback`` and ``post_processing_timeout_s`` are passed to
    torch unchanged. ``on_trace_ready`` is called with the profiler of every finished cycle, whose events include those
    of earlier cycles with ``acc_events``.
    """

    schedule: ScheduleOptions = ScheduleOptions()
    schedule_function: Callable[[int], Any] | None = None
    preset: str = QUICK
    activities: tuple[str, ...] = ()
    activity_types: Mapping[str, Any] | None = None
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    watch_modules: bool | None = None
    lines: bool | None = False
    all_threads: bool = False
    sync_events: bool = False
    overloads: bool = False
    trace_only: bool = False
    two_pass: bool = False
    watch_s: float | None = None
    budget_bytes: int | None = None
    budget_file_bytes: int | None = None
    budget_s: float | None = None
    budget_calls: int = BUDGET_CALLS
    execution_trace: str = ""
    execution_trace_resources: bool = False
    execution_trace_observer: Any = None
    snapshot: bool | str = False
    snapshot_entries: int = SNAPSHOT_ENTRIES
    snapshot_stacks: str = SNAPSHOT_STACKS[0]
    metadata: tuple[tuple[str, str], ...] = ()
    experimental_config: Any = None
    custom_trace_id_callback: Callable[[], str] | None = None
    post_processing_timeout_s: float | None = None
    acc_events: bool = False
    on_trace_ready: Callable[[Any], object] | None = None
    has_step_rows: bool = True

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
        observer = self.execution_trace_observer
        lacking = [name for name in ("start", "stop", "cleanup") if not callable(getattr(observer, name, None))]
        if observer is not None and lacking:
            raise OptionsError(f"execution_trace_observer must have a method {lacking[0]}() (got {observer!r})")
        config = self.experimental_config
        if config is not None and "Config" not in type(config).__name__:
            raise OptionsError(f"experimental_config must be a torch _ExperimentalConfig object (got {config!r})")
        if not isinstance(self.snapshot, (bool, str)):
            raise OptionsError(f"--snapshot takes a file name or no value (got {self.snapshot!r})")
        _check_count("snapshot_entries", self.snapshot_entries, 1)
        _check_count("budget_calls", self.budget_calls, 1)
        if self.snapshot_stacks not in SNAPSHOT_STACKS:
            raise OptionsError(
                f"--snapshot-stacks: unknown {self.snapshot_stacks!r}; choose from {', '.join(SNAPSHOT_STACKS)}"
            )
        for name in ("budget_s", "post_processing_timeout_s", "watch_s"):
            value = getattr(self, name)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is not None and not (is_number and math.isfinite(value) and value > 0):
                said = "--watch" if name == "watch_s" else name
                raise OptionsError(f"{said} must be a number of seconds above 0 (got {value!r})")

    def _check_together(self) -> None:
        if self.all_threads and self.profile_memory:
            raise OptionsError(
                "--all-threads and --memory (included in some presets) cannot be combined: torch records no "
                "allocations while it records all threads. Add --no-memory, and record memory in a separate run."
            )
        if self.schedule_function is not None and not self.schedule.is_adaptive:
            raise OptionsError("--schedule cannot be combined with --wait, --active and the other schedule flags")
        bounds = (self.snapshot_entries, self.snapshot_stacks)
        if not self.snapshot and bounds != (SNAPSHOT_ENTRIES, SNAPSHOT_STACKS[0]):
            raise OptionsError("--snapshot-entries and --snapshot-stacks need --snapshot")
        if self.execution_trace_resources and not self.execution_trace:
            raise OptionsError("--execution-trace-resources needs --execution-trace")
        if self.execution_trace_observer is not None and self.execution_trace:
            raise OptionsError(
                "--execution-trace and execution_trace_observer cannot be combined: torch has one observer at a time"
            )
        if self.two_pass:
            self._check_two_pass()
        if self.watch_s is not None and (self.two_pass or not self.is_adaptive):
            raise OptionsError(
                "--watch cannot be combined with --two-pass, --schedule, --wait, --active and the other schedule "
                "flags: it decides itself which steps are recorded"
            )
        if self.trace_only and self.with_stack:
            raise OptionsError("--trace-only and --stack cannot be combined: stacks need torch's event tree")
        if self.experimental_config is not None and (set_by_flag := self.experimental_flags):
            raise OptionsError(
                f"flags and experimental_config cannot be combined: set {', '.join(set_by_flag)} in experimental_config"
            )

    @property
    def is_adaptive(self) -> bool:
        """True when the schedule may fit the length of the loop."""
        return self.schedule_function is None and self.schedule.is_adaptive

    @property
    def details(self) -> dict[str, str]:
        """The switches with an overhead that are on, each with what it is called in a sentence."""
        return {name: word for name, word in DETAIL_WORDS.items() if name in DETAILS and getattr(self, name)}

    @property
    def is_auto(self) -> bool:
        """True if a second cycle records the details as far as the loop affords it."""
        return self.preset == AUTO

    def _check_two_pass(self) -> None:
        flag = f"--preset {AUTO}" if self.is_auto else "--two-pass"
        if self.schedule_function is not None:
            raise OptionsError(f"{flag} and --schedule cannot be combined: {flag} makes its own schedule")
        repeat = self.schedule.repeat
        if repeat not in (None, 1):
            raise OptionsError(
                f"--repeat {repeat} and {flag} cannot be combined: {flag} records one cycle for times and one "
                "for details. Remove --repeat, and record more steps with --active."
            )
        if not any(getattr(self, name) for name in DETAILS):
            raise OptionsError("--two-pass has no details to record: add --shapes, --memory or --stack")

    @property
    def cycles(self) -> int | None:
        """The largest possible number of cycles; ``None`` when it depends on the run."""
        if self.schedule_function is not None or self.watch_s is not None:
            return None
        return len(self.passes) if self.two_pass else self.schedule.cycles

    @property
    def passes(self) -> tuple[ProfileOptions, ...]:
        """The options of each cycle: first times, then details with ``two_pass``; otherwise one entry for all cycles.

        A run that is watched has those of cycles with times, and of those with details.

        The execution trace is recorded with the details, because writing it takes time as well. Lines of functions, if
        nobody asked for them, come last. Handlers do not get them: torch has no part in them.
        """
        details = replace(self, two_pass=False, lines=bool(self.lines))
        if not self.two_pass and self.watch_s is None:
            return (details,)
        without: dict[str, Any] = {
            **dict.fromkeys(DETAILS, False),
            "execution_trace": "",
            "execution_trace_resources": False,
            "execution_trace_observer": None,
        }
        times = replace(details, **without)
        if self.lines is None and self.is_auto:
            return times, details, replace(times, lines=True, on_trace_ready=None, acc_events=False)
        return times, details

    @property
    def experimental_flags(self) -> dict[str, Any]:
        """The settings for torch's ``_ExperimentalConfig``, by torch's names."""
        flags = {
            "profile_all_threads": self.all_threads,
            "enable_cuda_sync_events": self.sync_events,
            "capture_overload_names": self.overloads,
            "trace_only": self.trace_only,
        }
        return {name: True for name, is_on in flags.items() if is_on}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepOptions:
    """Where the traces of a run are kept. With an empty ``trace_dir`` they are deleted with their report.

    ``trace_dir``, ``filename`` and ``remote`` are templates (see docs/traces.md). ``keep_last`` is the number of traces
    to keep per rank; -1 keeps all, and 0 none once they are uploaded. ``remote`` is a URL that fsspec supports; kept
    traces are uploaded to it in the background. ``step_samples`` and ``step_tokens`` are how many samples and tokens a
    step has, for the names. ``worker_name`` is the first part of the names for TensorBoard.
    """

    trace_dir: str = ""
    filename: str = ""
    run_name: str = ""
    gzip: bool = False
    overwrite: bool = False
    keep_last: int | None = None
    remote: str = ""
    tensorboard: bool = False
    worker_name: str = ""
    step_samples: int | None = None
    step_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("trace_dir", "filename", "run_name", "remote", "worker_name"):
            if not isinstance(getattr(self, name), str):
                raise OptionsError(f"--{name.replace('_', '-')} must be a string (got {getattr(self, name)!r})")
        for name, least in (("keep_last", -1), ("step_samples", 1), ("step_tokens", 1)):
            if getattr(self, name) is not None:
                _check_count(name, getattr(self, name), least)
        given = [field.name for field in fields(self) if not _is_off(getattr(self, field.name))]
        if given and not self.trace_dir:
            raise OptionsError(f"--{given[0].replace('_', '-')} needs --trace-dir, the folder to keep traces in")
        if self.tensorboard and self.filename:
            raise OptionsError(
                "--tensorboard and --filename cannot be combined: TensorBoard expects its own file names"
            )
        if self.worker_name and not self.tensorboard:
            raise OptionsError("--worker-name is part of the names for TensorBoard: add --tensorboard")
        if self.keep_last == 0 and not self.remote:
            raise OptionsError("--keep-last 0 deletes each trace when it is uploaded: add --remote, the URL for that")


def _is_off(value: object) -> bool:
    return value is None or value is False or value == ""


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
