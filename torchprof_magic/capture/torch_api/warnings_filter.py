"""Redirecting torch's warnings without affecting those of the user's code."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def warnings_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Call ``listener`` with the text of each warning within instead of showing it; none becomes an error.

    Changing the warning filters resets which warnings were already shown, so the user's would be shown again. The
    filters are therefore changed only if they would turn a warning into an error.
    """
    if any(action == "error" for action, *_ in warnings.filters):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for warning in caught:
            listener(str(warning.message))
        return

    def show(message: Warning | str, *_place: Any, **_more: Any) -> None:
        listener(str(message))

    shown = warnings.showwarning
    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = shown
