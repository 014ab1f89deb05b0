"""The options of a run: the table that declares them, and how they are resolved and validated."""

from torchprof_magic.options.checked import (
    ACTIVITIES,
    BUDGET_CALLS,
    EVERY_S,
    EVERY_STEP,
    KeepOptions,
    ProfileOptions,
    ScheduleOptions,
)
from torchprof_magic.options.parse import activities_of, budget_of, bytes_of, file_bytes_of, metadata_of, seconds_of
from torchprof_magic.options.presets import (
    AUTO,
    DETAIL_WORDS,
    DETAILS,
    PRESET_COSTS_US,
    PRESETS,
    QUICK,
    detail_switches,
    preset_switches,
)
from torchprof_magic.options.resolve import keep_options, profile_options, resolved
from torchprof_magic.options.suggest import closest_flag, closest_keyword, meant
from torchprof_magic.options.table import KEYWORDS, MODES, OPTIONS, Keywords, Kind, Option, asked_for

__all__ = [
    "ACTIVITIES",
    "AUTO",
    "BUDGET_CALLS",
    "DETAILS",
    "DETAIL_WORDS",
    "EVERY_S",
    "EVERY_STEP",
    "KEYWORDS",
    "MODES",
    "OPTIONS",
    "PRESETS",
    "PRESET_COSTS_US",
    "QUICK",
    "KeepOptions",
    "Keywords",
    "Kind",
    "Option",
    "ProfileOptions",
    "ScheduleOptions",
    "activities_of",
    "asked_for",
    "budget_of",
    "bytes_of",
    "closest_flag",
    "closest_keyword",
    "detail_switches",
    "file_bytes_of",
    "keep_options",
    "meant",
    "metadata_of",
    "preset_switches",
    "profile_options",
    "resolved",
    "seconds_of",
]
