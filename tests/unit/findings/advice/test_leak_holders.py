"""What to do about growth, by what keeps it."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from torchprof_magic.findings.advice.kinds import Advice, Certainty
from torchprof_magic.findings.advice.leak_holders import with_holders

SCHEMA = {
    "holder": pl.String,
    "kind": pl.String,
    "way": pl.String,
    "size_bytes": pl.Int64,
    "source": pl.String,
    "line": pl.Int64,
}


def fix_for(*rows: tuple[str, str, str, int], rule: str = "memory_leak", certainty: Certainty = "measured") -> str:
    return advice_for([(*row, None, None) for row in rows], rule, certainty).fix


def advice_for(rows: list[tuple[Any, ...]], rule: str = "memory_leak", certainty: Certainty = "measured") -> Advice:
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return with_holders(Advice(rule=rule, title="Let go", fix="general", evidence="Grows.", certainty=certainty), frame)


def test_the_line_that_keeps_them_is_named() -> None:
    found = advice_for([("kept[…]", "variable", "tensor", 3000, "kept.append(loss)", 7)])
    assert found.evidence == "Grows. `kept[…]` holds 2.93 KiB, kept by line 7: `kept.append(loss)`."
    hostile = advice_for([("kept[…]", "variable", "tensor", 3000, "kept.append(`<b>`)", 7)])
    assert hostile.evidence.count("`") == 4


def test_tensors_that_are_kept_without_a_graph_are_to_be_bounded() -> None:
    fix = fix_for(("replay[…]", "variable", "tensor", 3000))
    assert fix == "`replay[…]` keeps tensors: bound it, as `collections.deque(maxlen=…)` does, or empty it"


def test_a_graph_is_released_by_detach_or_item() -> None:
    fix = fix_for(("losses[…]", "variable", "graph", 3000), ("losses[…]", "variable", "tensor", 12))
    assert fix == "`losses[…]` keeps a graph of autograd: keep `x.detach()` there, or `loss.item()` of a loss"


def test_all_that_keep_much_are_named() -> None:
    fix = fix_for(("a.sum", "variable", "graph", 3000), ("a.preds[…]", "variable", "graph", 2900))
    assert fix.startswith("`a.sum` and `a.preds[…]` keep a graph")
    both = fix_for(("a", "variable", "graph", 3000), ("b[…]", "variable", "tensor", 2900))
    assert "`a` keeps a graph" in both
    assert "; `b[…]` keeps tensors: bound it" in both


def test_keys_that_differ_in_a_number_are_one_holder() -> None:
    rows = [(f"log['epoch {at}']", "variable", "tensor", 100) for at in range(3)]
    assert fix_for(*rows).startswith("`log['epoch …']` keeps tensors")


def test_where_growth_is_only_possible_the_holder_is_to_be_checked() -> None:
    fix = fix_for(("window[…]", "variable", "tensor", 9), certainty="estimated")
    assert fix == "`window[…]` keeps the tensors: check that it stops growing"


def test_many_holders_are_counted() -> None:
    assert "`c[…]` and 4 more keep tensors: bound them" in fix_for(
        *((f"{name}[…]", "variable", "tensor", 100) for name in "abcdefg")
    )


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (("net.0.weight.grad", "variable", "graph", 9), "set it to None, or use `torch.autograd.grad`"),
        (("errors[…].big", "traceback", "tensor", 9), "`error.with_traceback(None)`"),
    ],
)
def test_gradients_with_a_graph_and_tracebacks_have_their_own_way_out(
    row: tuple[str, str, str, int], words: str
) -> None:
    assert words in fix_for(row)


def test_without_a_name_the_advice_stays_as_it_is() -> None:
    assert fix_for(("Tensor", "unnamed", "tensor", 9)) == "general"
    assert fix_for() == "general"
    assert fix_for(("x", "variable", "tensor", 9), rule="another") == "general"
