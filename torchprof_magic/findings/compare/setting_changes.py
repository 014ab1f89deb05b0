"""What differs between two runs besides their times: versions, machines, flags, shapes, steps, the cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.findings.verdict.diagnosis import launches_without_work
from torchprof_magic.findings.verdict.doubts import is_incomplete
from torchprof_magic.model.meta import TRACE_ID, TRACE_ID_OF_CYCLE, shortened
from torchprof_magic.model.units import enumerated
from torchprof_magic.tables.source.modules import outermost_modules

if TYPE_CHECKING:
    from torchprof_magic.model.meta import Meta
    from torchprof_magic.model.trace import Trace

# What a run records beyond times, as an attribute of its metadata, and its flag; each makes steps longer.
DETAILS = (("has_shapes", "input shapes", "--shapes"), ("has_memory", "memory", "--memory"),
           ("has_stacks", "Python stacks", "--stack"))  # fmt: skip
_MOST_ROWS = 40
# Numbers of one recording, not of the program: they differ between any two.
_OF_ONE_RECORDING = {TRACE_ID, "traceName", "torchprofStoreId", "baseTimeNanoseconds", "profileStartTime"}


def changed_settings(before: Trace, after: Trace) -> pl.DataFrame:
    """Return one row per setting that differs: ``name, before`` and ``after`` as text, empty where it is not known."""
    sides = [_settings(trace) for trace in (before, after)]
    names = dict.fromkeys((*sides[0], *sides[1]))
    rows = [(name, *(side.get(name, "") for side in sides)) for name in names]
    differing = [row for row in rows if row[1] != row[2]][:_MOST_ROWS]
    return pl.DataFrame(differing, schema=dict.fromkeys(("name", "before", "after"), pl.String), orient="row")


def warnings_of(before: Trace, after: Trace) -> list[str]:
    """Return what makes the comparison of two runs less than fair, as sentences."""
    metas = before.meta, after.meta
    found = [
        f"The run {which} has no steps: all of its times are compared with one step of the other."
        for which, trace, other in (("before", before, after), ("after", after, before))
        if trace.steps.height == 0 < other.steps.height
    ]
    found += [text for which in (0, 1) if (text := _details_warning(metas, which))]
    if before.has_device != after.has_device:
        found.append("Only one run recorded an accelerator, so device times are not compared.")
    if _machine(metas[0]) != _machine(metas[1]) or _has_other_cpu(*metas):
        found.append("The runs are of different machines or versions of torch.")
    for which, trace in (("before", before), ("after", after)):
        if is_incomplete(trace):
            lost = launches_without_work(trace)
            found.append(f"In the run {which} {lost} of the device, so its times are too short.")
    return found


def _details_warning(metas: tuple[Meta, Meta], which: int) -> str:
    """Return what only one of the runs recorded beyond times, that before for 0; empty if that is nothing."""
    only = [
        (what, flag)
        for name, what, flag in DETAILS
        if getattr(metas[which], name) and not getattr(metas[1 - which], name)
    ]
    if not only:
        return ""
    return (
        f"Only the run {('before', 'after')[which]} recorded {enumerated([what for what, _ in only])} "
        f"({', '.join(flag for _, flag in only)}), which takes time in its steps. What both recorded is compared."
    )


def _machine(meta: Meta) -> tuple[object, ...]:
    return tuple(sorted(set(meta.device_names or (name for _, name in meta.devices)))), meta.torch_version


def _has_other_cpu(before: Meta, after: Meta) -> bool:
    """Return whether both runs know their CPU and cores, and they are not the same."""
    sides = [(meta.cpu_model, meta.cpu_cores) for meta in (before, after)]
    return all(model for model, _ in sides) and sides[0] != sides[1]


def _settings(trace: Trace) -> dict[str, str]:
    meta = trace.meta
    devices = meta.device_names or tuple(dict.fromkeys(name for _, name in meta.devices))
    known = {
        "torch": meta.torch_version,
        "device": ", ".join(devices),
        "CPU": meta.cpu_model,
        "cores": str(meta.cpu_cores or ""),
        "threads": str(meta.cpu_threads or ""),
        "ranks": str(meta.world_size or ""),
        "backend": meta.backend,
        **{what: "recorded" if getattr(meta, name) else "not recorded" for name, what, _ in DETAILS},
        "steps": str(trace.steps.filter("complete").height),
        "stepped by": " ".join(str(part) for part in (meta.stepping.how, meta.stepping.code) if part)
        if meta.stepping
        else "",
        "two passes": "yes" if meta.two_pass else "no",
    }
    extra = {key: shortened(value, 120) for key, value in meta.extra if not _is_of_one_recording(key)}
    return known | input_shapes(trace) | extra


def _is_of_one_recording(key: str) -> bool:
    return key in _OF_ONE_RECORDING or key.startswith(TRACE_ID_OF_CYCLE.format(""))


def input_shapes(trace: Trace) -> dict[str, str]:
    """Return the shapes that each outermost module got."""
    return {
        f"inputs of {name or class_name}": inputs
        for name, class_name, inputs in outermost_modules(trace).iter_rows()
        if inputs is not None
    }
