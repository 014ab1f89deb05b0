"""What one run recorded, as values."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003 - msgspec reads the types of a recording
from typing import TYPE_CHECKING, Any, Literal

from torchprof_magic.model.graph_notes import GraphNote  # noqa: TC001 - the same
from torchprof_magic.model.meta import (  # noqa: TC001 - the same
    Compilation,
    CompiledFrame,
    Problem,
    StepMark,
    Stepping,
    TwoPass,
    WatchedRun,
)

# What the files of cycles were read into stands beside them under such a name.
READ_FILES = "read-{}.torchprof"
# Python before 3.12 cannot evaluate the first.
if TYPE_CHECKING:
    Numbers = array[int]
else:
    Numbers = array


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """One recorded cycle, on disk. ``start_unix_ns`` is the wall clock at the start of its trace, if known.

    ``stored`` is the copy in the folder for kept traces, if there is one.
    """

    number: int
    path: Path
    steps: tuple[StepMark, ...]
    start_unix_ns: int | None
    stored: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSite:
    """A module that ran: its class, the number of its parent, -1 for none, and its size.

    ``path`` is its path of attributes below its root. That of a root is the variable that holds it, empty if none does.
    ``inputs`` and ``outputs`` are the shapes of the tensors of its first call, empty if there were none. Modules in one
    that ``is_compiled`` need not be seen to run.
    """

    path: str
    class_name: str
    parent: int
    parameters: int | None
    size_bytes: int | None
    inputs: str = ""
    outputs: str = ""
    is_compiled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSite:
    """A line of a watched function, which begins at ``first_line``.

    ``is_left_out``: that function was not timed to its end, and is left to the lines that call it.
    """

    file: str
    line: int
    first_line: int
    is_left_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitSite:
    """A line of the user's in which the thread waited or collected garbage, and what it called meanwhile.

    ``call`` is empty where that is not known; ``file`` is empty and ``line`` 0 where the line is not.
    """

    kind: Literal["wait", "collection"]
    call: str
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLine:
    """The user's line that the thread of the steps was in while it imported ``module``, by ``time.perf_counter_ns``.

    ``file`` is empty and ``line`` 0 where no code of the user's is on the stack.
    """

    module: str
    file: str
    line: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedTensor:
    """A kind of tensor that was tagged: its name, empty if it has none, its shape, type and device.

    ``size_bytes`` is the size of its storage. Tensors that agree in all of these are one kind.
    """

    name: str
    shape: str
    dtype: str
    device: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TagBatch:
    """The addresses of the storages of some tensors at one moment, by ``time.perf_counter_ns``.

    ``category`` is one of ``MEMORY_CATEGORIES``. ``kinds`` has the number of the ``TaggedTensor`` of each address.
    """

    time_ns: int
    category: str
    addresses: Numbers
    kinds: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStorage:
    """Memory of a tensor of the host that existed before a recording (``is_older``) or at its end.

    ``is_in_use`` is whether the program held it at the end. What is neither was held by torch's recording alone.
    ``gone_ns`` is when an older one was released, by ``time.perf_counter_ns``; None if it is in use at the end, or if
    the moment is not known.
    """

    address: int
    size_bytes: int
    is_older: bool
    is_in_use: bool
    gone_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FxNode:
    """A node of a graph of torch.compile.

    ``does`` is what the program called for it, such as ``linear``, or ``linear backward``. ``stack`` are the lines of
    the model, as torch writes them, the innermost last. ``modules`` has the path, below the one that was compiled, and
    the class of each module around it. A node that ``is_view`` computes nothing: it shows a tensor in another shape.
    """

    name: str
    does: str = ""
    stack: str = ""
    modules: tuple[tuple[str, str], ...] = ()
    is_view: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FxCall:
    """A call of a kernel in code of Inductor, and the nodes that the kernel computes."""

    kernel: str
    nodes: tuple[FxNode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FxGraph:
    """What a graph of torch.compile runs: its nodes by number, or the calls of Inductor's code in order.

    ``name`` is what its range in a trace says, ``## name ##``. ``code`` is the file of Inductor's code.
    """

    name: str
    nodes: tuple[FxNode, ...] = ()
    calls: tuple[FxCall, ...] = ()
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramMarks:
    """What the lines and modules of the program did in one cycle, by ``time.perf_counter_ns``.

    ``clock`` has a number of step, and the moments just before and after torch's range of it was entered. ``steps`` has
    a number of step, and the moments at which the user's code of it began and ended. ``unix_ns`` is what to add to our
    clock to get the time since 1970, in which torch writes its own; None if unknown. ``lines`` alternates between a
    time and the line that began then, 0 for none; ``left_out`` are lines of quick inner loops, which were not noted
    in every step, because that would have cost too much. ``calls`` has threes of a time, a thread, and the number
    of a module that began, or minus one minus that of one that ended. ``functions`` alternates between a time and a
    line of a function, counted from 1, or -1 for a call and -2 for a return. ``tags`` says where the tensors of
    models and optimizers were, if memory was recorded. ``storages`` is what the program held on the host before and
    after; None if that was not looked at, or is more than can be. ``waits`` has threes of a start, an end, and the
    number of a ``WaitSite``, counted from 1. ``looks`` has pairs of a moment at which the thread ran, and such a
    number, of which only the line counts. ``imports`` are those of the recorded steps.
    """

    cycle: int
    clock: tuple[tuple[int, int, int], ...]
    lines: Numbers
    calls: Numbers
    functions: Numbers
    tags: tuple[TagBatch, ...] = ()
    storages: tuple[LiveStorage, ...] | None = None
    unix_ns: int | None = None
    steps: tuple[tuple[int, int, int], ...] = ()
    waits: Numbers = field(default_factory=lambda: array("q"))
    looks: Numbers = field(default_factory=lambda: array("q"))
    imports: tuple[HostLine, ...] = ()
    left_out: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The result of one session.

    ``ended_in`` is the phase in which the run ended: ``wait``, ``warmup``, ``active``, ``done`` (every cycle is
    complete) or ``never started``. ``steps_seen`` counts finished steps, recorded or not. ``plain_step_ns`` is the
    wall time of steps that ran without any profiling, in order, but for the first step of all. ``snapshot`` is the file
    of the device's allocator history, if one was requested and saved. ``metadata`` holds the keys and JSON
    texts that were added during the run. ``two_pass`` says which cycle holds times and which details, when they were
    recorded one after the other. ``program`` is what lines and modules did in each cycle; ``modules``,
    ``function_lines``, ``wait_sites`` and ``tagged`` are those that its numbers name. ``module_aliases`` are other
    paths of modules, with the class and the path that the same module has here. ``cpu`` is what ops on the CPU could
    use, and ``others_share`` the part of the machine's cores that other programs took during the run.
    ``compiled`` are the functions that the process has compiled, and ``compilations`` what was compiled during the run.
    ``fx_graphs`` are those that the process can name the nodes of, and ``graph_notes`` what it says of the nodes
    of CUDA graphs, by their numbers. ``watched`` is the whole run, if it was watched.
    """

    cycles: tuple[Cycle, ...]
    folder: Path
    problems: tuple[Problem, ...]
    ended_in: str
    steps_seen: int
    torch_version: str
    device_names: tuple[str, ...]
    stepping: Stepping
    schedule: Any
    plain_step_ns: tuple[int, ...]
    program: tuple[ProgramMarks, ...] = ()
    modules: tuple[ModuleSite, ...] = ()
    module_aliases: tuple[tuple[str, str, str], ...] = ()
    function_lines: tuple[LineSite, ...] = ()
    wait_sites: tuple[WaitSite, ...] = ()
    tagged: tuple[TaggedTensor, ...] = ()
    snapshot: Path | None = None
    metadata: tuple[tuple[str, str], ...] = ()
    two_pass: TwoPass | None = None
    cpu: CpuFacts | None = None
    others_share: float | None = None
    compiled: tuple[CompiledFrame, ...] = ()
    compilations: tuple[Compilation, ...] = ()
    fx_graphs: tuple[FxGraph, ...] = ()
    graph_notes: tuple[tuple[int, GraphNote], ...] = ()
    watched: WatchedRun | None = None

    @property
    def size_bytes(self) -> int:
        """The size of the files of all cycles; those that are gone count as 0."""
        return sum(_size_bytes(cycle.path) for cycle in self.cycles)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuFacts:
    """The cores that the process may use, the threads that ops on the CPU use, its special units, and its name."""

    cores: int
    threads: int
    features: tuple[str, ...] = ()
    model: str = ""


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
