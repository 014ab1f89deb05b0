"""From the last line of the loop to the end of the cell, as a multiple of torch's own stop and export.

    python benchmarks/end_of_cell.py [--events 50000 200000 800000] [--rounds 3] [--flags plain memory]

Every round starts a Jupyter kernel of its own and runs two cells in it, one with ``%%torchprof`` and one with a bare
``torch.profiler.profile`` of the same flags, in turn the one or the other first. Both record the same training loop, of
about as many events as asked for. The time begins with the last line of the loop. Ours ends when the front end hears
that the cell is over, and contains the live view and its static copy; torch's ends when its trace is exported. Each
kernel is new, so ours contains the first imports as well. The CPU time is that of the whole kernel, user and system.

``median`` is that of the ratios of the rounds, and ``least`` the ratio of the shortest times of either: what else runs
on a machine only ever adds. ``view`` is when the front end has the live view, as a multiple of the same time of torch.
The budget of the end of the cell is 2.5.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from jupyter_client.manager import start_new_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

BUDGET_RATIO = 2.5
LAYERS, WIDTH = 8, 16
FLAGS = {
    "plain": ("--preset quick", ""),
    "memory": ("--memory --shapes", "profile_memory=True, record_shapes=True"),
}
WIDGET = "application/vnd.jupyter.widget-view+json"
TIMEOUT_S = 1_200
SAID = "measured:"  # torch writes lines of its own to the same stream

SETUP = f"""\
import itertools, json, time
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(
    *itertools.chain(*((torch.nn.Linear({WIDTH}, {WIDTH}), torch.nn.ReLU()) for _ in range({LAYERS})))
)
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
batch = torch.randn(64, {WIDTH})
def work():
    global wall_s, cpu_s
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    wall_s, cpu_s = time.time(), time.process_time()
for _ in range(3):
    work()
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]{{flags}}) as small:
    work()
small.export_chrome_trace({{path!r}})
print("{SAID}", json.dumps(sum(event["ph"] in "Xi" for event in json.load(open({{path!r}}))["traceEvents"])))
del small
%load_ext torchprof_magic
"""
OURS = "%%torchprof {flags} --wait 0 --warmup 1 --active {steps} --repeat 1\nfor _ in range({steps} + 1):\n    work()"
TORCH = """\
with torch.profiler.profile(
    activities=[torch.profiler.ProfilerActivity.CPU]{flags},
    schedule=torch.profiler.schedule(wait=0, warmup=1, active={steps}, repeat=1),
    on_trace_ready=lambda done: done.export_chrome_trace({path!r}),
) as bare:
    for at in range({steps} + 1):
        work()
        bare.step()
ended = time.time(), time.process_time()
del bare
"""
CLOCK = f"print('{SAID}', json.dumps([wall_s, cpu_s, *{{ended}}]))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Seconds from the last line of a loop: of the clock, of all CPUs, and until the live view was sent."""

    wall_s: float
    cpu_s: float
    view_s: float = float("nan")


