"""Runs every program that has something to change, or just not, and compares the advice with what is right."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import torch
from advised import CORES, PROGRAMS, Program
from IPython.core.interactiveshell import InteractiveShell

if TYPE_CHECKING:
    from torchprof_magic import Advice
    from torchprof_magic.report.trace_report import Report


class Outcome(NamedTuple):
    """What the report of a program advises, and everything that is wrong in it; ``cell`` is what ran."""

    report: Report
    cell: str
    hit: Advice | None
    misses: list[str]
    alarms: list[str]


def run(program: Program) -> Outcome:
    """Run a program in a fresh shell; its threads are restored, and a process group that it begins ends."""
    has_group = torch.distributed.is_initialized()
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    shell.run_line_magic("load_ext", "torchprof_magic")
    threads = torch.get_num_threads()
    torch.set_num_threads(program.threads)
    try:
        shell.run_cell(program.setup + "\nNone", store_history=True).raise_error()
        cell = f"%%torchprof -o found --display none -q {program.flags}\n{program.cell}"
        shell.run_cell(cell, store_history=True).raise_error()
    finally:
        torch.set_num_threads(threads)
        if torch.distributed.is_initialized() and not has_group:
            torch.distributed.destroy_process_group()
    report = shell.user_ns["found"]
    shell.run_line_magic("unload_ext", "torchprof_magic")
    return judged(program, report, cell)


def line_of(text: str) -> int:
    """Return the number of the line that is to be named, 0 if it is elsewhere."""
    return next((n for n, line in enumerate(text.split("\n"), 1) if line.rstrip().endswith("# HERE")), 0)


def judged(program: Program, report: Report, cell: str) -> Outcome:
    """Return the advice of the program's rule, why it is missing, and what should not have been said."""
    hit = next((advice for advice in report.advice if advice.rule == program.rule), None)
    misses, alarms = [], []
    right = {*program.also, *right_anyway(program)} | (set() if program.is_miss else {program.rule})
    if not program.is_miss and hit is None:
        misses.append("nothing is said")
    # The line of the cell, or that of the function which it calls, where the lines of functions were timed. IPython
    # drops blank lines before a cell.
    wanted = [line_of(text) for text in (program.setup.lstrip("\n"), cell) if line_of(text)]
    if hit is not None and wanted and hit.line not in wanted and not program.is_miss:
        misses.append(f"line {hit.line}, not {wanted}")
    alarms += [
        f"{advice.rule}, line {advice.line}: {advice.evidence}" for advice in report.advice if advice.rule not in right
    ]
    return Outcome(report, cell, hit, misses, alarms)


def right_anyway(program: Program) -> set[str]:
    """Return the rules that are right for most programs here: these use one thread, and record short steps."""
    return {"profiling_distorts"} | ({"undersubscribed_threads"} if program.threads < CORES else set())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="part of the name or the rule of the programs to run")
    chosen = parser.parse_args()
    programs = [each for each in PROGRAMS if chosen.only in each.name or chosen.only == each.rule]
    hits = misses = alarms = 0
    for program in programs:
        began = time.perf_counter()
        try:
            found = run(program)
        except Exception as exc:  # noqa: BLE001 - the other programs run nevertheless
            misses += 1
            print(f"WRONG  {program.rule:<24} {program.name}: {type(exc).__name__}: {exc}")
            continue
        hits += found.hit is not None and not program.is_miss and not found.misses
        misses += bool(found.misses)
        alarms += len(found.alarms)
        state = "WRONG" if found.misses or found.alarms else "right"
        kind = "near miss" if program.is_miss else "true case"
        print(f"{state}  {program.rule:<24} {kind}  {program.name}  ({time.perf_counter() - began:.1f} s)")
        if found.hit is not None:
            print(f"       {found.hit} [{found.hit.saving_ns}, {found.hit.certainty}]\n       {found.hit.evidence}")
        for flaw in (*found.misses, *(f"false alarm: {alarm}" for alarm in found.alarms)):
            print(f"       - {flaw}")
        sys.stdout.flush()
    trues = sum(not program.is_miss for program in programs)
    print(f"{len(programs)} programs: {hits} hits of {trues} true cases, {misses} missed, {alarms} false alarms")
    return int(misses > 0 or alarms > 1)


if __name__ == "__main__":
    sys.exit(main())
