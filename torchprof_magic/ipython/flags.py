"""Which flags does ``%%torchprof`` take, where do their defaults come from, and what do they become?

A flag on the line wins over a preset on the line, and that over the defaults of ``%config TorchProfMagics``.
"""

from __future__ import annotations

import re
from argparse import BooleanOptionalAction
from typing import TYPE_CHECKING, Any

from IPython.core.magic_arguments import argument, magic_arguments
from traitlets import Bool, CaselessStrEnum, HasTraits, Int, Unicode

from torchprof_magic.ipython.display import MODES
from torchprof_magic.options import ACTIVITIES, PRESETS, ProfileOptions, ScheduleOptions, activities_of, preset_switches

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

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
COUNTS = ("wait", "warmup", "active", "repeat", "skip_first")
TEXTS = ("activities", "step", "display")


class FlagDefaults(HasTraits):
    """What each flag is when it is not on the line: set with ``%config TorchProfMagics.NAME = VALUE``."""

    preset = CaselessStrEnum(list(PRESETS), "quick", help="Switches that go together.").tag(config=True)
    wait = Int(None, allow_none=True, help="Steps to leave out at the start of each cycle.").tag(config=True)
    warmup = Int(None, allow_none=True, help="Steps with the profiler on whose events are thrown away.").tag(
        config=True
    )
    active = Int(None, allow_none=True, help="Steps to record in each cycle.").tag(config=True)
    repeat = Int(None, allow_none=True, help="Cycles to record; 0 means until the cell ends.").tag(config=True)
    skip_first = Int(None, allow_none=True, help="Steps to leave out before the first cycle.").tag(config=True)
    skip_first_wait = Bool(default_value=False, help="Leave the idle steps of the first cycle out.").tag(config=True)
    shapes = Bool(None, allow_none=True, help="Record the shapes and types of op inputs.").tag(config=True)
    memory = Bool(None, allow_none=True, help="Record every allocation and release.").tag(config=True)
    stack = Bool(None, allow_none=True, help="Record Python calls; shows which functions, and costs the most.").tag(
        config=True
    )
    flops = Bool(None, allow_none=True, help="Let torch count the operations of matrix products and convolutions.").tag(
        config=True
    )
    modules = Bool(None, allow_none=True, help="Record the modules of TorchScript models.").tag(config=True)
    all_threads = Bool(None, allow_none=True, help="Record every thread, and no memory.").tag(config=True)
    sync_events = Bool(None, allow_none=True, help="Record when CUDA streams and events wait.").tag(config=True)
    trace_only = Bool(
        None, allow_none=True, help="Skip torch's event tree: stopping takes half the time, odd names may be lost."
    ).tag(config=True)
    activities = Unicode(help=f"What to record, of {', '.join(ACTIVITIES)}; all by default.").tag(config=True)
    step = Unicode("auto", help="What ends a step: auto, loop, optimizer, cell, manual or line:N.").tag(config=True)
    display = CaselessStrEnum(list(MODES), "both", help="How to show the report.").tag(config=True)


_HELP: dict[str, str] = {name: trait.help for name, trait in FlagDefaults.class_traits(config=True).items()}


def flagged(function: Any) -> Any:
    """Give the cell magic its flags; they stand in the help in the order below."""
    arguments = [
        magic_arguments("%torchprof"),
        argument("--preset", metavar="NAME", help=f"{_HELP['preset']} One of {', '.join(PRESETS)}."),
        *(argument(_flag(name), type=int, metavar="N", help=_HELP[name]) for name in COUNTS),
        _switch("skip_first_wait"),
        *(_switch(name) for name in SWITCHES),
        argument("--activities", type=_unquoted, metavar="A,B", help=_HELP["activities"]),
        argument("--step", type=_unquoted, metavar="HOW", help=_HELP["step"]),
        argument("-o", "--out", metavar="NAME", help="Variable that gets the report."),
        argument("--display", choices=MODES, help=_HELP["display"]),
        argument("-q", "--quiet", action="store_true", help="Show nothing; the report is in -o NAME and tp.last."),
    ]
    for decorate in reversed(arguments):
        function = decorate(function)
    return function


def completed(args: Namespace, defaults: FlagDefaults) -> Namespace:
    """Fill in what was not on the line. Raises ``OptionsError`` for an unknown preset."""
    switches = preset_switches(args.preset or defaults.preset)
    for name, option in SWITCHES.items():
        from_config = None if args.preset else getattr(defaults, name)
        _fill(args, name, switches.get(option, False) if from_config is None else from_config)
    for name in (*COUNTS, *TEXTS, "skip_first_wait"):
        _fill(args, name, getattr(defaults, name))
    return args


def options_of(args: Namespace) -> ProfileOptions:
    """Return the options that completed flags ask for; raises ``OptionsError``."""
    schedule = ScheduleOptions(skip_first_wait=args.skip_first_wait, **{name: getattr(args, name) for name in COUNTS})
    names = [name.strip() for name in args.activities.replace(",", " ").split()]
    switches = {option: getattr(args, name) for name, option in SWITCHES.items()}
    return ProfileOptions(schedule=schedule, activities=activities_of(names)[0], **switches)


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
