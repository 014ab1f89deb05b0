from __future__ import annotations

import pytest

from torchprof_magic.findings.advice.rules.cell_code import loop_constants
from torchprof_magic.model.meta import CellSource, Stepping


def constants(body: str, head: str = "for x, y in loader:") -> list[tuple[str, str]]:
    source = "%%torchprof --shapes\n" + head + "\n" + "\n".join(f"    {line}" for line in body.split("\n"))
    found = loop_constants(CellSource(label="In [1]", source=source), Stepping(how="loop", line=2))
    return [(constant.text, constant.kind) for constant in found]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("w = table.double()", [("table.double()", "copy")]),
        ("w = table.to('cuda', torch.float16)", [("table.to('cuda', torch.float16)", "copy")]),
        ("loss = f(x, table.half())", [("table.half()", "copy")]),
        ("w = torch.tensor([1.0, 2.0])", [("torch.tensor([1.0, 2.0])", "constant")]),
        ("w = torch.tensor(values, device=x.device)", []),
        ("m = torch.tril(torch.ones(n, n))", [("torch.tril(torch.ones(n, n))", "constant")]),
        ("if y:\n    p = torch.arange(n)", [("torch.arange(n)", "constant")]),
        ("with a:\n    p = np.array(values)", [("np.array(values)", "constant")]),
        ("z = (torch.arange(n) * 2).to('cuda') + x", [("(torch.arange(n) * 2).to('cuda')", "constant")]),
    ],
)
def test_what_does_not_change_in_the_loop_is_found(body: str, expected: list[tuple[str, str]]) -> None:
    assert constants(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "w = x.double()",  # the loop binds x
        "z = y\nw = z.double()",
        "w = table.double()\ntable += 1",
        "w = table.double()\ntable.add_(1)",
        "w = table.double()\ntable[0] = 1",
        "w = table.double()\ntorch.mul(a, b, out=table)",
        "values.append(1)\nw = torch.tensor(values)",
        "out = torch.zeros(3)\nout[0] = 1",  # each step needs a new one
        "out = torch.zeros(3)\nout += x",
        "w = torch.tensor([1.0], requires_grad=True)",
        "w = torch.randn(3)",
        "w = torch.tensor([random.random()])",
        "w = torch.tensor(next(items))",
        "w = model.weight.double()",  # the optimizer changes it
        "w = [torch.arange(i) for i in range(3)]",
        "f = lambda: torch.arange(3)",
        "def f():\n    return torch.arange(3)",
        "global table\nw = table.double()",
        "w = await table.double()",
    ],
)
def test_what_may_change_is_not_advised(body: str) -> None:
    head = "async def f():\n  for x in xs:" if "await" in body else "for x, y in loader:"
    assert constants(body, head) == []


@pytest.mark.parametrize("source", ["for x in y\n  pass", "", "\x00", "(" * 5_000])
def test_a_cell_that_cannot_be_parsed_has_no_constants(source: str) -> None:
    assert loop_constants(CellSource(label="", source=source), Stepping(how="loop", line=1)) == []
