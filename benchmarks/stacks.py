"""From the last line of a Python-heavy loop to the end of the cell, with stacks: beside torch's own stop and export.

    python benchmarks/stacks.py [--programs tokenizer tree records] [--calls 200000 1500000] [--rounds 1]

Every row is two Jupyter kernels: one runs the loop under ``%%torchprof --stack``, the other under a bare
``torch.profiler.profile(with_stack=True)`` that exports its trace. Both record the same two steps, whose length is
chosen so that they make about as many Python calls as asked for. The CPU time is that of the whole kernel, user and
system, from the last line of the loop, and the memory is by how much the kernel was larger at its peak than before the
cell. Ours contains reading, the live view and its static copy. With more than the 300,000 calls of ``--budget-calls``
stacks end early, while torch keeps them all: at 1.5 million calls it takes 4 GB.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

from end_of_cell import CLOCK, SAID, TIMEOUT_S, Notebook
from jupyter_client.manager import start_new_kernel

BUDGET_RATIO = 3.0
STEPS = 2
MB = 1e6

# Each defines ``work(size)``, which makes calls in proportion to ``size``, and trains something a little.
PROGRAMS = {
    "tokenizer": """\
from collections import Counter
texts = [("w%d" % (i * 7919 % 997)) * 3 + "ing" for i in range(100)]
def pairs(text):
    return zip(text, text[1:])
def merged(text, pair):
    out, at = [], 0
    while at < len(text):
        joins = at < len(text) - 1 and (text[at], text[at + 1]) == pair
        out.append(text[at] + text[at + 1] if joins else text[at])
        at += 2 if joins else 1
    return out
def work(size):
    for _ in range(size):
        seen, split = Counter(), [list(text) for text in texts]
        for text in split:
            for pair in pairs(text):
                seen.update([pair])
        best = max(seen, key=seen.get)
        split = [merged(text, best) for text in split]
    learn(len(split))
""",
    "tree": """\
class Node:
    def __init__(self, depth):
        self.value, self.children = depth, [Node(depth - 1) for _ in range(2)] if depth else []
    def total(self):
        return self.value + sum(child.total() for child in self.children)
def work(size):
    total = 0
    for _ in range(size):
        total += Node(9).total()
    learn(total)
""",
    "records": """\
from dataclasses import asdict, dataclass, replace
@dataclass
class Record:
    key: int
    value: float
    label: str = "x"
    def score(self):
        return self.key * self.value
def work(size):
    records = [Record(key, key / 2) for key in range(100 * size)]
    records = [replace(record, key=record.key + 1) for record in records]
    rows = [asdict(record) for record in records]
    learn(sum(record.score() for record in records) + len(rows))
""",
}
SETUP = f"""\
import json, sys, time
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
def learn(number):
    optimizer.zero_grad()
    (model(torch.ones(4, 8)).sum() * float(number % 7)).backward()
    optimizer.step()
{{program}}
def ended_step():
    global wall_s, cpu_s
    wall_s, cpu_s = time.time(), time.process_time()
made = 0
def count(_frame, event, _argument):
    global made
    made += event in ("call", "c_call")
work(1)
sys.setprofile(count)
work(4)
sys.setprofile(None)
print("{SAID}", json.dumps(made / 4))
%load_ext torchprof_magic
"""
RESET = "open('/proc/self/clear_refs', 'w').write('5')"  # the peak begins anew
PEAK = f"""\
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
print("{SAID}", json.dumps(int(status['VmHWM'].split()[0]) * 1024))
"""
OURS = "%%torchprof --stack --wait 0 --warmup 1 --active {steps} --repeat 1\n{loop}"
LOOP = "for _ in range({steps} + 1):\n    work({size})\n    ended_step()"
TORCH = """\
with torch.profiler.profile(
    activities=[torch.profiler.ProfilerActivity.CPU],
    with_stack=True,
    schedule=torch.profiler.schedule(wait=0, warmup=1, active={steps}, repeat=1),
    on_trace_ready=lambda done: done.export_chrome_trace({path!r}),
) as bare:
    for _ in range({steps} + 1):
        work({size})
        ended_step()
        bare.step()
del bare
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """CPU seconds from the last line of the loop, and the growth of the kernel at its peak, in bytes."""

    cpu_s: float
    peak_bytes: int
    calls: int


def measure(program: str, calls: int, *, is_ours: bool) -> Ending:
    """Run a program in a new kernel, under the magic or torch's own profiler."""
    manager, client = start_new_kernel(startup_timeout=TIMEOUT_S, kernel_name="python3")
    try:
        with tempfile.TemporaryDirectory() as folder:
            notebook = Notebook(client)
            per_size = notebook.numbers(SETUP.format(program=PROGRAMS[program]))
            size = max(round(calls / per_size / STEPS), 1)
            loop = LOOP.format(steps=STEPS, size=size)
            path = str(Path(folder) / "trace.json")
            cell = OURS.format(steps=STEPS, loop=loop) if is_ours else TORCH.format(steps=STEPS, size=size, path=path)
            notebook.run(RESET)
            before_bytes = notebook.numbers(PEAK)
            notebook.run(cell)
            _, began_s, ended_s = notebook.numbers(CLOCK.format(ended="[time.process_time()]"))
            peak_bytes = notebook.numbers(PEAK) - before_bytes
            return Ending(cpu_s=ended_s - began_s, peak_bytes=peak_bytes, calls=round(size * per_size * STEPS))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def main() -> None:
    """Print a row for each program and number of calls, with the least of all rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--calls", nargs="+", type=int, default=[200_000, 1_500_000])
    parser.add_argument("--rounds", type=int, default=1)
    asked = parser.parse_args()
    print(f"{'program':<10} {'calls':>10} {'torch s':>8} {'ours s':>8} {'ratio':>6} {'torch MB':>9} {'ours MB':>8}")
    for program in asked.programs:
        for calls in asked.calls:
            ours, bare = (
                [measure(program, calls, is_ours=is_ours) for _ in range(asked.rounds)] for is_ours in (True, False)
            )
            ours_s, bare_s = (min(ending.cpu_s for ending in endings) for endings in (ours, bare))
            ours_mb, bare_mb = (min(ending.peak_bytes for ending in endings) / MB for endings in (ours, bare))
            sign = "" if ours_s <= BUDGET_RATIO * bare_s else "  over budget"
            print(
                f"{program:<10} {ours[0].calls:>10,} {bare_s:>8.2f} {ours_s:>8.2f} {ours_s / bare_s:>6.2f} "
                f"{bare_mb:>9.0f} {ours_mb:>8.0f}{sign}",
                flush=True,
            )


if __name__ == "__main__":
    main()
