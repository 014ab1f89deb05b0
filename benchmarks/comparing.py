"""How often comparisons of runs are right: ``python benchmarks/comparing.py [pairs] [--default]``.

Records 24 steps a run; with ``--default`` only three of 60, as the magic does without flags, so that the steps without
the profiler are compared. Each round records the same program twice, then with work added that takes 5 % and 20 % of a
step, by the fastest steps without the profiler. Prints how often the same program is told to be unclear, and the slower
ones to be slower, and how often the added op, module and line come first. Runs are recorded one after the other,
whatever else the machine does.
"""

from __future__ import annotations

import collections
import os
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import torch
from IPython.core.interactiveshell import InteractiveShell
from torch import nn

if TYPE_CHECKING:
    from torchprof_magic.report.trace_report import Report

RECORDED = "--wait 1 --warmup 1 --active 24"
STEPS = {RECORDED: 26, "": 60}
SETUP = "import torch\nfrom torch import nn\n"
CELL = """%%torchprof -q -o run --modules {flags}
for _ in range({steps}):
    loss = criterion(model(x), y)
    planted(x)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


class Planted(nn.Module):
    """Does some work that no other part of the programs does."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.calls = calls
        self.work = torch.randn(96, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the input, after the work."""
        for _ in range(self.calls):
            torch.cumsum(self.work, 0)
        return x


class Program(NamedTuple):
    """A model with its inputs."""

    model: nn.Module
    x: torch.Tensor


def programs() -> dict[str, Program]:
    deep = [layer for _ in range(30) for layer in (nn.Linear(32, 32), nn.Tanh())]
    convolutions = (nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return {
        "many small ops": Program(nn.Sequential(*deep, nn.Linear(32, 10)), torch.randn(16, 32)),
        "matrix products": Program(
            nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.Linear(512, 10)),
            torch.randn(64, 512),
        ),
        "convolutions": Program(nn.Sequential(*convolutions, nn.Linear(32, 10)), torch.randn(4, 3, 64, 64)),
    }


class Recorder:
    """Records steps of a program in a shell, as a cell with the magic."""

    def __init__(self, program: Program, flags: str) -> None:
        self.flags = flags
        self.shell = InteractiveShell()
        self.shell.run_line_magic("load_ext", "torchprof_magic")
        self.shell.run_cell(SETUP)
        optimizer = torch.optim.SGD(program.model.parameters(), lr=0.01)
        names = {"model": program.model, "x": program.x, "y": torch.zeros(len(program.x), dtype=torch.long)}
        self.shell.push({**names, "criterion": nn.CrossEntropyLoss(), "optimizer": optimizer})

    def record(self, calls: int) -> Report:
        """Return the report of some steps with so many calls of the added op."""
        self.shell.push({"planted": Planted(calls)})
        self.shell.run_cell(CELL.format(flags=self.flags, steps=STEPS[self.flags]), store_history=True)
        report: Report = self.shell.user_ns["run"]
        return report

    def step_s(self) -> float:
        """Return how long a fast step takes without the profiler, in s."""
        names = self.shell.user_ns

        def step() -> None:
            names["criterion"](names["model"](names["x"]), names["y"]).backward()
            names["optimizer"].step()
            names["optimizer"].zero_grad()

        return fast_s(step, 60)


def fast_s(work: object, times: int) -> float:
    assert callable(work)
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return sorted(found)[times // 5]


def main(pairs: int, flags: str) -> None:
    torch.set_num_threads(1)
    unit_s = fast_s(lambda: Planted(10)(torch.ones(1)), 300) / 10
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, {STEPS[flags]} steps a run, {pairs} pairs each")
    for name, program in programs().items():
        recorder = Recorder(program, flags)
        base_s = recorder.step_s()
        calls = {0.05: max(1, round(0.05 * base_s / unit_s)), 0.2: max(1, round(0.2 * base_s / unit_s))}
        kinds: collections.Counter[tuple[str, str]] = collections.Counter()
        firsts: collections.Counter[tuple[str, str]] = collections.Counter()
        for _ in range(pairs):
            before = recorder.record(0)
            kinds["same", recorder.record(0).compare(before).kind] += 1
            for share, count in calls.items():
                comparison = recorder.record(count).compare(before)
                kinds[f"{share:.0%}", comparison.kind] += 1
                firsts[f"{share:.0%}", "op"] += comparison.ops["name"][0] == "aten::cumsum"
                firsts[f"{share:.0%}", "module"] += comparison.modules["class_name"].to_list()[:1] == ["Planted"]
                firsts[f"{share:.0%}", "line"] += comparison.lines["source"][0].strip() == "planted(x)"
        print(f"{name}: step of {base_s * 1e3:.2f} ms without the profiler")
        print(f"  {dict(kinds)}\n  first: {dict(firsts)}; load {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:] if text.isdecimal()]
    main(*(numbers or [50]), "" if "--default" in sys.argv else RECORDED)
