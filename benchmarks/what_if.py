"""Asks what if, carries the change out, and prints what was predicted beside what was measured.

    python benchmarks/what_if.py [part of a name or a kind] [--rounds 5] [--write docs/what_if.md]

A program is recorded once in each round. Both ways run without the profiler, in turns, so that a busy machine slows
both down alike. Time in which other programs had the core is not counted, where the system tells it, and a step
of each is that of its fastest loop. The prediction is by how much the fastest
recorded steps would change, as a share of them, times the step without the profiler.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from IPython.core.interactiveshell import InteractiveShell
from what_if_programs import MADE, PROGRAMS, RENAMED, Program

from torchprof_magic.model.units import format_ns

if TYPE_CHECKING:
    from torchprof_magic.findings.what_if import WhatIf

os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
BEGIN, END = "<!-- carried out: begin -->\n", "<!-- carried out: end -->\n"
HEAD = (
    "| change | kind | before | predicted | between | measured | error | said |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)
SCHEDULE = Path("/proc/thread-self/schedstat")
PAIRS = 4
FASTEST = 3
ALONE = 15


class Outcome(NamedTuple):
    """A step before, what was predicted of it and what was measured after the change, in ns."""

    before_ns: float
    predicted_ns: float
    measured_ns: float
    said: WhatIf

    @property
    def error(self) -> float:
        """By how much the prediction is off, as a share of what was measured."""
        return self.predicted_ns / self.measured_ns - 1

    @property
    def between_ns(self) -> tuple[float, float]:
        """The interval that was told, as shares of the recorded step, of the step without the profiler."""
        return tuple(self.before_ns * ns / self.said.before_ns for ns in (self.said.low_ns, self.said.high_ns))

    @property
    def is_between(self) -> bool:
        """Whether the step that was measured lies in the interval."""
        low, high = self.between_ns
        return low <= self.measured_ns <= high

    @property
    def is_wrong_way(self) -> bool:
        """Whether the step became longer instead of shorter, or the other way round, by more than noise."""
        said, is_so = self.predicted_ns - self.before_ns, self.measured_ns - self.before_ns
        return said * is_so < 0 and min(abs(said), abs(is_so)) > 0.03 * self.before_ns


def undisturbed_ns() -> int:
    """Return a clock that stands still while this thread could run and another program had the core."""
    return time.perf_counter_ns() - (int(SCHEDULE.read_text().split()[1]) if SCHEDULE.exists() else 0)


class Way:
    """One way to run a program, in a namespace of its own."""

    def __init__(self, program: Program, *, is_changed: bool) -> None:
        texts = [program.setup, program.cell]
        for old, new in program.changes if is_changed else ():
            texts = [text.replace(old, new) for text in texts]
        made = MADE.get(program.name, "")
        renamed = RENAMED.get(program.name, "") if is_changed else ""
        self.names: dict[str, Any] = {}
        self.threads = program.threads[is_changed]
        self.steps = program.steps
        torch.set_num_threads(self.threads)
        exec("\n".join((texts[0], made, renamed)), self.names)  # noqa: S102 - the programs of this repository
        self._loop = compile(texts[1], "<cell>", "exec")

    def step_ns(self) -> float:
        """Return how long a step takes in one loop."""
        torch.set_num_threads(self.threads)
        begin = undisturbed_ns()
        exec(self._loop, self.names)  # noqa: S102 - the same
        return (undisturbed_ns() - begin) / self.steps

    def statement_ns(self, statement: str) -> float:
        """Return how long a statement takes by itself, the median of some runs."""
        torch.set_num_threads(self.threads)
        code, times = compile(statement, "<alone>", "exec"), []
        for _ in range(ALONE):
            begin = undisturbed_ns()
            exec(code, self.names)  # noqa: S102 - the same
            times.append(undisturbed_ns() - begin)
        # The system counts what others have taken in turns of its own, at times more than passed here.
        return min(each for each in times if each > 0)


def asked(program: Program, before: Way, after: Way) -> dict[str, Any]:
    """Return the question, with numbers of lines, and with a factor that is measured alone."""
    ask = dict(program.ask)
    if program.factor_of:
        before.step_ns()
        after.step_ns()
        ratio = before.statement_ns(program.alone[0]) / after.statement_ns(program.alone[1])
        ask = {"faster": {program.factor_of: ratio}}
    cell = f"%%torchprof\n{program.cell}".split("\n")

    def line(what: Any) -> Any:
        if isinstance(what, str) and what.startswith("line:"):
            return next(n for n, text in enumerate(cell, 1) if what.removeprefix("line:") in text)
        return what

    if "faster" in ask:
        ask["faster"] = {line(what): factor for what, factor in ask["faster"].items()}
    if "without" in ask:
        ask["without"] = line(ask["without"])
    return ask


def recorded(program: Program) -> Any:
    """Record a program in a fresh shell, and return its report."""
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    shell.run_line_magic("load_ext", "torchprof_magic")
    torch.set_num_threads(program.threads[0])
    shell.run_cell(f"{program.setup}\nNone").raise_error()
    shell.run_cell(program.cell).raise_error()  # what a first run does once is not of a step
    shell.run_cell(f"%%torchprof -o found --display none -q {program.flags}\n{program.cell}").raise_error()
    report = shell.user_ns["found"]
    shell.run_line_magic("unload_ext", "torchprof_magic")
    return report


def outcome(program: Program, rounds: int) -> Outcome:
    """Record, ask, and run both ways in turns."""
    before, after = Way(program, is_changed=False), Way(program, is_changed=True)
    ask = asked(program, before, after)
    for way in (before, after):
        way.step_ns()
    said, befores, afters = [], list[float](), list[float]()
    for _ in range(rounds):
        report = recorded(program)
        steps = report.steps.filter(complete=True).sort("dur_ns")["number"].head(FASTEST)
        said.append(report.counting(*steps.to_list()).what_if(**ask))
        for _ in range(PAIRS):
            befores.append(before.step_ns())
            afters.append(after.step_ns())
    quietest = min(said, key=lambda one: one.before_ns)
    before_ns = min(befores)
    return Outcome(before_ns, before_ns * quietest.step_ns / quietest.before_ns, min(afters), quietest)


def main() -> None:
    """Print a line for each program, and how often what was said came true."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="?", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=Path)
    wanted = parser.parse_args()
    threads, rows, found = torch.get_num_threads(), [], list[Outcome]()
    for program in PROGRAMS:
        if wanted.only not in program.name and wanted.only != program.kind:
            continue
        one = outcome(program, wanted.rounds)
        torch.set_num_threads(threads)
        found.append(one)
        between = " to ".join(format_ns(ns) for ns in one.between_ns)
        times = [format_ns(one.before_ns), format_ns(one.predicted_ns), between, format_ns(one.measured_ns)]
        way = (", outside" if not one.is_between else "") + (", wrong way" if one.is_wrong_way else "")
        rows.append(
            f"| {program.name} | {program.kind} | {' | '.join(times)} | {one.error:+.1%}{way} | {one.said.certainty} |"
        )
        print(rows[-1], flush=True)
    summary = _summary(found)
    print(summary)
    if wanted.write:
        text = wanted.write.read_text()
        table = "\n".join((HEAD, *rows, "", summary))
        wanted.write.write_text(f"{text.split(BEGIN)[0]}{BEGIN}{table}\n{END}{text.split(END)[1]}")


def _summary(found: list[Outcome]) -> str:
    errors = sorted(abs(one.error) for one in found)
    sure = [abs(one.error) for one in found if one.said.certainty != "guess"]
    near = sum(error <= 0.15 for error in errors)  # noqa: PLR2004 - the issue is whether nine of ten are that close
    wrong = sum(one.is_wrong_way for one in found)
    inside = sum(one.is_between for one in found)
    median_sure = f"{statistics.median(sure):.1%}" if sure else "–"
    return (
        f"{len(found)} programs: median error {statistics.median(errors):.1%}, {near} within 15 %, {wrong} the "
        f"wrong way; {inside} in the interval that was told; without guesses {len(sure)} with {median_sure}."
    )


if __name__ == "__main__":
    main()
