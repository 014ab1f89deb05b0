"""Scaled dot product attention: fused kernels of torch and of other packages, flexible and paged."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from torchprof_magic.facts.ops.formulas.inputs import Inputs, Tensor
from torchprof_magic.facts.ops.formulas.work import Formula, Work, bytes_of, products
from torchprof_magic.model.serving import requests_of

_GROUP = "Attention"
_FORWARD_FLOPS = "2 · batch · heads · queries · keys · (features + features of the value)"
_BACKWARD_FLOPS = (
    "2 · batch · heads · queries · keys · (3 · features + 2 · features of the value): the scores once more"
)
_CAUSAL = "; half with a causal mask, which torch counts whole"
_FORWARD_MOVES = "query, key, value and output"
_BACKWARD_MOVES = "query, key, value and the gradient of each; output and its gradient"


class _Sizes(NamedTuple):
    """The number of heads of a batch, and the sizes of query, key, and of their and the value's features."""

    heads: int
    queries: int
    keys: int
    features: int
    values: int

    @property
    def scores(self) -> int:
        return self.heads * self.queries * self.keys

    @property
    def forward(self) -> int:
        return 2 * self.scores * (self.features + self.values)

    @property
    def backward(self) -> int:
        return 2 * self.scores * (3 * self.features + 2 * self.values)


class _Three(NamedTuple):
    query: Tensor
    key: Tensor
    value: Tensor

    @property
    def out(self) -> Tensor:
        return Tensor([*self.query.dims[:-1], self.value.dims[-1]], self.query.dtype)

    @property
    def sizes(self) -> _Sizes:
        """The sizes of tensors of batch, heads, length and features; key and value may share heads."""
        batch, heads, queries, features = self.query.dims
        _, shared_heads, keys, values = self.value.dims
        if self.key.dims != [batch, shared_heads, keys, features] or self.value.dims[0] != batch:
            raise ValueError("the inputs do not fit to one another")
        if shared_heads == 0 or heads % shared_heads:
            raise ValueError("the heads do not fit to one another")
        return _Sizes(batch * heads, queries, keys, features, values)

    @property
    def heads_first(self) -> _Three:
        """The same for tensors of batch, length, heads and features."""
        return _Three(*(Tensor([dims[0], dims[2], dims[1], *dims[3:]], dtype) for dims, dtype in self))

    def forward_bytes(self) -> int | None:
        return bytes_of([*self, self.out])

    def backward_bytes(self) -> int | None:
        return bytes_of([*self, *self, self.out, self.out])


def _three(inputs: Inputs, first: int, count: int = 4) -> _Three:
    return _Three(*(inputs.tensor(first + place, count) for place in range(3)))


def _masked(flops: int, sizes: _Sizes, *, is_causal: bool) -> int:
    """Return how many FLOPs are needed: a causal mask leaves half of the scores, where queries and keys are as many."""
    return flops // 2 if is_causal and sizes.queries == sizes.keys else flops


def _forward(inputs: Inputs, *, causal: int) -> Work:
    """Count the scores, and their product with the value; a mask saves nothing in torch's count."""
    three = _three(inputs, 0)
    sizes = three.sizes
    needed = _masked(sizes.forward, sizes, is_causal=inputs.is_true(causal))
    return products(sizes.forward, three.forward_bytes(), three.query.dtype, needed=needed)


def _backward(inputs: Inputs, *, causal: int) -> Work:
    """Count the scores once more, and two products for each of the two of the forward pass."""
    three = _three(inputs, 1)
    sizes = three.sizes
    needed = _masked(sizes.backward, sizes, is_causal=inputs.is_true(causal))
    return products(sizes.backward, three.backward_bytes(), three.query.dtype, needed=needed)


def _is_masked(inputs: Inputs, place: int) -> bool:
    """Return whether a flag, or the number of a kind of mask, says that the mask is causal."""
    value = str(inputs.values[place]) if place < len(inputs.values) else ""
    return value.lower() == "true" or (value.isdecimal() and value != "0")


def _rows_first(
    inputs: Inputs, *, first: int, causal: int, lengths: int | None = None, is_backward: bool = False
) -> Work:
    """Return the work of attention of batch, length, heads and features, or of sequences that follow one another."""
    if lengths is not None and inputs.operand(lengths) is not None:
        return _varlen(inputs, first=first, lengths=lengths, causal=causal, is_backward=is_backward)
    three = _three(inputs, first)
    sizes = three.heads_first.sizes
    flops = sizes.backward if is_backward else sizes.forward
    moved = three.backward_bytes() if is_backward else three.forward_bytes()
    is_causal = _is_masked(inputs, causal)
    return Work(_masked(flops, sizes, is_causal=is_causal), moved, three.query.dtype, is_matrix=True)


