"""How far the times of lines are from a clock that the cell itself reads around the same statements.

A cell of sleeps and matrix products runs under the magic in an IPython shell of its own. Each row is one statement: the
summed time by its own clock, by ``report.lines``, and the ratio of the two.
"""

from __future__ import annotations

import argparse
from time import perf_counter_ns

import torch
from IPython.testing.globalipapp import start_ipython

STEPS = 20
STATEMENTS = (
    "time.sleep(0.001)",
    "time.sleep(0.005)",
    "small @ small",
    "large @ large",
    "y = (x @ x).relu().sum()",
    "y.backward()",
    "total = sum(range(30_000))",
    "[big @ big for _ in range(3)]",
)


def source(flags: str) -> str:
    """Return the cell, in which every statement stands between two readings of the clock."""
    lines = [f"%%torchprof --wait 0 --warmup 0 --active {STEPS} {flags}", f"for step in range({STEPS}):"]
    for number, statement in enumerate(STATEMENTS):
        lines += ["    t = clock()", f"    {statement}", f"    times[{number}] += clock() - t"]
    return "\n".join(lines)


def main() -> None:
    """Print one row per statement, for each round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--flags", default="", help="flags of %%%%torchprof, for example '--lines --modules'")
    arguments = parser.parse_args()
    shell = start_ipython()
    shell.run_line_magic("load_ext", "torchprof_magic")
    sizes = {"small": 200, "large": 600, "big": 400, "x": 500}
    names = {name: torch.randn(size, size, requires_grad=name == "x") for name, size in sizes.items()}
    shell.push({**names, "clock": perf_counter_ns})
    shell.run_cell("import time, torchprof_magic as tp")
    ratios: list[list[float]] = [[] for _ in STATEMENTS]
    for _ in range(arguments.rounds):
        times = [0] * len(STATEMENTS)
        shell.push({"times": times})
        shell.run_cell(source(arguments.flags)).raise_error()
        frame = shell.ev("tp.last.lines")
        found = dict(frame.select("source", "total_cpu_ns").rows())
        for number, statement in enumerate(STATEMENTS):
            line = next(ns for text, ns in found.items() if text and text.strip() == statement)
            ratios[number].append(line / times[number])
            print(f"{statement:32} {times[number] / 1e6:10.3f} ms {line / 1e6:10.3f} ms {ratios[number][-1]:8.4f}")
    print(f"\n{'statement':32} {'least':>8} {'median':>8} {'most':>8}   of {arguments.rounds} rounds of {STEPS} steps")
    for statement, values in zip(STATEMENTS, ratios, strict=True):
        ordered = sorted(values)
        print(f"{statement:32} {ordered[0]:8.4f} {ordered[len(ordered) // 2]:8.4f} {ordered[-1]:8.4f}")


if __name__ == "__main__":
    main()
