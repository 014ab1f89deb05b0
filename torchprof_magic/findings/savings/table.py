"""What would lower the peak of memory, each with an estimate of the bytes and the time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.memory.alive import is_snapshot
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.sums import LARGEST
from torchprof_magic.findings.savings.lower_peak import Curve, device_curves, peak_without
from torchprof_magic.findings.savings.saved_by_clearing import savings_by_clearing
from torchprof_magic.findings.savings.saved_by_modules import OFFLOAD_BYTES_PER_SECOND, savings_by_modules
from torchprof_magic.findings.savings.saved_by_release import Release, release_of_growth
from torchprof_magic.findings.savings.saved_by_sizes import savings_by_batch, savings_by_dtype
from torchprof_magic.findings.savings.saving import LEAST_BYTES, LEAST_SHARE, Saving
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.model.units import format_bytes, format_file_size

if TYPE_CHECKING:
    from torchprof_magic.model.trace import DType, Trace

ACTIONS = {
    "release_growth": "Releasing what `report.leaks` has found for certain at the end of the step that allocates it. "
    "What it saves grows with every step, so it is listed whatever it saves at the recorded peak.",
    "activation_checkpointing": "`torch.utils.checkpoint` around the forward of the module. Activations that are "
    "allocated in it and released in its backward pass are not kept from its end until its backward pass begins, and "
    "are then computed again, all at once. What it returns stays.",
    "activation_offload": "Moving the same activations to the host, as `torch.autograd.graph.save_on_cpu` does, until "
    "the node that needs them. For accelerators only.",
    "set_to_none": "`zero_grad(set_to_none=True)` just after the step of the optimizer. Only if gradients are in "
    "memory over the next forward pass.",
    "lower_precision_parameters": "16-bit parameters in place of float32.",
    "lower_precision_gradients": "16-bit gradients in place of float32.",
    "lower_precision_optimizer_state": "16-bit state of the optimizer in place of float32.",
    "smaller_batch": "Half the batch: half of the activations, inputs and intermediate results of forward and "
    "backward. Parameters, gradients and optimizer state stay.",
}
_TITLES = {
    "release_growth": "Releasing what every step leaves behind",
    "activation_checkpointing": "Checkpointing",
    "activation_offload": "Offloading activations of",
    "set_to_none": "zero_grad(set_to_none=True) after each step",
    "lower_precision_parameters": "16-bit parameters",
    "lower_precision_gradients": "16-bit gradients",
    "lower_precision_optimizer_state": "16-bit optimizer state",
    "smaller_batch": "Half the batch",
}
COLUMNS = (
    Column(
        name="action",
        title="Change",
        unit="text",
        definition="The change of the program. "
        + " ".join(f"{name}: {text}" for name, text in ACTIONS.items())
        + " Each one is estimated by itself: savings do not add up.",
    ),
    Column(
        name="module",
        title="Module",
        unit="code",
        definition="The module that is wrapped, or several of one class that are wrapped one by one, such as "
        "`each of 24 DecoderLayer`; null for changes of the whole program.",
    ),
    Column(
        name="device",
        title="Device",
        unit="text",
        definition="cpu, or type and number of the device, such as cuda:0.",
        is_minor=True,
    ),
    Column(
        name="peak_bytes",
        title="Peak now",
        unit="bytes",
        definition="Highest allocated bytes on the device, in the recording cycle where they are highest.",
    ),
    Column(
        name="saved_bytes",
        title="Estimated saving",
        unit="bytes",
        definition="Peak now less the estimated peak. The curve of `report.memory` is computed without the bytes that "
        "the change removes, for the times at which it removes them; its highest point may then be elsewhere.",
        has_bar=True,
    ),
    Column(
        name="bytes_per_step",
        title="More per step",
        unit="bytes",
        definition="Bytes by which the saving grows with every further step, for memory that grows; null for others.",
    ),
    Column(
        name="added_time_ns",
        title="Estimated time",
        unit="ns",
        definition="Time that it adds to a step: of the recorded forward of the module, on the device if the memory is "
        "on one, or of moving the bytes there and back at "
        f"{format_file_size(OFFLOAD_BYTES_PER_SECOND)} a second. In a recording without steps, in all; null if not "
        "known.",
    ),
    Column(
        name="arithmetic",
        title="How it is estimated",
        unit="text",
        definition="The numbers behind the estimate, in one sentence.",
    ),
)
_TEXT = ("action", "module", "device", "arithmetic")
SCHEMA: dict[str, DType] = {column.name: pl.String if column.name in _TEXT else pl.Int64 for column in COLUMNS}


@once_per_trace
def savings_table(trace: Trace) -> Table:
    """Return one row per change that would lower a peak by at least 1 %, by estimated saving, the largest first.

    Memory that grows has a row of its own whatever it saves at the recorded peak. Empty if
    memory was not recorded.
    """
    is_without = trace.memory.height == 0
    curves = () if is_without or _is_damaged(trace) or is_snapshot(trace) else device_curves(trace)
    rows = [row for curve in curves for row in _rows(trace, curve)]
    frame = pl.DataFrame(rows, schema=SCHEMA).sort("saved_bytes", descending=True, maintain_order=True)
    return Table(frame=frame, columns=COLUMNS, sort_by="saved_bytes")


def has_savings(trace: Trace) -> bool:
    """Return whether any change would lower a peak."""
    return savings_table(trace).frame.height > 0


def title_of(action: str, module: str | None) -> str:
    """Return a change of the program in words, such as ``Checkpointing each of 4 Block``."""
    return f"{_TITLES[action]} {module}" if module else _TITLES[action].removesuffix(" of")


def _is_damaged(trace: Trace) -> bool:
    """Return whether the recorded sizes are larger than any memory, so that their sums would overflow."""
    return float(trace.memory["delta_bytes"].cast(pl.Float64).abs().sum()) * 4 >= LARGEST


def _rows(trace: Trace, curve: Curve) -> list[dict[str, object]]:
    release = release_of_growth(trace, curve)
    if release is not None and release.bytes_per_step < LEAST_BYTES:
        release = None
    found = (
        *savings_by_modules(trace, curve),
        *savings_by_clearing(trace, curve),
        *savings_by_dtype(trace, curve),
        *savings_by_batch(trace, curve),
    )
    rows = [row for saving in found if (row := _row(curve, saving)) is not None]
    return [*rows, *([] if release is None else [_row_of_growth(curve, release)])]


def _row(curve: Curve, saving: Saving) -> dict[str, object] | None:
    # Before the curve is computed: no change saves more than it removes at the peak.
    if saving.removal.held_at(curve.peak_row).sum() < curve.peak_bytes * LEAST_SHARE:
        return None
    peak = peak_without(curve, saving.removal)
    if curve.peak_bytes - peak < max(curve.peak_bytes * LEAST_SHARE, LEAST_BYTES):
        return None
    return _written(curve, saving.action, saving.reason, peak) | {
        "module": saving.module,
        "added_time_ns": saving.added_time_ns,
    }


def _row_of_growth(curve: Curve, release: Release) -> dict[str, object]:
    peak = peak_without(curve, release.removal)
    return _written(curve, "release_growth", release.reason, peak) | {"bytes_per_step": release.bytes_per_step}


def _written(curve: Curve, action: str, reason: str, peak: int) -> dict[str, object]:
    """Return what a row says of the peak without what a change removes."""
    return {
        "action": action,
        "device": curve.device,
        "peak_bytes": curve.peak_bytes,
        "saved_bytes": curve.peak_bytes - peak,
        "arithmetic": f"Estimate: {reason}, so the peak would be {format_bytes(peak)} in place of "
        f"{format_bytes(curve.peak_bytes)}.",
    }


def savings_view(trace: Trace) -> Table:
    """Return the table with the actions in words."""
    table = savings_table(trace)
    words = pl.col("action").str.replace_all("_", " ")
    words = words.str.slice(0, 1).str.to_uppercase() + words.str.slice(1)
    columns = tuple(replace(column, is_minor=column.name in ("device", "peak_bytes")) for column in table.columns)
    return replace(table, frame=table.frame.with_columns(words.alias("action")), columns=columns)
