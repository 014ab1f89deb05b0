"""What is said of compiled code whose ops belong to no line of the model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import make_trace, span

from torchprof_magic.findings.verdict.compiled_names import unnamed_code
from torchprof_magic.model.meta import Stepping


@pytest.mark.parametrize(
    ("version", "code", "says"),
    [
        ("2.9.1+cu128", "compiled.torch_has_no_names", "2 runs of it, because torch 2.9.1 cannot name them"),
        ("2.10.0", "compiled.no_names", "2 runs of it, because it was compiled without names"),
        ("unknown", "compiled.no_names", "2 runs of it, because it was compiled without names"),
    ],
)
def test_the_note_on_code_without_names_says_whether_torch_could_name_it(version: str, code: str, says: str) -> None:
    regions = [span(name, at, 10) for at in (0, 20, 40) for name in ("Torch-Compiled Region: 0/0",)]
    trace = make_trace(*regions, span("aten::mm", 2, 5), span("aten::mm", 22, 5))
    live = replace(trace, meta=replace(trace.meta, torch_version=version, stepping=Stepping(how="cell")))
    (problem,) = unnamed_code(live)
    assert (problem.code, problem.count) == (code, 2)
    assert says in problem.message
    assert "torch 2.10 or newer" in problem.fix or code == "compiled.no_names"
