"""Lays what a program said of the nodes of graphs beside a recording, in the form of the capture that it was said in.

The launches of a graph are made up, one for each node that something is said of, in the order in which a replay ran
them. Around them stand the ranges, functions, modules and ops that are said. Nothing of that ran in the recording.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from torchprof_magic.ingest.graph_notes.in_args import GRAPH_BITS
from torchprof_magic.model.cycle_filter import without_made_captures
from torchprof_magic.model.graph_notes import NO_NOTE, GraphNote, note_of_text
from torchprof_magic.model.meta import MAX_TEXT, GraphCapture, shortened
from torchprof_magic.model.trace import (
    EVENTS_SCHEMA,
    LANES_SCHEMA,
    MAX_NAME_CHARS,
    SCOPES_SCHEMA,
    SITES_SCHEMA,
    STACKS_SCHEMA,
    Trace,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchprof_magic.model.trace import DType

# The calls of the launches that are made up, by the category of their work.
_CALLS = {"kernel": "cudaLaunchKernel", "memcpy": "cudaMemcpyAsync", "memset": "cudaMemsetAsync"}
_FRAME = re.compile(r"(?P<file>.+):(?P<line>[0-9]{1,9}):(?P<function>[^:]*)")
_MOST_FRAMES = 200
# More nodes than any program captures.
_MOST_NODES = 1_000_000


def with_graph_notes(trace: Trace, notes: Mapping[int, GraphNote] | None = None) -> Trace:
    """Return a trace beside which lies what is said of the nodes of its graphs: in its own events, and in ``notes``.

    ``notes`` has the numbers of the nodes, and goes before the events.
    """
    trace = without_made_captures(trace)
    if trace.events["graph_node"].null_count() == trace.events.height:
        return trace
    nodes = _nodes_of(trace, notes or {})
    if not nodes:
        return trace
    at_ns = trace.events["start_ns"].min()
    made, captures = _Made(trace), []
    by_graph: dict[int, list[_Node]] = defaultdict(list)
    for node in nodes:
        by_graph[node.number >> GRAPH_BITS].append(node)
    for graph, of_graph in by_graph.items():
        lane = made.lane(f"annotations of graph {graph}")
        made.capture(of_graph, lane, at_ns if isinstance(at_ns, int) else 0)
        captures.append(GraphCapture(name=f"annotations of graph {graph}", file="", lanes=(lane,), is_made=True))
    joined = made.joined()
    meta = replace(trace.meta, graph_captures=(*trace.meta.graph_captures, *captures))
    return replace(joined, meta=meta, events=_with_texts(joined.events, nodes))


def _with_texts(events: pl.DataFrame, nodes: list[_Node]) -> pl.DataFrame:
    """Return events with what is said of their nodes."""
    texts = {"graph_node": [node.number for node in nodes], "said": [node.note.as_text or None for node in nodes]}
    said = events.select("graph_node").join(
        pl.DataFrame(texts, schema={"graph_node": pl.Int64, "said": pl.Categorical()}),
        on="graph_node",
        how="left",
        maintain_order="left",
    )["said"]
    return events.with_columns(pl.when(pl.col("category") != "runtime").then(said).alias("annotation"))


class _Node(NamedTuple):
    """A node of a graph: its number, what is said of it, the first event that replayed it, and its cycle."""

    number: int
    note: GraphNote
    name: str
    category: str
    cycle: int


def _nodes_of(trace: Trace, notes: Mapping[int, GraphNote]) -> list[_Node]:
    """Return the nodes of which something is said, in the order in which they first ran."""
    wanted = ("graph_node", "annotation", "name", "category", "cycle", "start_ns")
    rows = trace.events.select(wanted).filter(pl.col("graph_node").is_not_null() & (pl.col("category") != "runtime"))
    rows = rows.sort("start_ns", maintain_order=True).unique("graph_node", keep="first", maintain_order=True)
    known: dict[str, GraphNote] = {}
    found = []
    for number, text, name, category, cycle, _ in (
        rows.head(_MOST_NODES).with_columns(pl.col("annotation", "name", "category").cast(pl.String)).iter_rows()
    ):
        own = NO_NOTE if text is None else known.setdefault(text, note_of_text(text))
        note = notes.get(number, NO_NOTE).or_else(own)
        if note != NO_NOTE:
            found.append(_Node(number, note, name, category, cycle))
    return found


class _Part(NamedTuple):
    """Something around launches: a range, a function, a module or an op; ``kind`` is a category, or ``module``."""

    kind: str
    name: str
    file: str | None = None
    line: int | None = None


def _around(note: GraphNote) -> Iterator[_Part]:
    """Yield what a note puts around a launch, the outermost first."""
    if note.name:
        # Names of ranges say which part of a step they are.
        yield _Part("user_annotation", f"{note.name} {note.phase}" if note.phase else note.name)
    if note.module:
        yield _Part("module", note.module)
    for text in reversed(note.stack.splitlines()[:_MOST_FRAMES]):
        if frame := _FRAME.fullmatch(text.strip()):
            yield _Part("python_function", frame["function"], frame["file"], int(frame["line"]))
    if note.op:
        yield _Part("cpu_op", note.op)


class _Open(NamedTuple):
    """A part that has begun: its row of events or scopes, and those around later ones in it."""

    part: _Part
    row: int
    event: int
    stack: int
    depth: int


class _Made:
    """Collects the rows that are laid beside a trace. Times are places in an order, in ns."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._events: list[dict[str, object]] = []
        self._lanes: list[str] = []
        self._stacks: dict[tuple[int, _Part], int] = {}
        self._sites: dict[str, int] = {}
        self._scopes: list[dict[str, object]] = []
        self._open: list[_Open] = []
        self._time_ns = self._lane = self._cycle = 0

    def lane(self, name: str) -> int:
        """Return a new lane of that name."""
        self._lanes.append(name)
        return self._trace.lanes.height + len(self._lanes) - 1

    def capture(self, nodes: list[_Node], lane: int, at_ns: int) -> None:
        """Add the launches of some nodes on a lane, and what is around them; what two in a row share is one."""
        self._lane, self._time_ns, self._cycle = lane, at_ns, nodes[0].cycle
        for node in nodes:
            parts = list(_around(node.note))
            shared = 0
            while shared < min(len(parts), len(self._open)) and parts[shared] == self._open[shared].part:
                shared += 1
            self._close(shared)
            for part in parts[shared:]:
                self._begin(part)
            call = {"graph_node": node.number, "kernel": node.name if node.category == "kernel" else None}
            self._event(_CALLS.get(node.category, _CALLS["kernel"]), "runtime", **call)
            self._time_ns += 1
            self._events[-1]["dur_ns"] = 1
        self._close(0)

    def _begin(self, part: _Part) -> None:
        event, stack, depth = self._inner()
        if part.kind == "module":
            row = len(self._scopes)
            site = self._sites.setdefault(part.name, self._trace.sites.height + len(self._sites))
            self._scopes.append({"site": site, **self._place()})
            self._time_ns += 1
        else:
            if part.kind == "python_function":
                stack = self._stacks.setdefault((stack, part), self._trace.stacks.height + len(self._stacks))
            row = event = self._event(_shown(part), part.kind, stack=stack)
            depth += 1
        self._open.append(_Open(part, row, event, stack, depth))

    def _event(self, name: str, category: str, **values: object) -> int:
        """Add an event inside of all that is open, and return its row."""
        event, stack, depth = self._inner()
        values = {"stack": stack, **values}
        inside = {
            "parent": event,
            "depth": depth,
            **values,
            "stack": None if values["stack"] == -1 else values["stack"],
        }
        known = {"name": name[:MAX_NAME_CHARS], "category": category, "overlaps": False}
        self._events.append({**known, **self._place(), **inside})
        self._time_ns += 1
        return self._trace.events.height + len(self._events) - 1

    def _inner(self) -> tuple[int, int, int]:
        """Return the innermost event and stack that are open, -1 for none, and the depth inside of them."""
        last = self._open[-1] if self._open else None
        return (last.event, last.stack, last.depth) if last else (-1, -1, 0)

    def _place(self) -> dict[str, object]:
        return {"lane": self._lane, "start_ns": self._time_ns, "dur_ns": 0, "cycle": self._cycle}

    def _close(self, left: int) -> None:
        """End what is open, but for so many of the outermost."""
        while len(self._open) > left:
            part, row, *_ = self._open.pop()
            of = self._scopes[row] if part.kind == "module" else self._events[row - self._trace.events.height]
            self._time_ns += 1
            of["dur_ns"] = self._time_ns - int(str(of["start_ns"]))

    def joined(self) -> Trace:
        """Return the trace with all that was added."""
        trace = self._trace
        lanes = [{"kind": "other", "pid": "", "tid": "", "name": _named(name)} for name in self._lanes]
        stacks = [
            {"parent": parent, "name": _shown(part), "file": part.file, "line": part.line, "function": part.name}
            for parent, part in self._stacks
        ]
        sites = [{"kind": "module", "parent": -1, "name": name[:MAX_NAME_CHARS]} for name in self._sites]
        return replace(
            trace,
            events=_with(trace.events, self._events, EVENTS_SCHEMA),
            lanes=_with(trace.lanes, lanes, LANES_SCHEMA),
            stacks=_with(trace.stacks, stacks, STACKS_SCHEMA),
            sites=_with(trace.sites, sites, SITES_SCHEMA),
            scopes=_with(trace.scopes, self._scopes, SCOPES_SCHEMA),
        )


def _shown(part: _Part) -> str:
    """Return how torch writes a function; other parts have a name."""
    return part.name if part.file is None else f"{part.file}({part.line}): {part.name}"[:MAX_NAME_CHARS]


def _named(name: str) -> str:
    return shortened(f"graph capture: {name}", MAX_TEXT)


def _with(frame: pl.DataFrame, rows: Sequence[Mapping[str, object]], schema: Mapping[str, DType]) -> pl.DataFrame:
    """Return a frame with some rows more; what these do not have is null."""
    added = [{name: row.get(name) for name in schema} for row in rows]
    return pl.concat([frame, pl.DataFrame(added, schema=schema)]) if added else frame
