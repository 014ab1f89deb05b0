from __future__ import annotations

from dataclasses import replace

from support import make_trace

from torchprof_magic.findings.notes import problem_list
from torchprof_magic.model.meta import Problem


def test_problems_are_listed_with_the_worst_first_and_else_in_the_order_met() -> None:
    met = (("a", "info"), ("b", "warning"), ("c", "data_loss"), ("d", "warning"))
    problems = tuple(Problem(code=code, severity=severity, count=1, message="") for code, severity in met)  # type: ignore[arg-type]
    found = problem_list(replace(make_trace(), problems=problems)).problems
    assert [problem.code for problem in found] == ["c", "b", "d", "a"]
