"""Free memory and addresses of this process, what it takes to read a trace in it, and its growth.

torch keeps every event in memory until the recording ends, and then needs several times as much. If the system kills
the process at that point, everything is lost. torch does not report its memory use, so the growth of the whole process
is measured. The recording of a program that allocates a lot itself therefore stops early rather than late.

Some machines limit the addresses of a process (``ulimit -v``). polars aborts the process when it starts its threads and
they do not fit. They take few pages but many addresses, because the C library reserves an arena for each thread.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from torchprof_magic.model.units import format_file_size

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# What a recording may take by default: this fraction of the memory that is free when it begins.
FREE_PART = 2
# Memory that reading and showing a trace takes, as multiples of its file's size. Measured on files of 20 to 180 MB: 1.2
# times in memory, 3 times in address space. Beyond it the process dies.
_READ_MEMORY = 2
_READ_ADDRESSES = 4
# Addresses that reading takes beyond that, however small the file; 8 MB were enough.
_READ_LEAST_BYTES = 16_000_000

# Linux only: numbers of pages of this process. The second of them is in memory, the third is those of files among them.
_PAGES = "/proc/self/statm"
_PAGE_BYTES = resource.getpagesize() if resource is not None else 4096
_TASKS = Path("/proc/self/task")  # Linux only
# polars starts three pools, each of as many threads as it may use: two on first use, together with two threads of
# jemalloc, and the third for frames of thousands of rows, for CSV and for SQL. Linux cuts names after 15 characters.
_POOLS = (re.compile(r"polars-[0-9]+"), re.compile(r"tokio-rt-worker"), re.compile(r"async-executor-.*"))
_FIRST_POOLS = _POOLS[:2]
_ALLOCATOR_THREADS = 2
# Measured with polars 2.1 and glibc 2.36: the first two pools take 238, 456 and 742 MB for 1, 2 and 4 threads each, and
# 47 and 132 MB for 2 and 16 with MALLOC_ARENA_MAX=1; the third takes 146 MB for 2. That is an arena and a stack for
# each thread, and what polars allocates in it.
_ARENA_BYTES = 64 << 20
_THREAD_BYTES = 6_000_000
_DEFAULT_STACK_BYTES = 8 << 20
# glibc makes this many arenas per core at most.
_ARENAS_PER_CORE = 8
# Importing polars maps 195 MB and starts 3 threads; importing numpy takes 45 MB, and 42 MB for each core.
_POLARS_BYTES = 205_000_000
_POLARS_IMPORT_THREADS = 3
_NUMPY_BYTES = 50_000_000
_NUMPY_CORE_BYTES = 45_000_000


NO_MEMORY = "Free memory, or use a machine with more"


class Lack(NamedTuple):
    """Memory that is needed and memory that is free, or addresses if it is a limit that restricts them."""

    need_bytes: int
    free_bytes: int
    is_limit: bool

    def __str__(self) -> str:
        """Return the end of a sentence that begins with what takes the memory."""
        what = "address space" if self.is_limit else "memory"
        need, free = format_file_size(self.need_bytes), format_file_size(self.free_bytes)
        return f"takes about {need} of {what}, and {free} are free"

    @property
    def advice(self) -> str:
        """What to do about it."""
        if not self.is_limit:
            return NO_MEMORY
        return "Raise the limit (ulimit -v), or set MALLOC_ARENA_MAX=1 and POLARS_MAX_THREADS=1 before Python starts"


def free_bytes() -> int:
    """Return how much memory can be allocated without swapping."""
    return int(psutil.virtual_memory().available)


class Growth:
    """How much larger this process is than when ``begin`` was last called."""

    _file: int | None = None

    def __init__(self) -> None:
        self._began_bytes: int | None = None
        self._process = psutil.Process()

    def begin(self) -> None:
        """Start counting."""
        if self._file is None:
            with suppress(OSError, AttributeError):  # not Linux
                self._file = os.open(_PAGES, os.O_RDONLY | os.O_CLOEXEC)
        self._began_bytes = self._resident_bytes()

    def end(self) -> None:
        """Stop counting."""
        self._began_bytes = None
        self._close()

    def __del__(self) -> None:
        """Close the file of a recording that did not end."""
        self._close()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def grown_bytes(self) -> int:
        """Return the growth since ``begin``; 0 outside of a recording."""
        return 0 if self._began_bytes is None else self._resident_bytes() - self._began_bytes

    def _resident_bytes(self) -> int:
        """Return the memory of this process; from an open file, because the user's code may use up all descriptors.

        On Linux, without pages of files: the system takes them back and loads them again as it likes, a library of
        torch among them.
        """
        if self._file is None:
            return int(self._process.memory_info().rss)
        _, resident, of_files, *_ = os.pread(self._file, 128, 0).split()
        return (int(resident) - int(of_files)) * _PAGE_BYTES


class _Heap(ctypes.Structure):
    """What ``mallinfo2`` of the GNU C library returns, ten numbers: what is mapped, and what else is in use."""

    _fields_ = (
        ("_", ctypes.c_size_t * 4),
        ("hblkhd", ctypes.c_size_t),
        ("_free", ctypes.c_size_t * 2),
        ("uordblks", ctypes.c_size_t),
        ("_rest", ctypes.c_size_t * 2),
    )


def heap_bytes() -> int | None:
    """Return how much memory the libraries of this process have allocated and not freed; None where nobody tells.

    Other than the size of the process, it grows by what is allocated also where that fills gaps. What Python and CUDA
    allocate for themselves is not in it. It takes 10 to 40 us.
    """
    read = _heap_reader()
    if read is None:
        return None
    found = read()
    return int(found.uordblks) + int(found.hblkhd)


@cache
def _heap_reader() -> Callable[[], _Heap] | None:
    """Return ``mallinfo2`` of the GNU C library, where that is used."""
    read: Any = getattr(ctypes.CDLL(None), "mallinfo2", None) if sys.platform == "linux" else None
    if read is not None:
        read.restype = _Heap
    return read


def lack_for_reading(file_bytes: int) -> Lack | None:
    """Return what is missing to read a trace of this size, ``None`` if there is enough.

    Where the addresses of this process are limited, polars' threads count too, unless they were started already. A
    trace of 0 bytes stands for a report of nothing, which takes fewer threads.
    """
    free = free_bytes()
    if free < _READ_MEMORY * file_bytes:
        return Lack(_READ_MEMORY * file_bytes, free, is_limit=False)
    pools = _POOLS if file_bytes else _FIRST_POOLS
    return _lack_of_addresses(lambda: _pool_bytes(pools) + _READ_LEAST_BYTES + _READ_ADDRESSES * file_bytes)


def lack_for_polars() -> Lack | None:
    """Return what is missing to import polars, ``None`` if there is enough or it was imported already."""
    return None if "polars" in sys.modules else _lack_of_addresses(_import_bytes)


def _lack_of_addresses(need_bytes: Callable[[], int]) -> Lack | None:
    free = _free_addresses()
    if free is None:
        return None
    need = need_bytes()
    return Lack(need, free, is_limit=True) if need > free else None


def _free_addresses() -> int | None:
    """Return by how much the address space of this process may grow, ``None`` where there is no limit."""
    if resource is None:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else max(0, limit - int(psutil.Process().memory_info().vms))


def _pool_bytes(pools: Sequence[re.Pattern[str]]) -> int:
    """Return the addresses of those threads in the pools that polars has yet to start."""
    names = _thread_names()
    started = [sum(bool(pool.fullmatch(name)) for name in names) for pool in pools]
    threads = sum(max(0, _pool_threads() - count) for count in started)
    if started[0]:
        return _threads_bytes(threads)
    return _threads_bytes(threads + _ALLOCATOR_THREADS) + _ALLOCATOR_THREADS * _stack_bytes()


def _import_bytes() -> int:
    numpy = 0 if "numpy" in sys.modules else _NUMPY_BYTES + _NUMPY_CORE_BYTES * _cores()
    return numpy + _POLARS_BYTES + _threads_bytes(_POLARS_IMPORT_THREADS)


def _threads_bytes(threads: int) -> int:
    """Return the addresses that new threads take, without the stacks of those that polars does not start itself."""
    return threads * _THREAD_BYTES + min(threads, _most_arenas()) * _ARENA_BYTES


def _most_arenas() -> int:
    """Return how many arenas the C library may still make, besides that of the main thread."""
    limit = os.environ.get("MALLOC_ARENA_MAX", "")
    return max(0, (int(limit) if limit.isdecimal() and int(limit) else _ARENAS_PER_CORE * (os.cpu_count() or 1)) - 1)


def _stack_bytes() -> int:
    """Return the size of the stack of a thread that does not choose one."""
    assert resource is not None
    limit, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return _DEFAULT_STACK_BYTES if limit == resource.RLIM_INFINITY else limit


def _pool_threads() -> int:
    """Return how many threads polars starts in a pool; asking polars would start them."""
    wanted = os.environ.get("POLARS_MAX_THREADS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) else _cores()


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _thread_names() -> list[str]:
    """Return the names of this process's threads, where the system tells them."""
    names = []
    for task in _TASKS.iterdir() if _TASKS.is_dir() else ():
        with suppress(OSError):  # it has ended
            names.append((task / "comm").read_text("utf-8", errors="replace").strip())
    return names
