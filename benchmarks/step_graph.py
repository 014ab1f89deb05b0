"""Replays the graph of the steps of traces as it is, and says how far that is from what was recorded, as a table.

    python benchmarks/step_graph.py TRACE... [--write docs/what_if.md]
    python benchmarks/step_graph.py --events 300000 1000000

Host pieces take as long as they did. Work of devices begins as early as its launch, its stream and events let it, with
delays that are typical of the trace, so its times are not put in anywhere: the table says how far they are off. With
``--events`` it says how long building, replaying and finding the paths take for traces of a training loop.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
from make_training_trace import write_training_trace

from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.host_states import thread_timelines
from torchprof_magic.facts.step_graph.edges import ASSUMED
from torchprof_magic.facts.step_graph.graph import step_graph
from torchprof_magic.facts.step_graph.path import critical_path
from torchprof_magic.facts.step_graph.replay import replay
from torchprof_magic.facts.step_graph.spans import spans_of_steps
from torchprof_magic.loading import load
from torchprof_magic.model.errors import IngestError
from torchprof_magic.model.units import format_ns

BEGIN, END = "<!-- replay: begin -->\n", "<!-- replay: end -->\n"
HEAD = (
    "| trace | steps | recorded | replayed | median error | largest error | work of devices begins off by "
    "(median, p90) | assumed on the path |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def main() -> None:
    """Print the table, or write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--events", type=int, nargs="*", default=[])
    wanted = parser.parse_args()
    rows = [row for file in wanted.files if (row := row_of(file))]
    table = "\n".join((HEAD, *rows)) + "\n"
    if rows and not wanted.write:
        print(table)
    if wanted.write:
        text = wanted.write.read_text()
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        wanted.write.write_text(f"{before}{BEGIN}{table}{END}{after}")
    for events in wanted.events:
        measure(events)


def row_of(file: Path) -> str:
    """Return the row of one trace, empty if it has no steps."""
    try:
        trace = load(file).as_analysed
    except IngestError:
        return ""
    if trace.steps.height == 0:
        return ""
    graph, spans, path = step_graph(trace), spans_of_steps(trace), critical_path(trace)
    replayed = replay(graph)
    times = spans.replayed_ns(replayed)
    error = np.abs(times / spans.dur_ns - 1)
    work = graph.pieces.is_work
    off = np.abs(replayed.start_ns - graph.pieces.start_ns)[work]
    of_work = f"{format_ns(np.median(off))}, {format_ns(np.quantile(off, 0.9))}" if work.any() else "–"
    assumed = path.dur_ns[path.kind == ASSUMED].sum() / max(path.dur_ns.sum(), 1)
    name = f"{file.parent.name}/{file.name}" if file.name.startswith("rank") else file.name
    return (
        f"| {name.removesuffix('.json.gz')} | {len(spans.step)} | {format_ns(float(spans.dur_ns.mean()))} | "
        f"{format_ns(float(times.mean()))} | {np.median(error):.2%} | {error.max():.2%} | {of_work} | {assumed:.1%} |"
    )


def measure(events: int) -> None:
    """Print how long the graph of a training loop of so many events takes, and the memory of the process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        write_training_trace(file, 2 * events)  # every other one is a slice
        trace = load(file).as_analysed
    print(f"{trace.events.height:,} events")
    for name, ask in (
        ("nest and states, which other tables need too", lambda: (host_nest(trace), thread_timelines(trace))),
        ("graph", lambda: step_graph(trace)),
        ("replay", lambda: replay(step_graph(trace))),
        ("paths", lambda: critical_path(trace)),
    ):
        begin = perf_counter()
        ask()
        print(f"  {perf_counter() - begin:6.2f} s  {name}")
    print(f"  {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB at most, with reading the file")


if __name__ == "__main__":
    main()
