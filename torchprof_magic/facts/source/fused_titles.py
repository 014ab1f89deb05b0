"""What kernels that torch.compile generated are called: by what they fuse."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import polars as pl

from torchprof_magic.facts.device.kernel_names import kernel_title, titles_of
from torchprof_magic.facts.shared import device_rows, once_per_trace
from torchprof_magic.facts.source.fx_nodes import fx_marks, own_nodes
from torchprof_magic.model.meta import MAX_TEXT, shortened
from torchprof_magic.model.shapes import Table, Tree

if TYPE_CHECKING:
    from torchprof_magic.model.shapes import Shape
    from torchprof_magic.model.trace import Trace

AnyShape = TypeVar("AnyShape", bound="Shape")
_GENERATED = r"^(graph_[0-9]+_)?(cpp|triton)_"


@once_per_trace
def shown_titles(trace: Trace) -> dict[str, str]:
    """Return how names of events are shown, where that differs from the names; no two are shown alike.

    Kernels of devices have short titles. A kernel of Inductor is called by what it fuses, ``relu · add``, as far as the
    process that compiled it knew; those that fuse the same are numbered.
    """
    titles = titles_of(trace) | dict.fromkeys(fused_names(trace), "")
    taken = set(titles.values())
    for name, words in fused_names(trace).items():
        number, title = 1, words
        while title in taken:
            number += 1
            title = f"{words} ({number})"
        taken.add(title)
        titles[name] = title
    return titles


@once_per_trace
def fused_titles(trace: Trace) -> dict[str, str]:
    """Return how the names of generated kernels are shown, as ``shown_titles`` does."""
    return {name: shown_titles(trace)[name] for name in fused_names(trace)}


def with_fused_titles(trace: Trace, shape: AnyShape) -> AnyShape:
    """Return a shape for people to read: in a table or a tree, generated kernels are called by what they fuse."""
    titles = fused_titles(trace)
    if not titles or not isinstance(shape, Table | Tree) or "name" not in shape.frame.columns:
        return shape
    return replace(shape, frame=shape.frame.with_columns(pl.col("name").cast(pl.String).replace(titles)))


def with_fused_names(trace: Trace, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame whose generated kernels are called by what they fuse; those that fuse the same have one name."""
    return frame.with_columns(pl.col("name").cast(pl.String).replace(fused_names(trace)))


def shown_title(trace: Trace, name: str, *, is_kernel: bool) -> str:
    """Return how the name of an op, or of a kernel of a device, is shown in a sentence."""
    fused = fused_titles(trace).get(name)
    return fused or (kernel_title(name) if is_kernel else name)


@once_per_trace
def fused_names(trace: Trace) -> dict[str, str]:
    """Return what each generated kernel fuses, by its name: in most of its time, if it is called for several things."""
    node = own_nodes(trace)
    is_kernel = fx_marks(trace).is_unit.copy()
    is_kernel[device_rows(trace)] = True
    rows = np.flatnonzero(is_kernel & (node >= 0))
    frame = pl.DataFrame(
        {
            "name": trace.events["name"].gather(rows).cast(pl.String),
            "words": trace.fx_nodes["name"].gather(node[rows]).cast(pl.String),
            "kernel": trace.fx_nodes["kernel"].gather(node[rows]).cast(pl.String),
            "ns": trace.events["dur_ns"].gather(rows),
        }
    )
    frame = frame.filter(pl.col("kernel").is_not_null(), pl.col("name").str.contains(_GENERATED))
    sums = frame.group_by("name", "words").agg(pl.col("ns").sum()).sort("ns", "words", descending=[True, False])
    most = sums.unique("name", keep="first", maintain_order=True)
    return {name: shortened(words, MAX_TEXT) for name, words in most.select("name", "words").rows()}
