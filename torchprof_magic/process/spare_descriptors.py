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
    """Descriptors that are held while the user's code runs, and free while a recording begins or ends."""

    def __init__(self) -> None:
        self._held: list[int] = []

    def __del__(self) -> None:
        """Free the reserve of a recording that an interrupt has ended at an unlucky place."""
        self.release()

    def hold(self) -> None:
        """Take the reserve, or what is left of it; does nothing with those that are held already."""
        with suppress(OSError):  # none is left
            while len(self._held) < RESERVE:
                self._held.append(os.open(os.devnull, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)))

    def release(self) -> None:
        """Free the reserve."""
        while self._held:
            descriptor = self._held.pop()
            with suppress(OSError):  # the user's code has closed it
                if os.path.samestat(
                    os.fstat(descriptor), Path(os.devnull).stat()
                ):  # otherwise its number is in use again
                    os.close(descriptor)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Free the reserve within, if it is held."""
        was_held = bool(self._held)
        self.release()
        try:
            yield
        finally:
            if was_held:
                self.hold()
