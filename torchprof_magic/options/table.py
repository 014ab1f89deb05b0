"""Every option, declared once: the keywords of ``profile()``, the flags of ``%%torchprof``, and their defaults.

To add an option, add an entry to ``Keywords`` and, to ``ProfileOptions`` or ``KeepOptions``, the field that it becomes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping  # noqa: TC003 - get_type_hints looks them up
from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated, Any, TypedDict, get_type_hints

from torchprof_magic.model.units import enumerated
from torchprof_magic.options.checked import ACTIVITIES, BUDGET_CALLS, EVERY_S, SNAPSHOT_ENTRIES, SNAPSHOT_STACKS
from torchprof_magic.options.presets import AUTO, DETAIL_WORDS, PRESET_COSTS_US, PRESETS, QUICK

AnyPath = str | os.PathLike[str]
MODES = ("widget", "static", "both", "text", "none")


class Kind(Enum):
    """How an option is written on a line, and which values it takes."""

    COUNT = "a whole number"
    SECONDS = "a number of seconds"
    SECONDS_OR_YES = "a number of seconds, or no value for the default"
    SWITCH = "on or off; by default as the preset sets it"
    YES_NO = "on or off"
    CHOICE = "one of a few names"
    TEXT = "a string"
    PATH = "a path or URL, in which $NAME stands for a variable"
    PATH_OR_YES = "a path, or no value for the default path"
    ACTIVITIES = "comma-separated names, or a variable"
    VARIABLE = "as a flag, the name of the variable that holds the value"
    METADATA = "KEY=JSON, can be repeated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option. ``name`` is its keyword; ``flag`` is the name of its flag and its trait, without dashes.

    ``metavar`` stands for the value in help, and ``type`` is the type that ``profile()`` accepts. ``short`` is a
    one-letter alias of the flag. ``group`` is its heading in help. ``is_kept`` marks options for kept traces,
    ``is_of_cell`` flags without a keyword, and ``is_of_run`` flags without a default in ``%config``. There the default
    is ``default_of_magics``, if it is another one.
    """

    kind: Kind
    help: str
    name: str = ""
    flag: str = ""
    metavar: str = ""
    default: Any = None
    default_of_magics: Any = None
    type: Any = None
    choices: tuple[str, ...] = ()
    short: str = ""
    group: str = ""
    is_kept: bool = False
    is_of_cell: bool = False
    is_of_run: bool = False

    @property
    def dashed(self) -> str:
        """The flag with its dashes."""
        return f"--{self.flag.replace('_', '-')}"


def _count(text: str, **more: Any) -> Option:
    return Option(kind=Kind.COUNT, help=text, metavar="N", **more)


def _switch(flag: str, text: str) -> Option:
    return Option(kind=Kind.SWITCH, flag=flag, help=text)


def _yes_no(text: str, **more: Any) -> Option:
    return Option(kind=Kind.YES_NO, help=text, default=False, **more)


def _path(metavar: str, text: str, **more: Any) -> Option:
    return Option(kind=Kind.PATH, metavar=metavar, help=text, default="", **more)


def _variable(text: str) -> Option:
    return Option(kind=Kind.VARIABLE, metavar="VARIABLE", help=text)


_PRESET_COSTS = ", ".join(f"{name} (about {cost} us per op)" for name, cost in PRESET_COSTS_US.items())


