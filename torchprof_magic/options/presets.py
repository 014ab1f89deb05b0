"""Presets, and the switches that the second of two passes records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.model.errors import OptionsError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Switches with an overhead, which the second of two passes records.
DETAILS = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
# What each is called in a sentence, the most useful first.
DETAIL_WORDS: dict[str, str] = {
    "profile_memory": "memory",
    "record_shapes": "shapes",
    "with_stack": "stacks",
    "with_flops": "FLOPs",
    "with_modules": "modules",
    "lines": "lines of your functions",
}
# Times in one cycle, and every detail in another, as far as the loop affords it.
AUTO, QUICK = "auto", "quick"
PRESETS: dict[str, tuple[str, ...]] = {
    AUTO: (),
    QUICK: (),
    "stacks": ("with_stack",),
    "memory": ("record_shapes", "profile_memory"),
    "full": ("record_shapes", "profile_memory", "with_stack", "with_flops"),
}

# Overhead of a preset per recorded op: benchmarks/presets.py, on two cores, CPU only. That of stacks, which also grows
# with the number of Python calls, is placed between its neighbours as in a later run: 1.2, 1.7, 2.7 and 3.4 us.
PRESET_COSTS_US = {"quick": 3, "stacks": 4, "memory": 5, "full": 7}


def preset_switches(name: str) -> dict[str, bool]:
    """Return the switches of a preset; raises ``OptionsError`` for an unknown name."""
    if name not in PRESETS:
        raise OptionsError(f"--preset: unknown {name!r}; choose from {', '.join(PRESETS)}")
    return dict.fromkeys(PRESETS[name], True)


def detail_switches(asked: Mapping[str, bool | None], *, all_threads: bool, trace_only: bool) -> dict[str, bool | None]:
    """Return the switches of the second of two passes; ``None`` stands for a switch that was not given.

    Without a switch that is on, shapes, memory and stacks are, except those that were turned off and those that torch
    cannot combine with ``all_threads`` or ``trace_only``. Others stay as they were given: without ``with_modules``,
    modules are timed if they are few.
    """
    if any(asked.values()):
        return dict(asked)
    possible = {"record_shapes": True, "profile_memory": not all_threads, "with_stack": not trace_only}
    return {name: True if is_on is None and possible.get(name) else is_on for name, is_on in asked.items()}


def auto_switches(asked: Mapping[str, bool | None], *, all_threads: bool, trace_only: bool) -> dict[str, bool | None]:
    """Return the switches of the second cycle of ``auto``: all details, but for those that were turned off.

    ``None`` stands for a switch that was not given. Details that torch cannot combine with ``all_threads`` or
    ``trace_only`` are left out.
    """
    off: dict[str, bool | None] = {name: is_on if is_on is False else None for name, is_on in asked.items()}
    found = detail_switches(off, all_threads=all_threads, trace_only=trace_only)
    return {**found, **{name: True for name, is_on in asked.items() if is_on}}
