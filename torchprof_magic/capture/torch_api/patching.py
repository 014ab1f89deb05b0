"""Replacing a function of torch or Python for the duration of a run, and working unseen by the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

Function = TypeVar("Function", bound="Callable[..., Any]")
# Begins as the names of Python's own frozen modules, so that its frames are not taken for the user's.
HOOK_FILE = "<frozen torchprof_magic hook>"
# The code of all hooks that torch.compile may look into.
HOOKS: list[CodeType] = []


# A context in which tensors are asked for something without telling the user's function modes and tensor classes.
unseen = torch._C.DisableTorchFunction  # noqa: SLF001 - in use since torch 2.0 under this name


def seen_by_compiler(function: Function) -> Function:
    """Let torch.compile look into a hook of ours, which returns at once there.

    The compiler skips all files of this package (``keep_out_of_graphs``). A hook that it skips breaks the graph of each
    model that is first compiled while the hook is registered. What calls it from outside of a graph calls it as it is.
    """
    function.__code__ = function.__code__.replace(co_filename=HOOK_FILE)
    HOOKS.append(function.__code__)
    return function


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
