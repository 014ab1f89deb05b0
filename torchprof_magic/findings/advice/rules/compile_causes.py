"""What to change where torch.compile compiles again or breaks a graph, by the cause."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.model.guards import failed_guard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.model.guards import Cause

_DYNAMIC = "`torch.compile(..., dynamic=True)`, or pad to equal sizes"
_AS_TENSOR = "pass what varies as a tensor, or keep it the same in all steps"
# `tensor 'x' size mismatch at index 0`: a name and a dimension that mark_dynamic takes.
_SIZE_OF = re.compile(r"tensor '(?P<name>[A-Za-z_][A-Za-z0-9_.\[\]]*)' size mismatch at index (?P<dim>[0-9]+)")
_SIZES, _VALUES = "Compile once for all sizes", "Compile once for all values"


class Change(NamedTuple):
    """What to do about a cause: the title, and the change."""

    title: str
    fix: str


_CHANGES: dict[Cause, Change] = {
    "size": Change(_SIZES, _DYNAMIC),
    "dtype": Change("Call compiled code with one dtype", "convert the input before the call, such as `x.float()`"),
    "device": Change(
        "Call compiled code with one device", "move the input before the call, or compile once per device"
    ),
    "requires_grad": Change(
        "Call compiled code with the same requires_grad",
        "`.detach()` the input, or let it require a gradient, in all calls",
    ),
    "mode": Change(
        "Call compiled code in one mode",
        "keep `no_grad`, `inference_mode`, autocast and `train()` or `eval()` the same, or compile once per mode",
    ),
    "module": Change(
        "Call compiled code in one mode", "call `train()` and `eval()` rarely, or compile the model once per mode"
    ),
    "length": Change("Compile once for all lengths", "pass a tensor in place of a list, or lists of one length"),
    "global": Change("Compile once for all values", "pass the global as an argument that is a tensor"),
    "attribute": Change("Compile once for all values", "keep what varies in a buffer or a tensor, not in an attribute"),
    "type": Change(
        "Call compiled code with objects of one type", "pass the same type, or the same object, in all calls"
    ),
    "backend": Change("Compile with one backend", "pass the same backend object to each `torch.compile`"),
    "value": Change(_VALUES, _AS_TENSOR),
}
_OTHER = Change(_VALUES, _AS_TENSOR)
# What breaks graphs, by words of torch's reason; the first that is found counts.
_BREAKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\bprint\b|logging|\bwarn", re.IGNORECASE), "remove the output, or move it out of the function"),
    (
        re.compile(r"\.item\b|capture_scalar_outputs|\.tolist\b|aten\._local_scalar_dense", re.IGNORECASE),
        "keep the value as a tensor, or set `torch._dynamo.config.capture_scalar_outputs = True`",
    ),
    (
        re.compile(r"data-dependent (branch|jump|control)|generic_jump", re.IGNORECASE),
        "`torch.where` in place of `if` on a tensor, or `torch.cond`",
    ),
    (
        re.compile(r"dynamic (shape|output)|nonzero|capture_dynamic_output_shape_ops", re.IGNORECASE),
        "avoid sizes that depend on values, or set `torch._dynamo.config.capture_dynamic_output_shape_ops = True`",
    ),
    (
        re.compile(r"torch\._dynamo\.(disable|graph_break)|marked as skip|skip(ped|file)", re.IGNORECASE),
        "call the function outside of the compiled code, or let torch look into it",
    ),
    (
        re.compile(r"builtin|does not know how to trace|unsupported", re.IGNORECASE),
        "move the call out of the compiled function",
    ),
)
_ANY_BREAK = "take what torch cannot trace, such as `print` and `.item()`, out of the compiled function"


def change_for(cause: Cause, guards: Sequence[str]) -> Change:
    """Return what to do about guards that failed for one cause; the tensor whose size varies is named."""
    found = _CHANGES.get(cause, _OTHER)
    matches = [match for match in map(_SIZE_OF.search, guards) if match is not None] if cause == "size" else []
    sizes = dict.fromkeys((match["name"], match["dim"]) for match in matches)
    if len(sizes) != 1:
        return found
    ((name, dim),) = sizes
    marked = f"`torch._dynamo.mark_dynamic({name}, {dim})` before the call"
    return Change(found.title, f"`torch.compile(..., dynamic=True)`, or {marked}, or pad to equal sizes")


def causes_of(guards: Sequence[str]) -> dict[Cause, list[str]]:
    """Return the guards by cause, in order."""
    found: dict[Cause, list[str]] = {}
    for guard in guards:
        found.setdefault(failed_guard(guard).cause, []).append(guard)
    return found


def fix_of_break(reason: str) -> str:
    """Return what to change in a line that breaks a graph, by torch's reason."""
    return next((fix for pattern, fix in _BREAKS if pattern.search(reason)), _ANY_BREAK)
