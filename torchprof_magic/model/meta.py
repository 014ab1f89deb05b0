"""Facts about a run besides its events: where it came from, how it was recorded, and its problems."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torchprof_magic.model.vendors import METADATA_KEYS
from torchprof_magic.units import printable

# The key of the id that the store of kept traces writes into each.
STORE_KEY = "torchprofStoreId"
# The keys at the top of a trace that Kineto writes, and this one.
KINETO_KEYS = (
    "schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds", "displayTimeUnit", "traceEvents",
    "traceName", "trace_id", "host_name", "record_shapes", "profile_memory", "with_stack", "with_modules", "with_flops",
    "nodes", *METADATA_KEYS, STORE_KEY,
)  # fmt: skip

Severity = Literal["info", "warning", "data_loss"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
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
        """Escape control characters: messages are printed, and name what stands in files."""
        object.__setattr__(self, "message", printable(self.message))
        object.__setattr__(self, "fix", printable(self.fix))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMark:
    """One step: its number in torch, its cycle, and whether it ended.

    ``epoch`` counts how often the loop had been entered before, ``batch`` the steps since then. ``paused_ns`` is how
    many ns of it were paused by ``paused()``.
    """

    number: int
    cycle: int
    is_complete: bool
    epoch: int = 0
    batch: int = 0
    paused_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSource:
    """The source of the cell that ran, because the kernel may die and the cell may be edited.

    ``label`` is what a traceback would show (``In [4]``); ``filename`` is the name that code objects carry.
    """

    label: str
    filename: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepping:
    """What ended each step: ``how`` is one of ``loop``, ``optimizer``, ``manual``, ``cell``."""

    how: str
    line: int | None = None
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoPass:
    """Which cycle recorded only times, and which the details; ``detail_steps`` are the steps of the details."""

    times_cycle: int
    details_cycle: int
    detail_steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """Where a trace came from and what it ran on. Empty strings and ``None`` mean unknown.

    ``cell_labels`` pairs the file names of notebook cells with the labels that users know (``In [4]``).
    ``start_unix_ns`` is the wall clock of time 0 of every ``*_ns`` column, in ns since 1970. ``plain_step_ns`` is how
    long steps took that ran without the profiler. ``backend`` is that of ``torch.distributed``; ``extra`` is
    further metadata of the file, such as the user's own. ``two_pass`` is set if the frames hold the times of one cycle
    and the details of another.
    """

    title: str = ""
    start_unix_ns: int = 0
    torch_version: str = ""
    device_names: tuple[str, ...] = ()
    rank: int | None = None
    world_size: int | None = None
    backend: str = ""
    has_shapes: bool = False
    has_stacks: bool = False
    has_memory: bool = False
    cell: CellSource | None = None
    cell_labels: tuple[tuple[str, str], ...] = ()
    stepping: Stepping | None = None
    recorded_steps: tuple[StepMark, ...] = ()
    is_partial: bool = False
    plain_step_ns: tuple[int, ...] = ()
    two_pass: TwoPass | None = None
    extra: tuple[tuple[str, str], ...] = field(default=())
