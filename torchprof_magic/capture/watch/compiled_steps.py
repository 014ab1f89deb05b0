"""Detection of ``step()`` calls inside functions that torch.compile compiles.

Every such call is a graph break, which changes what is measured.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from torchprof_magic.capture.torch_api import compat

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from torchprof_magic.capture.problems import ProblemLog

_PACKAGE = f"{__package__.partition('.')[0]}."


class Callers:
    """The code that calls ``step()``; it is examined again only when it changes."""

    def __init__(self, problems: ProblemLog) -> None:
        self._problems = problems
        # Weakly: the code of a cell holds what steps its loop, which holds this, and Python collects no cycles of code.
        self._known: weakref.ref[CodeType] | None = None
        self._is_noted = False

    def look(self, frame: FrameType | None) -> None:
        """Note, once, if ``frame``, or the nearest frame around it outside this package, runs compiled code."""
        if self._is_noted:
            return
        known = None if self._known is None else self._known()
        while frame is not None and frame.f_code is not known:
            if not frame.f_globals.get("__name__", "").startswith(_PACKAGE):
                break
            frame = frame.f_back
        if frame is None or frame.f_code is known:
            return
        self._known = weakref.ref(frame.f_code)
        if compat.is_compiled(frame.f_code):
            self._is_noted = True
            self._problems.note("capture.compiled_step")
