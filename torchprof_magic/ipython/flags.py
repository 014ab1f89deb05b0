"""Which flags does ``%%torchprof`` take, where do their defaults come from, and what do they become?

A flag on the line wins over a preset on the line, and that over the defaults of ``%config TorchProfMagics``.
"""

from __future__ import annotations

import json
import keyword
import os
import re
from argparse import BooleanOptionalAction
from string import Template
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument, magic_arguments
from traitlets import Bool, CaselessStrEnum, Dict, Float, HasTraits, Int, Unicode, Union

from torchprof_magic.errors import OptionsError
from torchprof_magic.ipython.display import MODES
from torchprof_magic.options import (
    ACTIVITIES,
    DETAILS,
    PRESET_COSTS_US,
    PRESETS,
    KeepOptions,
    ProfileOptions,
    ScheduleOptions,
    activities_of,
    budget_of,
    detail_switches,
    metadata_of,
    preset_switches,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Mapping

# A word, or several in quotes; and what looks like a flag: a minus before a number or a name belongs to a statement.
_WORD = re.compile(r"""\s*("[^"]*"|'[^']*'|\S+)""")
_FLAG = re.compile(r"--|-[oq]\b")
# Each switch with the option it becomes.
SWITCHES = {
    "shapes": "record_shapes",
    "memory": "profile_memory",
    "stack": "with_stack",
    "flops": "with_flops",
    "modules": "with_modules",
    "all_threads": "all_threads",
    "sync_events": "sync_events",
    "trace_only": "trace_only",
}
# Flags that take the name of a variable, for what no text can say, with the option that its value becomes.
OBJECTS = {
    "schedule": "schedule_function",
    "on_trace_ready": "on_trace_ready",
    "experimental_config": "experimental_config",
    "custom_trace_id_callback": "custom_trace_id_callback",
}
COUNTS = ("wait", "warmup", "active", "repeat", "skip_first")
TEXTS = ("activities", "step", "display", "budget", "execution_trace")
# What says where traces are kept, by the names of ``KeepOptions``.
KEPT_TEXTS = {"trace_dir": "DIR", "filename": "TEMPLATE", "run_name": "NAME", "remote": "URL"}
KEPT_SWITCHES = ("gzip", "overwrite", "tensorboard")
_KEPT: dict[str, object] = {
    "keep_last": None,
    **dict.fromkeys(KEPT_SWITCHES, False),
    **{name: "" for name in KEPT_TEXTS if name != "trace_dir"},
}


def _count(text: str) -> Any:
    return Int(None, allow_none=True, help=text).tag(config=True)


def _choice(text: str) -> Any:
    """Return a switch that may also follow the preset: ``None``."""
    return Bool(None, allow_none=True, help=text).tag(config=True)


def _yes_or_no(text: str) -> Any:
    return Bool(default_value=False, help=text).tag(config=True)


def _text(text: str, value: str = "") -> Any:
    return Unicode(value, help=text).tag(config=True)


def _variable_name(text: str) -> Any:
    """Return a default that names a variable: IPython copies the values of defaults, objects and all."""
    return Unicode(None, allow_none=True, help=text).tag(config=True)


def _one_of(names: Iterable[str], value: str, text: str) -> Any:
    return CaselessStrEnum(list(names), value, help=text).tag(config=True)


class FlagDefaults(HasTraits):
    """What each flag is when it is not on the line: set with ``%config TorchProfMagics.NAME = VALUE``."""

    preset = _one_of(PRESETS, "quick", "Switches that go together.")
    wait = _count("Steps to leave out at the start of each cycle.")
    warmup = _count("Steps with the profiler on whose events are thrown away.")
    active = _count("Steps to record in each cycle.")
    repeat = _count("Cycles to record; 0 means until the cell ends.")
    skip_first = _count("Steps to leave out before the first cycle.")
    skip_first_wait = _yes_or_no("Leave the idle steps of the first cycle out.")
    shapes = _choice("Record the shapes and types of op inputs.")
    memory = _choice("Record every allocation and release.")
    stack = _choice("Record Python calls; shows which functions, and costs the most.")
    flops = _choice("Let torch count the operations of matrix products and convolutions.")
    modules = _choice("Record the modules of TorchScript models.")
    all_threads = _choice("Record every thread, and no memory.")
    sync_events = _choice("Record when CUDA streams and events wait.")
    trace_only = _choice("Skip torch's event tree: stopping takes half the time, odd names may be lost.")
    two_pass = _yes_or_no("Record times in a pass of their own, then shapes, memory and stacks of as many steps again.")
    activities = _text(f"What to record, of {', '.join(ACTIVITIES)}; all by default.")
    schedule = _variable_name(
        "Variable: a function from step number to ProfilerAction, such as torch.profiler.schedule(...)."
    )
    on_trace_ready = _variable_name("Variable: a function that is called with torch's profiler when a cycle is saved.")
    experimental_config = _variable_name("Variable: torch's _ExperimentalConfig.")
    custom_trace_id_callback = _variable_name("Variable: a function that returns the id of each cycle's trace.")
    post_processing_timeout_s = Float(
        None, allow_none=True, help="How long torch may take to process what was recorded; passed on to torch."
    ).tag(config=True)
    metadata = Dict(help="What to write into the trace besides.").tag(config=True)
    step = _text("What ends a step: auto, loop, optimizer, cell, manual or line:N.", "auto")
    budget = _text(
        "What recording may take: memory and files (2GB; half of the free memory by default), time (30s, 5min, 1h), or "
        "both (2GB,5min). Later cycles then record less, or recording ends; events count by the memory they take."
    )
    display = _one_of(MODES, "both", "How to show the report.")
    execution_trace = _text("File for torch's execution trace (the graph of ops, for replay) of the same steps.")
    snapshot = Union(
        [Bool(), Unicode()],
        default_value=False,
        help="Record the history of the GPU's allocator, into a file beside the traces or the one that is named.",
    ).tag(config=True)
    trace_dir = _text("Folder where a copy of every trace is kept; docs/traces.md tells more.")
    filename = _text("Name of a kept trace, such as {run_name}-{cycle}.pt.trace.json.")
    run_name = _text("What {run_name} stands for.")
    remote = _text("Address that kept traces go to in the background, any that fsspec knows.")
    keep_last = _count("Kept traces of each rank; the oldest beyond so many are deleted.")
    gzip = _yes_or_no("Pack kept traces.")
    overwrite = _yes_or_no("Replace a kept trace of the same name; otherwise the new one gets a number.")
    tensorboard = _yes_or_no("Name kept traces as TensorBoard's profiler plugin wants.")


_PRESET_HELP = "One of " + ", ".join(f"{name} (some {cost} us more an op)" for name, cost in PRESET_COSTS_US.items())
_HELP: dict[str, str] = {name: trait.help for name, trait in FlagDefaults.class_traits(config=True).items()}


def flagged(function: Any) -> Any:
    """Give the cell magic its flags; they stand in the help in the order below."""
    arguments = [
        magic_arguments("%torchprof"),
        argument("--preset", metavar="NAME", help=f"{_HELP['preset']} {_PRESET_HELP}"),
        *(argument(_flag(name), type=int, metavar="N", help=_HELP[name]) for name in COUNTS),
        _switch("skip_first_wait"),
        *(_switch(name) for name in SWITCHES),
        _switch("two_pass"),
        argument("--activities", type=_unquoted, metavar="A,B", help=_HELP["activities"]),
        argument("--budget", type=_unquoted, metavar="SIZE,TIME", help=_HELP["budget"]),
        *(argument(_flag(name), metavar="VARIABLE", help=_HELP[name]) for name in OBJECTS),
        argument("--post-processing-timeout-s", type=float, metavar="SECONDS", help=_HELP["post_processing_timeout_s"]),
        argument("--execution-trace", type=_unquoted, metavar="FILE", help=_HELP["execution_trace"]),
        argument("--snapshot", type=_unquoted, nargs="?", const=True, metavar="FILE", help=_HELP["snapshot"]),
        argument("--no-snapshot", dest="snapshot", action="store_const", const=False, help="Record none."),
        argument("--step", type=_unquoted, metavar="HOW", help=_HELP["step"]),
        *(argument(_flag(name), type=_unquoted, metavar=what, help=_HELP[name]) for name, what in KEPT_TEXTS.items()),
        argument("--keep-last", type=int, metavar="N", help=_HELP["keep_last"]),
        *(_switch(name) for name in KEPT_SWITCHES),
        argument(
            "--metadata",
            type=_unquoted,
            action="append",
            default=[],
            metavar="KEY=JSON",
            help=f"{_HELP['metadata']} Can be given several times.",
        ),
        argument("-o", "--out", metavar="NAME", help="Variable that gets the report."),
        argument("--display", choices=MODES, help=_HELP["display"]),
        argument("-q", "--quiet", action="store_true", help="Show nothing; the report is in -o NAME and tp.last."),
    ]
    for decorate in reversed(arguments):
        function = decorate(function)
    return function


def completed(args: Namespace, defaults: FlagDefaults) -> Namespace:
    """Fill in what was not on the line. Raises ``OptionsError`` for an unknown preset, or metadata that is none."""
    switches = preset_switches(args.preset or defaults.preset)
    for name, option in SWITCHES.items():
        from_config = None if args.preset else getattr(defaults, name)
        _fill(args, name, switches.get(option) if from_config is None else from_config)
    args.metadata = defaults.metadata | _metadata_of(args.metadata)
    _fill_schedule(args, defaults)
    for name in (*TEXTS, *OBJECTS, "post_processing_timeout_s", "snapshot", "two_pass", "trace_dir"):
        if name != "schedule":
            _fill(args, name, getattr(defaults, name))
    if args.two_pass:
        _fill_details(args)
    for name in SWITCHES:
        _fill(args, name, value=False)
    for name, nothing in _KEPT.items():
        # Without a folder such defaults mean nothing; flags without one are a mistake.
        _fill(args, name, getattr(defaults, name) if args.trace_dir else nothing)
    return args


def expanded(args: Namespace, variables: Mapping[str, object]) -> Namespace:
    """Put variables of the user's, or else of the environment, in the place of ``$NAME`` where a place is named.

    IPython does so in the line of every other magic; here braces are the fields of a template. Raises ``OptionsError``
    for a variable that is not there.
    """
    known: dict[str, object] = {**os.environ, **variables}
    for name in (*KEPT_TEXTS, "execution_trace", "snapshot"):
        text = getattr(args, name)
        if not isinstance(text, str):
            continue
        try:
            setattr(args, name, Template(text).substitute(known))
        except KeyError as exc:
            raise OptionsError(f"{_flag(name)}: there is no variable called {exc.args[0]!r} (got {text!r})") from None
        except ValueError:
            raise OptionsError(f"{_flag(name)}: write $$ for a dollar sign (got {text!r})") from None
    return args


def options_of(args: Namespace, variables: Mapping[str, object]) -> ProfileOptions:
    """Return the options that completed flags ask for; raises ``OptionsError``.

    ``variables`` are the user's, by name: a few flags name one of them.
    """
    schedule = ScheduleOptions(skip_first_wait=args.skip_first_wait, **{name: getattr(args, name) for name in COUNTS})
    names, types = activities_of(_activities_of(args.activities, variables))
    switches = {option: getattr(args, name) for name, option in SWITCHES.items()}
    budget_bytes, budget_s = budget_of(args.budget)
    return ProfileOptions(
        schedule=schedule,
        activities=names,
        activity_types=types or None,
        budget_bytes=budget_bytes,
        budget_s=budget_s,
        execution_trace=args.execution_trace,
        snapshot=args.snapshot,
        two_pass=args.two_pass,
        metadata=metadata_of(args.metadata),
        post_processing_timeout_s=args.post_processing_timeout_s,
        **{option: _variable(name, getattr(args, name), variables) for name, option in OBJECTS.items()},
        **switches,
    )


def _variable(flag: str, name: str | None, variables: Mapping[str, object]) -> Any:
    if name is None:
        return None
    if name not in variables:
        raise OptionsError(f"{_flag(flag)} takes the name of a variable, and there is none called {name!r}")
    return variables[name]


def _activities_of(text: str, variables: Mapping[str, object]) -> object:
    """Return the names in the text, or the value of the variable that it names."""
    names = text.replace(",", " ").split()
    if len(names) == 1 and names[0].lower() not in ACTIVITIES and names[0] in variables:
        return variables[names[0]]
    return names


def keep_of(args: Namespace) -> KeepOptions:
    """Return where completed flags ask traces to be kept; raises ``OptionsError``."""
    return KeepOptions(**{name: getattr(args, name) for name in (*KEPT_TEXTS, *KEPT_SWITCHES, "keep_last")})


def _metadata_of(texts: list[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in map(_metadata, texts):
        if key in found:
            raise OptionsError(f"--metadata: {key!r} is given twice")
        found[key] = value
    return found


def _metadata(text: str) -> tuple[str, object]:
    """Return a key and its value; what is no JSON is a text, so that ``run=3b`` needs no quotes."""
    key, sign, value = text.partition("=")
    if not sign:
        raise OptionsError(f"--metadata takes KEY=JSON (got {text!r})")
    try:
        return key, json.loads(value)
    except (ValueError, RecursionError):
        return key, value


def split_flags(line: str, parser: ArgumentParser) -> tuple[str, str]:
    """Return the flags at the beginning of a line, and the statement behind them; ``--`` ends the flags too."""
    at = 0
    while (found := _WORD.match(line, at)) is not None and _FLAG.match(found[1]):
        at = found.end()
        if found[1] == "--":
            return line[: found.start()].strip(), line[at:].strip()
        action = parser._option_string_actions.get(found[1])  # noqa: SLF001 - there is no public way
        value = _WORD.match(line, at) if action is not None and action.nargs is None else None
        at = value.end() if value else at
    return line[:at].strip(), line[at:].strip()


def check_variable(name: str | None) -> None:
    """Raise ``UsageError`` for what can be no variable."""
    if name and (not name.isidentifier() or keyword.iskeyword(name)):
        raise UsageError(f"-o needs the name of a variable (got {name!r})")


def _fill_schedule(args: Namespace, defaults: FlagDefaults) -> None:
    """Fill in what says which steps are recorded: a function, or numbers; one on the line has no use for the other."""
    counts = (*COUNTS, "skip_first_wait")
    is_counted = any(getattr(args, name) is not None for name in counts)
    is_function = args.schedule is not None
    if not is_counted and not args.two_pass:
        _fill(args, "schedule", defaults.schedule)
    for name in counts:
        _fill(args, name, FlagDefaults.class_traits()[name].default_value if is_function else getattr(defaults, name))


def _fill_details(args: Namespace) -> None:
    """Fill in what the second pass records."""
    names = {option: name for name, option in SWITCHES.items() if option in DETAILS}
    asked = {option: getattr(args, name) for option, name in names.items()}
    found = detail_switches(asked, all_threads=bool(args.all_threads), trace_only=bool(args.trace_only))
    for option, is_on in found.items():
        setattr(args, names[option], is_on)


def _fill(args: Namespace, name: str, value: object) -> None:
    if getattr(args, name) is None:
        setattr(args, name, value)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _unquoted(text: str) -> str:
    """Return the text without the quotes that IPython leaves around what holds spaces."""
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if is_quoted else text


def _switch(name: str) -> Any:
    return argument(_flag(name), action=BooleanOptionalAction, default=None, help=_HELP[name])
