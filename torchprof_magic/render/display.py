"""Shows a report in the front end of an IPython shell."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from IPython import get_ipython
from IPython.display import display

from torchprof_magic.model.errors import TorchProfError
from torchprof_magic.model.units import print_text
from torchprof_magic.render.front_end import packed

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from torchprof_magic.render.widget import ReportWidget


class Showable(Protocol):
    """A report that can be shown as text, as HTML without scripts, and as a live view."""

    @property
    def widget(self) -> object:
        """The live view. Raises ``TorchProfError`` when the front end is not built."""

    def take_place_in(self, widget: ReportWidget) -> None:
        """Show it in a live view that is there."""

    def summary(self) -> str:
        """Return the report as text."""

    def _repr_mimebundle_(self) -> dict[str, str]: ...


def show(report: Showable, shell: InteractiveShell, mode: str = "both", *, place: ReportWidget | None = None) -> None:
    """Show the live view with a static copy for saved notebooks; a terminal gets text.

    The live view hides the static copy, so that a reader sees one of the two. It is ``place``, if that shows the
    beginning of the report already.
    """
    if mode == "none":
        return
    if mode == "text" or not has_front_end(shell):
        print_text(report.summary())
        return
    if mode in ("both", "widget") and not (can_be_asked(shell) and _show_widget(report, place)):
        mode = "static"
    if mode in ("both", "static"):
        # In all forms: viewers take the richest one that they trust.
        display(report._repr_mimebundle_(), raw=True)  # type: ignore[no-untyped-call]


def show_here(report: Showable) -> None:
    """Show the report in the current shell; called when a report is the last line of a cell."""
    shell = get_ipython()
    if not has_front_end(shell):
        print()  # noqa: T201 - a terminal has printed ``Out[1]: `` in this line, which would shift the columns
    show(report, shell)


def import_what_shows(shell: InteractiveShell, mode: str) -> None:
    """Import what reads and shows a report before the cell runs, so that its end does not wait for that.

    What cannot be imported is missed, and said, when it is needed.
    """
    if mode in ("none", "text") or not has_front_end(shell):
        return
    # polars asks numpy for its masked arrays when it is first given an array.
    for module in ("numpy.ma", "PIL.PngImagePlugin", "PIL.ImageDraw", "torchprof_magic.render.widget"):
        with suppress(Exception):
            import_module(module)
    with suppress(Exception):
        import_module("PIL.Image").preinit()  # imports what it knows of other formats, before it writes the first image
        packed()


def has_front_end(shell: InteractiveShell) -> bool:
    """Return whether the shell is a kernel, so that a notebook may show its output."""
    return getattr(shell, "kernel", None) is not None


def can_be_asked(shell: InteractiveShell) -> bool:
    """Return whether a widget in the output can send messages to this process.

    The output of an ipyparallel engine is shown by another kernel's notebook, so its widgets cannot reach the engine.
    """
    return not type(shell.kernel).__module__.startswith("ipyparallel")  # type: ignore[attr-defined]


def _show_widget(report: Showable, place: ReportWidget | None) -> bool:
    if place is not None:
        report.take_place_in(place)
        return True
    try:
        display(report.widget)  # type: ignore[no-untyped-call]
    except TorchProfError as exc:
        print_text(f"The live view is not available: {exc}")
        return False
    return True
