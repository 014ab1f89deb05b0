"""One possible saving of memory, before its effect on the peak is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.facts.counted_steps import counted_part, counted_steps, has_counted_steps

if TYPE_CHECKING:
    from torchprof_magic.findings.savings.lower_peak import Removal
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# Savings of less than this share of the peak are not worth a change of the program.
LEAST_SHARE = 0.01
# Neither are a few bytes, of however small a peak: every block of an allocator takes at least as much.
LEAST_BYTES = 64


class Saving(NamedTuple):
    """What a change of the program would remove, the time that it adds, and a clause that says how that is known."""

    action: str
    module: str | None
    removal: Removal
    added_time_ns: int | None
    reason: str


def per_step(trace: Trace, start_ns: IntArray, dur_ns: IntArray) -> tuple[int, str]:
    """Return the summed duration of some calls, on average over the steps that count, and the words for that.

    Without steps, that of all calls.
    """
    if not has_counted_steps(trace):
        return int(dur_ns.sum()), "in all"
    is_inside = counted_part(trace).holds(start_ns)
    return round(int(dur_ns[is_inside].sum()) / counted_steps(trace).steps), "per step"
