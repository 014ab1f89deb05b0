"""The problems that reading a file can find, and how often each was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from torchprof_magic.model.meta import Problem, Severity


class _Kind(NamedTuple):
    severity: Severity
    message: str
    fix: str


_EXPORT_AGAIN = "Copy the file again, or export it again from the program that wrote it."
_NOTHING = "Nothing to do."
# Every problem that reading can find, by code. The part before the dot says where it is.
KINDS: dict[str, _Kind] = {
    "file.damaged_gzip": _Kind(
        "data_loss", "The gzip data is damaged. Everything after the damage could not be read.", _EXPORT_AGAIN
    ),
    "file.cut_off_gzip": _Kind("data_loss", "The gzip data is cut off. All complete events are shown.", _EXPORT_AGAIN),
    "file.gzip_bomb": _Kind(
        "data_loss",
        "The gzip data expands far more than any trace does. Reading stopped there.",
        "Unpack the file yourself if you trust it, and open the .json.",
    ),
    "file.trailing_bytes": _Kind(
        "warning", "The compressed data is followed by bytes that are not gzip. They were ignored.", _NOTHING
    ),
    "text.utf16": _Kind("info", "The file is encoded in UTF-16 and was read as such.", _NOTHING),
    "json.cut_off": _Kind("data_loss", "The JSON is cut off. All complete events are shown.", _EXPORT_AGAIN),
    "json.bad_utf8": _Kind(
        "warning", "Strings contain bytes that are not valid UTF-8. They are shown as replacement characters.", _NOTHING
    ),
    "json.control_character": _Kind(
        "warning", "Strings contain unescaped control characters. They were kept.", _NOTHING
    ),
    "json.bad_escape": _Kind(
        "warning",
        "Strings contain unescaped backslashes, as in Windows paths. They were read as backslashes.",
        "Newer versions of torch escape them.",
    ),
    "json.inner_quote": _Kind(
        "warning", "Strings contain unescaped quotes. They were read as part of the string.", _NOTHING
    ),
    "json.not_a_number": _Kind(
        "warning", "Values such as NaN, Infinity or N/A are not valid JSON. They were read as missing.", _NOTHING
    ),
    "json.comma": _Kind("info", "Commas are missing or superfluous. This was ignored.", _NOTHING),
    "json.deep_nesting": _Kind(
        "warning", "Values nested hundreds of levels deep were left out of their events.", _NOTHING
    ),
    "json.structure": _Kind(
        "warning", "Brackets or values are in the wrong place. The events around them were ended there.", _EXPORT_AGAIN
    ),
    "json.lost": _Kind("data_loss", "Parts of the text could not be read as events and were left out.", _EXPORT_AGAIN),
    "json.head": _Kind(
        "warning", "The part of the file around the events is damaged. Some metadata may be missing.", _EXPORT_AGAIN
    ),
    "json.second_list": _Kind(
        "data_loss",
        "The file contains a second list of events, or a second document. It was not read.",
        "Write each to a separate file.",
    ),
    "chrome.not_an_event": _Kind(
        "warning", "Some entries of the event list are not events. They were left out.", _NOTHING
    ),
    "chrome.other_kind": _Kind(
        "info", "Events that no view uses, such as counters and async ranges, were left out.", _NOTHING
    ),
    "chrome.odd_value": _Kind("warning", "Values have an invalid type or size. They were read as missing.", _NOTHING),
    "chrome.no_time": _Kind("data_loss", "Events without a readable time were left out.", _NOTHING),
    "chrome.stray_time": _Kind(
        "data_loss",
        "Events are more than 30 days away from all others, probably because of a wrong clock. They were left out.",
        _NOTHING,
    ),
    "chrome.negative_duration": _Kind(
        "warning",
        "Events have a negative duration, because they were not finished. They are shown with a duration of 0.",
        _NOTHING,
    ),
    "chrome.no_duration": _Kind(
        "warning", "Events without a readable duration are shown with a duration of 0.", _NOTHING
    ),
    "chrome.absurd_duration": _Kind(
        "warning", "Events have a duration of more than 30 days. They are shown with a duration of 0.", _NOTHING
    ),
    "chrome.unclosed_event": _Kind(
        "warning", "Events begin but do not end in the file. They are shown up to the end of the trace.", _NOTHING
    ),
    "chrome.end_without_begin": _Kind(
        "warning", "Events end but do not begin in the file. They were left out.", _NOTHING
    ),
    "chrome.partial_overlap": _Kind(
        "info",
        "Events partly overlap another event on the same thread. They are shown beside it, not inside it, and the "
        "shared time counts as self time of both.",
        _NOTHING,
    ),
    "chrome.repeated_step": _Kind(
        "warning",
        "Step numbers occur more than once, as in files of several processes. Of each number, the first step is shown.",
        "Open the trace of each process separately.",
    ),
    "chrome.repeated_launch": _Kind(
        "warning",
        "Several launches have the same correlation number. Device events are assigned to the first one.",
        "Open the trace of each process separately.",
    ),
    "memory.no_size": _Kind("data_loss", "Allocations without a readable size were left out.", _NOTHING),
    "chrome.no_launch": _Kind(
        "info",
        "Device events without a launch in the file belong to no op. Most were queued before the recording began.",
        "Synchronize the device before the recording begins.",
    ),
}


@dataclass
class Findings:
    """Counts of problems by code, each with the byte of the text where it was first found, if known."""

    counts: dict[str, int] = field(default_factory=dict)
    first_at: dict[str, int] = field(default_factory=dict)

    def add(self, code: str, count: int = 1, at: int | None = None) -> None:
        """Count a problem of ``KINDS``; ``at`` is a byte offset into the unpacked text."""
        if count == 0:
            return
        self.counts[code] = self.counts.get(code, 0) + count
        if at is not None:
            self.first_at[code] = min(at, self.first_at.get(code, at))

    def update(self, others: Findings) -> None:
        """Add the counts of ``others``."""
        for code, count in others.counts.items():
            self.add(code, count, others.first_at.get(code))

    def problems(self) -> tuple[Problem, ...]:
        """Return one problem per code, with its count."""
        return tuple(self._problem(code, count) for code, count in self.counts.items())

    def _problem(self, code: str, count: int) -> Problem:
        kind = KINDS[code]
        at = self.first_at.get(code)
        where = "" if at is None else f" First at byte {at:,} of the text."
        fix = "" if kind.fix == _NOTHING else kind.fix
        return Problem(code=code, severity=kind.severity, count=count, message=kind.message + where, fix=fix)