class Keywords(TypedDict, total=False):
    """The options of ``profile()``; each of them is also a flag of ``%%torchprof`` and a trait."""

    preset: Annotated[
        str,
        Option(
            kind=Kind.CHOICE,
            metavar="NAME",
            choices=tuple(PRESETS),
            default=QUICK,
            default_of_magics=AUTO,
            help=f"Set of switches to turn on, and what it adds: {_PRESET_COSTS}. {AUTO} records times in some steps, "
            "and shapes, memory and stacks in later ones, if the loop is long enough; it is the default of the magics "
            "as long as no other flag says what to record. Switches given explicitly take precedence.",
        ),
    ]
    wait: Annotated[int | None, _count("Steps to skip at the start of each cycle.")]
    warmup: Annotated[
        int | None, _count("Steps to run with the profiler on before recording; their events are discarded.")
    ]
    active: Annotated[int | None, _count("Steps to record in each cycle.")]
    repeat: Annotated[
        int | None,
        _count("Number of cycles; 0, the default with any other schedule option, repeats them until the code ends."),
    ]
    skip_first: Annotated[int | None, _count("Steps to skip before the first cycle.")]
    skip_first_wait: Annotated[bool, _yes_no("Omit the wait steps of the first cycle.")]
    schedule: Annotated[
        Callable[[int], Any] | None,
        _variable(
            "Function that maps a step number to a ProfilerAction, such as the result of torch.profiler.schedule(...). "
            "Cannot be combined with wait, warmup, active, repeat, skip_first and skip_first_wait."
        ),
    ]
    record_shapes: Annotated[bool | None, _switch("shapes", "Record the shapes and dtypes of op inputs.")]
    profile_memory: Annotated[bool | None, _switch("memory", "Record memory allocations and deallocations.")]
    with_stack: Annotated[
        bool | None, _switch("stack", "Record Python calls, up to --budget-calls; adds the most overhead.")
    ]
    with_flops: Annotated[
        bool | None,
        _switch(
            "flops",
            "Record shapes, used to compute the FLOPs of matrix products, convolutions and attention.",
        ),
    ]
    with_modules: Annotated[
        bool | None,
        _switch(
            "modules",
            "Time every call of an nn.Module, and record the module hierarchy of TorchScript models. By default "
            "modules are timed if the overhead is below 3 % of a step.",
        ),
    ]
    lines: Annotated[
        bool | None,
        Option(
            kind=Kind.YES_NO,
            help="Time also the lines of functions that are defined in other cells or in your own files. Those of the "
            "cell are always timed. profile(), which has no cell, does so by default when it records memory.",
        ),
    ]
    all_threads: Annotated[
        bool | None,
        _switch("all_threads", "Record all threads of the process; memory cannot be recorded at the same time."),
    ]
    sync_events: Annotated[
        bool | None, _switch("sync_events", "Record CUDA synchronization events: waits on streams and events.")
    ]
    overloads: Annotated[
        bool | None, _switch("overloads", "Record the overload of each op, such as Tensor of aten::add.Tensor.")
    ]
    trace_only: Annotated[
        bool | None,
        _switch(
            "trace_only",
            "Do not build torch's event tree. Stopping the profiler takes half as long, but names that torch cannot "
            "export are lost.",
        ),
    ]
    two_pass: Annotated[
        bool,
        _yes_no(
            "Record two cycles of the same number of steps: only times in the first; shapes, memory and stacks (or the "
            "given switches) in the second."
        ),
    ]
    watch: Annotated[
        float | bool | None,
        Option(
            kind=Kind.SECONDS_OR_YES,
            metavar="SECONDS",
            help=f"Watch a long run: record a few steps every SECONDS ({EVERY_S:g} by default, more rarely where that "
            "costs more than 1 % of the time), and details when a step takes far longer than usual, or steps become "
            "slower or faster. The report shows all steps, and the lines that ran in slow ones.",
        ),
    ]
    activities: Annotated[
        object,
        Option(
            kind=Kind.ACTIVITIES,
            metavar="A,B",
            default=(),
            help=f"Activities to record: any of {', '.join(ACTIVITIES)}; by default all that this machine supports. "
            "Accepts torch's ProfilerActivity objects, and dicts that map an activity to record types.",
        ),
    ]
    budget: Annotated[
        str | int | None,
        Option(
            kind=Kind.TEXT,
            metavar="SIZE,TIME",
            help="Limits of the recording, checked after each step: a size for memory (2GB), a time (30s, 5min, 1h), "
            "or both (2GB,5min). At the memory limit the cycle ends, and later cycles omit Python calls, then shapes. "
            "At the time limit the recording stops. By default, memory is limited to half of what is free.",
        ),
    ]
    budget_files: Annotated[
        str | int | None,
        Option(
            kind=Kind.TEXT,
            metavar="SIZE",
            help="Limit of the trace files of all cycles together, such as 10GB. After the cycle that exceeds it the "
            "recording stops.",
        ),
    ]
    budget_calls: Annotated[
        int,
        _count(
            "Limit of the Python calls of all cycles together (--stack), also within a step. Then stacks end, and the "
            "rest is recorded to the end. Each call takes torch 3 to 5 us and up to 3 kB when the recording ends.",
            default=BUDGET_CALLS,
        ),
    ]
    on_trace_ready: Annotated[
        Callable[[Any], object] | None,
        _variable(
            "Function to call with torch's profiler when a cycle has been saved, as in torch.profiler.profile. An "
            "exception in it becomes a note in the report."
        ),
    ]
    experimental_config: Annotated[object, _variable("torch's _ExperimentalConfig object, passed to torch unchanged.")]
    custom_trace_id_callback: Annotated[
        Callable[[], str] | None, _variable("Function that returns the trace ID of each cycle, passed to torch.")
    ]
    post_processing_timeout_s: Annotated[
        float | None,
        Option(
            kind=Kind.SECONDS,
            metavar="SECONDS",
            help="Time after which torch's events() and key_averages() leave out what they have not yet looked at, "
            "passed to torch. The report is made from the file, without torch, and is complete.",
        ),
    ]
    acc_events: Annotated[
        bool,
        _yes_no(
            "Let torch's events() and key_averages(), of profile() and in on_trace_ready, accumulate events across "
            "cycles, the newest cycle first. The report always has all cycles."
        ),
    ]
    execution_trace: Annotated[
        AnyPath,
        _path(
            "FILE",
            "File for torch's execution trace of the recorded steps (the graph of ops, for replay). With several "
            "cycles or ranks, their numbers are added to the file name. Gzipped if the name ends in .gz.",
        ),
    ]
    execution_trace_resources: Annotated[
        bool,
        _yes_no(
            "Also save what a replay of the execution trace needs, such as generated kernels, in a folder of the same "
            "name with _resources at its end, as torch does."
        ),
    ]
    execution_trace_observer: Annotated[
        object,
        _variable("Observer of your own, such as torch's ExecutionTraceObserver, started and stopped by torch."),
    ]
    snapshot: Annotated[
        bool | AnyPath,
        Option(
            kind=Kind.PATH_OR_YES,
            metavar="FILE",
            default=False,
            help="Record the history of the GPU memory allocator and write a snapshot to this file, by default next to "
            "the traces.",
        ),
    ]
    snapshot_entries: Annotated[
        int,
        _count(
            "Length of that history: the last N actions of the allocator are kept. 100,000 of them take about 20 MB.",
            default=SNAPSHOT_ENTRIES,
        ),
    ]
    snapshot_stacks: Annotated[
        str,
        Option(
            kind=Kind.CHOICE,
            metavar="WHICH",
            choices=SNAPSHOT_STACKS,
            default=SNAPSHOT_STACKS[0],
            help="Stacks in that history: python, all (with those of C++, which show what a backward pass allocates), "
            "or none.",
        ),
    ]
    metadata: Annotated[
        Mapping[str, object],
        Option(kind=Kind.METADATA, metavar="KEY=JSON", default={}, help="Metadata to add to the trace."),
    ]
    trace_dir: Annotated[
        AnyPath,
        _path("DIR", "Folder to keep a copy of every trace in. Without it, traces are deleted with their report."),
    ]
    filename: Annotated[
        str,
        _path("TEMPLATE", "Name template of kept traces, such as {run_name}-{cycle}.pt.trace.json.", is_kept=True),
    ]
    run_name: Annotated[str, _path("NAME", "Value of {run_name} in the names of kept traces.", is_kept=True)]
    gzip: Annotated[bool, _yes_no("Compress kept traces.", is_kept=True)]
    keep_last: Annotated[
        int | None,
        _count(
            "Number of traces to keep per rank; older ones are deleted. 0 deletes each when it is uploaded, "
            "-1 keeps all.",
            is_kept=True,
        ),
    ]
    overwrite: Annotated[
        bool, _yes_no("Replace a kept trace of the same name. By default, the new one gets a number.", is_kept=True)
    ]
    remote: Annotated[
        str,
        _path(
            "URL",
            "URL to upload kept traces to in the background, which may hold fields such as {run_name}; any URL that "
            "fsspec supports.",
            is_kept=True,
        ),
    ]
    tensorboard: Annotated[bool, _yes_no("Name kept traces as TensorBoard's profiler plugin expects.", is_kept=True)]
    worker_name: Annotated[
        str,
        _path(
            "NAME",
            "Name of this worker in TensorBoard, with --tensorboard; by default the host name and the process ID.",
            is_kept=True,
        ),
    ]
    step_samples: Annotated[
        int | None,
        _count("Number of samples in a step, for {sample} and {sample_in_epoch} in names.", is_kept=True),
    ]
    step_tokens: Annotated[
        int | None,
        _count("Number of tokens in a step, for {token} and {token_in_epoch} in names.", is_kept=True),
    ]


