"""Advice about types and layouts of the heavy ops: TF32, autocast, sizes of half precision, channels last."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.shared import in_category, is_named
from torchprof_magic.findings.advice.kinds import DEVICES, Advice, Effect
from torchprof_magic.findings.advice.times import (
    by_place,
    device_work_of,
    each,
    is_device_the_limit,
    ns_in_steps,
    rows_named,
    spans_of,
    step_ns,
    within_steps,
)
from torchprof_magic.findings.verdict.accounts import device_account
from torchprof_magic.model.units import format_ns, format_ratio
from torchprof_magic.tables.ops.kernels import launching_ops

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# From this share of a step on, the heavy ops are worth another type.
LEAST_HEAVY_SHARE = 0.2
# A device that works less waits for the host, whatever the types are.
LEAST_BUSY_SHARE = 0.5
# Shorter ones mostly cost their call, which a smaller type does not make cheaper.
LEAST_HEAVY_NS = 100_000
LEAST_CONVOLUTION_SHARE = 0.5
TF32_LINK = "https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices"
AUTOCAST_LINK = "https://docs.pytorch.org/docs/stable/amp.html"
LAYOUT_LINK = "https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html"
SIZES_LINK = "https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html"
# Devices with units for TF32 (compute capability 8.0 and later), and with tensor cores at all (7.0 and later).
_HAS_TF32 = (
    r"\b(A100|A800|A30|A40|A10G?|A16|A2|H100|H200|H800|H20|GH200|B100|B200|GB200|L4|L40S?|RTX (30|40|50)[0-9][0-9]|"
    r"RTX A[0-9]000)\b"
)
_HAS_TENSOR_CORES = rf"{_HAS_TF32}|\b(V100|T4|TITAN V|TITAN RTX|Quadro RTX|RTX 20[0-9][0-9])\b"
# Kernels that multiply matrices or convolve in float32, without TF32.
_FLOAT32 = r"(?i)sgemm|simt_s|(^|_)f32f32_f32f32|_engine<float|winograd\w*_?(nchw|fp32|Ftz)|scudnn"
_TF32 = r"(?i)tf32|s1688"
_HALF_KERNEL = r"(?i)(^|_)(h|bf16|fp?16)|half|bfloat"
_HALF = ("c10::Half", "c10::BFloat16")
_PRODUCT = r"^aten::(mm|addmm|bmm|baddbmm)$"
_LAYOUT_KERNEL = r"(?i)nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw"
_MULTIPLE = 8


def tf32_off(trace: Trace) -> Advice | None:
    """Advise TF32 if a device that has it multiplies in plain float32."""
    if not _is_device(trace, _HAS_TF32) or not is_device_the_limit(trace):
        return None
    kernels = _kernels(trace, _FLOAT32, but=_TF32)
    spent = ns_in_steps(trace, spans_of(trace, kernels))
    if spent < LEAST_HEAVY_SHARE / 4 * step_ns(trace):
        return None
    return Advice(
        rule="tf32_off",
        title="Multiply in TF32",
        fix='`torch.set_float32_matmul_precision("high")`',
        evidence=f"Products and convolutions in float32 take {format_ns(spent)} {each(trace)}, "
        f"{format_ratio(spent / step_ns(trace))} of it. This device has units for TF32, which keeps the range of "
        "float32 and 10 bits of its fraction.",
        op=_costliest_op(trace, kernels),
        certainty="guess",
        link=TF32_LINK,
    )


def autocast(trace: Trace) -> Advice | None:
    """Advise lower precision if products in float32 take much of a step, and the hardware has units for less."""
    return _autocast_on_device(trace) if trace.has_device else _autocast_on_cpu(trace)


def _autocast_on_device(trace: Trace) -> Advice | None:
    if not _is_device(trace, _HAS_TENSOR_CORES):
        return None
    account = device_account(trace)
    if account is None or account.busy_ns < LEAST_BUSY_SHARE * account.whole_ns:
        return None
    kernels = _kernels(trace, rf"{_FLOAT32}|{_TF32}", but=_HALF_KERNEL)
    spent = ns_in_steps(trace, spans_of(trace, kernels))
    if spent < LEAST_HEAVY_SHARE * step_ns(trace):
        return None
    has_bfloat16 = _is_device(trace, _HAS_TF32)  # both came with the same generation
    dtype = "bfloat16" if has_bfloat16 else "float16"
    return Advice(
        rule="autocast",
        title="Try lower precision",
        fix=f'`torch.autocast("cuda", dtype=torch.{dtype})`' + ("" if has_bfloat16 else " with a `GradScaler`"),
        evidence=f"Products and convolutions in float32 take {format_ns(spent)} {each(trace)} of the device's "
        f"{format_ns(account.busy_ns / account.steps)}; it has tensor cores for {dtype}.",
        op=_costliest_op(trace, kernels),
        certainty="guess",
        link=AUTOCAST_LINK,
    )


def _costliest_op(trace: Trace, kernels: IntArray) -> str:
    """Return the op that launched most of the time of some kernels, or their first name if none is known."""
    work = pl.DataFrame({"op": launching_ops(trace, kernels), "ns": trace.events["dur_ns"].gather(kernels)})
    sums = work.filter(pl.col("op") != "").group_by("op", maintain_order=True).agg(pl.col("ns").sum())
    if sums.height == 0:
        return str(trace.events["name"][int(kernels[0])])
    return str(sums.sort("ns", descending=True, maintain_order=True)["op"][0])


def _autocast_on_cpu(trace: Trace) -> Advice | None:
    """Return advice for CPUs with AMX, if it is known that large float32 products take much of the time."""
    if "amx_bf16" not in trace.meta.cpu_features or not trace.meta.has_shapes:
        return None
    rows = rows_named(trace, _PRODUCT)
    rows = rows[trace.events["dur_ns"].to_numpy()[rows] >= LEAST_HEAVY_NS]
    is_float = trace.events["dtypes"].gather(rows).cast(pl.String).str.starts_with('["float"').fill_null(value=False)
    rows = rows[is_float.to_numpy()]
    spent = ns_in_steps(trace, spans_of(trace, rows))
    if len(rows) == 0 or spent < LEAST_HEAVY_SHARE * step_ns(trace):
        return None
    file, line, _ = by_place(trace, rows)[0]
    return Advice(
        rule="autocast",
        title="Try lower precision",
        fix='`torch.autocast("cpu", dtype=torch.bfloat16)`',
        evidence=f"Products of matrices in float32 take {format_ns(spent)} {each(trace)}, "
        f"{format_ratio(spent / step_ns(trace))} of it. This CPU has AMX units for bfloat16.",
        file=file,
        line=line,
        op=str(trace.events["name"][int(rows[0])]),
        certainty="guess",
        link=AUTOCAST_LINK,
    )


def odd_half_sizes(trace: Trace) -> Advice | None:
    """Advise sizes that are multiples of 8 for products in half precision on a device with tensor cores."""
    if not trace.meta.has_shapes or not _is_device(trace, _HAS_TENSOR_CORES) or not is_device_the_limit(trace):
        return None
    rows = rows_named(trace, _PRODUCT)
    calls = trace.events[rows.tolist()].select("name", "shapes", "dtypes").with_columns(pl.Series("row", rows))
    distinct = calls.group_by("name", "shapes", "dtypes").agg("row")
    odd, example = list[int](), ""
    for name, shapes, dtypes, mine in distinct.iter_rows():  # one turn for each distinct call
        sizes = _odd_sizes(str(name), shapes, dtypes)
        if sizes:
            odd += mine
            example = example or sizes
    if not odd:
        return None
    work = device_work_of(trace, np.array(sorted(odd), np.int64))
    spent = ns_in_steps(trace, spans_of(trace, work))
    if spent < LEAST_HEAVY_SHARE / 4 * step_ns(trace):
        return None
    file, line, first = by_place(trace, np.array(sorted(odd), np.int64))[0]
    return Advice(
        rule="odd_half_sizes",
        title="Round sizes up to a multiple of 8",
        fix="pad vocabulary, hidden sizes or the batch",
        evidence=f"Products in half precision with odd sizes, such as {example}, take {format_ns(spent)} "
        f"{each(trace)}. Tensor cores work on multiples of 8.",
        file=file,
        line=line,
        op=str(trace.events["name"][int(first[0])]),
        certainty="guess",
        link=SIZES_LINK,
    )


def _odd_sizes(name: str, shapes: str | None, dtypes: str | None) -> str:
    """Return the shapes of a product in half precision of which one is no multiple of 8, as text; empty otherwise."""
    if shapes is None or dtypes is None or not any(half in dtypes for half in _HALF):
        return ""
    try:
        dims = [shape for shape in json.loads(shapes) if isinstance(shape, list) and len(shape) > 1]
    except (ValueError, RecursionError):
        return ""
    matrices = dims[-2:] if name in ("aten::addmm", "aten::baddbmm") else dims[:2]
    sizes = [size for shape in matrices for size in shape[-2:]]
    if len(matrices) < 2 or not all(isinstance(size, int) for size in sizes):  # noqa: PLR2004 - two matrices
        return ""
    return " × ".join(map(str, matrices)) if any(size % _MULTIPLE and size > _MULTIPLE for size in sizes) else ""


def channels_last(trace: Trace) -> Advice | None:
    """Advise the layout that convolutions want, if they change the layout of what they get."""
    if trace.has_device:
        return _layouts_on_device(trace)
    return _layouts_on_cpu(trace)


def _layouts_on_device(trace: Trace) -> Advice | None:
    kernels = _kernels(trace, _LAYOUT_KERNEL)
    if len(kernels) == 0 or not is_device_the_limit(trace):
        return None
    spans = within_steps(trace, spans_of(trace, kernels))
    spent = ns_in_steps(trace, spans)
    return Advice(
        rule="channels_last",
        title="Keep images in the layout of the convolutions",
        fix="`model.to(memory_format=torch.channels_last)`, and the same for the input",
        evidence=f"cuDNN converts between NCHW and NHWC around its convolutions, which takes {format_ns(spent)} "
        f"{each(trace)}.",
        op=_costliest_op(trace, kernels),
        certainty="measured",
        link=LAYOUT_LINK,
        spans=spans,
        effect=Effect(where=DEVICES),
    )


def _layouts_on_cpu(trace: Trace) -> Advice | None:
    """Return advice if convolutions of oneDNN make outputs in plain layout, which `aten::as_strided_` in them shows."""
    convolutions = rows_named(trace, r"^aten::mkldnn_convolution$")
    plain = rows_named(trace, r"^aten::as_strided_$")
    parent = trace.events["parent"].to_numpy()
    chosen = convolutions[np.isin(convolutions, parent[plain])]
    chosen = chosen[trace.events["dur_ns"].to_numpy()[chosen] >= LEAST_HEAVY_NS]
    around = rows_named(trace, r"^aten::(conv2d|convolution_backward|batch_norm|max_pool2d|adaptive_avg_pool2d)$")
    spent = ns_in_steps(trace, spans_of(trace, around))
    if len(chosen) == 0 or spent < LEAST_CONVOLUTION_SHARE * step_ns(trace):
        return None
    file, line, _ = by_place(trace, chosen)[0]
    return Advice(
        rule="channels_last",
        title="Try channels_last",
        fix="`model.to(memory_format=torch.channels_last)`, and the same for the input",
        evidence=f"Convolutions, normalisation and pooling take {format_ns(spent)} {each(trace)} on tensors in plain "
        "layout (NCHW), which oneDNN converts for every convolution.",
        file=file,
        line=line,
        op="aten::mkldnn_convolution",
        certainty="guess",
        link=LAYOUT_LINK,
    )


def _is_device(trace: Trace, pattern: str) -> bool:
    """Return whether all devices of the recording have a name that matches."""
    meta = trace.meta
    names = pl.Series(meta.device_names or [name for _, name in meta.devices], dtype=pl.String)
    return len(names) > 0 and bool(names.str.contains(pattern).all())


def _kernels(trace: Trace, pattern: str, but: str = r"[^\s\S]") -> IntArray:
    """Return the kernels whose names match, but for those that also match ``but``; the longest first."""
    fits = is_named(trace, pattern) & ~is_named(trace, but)
    rows = np.flatnonzero(fits & in_category(trace, "kernel"))
    return rows[np.argsort(-trace.events["dur_ns"].to_numpy()[rows], kind="stable")]
