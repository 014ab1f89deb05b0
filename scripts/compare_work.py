"""Compare what ops had to do with reference tables of another program, row by row: a table in Markdown.

``python scripts/compare_work.py TRACE TABLE.csv [--capture FILE]``; without arguments, the tables ``perf/NN_*.csv`` of
the folder that ``TORCHPROF_TRACES`` names, each with the trace whose name begins with the same number. The columns of
a table are those of TraceLens: name, Input Dims, Input type, GFLOPS, Data Moved (MB), TFLOPS/s_mean and TB/s_mean.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

import torchprof_magic as tp
from torchprof_magic.facts.device.graph_work import origins
from torchprof_magic.facts.ops.op_work import timed_work
from torchprof_magic.facts.shared import launch_sources
from torchprof_magic.model.intervals import marked_above

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.trace import Trace

MIB = 2**20
# How far two figures may be apart, and why they are where they are further.
CLOSE = 0.01
WHY = {
    "no reference": "the reference has no formula",
    "not ours": "nothing that was recorded tells it",
    "no type": "the reference does not know the size of the type",
    "aten::copy_": "a copy computes nothing; the reference counts 1 an element",
    "triton": "each tensor counts once, with at most as many elements as points; the reference goes by points",
    "pseudo_op": "one product of `vllm::moe_forward`, which has both here, with the inner size of the weights in the "
    "capture; the reference assumes the hidden size",
    "strides": "the reference has a row for each order in memory; weighted by their calls, they are the same",
}


class Row(NamedTuple):
    """One row of a reference table, and what is ours of it: totals, and the means of single calls."""

    name: str
    dims: str
    theirs: tuple[float | None, ...]
    ours: tuple[float | None, ...]
    notes: tuple[str, ...]


def rows_of(trace: Trace, table: Path) -> Iterator[Row]:
    """Yield the rows of a table with operations, bytes, operations a second and bytes a second of both."""
    csv.field_size_limit(10**9)
    pieces = Pieces(trace)
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        alike = [each for each in rows if all(each[key] == row[key] for key in ("name", "Input Dims", "Input type"))]
        theirs, ours = _figures(row), pieces.of(row["name"], row["Input Dims"], row["Input type"])
        notes = [_note(row["name"], at, pair) for at, pair in enumerate(zip(theirs, ours, strict=True))]
        if "?" in notes and len(alike) > 1:
            weights = [float(each["operation_count"]) for each in alike]
            means = [_mean(figures, weights) for figures in zip(*map(_figures, alike), strict=True)]
            together = [_note(row["name"], at, pair) for at, pair in enumerate(zip(means, ours, strict=True))]
            notes = [
                WHY["strides"] if old == "?" and new == "same" else old
                for old, new in zip(notes, together, strict=True)
            ]
        yield Row(row["name"], row["Input Dims"], theirs, ours, tuple(notes))


def _figures(row: dict[str, str]) -> tuple[float | None, ...]:
    """Return operations, bytes, operations a second and bytes a second of a row, None where it has none."""
    columns = {"GFLOPS": 1e9, "Data Moved (MB)": MIB, "TFLOPS/s_mean": 1e12, "TB/s_mean": 1e12}
    return tuple(_number(row[name], unit) for name, unit in columns.items())


def _mean(figures: tuple[float | None, ...], weights: list[float]) -> float | None:
    known = [(figure, weight) for figure, weight in zip(figures, weights, strict=True) if figure is not None]
    return sum(figure * weight for figure, weight in known) / sum(weight for _, weight in known) if known else None


class Pieces:
    """The known work of a trace by the op that a reference names, which can be around the op with the formula."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.work = trace, timed_work(trace)
        self.dur_ns = trace.events["dur_ns"].to_numpy()
        self.op_of_work = origins(trace)
        calls = trace.events.with_row_index("row").filter(pl.col("category") == "cpu_op")
        texts = calls.select("name", "shapes", "dtypes").cast(pl.String).rows()
        self.calls: dict[tuple[str, str, str], list[int]] = {}
        for row, (name, shapes, dtypes) in zip(calls["row"].to_list(), texts, strict=True):
            self.calls.setdefault((name, _plain(shapes), _plain(dtypes)), []).append(row)

    def of(self, name: str, dims: str, types: str) -> tuple[float | None, ...]:
        """Return operations and bytes of a call, and the means over calls of the same a second."""
        key = (name, _plain(json.dumps(ast.literal_eval(dims))), _plain(json.dumps(ast.literal_eval(types))))
        is_call = np.zeros(self.trace.events.height, np.bool_)
        is_call[self.calls.get(key, [])] = True
        parent = self.trace.events["parent"].to_numpy()
        around = marked_above(parent, is_call, self.work.op)
        here = np.flatnonzero(around >= 0)
        if len(here) == 0:
            return (None, None, None, None)
        rows = self.work.row[here]
        launch = launch_sources(self.trace)[rows]
        call = np.stack([around[here], np.where(self.op_of_work[rows] != launch, launch, -1)])
        _, of = np.unique(call, axis=1, return_inverse=True)
        of = of.reshape(-1)
        sums = [np.bincount(of, weights=each[here]) for each in (self.work.flops, self.work.bytes)]
        ns = np.bincount(of, weights=self.dur_ns[rows].astype(float))
        found = [float(values.mean()) for values in sums] + [float((values / ns * 1e9).mean()) for values in sums]
        return tuple(None if np.isnan(value) else value for value in found)


