"""The forms of one recording: its page, live view, text, HTML without scripts, image and file."""

from __future__ import annotations

import uuid
import weakref
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from torchprof_magic.exporters.chrome import write_chrome
from torchprof_magic.facts.counted_steps import with_chosen_steps
from torchprof_magic.facts.source.fused_titles import with_fused_titles
from torchprof_magic.findings.watched import run_words, slow_lines
from torchprof_magic.findings.what_if import faster_words
from torchprof_magic.model.errors import StoreError
from torchprof_magic.model.shapes import Series, Table, count_rows
from torchprof_magic.render.displayed import Forms, KeptView
from torchprof_magic.render.exports import EXPORTS, TRACE_EXPORTS, Export
from torchprof_magic.render.page import ComparedPage, Page, build_page
from torchprof_magic.render.pictures import steps_picture
from torchprof_magic.render.standalone_html import write_html
from torchprof_magic.render.static_html import static_html
from torchprof_magic.render.text import machine_of, steps_sentence, text_summary
from torchprof_magic.report.analysis import HOLDERS, Analysis
from torchprof_magic.report.changes import Changes
from torchprof_magic.report.json_summary import trace_summary
from torchprof_magic.report.markdown_summary import trace_markdown
from torchprof_magic.report.trying import measured_advice
from torchprof_magic.report.views import TABS
from torchprof_magic.runs.known import open_run
from torchprof_magic.runs.other_runs import other_runs
from torchprof_magic.system.files.temporary import written_bytes
from torchprof_magic.tables.execution_trace import has_graph
from torchprof_magic.tables.memory.starting_level import starting_note

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from torchprof_magic.model.shapes import Shape
    from torchprof_magic.model.trace import Trace
    from torchprof_magic.render.widget import Comparing, Shown


def new_id() -> str:
    """Return an id for what is shown of a run."""
    return uuid.uuid4().hex[:12]


@dataclass(frozen=True)
class TraceForms(Forms):
    """The forms of an analysed recording. They hold no report, whose memory is free as soon as the user drops it.

    Attributes:
        analysis: The recording, and what is known of it.
        run_id: The id of the static copy and of the live view that hides it.
        origin_id: The id under which this process knows the recording, if that is another.
        change_line: How the steps changed since an earlier run, for the header.
        changes: What the tab Compare shows, if there is one.
        opens_changes: Whether the page is opened at that tab.
        by_rules: The forms in which the rules choose the steps that count, if the user chose others.
    """

    analysis: Analysis
    run_id: str = field(default_factory=new_id)
    origin_id: str = ""
    change_line: str = ""
    changes: Changes | None = None
    opens_changes: bool = False
    by_rules: TraceForms | None = None

    @property
    def trace(self) -> Trace:
        """The recording as far as it can be believed."""
        return self.analysis.trace

    @property
    def recorded(self) -> Trace:
        """The recording as it is in the file."""
        return self.analysis.recorded

    @property
    def known_id(self) -> str:
        """The id under which this process knows the recording."""
        return self.origin_id or self.run_id

    def with_changes(self, changes: Changes, *, is_first: bool = False) -> TraceForms:
        """Return the forms of the same recording with the tab Compare, which is opened first if ``is_first``."""
        return replace(
            self,
            run_id=new_id(),
            origin_id=self.known_id,
            change_line=changes.line,
            changes=changes,
            opens_changes=is_first,
        )

    def counting(self, rows: Sequence[int]) -> TraceForms:
        """Return the forms of the same recording in which these steps count, by their rows."""
        forms = self.by_rules or self
        chosen = with_chosen_steps(forms.trace, rows).meta.chosen_steps
        if not chosen:
            return forms
        recorded = replace(forms.recorded, meta=replace(forms.recorded.meta, chosen_steps=chosen))
        is_corrected = forms.trace is not forms.recorded
        analysis = Analysis(recorded, forms.analysis.find_holders, is_corrected=is_corrected)
        changes = forms.changes.with_trace(forms.trace, analysis.trace) if forms.changes is not None else None
        return replace(forms, analysis=analysis, change_line="", changes=changes, opens_changes=False, by_rules=forms)

    def text(self) -> str:
        """Return the verdict, what to change, the steps, the top ops, peaks and problems."""
        steps, ops, memory = (self.analysis[name] for name in ("steps", "ops", "memory"))
        assert isinstance(steps, Table)
        assert isinstance(ops, Table)
        assert isinstance(memory, Series)
        found, trace = self.analysis, self.trace
        note = partial(starting_note, trace)
        machine = machine_of(trace)
        watched = [line for line in (run_words(trace), *slow_lines(trace)) if line]
        return text_summary(
            trace.meta,
            found.verdict,
            with_fused_titles(trace, ops),
            steps,
            memory,
            found.problems,
            machine,
            found.cards,
            note,
            watched,
        )

    def markdown(self, max_tokens: int) -> str:
        """Return the same as Markdown, with the lines of the program and how to ask for more."""
        return trace_markdown(self.analysis, max_tokens)

    def json(self) -> str:
        """Return the verdict, the advice, the overview, the top ops and the problems."""
        return trace_summary(self.analysis)

    def html(self) -> str:
        """Return the static copy."""
        return static_html(self.trace, self.analysis, self.analysis.verdict, self.run_id)

    def png(self) -> bytes | None:
        """Return the steps under the verdict as an image; None without steps."""
        steps = self.analysis["steps"]
        assert isinstance(steps, Table)
        if steps.frame.height == 0:
            return None
        title = f"{self.analysis.verdict.title}: {steps_sentence(self.trace.meta, self.trace.steps)}"
        return steps_picture(steps, title)

    @cached_property
    def page(self) -> Page:
        """The data of the live view: header, embedded columns, and columns to pull."""
        held = self.analysis.held
        live = {HOLDERS: held.look} if self.analysis.find_holders is not None else {}
        return self._page(live=live, can_ask=not has_graph(self.trace))

    def early_page(self) -> Page:
        """Return a page that asks its kernel for nothing, which runs the cell that is being recorded."""
        return self._page(live={}, is_standalone=True, exports=())

    def shown(self, kept: KeptView) -> Shown:
        """Return the data of the live view, which offers to compare with the other runs that are known."""
        from torchprof_magic.render.widget import Comparing  # noqa: PLC0415 - to show a result, not to compute one

        compare = partial(_compared_in_page, self, weakref.ref(kept))
        comparing = Comparing(partial(_runs_beside, self.known_id), compare)
        counting = partial(_counting_in_page, self, weakref.ref(kept))
        return self._shown(self.page, comparing, counting, partial(_trying_in_page, self, weakref.ref(kept)))

    def shown_below(self, parent: str) -> Shown:
        """Return the data of a live view that leads back to the page called ``parent``; for reports of many ranks."""
        found = self.analysis
        return self._shown(build_page(self.trace, TABS, found, found.verdict, self.run_id, parent=parent))

    def write_html(self, target: Path, *, has_trace: bool = False) -> Path:
        """Write one interactive HTML file, which with ``has_trace`` holds the trace and offers to open Perfetto."""
        held = self.analysis[HOLDERS]
        page = self._page(
            is_standalone=True,
            exports=TRACE_EXPORTS if has_trace else (),
            live={HOLDERS: lambda: held} if count_rows(held) else {},
        )
        packed = written_bytes(partial(write_chrome, self.recorded), "trace.json.gz") if has_trace else b""
        static = static_html(self.trace, self.analysis, self.analysis.verdict, self.run_id, in_notebook=False)
        return write_html(page, target, title=self.trace.meta.title, static=static, packed_trace=packed)

    def _page(
        self,
        *,
        live: Mapping[str, Callable[[], Shape]],
        is_standalone: bool = False,
        exports: tuple[Export, ...] = EXPORTS,
        can_ask: bool = False,
    ) -> Page:
        return build_page(
            self.trace,
            TABS,
            self.analysis,
            self.analysis.verdict,
            self.run_id,
            is_standalone=is_standalone,
            exports=exports,
            live=live,
            can_compare=can_ask,
            can_choose_steps=can_ask and self.trace.steps.height > 1,
            can_try=can_ask,
            change_line=self.change_line,
            compared=self._compared,
        )

    @cached_property
    def _compared(self) -> ComparedPage | None:
        """What the page says of the run that this one is compared with, if any."""
        if self.changes is None:
            return None
        return self.changes.page(shown=self.trace, is_first=self.opens_changes)

    def _shown(
        self,
        page: Page,
        comparing: Comparing | None = None,
        counting: Callable[[Sequence[int]], Shown] | None = None,
        trying: Callable[[int], Shown] | None = None,
    ) -> Shown:
        from torchprof_magic.render.widget import Shown  # noqa: PLC0415 - as above

        frame_bytes = self.trace.events.estimated_size() + self.trace.memory.estimated_size()
        chrome = partial(write_chrome, self.recorded)
        writers: dict[str, Callable[[Path], Path]] = {"html": self.write_html, "chrome": chrome, "perfetto": chrome}
        title = self.trace.meta.title
        size = int(frame_bytes)
        return Shown(
            page,
            title=title,
            frame_bytes=size,
            writers=writers,
            comparing=comparing,
            counting=counting,
            trying=trying,
            asking=partial(_faster_in_page, self.trace),
        )


