"""Facts about a run besides its events: where it came from, how it was recorded, and its problems."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from torchprof_magic.model.units import printable
from torchprof_magic.model.vendors import METADATA_KEYS

# The key of the id that the store of kept traces writes into each.
STORE_KEY = "torchprofStoreId"
# The key by which our own exports say that torch gave its events stacks.
CALL_STACKS_KEY = "torchprofCallStacks"
# The key of the time, in ns since 1970, at which Python calls ceased to be recorded, though the recording went on.
STACKS_END_KEY = "torchprofStacksEnd"
# The key of torch's id of a trace. Of several cycles, each has a key of its own.
TRACE_ID = "trace_id"
TRACE_ID_OF_CYCLE = "trace_id of cycle {}"
# The keys at the top of a trace that Kineto writes, and this one.
KINETO_KEYS = (
    "schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds", "displayTimeUnit", "traceEvents",
    "traceName", TRACE_ID, "host_name", "record_shapes", "profile_memory", "with_stack", "with_modules", "with_flops",
    "nodes", *METADATA_KEYS, STORE_KEY, CALL_STACKS_KEY,
    STACKS_END_KEY,
)  # fmt: skip

# Texts from a file are shown in many places, so none of them can be of megabytes.
MAX_TEXT = 300
MAX_MESSAGE_CHARS = 5_000
MAX_SOURCE_CHARS = 1_000_000
_MORE = "…"
_LINE_END = re.compile(r"\r\n|\r|\n")

Severity = Literal["info", "warning", "data_loss"]


def shortened(text: str, most_chars: int = MAX_TEXT) -> str:
    """Return a text of at most ``most_chars`` characters; a longer one ends in an ellipsis."""
    return text if len(text) <= most_chars else f"{text[: most_chars - 1]}{_MORE}"


def source_lines(source: str) -> list[str]:
    """Return the lines of a program as Python numbers them; ``str.splitlines`` would end them at form feeds, too."""
    lines = _LINE_END.split(source)
    return lines if lines[-1] else lines[:-1]


def encodable(text: str) -> str:
    r"""Return a text that UTF-8 can hold: unpaired surrogates of file names and JSON become escapes (``\udcff``)."""
    return text.encode("utf-8", "backslashreplace").decode()


class _Bounded:
    """Shortens the texts of a frozen dataclass when it is made, and makes them encodable, wherever they come from."""

    __slots__ = ()

    def _shorten(self, *names: str, most_chars: int = MAX_TEXT) -> None:
        for name in names:
            object.__setattr__(self, name, _with_short_texts(getattr(self, name), most_chars))


def _with_short_texts(value: object, most_chars: int) -> object:
    if isinstance(value, str):
        return shortened(encodable(value), most_chars)
    return tuple(_with_short_texts(item, most_chars) for item in value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem(_Bounded):
    """One kind of problem, with its count.

    ``code`` is stable and dotted (``chrome.unclosed_event``), ``message`` says what happened and what was lost,
    ``fix`` says what to do about it.
    """

    code: str
    severity: Severity
    count: int
    message: str
    fix: str = ""

    def __post_init__(self) -> None:
        """Escape control characters, because messages are printed and quote files; and bound their length."""
        object.__setattr__(self, "message", printable(self.message))
        object.__setattr__(self, "fix", printable(self.fix))
        self._shorten("code")
        self._shorten("message", "fix", most_chars=MAX_MESSAGE_CHARS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMark:
    """One step: its number in torch, its cycle, and whether it ended.

    ``epoch`` counts how often the loop had been entered before, ``batch`` the steps since then. ``paused_ns`` is how
    many ns of it were paused by ``paused()``, and ``cpu_ns`` for how many its thread ran or was ready to run, None
    if not measured. ``run_ns``, ``epoch_ns`` and ``step_ns`` are the ns from the start of the run, of the epoch and of
    the step to its end. ``imported`` is how many modules of Python were imported in it, ``imports`` the names of the
    packages that most of them are from, and ``import_ns`` how long that took. ``fetch_ns`` is how long the loop waited
    for its item, at the beginning of the step; None where that was not measured. ``lead_ns`` and ``tail_ns`` are how
    long the recording itself took at the beginning and the end of the step, where that is not left out of it.
    ``has_details`` is set where a watched run recorded details, so that the step took longer than it would have.
    """

    number: int
    cycle: int
    is_complete: bool
    epoch: int = 0
    batch: int = 0
    paused_ns: int = 0
    cpu_ns: int | None = None
    run_ns: int = 0
    epoch_ns: int = 0
    step_ns: int = 0
    imported: int = 0
    imports: tuple[str, ...] = ()
    import_ns: int = 0
    fetch_ns: int | None = None
    lead_ns: int = 0
    tail_ns: int = 0
    has_details: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSource(_Bounded):
    """The source of the cell that ran, because the kernel may die and the cell may be edited.

    ``label`` is what a traceback would show (``In [4]``); ``filename`` is the name that code objects carry.
    """

    label: str
    filename: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        self._shorten("label")
        self._shorten("filename", most_chars=MAX_MESSAGE_CHARS)
        self._shorten("source", most_chars=MAX_SOURCE_CHARS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepping(_Bounded):
    """What ended each step: ``how`` is one of ``loop``, ``optimizer``, ``model``, ``manual``, ``cell``."""

    how: str
    line: int | None = None
    code: str = ""

    def __post_init__(self) -> None:
        self._shorten("how")
        self._shorten("code", most_chars=MAX_MESSAGE_CHARS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoPass:
    """Which cycle recorded only times, and which the details; ``detail_steps`` are the steps of the details.

    They belong to as many steps of the times, from the one at place ``details_begin`` on.
    ``lines_cycle`` is the one in which lines of functions were timed, None if they were in all or in none, and
    ``line_steps`` are the steps of which they are known. ``cost_ns`` is how much longer the loop of ``steps_seen``
    steps took because it was recorded, if details were recorded as far as the loop affords it (``is_auto``); then
    ``asked`` is what each of them is called in a sentence, with its flag.
    """

    times_cycle: int
    details_cycle: int
    detail_steps: tuple[int, ...] = ()
    cost_ns: int | None = None
    steps_seen: int = 0
    lines_cycle: int | None = None
    line_steps: tuple[int, ...] = ()
    asked: tuple[tuple[str, str], ...] = ()
    details_begin: int = 0

    @property
    def is_auto(self) -> bool:
        """True if nobody asked for the details, which are there if the loop afforded them."""
        return self.cost_ns is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessGroup(_Bounded):
    """A process group of ``torch.distributed``: its name and description, the backends by device, size and ranks."""

    name: str
    description: str = ""
    backend: str = ""
    size: int = 0
    ranks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self._shorten("name", "description", "backend")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBreak(_Bounded):
    """Where a graph of ``torch.compile`` ended, and why, in a few words. The file is empty if it is not known."""

    reason: str
    file: str = ""
    line: int | None = None

    def __post_init__(self) -> None:
        self._shorten("reason")
        self._shorten("file", most_chars=MAX_MESSAGE_CHARS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledFrame(_Bounded):
    """A function that ``torch.compile`` compiled, as the process that recorded knows it.

    ``frame`` is the first number of its regions (``0`` of ``Torch-Compiled Region: 0/1``), empty if it is not known.
    ``breaks`` are those of its graphs, ``recompiles`` the guards that failed, so that it was compiled again.
    """

    frame: str = ""
    name: str = ""
    file: str = ""
    line: int | None = None
    breaks: tuple[GraphBreak, ...] = ()
    recompiles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._shorten("frame", "name", "recompiles")
        self._shorten("file", most_chars=MAX_MESSAGE_CHARS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation(_Bounded):
    """One compilation of ``torch.compile``, as torch keeps it in the process that it ran in.

    ``region`` is its number in a trace (``0/1`` of ``Torch-Compiled Region: 0/1``). ``start_unix_ns`` is the wall clock
    of its beginning. ``dur_ns`` and its parts are None where torch does not tell: ``backend_ns`` is what the backend
    took, ``inductor_ns`` the part of Inductor, and ``codegen_ns`` the part of that in which code was generated.
    ``reason`` is why the function was compiled again, as torch writes it, and ``failed`` why it was not compiled.
    ``step`` is the step of the run that it fell into, and ``step_ns`` how long that took; None outside of steps.
    """

    region: str = ""
    name: str = ""
    file: str = ""
    line: int | None = None
    is_backward: bool = False
    start_unix_ns: int = 0
    dur_ns: int | None = None
    backend_ns: int | None = None
    inductor_ns: int | None = None
    codegen_ns: int | None = None
    reason: str = ""
    breaks: tuple[GraphBreak, ...] = ()
    failed: str = ""
    step: int | None = None
    step_ns: int | None = None

    def __post_init__(self) -> None:
        self._shorten("region", "name", "failed")
        self._shorten("file", "reason", most_chars=MAX_MESSAGE_CHARS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCapture(_Bounded):
    """A graph whose capture is from another file: the name of the range around it, if any, and of the file.

    ``lanes`` are the rows of ``Trace.lanes`` on which its events are: the launches that were captured, in order, and
    the ops and frames around them. Only the order of their times has a meaning. With ``is_made``, it is made of
    what annotations say of the nodes of one graph.
    """

    name: str
    file: str
    lanes: tuple[int, ...]
    is_made: bool = False

    def __post_init__(self) -> None:
        self._shorten("name", "file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One step of a watched run, or several that follow one another; times in ns from the beginning of the run.

    ``step`` is the first, ``sum_ns`` how long all of them took, ``longest_ns`` the longest, and ``data_ns`` for how
    long their loop waited for its items, None if that was not measured. ``memory_bytes`` is the most memory that was in
    use, None if it is not known, and ``recorded`` how many of the steps were recorded.
    """

    step: int
    steps: int
    start_ns: int
    sum_ns: int
    longest_ns: int
    data_ns: int | None
    memory_bytes: int | None
    recorded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowLine(_Bounded):
    """A user's line that was seen to run in a slow step, what it called, and in which share of the looks."""

    file: str
    line: int
    call: str
    share: float

    def __post_init__(self) -> None:
        self._shorten("call")
        self._shorten("file", most_chars=MAX_MESSAGE_CHARS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowStep:
    """A step that took far longer than usual, and the lines that were seen to run in it, the most often seen first."""

    step: int
    step_ns: int
    usual_ns: int
    lines: tuple[SlowLine, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRun:
    """A whole run of ``steps`` steps, of which ``recorded`` were recorded; it took ``cost_ns`` longer for it."""

    stretches: tuple[Stretch, ...]
    slow: tuple[SlowStep, ...]
    steps: int
    recorded: int
    cost_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta(_Bounded):
    """Where a trace came from and what it ran on. Empty strings and ``None`` mean unknown.

    ``devices`` pairs the numbers of the devices that worked with their names; ``device_names`` are the distinct names
    of all devices of the machine. ``cell_labels`` pairs the file names of notebook cells with the labels that users
    know (``In [4]``). ``start_unix_ns`` is the wall clock of time 0 of every ``*_ns`` column, in ns since 1970.
    ``has_call_stacks`` is set if torch wrote a stack at each op, as it does in verbose recordings, and ``has_flops`` if
    FLOPs were asked for. ``has_memory`` is set if memory was asked for, even if nothing was allocated.
    ``has_function_lines`` is set if the lines of functions outside of the cell were timed. ``unnoted_lines`` are lines
    of the cell in quick inner loops, whose runs were not noted in every step.
    ``plain_step_ns`` is how long steps took that ran without the profiler. ``chosen_steps`` are the rows of the
    steps that the user chose to count; empty if the rules decide. ``backend`` is that of ``torch.distributed``,
    whose ``process_groups`` are those of this process; ``extra`` is further metadata of the file, such as the
    user's own. ``two_pass`` is set if the frames hold the times of one cycle and the details of another.
    ``cpu_cores`` is how many cores the process of a live run may use, ``cpu_threads`` how many threads ops on the
    CPU use, ``cpu_features`` are units of the CPU that torch can use, such as ``amx_bf16``, ``cpu_model`` is its
    name. ``knows_storages`` is set if ``Trace.storages`` has all that the program held on the host before and after
    each cycle. ``others_share`` is the part of the time of all cores that other programs took during a live run.
    ``ops_before`` are the ops of a live run that the same process had recorded before, None where that is not
    known.
    ``compiled`` are the functions that ``torch.compile`` had compiled by the end of a live run that ran some, and
    ``compilations`` what it compiled during the run, in order.
    ``watched`` is set if the whole run was watched (``--watch``).
    ``graph_captures`` are those that were loaded beside the recording, and ``captures_from`` the files of them, also
    those in which there is none.
    """

    title: str = ""
    start_unix_ns: int = 0
    torch_version: str = ""
    device_names: tuple[str, ...] = ()
    devices: tuple[tuple[int, str], ...] = ()
    rank: int | None = None
    world_size: int | None = None
    backend: str = ""
    process_groups: tuple[ProcessGroup, ...] = ()
    has_shapes: bool = False
    has_stacks: bool = False
    has_call_stacks: bool = False
    has_flops: bool = False
    has_memory: bool = False
    has_function_lines: bool = False
    unnoted_lines: tuple[int, ...] = ()
    cell: CellSource | None = None
    cell_labels: tuple[tuple[str, str], ...] = ()
    stepping: Stepping | None = None
    recorded_steps: tuple[StepMark, ...] = ()
    is_partial: bool = False
    plain_step_ns: tuple[int, ...] = ()
    chosen_steps: tuple[int, ...] = ()
    two_pass: TwoPass | None = None
    cpu_cores: int | None = None
    cpu_threads: int | None = None
    cpu_features: tuple[str, ...] = ()
    cpu_model: str = ""
    knows_storages: bool = False
    others_share: float | None = None
    ops_before: tuple[str, ...] | None = None
    compiled: tuple[CompiledFrame, ...] = ()
    compilations: tuple[Compilation, ...] = ()
    watched: WatchedRun | None = None
    graph_captures: tuple[GraphCapture, ...] = ()
    captures_from: tuple[str, ...] = ()
    extra: tuple[tuple[str, str], ...] = field(default=())

    def __post_init__(self) -> None:
        self._shorten(
            "title",
            "torch_version",
            "device_names",
            "devices",
            "backend",
            "extra",
            "cpu_features",
            "cpu_model",
            "captures_from",
        )
        self._shorten("cell_labels", most_chars=MAX_MESSAGE_CHARS)

    @property
    def captured_lanes(self) -> tuple[int, ...]:
        """The lanes of captures that were loaded beside the recording: nothing ran on them during it."""
        return tuple(lane for capture in self.graph_captures for lane in capture.lanes)
