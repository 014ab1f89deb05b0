"""Combines given options, presets, ``%config`` values and defaults into the values of one run.

A given option takes precedence over a given preset, and a given preset over ``%config``.
"""

from __future__ import annotations

import os
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from torchprof_magic.model.errors import OptionsError
from torchprof_magic.options.checked import EVERY_S, KeepOptions, ProfileOptions, ScheduleOptions
from torchprof_magic.options.parse import activities_of, budget_of, file_bytes_of, metadata_of
from torchprof_magic.options.presets import AUTO, DETAILS, QUICK, auto_switches, detail_switches, preset_switches
from torchprof_magic.options.table import OPTIONS, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

COUNTS = ("wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait")
SWITCHES = tuple(name for name, option in OPTIONS.items() if option.kind is Kind.SWITCH)
# Whoever asks for one of these says what to record, or in which steps.
_DECIDING = (
    *(*SWITCHES, *COUNTS, "schedule", "two_pass", "lines", "on_trace_ready", "acc_events", "experimental_config"),
    *("execution_trace", "execution_trace_observer"),
)


def resolved(given: Mapping[str, Any], configured: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a value for every option, by name. ``None`` stands for an option that was not given or configured.

    Raises ``OptionsError`` for a value that is not among an option's choices.
    """
    given = {name: value for name, value in given.items() if value is not None}
    usual = {name: value for name, value in (configured or {}).items() if value is not None}
    values = {name: option.default for name, option in OPTIONS.items()}
    values |= _applicable(usual, given) | given
    values["metadata"] = {**usual.get("metadata", {}), **given.get("metadata", {})}
    for name, option in OPTIONS.items():
        if option.choices and values[name] not in option.choices:
            raise OptionsError(f"{option.dashed}: unknown {values[name]!r}; choose from {', '.join(option.choices)}")
    if values["preset"] == AUTO and "preset" not in given and any(values[name] for name in _DECIDING):
        values["preset"] = QUICK
    is_watched = values["watch"] not in (None, False)
    if is_watched and "preset" not in given and not any(values[name] for name in _DECIDING):
        values["preset"] = AUTO
    preset = preset_switches(values["preset"])
    values |= {name: preset.get(name) for name in SWITCHES if values[name] is None}
    if values["preset"] == AUTO or values["two_pass"]:
        values |= _details(values)
    if is_watched and values["preset"] == AUTO:
        values |= {"preset": QUICK, "two_pass": False}  # which steps have the details is decided while the loop runs
    return values


def _details(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the switches of a second cycle, and whether there is one: with everything turned off, there is none."""
    asked = {name: values[name] for name in DETAILS}
    excluded = {name: bool(values[name]) for name in ("all_threads", "trace_only")}
    if values["preset"] != AUTO:
        return detail_switches(asked, **excluded)
    found = auto_switches(asked, **excluded)
    return {**found, "two_pass": True} if any(found.values()) else {**found, "preset": QUICK}


def profile_options(values: Mapping[str, Any]) -> ProfileOptions:
    """Return the options of a recording from resolved values; raises ``OptionsError``."""
    activities, types = activities_of(values["activities"])
    budget_bytes, budget_s = budget_of(values["budget"])
    named = {field.name: _plain(values[field.name]) for field in fields(ProfileOptions) if field.name in values}
    return ProfileOptions(
        **{
            **named,
            **{name: bool(values[name]) for name in SWITCHES},
            "lines": values["lines"] if values["preset"] == AUTO else bool(values["lines"]),
            "watch_modules": None if values["with_modules"] is None else bool(values["with_modules"]),
            "schedule": ScheduleOptions(**{name: values[name] for name in COUNTS}),
            "schedule_function": values["schedule"],
            "watch_s": _interval_of(values["watch"]),
            "activities": activities,
            "activity_types": types or None,
            "budget_bytes": budget_bytes,
            "budget_s": budget_s,
            "budget_file_bytes": file_bytes_of(values["budget_files"]),
            "metadata": metadata_of(values["metadata"]),
        }
    )


def keep_options(values: Mapping[str, Any]) -> KeepOptions:
    """Return the options of kept traces from resolved values; raises ``OptionsError``."""
    return KeepOptions(**{field.name: _plain(values[field.name]) for field in fields(KeepOptions)})


def _interval_of(watch: object) -> Any:
    """Return how far apart recordings are, in s; None if the run is not watched. Other values are refused later."""
    if watch is None or watch is False:
        return None
    return EVERY_S if watch is True else watch


def _plain(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _applicable(usual: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configured values that do not conflict with what is given."""
    ruled_out: set[str] = set()
    if "preset" in given:
        ruled_out.update(SWITCHES)
    if "schedule" in given:
        ruled_out.update(COUNTS)
    if given.get("two_pass") or any(name in given for name in COUNTS):
        ruled_out.add("schedule")
    if not given.get("trace_dir", usual.get("trace_dir")):  # they have no effect without a folder
        ruled_out.update(name for name, option in OPTIONS.items() if option.is_kept)
    if not given.get("snapshot", usual.get("snapshot")):
        ruled_out.update(("snapshot_entries", "snapshot_stacks"))
    return {name: value for name, value in usual.items() if name not in ruled_out}
