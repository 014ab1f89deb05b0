"""What to do about memory that grows, by what keeps it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from torchprof_magic.model.units import enumerated, format_bytes
from torchprof_magic.tables.memory.holders import TENSOR, TRACEBACK, UNNAMED
from torchprof_magic.tables.memory.leaks import MEASURED

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.findings.advice.kinds import Advice

RULE = "memory_leak"
# Of the bytes of the holder of most. What keeps less is not worth a word.
LEAST_SHARE = 0.2
MOST_NAMED = 3
_GRADIENT = ".grad"


def with_holders(advice: Advice, holders: pl.DataFrame) -> Advice:
    """Return the advice of the rule with what to do for the holders, rows of ``report.holders()``.

    ``.detach()`` releases a graph. Where only tensors are kept it releases nothing, and the container is to be bounded.
    """
    named = _alike_together(holders.filter(pl.col("kind") != UNNAMED))
    if advice.rule != RULE or named.height == 0:
        return advice
    most = int(named["size_bytes"].max() or 0)  # type: ignore[arg-type]
    rows = named.filter(pl.col("size_bytes") >= LEAST_SHARE * most).to_dicts()
    fixes: dict[Callable[[str, str], str], list[str]] = {}
    for row in rows:  # few: one for each variable
        fix = _check if advice.certainty != MEASURED and row["way"] == TENSOR else _fix_of(row)
        fixes.setdefault(fix, []).append(f"`{row['holder']}`")
    held = [f"`{row['holder']}` holds {format_bytes(row['size_bytes'])}{_kept_by(row)}" for row in rows]
    return replace(
        advice,
        fix="; ".join(fix(_listed(names), "keeps" if len(names) == 1 else "keep") for fix, names in fixes.items()),
        evidence=f"{advice.evidence} {_listed(held)}.",
    )


def _alike_together(holders: pl.DataFrame) -> pl.DataFrame:
    """Return the holders with the numbers in their keys left out, such as ``log['epoch …']``, most bytes first."""
    frame = holders.with_columns(pl.col("holder").str.replace_all(r"(\['[^'0-9]*)[0-9]+", "${1}…"))
    lines = pl.col("source", "line").drop_nulls().first()
    frame = frame.group_by("holder", "kind", "way", maintain_order=True).agg(pl.col("size_bytes").sum(), lines)
    return frame.sort("size_bytes", descending=True, maintain_order=True)


def _kept_by(row: dict[str, Any]) -> str:
    """Return which line keeps what a holder has, if that is known; a backquote would end the code."""
    source = (row["source"] or "").replace("`", "'")
    return f", kept by line {row['line']}: `{source}`" if source else ""


def _fix_of(row: dict[str, Any]) -> Callable[[str, str], str]:
    """Return what writes a fix, for some holders and the verb that follows them."""
    if row["kind"] == TRACEBACK:
        return _clear_traceback
    if row["way"] == TENSOR:
        return _bound
    return _clear_gradient if row["holder"].endswith(_GRADIENT) else _detach


def _detach(names: str, keep: str) -> str:
    return f"{names} {keep} a graph of autograd: keep `x.detach()` there, or `loss.item()` of a loss"


def _clear_gradient(names: str, keep: str) -> str:
    return f"{names} {keep} the graph of `create_graph=True`: set {_it(keep)} to None, or use `torch.autograd.grad`"


def _clear_traceback(names: str, _keep: str) -> str:
    return f"tracebacks keep {names}: keep the text of the exception, or `error.with_traceback(None)`"


def _bound(names: str, keep: str) -> str:
    return f"{names} {keep} tensors: bound {_it(keep)}, as `collections.deque(maxlen=…)` does, or empty {_it(keep)}"


def _it(keep: str) -> str:
    return "it" if keep == "keeps" else "them"


def _check(names: str, keep: str) -> str:
    return f"{names} {keep} the tensors: check that {'it stops' if keep == 'keeps' else 'they stop'} growing"


def _listed(parts: list[str]) -> str:
    """Return the first parts as a list in words."""
    shown = [*parts[:MOST_NAMED], *([f"{len(parts) - MOST_NAMED} more"] if len(parts) > MOST_NAMED else [])]
    return enumerated(shown)
