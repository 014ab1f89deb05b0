"""Runs every rule, counts the savings of one cause once, and sorts what is left."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.findings.advice.kinds import Advice, Spans
from torchprof_magic.findings.advice.rules import RULES
from torchprof_magic.findings.advice.savings import Share, in_order, saving_of
from torchprof_magic.findings.advice.times import joined, overlap, step_ns, unexplained_ratio, without
from torchprof_magic.findings.verdict.words import with_fused_words
from torchprof_magic.model.problems import problem
from torchprof_magic.model.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from torchprof_magic.findings.advice.kinds import FindAdvice, Found
    from torchprof_magic.findings.ranks.job import Job
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.trace import Trace

Subject = TypeVar("Subject")
# Of a step. What would save less is not worth a change of the program.
LEAST_SHARE = 0.01
# No run of a program shows a difference of less, in ns a step.
LEAST_SAVING_NS = 10_000
# If less of a saving is its own, its cause is that of another one on its line.
MOSTLY = 0.5
# From here on, what recorded steps show is not what steps without the profiler can save.
LOUD_RATIO = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Which rules speak, and from which share of a step on.

    Attributes:
        mute: Names of rules that are not asked.
        threshold: Least share of a step that advice must save, between 0 and 1.
        thresholds: The same for single rules, by name.
        own: Rules of the user's, which are asked after those of ``RULES``.
    """

    mute: frozenset[str] = frozenset()
    threshold: float = LEAST_SHARE
    thresholds: Mapping[str, float] = field(default_factory=dict)
    own: tuple[FindAdvice, ...] = ()

    def least_share(self, rule: str) -> float:
        """Return the least share of a step for one rule."""
        return self.thresholds.get(rule, self.threshold)


class Findings(NamedTuple):
    """The advice by saving, the largest first, and the rules that failed."""

    advice: tuple[Advice, ...]
    problems: tuple[Problem, ...]


NO_SETTINGS = Settings()


def find_advice(
    trace: Trace, settings: Settings = NO_SETTINGS, tried: Mapping[Advice, Advice] | None = None
) -> Findings:
    """Return what to change. Savings of one cause count once, for the advice that saves most.

    ``tried`` has what was measured for some of it, which takes its place, even where that is nothing: whoever asked for
    the measurement is told its result.
    """
    parts = [part for name, part in _built_in(trace) if name not in settings.mute]
    parts += [_asked(trace, name_of(rule), rule) for rule in settings.own if name_of(rule) not in settings.mute]
    found = [advice for part in parts for advice in part.advice if advice.rule not in settings.mute]
    kept = [_without_profiler(trace, each) for each in _with_savings(trace, found, settings)]
    known = tried or {}
    kept = [known.get(each, each) for each in (_with_fused_words(trace, each) for each in kept)]
    return Findings(tuple(kept), tuple(each for part in parts for each in part.problems))


def _with_fused_words(trace: Trace, advice: Advice) -> Advice:
    """Return the advice with generated kernels called by what they fuse in its words; ``op`` stays the name."""
    said = advice.title, advice.fix, advice.evidence
    title, fix, evidence = (with_fused_words(trace, text) for text in said)
    return advice if (title, fix, evidence) == said else replace(advice, title=title, fix=fix, evidence=evidence)


def name_of(rule: Callable[..., object]) -> str:
    """Return what a rule of the user's is called in messages and mutes: its name as a function."""
    return getattr(rule, "__name__", "") or type(rule).__name__


@once_per_trace
def _built_in(trace: Trace) -> tuple[tuple[str, Findings], ...]:
    return tuple((rule.name, _asked(trace, rule.name, rule.find)) for rule in RULES if rule.find is not None)


def find_in_job(job: Job, settings: Settings = NO_SETTINGS) -> Findings:
    """Return what to change for all ranks of a job. Savings are those of a step of the job."""
    parts = [
        _asked(job, rule.name, rule.find_in_job)
        for rule in RULES
        if rule.find_in_job is not None and rule.name not in settings.mute
    ]
    whole = float(job.ranks["step_ns"].median() or 0)  # type: ignore[arg-type]
    kept = [
        advice
        for part in parts
        for advice in part.advice
        if advice.saving_ns is None or advice.saving_ns >= max(settings.least_share(advice.rule) * whole, 1)
    ]
    return Findings(tuple(sorted(kept, key=_order)), tuple(each for part in parts for each in part.problems))


def _asked(subject: Subject, name: str, find: Callable[[Subject], Found]) -> Findings:
    """Ask one rule; if it fails, or returns something else, that is a problem."""
    try:
        found = find(subject)
        several = () if found is None else (found,) if isinstance(found, Advice) else tuple(found)
        for advice in several:
            _check(advice)
    except Exception as exc:  # noqa: BLE001 - a rule that fails must not end the report
        return Findings((), (problem("advice.rule_failed", rule=name, error=f"{type(exc).__name__}: {exc}"),))
    return Findings(several, ())


def _check(advice: object) -> None:
    if not isinstance(advice, Advice):
        raise TypeError(f"a rule returns Advice, several of them or None (got {type(advice).__name__})")


