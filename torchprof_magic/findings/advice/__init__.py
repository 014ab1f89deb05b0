"""What to change: advice that names the line, shows its evidence and says how sure it is."""

from __future__ import annotations

from torchprof_magic.findings.advice.cards import cards_of, cards_of_job, chosen_card
from torchprof_magic.findings.advice.conductor import Findings, Settings, find_advice, find_in_job, name_of
from torchprof_magic.findings.advice.kinds import ADVICE_FIELDS, CERTAINTY_TEXT, Advice, Edit, Rule, Spans
from torchprof_magic.findings.advice.rules import RULES
from torchprof_magic.findings.advice.trial_plan import plan_trial

__all__ = [
    "ADVICE_FIELDS",
    "CERTAINTY_TEXT",
    "RULES",
    "Advice",
    "Edit",
    "Findings",
    "Rule",
    "Settings",
    "Spans",
    "cards_of",
    "cards_of_job",
    "chosen_card",
    "find_advice",
    "find_in_job",
    "name_of",
    "plan_trial",
]
