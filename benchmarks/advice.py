"""Carries out the advice on every written program that has something to change: what was said beside what it saves.

    python benchmarks/advice.py [RULE or part of a name] [--rounds 7]

Each round records the program once, and runs it a few times as it is and changed, in turns and without the profiler, so
that a busy machine slows all of them down alike. Printed are the medians over the rounds, in wall time of a step, and
what the fastest loops of both ways differ by.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "advice_programs"))
from advice_run import run
from advised import CORES, PROGRAMS, Program

from torchprof_magic.model.units import format_ns

os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"  # what was compiled for one way is not there for the other
# Their first run is what is measured: later ones find everything compiled.
ONCE = ("recompiles",)
# torch compiles a function so often, and then runs it as it is (`torch._dynamo.config.recompile_limit`).
MOST_COMPILES = 8
THREADS = {"oversubscribed_threads": CORES, "undersubscribed_threads": CORES}
PAIRS = 5


class Measured(NamedTuple):
    """The saving that was said and that there was, in ns a step, and the words for how sure the first was.

    ``fastest_ns`` is that of the fastest loops of both ways, which no other program has delayed.
    """

    said_ns: float | None
    saved_ns: float
    fastest_ns: float
    certainty: str


def changed(program: Program) -> tuple[str, str]:
    """Return setup and cell with the advice carried out."""
    texts = [program.setup, program.cell]
    for old, new in program.changes:
        assert any(old in text for text in texts), (program.name, old)
        texts = [text.replace(old, new) for text in texts]
    return texts[0], texts[1]


class Way:
    """One way to run a program, in a namespace of its own."""

    def __init__(self, setup: str, cell: str, threads: int) -> None:
        self.names: dict[str, object] = {}
        self.threads = threads
        torch.set_num_threads(threads)
        exec(setup, self.names)  # noqa: S102 - the programs of this repository
        self.code = compile(cell, "<cell>", "exec")

    def seconds(self) -> float:
        """Return how long one loop takes."""
        torch.set_num_threads(self.threads)
        began = time.perf_counter()
        exec(self.code, self.names)  # noqa: S102 - the same
        return time.perf_counter() - began


def steps_of(program: Program) -> int:
    """Return how many steps of the loop of a program have what is saved."""
    if program.rule in ONCE:
        return MOST_COMPILES
    return 20 if "in loader" in program.cell else 10


def measured(program: Program, rounds: int) -> Measured:
    """Carry out the advice on a program, and return what was said beside what it saves."""
    threads = THREADS.get(program.rule, program.threads)
    hits, befores, afters = [], list[float](), list[float]()
    if program.rule in ONCE:
        for _ in range(rounds):
            torch.compiler.reset()
            hits.append(run(program).hit)
            torch.compiler.reset()
            befores.append(Way(program.setup, program.cell, program.threads).seconds())
            torch.compiler.reset()
            afters.append(Way(*changed(program), threads).seconds())
    else:
        before, after = Way(program.setup, program.cell, program.threads), Way(*changed(program), threads)
        for way in (before, after):
            way.seconds()
        for _ in range(rounds):
            hits.append(run(program).hit)
            for _ in range(PAIRS):
                befores.append(before.seconds())
                afters.append(after.seconds())
    said = [hit.saving_ns for hit in hits if hit is not None and hit.saving_ns]
    certainty = next((hit.certainty for hit in hits if hit is not None), "nothing said")
    in_ns = 1e9 / steps_of(program)
    saved_ns = statistics.median(first - second for first, second in zip(befores, afters, strict=True)) * in_ns
    return Measured(
        statistics.median(said) if said else None, saved_ns, (min(befores) - min(afters)) * in_ns, certainty
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="?", default="", help="part of the name or the rule of the programs to measure")
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    threads, ratios = torch.get_num_threads(), []
    print(f"{'rule':<24} {'said':>10} {'measured':>10} {'fastest':>10} {'said/measured':>13}  certainty, program")
    for program in PROGRAMS:
        if program.is_miss or not program.changes or not (chosen.only in program.name or chosen.only == program.rule):
            continue
        found = measured(program, chosen.rounds)
        torch.set_num_threads(threads)
        ratio = found.said_ns / found.saved_ns if found.said_ns is not None and found.saved_ns > 0 else None
        ratios += [ratio] if ratio is not None else []
        words = f"{ratio:13.2f}" if ratio is not None else f"{'':13}"
        said = format_ns(found.said_ns) if found.said_ns is not None else "-"
        numbers = f"{said:>10} {format_ns(found.saved_ns):>10} {format_ns(found.fastest_ns):>10} {words}"
        print(f"{program.rule:<24} {numbers}  {found.certainty}, {program.name}", flush=True)
    if ratios:
        errors = [abs(ratio - 1) for ratio in ratios]
        far = sum(not 0.5 <= ratio <= 2 for ratio in ratios)  # noqa: PLR2004 - a factor of two
        print(
            f"{len(ratios)} with a number: median error {statistics.median(errors):.0%}, {far} off by more than twice"
        )


if __name__ == "__main__":
    main()
