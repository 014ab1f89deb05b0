"""Checks what waits of streams and of the host say of the event that they wait for; nothing else uses it.

A wait names the call that recorded its event by the correlation number of that call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.ingest.chrome.columns import exact_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.ingest.findings import Findings
    from torchprof_magic.ingest.json.schema import Event

CATEGORY = "cuda_sync"
_STREAM_WAIT = "Stream Wait Event"
_WAITS = (_STREAM_WAIT, "Event Sync")
_RECORD = "EventRecord"


class EventWaits:
    """The waits for events in one file, and the calls that recorded these events, by their correlation numbers."""

    def __init__(self) -> None:
        self._recorded_ns: dict[int, int] = {}
        self._waits: list[tuple[int, int]] = []
        self._unknown = 0

    def add(self, others: Sequence[Event], calls: Sequence[Event]) -> None:
        """Note the waits among some events, and the records among some calls."""
        waits = [event for event in others if event.cat == CATEGORY and event.args and event.args.sync_kind in _WAITS]
        for event, time_ns in zip(waits, _times_ns(waits), strict=True):
            record = event.args.waits_for if event.args is not None else None
            if not isinstance(record, int) or record < 0:
                self._unknown += 1
            elif event.args is not None and event.args.sync_kind == _STREAM_WAIT and time_ns is not None:
                self._waits.append((record, time_ns))
        records = [event for event in calls if event.args and _RECORD in str(event.name)]
        for event, time_ns in zip(records, _times_ns(records), strict=True):
            number = event.args.correlation if event.args is not None else None
            if isinstance(number, int) and time_ns is not None:
                self._recorded_ns[number] = min(time_ns, self._recorded_ns.get(number, time_ns))

    def finish(self, findings: Findings) -> None:
        """Count waits that do not name their event, and those for one that was recorded only later."""
        findings.add("chrome.unknown_wait", self._unknown)
        early = sum(self._recorded_ns.get(record, time_ns) > time_ns for record, time_ns in self._waits)
        findings.add("chrome.early_wait", early)


def _times_ns(events: Sequence[Event]) -> list[int | None]:
    return exact_ns([event.ts for event in events]).to_list() if events else []
