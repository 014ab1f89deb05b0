"""Keeping what is registered for a recording out of code that torch.compile makes during it.

The compiler guards its code with the hooks that it finds. Code that was made with those of one recording would be made
again in the next, where they are other ones, and after it, where there are none.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

from torchprof_magic.capture.torch_api import features
from torchprof_magic.capture.torch_api.patching import seen_by_compiler

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

# Where torch keeps the hooks of all modules.
MODULE_HOOKS = (
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_forward_hooks_always_called",
    "_global_forward_hooks_with_kwargs",
)


def hide_from_compiler(own: Collection[int]) -> Callable[[], None]:
    """Take hooks of all modules, by the ids of their handles, out of torch's tables while anything is being compiled.

    Code is not guarded against module hooks that come later, except by two versions of torch: there it would be
    compiled again in every call, and sees the hooks. So does a version that does not tell when it compiles. Returns a
    function that ends this.
    """
    if features.guards_module_hooks():
        return lambda: None
    hidden = _Hidden(own)
    try:
        from torch._dynamo.callback import callback_handler  # noqa: PLC0415 - takes seconds where it is not loaded yet

        handler: Any = callback_handler
        handler.register_start_callback(hidden.take_out)
        handler.register_end_callback(hidden.put_back)
    except Exception:  # noqa: BLE001 - this torch has no such module, or another one
        return lambda: None

    def undo() -> None:
        hidden.is_over = True
        for remove, callback in (
            (handler.remove_start_callback, hidden.take_out),
            (handler.remove_end_callback, hidden.put_back),
        ):
            with suppress(ValueError):  # torch._dynamo.reset() has removed it
                remove(callback)

    return undo


class _Hidden:
    """Hooks that are taken out of torch's tables and put back, in their old order."""

    def __init__(self, own: Collection[int]) -> None:
        self.is_over = False
        self._own = own
        self._taken: list[tuple[Any, int, object, tuple[int, ...]]] = []

    def take_out(self, *_: object) -> None:
        """Take them out: something is being compiled."""
        for table in _tables():
            for key in [key for key in table if key in self._own]:
                behind = tuple(table)[tuple(table).index(key) + 1 :]
                self._taken.append((table, key, table.pop(key), behind))

    def put_back(self, *_: object) -> None:
        """Put them back: it is compiled."""
        taken, self._taken = self._taken, []
        for table, key, hook, behind in () if self.is_over else reversed(taken):
            table[key] = hook
            for other in behind:
                if other in table:
                    table.move_to_end(other)


def _tables() -> list[Any]:
    """Return torch's tables of hooks, which are ordered dictionaries by the ids of handles."""
    found = [getattr(torch_module, name, None) for name in MODULE_HOOKS]
    return [table for table in found if table]


def watch_optimizers(before: Callable[..., None], after: Callable[..., None]) -> Callable[[], None]:
    """Call functions before and after every step of every optimizer that is not compiled.

    Returns a function that ends this. Code is guarded against hooks of optimizers that come later, so that a compiled
    step is compiled once more, but not for each recording: the hooks are always the same two.
    """
    _before.append(before)
    _after.append(after)
    if len(_before) == 1:
        _register(torch_optimizer.register_optimizer_step_pre_hook, _tell_before)
        _register(torch_optimizer.register_optimizer_step_post_hook, _tell_after)

    def undo() -> None:
        _before.remove(before)
        _after.remove(after)
        if not _before:
            for table, number in _registered.values():
                table.pop(number, None)

    return undo


_before: list[Callable[..., None]] = []
_after: list[Callable[..., None]] = []
# By its hook: torch's table of hooks, and the number in it, which is that of the first time.
_registered: dict[object, tuple[Any, int]] = {}


@seen_by_compiler
def _tell_before(*arguments: object) -> None:
    if not torch.compiler.is_compiling():
        for listener in tuple(_before):
            listener(*arguments)


@seen_by_compiler
def _tell_after(*arguments: object) -> None:
    if not torch.compiler.is_compiling():
        for listener in tuple(_after):
            listener(*arguments)


def _register(register: Callable[..., Any], hook: Callable[..., None]) -> None:
    handle = register(hook)
    table = handle.hooks_dict_ref()
    _, number = _registered.setdefault(hook, (table, handle.id))
    table[number] = table.pop(handle.id)
