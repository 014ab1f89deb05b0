"""Runs every written program under the magic and shows each verdict beside what is right."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, NamedTuple

import torch
from IPython.core.interactiveshell import InteractiveShell
from programs import PROGRAMS, Program

from torchprof_magic.model.units import format_ratio

if TYPE_CHECKING:
    from torchprof_magic.report.trace_report import Report


class Outcome(NamedTuple):
    """What the report says about a program."""

    report: Report
    flaws: list[str]


def run(program: Program) -> Outcome:
    """Run a program in a fresh shell and return its report with everything that is wrong in it."""
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    shell.run_line_magic("load_ext", "torchprof_magic")
    setup = shell.run_cell(program.setup, store_history=True)
    setup.raise_error()
    cell = f"%%torchprof -o found --display none -q {program.flags}\n{program.cell}"
    shell.run_cell(cell, store_history=True).raise_error()
    report = shell.user_ns["found"]
    shell.run_line_magic("unload_ext", "torchprof_magic")
    return Outcome(report, flaws_of(program, cell, report))


def flaws_of(program: Program, cell: str, report: Report) -> list[str]:
    """Return what is wrong in a report, as sentences."""
    verdict, flaws = report.verdict, []
    if verdict.kind not in program.kinds:
        flaws.append(f"the verdict is {verdict.kind}, not {' or '.join(program.kinds)}")
    blamed = str(verdict).partition(" Besides,")[0]
    flaws += [f"the verdict blames {name}" for name in program.not_named if name in blamed]
    wanted = here(cell) or here(program.setup)
    if wanted:
        top = top_line(report)
        if top != wanted.strip():
            flaws.append(f"the line is {top!r}, not {wanted.strip()!r}")
    if program.module:
        modules = getattr(report, "modules", None)
        if modules is not None and modules.height:
            own = modules.filter(modules["self_cpu_ns"] == modules["self_cpu_ns"].max())["path"][0]
            if not str(own).endswith(program.module):
                flaws.append(f"the module is {own!r}, not {program.module!r}")
    return flaws


def here(cell: str) -> str:
    """Return the line that is marked as the one to blame."""
    return next((line for line in cell.splitlines() if line.rstrip().endswith("# HERE")), "")


def top_line(report: Report) -> str:
    """Return the source of the line that the verdict names."""
    verdict, lines = report.verdict, report.lines
    named = lines.filter((lines["file"] == verdict.file) & (lines["line"] == verdict.line))
    return str(named["source"][0]).strip() if named.height else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="part of the name of the programs to run")
    parser.add_argument("--threads", type=int, default=0)
    chosen = parser.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    bad = 0
    for program in PROGRAMS:
        if chosen.only not in program.name:
            continue
        found = run(program)
        verdict = found.report.verdict
        bad += bool(found.flaws)
        print(f"{'WRONG' if found.flaws else 'right'}  {program.name}: {verdict.kind} {format_ratio(verdict.share)}")
        print(f"       {verdict}")
        for flaw in found.flaws:
            print(f"       - {flaw}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
