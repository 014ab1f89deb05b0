"""Summaries as JSON: the same facts as the text, for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torchprof_magic.findings.advice import ADVICE_FIELDS
from torchprof_magic.model.shapes import Facts, Table
from torchprof_magic.tables.ops.op_table import ops_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchprof_magic.findings.advice import Advice
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.report.analysis import Analysis

_TOP_OPS = 20
_VERDICT_FIELDS = ("kind", "title", "name", "file", "line", "share", "certainty", "doubts")


def trace_summary(analysis: Analysis) -> str:
    """Return the verdict, the advice, the overview, the top ops and the problems of a recording."""
    overview, shown, verdict = analysis["overview"], analysis["ops"], analysis.verdict
    assert isinstance(overview, Facts)
    assert isinstance(shown, Table)
    by = shown.sort_by or "self_cpu_ns"
    facts = [
        {"section": section.title, "label": fact.label, "value": fact.value, "unit": fact.unit, "note": fact.note}
        for section in overview.sections
        for fact in section.facts
    ]
    causes = {cause.kind: cause.ns for cause in verdict.causes}
    found = {
        "verdict": verdict_fields(verdict) | {"causes": causes},
        "advice": advice_fields(analysis.findings.advice),
        "facts": facts,
        "ops": ops_table(analysis.trace)
        .frame.sort(by, descending=True, nulls_last=True, maintain_order=True)
        .head(_TOP_OPS)
        .to_dicts(),
        "problems": problem_fields(analysis.problems),
    }
    return json.dumps(found, default=str)


def verdict_fields(verdict: Any, *more: str) -> dict[str, object]:
    """Return what a verdict says; ``more`` are fields that only this kind of verdict has."""
    fields = {name: getattr(verdict, name) for name in (*_VERDICT_FIELDS, *more)}
    return fields | {"text": "".join(span.text for span in verdict.text)}


def advice_fields(advice: Iterable[Advice]) -> list[dict[str, object]]:
    """Return what each piece of advice says."""
    return [{name: getattr(each, name) for name in ADVICE_FIELDS} for each in advice]


def problem_fields(problems: Iterable[Problem]) -> list[dict[str, object]]:
    """Return the code, severity and count of each problem."""
    return [{"code": each.code, "severity": each.severity, "count": each.count} for each in problems]
