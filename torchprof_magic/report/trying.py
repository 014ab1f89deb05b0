"""Measures a piece of advice on this machine, and puts what it saves here in the place of what was said."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchprof_magic.findings.advice import chosen_card, plan_trial
from torchprof_magic.model.units import counted, format_ns

if TYPE_CHECKING:
    from torchprof_magic.findings.advice import Advice
    from torchprof_magic.report.analysis import Analysis

# About how long it takes, unless the user says otherwise.
SECONDS = 5.0


def measured_advice(analysis: Analysis, which: int | str | Advice, seconds: float | None = None) -> Advice:
    """Return one piece of advice as it was measured here; from now on, ``analysis`` has it instead of what was said.

    Raises ``IndexError`` if there is no such advice, and ``ValueError`` if it cannot be tried here.
    """
    # torch is needed to try advice, not to read a trace.
    from torchprof_magic.trials import run_trial  # noqa: PLC0415

    said = chosen_card(analysis.findings.advice, which)
    tried = run_trial(plan_trial(analysis.trace, said), SECONDS if seconds is None else seconds)
    words = (
        f"Tried here on the recorded shapes: {format_ns(tried.before_ns)} before and {format_ns(tried.after_ns)} "
        f"after, medians of {counted(tried.rounds, 'round')}."
        + (f" These calls took {format_ns(tried.recorded_ns)} when recorded." if tried.recorded_ns else "")
        + (f" Not tried: {'; '.join(tried.left_out)}." if tried.left_out else "")
    )
    saving = max(round(tried.before_ns - tried.after_ns), 0)
    found = replace(said, saving_ns=saving, certainty="measured here", evidence=f"{words} {said.evidence}")
    analysis.put_measured(said, found)
    return found
