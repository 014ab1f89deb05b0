"""Which call of a model begins a step, where no loop of the cell makes steps and no optimizer does."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

# Programs that call models in more places than this are left alone.
_MOST_PLACES = 1000
# What lies between the code that calls a module and its hooks.
_OF_CALL = ("torch.nn.modules.module", "torch._dynamo.eval_frame")
_OURS = __name__.partition(".")[0]


class ModelCalls:
    """Tells ``begin_step`` of each call of a model but its first, on the thread on which ``is_here`` is true.

    The model is the first one that is called again from the same place, outside of all other modules: the decoder of a
    model that generates text, while its encoder runs once; with ``in_any_place`` the first one that is called again.
    With ``is_sure`` the program is known to train nothing; otherwise only calls that need no gradients count, and only
    if ``may_train``, which is asked once, says no. No module is kept alive.
    """

    def __init__(
        self,
        *,
        is_here: Callable[[], bool],
        begin_step: Callable[[str], None],
        may_train: Callable[[], bool],
        is_sure: bool,
        in_any_place: bool = False,
    ) -> None:
        self._is_here = is_here
        self.begin_step = begin_step
        self._may_train = may_train
        self._is_sure = is_sure
        self._in_any_place = in_any_place
        self._outermost = 0
        self._again = 0  # how often the outermost module has called itself
        self._seen: dict[tuple[int, CodeType | None, int], weakref.ref[torch.nn.Module]] = {}
        self._model: weakref.ref[torch.nn.Module] | None = None
        self._is_over = False

    def begin(self, module: torch.nn.Module) -> str:
        """Note that a call begins, and return the name of its class if a step begins with it; else nothing."""
        if self._is_over:
            return ""
        if self._outermost:
            if self._outermost == id(module) and self._is_here():
                self._again += 1
        elif self._is_here():
            self._outermost, self._again = id(module), 0
            if self._is_step(module):
                return type(module).__name__
        return ""

    def end(self, module: torch.nn.Module) -> None:
        """Note that a call has ended, also by an exception."""
        if self._outermost != id(module) or not self._is_here():
            return
        if self._again:
            self._again -= 1
        else:
            self._outermost = 0

    def _is_step(self, module: torch.nn.Module) -> bool:
        if self._model is not None:
            return self._model() is module
        if not (self._is_sure or not torch.is_grad_enabled()):
            return False
        caller = None if self._in_any_place else _caller()
        place = (id(module), caller.f_code if caller else None, caller.f_lasti if caller else 0)
        seen = self._seen.get(place)
        if seen is None or seen() is not module:
            if len(self._seen) < _MOST_PLACES:
                self._seen[place] = weakref.ref(module)
            return False
        if not self._is_sure and self._may_train():
            self._is_over = True
            return False
        self._model = weakref.ref(module)
        self._seen.clear()
        return True


def _caller() -> FrameType | None:
    """Return the code that calls the module whose hook is running."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if name not in _OF_CALL and name.partition(".")[0] != _OURS:
            break
        frame = frame.f_back
    return frame
