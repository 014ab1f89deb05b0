"""Being told when a cell has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from IPython.core.getipython import get_ipython

if TYPE_CHECKING:
    from collections.abc import Callable

_EVENT = "post_run_cell"


def at_cell_end(call: Callable[..., object]) -> Callable[[], None]:
    """Call ``call`` after every cell until the function that is returned is called; without a shell, never."""
    shell = get_ipython()  # type: ignore[no-untyped-call]
    if shell is None:
        return lambda: None
    shell.events.register(_EVENT, call)

    def forget() -> None:
        if call in shell.events.callbacks[_EVENT]:
            shell.events.unregister(_EVENT, call)

    return forget
