"""What smaller types and smaller batches would save."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.memory.block_categories import block_categories
from torchprof_magic.facts.memory.blocks import memory_blocks
from torchprof_magic.findings.savings.lower_peak import Curve, Removal
from torchprof_magic.findings.savings.saving import Saving
from torchprof_magic.model.trace import MEMORY_CATEGORIES
from torchprof_magic.model.units import format_bytes
from torchprof_magic.tables.memory.block_table import allocations_table
from torchprof_magic.tables.source.modules import module_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

# The categories that can be kept in another type, with what they are called and the verb for that.
_KEPT = (
    ("parameter", "parameters", "take"),
    ("gradient", "gradients", "take"),
    ("optimizer_state", "optimizer_state", "takes"),
)
_FLOAT_BYTES = 4
_ITEM_BYTES = {"float64": 8, "int64": 8, "complex64": 8, "float16": 2, "bfloat16": 2, "int16": 2, "bool": 1}
_ITEM_BYTES |= {"int8": 1, "uint8": 1, "complex128": 16}
_OF_BATCH = ("activation", "input")
_OF_PASS = ("temporary", "autograd")


def savings_by_dtype(trace: Trace, curve: Curve) -> Iterator[Saving]:
    """Yield what 16-bit parameters, gradients and optimizer state would save, one by one."""
    frame = allocations_table(trace).frame
    dtype = frame["dtype"]
    # Without a live run the type is not known: sizes of whole 4 bytes are taken for float32.
    is_assumed = (dtype.is_null() & (frame["size_bytes"] % _FLOAT_BYTES == 0)).to_numpy()
    is_float = (dtype == "float32").fill_null(value=False).to_numpy() | is_assumed
    for name, plural, take in _KEPT:
        chosen = _blocks(trace, curve, (name,)) & is_float
        removal = _halved(trace, curve, chosen)
        held = 2 * int(removal.held_at(curve.peak_row).sum())
        kind = "assumed to be float32" if is_assumed[chosen].any() else "of float32"
        reason = f"{plural.replace('_', ' ')} {kind} {take} {format_bytes(held)} "
        reason += "at the peak, and 16-bit types need half of that"
        yield Saving(f"lower_precision_{plural}", None, removal, None, reason)


def savings_by_batch(trace: Trace, curve: Curve) -> Iterator[Saving]:
    """Yield what half the batch would save, unless the model is called with single samples."""
    if _is_single(trace):
        return
    frame = allocations_table(trace).frame
    fixed = frame.filter(pl.col("category").is_in(["parameter", "gradient", "optimizer_state"]))["size_bytes"].unique()
    is_fixed_size = frame["size_bytes"].is_in(fixed.implode()).to_numpy()
    is_in_optimizer = (frame["phase"] == "optimizer").fill_null(value=False).to_numpy()
    of_pass = _blocks(trace, curve, _OF_PASS) & ~is_fixed_size & ~is_in_optimizer
    chosen = (_blocks(trace, curve, _OF_BATCH) & ~_is_larger_storage(frame)) | of_pass
    removal = _halved(trace, curve, chosen)
    held = 2 * int(removal.held_at(curve.peak_row).sum())
    reason = f"activations, inputs and intermediate results take {format_bytes(held)} at the peak, and with half the "
    reason += "batch they would take half of that, if all of them grow with it"
    yield Saving("smaller_batch", None, removal, None, reason)


def _blocks(trace: Trace, curve: Curve, categories: tuple[str, ...]) -> BoolArray:
    codes = [MEMORY_CATEGORIES.index(name) for name in categories]
    return np.isin(block_categories(trace), codes) & (memory_blocks(trace).group == curve.group)


def _halved(trace: Trace, curve: Curve, chosen: BoolArray) -> Removal:
    """Return half of some blocks for as long as they live."""
    blocks = memory_blocks(trace)
    begin: IntArray = curve.index_of(blocks.born[chosen])
    return Removal(begin, curve.index_of(blocks.ended[chosen]), blocks.size_bytes[chosen] // 2)


def _is_single(trace: Trace) -> bool:
    """Return whether every model gets tensors whose first dimension is 1."""
    sites, runs = module_runs(trace)
    used = sites[np.unique(runs.site)].filter(pl.col("parent") < 0)
    first = used["inputs"].cast(pl.String).str.extract(r"^\[([0-9]+)[,\]]").drop_nulls()
    return bool(len(first) and (first == "1").all())


def _is_larger_storage(frame: pl.DataFrame) -> BoolArray:
    """Return which inputs are views of more data, as slices of a data set that is in memory as a whole."""
    inputs = frame.with_row_index("row").filter((pl.col("category") == "input") & pl.col("shape").is_not_null())
    elements = (
        pl.col("shape")
        .str.extract_all(r"[0-9]+")
        .list.eval(pl.element().cast(pl.Float64, strict=False))
        .list.eval(pl.element().product())
        .list.first()
        .fill_null(1.0)
    )
    item = pl.col("dtype").replace_strict(_ITEM_BYTES, default=_FLOAT_BYTES, return_dtype=pl.Float64)
    larger = inputs.filter(pl.col("size_bytes") > 2 * elements * item + 512)
    found = np.zeros(frame.height, np.bool_)
    found[larger["row"].to_numpy()] = True
    return found