class Flags(Keywords, total=False):
    """The options of a cell: those of ``profile()``, what ends a step, and how the report is shown."""

    step: Annotated[
        str,
        Option(
            kind=Kind.TEXT,
            metavar="HOW",
            default="auto",
            is_of_cell=True,
            help="What ends a step: loop (an iteration of the training loop), optimizer (its step()), cell (the whole "
            "cell), manual (a call of step()), line:N (an iteration of the loop on line N), or auto (any of these).",
        ),
    ]
    display: Annotated[
        str,
        Option(
            kind=Kind.CHOICE,
            metavar="HOW",
            choices=MODES,
            default="both",
            is_of_cell=True,
            help="How to show the report: widget (the live view), static (a copy that works without a kernel), both, "
            "text or none.",
        ),
    ]
    out: Annotated[
        str,
        Option(
            kind=Kind.TEXT,
            metavar="NAME",
            short="-o",
            default="",
            is_of_cell=True,
            is_of_run=True,
            help="Variable to assign the report to.",
        ),
    ]
    compare: Annotated[
        str,
        Option(
            kind=Kind.TEXT,
            metavar="RUN",
            default="",
            is_of_cell=True,
            is_of_run=True,
            help="Compare this run with an earlier one: last, the name of a kept run, a variable with a report, or a "
            "file.",
        ),
    ]
    save: Annotated[
        str,
        Option(
            kind=Kind.TEXT,
            metavar="NAME",
            default="",
            is_of_cell=True,
            is_of_run=True,
            help="Keep this run under a name across kernels, until %torchprof history delete NAME.",
        ),
    ]
    keep_runs: Annotated[
        int,
        _count(
            "Number of runs to keep across kernels without a name; the oldest are deleted. 0 keeps none.",
            default=0,
            is_of_cell=True,
        ),
    ]
    quiet: Annotated[
        bool,
        Option(
            kind=Kind.YES_NO,
            short="-q",
            default=False,
            is_of_cell=True,
            is_of_run=True,
            help="Do not show the report. It is available as torchprof_magic.last, and as NAME with -o NAME.",
        ),
    ]


