"""Which oddities were met while reading, how often, and where first?"""

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
# Every oddity that reading knows; the part before the dot says where it lies.
KINDS: dict[str, _Kind] = {
    "file.damaged_gzip": _Kind("data_loss", "The gzip data is damaged; what follows could not be read.", _EXPORT_AGAIN),
    "file.cut_off_gzip": _Kind("data_loss", "The gzip data ends in the middle; what is whole is shown.", _EXPORT_AGAIN),
    "file.gzip_bomb": _Kind(
        "data_loss",
        "The gzip data grows far more than any trace does; reading stopped there.",
        "Unpack the file yourself if you trust it, and open the .json.",
    ),
    "file.trailing_bytes": _Kind(
        "warning", "Bytes that are no gzip stand behind the packed data; they were left out.", _NOTHING
    ),
    "text.utf16": _Kind("info", "The file is UTF-16; it was read as such.", _NOTHING),
    "json.cut_off": _Kind("data_loss", "The JSON ends in the middle; all whole events are shown.", _EXPORT_AGAIN),
    "json.bad_utf8": _Kind(
        "warning", "Texts hold bytes that are no UTF-8; they are shown as replacement characters.", _NOTHING
    ),
    "json.control_character": _Kind("warning", "Texts hold unescaped control characters; they were kept.", _NOTHING),
    "json.bad_escape": _Kind(
        "warning",
        "Texts hold unescaped backslashes, as file names of Windows do; they were read as backslashes.",
        "A newer torch escapes them.",
    ),
    "json.inner_quote": _Kind("warning", "Texts hold unescaped quotes; they were read as part of the text.", _NOTHING),
    "json.not_a_number": _Kind(
        "warning", "Values such as NaN, Infinity or N/A are no JSON; they were read as absent.", _NOTHING
    ),
    "json.comma": _Kind("info", "Commas are missing or one too many; they were ignored.", _NOTHING),
    "json.deep_nesting": _Kind("warning", "Values nested hundreds deep were left out of their event.", _NOTHING),
    "json.structure": _Kind(
        "warning", "Brackets or values stand where none can; the events around them were closed there.", _EXPORT_AGAIN
    ),
    "json.lost": _Kind(
        "data_loss", "Pieces of the text could not be read as an event and were left out.", _EXPORT_AGAIN
    ),
    "json.head": _Kind(
        "warning", "The part of the file around the events is damaged; facts in it may miss.", _EXPORT_AGAIN
    ),
    "json.second_list": _Kind(
        "data_loss",
        "A second list of events, or a second document, stands behind the first; it was not read.",
        "Write each of them to a file of its own.",
    ),
    "chrome.not_an_event": _Kind("warning", "Entries of the event list are no events; they were left out.", _NOTHING),
    "chrome.other_kind": _Kind(
        "info", "Events of kinds that no view uses, such as counters and async ranges, were left out.", _NOTHING
    ),
    "chrome.odd_value": _Kind(
        "warning", "Values have a type or a size that no trace should hold; they were read as absent.", _NOTHING
    ),
    "chrome.no_time": _Kind("data_loss", "Events without a readable time were left out.", _NOTHING),
    "chrome.stray_time": _Kind(
        "data_loss",
        "Events lie more than 30 days from all others, as broken clocks write; they were left out.",
        _NOTHING,
    ),
    "chrome.negative_duration": _Kind("warning", "Unfinished events are shown with no duration.", _NOTHING),
    "chrome.no_duration": _Kind("warning", "Events without a readable duration are shown with none.", _NOTHING),
    "chrome.absurd_duration": _Kind(
        "warning", "Events claim to last more than 30 days; they are shown with no duration.", _NOTHING
    ),
    "chrome.unclosed_event": _Kind(
        "warning", "Events begin and never end in the file; they are shown up to its last moment.", _NOTHING
    ),
    "chrome.end_without_begin": _Kind(
        "warning", "Events end without having begun in the file; they were left out.", _NOTHING
    ),
    "chrome.partial_overlap": _Kind(
        "info",
        "Events partly overlap another on the same thread; they are shown beside it, not inside it, and the time they "
        "share is in the self time of both.",
        _NOTHING,
    ),
    "chrome.repeated_step": _Kind(
        "warning",
        "Step numbers occur more than once, as in files of several processes; each step is the first of its number.",
        "Open the file of each process alone.",
    ),
    "chrome.repeated_launch": _Kind(
        "warning",
        "Launches share a correlation number; device events belong to the first of them.",
        "Open the file of each process alone.",
    ),
    "memory.no_size": _Kind("data_loss", "Allocations without a readable size were left out.", _NOTHING),
    "chrome.no_launch": _Kind(
        "info",
        "Device events have no launch in the file; they belong to no op. Most were queued before the recording.",
        "Synchronise the device before the recording begins.",
    ),
}


@dataclass
class Findings:
    """Counts of oddities by code, each with the byte of the text where it was first met, if known."""

    counts: dict[str, int] = field(default_factory=dict)
    first_at: dict[str, int] = field(default_factory=dict)

    def add(self, code: str, count: int = 1, at: int | None = None) -> None:
        """Count an oddity of ``KINDS``; ``at`` is a byte offset into the unpacked text."""
        if count == 0:
            return
        self.counts[code] = self.counts.get(code, 0) + count
        if at is not None:
            self.first_at[code] = min(at, self.first_at.get(code, at))

    def update(self, others: Findings) -> None:
        """Count what was counted elsewhere."""
        for code, count in others.counts.items():
            self.add(code, count, others.first_at.get(code))

    def problems(self) -> tuple[Problem, ...]:
        """Return one counted problem a code."""
        return tuple(self._problem(code, count) for code, count in self.counts.items())

    def _problem(self, code: str, count: int) -> Problem:
        kind = KINDS[code]
        at = self.first_at.get(code)
        where = "" if at is None else f" First at byte {at:,} of the text."
        fix = "" if kind.fix == _NOTHING else kind.fix
        return Problem(code=code, severity=kind.severity, count=count, message=kind.message + where, fix=fix)
