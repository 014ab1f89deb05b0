"""Turns what the process knows of compiled graphs into the frame ``fx_nodes`` of a trace."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from torchprof_magic.model.distinct import distinct
from torchprof_magic.model.fx_marks import MARK
from torchprof_magic.model.trace import FRAME_SCHEMAS, MAX_CODE_CHARS, MAX_JSON_CHARS, MAX_NAME_CHARS
from torchprof_magic.model.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.recording import FxCall, FxGraph, FxNode, Recording
    from torchprof_magic.model.trace import Trace

_SCHEMA = FRAME_SCHEMAS["fx_nodes"]
_FRAME = re.compile(
    r'^  File "(?P<file>[^\n]*)", line (?P<line>[0-9]{1,9}), in [^\n]*\n(?:    (?P<source>[^\n]*))?', re.MULTILINE
)
_TORCHS_OWN = re.compile(r"[/\\](?:site|dist)-packages[/\\](?:torch|triton)[/\\]")
_FUSED = " · "
_GENERATED = re.compile(r"(?:cpp|triton)_")
# ``extern_kernels.bias_addmm`` and ``torch.ops.aten.convolution_backward.default`` are calls of ops.
_AROUND_OP = re.compile(r"^(?:extern_kernels|(?:torch\.ops\.)?[a-z_]+)\.(?:bias_)?|\.[A-Za-z_]+$")
# So many words of what a kernel fuses are in its name; its nodes are all listed.
_MOST_WORDS = 12
# A file of generated code is no longer.
_MOST_READ = 10_000_000
# More nodes than any program runs.
_MOST_NODES = 1_000_000


def with_fx_nodes(trace: Trace, recording: Recording) -> Trace:
    """Return the trace with the nodes of the graphs that its marks name."""
    if not recording.fx_graphs:
        return trace
    names = distinct(trace.events["name"]).cast(pl.String)
    marks = {name.strip("# ").removeprefix("Call CompiledFxGraph ") for name in names.filter(names.str.contains(MARK))}
    rows: list[dict[str, object]] = []
    aliases = {(alias, kind): path for alias, kind, path in recording.module_aliases}
    for graph in recording.fx_graphs:
        if graph.name in marks and len(rows) < _MOST_NODES:
            rows.extend(_rows_of(_with_one_path(graph, aliases), len(rows)))
    nodes = pl.DataFrame(rows, schema=_SCHEMA)
    return replace(trace, fx_nodes=nodes, fx_code=_code_of(nodes["code"].cast(pl.String).unique(maintain_order=True)))


def _with_one_path(graph: FxGraph, aliases: dict[tuple[str, str], str]) -> FxGraph:
    """Return a graph in which each module has one path, although the program may call it by several."""
    if not aliases:
        return graph

    def renamed(node: FxNode) -> FxNode:
        known = {module[0]: aliases[module] for module in node.modules if module in aliases}
        return replace(node, modules=tuple((_path_of(path, known), kind) for path, kind in node.modules))

    calls = tuple(replace(call, nodes=tuple(map(renamed, call.nodes))) for call in graph.calls)
    return replace(graph, nodes=tuple(map(renamed, graph.nodes)), calls=calls)


def _path_of(path: str, known: dict[str, str]) -> str:
    """Return a path with its longest beginning that is another path of a known module replaced by that."""
    above, below = path, ""
    while above and above not in known:
        above, _, name = above.rpartition(".")
        below = f".{name}{below}"
    return f"{known[above]}{below}" if above else path


def _code_of(files: pl.Series) -> pl.DataFrame:
    """Return the texts of files of generated code, the beginning of each where all of them are too long."""
    texts = {file: text for file in files.drop_nulls() if (text := _text_of(file)) is not None}
    left, rows = MAX_CODE_CHARS, []
    for number, (file, text) in enumerate(sorted(texts.items(), key=lambda each: len(each[1]))):
        most = left // (len(texts) - number)
        cut = f"\n# … {format_count(len(text) - most)} more characters are in this file on the machine that recorded."
        rows.append((file, text if len(text) <= most else text[: max(most - len(cut), 0)] + cut[:most]))
        left -= len(rows[-1][1])
    return pl.DataFrame(rows, schema=FRAME_SCHEMAS["fx_code"], orient="row")


def _text_of(file: str) -> str | None:
    try:
        with Path(file).open(encoding="utf-8", errors="replace") as code:
            return code.read(_MOST_READ)
    except (OSError, ValueError):  # it is gone, or its name is none
        return None


def _rows_of(graph: FxGraph, first: int) -> Iterator[dict[str, object]]:
    """Yield the rows of a graph, of which the first one is row number ``first``."""
    whole = {
        "graph": graph.name[:MAX_NAME_CHARS],
        "kernel": None,
        "call": -1,
        "code": graph.code[:MAX_NAME_CHARS] or None,
    }
    for number, node in enumerate(graph.nodes):
        yield {**whole, "number": number, "name": node.name[:MAX_NAME_CHARS], **_described(node)}
    row = first + len(graph.nodes)
    for number, call in enumerate(graph.calls):
        kernel = {"kernel": call.kernel[:MAX_NAME_CHARS], "name": _words_of(call)[:MAX_NAME_CHARS]}
        yield {**whole, "number": number, **kernel, **_described_call(call)}
        for place, node in enumerate(call.nodes):
            yield {**whole, "number": place, "call": row, "name": node.name[:MAX_NAME_CHARS], **_described(node)}
        row += 1 + len(call.nodes)


def _computed(call: FxCall) -> tuple[FxNode, ...]:
    """Return the nodes that a call computes: all but views, and of an op of torch's the one that it is.

    Inductor lists with an op what is fused into the kernels before it, too.
    """
    nodes = tuple(node for node in call.nodes if not node.is_view) or call.nodes
    if _GENERATED.match(call.kernel):
        return nodes
    op = _AROUND_OP.sub("", call.kernel)
    return next(((node,) for node in reversed(nodes) if op and node.name.startswith(op)), nodes[-1:])


def _words_of(call: FxCall) -> str:
    """Return what a kernel fuses, ``relu · add · linear backward``, each once and in order; else its own name."""
    words = list(dict.fromkeys(node.does for node in _computed(call) if node.does))
    more = [f"{len(words) - _MOST_WORDS} more"] if len(words) > _MOST_WORDS else []
    return _FUSED.join([*words[:_MOST_WORDS], *more]) or call.kernel


def _described_call(call: FxCall) -> dict[str, object]:
    """Return where a call belongs: the place of most of its nodes, the first of equals, and the lines of all."""
    nodes = [_described(node) for node in _computed(call)]
    placed = [node for node in nodes if node["file"] is not None]
    if not placed:
        return nodes[0] if nodes else {}
    counts = Counter((node["file"], node["line"], node["modules"]) for node in placed)
    most = max(counts.values())
    main = next(node for node in placed if counts[node["file"], node["line"], node["modules"]] == most)
    stacks = dict.fromkeys(str(node["stack"]).rstrip("\n") for node in placed)
    return {**main, "stack": "\n".join(stacks)[:MAX_JSON_CHARS]}


def _described(node: FxNode) -> dict[str, object]:
    place = _place_in(node.stack)
    modules = json.dumps(node.modules) if node.modules else None
    return {
        "stack": node.stack[:MAX_JSON_CHARS] or None,
        "file": place.file,
        "line": place.line,
        "source": place.source,
        "modules": modules if modules is not None and len(modules) <= MAX_JSON_CHARS else None,
    }


class _Place(NamedTuple):
    file: str | None
    line: int | None
    source: str | None


@lru_cache(maxsize=4096)
def _place_in(stack: str) -> _Place:
    """Return the innermost line of a stack that is not in torch itself."""
    frames = list(_FRAME.finditer(stack))
    for frame in reversed([each for each in frames if not _TORCHS_OWN.search(each["file"])] or frames[-1:]):
        return _Place(frame["file"][:MAX_NAME_CHARS], int(frame["line"]), (frame["source"] or "")[:MAX_NAME_CHARS])
    return _Place(None, None, None)
