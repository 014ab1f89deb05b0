"""Many ranks as one report: time, memory of a worker and bytes sent, by number of ranks and engine.

The last line is the CPU time of a rank of 3,000 events in a worker that has read others: the fixed cost of a file.

``--hta PYTHON`` also runs HolisticTraceAnalysis, in a Python that has it, on the files of ``--folder``.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from made_ranks import device_step, write_rank

from torchprof_magic.jobs import gather, workers
from torchprof_magic.jobs.load import joined
from torchprof_magic.jobs.wire import bytes_of
from torchprof_magic.jobs.work import frames_of
from torchprof_magic.report.opening import open_report
from torchprof_magic.system.files.place import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor

    from torchprof_magic.system.files.place import Place

WORKERS = 2
SMALL_STEPS = 375  # of 8 events each
SMALL_RUNS = 25
LATE = 5
ENGINES = ("serial", "processes", "dask", "ipyparallel")
HTA = """
import sys, time
start = time.perf_counter()
from hta.trace_analysis import TraceAnalysis
imported = time.perf_counter()
analysis = TraceAnalysis(trace_dir=sys.argv[1])
overlap = analysis.get_comm_comp_overlap(visualize=False)
parts = analysis.get_temporal_breakdown(visualize=False)
print(overlap.to_string()); print(parts.to_string())
end = time.perf_counter()
print(f"HTA {end - imported:.2f} s, and {imported - start:.2f} s to import it")
"""


def main() -> None:
    """Measure some numbers of ranks on some engines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="*", default=[8, 64, 1024])
    parser.add_argument("--steps", type=int, default=40, help="of 8 events each")
    parser.add_argument("--engines", nargs="*", default=ENGINES, choices=ENGINES)
    parser.add_argument("--folder", type=Path, help="files of a real job, instead of made ones")
    parser.add_argument("--hta", help="a Python with HolisticTraceAnalysis")
    chosen = parser.parse_args()
    print("  ranks engine        wall s  start s  a rank ms  worker MB  sent kB a rank  join s  page s")
    with tempfile.TemporaryDirectory() as folder:
        for count in [0] if chosen.folder else chosen.ranks:
            files = sorted(map(str, chosen.folder.iterdir())) if chosen.folder else _made(Path(folder), count, chosen)
            for engine in chosen.engines:
                _measure(engine, files)
    _measure_small(chosen.folder)
    if chosen.hta and chosen.folder:
        _compare(chosen.hta, chosen.folder)


def _measure_small(folder: Path | None) -> None:
    """Print the CPU time of a small rank: the first of the folder, or a made one."""
    with tempfile.TemporaryDirectory() as made:
        if folder is None:
            events = [event for step in range(SMALL_STEPS) for event in device_step(step, 0.0)]
            write_rank(Path(made), 0, *events, world_size=1)
        source = str(min((folder or Path(made)).iterdir()))
        taken_s = []
        for _ in range(SMALL_RUNS):
            began_s = time.process_time()
            frames_of(source)
            taken_s.append(time.process_time() - began_s)
    least_ms, usual_ms = 1000 * min(taken_s), 1000 * statistics.median(taken_s)
    print(f"CPU of a small rank, warm: {least_ms:.1f} ms at the least, {usual_ms:.1f} at the median")


def _made(folder: Path, count: int, chosen: argparse.Namespace) -> list[str]:
    target = folder / str(count)
    target.mkdir()
    for rank in range(count):
        events = [event for step in range(chosen.steps) for event in device_step(step, 200.0 if rank == LATE else 0.0)]
        write_rank(target, rank, *events, world_size=count)
    return [str(target / f"rank{rank}.json") for rank in range(count)]


def _measure(engine: str, files: Sequence[str]) -> None:
    """Print a line for one engine."""
    peak: list[float] = []
    began = time.perf_counter()
    with _executor(engine, peak) as run:
        started = time.perf_counter()
        sent = run(files)
        ended = time.perf_counter()
        peak.append(_worker_peak_mb(engine))
    report = joined(sent, title="made", opener=lambda file: open_report(place_of(file)))
    joined_at = time.perf_counter() - (time.perf_counter() - ended)
    took_join = time.perf_counter()
    joined(sent, title="made", opener=lambda file: open_report(place_of(file)))
    took_join = time.perf_counter() - took_join
    page_began = time.perf_counter()
    assert report._forms._page.header  # noqa: SLF001 - what a live view waits for
    took_page = time.perf_counter() - page_began
    kilobytes = sum(map(bytes_of, sent)) / len(files) / 1000
    wall, start = joined_at - started, started - began
    print(
        f"{len(files):7} {engine:12} {wall:7.2f} {start:8.2f} {1000 * wall / len(files):10.1f} {max(peak):10.0f} "
        f"{kilobytes:15.1f} {took_join:7.2f} {took_page:7.2f}"
    )


@contextmanager
def _executor(engine: str, _peak: list[float]) -> Iterator[Callable[[Sequence[str]], list]]:
    if engine == "serial":
        yield lambda files: gather._one_by_one(_places(files), None)  # noqa: SLF001
    elif engine == "processes":
        own = workers.Workers(WORKERS)
        yield lambda files: gather._on(own, _places(files), None)  # noqa: SLF001
        _peak.append(_worker_peak_mb(engine))
        own.shutdown()
    elif engine == "dask":
        import distributed  # noqa: PLC0415 - only where it is measured

        with (
            distributed.LocalCluster(
                n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, silence_logs=50
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield _through(client.get_executor(pure=False))
    else:
        import ipyparallel  # noqa: PLC0415 - only where it is measured

        with ipyparallel.Cluster(n=WORKERS, log_level=50) as client:
            yield _through(client.load_balanced_view().executor)


def _through(executor: Executor) -> Callable[[Sequence[str]], list]:
    return lambda files: gather.gather(_places(files), executor, None)


def _places(files: Sequence[str]) -> list[Place]:
    return [place_of(file) for file in files]


def _worker_peak_mb(engine: str) -> float:
    """Return the memory of the largest process that works now; of this one if there is no other."""
    if engine == "serial":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    sizes = []
    for child in psutil.Process(os.getpid()).children(recursive=True):
        try:
            sizes.append(child.memory_info().rss / 1e6)
        except psutil.Error:
            continue
    return max(sizes, default=0.0)


def _compare(python: str, folder: Path) -> None:
    """Print the numbers of HolisticTraceAnalysis and ours, and how long either takes."""
    found = subprocess.run([python, "-c", HTA, str(folder)], capture_output=True, text=True, check=False)
    print(found.stdout or found.stderr[-2000:])
    began = time.perf_counter()
    report = joined(
        gather._one_by_one([place_of(file) for file in sorted(folder.iterdir())], None),  # noqa: SLF001
        title="",
        opener=lambda file: open_report(place_of(file)),
    )
    print(f"torchprof {time.perf_counter() - began:.2f} s in one process")
    print(report.ranks.select("rank", "compute_ns", "hidden_comm_ns", "exposed_comm_ns", "idle_ns", "step_ns"))


if __name__ == "__main__":
    main()
