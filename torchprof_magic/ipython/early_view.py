"""The report in the place of the progress bar, while the cell still runs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from torchprof_magic.render.page import Page

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from torchprof_magic.ipython.progress import ProgressBar
    from torchprof_magic.render.widget import ReportWidget
    from torchprof_magic.run.early.wire import Made


class EarlyView:
    """Shows early reports of a cell in the place of its progress bar. ``widget`` is the live view, if it is there."""

    def __init__(self, shell: InteractiveShell, bar: ProgressBar, title: str) -> None:
        self._publisher: Any = shell.display_pub  # of a kernel, it has hooks
        self._bar = bar
        self._title = title
        self._widget: ReportWidget | None = None
        self._shown: Any = None
        self._is_cleared = False

    def watch(self) -> None:
        """Notice when the cell clears its output, which takes the report away."""
        self._publisher.register_hook(self._see)

    def unwatch(self) -> None:
        """Notice nothing more."""
        with suppress(ValueError):
            self._publisher.unregister_hook(self._see)

    def show(self, made: Made) -> None:
        """Show an early report, or what has been recorded since in its place; called on another thread."""
        from torchprof_magic.render.widget import ReportWidget, Shown  # noqa: PLC0415 - imported before the cell

        if not made.header or self._is_cleared:
            return
        page = Page(header=made.header, data=made.data, pulled={}, answers={})
        # The live view does not keep what it shows.
        self._shown = Shown(page, title=self._title, frame_bytes=len(made.data), writers={})
        if self._widget is not None:
            self._widget.show_instead(self._shown)
            return
        widget = ReportWidget(self._shown)
        if self._bar.give_place_to(widget):
            self._widget = widget
        else:
            widget.close()

    @property
    def widget(self) -> ReportWidget | None:
        """The live view that the cell shows; ``None`` if there is none any more."""
        return None if self._is_cleared or self._widget is None or self._widget.is_closed else self._widget

    def _see(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["header"]["msg_type"] == "clear_output":
            self._is_cleared = True
            self._bar.lose_place()
        return message


def can_show_early(shell: InteractiveShell, mode: str) -> bool:
    """Return whether the output of the running cell can show a live view."""
    return mode in ("both", "widget") and hasattr(shell.display_pub, "register_hook")
