"""Advice about the recording itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.facts.host.distortion import find_distortion
from torchprof_magic.findings.advice.kinds import Advice
from torchprof_magic.findings.advice.times import recording_can_add_ns
from torchprof_magic.model.units import format_count, format_ns

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

LOUD_RATIO = 1.5


def profiling_distorts(trace: Trace) -> Advice | None:
    """Advise to record with less, if recorded steps take much longer than others and something can be left out.

    What is more than their events can have taken was not the recording: other programs ran meanwhile, or these steps do
    more. Timing the lines of functions makes no events.
    """
    found, meta = find_distortion(trace), trace.meta
    switches = {
        "--stack": meta.has_stacks,
        "--shapes": meta.has_shapes,
        "--memory": meta.has_memory,
        "--lines": meta.has_function_lines,
    }
    on = [f"`{name}`" for name, is_on in switches.items() if is_on]
    if found is None or found.ratio < LOUD_RATIO or not on or meta.two_pass is not None:
        return None
    if found.recorded_ns - found.plain_ns > recording_can_add_ns(trace) and not meta.has_function_lines:
        return None
    return Advice(
        rule="profiling_distorts",
        title="Record with less to trust the times",
        fix=f"without {' and '.join(on)}, or with `--two-pass`",
        evidence=f"Recorded steps take {format_ns(found.recorded_ns)}, and {format_ns(found.plain_ns)} without the "
        f"profiler: {format_count(found.ratio)} times as long ({found.basis}). The program itself need not change.",
        certainty="measured",
    )
