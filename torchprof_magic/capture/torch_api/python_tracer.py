"""torch's tracer of Python calls: how many calls it holds, and how to end it while the recording goes on.

torch counts the calls, but tells nobody. It keeps the times of all returns of a thread in two lists, of Python
functions and of builtins, each of blocks of 1024 times: the number of blocks, where the next time goes, and the end of
the last block. Their place differs between versions of torch, so it is found out by calling a function and looking
which numbers grow by as much. The memory is read through a file of the system, which answers with an error where there
is none, so a wrong guess cannot crash the process.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from torchprof_magic.system.process.garbage import HeldCollections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The type of what torch hands to Python as the profiler of a thread.
_TRACER: Final = "TraceContext"
_MEMORY: Final = "/proc/self/mem"  # Linux only
_WORD_BYTES: Final = 8
_BLOCK_TIMES: Final = 1024
_LISTS: Final = 2  # of functions and of builtins
_LEAST_ADDRESS: Final = 1 << 16
_END_ADDRESS: Final = 1 << 62
_MOST_BLOCKS: Final = 1 << 24
# The tracer of the whole process begins with about 30 words, and what it keeps of a thread takes 66.
_MOST_THREADS: Final = 64
_ROOT_WORDS, _PART_WORDS = 64, 72
# Of the containers in which torch keeps what it knows of threads.
_BLOCK_BYTES: Final = 512
_PROBES: Final = 29
# An object begins with its number of references and its type; torch's object of a thread then has one pointer.
_POINTER_AT: Final = object.__basicsize__


class PythonCalls:
    """The number of Python calls that torch has recorded; made on the thread that records, while torch records them.

    ``is_known`` is false where they cannot be counted: without such a recording, on other systems than Linux, or if
    torch keeps them in another way. Those of other threads count as well if torch's lists of them are found.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        self._lists: tuple[int, ...] = ()
        self._buffer = ctypes.create_string_buffer(2 * _PART_WORDS * _WORD_BYTES)
        tracer = sys.getprofile()
        if is_traced() and struct.calcsize("P") == _WORD_BYTES:
            with suppress(OSError, AttributeError):
                # Python's own would let another thread run at each call, and get its turn back 5 ms later.
                self._pread = ctypes.PyDLL(None).pread
                self._pread.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64)
                self._pread.restype = ctypes.c_ssize_t
                self._file = os.open(_MEMORY, os.O_RDONLY | os.O_CLOEXEC)
                self._lists = self._find_undisturbed(id(tracer))
        if not self._lists:
            self.close()

    @property
    def is_known(self) -> bool:
        """Whether ``count`` has an answer."""
        return bool(self._lists)

    @property
    def threads(self) -> int:
        """The number of threads whose calls are counted."""
        return len(self._lists) // _LISTS

    def count(self) -> int | None:
        """Return how many calls have returned; None where that is not known. It can be asked on any thread."""
        return sum(self._size(address) or 0 for address in self._lists) if self._lists else None

    def close(self) -> None:
        """Count no more; can be called twice."""
        self._lists = ()
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _find_undisturbed(self, tracer: int) -> tuple[int, ...]:
        """Return the same as ``_find``, without collections of garbage, which call functions of the program.

        What else Python may call meanwhile, such as a handler of a signal, disturbs one search and not the next one.
        """
        held = HeldCollections()
        try:
            held.begin()
            return self._find(tracer) or self._find(tracer)
        finally:
            held.end()

    def _find(self, tracer: int) -> tuple[int, ...]:
        """Return the addresses of the lists of this thread, and of the same lists of others."""
        for root in self._words(tracer + _POINTER_AT, 1):
            words = self._words(root, _ROOT_WORDS)
            own = self._own_lists((root,))
            if own:
                return self._with_neighbours(*own)
            threads = tuple(dict.fromkeys(self._arrays(words)))
            own = self._own_lists((*threads, *words))
            if own:
                return self._with_others(own, threads)
        return ()

    def _arrays(self, words: tuple[int, ...]) -> Iterator[int]:
        """Yield what is in the arrays that these words have the first and the last address of."""
        ordered = sorted({word for word in words if word > _LEAST_ADDRESS and word % _WORD_BYTES == 0})
        for first, last in pairwise(ordered):
            if last - first < _MOST_THREADS * _WORD_BYTES:
                yield from self._words(first, (last - first) // _WORD_BYTES + 1)

    def _own_lists(self, addresses: tuple[int, ...]) -> tuple[int, tuple[int, ...]] | None:
        """Return where there are two lists that grow with the calls of this thread, and the lists."""
        for address in dict.fromkeys(addresses):
            if address < _LEAST_ADDRESS or address % _WORD_BYTES:
                continue
            lists = [found for found in _lists_in(address, self._words(address, _PART_WORDS)) if self._size(found)]
            functions = next((found for found in lists if self._grows(found, _call_functions)), None)
            builtins = next((found for found in lists if self._grows(found, _call_builtins)), None)
            if functions is not None and builtins is not None:
                return address, (functions, builtins)
        return None

    def _with_others(self, own: tuple[int, tuple[int, ...]], threads: tuple[int, ...]) -> tuple[int, ...]:
        """Return the lists of all threads: where those of this one are, from the beginning of what is kept of each."""
        address, lists = own
        found = dict.fromkeys(lists)
        for thread in threads:
            same = [thread + known - address for known in lists]
            if thread > _LEAST_ADDRESS and None not in map(self._size, same):
                found |= dict.fromkeys(same)
        return tuple(found)

    def _with_neighbours(self, address: int, lists: tuple[int, ...]) -> tuple[int, ...]:
        """Return the lists of all threads where what torch keeps of each lies beside the others, in blocks.

        Older versions of torch do so. Each has the address of the tracer, which has those of the blocks.
        """
        found = dict.fromkeys(lists)
        for at, tracer in enumerate(self._words(address, _PART_WORDS)):
            blocks = set(self._arrays(self._words(tracer, _ROOT_WORDS))) if tracer > _LEAST_ADDRESS else set()
            if any(0 <= address - block < _BLOCK_BYTES for block in blocks):
                found |= dict.fromkeys(self._lists_in_blocks(blocks, at, tracer, [known - address for known in lists]))
        return tuple(found)

    def _lists_in_blocks(self, blocks: set[int], at: int, tracer: int, places: list[int]) -> Iterator[int]:
        """Yield the lists of each thread in these blocks, from whose beginning the tracer is ``at`` words away."""
        for block in blocks:
            words = self._words(block, _BLOCK_BYTES // _WORD_BYTES + at) if block > _LEAST_ADDRESS else ()
            for number, word in enumerate(words[at:]):
                same = [block + number * _WORD_BYTES + place for place in places] if word == tracer else []
                if None not in map(self._size, same):
                    yield from same

    def _grows(self, address: int, call: Callable[[], None]) -> bool:
        """Return whether a list grows by one for each call; looking at it is some calls as well, always the same."""
        first, second = self._size(address), self._size(address)
        if first is None or second is None or second <= first:  # it is that of another thread
            return False
        call()
        third = self._size(address)
        # The probing itself is a function.
        return third is not None and (third - second) - (second - first) in (_PROBES, _PROBES + 1)

    def _size(self, address: int) -> int | None:
        words = self._words(address, 3)
        return _size_of(*words) if len(words) == 3 else None  # noqa: PLR2004 - number, next place, end

    def _words(self, address: int, count: int) -> tuple[int, ...]:
        """Return so many words of memory; fewer where it ends, and none where there is none."""
        if self._file is None or not 0 < address < _END_ADDRESS:
            return ()
        size = self._pread(self._file, self._buffer, count * _WORD_BYTES, address)
        return struct.unpack_from(f"={max(size, 0) // _WORD_BYTES}Q", self._buffer)


def _lists_in(address: int, words: tuple[int, ...]) -> Iterator[int]:
    # Few of the words pass the first test: each function that is called here would be in the recording.
    for at, (blocks, next_address, end_address) in enumerate(zip(words, words[1:], words[2:], strict=False)):
        if 0 < blocks < _MOST_BLOCKS and 0 <= end_address - next_address <= _BLOCK_TIMES * _WORD_BYTES:
            yield address + at * _WORD_BYTES


def _size_of(blocks: int, next_address: int, end_address: int) -> int | None:
    """Return the length of a list of torch's, None if these three words are not of one."""
    left = end_address - next_address
    if blocks == next_address == end_address == 0:
        return 0
    if not 0 < blocks < _MOST_BLOCKS or next_address < _LEAST_ADDRESS:
        return None
    if not 0 <= left <= _BLOCK_TIMES * _WORD_BYTES or left % _WORD_BYTES:
        return None
    return blocks * _BLOCK_TIMES - left // _WORD_BYTES


def _call_functions() -> None:
    for _ in range(_PROBES):
        _nothing()


def _call_builtins() -> None:
    for number in range(_PROBES):
        abs(number)


def _nothing() -> None:
    """Be called."""


def is_traced() -> bool:
    """Return whether torch records the Python calls of this thread."""
    return type(sys.getprofile()).__name__ == _TRACER


def end_own_tracer() -> None:
    """End the tracing of Python calls on this thread, if it is torch's."""
    if is_traced():
        sys.setprofile(None)


class TracedThreads:
    """The threads of Python that a recording traces: those that there are when it begins."""

    def __init__(self) -> None:
        self._end: Any = getattr(ctypes.pythonapi, "_PyEval_SetProfile", None)
        self._threads = set(_threads()) if self._end is not None else set()

    @property
    def can_end(self) -> bool:
        """Whether this Python can end what another thread is traced by."""
        return self._end is not None or hasattr(sys, "_setprofileallthreads")

    @property
    def count(self) -> int:
        """How many there are; 0 where that is not known."""
        return len(self._threads)

    def end(self) -> None:
        """End the tracing of Python calls on all of them; called on any thread."""
        if self._end is None:
            sys._setprofileallthreads(None)  # type: ignore[attr-defined]  # noqa: SLF001 - the public one also ends that of threads to come
            return
        for thread in self._threads.intersection(_threads()):
            self._end(ctypes.c_void_p(thread[0]), None, None)


def _threads() -> Iterator[tuple[int, int]]:
    """Yield the state of each thread, and its number, as an address may be used again."""
    api = ctypes.pythonapi
    for name in ("PyInterpreterState_Get", "PyInterpreterState_ThreadHead", "PyThreadState_Next"):
        getattr(api, name).restype = ctypes.c_void_p
    api.PyThreadState_GetID.restype = ctypes.c_uint64
    state = api.PyInterpreterState_ThreadHead(ctypes.c_void_p(api.PyInterpreterState_Get()))
    while state:
        yield state, api.PyThreadState_GetID(ctypes.c_void_p(state))
        state = api.PyThreadState_Next(ctypes.c_void_p(state))
