"""What is known of one recording: a shape for each view, the verdict, and what to change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from torchprof_magic.facts.counted_steps import counted_part
from torchprof_magic.facts.device.believable import believable
from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.findings.advice import Advice, Findings, Settings, cards_of, find_advice
from torchprof_magic.findings.advice.leak_holders import RULE as LEAK_RULE
from torchprof_magic.findings.advice.leak_holders import with_holders
from torchprof_magic.findings.verdict.decision import Verdict, find_verdict
from torchprof_magic.findings.verdict.diagnosis import all_problems
from torchprof_magic.model.shapes import Card, Facts, Problems, Shape
from torchprof_magic.report import peaks, rules
from torchprof_magic.report.views import TABS
from torchprof_magic.tables.memory.holders import LeakHolders

if TYPE_CHECKING:
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.trace import Trace
    from torchprof_magic.tables.memory.holders import FindHolders

# The view that changes while the process that recorded is there.
HOLDERS = "holders"


class Analysis(Mapping[str, Shape]):
    """The shapes of all views of a trace by name, each computed when it is first asked for, and what is said of it.

    ``find_holders`` asks the objects of this process, if it is the one that recorded. ``recorded`` is the recording as
    it is in the file. ``trace`` is what is analysed: as far as it can be believed, or the same unless ``is_corrected``.
    """

    def __init__(self, trace: Trace, find_holders: FindHolders | None = None, *, is_corrected: bool = True) -> None:
        peaks.read_kept()
        self.recorded = trace
        self.trace = believable(trace) if is_corrected else trace
        self.find_holders = find_holders
        self.held = LeakHolders(self.trace, find_holders)
        self._shapes: dict[str, Shape] = {}
        self._tried: dict[Advice, Advice] = {}
        self._found: tuple[Settings, Findings] | None = None

    def __getitem__(self, name: str) -> Shape:
        if name == HOLDERS and (held := self.held.known()) is not None:
            return held
        if name not in self._shapes:
            view = {view.name: view for view in TABS}[name]
            part = counted_part(self.trace) if view.is_per_step else WHOLE
            self._shapes[name] = self._complete(view.shape(self.trace, part))
        return self._shapes[name]

    def __iter__(self) -> Iterator[str]:
        return (view.name for view in TABS)

    def __len__(self) -> int:
        return len(TABS)

    @cached_property
    def verdict(self) -> Verdict:
        """What limits the speed of the program."""
        return find_verdict(self.trace)

    @property
    def findings(self) -> Findings:
        """The advice and the rules that failed; rules are asked again only when the settings have changed."""
        settings = rules.current()
        if self._found is None or self._found[0] is not settings:
            found = find_advice(self.trace, settings, self._tried)
            self._found = (settings, found._replace(advice=tuple(map(self.with_holders, found.advice))))
        return self._found[1]

    @property
    def problems(self) -> list[Problem]:
        """The problems of the recording, of its file, and of the rules for advice."""
        return [*all_problems(self.trace), *self.findings.problems]

    @property
    def cards(self) -> tuple[Card, ...]:
        """What to change, as the page and the text show it."""
        return cards_of(self.trace, self.findings.advice)

    def with_holders(self, advice: Advice) -> Advice:
        """Return the advice with what is known of who keeps memory that grows, for the rule that is about it."""
        held = self.held.known() if advice.rule == LEAK_RULE else None
        return advice if held is None else with_holders(advice, held.frame)

    def put_measured(self, said: Advice, measured: Advice) -> None:
        """Put what was measured in the place of what was said."""
        self._tried[said] = measured
        self._found = None
        self._shapes.pop("overview", None)

    def _complete(self, shape: Shape) -> Shape:
        """Return the overview with what to change, and the notes with the rules that failed."""
        match shape:
            case Facts():
                return replace(shape, cards=self.cards)
            case Problems():
                return replace(shape, problems=(*shape.problems, *self.findings.problems))
            case _:
                return shape
