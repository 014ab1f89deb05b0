"""Checks that a long session does not grow: a thousand cells in one real kernel, measured every hundred cells.

    python tests/stress/soak.py                      # every kind of cell in turn
    python tests/stress/soak.py --kinds loop,error   # some of them, to find which one grows
    python tests/stress/soak.py --plain              # the same cells without the magic, for comparison

Memory may grow by 2 % or 10 MB from the first measurement to the last; descriptors, threads, comms, widgets and
temporary folders may not grow at all. Afterwards the known caches are emptied one by
one, and the memory that each released is printed. The exit status is 1 when something grew.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from itertools import cycle, islice

from live_kernel import LiveKernel, live_kernel

LOOP = "for i in range(7):\n    y = (a @ a).relu().sum()\n"
# A line behind "%%torchprof" is the header, "%torchprof -q" stands in front of a statement.
KINDS = {
    "quiet": "%%torchprof -q\n" + LOOP,
    "shown": "%%torchprof\n" + LOOP,
    "memory": "%%torchprof --memory --stack\n" + LOOP,
    "quiet-memory": "%%torchprof -q --memory --stack\n" + LOOP,
    "error": "%%torchprof -q\nfor i in range(7):\n    y = (a @ a).relu().sum()\n    if i == 5: 1 / 0\n",
    "shown-error": "%%torchprof\nfor i in range(7):\n    y = (a @ a).relu().sum()\n    if i == 5: 1 / 0\n",
    "statement": "%torchprof -q y = (a @ a).relu().sum()\n",
    "awaiting": "%%torchprof -q\nfor i in range(7):\n    y = (a @ a).relu().sum()\n    await asyncio.sleep(0)\n",
    "value": "%%torchprof -q\n" + LOOP + "float(y)\n",
}
FAILING = ("error", "shown-error")
FIRST = """
import asyncio, contextlib, ctypes, gc, glob, json, linecache, os, sys, tempfile, time
import torch, torch._inductor.config
import comm, ipywidgets, polars
import matplotlib.pyplot
if CLOSED:
    get_ipython().events.register("post_run_cell", lambda result: ipywidgets.Widget.close_all())
if TRACED:
    import tracemalloc
    tracemalloc.start(12)
# polars starts a pool of its own, as many threads as there are cores, with the first query that takes its lazy engine.
# Which cell is the first to have one depends on what was recorded.
polars.DataFrame({"a": [1]}).lazy().filter(polars.col("a") > 0).collect()
a = torch.ones(64, 64)
%load_ext torchprof_magic
import torchprof_magic
from torchprof_magic.report.trace_report import Report
from torchprof_magic.model.trace import Trace
from ipywidgets.widgets import widget as _widgets

def _rss():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))

def _descriptors():
    "Count what is open, without IPython's own history, which its thread opens a journal for now and then."
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            count += not os.readlink(f"/proc/self/fd/{name}").startswith(get_ipython().profile_dir.location)
    return count

def _measured():
    for _ in range(3):
        gc.collect()
    objects = gc.get_objects()
    return {
        "rss_kb": _rss(),
        "fds": _descriptors(),
        "threads": len(os.listdir("/proc/self/task")),
        "comms": len(comm.get_comm_manager().comms),
        "widgets": len(_widgets._instances),
        "folders": len(glob.glob(os.path.join(tempfile.gettempdir(), "torchprof-*"))),
        "reports": sum(type(o) is Report for o in objects),
        "figures": len(matplotlib.pyplot.get_fignums()),
        "objects": len(objects),
        "cached": len(linecache.cache),
        "cached_kb": sum(len(line) for entry in linecache.cache.values() if len(entry) > 1
                         for line in entry[2]) // 1024,
        "ins": len(In),
        "outs": len(Out),
    }

def _trim():
    # polars has an allocator of its own, which gives memory back only after a while, and when it is used again.
    for _ in range(3):
        gc.collect()
        time.sleep(1)
        polars.Series(range(100_000)).sort()
    ctypes.CDLL("libc.so.6").malloc_trim(0)

def _forget_cells():
    for name in [name for name in linecache.cache if "ipykernel_" in name or name.startswith("<ipython")]:
        del linecache.cache[name]
    getattr(get_ipython().compile, "_filename_map", {}).clear()

def _print_kinds_since(before):
    after = _kinds()
    grown = sorted(((after[k] - before.get(k, 0), k) for k in after), reverse=True)[:14]
    print(json.dumps([[k, n] for n, k in grown if n > 0]))

def _print_memory_since(before):
    now = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, tracemalloc.__file__)])
    for stat in now.compare_to(before, "traceback")[:12]:
        print(f"{stat.size_diff / 1024:.0f} kB in {stat.count_diff} blocks")
        print("\\n".join(stat.traceback.format()[-12:]))

def _print_widgets():
    from collections import Counter
    print(json.dumps(Counter(type(o).__name__ for o in _widgets._instances.values())))

