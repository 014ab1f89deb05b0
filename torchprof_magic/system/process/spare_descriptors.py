"""A reserve of file descriptors, so that a recording can be saved after the user's code has used up all others."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Saving a cycle and reading it takes up to four at once: the trace, its check, stderr, and what torch opens.
RESERVE = 8


class SpareDescriptors:
    """Descriptors that are held while the user's code runs, and free while a recording begins or ends.

    A process has one such reserve, as it has one recording at a time: what an interrupt leaves held at an unlucky place
    serves the next recording. A destructor would not do: Python ignores a KeyboardInterrupt that is raised in one.
    """

    def __init__(self) -> None:
        self._held: list[int] = []
        self._is_wanted = False

    def hold(self) -> None:
        """Take the reserve, or what is left of it; does nothing with those that are held already."""
        self._is_wanted = True
        with suppress(OSError):  # none is left
            while len(self._held) < RESERVE:
                self._held.append(os.open(os.devnull, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)))

    def release(self) -> None:
        """Free the reserve for good: nothing is recorded any more."""
        self._is_wanted = False
        self._free()

    def _free(self) -> None:
        while self._held:
            descriptor = self._held.pop()
            with suppress(OSError):  # the user's code has closed it
                if os.path.samestat(
                    os.fstat(descriptor), Path(os.devnull).stat()
                ):  # otherwise its number is in use again
                    os.close(descriptor)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Free the reserve within; it is not taken again if it was released meanwhile."""
        self._free()
        try:
            yield
        finally:
            if self._is_wanted:
                self.hold()


SPARE = SpareDescriptors()