def _note(name: str, at: int, pair: tuple[float | None, float | None]) -> str:
    their, our = pair
    if their is None and our is None:
        return "-"
    if their is None:
        return WHY["no type"] if at in (1, 3) and name == "aten::copy_" else WHY["no reference"]
    if our is None:
        return WHY["pseudo_op" if name.startswith("pseudo_op") else "not ours"]
    if abs(our - their) <= CLOSE * max(abs(their), 1e-12):
        return "same"
    if name.startswith("triton_"):
        return WHY["triton"]
    return WHY.get(name, "?") if at in (0, 2) else "?"


def _number(text: str, unit: float) -> float | None:
    return float(text) * unit if text else None


def _plain(text: str | None) -> str:
    """Return JSON without the ways in which it can be written, with empty texts for what has no type."""
    return json.dumps(json.loads(text or "[]"), separators=(",", ":"))


def markdown(rows: list[Row]) -> str:
    """Return a table: their figure, ours, and how far they are apart, for each of the four."""
    heads = "| op | inputs | GFLOP | MiB | TFLOP/s | TB/s | explained |\n|---|---|---|---|---|---|---|\n"
    units = (1e9, MIB, 1e12, 1e12)
    lines = []
    for row in rows:
        cells = [_cell(*pair, unit) for *pair, unit in zip(row.theirs, row.ours, units, strict=True)]
        notes = dict.fromkeys(note for note in row.notes if note not in ("same", "-"))
        lines.append(f"| `{row.name[:60]}` | {row.dims[:70]} | {' | '.join(cells)} | {'; '.join(notes)} |\n")
    return heads + "".join(lines)


def _cell(their: float | None, our: float | None, unit: float) -> str:
    texts = ["–" if value is None else f"{value / unit:.6g}" for value in (their, our)]
    if their and our is not None:
        texts.append(f"{(our - their) / their:+.2%}")
    return " / ".join(texts)


def jobs(arguments: argparse.Namespace) -> Iterator[tuple[tp.Report, Path]]:
    """Yield the traces that are compared, each with its table."""
    if arguments.trace:
        yield tp.load(arguments.trace, capture=arguments.capture), Path(arguments.table)
        return
    folder = Path(os.environ["TORCHPROF_TRACES"])
    for table in sorted((folder / "perf").glob("*_unified_perf_summary.csv")):
        number = table.name.partition("_")[0]
        (trace,) = folder.glob(f"{number}_*")
        capture = next(iter(folder.glob(f"*_of_{number}.json.gz")), None)
        yield tp.load(trace, capture=capture), table


def main() -> int:
    """Print the tables, and how many figures are the same, explained and neither."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", nargs="?")
    parser.add_argument("table", nargs="?")
    parser.add_argument("--capture")
    open_figures = 0
    for report, table in jobs(parser.parse_args()):
        rows = list(rows_of(report.trace, table))
        notes = [note for row in rows for note in row.notes]
        open_figures += notes.count("?")
        same, known = notes.count("same"), len(notes) - notes.count("-")
        print(
            f"## {table.name}\n\n{len(rows)} rows, {known} figures: {same} within {CLOSE:.0%}, "
            f"{known - same - notes.count('?')} explained, {notes.count('?')} not.\n\n{markdown(rows)}"
        )
    return min(open_figures, 1)


if __name__ == "__main__":
    sys.exit(main())
