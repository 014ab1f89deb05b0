"""What kernels that torch.compile generated are called: by what they fuse."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import polars as pl

from torchprof_magic.facts.device.kernel_names import kernel_title, titles_of
from torchprof_magic.facts.shared import device_rows, is_named, name_numbers, once_per_trace
from torchprof_magic.facts.source.fx_nodes import REGION, fx_marks, is_in_backward, own_nodes, regions_around
from torchprof_magic.model.meta import MAX_TEXT, shortened
from torchprof_magic.model.shapes import Table, Tree

if TYPE_CHECKING:
    from torchprof_magic.model.meta import Compilation
    from torchprof_magic.model.shapes import Shape
    from torchprof_magic.model.trace import Trace

AnyShape = TypeVar("AnyShape", bound="Shape")
RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_([0-9]{1,9})$")
_GENERATED = r"^(graph_[0-9]+_)?(cpp|triton)_"


@once_per_trace
def shown_titles(trace: Trace) -> dict[str, str]:
    """Return how names of events are shown, where that differs from the names; no two are shown alike.

    Kernels of devices have short titles. A kernel of Inductor is called by what it fuses, ``relu · add``, as far as the
    process that compiled it knew; those that fuse the same are numbered. Regions of compiled code are called by their
    functions.
    """
    made = _region_names(trace) | fused_names(trace)
    titles = titles_of(trace) | dict.fromkeys(made, "")
    taken = set(titles.values())
    for name, words in made.items():
        number, title = 1, words
        while title in taken:
            number += 1
            title = f"{words} ({number})"
        taken.add(title)
        titles[name] = title
    return titles


@once_per_trace
def fused_titles(trace: Trace) -> dict[str, str]:
    """Return how the names of generated kernels and code are shown, as ``shown_titles`` does."""
    return {name: shown_titles(trace)[name] for name in _region_names(trace) | fused_names(trace)}


def with_fused_titles(trace: Trace, shape: AnyShape) -> AnyShape:
    """Return a shape for people to read: in a table or a tree, generated kernels are called by what they fuse."""
    titles = fused_titles(trace)
    if not titles or not isinstance(shape, Table | Tree) or "name" not in shape.frame.columns:
        return shape
    return replace(shape, frame=shape.frame.with_columns(pl.col("name").cast(pl.String).replace(titles)))


def with_fused_names(trace: Trace, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame whose generated kernels are called by what they fuse; those that fuse the same have one name."""
    names = fused_names(trace)
    return frame.with_columns(pl.col("name").cast(pl.String).replace(names))


def shown_title(trace: Trace, name: str, *, is_kernel: bool) -> str:
    """Return how the name of an op, or of a kernel of a device, is shown in a sentence."""
    fused = fused_titles(trace).get(name)
    return fused or (kernel_title(name) if is_kernel else name)


@once_per_trace
def _region_names(trace: Trace) -> dict[str, str]:
    """Return the function of each compiled region and of its code of Inductor, by the name of the event.

    As far as it was compiled in the run: ``forward (model.py:7), region 0/1``.
    """
    functions = {each.region: _function(each) for each in trace.meta.compilations if each.name and not each.is_backward}
    if not functions:
        return {}
    region, numbers = regions_around(trace)
    backward = is_in_backward(trace)
    found = {}
    is_region = is_named(trace, REGION)
    rows = np.union1d(np.flatnonzero(is_region), fx_marks(trace).calls)
    for row in rows[np.unique(name_numbers(trace)[rows], return_index=True)[1]].tolist():
        number = numbers[int(region[row])] if region[row] >= 0 else ""
        if number in functions:
            what = "region" if is_region[row] else "backward code" if backward[row] else "code"
            found[str(trace.events["name"][row])] = f"{functions[number]}, {what} {number}"
    return found


def _function(compiled: Compilation) -> str:
    """Return the name and place of a function: ``f (model.py:7)``, and of what follows a graph break its line."""
    resumed = RESUMED.match(compiled.name)
    name, line = (resumed[1], int(resumed[2])) if resumed else (compiled.name, compiled.line)
    file = re.split(r"[/\\]", compiled.file)[-1]
    place = ":".join(filter(None, (file, str(line) if line else "")))
    return f"{name} ({'after ' if resumed else ''}{place})" if place else name


@once_per_trace
def fused_names(trace: Trace) -> dict[str, str]:
    """Return what each generated kernel fuses, by its name: in most of its time, if it is called for several things."""
    if trace.fx_nodes.height == 0:
        return {}
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