def _varlen(inputs: Inputs, *, first: int, lengths: int, causal: int, is_backward: bool = False) -> Work:
    """Return the work of sequences in one tensor, of which only the number is recorded: as if all were as long."""
    three = _three(inputs, first, 3)
    (edges,) = inputs.dims(lengths, 1)
    (queries, heads, features), (keys, _, values) = three.query.dims, three.value.dims
    sequences = edges - 1
    if sequences < 1:
        raise ValueError("there is no sequence")
    sizes = _Sizes(heads, queries, keys // sequences, features, values)
    flops = sizes.backward if is_backward else sizes.forward
    needed = flops // 2 if _is_masked(inputs, causal) and queries == keys else flops
    moved = three.backward_bytes() if is_backward else three.forward_bytes()
    return Work(needed, moved, three.query.dtype, is_matrix=True)


def _flexible(inputs: Inputs, *, is_backward: bool) -> Work:
    """Return the work without a mask, which is not recorded: the least that is known of it is that it can save some."""
    three = _three(inputs, 0)
    flops = three.sizes.backward if is_backward else three.sizes.forward
    moved = three.backward_bytes() if is_backward else three.forward_bytes()
    return Work(flops, moved, three.query.dtype, is_matrix=True)


def _paged(inputs: Inputs) -> Work:
    """Return the work of requests whose keys lie in pages: their lengths stand in the range around the call."""
    three = _three(inputs, 0, 3)
    (_, heads, features), (_, shared_heads, values) = three.query.dims, three.value.dims
    stored = Tensor([shared_heads, features + values], three.key.dtype)
    return _of_requests(inputs, heads, three.query, stored, three.out)


def _of_requests(inputs: Inputs, heads: int, query: Tensor, stored: Tensor, out: Tensor) -> Work:
    """Return the work of requests, with the key and the value of one of their tokens, in all shared heads."""
    requests = requests_of(inputs.context)
    if requests is None or requests.scores is None or requests.keys is None:
        raise ValueError("no range around the call says how long the requests are")
    read = Tensor([requests.keys, *stored.dims], stored.dtype)
    flops = 2 * heads * requests.scores * stored.dims[-1]
    return Work(flops, bytes_of([query, read, out]), query.dtype, is_matrix=True)


def _of_pages(inputs: Inputs, *, query: int, heads: int | None = None) -> Work:
    """Return the work of attention to pages of keys, whose features are those of the query.

    Pages are of blocks, tokens, heads and features, unless an input says how many heads there are.
    """
    given, pages = inputs.tensor(query, 3), inputs.tensor(query + 1)
    shared = inputs.number(heads) if heads is not None else pages.dims[-2]
    features = given.dims[-1]
    return _of_requests(inputs, given.dims[1], given, Tensor([shared, 2 * features], pages.dtype), given)


def _sequences(inputs: Inputs, *, causal: int, lengths: int) -> Work:
    """Return the work of attention to keys in one tensor, or in pages if they have one dimension more."""
    if len(inputs.dims(1)) > len(inputs.dims(0)):
        return _of_pages(inputs, query=0)
    return _rows_first(inputs, first=0, causal=causal, lengths=lengths)


def _vectors(inputs: Inputs, *places: int) -> Work:
    """Return the work of turning pairs of features by their positions: six operations a pair."""
    turned = inputs.tensors(*places)
    if not turned:
        raise ValueError("there is no query")
    count = sum(prod(tensor.dims) for tensor in turned)
    return Work(3 * count, bytes_of([*turned, *turned]), turned[0].dtype)


_OF_REQUESTS = (
    "2 · heads · pairs of a query and a key of one request · (features + features of the value), from the "
    "lengths in the range around it; half of the pairs among the new tokens of a request"
)
_OF_REQUESTS_MOVES = "query, output, and the keys and values of all requests"
_SDPA = "aten::_scaled_dot_product_{}_attention{}"


def _sdpa(kind: str, causal: tuple[int, int]) -> tuple[Formula, Formula]:
    """Return the rows of one kind of torch's fused attention; ``causal`` is the place of that flag in each."""
    forward = Formula(
        group=_GROUP,
        ops=(_SDPA.format(kind, ""),),
        flops=_FORWARD_FLOPS + _CAUSAL,
        moves=_FORWARD_MOVES,
        work=lambda inputs: _forward(inputs, causal=causal[0]),
        is_counted=True,
    )
    back = Formula(
        group=_GROUP,
        ops=(_SDPA.format(kind, "_backward"),),
        flops=_BACKWARD_FLOPS + _CAUSAL,
        moves=_BACKWARD_MOVES,
        work=lambda inputs: _backward(inputs, causal=causal[1]),
        is_counted=True,
    )
    return forward, back


def _uncounted_row(op: str, *, causal: int, is_backward: bool = False) -> Formula:
    """Return the row of an op that torch's counter does not know; ``causal`` is the place of the flag."""
    flops, moves = (_BACKWARD_FLOPS, _BACKWARD_MOVES) if is_backward else (_FORWARD_FLOPS, _FORWARD_MOVES)
    count = _backward if is_backward else _forward
    return Formula(
        group=_GROUP,
        ops=(op,),
        flops=f"{flops}; half with a causal mask",
        moves=moves,
        work=lambda inputs: count(inputs, causal=causal)._replace(counted=None),
    )


def _sequence_row(ops: tuple[str, ...], *, causal: int, first: int = 0, lengths: int | None = None) -> Formula:
    """Return the row of attention of batch, length, heads and features, or of sequences that follow one another.

    ``first`` is the place of the query, ``causal`` that of the flag, and ``lengths`` that of where sequences begin.
    """
    said = ". Sequences in one tensor count as if all were as long" if lengths is not None else ""
    if first:
        return Formula(
            group=_GROUP,
            ops=ops,
            flops=f"{_BACKWARD_FLOPS}; half with a causal mask{said}",
            moves=_BACKWARD_MOVES,
            work=lambda inputs: _rows_first(inputs, first=first, causal=causal, lengths=lengths, is_backward=True),
        )
    return Formula(
        group=_GROUP,
        ops=ops,
        flops=f"{_FORWARD_FLOPS}; half with a causal mask{said}. Keys in pages count by the range around the call",
        moves=_FORWARD_MOVES,
        work=lambda inputs: _sequences(inputs, causal=causal, lengths=lengths or len(inputs.shapes)),
    )


def _both(op: str) -> tuple[str, str]:
    """Return the names of an op of FlashAttention 2, which its first versions with ops called otherwise."""
    return f"flash_attn::{op}", f"flashattn::{op}"


FORMULAS = (
    *_sdpa("flash", (4, 11)),
    *_sdpa("efficient", (6, 11)),
    *_sdpa("cudnn", (6, 14)),
    # torch's counter lacks those of the CPU, which take the same inputs.
    Formula(
        group=_GROUP,
        ops=("aten::_scaled_dot_product_flash_attention_for_cpu",),
        flops=_FORWARD_FLOPS + _CAUSAL,
        moves=_FORWARD_MOVES,
        work=lambda inputs: _forward(inputs, causal=4),
        is_counted=True,
    ),
    Formula(
        group=_GROUP,
        ops=("aten::_scaled_dot_product_flash_attention_for_cpu_backward",),
        flops=_BACKWARD_FLOPS + _CAUSAL,
        moves=_BACKWARD_MOVES,
        work=lambda inputs: _backward(inputs, causal=7),
        is_counted=True,
    ),
    _uncounted_row("aten::_scaled_dot_product_fused_attention_overrideable", causal=5),
    _uncounted_row("aten::_scaled_dot_product_fused_attention_overrideable_backward", causal=13, is_backward=True),
    _uncounted_row("aten::_cudnn_attention_forward", causal=10),
    _sequence_row(("aten::_efficient_attention_forward",), causal=9, lengths=4),
    _sequence_row(
        ("xformers::efficient_attention_forward_cutlass", "xformers::efficient_attention_forward_ck"),
        causal=9,
        lengths=4,
    ),
    _sequence_row(("xformers_flash::flash_fwd",), causal=10, lengths=3),
    _sequence_row(("FlashAttnVarlenFunc",), causal=9, lengths=3),
    _sequence_row(("_vllm_fa2_C::varlen_fwd",), causal=15, lengths=4),
    _sequence_row(("flash_attn_3::fwd", "_vllm_fa3_C::fwd", "sgl_kernel::fwd"), causal=24, lengths=7),
    _sequence_row(("aiter::mha_varlen_fwd", "aiter::fmha_v3_varlen_fwd"), causal=12, lengths=3),
    _sequence_row(("aten::_flash_attention_backward",), first=1, causal=11, lengths=6),
    _sequence_row(("aten::_efficient_attention_backward",), first=1, causal=14, lengths=6),
    _sequence_row(("flash_attn_3::bwd",), first=1, causal=16, lengths=9),
    _sequence_row(("aiter::mha_bwd", "aiter::fmha_v3_bwd"), first=1, causal=8),
    _sequence_row(("aiter::mha_varlen_bwd", "aiter::fmha_v3_varlen_bwd"), first=1, causal=13, lengths=6),
    Formula(
        group=_GROUP,
        ops=("_C::paged_attention_v1",),
        flops=_OF_REQUESTS,
        moves=_OF_REQUESTS_MOVES,
        work=lambda inputs: _of_pages(inputs, query=1, heads=4),
    ),
    Formula(
        group=_GROUP,
        ops=("_C::paged_attention_v2", "_rocm_C::paged_attention"),
        flops=_OF_REQUESTS,
        moves=_OF_REQUESTS_MOVES,
        work=lambda inputs: _of_pages(inputs, query=4, heads=7),
    ),
    Formula(
        group=_GROUP,
        ops=("aten::_flash_attention_forward",),
        flops=f"{_FORWARD_FLOPS}; half with a causal mask. Sequences in one tensor count as if all were as long",
        moves=_FORWARD_MOVES,
        work=lambda inputs: _rows_first(inputs, first=0, causal=8, lengths=3),
    ),
    Formula(
        group=_GROUP,
        ops=(*_both("_flash_attn_forward"), "aiter::_flash_attn_forward", "FlashAttnFunc"),
        flops=f"{_FORWARD_FLOPS}; half with a causal mask",
        moves=_FORWARD_MOVES,
        work=lambda inputs: _rows_first(inputs, first=0, causal=5),
    ),
    Formula(
        group=_GROUP,
        ops=("aiter::fmha_v3_fwd", "aiter::mha_fwd"),
        flops=f"{_FORWARD_FLOPS}; half with a causal mask",
        moves=_FORWARD_MOVES,
        work=lambda inputs: _rows_first(inputs, first=0, causal=5),
    ),
    Formula(
        group=_GROUP,
        ops=(*_both("_flash_attn_backward"), "aiter::_flash_attn_backward"),
        flops=f"{_BACKWARD_FLOPS}; half with a causal mask",
        moves=_BACKWARD_MOVES,
        work=lambda inputs: _rows_first(inputs, first=1, causal=11, is_backward=True),
    ),
    Formula(
        group=_GROUP,
        ops=_both("_flash_attn_varlen_forward"),
        flops=f"{_FORWARD_FLOPS}, as if all sequences were as long; half with a causal mask",
        moves=_FORWARD_MOVES,
        work=lambda inputs: _varlen(inputs, first=0, lengths=3, causal=9),
    ),
    Formula(
        group=_GROUP,
        ops=_both("_flash_attn_varlen_backward"),
        flops=f"{_BACKWARD_FLOPS}, as if all sequences were as long; half with a causal mask",
        moves=_BACKWARD_MOVES,
        work=lambda inputs: _varlen(inputs, first=1, lengths=9, causal=15, is_backward=True),
    ),
    Formula(
        group=_GROUP,
        ops=("triton_tem_fused_flex_attention_backward*",),
        flops=f"{_BACKWARD_FLOPS}; what a mask saves is not recorded",
        moves=_BACKWARD_MOVES,
        work=lambda inputs: _flexible(inputs, is_backward=True),
    ),
    Formula(
        group=_GROUP,
        ops=("triton_tem_fused_flex_attention*", "triton_flex_attention*"),
        flops=f"{_FORWARD_FLOPS}; what a mask saves is not recorded",
        moves=_FORWARD_MOVES,
        work=lambda inputs: _flexible(inputs, is_backward=False),
    ),
    Formula(
        group=_GROUP,
        ops=("vllm::unified_attention*", "aiter::mha_batch_prefill"),
        flops=_OF_REQUESTS,
        moves=_OF_REQUESTS_MOVES,
        work=_paged,
    ),
    Formula(
        group=_GROUP,
        ops=("_C::rotary_embedding", "sgl_kernel::rotary_embedding"),
        flops="3 an element of query and key",
        moves="query and key, read and written",
        work=lambda inputs: _vectors(inputs, 1, 2),
    ),
    Formula(
        group=_GROUP,
        ops=("FusedRoPEFunc",),
        flops="3 an element of the first input",
        moves="the first input and the output",
        work=lambda inputs: _vectors(inputs, 0),
    ),
)
