"""SIGKILL while a trace is stored: at every call of the system that ``put`` makes, and at random moments.

Each run stores traces in a process of its own, which is killed. Then every file in the folder must be whole, no older
one may be missing, and the next ``put`` must clean up. See ``--help``.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import re
import signal
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from torchprof_magic.store.template import TraceValues
from torchprof_magic.store.trace_store import TraceStore

CALLS = (
    "open",
    "read",
    "write",
    "fsync",
    "replace",
    "link",
    "unlink",
    "close",
    "fstat",
    "fchmod",
    "lstat",
    "listdir",
    "makedirs",
)
KEEP = 3
BLOCKS = 2


def content(cycle: int) -> bytes:
    """Return a trace that holds the number of its cycle and does not compress well."""
    return b'{"%d": ' % cycle + random.Random(cycle).randbytes(50_000) * BLOCKS  # noqa: S311


def unmarked(data: bytes) -> bytes:
    """Return a trace without the id that the store put into it."""
    return re.sub(rb'^{"torchprofStoreId": "[0-9a-f]{16}",', b"{", data)


def put(folder: Path, cycle: int) -> None:
    source = folder / "raw.json"
    source.write_bytes(content(cycle))
    TraceStore(folder=folder / "traces", keep_last=KEEP).put(source, f"{cycle}.json.gz", TraceValues(cycle=cycle))


def killing_at(number: int) -> None:
    """Kill this process just before its n-th call of the system from here on."""
    calls = count()

    def killer(real):  # noqa: ANN001, ANN202 - it wraps any function of os
        def call(*args, **kwargs):  # noqa: ANN002, ANN003, ANN202
            if next(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    for name in CALLS:
        setattr(os, name, killer(getattr(os, name)))


def flaws_of(folder: Path, least: int) -> list[str]:
    """Return what is wrong in a folder where every trace up to ``least`` was stored before the kill."""
    flaws = []
    there = sorted(int(path.name.partition(".")[0]) for path in (folder / "traces").glob("[0-9]*"))
    for cycle in there:
        try:
            found = gzip.decompress((folder / "traces" / f"{cycle}.json.gz").read_bytes())
        except (OSError, EOFError) as exc:
            flaws.append(f"{cycle}: {exc}")
        else:
            flaws += [] if unmarked(found) == content(cycle) else [f"{cycle}: has other content"]
    expected = set(range(max(0, least - KEEP + 2), least + 1))  # the next one may already have pushed out one more
    flaws += [f"{cycle}: is gone" for cycle in sorted(expected - set(there))]
    return flaws


def flaws_after_next(folder: Path, cycle: int) -> list[str]:
    """Store one more trace and return what should not be in the folder then."""
    put(folder, cycle)
    left = [path.name for path in (folder / "traces").iterdir() if path.suffix == ".part"]
    there = list((folder / "traces").glob("[0-9]*"))
    return left + ([f"{len(there)} traces are there, not {KEEP}"] if len(there) != KEEP else [])


def every_call() -> tuple[int, list[str]]:
    """Kill a forked child at its first call, another one at its second, and so on until one finishes."""
    flaws: list[str] = []
    is_killed = True
    calls = -1
    with tempfile.TemporaryDirectory() as outer:
        while is_killed:
            calls += 1
            folder = Path(outer) / str(calls)
            folder.mkdir()
            for cycle in range(KEEP):
                put(folder, cycle)
            if (child := os.fork()) == 0:
                killing_at(calls)
                put(folder, KEEP)
                os._exit(0)
            is_killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
            found = [*flaws_of(folder, KEEP - 1), *flaws_after_next(folder, KEEP + 1)]
            flaws += [f"call {calls}: {flaw}" for flaw in found]
    return calls, flaws


def random_moments(runs: int, seed: int) -> list[str]:
    """Kill processes that store one trace after the other, all in the same folder."""
    chance = random.Random(seed)  # noqa: S311
    flaws: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        least = -1
        for run in range(runs):
            least = max(least, last_stored_before_kill(folder, least + 1, chance.uniform(0, 0.05)))
            flaws += [f"run {run}: {flaw}" for flaw in flaws_of(folder, least)]
            least = max([least, *(int(path.name.partition(".")[0]) for path in (folder / "traces").glob("[0-9]*"))])
        return flaws + flaws_after_next(folder, least + 1)


def last_stored_before_kill(folder: Path, cycle: int, delay_seconds: float) -> int:
    """Return the last cycle that a child reported as stored before it was killed, or -1."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        for following in count(cycle):
            put(folder, following)
            os.write(writing, b"%d\n" % following)
    os.close(writing)
    time.sleep(delay_seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reading) as said:
        return int((said.read().split() or ["-1"])[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="number of kills at random moments")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--no-sync", action="store_true", help="skip fsync, which only matters when the machine crashes"
    )
    options = parser.parse_args()
    if options.no_sync:
        os.fsync = lambda _: None
    calls, flaws = every_call()
    flaws += random_moments(options.runs, options.seed)
    print(*flaws, sep="\n", end="\n" if flaws else "")
    print(f"killed at each of {calls} calls and at {options.runs} random moments: {len(flaws)} flaws")
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main())