def _compared_in_page(forms: TraceForms, kept: weakref.ref[KeptView], key: str, is_swapped: bool) -> Shown:
    """Return what the page shows with the run ``key``, or the run that it has for no key; see ``Comparing``."""
    changes, trace = forms.changes, forms.trace
    known = changes.other_than(trace) if changes is not None else None
    other = open_run(key) if key else known
    if other is None:
        raise StoreError("This report is not compared with a run yet.")
    if not (other.events.height and trace.events.height):
        raise StoreError("One of the two runs has no events, so there is nothing to compare.")
    found = Changes(trace, other) if is_swapped else Changes(other, trace)
    keeper = kept() or KeptView()
    # The header must not say how this run changed since another one, or the other way around.
    keeper.shown = replace(forms, changes=found, change_line=found.line, opens_changes=True).shown(keeper)
    return keeper.shown


def _counting_in_page(forms: TraceForms, kept: weakref.ref[KeptView], rows: Sequence[int]) -> Shown:
    """Return what the page shows when these steps count."""
    if not rows or not all(0 <= row < forms.trace.steps.height for row in rows):
        raise StoreError("At least one of the recorded steps must count.")
    keeper = kept() or KeptView()
    keeper.shown = forms.counting(sorted(set(rows))).shown(keeper)
    return keeper.shown


def _trying_in_page(forms: TraceForms, kept: weakref.ref[KeptView], number: int) -> Shown:
    """Return what the page shows when the advice of a card has been measured."""
    try:
        measured_advice(forms.analysis, number)
    except (IndexError, ValueError) as exc:
        raise StoreError(f"It cannot be tried here: {exc}.") from exc
    keeper = kept() or KeptView()
    keeper.shown = replace(forms).shown(keeper)  # its page is made again
    return keeper.shown


def _faster_in_page(trace: Trace, name: str | tuple[int, int]) -> str:
    """Return what a step would take if what has this name, or lies in this range, were twice as fast, in words."""
    return faster_words(trace, name)


def _runs_beside(run_id: str) -> list[dict[str, str]]:
    return [run._asdict() for run in other_runs(run_id)]
