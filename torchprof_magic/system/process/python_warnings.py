"""Redirecting Python's warnings without showing the user's again.

``warnings.catch_warnings`` makes Python forget which warnings were shown already, so that those of the user's code
would be shown once more. Here the filters are replaced without telling Python.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def warnings_to(listener: Callable[[str], None] | None = None) -> Iterator[None]:
    """Call ``listener`` with the text of each warning in the block instead of showing it; none becomes an error."""

    def show(message: Warning | str, *_place: Any, **_more: Any) -> None:
        if listener is not None:
            listener(str(message))

    shown, filters = warnings.showwarning, warnings.filters
    warnings.showwarning = show
    warnings.filters = [("always", None, Warning, None, 0)]
    try:
        yield
    finally:
        warnings.showwarning, warnings.filters = shown, filters
