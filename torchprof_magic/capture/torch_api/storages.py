"""Where the storage of a tensor is in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def storage_address(tensor: torch.Tensor) -> int:
    """Return the address of the first byte of a tensor's storage, which is that of its block in torch's records.

    Raises ``RuntimeError`` for a tensor without a storage: a sparse or lazy one, or a wrapper.
    """
    return int(tensor.data_ptr() - tensor.storage_offset() * tensor.element_size())
