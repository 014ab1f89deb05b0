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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MEMORY: Final = "/proc/self/mem"  # Linux only
_WORD_BYTES: Final = 8
_BLOCK_TIMES: Final = 1024
_LEAST_ADDRESS: Final = 1 << 16
_MOST_BLOCKS: Final = 1 << 24
# The tracer of the whole process begins with about 30 words, and what it keeps of a thread takes 66.
_MOST_THREADS: Final = 64
_ROOT_WORDS, _PART_WORDS = 64, 128
_PROBES: Final = 29
# An object begins with its number of references and its type; torch's object of a thread then has one pointer.
_POINTER_AT: Final = object.__basicsize__
_LIST: Final = struct.Struct("=QQQ")


class PythonCalls:
    """The number of Python calls that torch has recorded on this thread; made while torch records them.

    ``is_known`` is false where they cannot be counted: without such a recording, on other systems than Linux, or if
    torch keeps them in another way.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        self._lists: tuple[int, int] | None = None
        tracer = sys.getprofile()
        if type(tracer).__name__ == "TraceContext" and struct.calcsize("P") == _WORD_BYTES:
            with suppress(OSError):
                self._file = os.open(_MEMORY, os.O_RDONLY | os.O_CLOEXEC)
                self._lists = self._find(id(tracer))
        if self._lists is None:
            self.close()

    @property
    def is_known(self) -> bool:
        """Whether ``count`` has an answer."""
        return self._lists is not None

    def count(self) -> int | None:
        """Return how many calls of this thread have returned; None if torch has given up its lists.

        It can be asked on any thread.
        """
        if self._lists is None:
            return None
        sizes = [self._size(address) for address in self._lists]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def close(self) -> None:
        """Count no more; can be called twice."""
        self._lists = None
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _find(self, tracer: int) -> tuple[int, int] | None:
        candidates = [address for address in self._candidates(tracer + _POINTER_AT) if self._size(address) is not None]
        functions = [address for address in candidates if self._grows(address, _call_functions)]
        builtins = [address for address in candidates if self._grows(address, _call_builtins)]
        return (functions[0], builtins[0]) if functions and builtins else None

    def _candidates(self, pointer: int) -> Iterator[int]:
        """Yield the addresses of three words that may be those of a list.

        The pointer leads to what torch keeps of this thread, or to the tracer, which has an array of pointers to what
        it keeps of each thread.
        """
        for root in self._words(pointer, 1):
            words = self._words(root, _ROOT_WORDS)
            yield from _lists_in(root, words)
            for address in dict.fromkeys((*words, *self._arrays(words))):
                if address > _LEAST_ADDRESS and address % _WORD_BYTES == 0:
                    yield from _lists_in(address, self._words(address, _PART_WORDS))

    def _arrays(self, words: tuple[int, ...]) -> Iterator[int]:
        """Yield what is in the arrays that these words have the first and the last address of."""
        ordered = sorted({word for word in words if word > _LEAST_ADDRESS and word % _WORD_BYTES == 0})
        for first, last in pairwise(ordered):
            if last - first < _MOST_THREADS * _WORD_BYTES:
                yield from self._words(first, (last - first) // _WORD_BYTES + 1)

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
        words = self._read(address, _LIST.size)
        return None if len(words) < _LIST.size else _size_of(*_LIST.unpack(words))

    def _words(self, address: int, count: int) -> tuple[int, ...]:
        read = self._read(address, count * _WORD_BYTES)
        return struct.unpack(f"={len(read) // _WORD_BYTES}Q", read[: len(read) // _WORD_BYTES * _WORD_BYTES])

    def _read(self, address: int, size_bytes: int) -> bytes:
        if self._file is None:
            return b""
        try:
            return os.pread(self._file, size_bytes, address)
        except (OSError, OverflowError):  # nothing is there
            return b""


def _lists_in(address: int, words: tuple[int, ...]) -> Iterator[int]:
    # Few of the words pass the first test: each function that is called here would be in the recording.
    for at, (blocks, next_address, end_address) in enumerate(zip(words, words[1:], words[2:], strict=False)):
        if 0 < blocks < _MOST_BLOCKS and 0 <= end_address - next_address <= _BLOCK_TIMES * _WORD_BYTES:
            yield address + at * _WORD_BYTES


def _size_of(blocks: int, next_address: int, end_address: int) -> int | None:
    """Return the length of a list of torch's, None if these three words are not of one."""
    left = end_address - next_address
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


class TracedThreads:
    """The threads of Python that a recording traces: those that there are when it begins."""

    def __init__(self) -> None:
        self._end: Any = getattr(ctypes.pythonapi, "_PyEval_SetProfile", None)
        self._threads = set(_threads()) if self._end is not None else set()

    @property
    def can_end(self) -> bool:
        """Whether this Python can end what another thread is traced by."""
        return self._end is not None or hasattr(sys, "_setprofileallthreads")

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
