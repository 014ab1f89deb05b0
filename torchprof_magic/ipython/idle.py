"""What can wait until a cell is over, so that nobody waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell

# By then a kernel has sent that its cell is over.
DELAY_S = 0.25
_EVENT = "pre_run_cell"


class Idle:
    """Calls functions when the kernel has nothing else to do, and at the latest before its next cell runs.

    Without a kernel, whose event loop runs on between cells, it calls them at once.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._waiting: deque[Callable[[], object]] = deque()

    def watch(self) -> None:
        """Be told of the next cell."""
        self._shell.events.register(_EVENT, self.catch_up)

    def unwatch(self) -> None:
        """Call what waits, and be told of no more cells."""
        self._shell.events.unregister(_EVENT, self.catch_up)
        self.catch_up()

    def later(self, work: Callable[[], object]) -> None:
        """Call ``work``, which must not raise, when nobody waits for it."""
        self._waiting.append(work)
        try:
            if getattr(self._shell, "kernel", None) is not None:  # others run a loop for one cell at a time
                asyncio.get_running_loop().call_later(DELAY_S, self.catch_up)
                return
        except RuntimeError:
            pass
        self.catch_up()

    def catch_up(self, *_: object) -> None:
        """Call what waits."""
        while self._waiting:
            self._waiting.popleft()()
