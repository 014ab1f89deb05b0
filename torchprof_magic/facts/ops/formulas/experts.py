"""Layers of experts: each token is computed by some of them, which a router chooses."""

from __future__ import annotations

from itertools import permutations
from math import prod
from typing import TYPE_CHECKING

from torchprof_magic.facts.ops.formulas.work import Formula, Work, bytes_of
from torchprof_magic.model.dtypes import kind_of_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.facts.ops.formulas.inputs import Inputs, Tensor

_GROUP = "Layers of experts"
_FLOPS = "2 · tokens · experts of a token · elements of the weights of one expert"
_EVEN = "as many experts as are expected to be chosen by any token if all are chosen as often"


def _read(experts: int, tokens: int, chosen: int) -> float:
    """Return the share of the experts that some token is expected to choose, if all are chosen as often."""
    return 1 - (1 - min(chosen / max(experts, 1), 1)) ** tokens


def _weights(hidden: int, *weights: Tensor) -> int:
    """Return the elements of the weights of one expert, of which several can share a byte.

    The last dimension of the first is the hidden size; with ``n`` numbers in a byte it is so much shorter.
    """
    stored = weights[0].dims[2]
    if not 0 < stored <= hidden or hidden % stored:
        raise ValueError("the inputs do not fit to one another")
    return hidden // stored * sum(prod(weight.dims[1:]) for weight in weights)


def _computed_in(x: Tensor, weight: Tensor) -> str:
    """Return the type of the products: that of weights of 8 bits, else that of the input."""
    return weight.dtype if kind_of_type(weight.dtype) == "f8" else x.dtype


def _layer(x: Tensor, first: Tensor, second: Tensor, chosen: int, out: Tensor) -> Work:
    """Return the work of both products of a layer, with the weights of the experts that are chosen."""
    experts, tokens, hidden = first.dims[0], x.dims[0], x.dims[-1]
    if second.dims[0] != experts:
        raise ValueError("the inputs do not fit to one another")
    flops = 2 * tokens * chosen * _weights(hidden, first, second)
    moved = bytes_of([x, out])
    stored = bytes_of([first, second])
    known = None if moved is None or stored is None else moved + round(stored * _read(experts, tokens, chosen))
    return Work(flops, known, _computed_in(x, first), is_matrix=True)


def _fused(inputs: Inputs) -> Work:
    """Return the work of input, both weights, and the weight and number of each expert of each token."""
    x, first, second = inputs.tensor(0, 2), inputs.tensor(1, 3), inputs.tensor(2, 3)
    tokens, chosen = inputs.dims(4, 2)
    if tokens != x.dims[0]:
        raise ValueError("the inputs do not fit to one another")
    return _layer(x, first, second, chosen, x)


def _fused_into(inputs: Inputs) -> Work:
    """Return the work of a layer that writes into its first input, with how many experts a token has as the ninth."""
    out, x, first, second = inputs.tensor(0, 2), inputs.tensor(1, 2), inputs.tensor(2, 3), inputs.tensor(3, 3)
    return _layer(x, first, second, inputs.number(8), out)


def _stage(inputs: Inputs, *, weight: int, out: int = 6) -> Work:
    """Return the work of one product of a layer, with the results of each token and expert as input ``out``."""
    x, used, results = inputs.tensor(0), inputs.tensor(weight, 3), inputs.tensor(out)
    rows, experts = max(prod(each.dims[:-1]) for each in (x, results)), used.dims[0]
    inner = x.dims[-1] // used.dims[2]
    if inner < 1 or x.dims[-1] % used.dims[2]:
        raise ValueError("the inputs do not fit to one another")
    moved, stored = bytes_of([x, results]), bytes_of([used])
    known = None if moved is None or stored is None else moved + round(stored * _read(experts, rows, 1))
    return Work(2 * rows * inner * prod(used.dims[1:]), known, _computed_in(x, used), is_matrix=True)


def _grouped_into(inputs: Inputs, *, first: int, into: int) -> Work:
    """Return the work of sorted rows, which are input ``first``, each with the weight of its expert, which follows."""
    out, x, weight = inputs.tensor(into, 2), inputs.tensor(first, 2), inputs.tensor(first + 1, 3)
    rows = x.dims[0]
    moved, stored = bytes_of([out, x]), bytes_of([weight])
    known = None if moved is None or stored is None else moved + round(stored * _read(weight.dims[0], rows, 1))
    return Work(2 * rows * x.dims[1] * out.dims[1], known, x.dtype, is_matrix=True)


