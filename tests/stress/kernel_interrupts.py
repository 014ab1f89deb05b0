"""Checks that Ctrl-C at any moment of a ``%%torchprof`` cell neither loses a step nor harms the kernel.

    python tests/stress/kernel_interrupts.py --runs 1000           # four kinds of cell in turn
    python tests/stress/kernel_interrupts.py --runs 200 --plain    # the same cells without the magic, for comparison

Each cell runs in one real kernel and is interrupted once, at a random moment between the request and 1.2 times its
usual duration: before it starts, in any step or transition, while the trace is saved, read or shown. The loop must not
continue after it. Afterwards the kernel must be alive, its profiler off and its signal handler restored; every
completely recorded step must be in the report, or in a raw trace that the output names; and the next cell must be
recorded as usual. The exit status is 1 if any of this does not hold.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from live_kernel import Done, LiveKernel, live_kernel

# Each step prints that it began; it has ended when the next one begins. The work takes a few milliseconds.
LOOP = """\
for i in range(STEPS):
    begun.append(i)
    moments.append(time.monotonic())
    work()
over = True
"""
AWAITING = LOOP.replace("over = True", "    await asyncio.sleep(0.001)\nover = True")
CELLS = {
    "shown": "%%torchprof\n" + LOOP,
    "cycles": "%%torchprof -q --wait 1 --warmup 1 --active 2 --repeat 0\n" + LOOP,
    "memory": "%%torchprof --memory --stack\n" + LOOP,
    "awaiting": "%%torchprof\n" + AWAITING,
}
NEXT = "%%torchprof -q\nfor i in range(7):\n    y = (a @ a).relu()\n"
NEXT_STEPS = [2, 3, 4]
# ipykernel interrupts a cell that awaits by cancelling it, with or without the magic.
ENDS = ("ok", "KeyboardInterrupt", "CancelledError")
WARM_RUNS, TIMED_RUNS = 3, 5
LEARNING = 0.3
FIRST = """
import asyncio, json, signal, time
import ipywidgets, torch, torch._inductor.config
torch.set_num_threads(1)
STEPS, WORK = 12, 20
a = torch.ones(192, 192)
def work():
    for _ in range(WORK):
        y = (a @ a).relu()
%load_ext torchprof_magic
from torchprof_magic.runs import this_process
from torchprof_magic.capture import busy_profiler, registry
times = []
get_ipython().events.register("pre_run_cell", lambda info: times.append([time.monotonic(), None]))
get_ipython().events.register("post_run_cell", lambda result: times[-1].__setitem__(1, time.monotonic()))

def _facts():
    last = this_process.last()
    steps = [] if last is None else last.trace.steps.filter("complete")["number"].to_list()
    handler = signal.getsignal(signal.SIGINT)
    return {
        "enabled": torch.autograd._profiler_enabled(),
        "busy": busy_profiler(),
        "live": registry._live is not None,
        "handler": "" if handler is signal.default_int_handler else str(handler),
        "helper": "_torchprof_steps_" in globals(),
        "run": "" if last is None else last.run_id,
        "steps": steps,
        "problems": [] if last is None else [problem.message for problem in last.problems],
        "begun": begun,
        "moments": moments,
        "over": over,
        "times": times[-2],
    }

def _ready():
    global begun, moments, over
    ipywidgets.Widget.close_all()
    begun, moments, over = [], [], False

