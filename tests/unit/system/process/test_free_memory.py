"""What reading a trace takes, what is free, and how much this process grew."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from torchprof_magic.system.process import memory
from torchprof_magic.system.process.memory import Lack, lack_for_polars, lack_for_reading

if TYPE_CHECKING:
    from pathlib import Path

MEBI = 1 << 20
STACK = 8 * MEBI
GROW = """
import os
from torchprof_magic.system.process.memory import Growth
growth = Growth()
numbers = [growth.grown_bytes()]
growth.begin()
ballast = bytearray(os.urandom(1)) * 80_000_000
numbers.append(growth.grown_bytes())
growth.end()
print([*numbers, growth.grown_bytes()])
"""
READ_A_FILE = """
import mmap
import os
import sys
from torchprof_magic.system.process.memory import Growth
with open(sys.argv[1], "r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
    growth = Growth()
    growth.begin()
    sum(pages[:: mmap.PAGESIZE])
    grown = growth.grown_bytes()
    ballast = bytearray(os.urandom(1)) * 40_000_000
    print([grown, growth.grown_bytes()])
"""
COUNT_POOLS = """
import time
import polars as pl
from torchprof_magic.system.process import memory
with pl.SQLContext(frame=pl.DataFrame({"a": [2, 1]})) as context:
    context.execute("SELECT a FROM frame ORDER BY a", eager=True)
size = pl.thread_pool_size()
end = time.monotonic() + 20
# A thread has no name of its own before it has run for the first time.
while time.monotonic() < end:
    names = memory._thread_names()
    counts = [sum(bool(pool.fullmatch(name)) for name in names) for pool in memory._POOLS]
    if counts == [size] * 3:
        break
    time.sleep(0.05)
print([counts, size])
"""


def test_growth_is_that_of_the_process_since_the_beginning() -> None:
    # In a process of its own: what other tests free meanwhile makes this one smaller.
    ran = subprocess.run([sys.executable, "-c", GROW], capture_output=True, text=True, check=True)
    before, grown, after = json.loads(ran.stdout)
    assert (before, after) == (0, 0)
    assert 70_000_000 < grown < 200_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells pages of files apart")
def test_pages_of_a_file_that_come_into_memory_are_no_growth(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 80_000_000)
    command = [sys.executable, "-c", READ_A_FILE, str(tmp_path / "file")]
    of_file, with_ballast = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert of_file < 10_000_000
    assert 35_000_000 < with_ballast < 60_000_000


class Machine:
    """A process with a limit of addresses. Its threads have an arena of 64 MiB, 6 MB, and some a stack of 8 MiB."""

    def __init__(self, patch: pytest.MonkeyPatch, *, free_addresses: int, threads: tuple[str, ...] = ()) -> None:
        info = SimpleNamespace(vms=409_600)
        limits = {"as": 409_600 + free_addresses, "stack": STACK}
        patch.setattr(memory.psutil, "virtual_memory", lambda: SimpleNamespace(available=8_000_000_000))
        patch.setattr(memory.psutil, "Process", lambda: SimpleNamespace(memory_info=lambda: info))
        patch.setattr(
            memory,
            "resource",
            SimpleNamespace(
                RLIM_INFINITY=-1, RLIMIT_AS="as", RLIMIT_STACK="stack", getrlimit=lambda of: (limits[of], -1)
            ),
        )
        patch.setattr(memory, "_thread_names", lambda: list(threads))
        patch.setattr(memory, "_cores", lambda: 2)
        patch.setattr(memory.os, "cpu_count", lambda: 2)
        patch.delenv("MALLOC_ARENA_MAX", raising=False)
        patch.delenv("POLARS_MAX_THREADS", raising=False)
        self.limits = limits


def needs() -> int:
    """Return how many addresses reading a byte needs beyond its own, on a machine that has none."""
    lack = lack_for_reading(1)
    assert lack is not None
    assert lack.is_limit
    return lack.need_bytes - 4


STARTED = (
    *("python", "polars-ooc-clea", "polars-0", "polars-1"),
    *("tokio-rt-worker", "tokio-rt-worker", "async-executor-", "async-executor-"),
)
# Two threads in each of three pools, and two of the allocator.
EIGHT_THREADS = 8 * (64 * MEBI + 6_000_000) + 2 * STACK + 16_000_000


def test_reading_needs_twice_the_file_size_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: SimpleNamespace(available=1_024_000))
    assert lack_for_reading(512_000) is None
    lack = lack_for_reading(512_001)
    assert lack == Lack(1_024_002, 1_024_000, is_limit=False)
    assert str(lack) == "takes about 1.02 MB of memory, and 1.02 MB are free"


def test_reading_needs_four_times_the_file_size_in_address_space_and_16_mb(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(monkeypatch, free_addresses=17_000_000, threads=STARTED)
    assert lack_for_reading(250_000) is None
    lack = lack_for_reading(250_001)
    assert lack == Lack(17_000_004, 17_000_000, is_limit=True)
    assert str(lack) == "takes about 17 MB of address space, and 17 MB are free"


def test_threads_that_polars_has_yet_to_start_need_addresses_too(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(monkeypatch, free_addresses=EIGHT_THREADS + 4)
    assert lack_for_reading(1) is None
    assert lack_for_reading(2) == Lack(EIGHT_THREADS + 8, EIGHT_THREADS + 4, is_limit=True)


def test_a_report_of_nothing_takes_two_of_the_three_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    six_threads = EIGHT_THREADS - 2 * (64 * MEBI + 6_000_000)
    machine = Machine(monkeypatch, free_addresses=six_threads)
    assert lack_for_reading(0) is None
    machine.limits["as"] -= 1
    assert lack_for_reading(0) == Lack(six_threads, six_threads - 1, is_limit=True)


def test_threads_of_a_pool_that_runs_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(monkeypatch, free_addresses=0, threads=STARTED[:6])
    assert needs() == 2 * (64 * MEBI + 6_000_000) + 16_000_000


@pytest.mark.parametrize(
    ("variables", "need"),
    [
        ({"POLARS_MAX_THREADS": "1"}, 5 * (64 * MEBI + 6_000_000) + 2 * STACK + 16_000_000),
        # Two cores have 16 arenas at most, one of which is that of the main thread.
        ({"POLARS_MAX_THREADS": "16"}, 15 * 64 * MEBI + 50 * 6_000_000 + 2 * STACK + 16_000_000),
        ({"MALLOC_ARENA_MAX": "3"}, 2 * 64 * MEBI + 8 * 6_000_000 + 2 * STACK + 16_000_000),
        ({"MALLOC_ARENA_MAX": "1", "POLARS_MAX_THREADS": "1"}, 5 * 6_000_000 + 2 * STACK + 16_000_000),
        ({"MALLOC_ARENA_MAX": "many", "POLARS_MAX_THREADS": "0"}, EIGHT_THREADS),
    ],
)
def test_the_need_follows_the_settings_of_polars_and_of_the_c_library(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], need: int
) -> None:
    Machine(monkeypatch, free_addresses=0)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert needs() == need


def test_stacks_are_as_large_as_their_limit_and_8_mib_without(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, free_addresses=0)
    machine.limits["stack"] = 64 * MEBI
    assert needs() == EIGHT_THREADS + 2 * 56 * MEBI
    machine.limits["stack"] = -1
    assert needs() == EIGHT_THREADS


def test_importing_polars_needs_addresses_for_itself_its_threads_and_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    polars_alone = 205_000_000 + 3 * (64 * MEBI + 6_000_000)
    Machine(monkeypatch, free_addresses=polars_alone)
    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace())
    assert lack_for_polars() is None  # imported already
    monkeypatch.delitem(sys.modules, "polars")
    monkeypatch.setitem(sys.modules, "numpy", SimpleNamespace())
    assert lack_for_polars() is None
    monkeypatch.delitem(sys.modules, "numpy")
    assert lack_for_polars() == Lack(polars_alone + 50_000_000 + 2 * 45_000_000, polars_alone, is_limit=True)


@pytest.mark.parametrize("has_limits", [True, False])
def test_without_a_limit_addresses_do_not_matter(monkeypatch: pytest.MonkeyPatch, *, has_limits: bool) -> None:
    machine = Machine(monkeypatch, free_addresses=0)
    if has_limits:
        machine.limits["as"] = -1
    else:
        monkeypatch.setattr(memory, "resource", None)
    assert lack_for_reading(4_000_000_000) is None
    assert lack_for_reading(4_000_000_001) == Lack(8_000_000_002, 8_000_000_000, is_limit=False)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the names of threads")
def test_each_pool_of_polars_is_known_by_the_names_of_its_threads() -> None:
    # In a process of its own: other tests have polars start more threads of these names for a while.
    ran = subprocess.run([sys.executable, "-c", COUNT_POOLS], capture_output=True, text=True, check=True)
    counts, size = json.loads(ran.stdout)
    assert counts == [size] * 3
