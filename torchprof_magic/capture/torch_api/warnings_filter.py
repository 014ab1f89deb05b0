"""Where do torch's warnings go, without the user's warnings being touched?"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def warnings_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Give the text of each warning within to ``listener`` instead of showing it; none becomes an error.

    Python forgets which warnings it has shown once whenever its filters are touched, and the user's would come again.
    So they are touched only where they would turn a warning into an error.
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
