"""How does a function of ours stand in for one of torch's or Python's for the length of a run?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def stand_in(owner: Any, name: str, function: Callable[..., Any]) -> Callable[[], None]:
    """Put ``function`` in the place of ``owner.name``; return what puts back what was there.

    If somebody else stands there by then, theirs stays: it calls ours, which goes on to the original.
    """
    original = getattr(owner, name)
    setattr(owner, name, function)

    def undo() -> None:
        if getattr(owner, name) is function:
            setattr(owner, name, original)

    return undo