_ready()
"""
ASK = "print(json.dumps(_facts()))"
ASK_AND_READY = "print(json.dumps(_facts())); _ready()"
GRACE_S = 0.002  # for a pending signal


class Flawed(Exception):  # noqa: N818 - not an error of this script
    """The kernel no longer responds."""


def plain(code: str) -> str:
    return code.partition("\n")[2] if code.startswith("%%") else code


def asked(kernel: LiveKernel, code: str) -> dict[str, Any]:
    done = kernel.run(code)
    if done.status != "ok":
        raise Flawed(f"the kernel could not be asked: {done}")
    return dict(done.facts)


def undisturbed(kernel: LiveKernel, code: str) -> tuple[float, list[int]]:
    """Return how long the cell usually takes, and which of its steps are recorded."""
    seconds, steps = [], []
    for _ in range(WARM_RUNS + TIMED_RUNS):
        done = kernel.run(code)
        assert done.status == "ok", done
        seconds.append(done.seconds)
        steps = asked(kernel, ASK_AND_READY)["steps"]
    return statistics.median(seconds[WARM_RUNS:]), steps


def phase_of(facts: dict[str, Any], done: Done) -> str:
    """Return where the interrupt was, from what had happened."""
    start, end = facts["times"]
    at = done.interrupted_at or 0.0
    if at < start:  # the kernel ignores it, or drops the request
        return "before the cell"
    if end is None or done.sent_at > end - GRACE_S:
        return "after the cell"
    if facts["over"]:
        return "saving, reading, showing"
    begun = facts["begun"]
    if not begun:
        return "before the loop"
    return {0: "wait", 1: "warm-up"}.get(begun[-1], "active" if begun[-1] <= NEXT_STEPS[-1] else "later steps")


def flaws_of(
    done: Done, facts: dict[str, Any], before: str, recorded: list[int], phase: str, *, is_plain: bool
) -> list[str]:
    """Return what is wrong after one interrupted cell."""
    flaws = []
    if done.outcome not in ENDS:
        flaws.append(f"it ended in {done.outcome}")
    if done.outcome == "ok" and phase not in ("before the cell", "after the cell"):
        end = facts["times"][1] - done.interrupted_at
        flaws.append(f"the interrupt was swallowed, {end:.4f} s before the end of the cell; printed: {done.text!r}")
    later = [moment for moment in facts["moments"] if moment > done.sent_at + GRACE_S]
    if len(later) > 1 and phase != "before the cell":  # one step: the signal was still pending
        flaws.append(f"{len(later)} more steps began after the interrupt")
    flaws += [f"{name}: {facts[name]}" for name in ("enabled", "busy", "live", "handler", "helper") if facts[name]]
    if is_plain:
        return flaws
    # The newest step has begun; only the start of the next one shows that it has ended.
    ended = set(facts["begun"] if facts["over"] else facts["begun"][:-1])
    expected = sorted(ended & set(recorded))
    has_report = facts["run"] != before
    lost = [step for step in expected if not has_report or step not in facts["steps"]]
    if lost and not is_named(done.text):
        seen = f"a report with {facts['steps']}, {facts['problems']}" if has_report else "no report"
        flaws.append(f"steps {lost} of {expected} are lost: {seen}; printed: {done.text!r}")
    return flaws


def is_named(text: str) -> bool:
    """Return whether the output names a folder with a complete trace."""
    found = re.search(r"the raw trace is in (\S+)", text)
    traces = list(Path(found[1]).glob("*.json*")) if found else []
    return any(b"aten::relu" in trace.read_bytes() for trace in traces)


def one_run(
    kernel: LiveKernel, code: str, moment_s: float, before: str, recorded: list[int], *, is_plain: bool
) -> tuple[Done, str, list[str], str]:
    """Interrupt one cell; return its outcome, where it was, what is wrong, and the last report's name."""
    done = kernel.run(code, interrupt_s=moment_s)
    if not kernel.is_alive:
        raise Flawed(f"the kernel died: {done}")
    facts = asked(kernel, ASK)
    phase = phase_of(facts, done)
    flaws = flaws_of(done, facts, before, recorded, phase, is_plain=is_plain)
    if is_plain:
        kernel.run("_ready()")
        return done, phase, flaws, ""
    following = kernel.run(NEXT)
    after = asked(kernel, ASK_AND_READY)
    if following.status != "ok" or after["run"] == facts["run"] or after["steps"] != NEXT_STEPS:
        flaws.append(f"the next cell: {following.outcome}, steps {after['steps']}, {after['problems']}, {following}")
    if flaws:
        flaws.append("  " + where(done))
    return done, phase, flaws, after["run"]


def where(done: Done) -> str:
    """Return the innermost lines of the traceback, without colours."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(done.traceback))
    return " | ".join(re.findall(r"(?:File|Cell) [^\n]*|^-+> *\d+ [^\n]*", text, re.MULTILINE)[-12:])


def run_all(runs: int, seed: int, names: list[str], *, end_s: float, is_plain: bool) -> tuple[int, int]:
    """Interrupt cells, print counts and failures; return the number of cells and of failures."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    counts: Counter[tuple[str, str, str]] = Counter()
    flawed = number = 0
    while number < runs and time.monotonic() < end_s:
        with live_kernel(FIRST) as kernel:
            codes = {name: plain(CELLS[name]) if is_plain else CELLS[name] for name in names}
            usual = {name: undisturbed(kernel, code) for name, code in codes.items()}
            print({name: (f"{seconds:.3f} s", steps) for name, (seconds, steps) in usual.items()}, flush=True)
            before = asked(kernel, ASK_AND_READY)["run"]
            while number < runs and time.monotonic() < end_s:
                name = names[number % len(names)]
                seconds, recorded = usual[name]
                moment_s = chance.uniform(0, 1.2 * seconds)
                number += 1
                try:
                    done, phase, flaws, before = one_run(
                        kernel, codes[name], moment_s, before, recorded, is_plain=is_plain
                    )
                except Flawed as exc:  # continue with a new kernel
                    print(f"run {number} ({name}, {moment_s:.4f} s of {seconds:.3f}): {exc}", flush=True)
                    counts[name, "unknown", "kernel lost"] += 1
                    flawed += 1
                    break
                counts[name, phase, done.outcome if done.is_idle else f"{done.outcome}, idle not told"] += 1
                if phase == "after the cell":  # the speed of the machine varies
                    usual[name] = (seconds + (done.seconds - seconds) * LEARNING, recorded)
                flawed += bool(flaws)
                for flaw in flaws:
                    print(f"run {number} ({name}, {moment_s:.4f} s of {seconds:.3f}, {phase}): {flaw}", flush=True)
    for (name, phase, outcome), count in sorted(counts.items()):
        print(f"{name:>10}  {phase:<26} {outcome:<32} {count}")
    return number, flawed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=60, help="begin no more runs after this long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cells", default=",".join(CELLS), help="which kinds of cell, by name")
    parser.add_argument("--plain", action="store_true", help="the same cells without the magic")
    options = parser.parse_args()
    end_s = time.monotonic() + 60 * options.minutes
    done, flawed = run_all(options.runs, options.seed, options.cells.split(","), end_s=end_s, is_plain=options.plain)
    print(f"{done} interrupts{' without the magic' if options.plain else ''}: {flawed} runs with a flaw")
    return 1 if flawed else 0


if __name__ == "__main__":
    sys.exit(main())
