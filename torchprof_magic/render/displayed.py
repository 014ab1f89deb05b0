"""What shows a result: a live view, text, HTML without scripts, an image, and a file; the same way for all results."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from torchprof_magic.render.markdown import MOST_TOKENS
from torchprof_magic.system.files.atomic import target_of, with_memory_for

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection
    from pathlib import Path

    from torchprof_magic.render.widget import ReportWidget, Shown


SummaryFormat = Literal["text", "markdown", "json"]


class KeptView:
    """What the live view of a result shows, for as long as the result is there."""

    shown: Shown | None = None


class Forms(ABC):
    """The forms in which one result is shown; each is made when it is asked for."""

    @abstractmethod
    def text(self) -> str:
        """Return it as one screen of text."""

    @abstractmethod
    def markdown(self, max_tokens: int) -> str:
        """Return it as Markdown of at most about so many tokens. Raises ``ValueError`` if that is too few."""

    @abstractmethod
    def json(self) -> str:
        """Return its facts as JSON."""

    @abstractmethod
    def html(self) -> str:
        """Return it as HTML without scripts, in which every name is escaped."""

    def png(self) -> bytes | None:
        """Return it as an image; None where there is nothing to paint."""
        return None

    @abstractmethod
    def shown(self, kept: KeptView) -> Shown:
        """Return the data of the live view. What takes its place on request is put into ``kept``."""

    def open_rank(self) -> Callable[[int], Shown] | None:
        """Return what opens one rank in the live view, or all ranks again; None where there are none."""
        return None

    @abstractmethod
    def write_html(self, target: Path) -> Path:
        """Write it as one interactive HTML file, which opens without a network."""


AnyForms = TypeVar("AnyForms", bound=Forms)


class Displayed(Generic[AnyForms]):
    """A result that notebooks, terminals and files can show, by its ``_forms``."""

    _forms: AnyForms

    def __init__(self) -> None:
        self._kept = KeptView()
        self._widget: ReportWidget | None = None

    @property
    def widget(self) -> ReportWidget:
        """The live view, an anywidget; the same object until it is closed."""
        # anywidget is needed to show a result, not to compute one.
        from torchprof_magic.render.widget import ReportWidget  # noqa: PLC0415

        if self._widget is None or self._widget.is_closed:
            self._kept.shown = self._forms.shown(self._kept)
            self._widget = ReportWidget(self._kept.shown, self._forms.open_rank())
        return self._widget

    def take_place_in(self, widget: ReportWidget) -> None:
        """Show it in a live view that showed the beginning of it before."""
        self._kept.shown = self._forms.shown(self._kept)
        widget.show_instead(self._kept.shown, self._forms.open_rank())
        self._widget = widget

    def summary(self, format: SummaryFormat = "text", *, max_tokens: int = MOST_TOKENS) -> str:  # noqa: A002 - as users expect
        """Return it as one screen of text, as Markdown for colleagues and programs that write code, or as JSON.

        The Markdown has at most about ``max_tokens`` tokens, counted as 2.5 bytes each, and says what was left out.
        Raises ``ValueError`` for another format, and for fewer than 200 tokens.
        """
        if format == "markdown":
            return self._forms.markdown(max_tokens)
        if format == "json":
            return self._forms.json()
        if format != "text":
            raise ValueError(f"summary format must be 'text', 'markdown' or 'json' (got {format!r})")
        return self._forms.text()

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one interactive HTML file, which opens without a network, and return its path.

        Raises ``ExportError`` when it cannot be written; an existing file is then unchanged.
        """
        with with_memory_for(target := target_of(path)):
            return self._forms.write_html(target)

    def _repr_html_(self) -> str:
        return self._forms.html()

    def _repr_png_(self) -> bytes | None:
        return self._forms.png()

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        """Return the static copy as text, HTML and an image, for front ends without widgets.

        Only the types in ``include`` that are not in ``exclude`` are made.
        """
        forms = {"text/plain": self._forms.text, "text/html": self._forms.html, "image/png": self._png_text}
        wanted = [kind for kind in forms if (include is None or kind in include) and kind not in (exclude or ())]
        made = {kind: forms[kind]() for kind in wanted}
        return {kind: text for kind, text in made.items() if text}

    def _png_text(self) -> str:
        """Return the image in Base64, as messages of Jupyter hold it; empty where there is none."""
        return base64.b64encode(self._forms.png() or b"").decode("ascii")

    def _ipython_display_(self) -> None:
        """Show it as the last line of a cell, as the magic does; works without ``%load_ext``."""
        from torchprof_magic.render.display import show_here  # noqa: PLC0415 - IPython calls this, so it is installed

        show_here(self)

    def _display_(self) -> object:
        """Return what marimo shows when it is the last line of a cell."""
        return self.widget
