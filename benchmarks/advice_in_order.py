"""Carries out one piece of advice after the other, and prints what each was said to save then beside what it saves.

    python benchmarks/advice_in_order.py [part of a name] [--rounds 5]

Each program has two or three things to change, which are carried out in the order of the report. All ways run without
the profiler, in turns, so that a busy machine slows all of them down alike, and a step of each is that of its fastest
loop, in wall time: while another program has the core, workers go on loading. What is said is the median over the
recordings, each of its fastest steps.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

import torch
from what_if import FASTEST, PAIRS, Way, recorded
from what_if_programs import STEP, Program, program

from torchprof_magic.model.units import format_ns

if TYPE_CHECKING:
    from torchprof_magic import Advice

SLOW = """
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self):
        return 32 * 32
    def __getitem__(self, index):
        time.sleep(0.0003)
        return torch.randn(256), index % 10
loader = DataLoader(Data(), batch_size=32)
"""
ADAM = "\nopt = torch.optim.Adam(net.parameters(), foreach=False)\n"
MANY = "\nnet = Net(64, 24)\nx = torch.randn(256, 64)\n"
WORKERS = ("batch_size=32)", "batch_size=32, num_workers=2, persistent_workers=True)")
FUSED = ("foreach=False", "fused=True")
SLEEP = ("    time.sleep(0.008)\n", "")
TURNS = "\n    total = 0.0\n    for at in range(256):\n        total = total + x[at, 0] * 2"
LOOP = (TURNS, "\n    total = (x[:, 0] * 2).sum()")


class Case(NamedTuple):
    """A program, and how each piece of its advice is carried out, by rule."""

    program: Program
    changes: dict[str, tuple[str, str]]


CASES = (
    Case(
        program(
            "a loader without workers, a sleep and Adam",
            "",
            "\n    time.sleep(0.008)\n" + STEP,
            setup=SLOW + ADAM,
            loop="for x, y in loader:",
            steps=32,
            flags="--active 6 --warmup 2",
        ),
        {"dataloader_workers": WORKERS, "sleeping": SLEEP, "single_tensor_optimizer": FUSED},
    ),
    Case(
        program(
            "a loader that two workers do not hide, and a sleep",
            "",
            "\n    time.sleep(0.008)\n" + STEP,
            setup=SLOW.replace("0.0003", "0.0009"),
            loop="for x, y in loader:",
            steps=32,
            flags="--active 6 --warmup 2",
        ),
        {"dataloader_workers": WORKERS, "sleeping": SLEEP},
    ),
    Case(
        program(
            "a Python loop over elements and AdamW of many parameters",
            "",
            TURNS + STEP,
            setup=MANY + ADAM.replace("Adam(", "AdamW("),
        ),
        {"python_loop": LOOP, "single_tensor_optimizer": FUSED},
    ),
    Case(
        program(
            "gradients of zeros, a sleep and a table from a list",
            "",
            "\n    time.sleep(0.008)\n    weights = torch.tensor(table)"
            + STEP.replace("zero_grad()", "zero_grad(set_to_none=False)"),
            setup="\nnet = Net(1024, 4)\nopt = torch.optim.SGD(net.parameters(), lr=0.01, fused=True)\n"
            "x = torch.randn(32, 1024)\ny = y[:32]\ntable = [float(at) for at in range(20_000)]\n",
            flags="--active 8 --warmup 2",
        ),
        {
            "sleeping": SLEEP,
            "zero_grad_set_to_none": ("set_to_none=False", "set_to_none=True"),
            "rebuilt_constant": ("torch.tensor(table)", "None"),
        },
    ),
)


def said_in(case: Case) -> list[Advice]:
    """Record a program once, and return the advice on its fastest steps that can be carried out, in order."""
    report = recorded(case.program)
    steps = report.steps.filter(complete=True).sort("dur_ns")["number"].head(FASTEST)
    return [each for each in report.counting(*steps.to_list()).advice if each.rule in case.changes]


def measured(case: Case, rounds: int) -> list[str]:
    """Return a line for each piece of advice, in the order of most recordings."""
    told = [said_in(case) for _ in range(rounds)]
    orders = [tuple(each.rule for each in advice) for advice in told]
    order = statistics.mode(orders)
    ways = [Way(case.program, is_changed=False)]
    for at in range(len(order)):
        changes = tuple(case.changes[rule] for rule in order[: at + 1])
        ways.append(Way(_changed(case.program, changes), is_changed=True))
    times: list[list[float]] = [[] for _ in ways]
    for way in ways:
        way.step_ns()
    for _ in range(rounds * PAIRS):
        for way, found in zip(ways, times, strict=True):
            begin = time.perf_counter_ns()
            way.step_ns()
            found.append((time.perf_counter_ns() - begin) / way.steps)
    fastest = [min(found) for found in times]
    lines = []
    for at, rule in enumerate(order):
        own = [each for advice in told for each in advice if each.rule == rule]
        after, alone = (statistics.median([getattr(each, name) or 0 for each in own]) for name in _SAID)
        saved = fastest[at] - fastest[at + 1]
        figures = " | ".join(format_ns(ns) for ns in (fastest[at], alone, after, saved))
        off = (after - saved) / fastest[at]
        lines.append(f"| {case.program.name} | {at + 1} `{rule}` | {figures} | {off:+.1%} of the step |")
    return lines


_SAID = ("saving_ns", "alone_ns")


def _changed(of: Program, changes: tuple[tuple[str, str], ...]) -> Program:
    made = {name: getattr(of, name) for name in of.__dataclass_fields__}
    return Program(**(made | {"changes": changes}))


def main() -> None:
    """Print a line for each piece of advice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="?", default="")
    parser.add_argument("--rounds", type=int, default=5)
    wanted = parser.parse_args()
    threads = torch.get_num_threads()
    print(
        "| program | advice | step before | alone | said | saved | off |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    for case in CASES:
        if wanted.only in case.program.name:
            print("\n".join(measured(case, wanted.rounds)), flush=True)
            torch.set_num_threads(threads)


if __name__ == "__main__":
    main()
