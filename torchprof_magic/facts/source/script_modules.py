"""The modules of TorchScript models, which torch names at each op that runs in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.device.graph_work import origins
from torchprof_magic.facts.ops.torch_stacks import RANGE_OF_NODE
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.model.intervals import NO_PARENT, IntArray, innermost_at, nearest_marked
from torchprof_magic.model.meta import shortened
from torchprof_magic.model.rows import are_known
from torchprof_magic.model.trace import MAX_NAME_CHARS, SITES_SCHEMA

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# A part of ``TOP(Net)::forward.encoder(Encoder)::forward.SELF(Encoder)::mix.``: the attribute that holds a module, its
# class, and the method that runs. TOP is the model; without a class it is the part of one that autograd runs as a
# whole. SELF is the module before it, and functions have no class at all.
_PART = re.compile(r"([^.():]+)\(([^()]*)\)::[^.()]*")
_MODEL, _ITSELF = "TOP", "SELF"
_BACKWARD = "::<backward op>"
# Modules deeper than this count for the one around them; a damaged file could have a million.
MOST_LEVELS = 64


class ScriptModules(NamedTuple):
    """The watched modules and lines, the rows of ``trace.sites``, and behind them the modules of TorchScript.

    ``of_event`` is the innermost module of TorchScript in which each event ran, or -1, and ``chains`` those around
    each site and itself, from the outermost; -1 behind the last.
    """

    sites: pl.DataFrame
    of_event: IntArray
    chains: IntArray


@once_per_trace
def script_modules(trace: Trace) -> ScriptModules | None:
    """Return the modules that torch names at ops, below the watched module that ran them; None if it names none.

    Backward ops are left out: they belong to the modules of their forward ops.
    """
    texts = trace.events["script_modules"]
    if texts.null_count() == len(texts):
        return None
    text = _aligned(trace)
    rows = np.flatnonzero((text.is_not_null() & ~text.str.contains(_BACKWARD, literal=True)).to_numpy())
    keys = pl.DataFrame(
        {"watched": watched_module_at(trace, rows), "model": _models(trace, text, rows), "text": text.gather(rows)}
    )
    distinct = keys.unique(maintain_order=True)
    numbered = _Numbered(trace.sites.height)
    found = [numbered.module_of(watched, model, text) for watched, model, text in distinct.rows()]
    distinct = distinct.with_columns(pl.Series("site", found, dtype=pl.Int64))
    of_event = np.full(len(texts), NO_PARENT, np.int64)
    of_event[rows] = keys.join(distinct, on=keys.columns, how="left", maintain_order="left")["site"].to_numpy()
    return ScriptModules(numbered.sites(trace.sites), of_event, numbered.chains())


def module_of_ops(trace: Trace, rows: IntArray) -> pl.Series:
    """Return the path of the innermost module of TorchScript for each event row, null where there is none.

    Calls of the runtime have that of the op around them, and device work that of its launch.
    """
    found = script_modules(trace)
    if found is None:
        return pl.Series([None], dtype=pl.String).new_from_index(0, len(rows))
    launch = np.append(origins(trace), NO_PARENT)[rows]
    op = _ops_around(trace)[np.where(launch >= 0, launch, rows)]
    site = pl.Series(np.append(found.of_event, NO_PARENT)[op])
    return found.sites["name"].cast(pl.String).gather(site.set(site < 0, None))


@once_per_trace
def _ops_around(trace: Trace) -> IntArray:
    """Return the row of the innermost op with modules at or around each event, or -1; one more -1 at the end."""
    found = script_modules(trace)
    assert found is not None
    parent, depth = trace.events["parent"].to_numpy(), trace.events["depth"].to_numpy()
    return nearest_marked(parent, depth, found.of_event >= 0).astype(np.int64)


def watched_module_at(trace: Trace, rows: IntArray) -> IntArray:
    """Return the watched module in which each event began, a row of ``sites``, or -1."""
    is_module = (trace.sites["kind"] == "module").to_numpy()
    scopes = trace.scopes.filter(pl.Series(is_module[trace.scopes["site"].to_numpy()]))
    lane, start, dur = (scopes[name].to_numpy().astype(np.int64) for name in ("lane", "start_ns", "dur_ns"))
    at_lane, at = (trace.events[name].to_numpy()[rows].astype(np.int64) for name in ("lane", "start_ns"))
    sites = scopes["site"].to_numpy().astype(np.int64)
    return np.append(sites, NO_PARENT)[innermost_at(lane, start, dur, at_lane, at)]


def _aligned(trace: Trace) -> pl.Series:
    """Return the text of each event.

    torch notes a text for every op and range but those of autograd's nodes, and then hands the texts out to the nodes
    as well, thread by thread (torch/csrc/profiler/collection.cpp, begin_op). So behind a node, each op has the text of
    a later one. This is undone on the threads on which a node has a text.
    """
    events = trace.events.with_row_index("row").filter(pl.col("category").is_in(("cpu_op", "user_annotation")))
    names = trace.events["name"].cast(pl.String)
    around = events["parent"].set(events["parent"] < 0, None)
    is_node = (names.gather(around) == RANGE_OF_NODE + events["name"].cast(pl.String)).fill_null(value=False)
    thread = ("lane", "cycle")
    frame = events.select(
        "row", *thread, pl.col("script_modules").cast(pl.String).alias("text"), is_node.alias("is_node")
    )
    is_shifted = (pl.col("is_node") & pl.col("text").is_not_null()).any().over(thread)
    number = (
        pl.when(~is_shifted)
        .then(pl.int_range(pl.len()).over(thread))
        .otherwise((~pl.col("is_node")).cum_sum().over(thread).cast(pl.Int64) - 1)
    )
    is_blank = pl.col("is_node") & is_shifted
    asked = frame.with_columns(number.alias("number"), is_blank.alias("is_blank"))
    texts = frame.select(*thread, pl.int_range(pl.len()).over(thread).alias("number"), "text")
    found = asked.drop("text").join(texts, on=[*thread, "number"], how="left", maintain_order="left")
    found = found.with_columns(pl.when(~pl.col("is_blank")).then("text").alias("text"))
    return pl.Series([None], dtype=pl.String).new_from_index(0, len(names)).scatter(found["row"], found["text"])


def _models(trace: Trace, text: pl.Series, rows: IntArray) -> pl.Series:
    """Return the class of the model that each op belongs to; where it is not named, that of the op around it."""
    named = text.str.extract(rf"^{_MODEL}\(([^()]+)\)")
    parent, depth = trace.events["parent"].to_numpy(), trace.events["depth"].to_numpy()
    around = pl.Series(nearest_marked(parent, depth, are_known(named))[rows])
    return named.gather(around.set(around < 0, None)).fill_null("")


class _Numbered:
    """Numbers modules by what holds them and the attribute, from ``first`` on."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._site_of: dict[tuple[int, str], int] = {}
        self._rows: list[tuple[int, str, str]] = []  # parent, attribute, class
        self._chains: list[tuple[int, ...]] = []

    def module_of(self, watched: int, model: str, text: str) -> int:
        """Return the innermost module of a text, which stands in a watched module or -1."""
        site, chain = (watched, ()) if watched >= 0 else self._number(NO_PARENT, model, model, ())
        inside = [part for part in _PART.findall(text) if part[0] not in (_MODEL, _ITSELF)]
        for attribute, kind in inside[: MOST_LEVELS - 1]:
            site, chain = self._number(site, attribute, kind, chain)
        return site

    def _number(self, parent: int, attribute: str, kind: str, above: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        number = len(self._rows)
        site = self._site_of.setdefault((parent, attribute), self._first + number)
        if site == self._first + number:
            self._rows.append((parent, attribute, kind))
            self._chains.append((*above, site))
        return site, self._chains[site - self._first]

    def sites(self, watched: pl.DataFrame) -> pl.DataFrame:
        """Return the watched sites, and behind them the numbered modules by their paths."""
        names = watched["name"].cast(pl.String).to_list()
        has_one_model = sum(parent < 0 for parent, _, _ in self._rows) == 1
        for parent, attribute, _ in self._rows:
            above = names[parent] if parent >= 0 else ""
            own = "" if parent < 0 and has_one_model else attribute
            names.append(f"{above}.{own}" if above else own)
        added = [
            {"kind": "module", "parent": parent, "name": shortened(name, MAX_NAME_CHARS), "class_name": kind}
            for (parent, _, kind), name in zip(self._rows, names[watched.height :], strict=True)
        ]
        return pl.concat([watched, pl.DataFrame(added, schema=SITES_SCHEMA)])

    def chains(self) -> IntArray:
        """Return the chain of each site, padded with -1; watched sites have none."""
        most = max(map(len, self._chains), default=0)
        found = np.full((self._first + len(self._rows), most), NO_PARENT, np.int64)
        for row, chain in enumerate(self._chains):
            found[self._first + row, : len(chain)] = chain
        return found
