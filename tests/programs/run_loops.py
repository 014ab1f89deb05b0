"""Runs the cells of ``loops`` under the magic and shows which loop was stepped beside the one that is meant."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from IPython.core.interactiveshell import InteractiveShell
from loops import SETUP, SHAPES, Shape

if TYPE_CHECKING:
    from torchprof_magic.report.trace_report import Report


def shell() -> InteractiveShell:
    """Return a fresh shell in which the names of the cells are set."""
    InteractiveShell.clear_instance()
    found = InteractiveShell.instance()
    found.history_manager.enabled = False
    found.run_line_magic("load_ext", "torchprof_magic")
    found.run_cell(SETUP, store_history=True).raise_error()
    return found


def run(found: InteractiveShell, shape: Shape) -> tuple[Report, list[str]]:
    """Run a cell and return its report with what is wrong in it."""
    cell = f"%%torchprof -o found --display none -q\n{shape.cell}"
    found.run_cell(cell, store_history=True).raise_error()
    report = found.user_ns["found"]
    wanted = next((at for at, line in enumerate(cell.splitlines(), 1) if line.endswith("# STEP")), None)
    stepping, flaws = report.trace.meta.stepping, []
    if (stepping.how, stepping.line) != (shape.how, wanted):
        flaws.append(f"stepped by {stepping.how} {stepping.line}, not {shape.how} {wanted}")
    complete = report.steps.filter("complete") if report.steps.height else report.steps
    if not complete.height:
        flaws.append("no complete step")
    flaws += [problem.message for problem in report.problems if problem.severity == "data_loss"]
    if shape.how == "loop" and complete.height and report.ops.height == 0:
        flaws.append("no op in the steps")
    return report, flaws


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="part of the name of the cells to run")
    chosen, bad, found = parser.parse_args(), 0, shell()
    for shape in SHAPES:
        if chosen.only not in shape.name:
            continue
        report, flaws = run(found, shape)
        bad += bool(flaws)
        numbers = report.steps["number"].to_list() if report.steps.height else []
        kind = report.verdict.kind
        print(f"{'WRONG' if flaws else 'right'}  {shape.name}: steps {numbers}, {kind}")
        for flaw in flaws:
            print(f"       - {flaw}")
        for problem in report.problems:
            print(f"       ({problem.code}: {problem.message})")
    print(f"{len(SHAPES) - bad} of {len(SHAPES)} right")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
