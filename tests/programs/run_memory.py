"""Runs each cell of ``memory_cells`` ten times in one kernel; shows its figures beside those of torch and live tensors.

A cell is right if the peak, the curve, what is in use at the peak, the savings, and what a comparison says of memory
are equal in all runs but the first, which finds no tensors of an earlier one, and if the curve is the sum of the live
storages whenever they are counted.
"""

from __future__ import annotations

import argparse
import gc
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import torch
from IPython.core.interactiveshell import InteractiveShell
from memory_cells import CELLS, COUNTED, SETUP, Cell

from torchprof_magic.model.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.report.trace_report import Report

RUNS = 10


class Run(NamedTuple):
    """The figures of one run, in bytes.

    ``torch_total`` is the highest total that torch reports, and ``torch_rise`` how far its records rise. ``live`` has
    the live storages at each count, and ``curve`` what the report says then.
    """

    report: Report
    peak: int
    torch_total: int
    torch_rise: int
    live: list[int]
    curve: list[int]
    figures: dict[str, Any]


def shell() -> InteractiveShell:
    """Return a fresh shell in which the names of the cells are set."""
    InteractiveShell.clear_instance()
    found = InteractiveShell.instance()
    found.history_manager.enabled = False
    found.run_line_magic("load_ext", "torchprof_magic")
    found.user_ns.update(count=Counter())
    found.run_cell(SETUP, store_history=True).raise_error()
    return found


class Counter:
    """Adds up the storages of the host that are reachable, without the package that is tested."""

    def __init__(self) -> None:
        self.found: list[int] = []

    def __call__(self) -> None:
        with torch.profiler.record_function(COUNTED):
            self.found.append(live_bytes())


def live_bytes() -> int:
    """Return the bytes of all storages of the host, each once, that live tensors, gradients and graphs use."""
    storages: dict[int, int] = {}
    seen: set[Any] = set()
    for one in gc.get_objects():
        if issubclass(type(one), torch.Tensor):
            for tensor in (one, *_behind(one, seen)):
                if tensor.device.type == "cpu":
                    storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
    return sum(storages.values())


def _behind(tensor: torch.Tensor, seen: set[Any]) -> Iterator[torch.Tensor]:
    """Yield the gradient of a leaf, and what the nodes of autograd behind a tensor have saved."""
    if tensor.is_leaf and tensor.grad is not None:
        yield tensor.grad
    nodes = [tensor.grad_fn]
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        nodes += [following for following, _ in node.next_functions]
        for name in dir(node):
            if name.startswith("_saved_"):
                try:
                    saved = getattr(node, name)
                except RuntimeError:  # it has been freed
                    continue
                yield from (one for one in (saved if isinstance(saved, tuple) else (saved,)) if torch.is_tensor(one))


def run(found: InteractiveShell, cell: Cell) -> Run:
    """Run a cell once and return its figures."""
    counter = found.user_ns["count"]
    found.run_cell(cell.before, store_history=True).raise_error()
    counter.found.clear()
    text = f"%%torchprof -o found --display none -q --memory {cell.flags}\n{cell.cell}"
    found.run_cell(text, store_history=True).raise_error()
    report = found.user_ns.pop("found")
    return figures_of(report, list(counter.found))


def figures_of(report: Report, live: list[int]) -> Run:
    memory, trace = report.memory, report.trace
    counted = trace.events.filter((trace.events["name"] == COUNTED) & (trace.events["category"] != "python_function"))
    starts = counted.sort("start_ns")["start_ns"].to_list()
    curve = [int(memory.filter(pl.col("time_ns") <= start)["total_bytes"][-1]) for start in starts]
    raw = trace.memory
    held = report.memory_at("peak").select("size_bytes", "category", "op", "module", "line", "step")
    figures = {
        "curve": memory.drop("time_ns").rows(),
        "at the peak": sorted(map(str, held.rows())),
        "savings": report.savings.drop("added_time_ns", strict=False).rows(),
        "leaks": report.leaks.drop("addresses", "file", "kept_file").rows(),
        "limit": [str(one) for one in broken(report)],
    }
    return Run(
        report=report,
        peak=int(memory["total_bytes"].max() or 0),  # type: ignore[arg-type]
        torch_total=int(raw["allocated_bytes"].max() or 0),  # type: ignore[arg-type]
        torch_rise=int(raw["delta_bytes"].cum_sum().max() or 0),  # type: ignore[arg-type]
        live=live,
        curve=curve,
        figures=figures,
    )


def broken(report: Report) -> list[str]:
    """Return what a limit of one byte says of the peak."""
    try:
        report.assert_profile(max_peak=1)
    except AssertionError as error:
        return [str(error)]
    return []


def flaws_of(runs: list[Run]) -> list[str]:
    """Return what is wrong in the runs of one cell, as sentences."""
    flaws = []
    for number, each in enumerate(runs, 1):
        recorded = len(each.curve)
        if not recorded:
            flaws.append(f"run {number}: nothing was counted while recording")
        if not is_part(each.curve, each.live):
            flaws.append(f"run {number}: the curve says {each.curve}, and live are {each.live}")
    later = runs[1:]
    for each in later[1:]:
        for name, value in each.figures.items():
            if value != later[0].figures[name]:
                flaws.append(f"{name}: {first_difference(value, later[0].figures[name])}")
    for each in later[1:]:
        changes = each.report.compare(later[0].report).memory
        flaws += [f"compare: {row}" for row in changes.filter(pl.col("delta_bytes") != 0).to_dicts()[:1]]
    return flaws


def is_part(part: list[int], whole: list[int]) -> bool:
    """Return whether numbers are in a list, in their order."""
    left = iter(whole)
    return all(any(one == other for other in left) for one in part)


def first_difference(value: Any, other: Any) -> str:
    pairs = [(a, b) for a, b in zip(value, other, strict=False) if a != b]
    return f"{pairs[0][0]} is not {pairs[0][1]}" if pairs else f"{len(value)} rows are not {len(other)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", default=[""], help="parts of the names of the cells to run")
    parser.add_argument("--runs", type=int, default=RUNS)
    chosen, bad = parser.parse_args(), 0
    for cell in (cell for cell in CELLS if any(part in cell.name for part in chosen.only)):
        found = shell()
        runs = [run(found, cell) for _ in range(chosen.runs)]
        flaws = flaws_of(runs)
        bad += bool(flaws)
        print(f"{'WRONG' if flaws else 'right'}  {cell.name}")
        for title, values in (
            ("peak", [each.peak for each in runs]),
            ("torch's total", [each.torch_total for each in runs]),
            ("torch's rise", [each.torch_rise for each in runs]),
            ("live at last", [each.live[-1] for each in runs]),
            ("curve then", [each.curve[-1] if each.curve else 0 for each in runs]),
        ):
            print(f"       {title:14}", *(format_bytes(value) for value in values), sep="  ")
        for flaw in dict.fromkeys(flaws):
            print(f"       - {flaw[:300]}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
