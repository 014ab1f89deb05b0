"""Replacing a function of torch or Python for the duration of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def stand_in(owner: Any, name: str, function: Callable[..., Any]) -> Callable[[], None]:
    """Replace ``owner.name`` with ``function``; return a function that restores the original.

    If other code has replaced it again by then, that stays: it calls ours, which calls the original.
    """
    original = getattr(owner, name)
    setattr(owner, name, function)

    def undo() -> None:
        if getattr(owner, name) is function:
            setattr(owner, name, original)

    return undo
