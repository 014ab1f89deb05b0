"""One piece of advice: what to change, where, why, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from torchprof_magic.model.meta import shortened
from torchprof_magic.model.units import printable, saving_words

if TYPE_CHECKING:
    from torchprof_magic.findings.ranks.job import Job
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

Certainty = Literal["measured", "measured here", "estimated", "guess"]
CERTAINTIES: tuple[Certainty, ...] = get_args(Certainty)
# What each word means; the page, the text and the documentation say it so.
CERTAINTY_TEXT: dict[Certainty, str] = {
    "measured": "The saving is a wait or a time that was recorded, as reports say. It is at most that much.",
    "measured here": "`report.try_advice` has measured both ways on this machine, on the recorded shapes. It may save "
    "nothing; the card stays and says so.",
    "estimated": "The saving follows from recorded numbers by a model, whose arithmetic the evidence shows.",
    "guess": "No number is known. The evidence says why it may help.",
}
MOST_CHARS = 600


class Spans(NamedTuple):
    """Intervals of time in the recording, in ns. They may overlap, and need no order."""

    start_ns: IntArray
    end_ns: IntArray


# Whose time a change takes away.
Where = Literal["threads", "devices", "nowhere"]
THREADS: Where = "threads"
DEVICES: Where = "devices"
NOWHERE: Where = "nowhere"


class Effect(NamedTuple):
    """What a change does to the graph of the steps. What that saves, the graph says.

    Attributes:
        where: Whose time in the spans of the advice is gone: that of ``threads``, of ``devices``, or ``nowhere`` any.
        rows: Rows of ``trace.events`` that wait for nothing any more, with all inside of them; with ``workers`` the
            fetches.
        workers: How many processes load what these fetches loaded, 0 for no change.
        left: Which share of the time in the spans is left, as of an op by one that does the same sooner.
        most_ns: What the words of the advice say that a step is shorter by at most, in ns.
    """

    where: Where = "threads"
    rows: IntArray = np.empty(0, np.int64)
    workers: int = 0
    left: float = 0.0
    most_ns: float = float("inf")


class Edit(NamedTuple):
    """A keyword that a call is to have, so that the line can be shown as it should be.

    Attributes:
        calls: What may be called, by the last part of its name: ``AdamW``.
        keyword: Name of the parameter.
        value: Its value, as Python code.
        position: Place of the parameter among the arguments without a name, from 0; None if it has to be named.
        is_here: Only calls on the line of the advice are meant, and all of them.
        is_move: Calls of ``to`` or ``cuda`` are meant that move a tensor to a device.
        only_given: Only a value that is there is changed.
    """

    calls: tuple[str, ...]
    keyword: str
    value: str
    position: int | None = None
    is_here: bool = False
    is_move: bool = False
    only_given: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A change of the program that would make its steps shorter, or lower its memory.

    Code in the texts stands between backticks.

    Attributes:
        rule: Name of the rule that found it.
        title: What to do, in a few words.
        fix: The change as code, or in a short sentence.
        evidence: What was recorded that speaks for it, with the arithmetic of an estimate.
        file: File of the line to change, empty if it is not known.
        line: Number of that line, or of the definition of its function where only that was recorded; None if unknown.
        module: Path of the nn.Module that it is about, empty for none.
        op: Name of the op or call that it is about, empty for none.
        saving_ns: Time that a step would be shorter, in ns, after the advice that stands before it; None if no number
            is known. In all without steps. A rule of your own can give the most that it can be.
        alone_ns: What it would save without any other advice, in ns; None if no number is known, and in a rule.
        saving_bytes: Bytes that would be saved at the peak, or a step for memory that grows; None if that is not known.
        certainty: measured, measured here, estimated, or guess. ``CERTAINTY_TEXT`` says what each means.
        link: Address of a page of the documentation of PyTorch, empty for none.
        spans: When the time that could be saved was spent. What overlaps with advice that saves more counts only there.
        effect: What is different, by which the graph of the steps says what is saved; None if no number is known, or if
            the time in the spans is gone as far as ``saving_ns`` says.
        edits: The keywords that are the change, if it is nothing else.
    """

    rule: str
    title: str
    fix: str = ""
    evidence: str = ""
    file: str = ""
    line: int | None = None
    module: str = ""
    op: str = ""
    saving_ns: int | None = None
    alone_ns: int | None = field(default=None, compare=False)
    saving_bytes: int | None = None
    certainty: Certainty = "guess"
    link: str = ""
    spans: Spans | None = field(default=None, repr=False, compare=False)
    effect: Effect | None = field(default=None, repr=False, compare=False)
    edits: tuple[Edit, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        """Escape control characters, and bound the length of texts that quote files."""
        for name in ("rule", "title", "fix", "evidence", "module", "op", "link"):
            object.__setattr__(self, name, shortened(printable(getattr(self, name)), MOST_CHARS))
        if self.certainty not in CERTAINTIES:
            raise ValueError(f"certainty must be one of {', '.join(CERTAINTIES)} (got {self.certainty!r})")

    @property
    def has_number(self) -> bool:
        """Whether it is known what it saves, or by the graph of the steps can be."""
        return self.saving_ns is not None or self.effect is not None

    def __str__(self) -> str:
        where = f" (line {self.line})" if self.line else ""
        change = f"{self.title}: {self.fix}" if self.fix else self.title
        saving = saving_words(self.saving_ns, self.saving_bytes, self.certainty)
        sure = ", ".join(filter(None, (saving and f"saves {saving}", self.certainty)))
        return f"{change}{where} [{sure}]".replace("`", "")


Found: TypeAlias = Advice | Iterable[Advice] | None
FindAdvice: TypeAlias = "Callable[[Trace], Found]"
FindInJob: TypeAlias = "Callable[[Job], Found]"


# What of advice is written as JSON.
ADVICE_FIELDS = tuple(each.name for each in fields(Advice) if each.name not in ("spans", "effect", "edits"))


class Rule(NamedTuple):
    """One entry of ``RULES``: its name, the function that finds it, when it speaks, and what must be recorded.

    ``find`` reads one recording, and ``find_in_job`` all ranks of a job; a rule has one of them.
    """

    name: str
    find: FindAdvice | None
    speaks: str
    needs: str = ""
    find_in_job: FindInJob | None = None