def _with_savings(trace: Trace, found: list[Advice], settings: Settings) -> list[Advice]:
    """Return the advice that is worth it: what saves time in the order of carrying it out, then the rest."""
    whole = step_ns(trace)

    def least_ns(advice: Advice) -> float:
        return _least_ns(advice.rule, settings, whole)

    known = [replace(each, alone_ns=saving_of(trace, each)) for each in found if each.has_number]
    rest = _in_one_card(each for each in sorted(found, key=_order) if not each.has_number)
    shares = _without_repeats(known, least_ns)
    return [*in_order(trace, shares, least_ns), *rest]


def _in_one_card(found: Iterable[Advice]) -> list[Advice]:
    """Return advice without a number; two ways to do without the time of one op are one card."""
    kept: list[Advice] = []
    for advice in found:
        same = next((at for at, other in enumerate(kept) if _are_of_one_op(advice, other)), None)
        if same is None:
            kept.append(advice)
        else:
            kept[same] = replace(kept[same], fix=f"{kept[same].fix}; or {advice.fix}", edits=())
    return kept


def _without_repeats(found: Iterable[Advice], least_ns: Callable[[Advice], float]) -> list[Share]:
    """Return the advice that may be worth it, each with the part of its time that no larger one has counted."""
    kept: list[Share] = []
    counted = Spans(np.empty(0, np.int64), np.empty(0, np.int64))
    for advice in sorted(found, key=_precedence):
        alone_ns = advice.alone_ns or 0
        share, spans = _left(advice, counted)
        if alone_ns * share < least_ns(advice):
            continue
        # What is left of it belongs to the same cause.
        if share < MOSTLY and any(_are_of_one_line(advice, other.advice) for other in kept):
            continue
        kept.append(Share(_with_reason(advice, alone_ns * (1 - share), kept), share, spans))
        if advice.spans is not None:
            counted = joined(counted, advice.spans)
    return kept


def _are_of_one_line(advice: Advice, other: Advice) -> bool:
    return advice.line is not None and (advice.file, advice.line) == (other.file, other.line)


def _are_of_one_op(advice: Advice, other: Advice) -> bool:
    """Return whether two pieces of advice without a number are two ways to do without the same op's time."""
    is_certain = bool(advice.op and advice.fix) and advice.saving_bytes is None and advice.rule != other.rule
    same = (advice.op, advice.file, advice.line) == (other.op, other.file, other.line)
    return is_certain and same and other.saving_bytes is None


def _least_ns(rule: str, settings: Settings, whole_ns: float) -> float:
    """Return the least saving of a rule that is said, in ns a step; the user's own rules set theirs themselves."""
    least = LEAST_SAVING_NS if any(rule == each.name for each in RULES) else 1
    return max(settings.least_share(rule) * whole_ns, least)


def _without_profiler(trace: Trace, advice: Advice) -> Advice:
    """Return the advice with its saving in steps without the profiler, if timing lines made them far longer."""
    ratio = unexplained_ratio(trace)
    if advice.saving_ns is None or ratio < LOUD_RATIO:
        return advice
    return replace(
        advice,
        saving_ns=round(advice.saving_ns / ratio),
        alone_ns=round((advice.alone_ns or 0) / ratio),
        certainty="estimated" if advice.certainty == "measured" else advice.certainty,
        evidence=f"{advice.evidence} Timing the lines of functions made steps {format_count(ratio)} times as long, "
        "so the saving is that part of it.",
    )


def _precedence(advice: Advice) -> tuple[bool, tuple[bool, int, bool, int, str]]:
    """Count what was measured first: it names its cause, where a model may cover many."""
    return (advice.certainty != "measured", _order(advice))


def _left(advice: Advice, counted: Spans) -> tuple[float, Spans | None]:
    """Return which share of the spans of some advice was not counted yet, and which part of them."""
    if advice.spans is None:
        return 1.0, None
    own = overlap(advice.spans, advice.spans)
    total = int((own.end_ns - own.start_ns).sum())
    left = without(own, counted)
    share = int((left.end_ns - left.start_ns).sum()) / total if total else 1.0
    return share, left


def _with_reason(advice: Advice, gone_ns: float, kept: Iterable[Share]) -> Advice:
    """Return some advice, and why its saving is less than what its evidence shows."""
    if advice.spans is None or gone_ns < LEAST_SAVING_NS:
        return advice
    spans = [(each.advice, each.advice.spans) for each in kept if each.advice.spans is not None]
    others = [other for other, theirs in spans if len(overlap(advice.spans, theirs).start_ns)]
    what = f"“{others[0].title}”" if len(others) == 1 else "other advice"
    # Without a number: the evidence of the other may count the median step, and this is a share of the mean.
    return replace(advice, evidence=f"{advice.evidence} What {what} saves is not counted again here.".lstrip())


def _order(advice: Advice) -> tuple[bool, int, bool, int, str]:
    """Sort by time, then by memory; guesses come last."""
    time = advice.saving_ns if advice.alone_ns is None else advice.alone_ns
    memory = advice.saving_bytes
    return (time is None, -(time or 0), memory is None, -(memory or 0), advice.rule)