# The headings of help and of docs/options.md, with the options below them, in order.
GROUPS = {
    "The report": ("out", "quiet", "display", "compare"),
    "Steps": (
        *("step", "wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait", "schedule"),
        *("step_samples", "step_tokens", "watch"),
    ),
    "What is recorded": (
        *("preset", "record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules", "lines"),
        *("overloads", "activities", "all_threads", "sync_events", "trace_only", "two_pass"),
        *("snapshot", "snapshot_entries", "snapshot_stacks", "metadata"),
    ),
    "Limits": ("budget", "budget_files", "budget_calls"),
    "Passed on to torch": (
        *("on_trace_ready", "experimental_config", "custom_trace_id_callback", "post_processing_timeout_s"),
        *("acc_events", "execution_trace", "execution_trace_resources", "execution_trace_observer"),
    ),
    "Keeping files and runs": (
        *("save", "keep_runs", "trace_dir", "filename", "run_name", "gzip", "keep_last", "overwrite", "remote"),
        *("tensorboard", "worker_name"),
    ),
}


def _declared() -> dict[str, Option]:
    hints = get_type_hints(Flags, include_extras=True)
    declared = {name: hint.__metadata__[0] for name, hint in hints.items()}
    types = get_type_hints(Flags)
    group_of = {name: group for group, names in GROUPS.items() for name in names}
    return {
        name: replace(option, name=name, flag=option.flag or name, type=types[name], group=group_of[name])
        for name, option in declared.items()
    }


_ALL = _declared()
KEYWORDS = {name: option for name, option in _ALL.items() if not option.is_of_cell}
# In the order of help.
OPTIONS = {name: _ALL[name] for names in GROUPS.values() for name in names}


def asked_for(names: Iterable[str]) -> dict[str, str]:
    """Return details in words as parts of a sentence: what they are called, and their flags and keywords."""
    named = tuple(names)
    return {
        "details": enumerated([DETAIL_WORDS[name] for name in named]),
        "flags": enumerated([OPTIONS[name].dashed for name in named], "or"),
        "keywords": enumerated(named, "or"),
    }