class Notebook:
    """A kernel that runs cells, with the time at which a front end receives its messages."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, code: str) -> list[tuple[float, dict[str, Any]]]:
        """Run a cell, and return its messages with their times in s; the last one is that the cell is over."""
        asked = self._client.execute(code)
        return list(self._messages(asked))

    def numbers(self, code: str) -> Any:
        """Return what a cell prints after ``SAID``, as JSON."""
        said = "".join(message["content"]["text"] for _, message in self.run(code) if message["msg_type"] == "stream")
        return json.loads(said.split(SAID)[-1].splitlines()[0])

    def _messages(self, asked: str) -> Iterator[tuple[float, dict[str, Any]]]:
        while True:
            message = self._client.get_iopub_msg(timeout=TIMEOUT_S)
            if message["parent_header"].get("msg_id") != asked:
                continue
            yield time.time(), message
            if message["msg_type"] == "error":
                raise RuntimeError("\n".join(message["content"]["traceback"]))
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return


def measure_ours(notebook: Notebook, flags: str, steps: int) -> Ending:
    """Run the cell with the magic."""
    messages = notebook.run(OURS.format(flags=flags, steps=steps))
    began_s, cpu_began_s, cpu_s = notebook.numbers(CLOCK.format(ended="[time.process_time()]"))
    shown = [content["data"] for _, message in messages if "data" in (content := message["content"])]
    views = [at for at, message in messages if WIDGET in message["content"].get("data", {})]
    assert any("data-tp-static" in data.get("text/html", "") for data in shown), "the cell shows no static copy"
    # The first widget is the progress bar.
    return Ending(wall_s=messages[-1][0] - began_s, cpu_s=cpu_s - cpu_began_s, view_s=views[-1] - began_s)


def measure_torch(notebook: Notebook, flags: str, steps: int, path: Path) -> Ending:
    """Run the cell with torch's own profiler."""
    notebook.run(TORCH.format(flags=flags, steps=steps, path=str(path)))
    began_s, cpu_began_s, ended_s, cpu_ended_s = notebook.numbers(CLOCK.format(ended="ended"))
    return Ending(wall_s=ended_s - began_s, cpu_s=cpu_ended_s - cpu_began_s)


def measure(kind: str, events: int, *, is_first: bool) -> tuple[Ending, Ending, int]:
    """Return our ending and torch's in a new kernel, and the number of events; ``is_first``: ours runs first."""
    magic_flags, torch_flags = FLAGS[kind]
    arguments = f", {torch_flags}" if torch_flags else ""
    manager, client = start_new_kernel(startup_timeout=TIMEOUT_S, kernel_name="python3")
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            notebook = Notebook(client)
            per_step = notebook.numbers(SETUP.format(flags=arguments, path=str(path)))
            steps = max(round(events / per_step), 1)
            ours = measure_ours(notebook, magic_flags, steps) if is_first else None
            bare = measure_torch(notebook, arguments, steps, path)
            return ours or measure_ours(notebook, magic_flags, steps), bare, steps * per_step
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def main() -> None:
    """Print a line for each kind of recording and size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, nargs="+", default=[50_000, 200_000, 800_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flags", nargs="+", choices=FLAGS, default=list(FLAGS))
    arguments = parser.parse_args()
    heads = ("events", "torch", "ours", "median", "least", "(each)", "CPU", "view", f"<= {BUDGET_RATIO}")
    print("{:8} {:>9} {:>8} {:>8} {:>6} {:>6} {:>18} {:>6} {:>6} {:>7}".format("", *heads), flush=True)
    for kind in arguments.flags:
        for events in arguments.events:
            pairs = [measure(kind, events, is_first=bool(number % 2)) for number in range(arguments.rounds)]
            _print_line(kind, pairs)


def _print_line(kind: str, pairs: list[tuple[Ending, Ending, int]]) -> None:
    """Print the shortest times, the ratio of every round, and the medians of the ratios."""
    ratios = [ours.wall_s / bare.wall_s for ours, bare, _ in pairs]
    ratio = median(ratios)
    bare_s, ours_s = min(bare.wall_s for _, bare, _ in pairs), min(ours.wall_s for ours, _, _ in pairs)
    each = " ".join(f"{one:.2f}" for one in ratios)
    cpu_ratio = median([ours.cpu_s / bare.cpu_s for ours, bare, _ in pairs])
    view_ratio = median([ours.view_s / bare.wall_s for ours, bare, _ in pairs])
    print(
        f"{kind:8} {pairs[0][2]:9,} {bare_s:6.1f} s {ours_s:6.1f} s {ratio:6.2f} {ours_s / bare_s:6.2f} "
        f"{each:>18} {cpu_ratio:6.2f} {view_ratio:6.2f} {'yes' if ratio <= BUDGET_RATIO else 'no':>7}",
        flush=True,
    )


if __name__ == "__main__":
    main()
