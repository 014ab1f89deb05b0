"""Formulas for what ops have to do, and the user's own for ops that are none of torch's.

``tp.formulas.add("mylib::fused_mlp", flops=..., bytes=...)`` adds one. It holds for all reports of this process that
are made from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torchprof_magic.facts.ops.formulas import ALL, Formula, Work, own

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.facts.ops.formulas.inputs import Inputs

_GROUP = "Added"


class Call(NamedTuple):
    """What was recorded of one call: dimensions, types and values of its inputs, by position.

    A tensor has its dimensions in ``shapes``, a list of tensors a list of them, and all else an empty list. ``dtypes``
    are the types as torch writes them, such as ``c10::BFloat16``. ``values`` are the inputs that are no tensors, as
    text; empty for tensors.
    """

    shapes: list[Any]
    dtypes: list[Any]
    values: list[Any]


def add(
    op: str,
    *,
    flops: Callable[[Call], int] | None = None,
    bytes: Callable[[Call], int] | None = None,  # noqa: A002 - what it counts
    is_matrix: bool = False,
    dtype: str = "",
) -> None:
    """Add the formula of an op, by its name as torch records it; one of the same name is replaced.

    Args:
        op: The name of the op, such as ``mylib::fused_mlp``.
        flops: Returns the operations of a call, a multiplication and an addition each counted as one; None for none.
        bytes: Returns the bytes that it has to read and write; by default, those of all its tensors, each once.
        is_matrix: Whether units for matrices can compute it.
        dtype: The type that it computes in, as torch writes it; by default that of its first tensor.

    A function that raises leaves the work of the call unknown, and a warning says so.
    """
    if not isinstance(op, str) or not op:
        raise TypeError(f"op must be the name of an op (got {op!r})")
    for name, value in (("flops", flops), ("bytes", bytes)):
        if value is not None and not callable(value):
            raise TypeError(f"{name} must be a function of a call (got {type(value).__name__})")

    def work(inputs: Inputs) -> Work:
        call = Call(inputs.shapes, inputs.dtypes, inputs.values)
        tensors = inputs.all_tensors()
        moved = int(bytes(call)) if bytes else sum(tensor.bytes for tensor in tensors)
        kind = dtype or (tensors[0].dtype if tensors else "")
        return Work(int(flops(call)) if flops else 0, moved, kind, is_matrix)

    own[op] = Formula(group=_GROUP, ops=(op,), flops="added", moves="added", work=work)


def remove(op: str) -> None:
    """Remove a formula that was added. Raises ``ValueError`` if there is none."""
    if own.pop(op, None) is None:
        raise ValueError(f"no formula of {op!r} was added")


def known() -> list[Formula]:
    """Return all formulas: those that come with the package, and those that were added."""
    return [*own.values(), *ALL]
