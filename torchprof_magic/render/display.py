"""Shows a report in whatever front end a shell has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from IPython import get_ipython
from IPython.display import display

from torchprof_magic.errors import TorchProfError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class Showable(Protocol):
    """A report, as text, as HTML without scripts, and as a live view."""

    @property
    def widget(self) -> object:
        """The live view. Raises ``TorchProfError`` when the front end is not built."""

    def summary(self) -> str:
        """Return the text."""

    def _repr_html_(self) -> str: ...


def show(report: Showable, shell: InteractiveShell, mode: str = "both") -> None:
    """Show the live view with a static copy for saved notebooks; a terminal gets text.

    The live view hides the static copy, so that a reader sees one of the two.
    """
    if mode == "none":
        return
    if mode == "text" or not has_front_end(shell):
        print(report.summary())  # noqa: T201 - this is the output
        return
    if mode in ("both", "widget") and not (can_be_asked(shell) and _show_widget(report)):
        mode = "static"
    if mode in ("both", "static"):
        display({"text/html": report._repr_html_(), "text/plain": report.summary()}, raw=True)  # type: ignore[no-untyped-call]


def show_here(report: Showable) -> None:
    """Show it in the shell that runs this: what a report does that is the last line of a cell."""
    shell = get_ipython()
    if not has_front_end(shell):
        print()  # noqa: T201 - a terminal has written ``Out[1]: ``, and what follows has columns
    show(report, shell)


def has_front_end(shell: InteractiveShell) -> bool:
    """Return whether a notebook may be at the other end: only kernels have one."""
    return getattr(shell, "kernel", None) is not None


def can_be_asked(shell: InteractiveShell) -> bool:
    """Return whether a widget in the output could ask this process for more.

    An engine of a cluster sends its output to another kernel's notebook, and hears nothing back.
    """
    return not type(shell.kernel).__module__.startswith("ipyparallel")  # type: ignore[attr-defined]


def _show_widget(report: Showable) -> bool:
    try:
        display(report.widget)  # type: ignore[no-untyped-call]
    except TorchProfError as exc:
        print(f"The live view is not available: {exc}")  # noqa: T201 - the user should know
        return False
    return True
