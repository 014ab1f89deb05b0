"""What a formula says of one call, and what a row of the table of formulas is."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003 - of a field
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.facts.ops.formulas.inputs import UnknownSizeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchprof_magic.facts.ops.formulas.inputs import Inputs, Tensor


class Work(NamedTuple):
    """What one call has to do: its operations, and the bytes that it has to read and write, each once.

    ``bytes`` is None where the size of a tensor is not known. ``dtype`` is the type that it computes in, as torch
    writes it, and ``is_matrix`` is set for products, which units for matrices can compute. ``counted`` is what
    ``torch.utils.flop_counter`` counts, None for what it does not count; it is more than ``flops`` where a causal mask
    saves half.
    """

    flops: int
    bytes: int | None
    dtype: str = ""
    is_matrix: bool = False
    counted: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """One row of the table: the ops that it is of, and what it counts.

    ``ops`` are whole names, or patterns with ``*`` at the end. ``flops`` and ``moves`` are the formulas in words, for
    the docs, and ``work`` computes them; it raises ``ValueError`` where the inputs do not tell. ``inside`` is the op
    inside its calls whose tensors it has to know.
    """

    group: str
    ops: tuple[str, ...]
    flops: str
    moves: str
    work: Callable[[Inputs], Work]
    is_counted: bool = False
    inside: str = ""


def bytes_of(tensors: Iterable[Tensor]) -> int | None:
    """Return the bytes of some tensors together, None if the size of one is not known."""
    try:
        return sum(tensor.bytes for tensor in tensors)
    except UnknownSizeError:
        return None


def products(flops: int, moved: int | None, dtype: str, *, needed: int | None = None) -> Work:
    """Return the work of products that torch counts; ``needed`` is less where a mask saves some of it."""
    return Work(flops if needed is None else needed, moved, dtype, is_matrix=True, counted=flops)
