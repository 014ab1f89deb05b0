"""Python's collection of garbage, which visits all objects again and again while very many are made that stay."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def without_collections() -> Iterator[None]:
    """Look for no garbage in the block, in which interrupts are deferred."""
    held = HeldCollections()
    try:
        held.begin()
        yield
    finally:
        held.end()


class HeldCollections:
    """Looks for no garbage from ``begin`` to ``end``, which can be called twice.

    Where the user has it off, it stays off.
    """

    _is_held = False

    def begin(self) -> None:
        """Look for no garbage from here on."""
        if gc.isenabled():
            self._is_held = True  # first, because an interrupt can come between these lines
            gc.disable()

    def end(self) -> None:
        """Look for garbage again, and at once for what is due by then."""
        if self._is_held:
            gc.enable()
            self._is_held = False
