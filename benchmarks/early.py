"""The report of a loop that still runs: how soon it stands, what it costs the loop, and what is left for its end.

    python benchmarks/early.py [--events 50000 300000] [--rounds 3]

Every round starts a Jupyter kernel of its own and runs one cell four times in it: the loop is recorded in three steps
of together about as many events as asked for, with one thread, and goes on for some seconds. ``first`` and ``again``
are the seconds from the end of the recorded cycle, when its trace is on disk, until the front end could show the
report: in the first cell, which also starts the process, and in the second. ``slower`` is how much longer the median
step is while that report is made than in the third cell, in which none is, and ``beside`` how much longer it is in the
fourth, in which none is either, but another process of the least priority counts in a loop: as much as is slower there
is what the cores of the machine share, and no program can avoid. ``end`` is from the last step to the end of
the cell, with a report that stands, and ``ends`` that of the third cell, where the recording is read only then.
"""

from __future__ import annotations

import argparse
import json
from statistics import median

from end_of_cell import SAID, TIMEOUT_S, Notebook
from jupyter_client.manager import start_new_kernel

SETUP = '''\
import itertools, json, subprocess, sys, time
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(*itertools.chain(*((torch.nn.Linear(16, 16), torch.nn.ReLU()) for _ in range(8))))
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
batch = torch.randn(64, 16)
def work():
    for _ in range({repeats}):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
%load_ext torchprof_magic
from torchprof_magic.run.early.reports import EarlyReports
from torchprof_magic.ipython.early_view import EarlyView
moments, ends = {{}}, []
def noting(owner, name, key):
    real = getattr(owner, name)
    def noted(*values, **named):
        if key == "offered" and is_off:
            return None
        if key == "offered":
            moments.setdefault(key, time.perf_counter())
        found = real(*values, **named)
        if key == "shown":
            moments.setdefault(key, time.perf_counter())
        return found
    setattr(owner, name, noted)
is_off, is_beside = False, False
COUNT = """
import os, sys
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
sys.stdin.readline()
while True:
    sum(range(9999))
"""
beside = subprocess.Popen([sys.executable, "-c", COUNT], stdin=subprocess.PIPE)
noting(EarlyReports, "offer", "offered")
noting(EarlyView, "show", "shown")
'''
CELL = """\
%%torchprof --preset quick --wait 1 --warmup 1 --active 3 --repeat 1
moments.clear(); ends.clear()
began_s = time.perf_counter()
for _ in itertools.count():
    work()
    ends.append(time.perf_counter())
    if is_beside and len(ends) == 6:
        beside.stdin.write(bytes([10]))
        beside.stdin.flush()
    seen_s = moments.get("shown") or (ends[5] if is_off and len(ends) > 5 else None)
    if seen_s is not None and ends[-1] > seen_s + {more_s} or ends[-1] > began_s + 120:
        break
"""
NUMBERS = "[moments.get('offered'), moments.get('shown'), ends, time.time() - time.perf_counter()]"
TOLD = f"print('{SAID}', json.dumps({NUMBERS}))"
# Of one run of ``work`` with a profiler.
_EVENTS = 926
_STEPS = 3
_MORE_S = 2.0


def measure(events: int) -> dict[str, float]:
    """Return the seconds and the ratio of one round."""
    manager, client = start_new_kernel(startup_timeout=TIMEOUT_S, kernel_name="python3")
    try:
        notebook = Notebook(client)
        notebook.run(SETUP.format(repeats=max(round(events / _STEPS / _EVENTS), 1)))
        first, again = (_run(notebook) for _ in range(2))
        notebook.run("is_off = True")
        without = _run(notebook)
        notebook.run("is_beside = True")
        beside = _run(notebook)
        notebook.run("beside.kill()")
        return {
            "first": first["shown_s"],
            "again": again["shown_s"],
            "slower": again["step_s"] / without["step_s"],
            "beside": beside["step_s"] / without["step_s"],
            "end": again["end_s"],
            "ends": without["end_s"],
        }
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _run(notebook: Notebook) -> dict[str, float]:
    messages = notebook.run(CELL.format(more_s=_MORE_S))
    offered, shown, ends, unix_s = notebook.numbers(TOLD)
    if offered is None or shown is None:
        offered, shown = ends[5], ends[-1]
    during = [late - early for early, late in zip(ends, ends[1:], strict=False) if early >= offered and late <= shown]
    return {
        "shown_s": shown - offered,
        "step_s": median(during) if during else float("nan"),
        "end_s": messages[-1][0] - (ends[-1] + unix_s),
    }


def main() -> None:
    """Print a line for each size, with the medians of the rounds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, nargs="+", default=[50_000, 300_000])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    names = ("first", "again", "slower", "beside", "end", "ends")
    print("{:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}".format("events", *names), flush=True)
    for events in arguments.events:
        rounds = [measure(events) for _ in range(arguments.rounds)]
        found = {name: median(each[name] for each in rounds) for name in names}
        each = [[round(one[name], 3) for name in ("slower", "beside")] for one in rounds]
        print(
            f"{events:9,} {found['first']:6.2f} s {found['again']:6.2f} s {found['slower']:8.3f} "
            f"{found['beside']:8.3f} {found['end']:6.2f} s {found['ends']:6.2f} s   {json.dumps(each)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
