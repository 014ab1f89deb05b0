"""How long every analysis takes on its own after the ones before it, and all of them together."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from time import perf_counter

from make_trace import write_trace

from torchprof_magic.facts.device.believable import believable
from torchprof_magic.findings.verdict.decision import find_verdict
from torchprof_magic.findings.verdict.diagnosis import all_problems
from torchprof_magic.loading import load
from torchprof_magic.report.views import TABS
from torchprof_magic.tables import devices
from torchprof_magic.tables.host import host_times
from torchprof_magic.tables.ops.averages import averages_table
from torchprof_magic.tables.waiting import idle, queue, waits

# The order in which a report asks for them, then those that are only asked for by hand.
ANALYSES = (
    *((view.name, view.shape) for view in TABS),
    ("waits", waits.waits_table),
    ("idle", idle.idle_table),
    ("verdict", find_verdict),
    ("problems", all_problems),
    ("devices", devices.devices_table),
    ("host", host_times.host_table),
    ("queue", queue.queue_series),
    ("launches", queue.launches_table),
    ("key_averages", averages_table),
)


def main() -> None:
    """Measure traces of some sizes, or given files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="*", default=[300_000, 1_000_000])
    parser.add_argument("--files", type=Path, nargs="*", default=[])
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = list(chosen.files)
        for events in chosen.events if not files else ():
            path = Path(folder) / f"{events}.json"
            write_trace(path, events)
            files.append(path)
        for path in files:
            measure(path)


def measure(path: Path) -> None:
    """Print a line for each analysis of one file."""
    recorded = load(path).trace
    print(f"{path.name}: {recorded.events.height:,} events")
    began = perf_counter()
    trace = believable(recorded)
    whole = perf_counter() - began
    print(f"  {'believable':14} {whole:7.3f} s")
    for name, build in ANALYSES:
        began = perf_counter()
        build(trace)
        took = perf_counter() - began
        whole += took
        print(f"  {name:14} {took:7.3f} s")
    print(f"  {'all together':14} {whole:7.3f} s")


if __name__ == "__main__":
    main()
