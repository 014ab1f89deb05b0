"""What it costs to time lines and modules: steps of about 1, 10 and 100 ms with and without, in turns.

Each row is the median over rounds of a ratio between two runs of the same steps that follow each other.
"""

from __future__ import annotations

import argparse
import ast
import sys
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import torch

from torchprof_magic.capture import LineMarks
from torchprof_magic.capture.parts import Parts
from torchprof_magic.capture.watch.functions import FunctionLines
from torchprof_magic.capture.watch.modules import ModuleMarks
from torchprof_magic.run.line_marks import mark_lines, with_marks

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

SIZES = {1: 96, 10: 256, 100: 640}  # milliseconds of a step, by the width of its layers
STEPS = {1: 200, 10: 30, 100: 5}
CELL = """\
for step in range(steps):
    x = batch * 2
    y = model(x)
    loss = y.sum()
    loss.backward()
    for p in parameters:
        p.grad = None
    total = total + 1
"""


def compiled(marks: LineMarks | None) -> CodeType:
    """Return the code of the cell, marked or not."""
    tree = ast.parse(CELL)
    if marks is None:
        return compile(tree, "<ipython-input-1-plain>", "exec")
    loop = tree.body[0]
    assert isinstance(loop, ast.For)
    marked = ast.fix_missing_locations(mark_lines(tree, loop))
    return with_marks(compile(marked, "<ipython-input-2-marked>", "exec"), marks)


def seconds(code: CodeType, names: dict[str, Any]) -> float:
    """Run the cell once."""
    began = perf_counter_ns()
    exec(code, dict(names))  # noqa: S102 - our own code
    return (perf_counter_ns() - began) / 1e9


def ratio(plain: Callable[[], float], other: Callable[[], float], rounds: int) -> float:
    """Return the median ratio of two runs, in turns and in changing order."""
    found = []
    for number in range(rounds):
        first, second = (plain, other) if number % 2 else (other, plain)
        times = {first: first(), second: second()}
        found.append(times[other] / times[plain])
    return median(found)


def measure(milliseconds: int, rounds: int) -> None:
    """Print the costs for steps of one length."""
    width = SIZES[milliseconds]
    layers = [torch.nn.Linear(width, width) for _ in range(8)]
    model = torch.nn.Sequential(*layers)
    batch = torch.randn(width, width)
    names = {"steps": STEPS[milliseconds], "batch": batch, "model": model, "total": 0}
    names["parameters"] = list(model.parameters())
    plain = compiled(None)
    marks = LineMarks()
    marked = compiled(marks)
    modules, functions = ModuleMarks(asked=True, parts=Parts()), FunctionLines(Parts())

    def with_lines() -> float:
        marks.switch(is_on=True)
        found = seconds(marked, names)
        marks.switch(is_on=False)
        marks.pending.clear()
        return found

    def with_modules() -> float:
        end = modules.watch()
        modules.switch(is_on=True)
        found = seconds(plain, names)
        modules.switch(is_on=False)
        end()
        modules.take()
        return found

    def with_functions() -> float:
        functions.switch(is_on=True)
        found = seconds(plain, names)
        functions.switch(is_on=False)
        functions.take()
        return found

    def without() -> float:
        return seconds(plain, names)

    def switched_off() -> float:
        return seconds(marked, names)

    step_ms = median(without() for _ in range(3)) / STEPS[milliseconds] * 1e3
    for title, run in (
        ("lines of the cell", with_lines),
        ("the same, switched off", switched_off),
        ("modules (9 calls a step)", with_modules),
        ("--lines", with_functions),
    ):
        print(f"{step_ms:7.2f} ms per step   {title:26} {ratio(without, run, rounds) * 100 - 100:+6.2f} %")


def main() -> int:
    """Measure all lengths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    for milliseconds in SIZES:
        measure(milliseconds, rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