def _layer_of_module(inputs: Inputs) -> Work:
    """Return the work of a layer that has only tokens and the router's scores as inputs.

    The weights are those among the tensors that are looked at inside which have one matrix for each expert: the first
    with the hidden size as its inner one, perhaps packed, the second with it as its number of columns. Their inner size
    with one row for each token and expert tells how many experts a token has.
    """
    x, scores = inputs.tensor(0, 2), inputs.tensor(1, 2)
    (tokens, hidden), experts = x.dims, scores.dims[-1]
    stored = [dims for dims in inputs.inside if dims[:-2] == [experts]]
    for first, second in permutations(stored, 2):
        packed, rest = divmod(hidden, max(first[1], 1))
        inner = second[1] * packed
        if rest == 0 and second[2] == hidden and first[2] in (inner, 2 * inner):
            chosen = next((dims[0] for dims in inputs.inside if dims[1:] == [inner]), 0) / tokens
            if chosen.is_integer() and 0 < chosen <= experts:
                return _of_stored(x, first, second, packed, int(chosen))
    raise ValueError("nothing inside tells the weights")


def _of_stored(x: Tensor, first: list[int], second: list[int], packed: int, chosen: int) -> Work:
    tokens = x.dims[0]
    elements = prod(first[1:]) + prod(second[1:])
    # A packed weight is stored in bytes, another in the type of the input.
    item = 1 if packed > 1 else x.item_bytes
    read = round(first[0] * elements * item * _read(first[0], tokens, chosen))
    return Work(2 * tokens * chosen * packed * elements, 2 * x.bytes + read, x.dtype, is_matrix=True)


def _row(ops: tuple[str, ...], flops: str, moves: str, work: Callable[[Inputs], Work], inside: str = "") -> Formula:
    return Formula(group=_GROUP, ops=ops, flops=flops, moves=moves, work=work, inside=inside)


FORMULAS = (
    _row(
        (
            "vllm::inplace_fused_experts",
            "vllm::outplace_fused_experts",
            "vllm::rocm_aiter_fused_moe*",
            "sglang::inplace_fused_experts",
            "sglang::outplace_fused_experts",
            "aiter::fused_moe*",
        ),
        _FLOPS,
        f"input, output, and the weights of {_EVEN}",
        _fused,
    ),
    _row(
        ("aiter::fmoe", "aiter::fmoe_g1u1*", "aiter::fmoe_int8_g1u0", "aiter::fmoe_fp8_blockscale_g1u1"),
        _FLOPS,
        f"input, output, and the weights of {_EVEN}",
        _fused_into,
    ),
    _row(
        ("aiter::ck_moe_stage1*", "aiter::moe_stage1*"),
        "2 · tokens · experts of a token · elements of the first weight of one expert",
        f"input, output, and the weight of {_EVEN}",
        lambda inputs: _stage(inputs, weight=1),
    ),
    _row(
        ("aiter::ck_moe_stage2*", "aiter::moe_stage2*"),
        "2 · tokens · experts of a token · elements of the second weight of one expert",
        f"input, output, and the weight of {_EVEN}",
        lambda inputs: _stage(inputs, weight=2),
    ),
    _row(
        ("aiter::moe_cktile2stages_gemm1*", "aiter::moe_cktile2stages_gemm2*"),
        "2 · tokens · experts of a token · elements of the weight of one expert",
        f"input, output, and the weight of {_EVEN}",
        lambda inputs: _stage(inputs, weight=1, out=2),
    ),
    _row(
        ("_C::cutlass_moe_mm",),
        "2 · rows of all experts · n · k",
        f"input, output, and the weight of {_EVEN}",
        lambda inputs: _grouped_into(inputs, first=1, into=0),
    ),
    _row(
        ("_C::cutlass_mxfp8_grouped_mm",),
        "2 · rows of all experts · n · k",
        f"input, output, and the weight of {_EVEN}",
        lambda inputs: _grouped_into(inputs, first=0, into=4),
    ),
    _row(
        ("vllm::moe_forward*",),
        f"{_FLOPS}, where views inside the call, or in the capture of its graph, tell the weights",
        f"input, output, and the weights of {_EVEN}, without their scales",
        _layer_of_module,
        inside="aten::view",
    ),
)
