"""Python's collection of garbage, which visits all objects again and again while very many are made that stay."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def without_collections() -> Iterator[None]:
    """Look for no garbage in the block; with it, the structs of a file take three times as long to decode."""
    let_in = hold_collections()
    try:
        yield
    finally:
        let_in()


def hold_collections() -> Callable[[], None]:
    """Look for no garbage until what is returned is called; what is due by then is looked for at once."""
    if not gc.isenabled():
        return _nothing
    gc.disable()
    return gc.enable


def _nothing() -> None:
    """Leave it off, as the user has it."""
