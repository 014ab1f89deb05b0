"""Carries out the advice on every written program that has something to change: what was said beside what it saves.

Both ways run without the profiler, in turns in one process, in whole loops; the median of the differences counts,
divided by the steps of the loop. Programs of one thread are measured in CPU time, which a busy machine lengthens least;
those that sleep, compile or use several threads in wall time. What is said is the least of three recordings, because
they are of wall time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "advice_programs"))
from advice_run import run
from advised import CORES, PROGRAMS, Program

from torchprof_magic.units import format_ns

if TYPE_CHECKING:
    from torchprof_magic import Advice

# Their first run is what is measured: later ones find everything compiled.
ONCE = ("recompiles",)
IN_WALL_TIME = ("dataloader_workers", "gradient_sync_each_step", "many_small_collectives", *ONCE)
os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"  # what was compiled for one way is not there for the other
LEAST_SECONDS = 2.0
THREADS = {"oversubscribed_threads": CORES, "undersubscribed_threads": CORES}


def changed(program: Program) -> tuple[str, str]:
    """Return setup and cell with the advice carried out."""
    texts = [program.setup, program.cell]
    for old, new in program.changes:
        assert any(old in text for text in texts), (program.name, old)
        texts = [text.replace(old, new) for text in texts]
    return texts[0], texts[1]


class Way:
    """One way to run a program, in a namespace of its own."""

    def __init__(self, program: Program, setup: str, cell: str, threads: int) -> None:
        self.names: dict[str, object] = {}
        self.threads = threads
        in_wall_time = program.rule in (*IN_WALL_TIME, *THREADS)
        self.clock = time.perf_counter if in_wall_time else time.process_time
        torch.set_num_threads(threads)
        exec(setup, self.names)  # noqa: S102 - the programs of this repository
        self.code = compile(cell, "<cell>", "exec")

    def seconds(self) -> float:
        """Return how long one loop takes."""
        torch.set_num_threads(self.threads)
        began = self.clock()
        exec(self.code, self.names)  # noqa: S102 - the same
        return self.clock() - began


def steps_of(program: Program) -> int:
    """Return how many steps the loop of a program has."""
    return 20 if "in loader" in program.cell else 10


def saved_ns(program: Program, rounds: int) -> float:
    """Return what carrying out the advice saves of a step, in ns."""
    threads = THREADS.get(program.rule, program.threads)
    torch.compiler.reset()
    before = Way(program, program.setup, program.cell, program.threads)
    if program.rule in ONCE:
        first = before.seconds()
        torch.compiler.reset()
        return (first - Way(program, *changed(program), threads).seconds()) / steps_of(program) * 1e9
    after = Way(program, *changed(program), threads)
    for way in (before, after):
        way.seconds()
    pairs = [(before.seconds(), after.seconds()) for _ in range(rounds)]
    until = time.perf_counter() + LEAST_SECONDS
    while time.perf_counter() < until:  # short programs need more rounds
        pairs.append((before.seconds(), after.seconds()))
    return statistics.median(first - second for first, second in pairs) / steps_of(program) * 1e9


def said_of(program: Program, recordings: int) -> Advice | None:
    """Return the advice with the least saving of several recordings."""
    hits = [hit for _ in range(recordings) if (hit := run(program).hit) is not None]
    return min(hits, key=lambda hit: hit.saving_ns or 0, default=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="part of the name or the rule of the programs to measure")
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    threads, ratios = torch.get_num_threads(), []
    print(f"{'rule':<24} {'said':>10} {'measured':>10} {'said/measured':>13}  certainty, program")
    for program in PROGRAMS:
        if program.is_miss or not program.changes or not (chosen.only in program.name or chosen.only == program.rule):
            continue
        said = said_of(program, 1 if program.rule in ONCE else 3)
        saved = saved_ns(program, chosen.rounds)
        torch.set_num_threads(threads)
        number = said.saving_ns if said is not None else None
        ratio = number / saved if number and saved > 0 else None
        if ratio is not None:
            ratios.append(ratio)
        words = f"{ratio:13.2f}" if ratio is not None else f"{'':13}"
        text = format_ns(number) if number else "-"
        sure = said.certainty if said is not None else "nothing said"
        print(f"{program.rule:<24} {text:>10} {format_ns(saved):>10} {words}  {sure}, {program.name}", flush=True)
    if ratios:
        errors = [abs(ratio - 1) for ratio in ratios]
        far = sum(not 0.5 <= ratio <= 2 for ratio in ratios)  # noqa: PLR2004 - a factor of two
        print(
            f"{len(ratios)} with a number: median error {statistics.median(errors):.0%}, {far} off by more than twice"
        )


if __name__ == "__main__":
    main()
