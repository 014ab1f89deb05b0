"""Metadata at the top of a trace that the reader itself does not need."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from torchprof_magic.model.meta import KINETO_KEYS, TRACE_ID, TRACE_ID_OF_CYCLE, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_FACTS = 100
# Kineto's own log, and keys that other programs write beside the events.
_NO_FACTS = {*KINETO_KEYS, "INFO", "WARNING", "ERROR", "STATUS", "VERBOSE", "metadata", "schema", "otherData"} - {
    TRACE_ID
}
# Reports are shared more readily than traces, so keys that may name people, machines or accounts are left out.
_PRIVATE = re.compile(
    r"user|host|mail|account|owner|author|attribution|entitlement|token|secret|passw|credential|key|^tw_|^mast_|job"
    r"|cluster|workflow|task|server|path",
    re.IGNORECASE,
)
_FACTS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def facts_of(text: bytes) -> dict[str, str]:
    """Return the further top-level entries of a JSON object as text, at most 100 of at most 300 characters.

    Objects and lists are given as JSON. Empty when the object cannot be read as a whole.
    """
    try:
        entries = _FACTS.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    wanted = [key for key in entries if key and key not in _NO_FACTS and not _PRIVATE.search(key)]
    return {shortened(key): _text_of(bytes(entries[key])) for key in wanted[:MAX_FACTS]}


def joined_facts(parts: Sequence[dict[str, str]], cycles: Sequence[int]) -> dict[str, str]:
    """Return the facts of the files of all cycles: those of the first file where they differ, but every trace id."""
    facts = {key: text for part in reversed(parts) for key, text in part.items()}
    ids = {cycle: part[TRACE_ID] for part, cycle in zip(parts, cycles, strict=True) if TRACE_ID in part}
    if len(parts) > 1 and ids:
        del facts[TRACE_ID]
        facts |= {TRACE_ID_OF_CYCLE.format(cycle): text for cycle, text in ids.items()}
    return facts


def _text_of(value: bytes) -> str:
    if value.startswith(b'"'):
        try:
            return shortened(msgspec.json.decode(value, type=str))
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
    return shortened(value.decode(errors="replace"))
