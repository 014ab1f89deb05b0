"""What is not known of the work in compiled code, and what to do to know it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from torchprof_magic.facts.shared import in_category, is_mark, is_named
from torchprof_magic.facts.source.fx_nodes import fx_marks
from torchprof_magic.model.intervals import nearest_marked
from torchprof_magic.model.problems import problem
from torchprof_magic.model.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.intervals import BoolArray
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.trace import Trace

# The first torch that can mark the nodes of its graphs.
NAMES_SINCE = (2, 10)
_VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")
_REGION = r"^Torch-Compiled Region: "
_KERNEL = r"^graph_[0-9]+_cpp_fused_|^cpp_fused_|^triton_"


def unnamed_code(trace: Trace) -> Iterator[Problem]:
    """Yield what says that compiled code ran whose ops, or whose kernels, belong to no known line of the model."""
    if trace.meta.stepping is None:  # a file of another program
        if is_mark(trace).any() and not trace.fx_nodes.height:
            yield problem("compiled.unknown_marks", count=int(is_mark(trace).sum()))
        return
    unnamed, version = _unnamed_regions(trace), trace.meta.torch_version
    if unnamed and _is_before(version, NAMES_SINCE):
        regions = counted(unnamed, "run")
        yield problem("compiled.torch_has_no_names", count=unnamed, regions=regions, version=version.partition("+")[0])
    elif unnamed:
        yield problem("compiled.no_names", count=unnamed, regions=counted(unnamed, "run"))
    hidden = _calls_without_kernels(trace)
    if hidden:
        yield problem("compiled.no_kernels", count=hidden, calls=counted(hidden, "call"))


def _is_before(version: str, first: tuple[int, int]) -> bool:
    """Return whether a version of torch is known to be older than another."""
    found = _VERSION.match(version)
    return found is not None and (int(found[1]), int(found[2])) < first


def _unnamed_regions(trace: Trace) -> int:
    """Return how many runs of compiled regions have ops and no known node in them."""
    is_region = is_named(trace, _REGION, "cpu_op", "user_annotation")
    if not is_region.any():
        return 0
    is_op = is_named(trace, r"^aten::|^## Call ", "cpu_op", "user_annotation")
    return int((_holds(trace, is_region, is_op) & ~_holds(trace, is_region, fx_marks(trace).is_unit)).sum())


def _holds(trace: Trace, is_region: BoolArray, is_inside: BoolArray) -> BoolArray:
    """Return for each event whether it is a region that is the innermost one around some other events."""
    parent, depth = trace.events["parent"].to_numpy(), trace.events["depth"].to_numpy()
    around = nearest_marked(parent, depth, is_region)[np.flatnonzero(is_inside)]
    found = np.zeros(len(parent), np.bool_)
    found[around[around >= 0]] = True
    return found


def _calls_without_kernels(trace: Trace) -> int:
    """Return how many calls of code of Inductor show none of its kernels, on the host or on a device."""
    calls = fx_marks(trace).calls
    if len(calls) == 0 or trace.has_device:
        return 0
    is_call = np.zeros(trace.events.height, np.bool_)
    is_call[calls] = True
    is_kernel = is_named(trace, _KERNEL, "cpu_op", "user_annotation") & in_category(trace, "cpu_op", "user_annotation")
    return int((is_call & ~_holds(trace, is_call, is_kernel)).sum()) if not is_kernel.any() else 0
