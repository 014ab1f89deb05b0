"""Steps of optimizers, and elementwise ops over lists of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.facts.ops.formulas.work import Formula, Work, bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.facts.ops.formulas.inputs import Inputs

_GROUP = "Optimizers and lists of tensors"
_UNARY = (
    "abs ceil cos erf exp expm1 floor log log10 log1p log2 neg reciprocal round rsqrt sigmoid sign sin sqrt tan tanh"
)
_BINARY = "add sub mul div maximum minimum clamp_max clamp_min pow copy"
_TERNARY = "addcmul addcdiv lerp"


def _foreach(places: int, flops: int) -> Callable[[Inputs], Work]:
    """Return the formula of an op over lists: each is read, and as many elements as in the first are written."""

    def work(inputs: Inputs) -> Work:
        first = inputs.listed(0)
        moved = list(first)
        for place in range(places):
            try:
                moved += inputs.listed(place)
            except (ValueError, LookupError):
                continue
        count = sum(tensor.numel for tensor in first)
        return Work(flops * count, bytes_of(moved), first[0].dtype)

    return work


def _fused(flops: int, state: tuple[int, ...]) -> Callable[[Inputs], Work]:
    """Return the formula of a fused step: gradients are read, and parameters and state are read and written."""

    def work(inputs: Inputs) -> Work:
        parameters = inputs.listed(0)
        moved = [*parameters, *parameters, *inputs.listed(1)]
        for place in state:
            try:
                moved += [*inputs.listed(place)] * 2
            except (ValueError, LookupError):
                continue
        count = sum(tensor.numel for tensor in parameters)
        return Work(flops * count, bytes_of(moved), parameters[0].dtype)

    return work


def _zeroed(inputs: Inputs) -> Work:
    first = inputs.listed(0)
    return Work(0, bytes_of(first), first[0].dtype)


def _row(ops: tuple[str, ...], flops: str, moves: str, work: Callable[[Inputs], Work]) -> Formula:
    return Formula(group=_GROUP, ops=ops, flops=flops, moves=moves, work=work)


def _foreach_rows(names: str, places: int, flops: int) -> Formula:
    each = [f"aten::_foreach_{name}" for name in names.split()]
    return _row(
        tuple(each + [f"{name}_" for name in each]),
        f"{flops} an element of the first list",
        "all lists, and as much as the first once more",
        _foreach(places, flops),
    )


_STEP = "parameters and state, read and written, and gradients, read"
FORMULAS = (
    _foreach_rows(_UNARY, 1, 1),
    _foreach_rows(_BINARY, 2, 1),
    _foreach_rows(_TERNARY, 3, 3),
    _row(("aten::_foreach_zero_",), "none", "all tensors, written", _zeroed),
    _row(
        ("aten::_fused_adam_", "aten::_fused_adamw_"),
        "15 a parameter: 2 for the decay, 3 and 4 for both means, 3 for the root, 3 for the step",
        _STEP,
        _fused(15, (2, 3, 4)),
    ),
    _row(
        ("aten::_fused_sgd_",),
        "6 a parameter: 2 each for decay, momentum and the step",
        _STEP,
        _fused(6, (2,)),
    ),
    _row(
        ("aten::_fused_adagrad_",),
        "7 a parameter: 2 each for the decay and the sum of squares, 3 for the step",
        _STEP,
        _fused(7, (2,)),
    ),
    _row(
        ("aten::_amp_foreach_non_finite_check_and_unscale_",),
        "2 a gradient",
        "gradients, read and written",
        _foreach(1, 2),
    ),
)