def _kinds():
    from collections import Counter
    return Counter(f"{type(o).__module__}.{type(o).__qualname__}" for o in gc.get_objects())
"""
# Each gives back what one holder keeps. The widgets come first: they keep reports, and those keep frames and folders.
RELEASES = {
    "as it is": "pass",
    "malloc_trim": "_trim()",
    "widgets closed": "ipywidgets.Widget.close_all(); _trim()",
    "last report dropped": "from torchprof_magic.runs import this_process; this_process._reports.clear(); _trim()",
    "sources of cells forgotten": "_forget_cells(); _trim()",
    "In and Out emptied": "Out.clear(); get_ipython().history_manager.reset(new_session=False); _trim()",
}
COLUMNS = (
    "rss_kb", "fds", "threads", "comms", "widgets", "folders", "reports", "figures", "objects", "cached", "cached_kb",
    "ins", "outs",
)  # fmt: skip
FLAT = ("fds", "threads", "comms", "widgets", "folders", "figures")
BUDGET_SHARE, BUDGET_KB = 0.02, 10 * 1024


def plain(code: str) -> str:
    """Return the cell without the magic."""
    head, _, body = code.partition("\n")
    return body if head.startswith("%%") else head.removeprefix("%torchprof -q ") + "\n"


def print_row(label: str, facts: dict[str, int]) -> None:
    print(f"{label:>27}", *(f"{facts[name]:>9}" for name in COLUMNS), flush=True)


def soak(kernel: LiveKernel, kinds: list[str], cells: int, *, every: int, is_plain: bool) -> list[dict[str, int]]:
    """Run the cells and return what was measured after each ``every`` of them."""
    rows: list[dict[str, int]] = []
    start = time.monotonic()
    noise = 0
    print(f"{'':>27}", *(f"{name:>9}" for name in COLUMNS), flush=True)
    for number, kind in enumerate(islice(cycle(kinds), cells), 1):
        # No two cells of a session are alike; what is cached for each is found by its text.
        code = (plain(KINDS[kind]) if is_plain else KINDS[kind]).rstrip("\n") + f"  # {number}\n"
        done = kernel.run(code)
        expected = "ZeroDivisionError" if kind in FAILING else "ok"
        if done.outcome != expected or "torchprof:" in done.text:
            raise SystemExit(f"cell {number} ({kind}): {done}")
        noise += "[W" in done.text
        if number % every == 0 or number == cells:
            rows.append(kernel.run("print(json.dumps(_measured()))").facts)
            print_row(f"cell {number}, {time.monotonic() - start:.0f} s", rows[-1])
            if number == every:
                kernel.run("_before = _kinds()\nif TRACED: _snapshot = tracemalloc.take_snapshot()")
    print(f"torch's own log lines came into the output of {noise} cells")
    return rows


def explain(kernel: LiveKernel, *, is_traced: bool) -> None:
    """Print which objects there are more of, where memory was asked for, and what each holder gives back."""
    print("more objects:", kernel.run("_print_kinds_since(_before)").facts, flush=True)
    print("widgets:", kernel.run("_print_widgets()").facts, flush=True)
    if is_traced:
        print(kernel.run("_print_memory_since(_snapshot)").text)
    for label, code in RELEASES.items():
        done = kernel.run(f"{code}\nprint(json.dumps(_measured()))")
        if done.status == "ok":
            print_row(label, done.facts)
        else:
            print(f"{label}: {done.outcome}", flush=True)


def flaws_of(rows: list[dict[str, int]]) -> list[str]:
    """Return what grew beyond its budget from the first row to the last."""
    first, last = rows[0], rows[-1]
    flaws = [f"{name} grew from {first[name]} to {last[name]}" for name in FLAT if last[name] > first[name]]
    growth = last["rss_kb"] - first["rss_kb"]
    print(f"memory: {growth / 1024:+.1f} MB, {growth / first['rss_kb']:+.1%}")
    if growth > max(BUDGET_KB, BUDGET_SHARE * first["rss_kb"]):
        flaws.append(f"memory grew by {growth / 1024:.1f} MB")
    return flaws


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--kinds", default=",".join(KINDS), help="which kinds of cell, by name")
    parser.add_argument("--plain", action="store_true", help="the same cells without the magic")
    parser.add_argument("--close", action="store_true", help="close all widgets after every cell")
    parser.add_argument("--trace", action="store_true", help="say where memory was asked for; slow, and takes memory")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        os.environ["TMPDIR"] = folder
        tempfile.tempdir = None
        with live_kernel(f"TRACED, CLOSED = {options.trace}, {options.close}\n{FIRST}") as kernel:
            kinds = options.kinds.split(",")
            rows = soak(kernel, kinds, options.cells, every=options.every, is_plain=options.plain)
            explain(kernel, is_traced=options.trace)
    flaws = flaws_of(rows)
    print(*flaws, sep="\n", end="\n" if flaws else "")
    print(f"{options.cells} cells{' without the magic' if options.plain else ''}: {len(flaws)} flaws")
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main())
