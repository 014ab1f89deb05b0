"""All formulas by the op that they are of, and those that users add."""

from __future__ import annotations

import json
import warnings
from functools import cache
from typing import TYPE_CHECKING

from torchprof_magic.facts.ops.formulas import (
    attention,
    convolutions,
    experts,
    images,
    lookups,
    matrices,
    norms,
    optimizers,
    pointwise,
    quantized,
    recurrent,
    reductions,
    searches,
)
from torchprof_magic.facts.ops.formulas.inputs import Inputs
from torchprof_magic.model.trace import MAX_SUM

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchprof_magic.facts.ops.formulas.work import Formula, Work

# Every formula that comes with the package. Patterns are asked in this order, after whole names.
ALL: tuple[Formula, ...] = (
    *matrices.FORMULAS,
    *experts.FORMULAS,
    *quantized.FORMULAS,
    *convolutions.FORMULAS,
    *attention.FORMULAS,
    *norms.FORMULAS,
    *pointwise.FORMULAS,
    *reductions.FORMULAS,
    *lookups.FORMULAS,
    *searches.FORMULAS,
    *images.FORMULAS,
    *recurrent.FORMULAS,
    *optimizers.FORMULAS,
)
# Those that users added in this process, by op.
own: dict[str, Formula] = {}
_BY_NAME = {op: formula for formula in reversed(ALL) for op in formula.ops if not op.endswith("*")}
_BY_START = tuple((op[:-1], formula) for formula in ALL for op in formula.ops if op.endswith("*"))
# What torch's own counter counts, by op.
COUNTED = {op: formula for op, formula in _BY_NAME.items() if formula.is_counted}
_FAILURES = (ValueError, LookupError, ArithmeticError, RecursionError)
_warned: set[str] = set()


def formula_of(op: str) -> Formula | None:
    """Return the formula of an op, None if there is none; one that a user added comes first."""
    return own.get(op) or _known(op)


@cache
def _known(op: str) -> Formula | None:
    found = _BY_NAME.get(op)
    return found or next((formula for start, formula in _BY_START if op.startswith(start)), None)


def formulas_of(ops: Iterable[str]) -> list[Formula | None]:
    """Return the formula of each op, None for those without one."""
    return [formula_of(op) for op in ops]


def read_inputs(
    shapes: str | None,
    dtypes: str | None = None,
    values: str | None = None,
    kernel_type: str = "",
    context: str = "",
    gradient: str = "",
    inside: str = "",
) -> Inputs | None:
    """Return the inputs of a call from what was recorded of them, None if that makes no sense."""
    try:
        parts = [json.loads(text or "[]") for text in (shapes, values, dtypes, gradient, inside)]
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(part, list) for part in parts):
        return None
    shaped, concrete, typed, result, found = parts
    return Inputs(shaped, concrete, typed, kernel_type, context, result, found)


def work_of(op: str, inputs: Inputs | None) -> Work | None:
    """Return what a call has to do; None if its inputs do not tell, or if it has no formula."""
    formula = formula_of(op)
    if formula is None or inputs is None:
        return None
    try:
        work = formula.work(inputs)
    except _FAILURES as error:
        _warn_of_own(op, error)
        return None
    except Exception as error:  # a user's formula can raise anything
        if op not in own:
            raise
        _warn_of_own(op, error)
        return None
    return work if _is_possible(work) else None


def _is_possible(work: Work) -> bool:
    return all(0 <= value <= MAX_SUM for value in (work.flops, work.bytes or 0, work.counted or 0))


def _warn_of_own(op: str, error: Exception) -> None:
    """Say once that the formula of a user failed; what it is of is then not known."""
    if op in own and op not in _warned:
        _warned.add(op)
        warnings.warn(
            f"the formula of {op} failed, so its work is not known: {type(error).__name__}: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
