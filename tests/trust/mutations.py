"""Recordings made wrong on purpose: device work left out, clocks moved, times lost or overflowed.

They change the JSON of a trace and know nothing of how it is read, so what they did can be counted on their own.
"""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]

WORK = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
CALLS = ("cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver", "runtime")
SEED = 20260101


@dataclass
class Mutation:
    """A changed trace. ``missing`` launches lost all of their work; ``shift_us`` is how late the device became."""

    name: str
    trace: dict[str, Any]
    missing: int = 0
    shift_us: float = 0.0
    zeroed: int = 0
    lengthened: int = 0
    is_host_only: bool = False
    emptied_graphs: int = 0
    notes: list[str] = field(default_factory=list)


def read(path: Path) -> dict[str, Any]:
    """Return a trace file as an object, whose events are in ``traceEvents``."""
    packed = path.read_bytes()
    found = json.loads(gzip.decompress(packed) if path.suffix == ".gz" else packed)
    return found if isinstance(found, dict) else {"traceEvents": found}


def category(event: Event) -> str:
    """Return the category of an event as newer files spell it."""
    return str(event.get("cat", "")).lower()


def is_work(event: Event) -> bool:
    """Return whether an event is work of a device."""
    return event.get("ph") == "X" and category(event) in WORK


def correlation(event: Event) -> Any:
    """Return the number that an event shares with its launch or its work."""
    return (event.get("args") or {}).get("correlation")


def stream(event: Event) -> tuple[Any, Any]:
    """Return the device and the stream of an event."""
    args = event.get("args") or {}
    return args.get("device"), args.get("stream", event.get("tid"))


def losses(before: list[Event], after: list[Event]) -> int:
    """Return how many calls had work before, and have none after."""
    calls = {correlation(event) for event in before if category(event) in CALLS}
    had, has = ({correlation(event) for event in events if is_work(event)} for events in (before, after))
    return len((had - has) & calls)


def mutations(original: dict[str, Any]) -> Iterator[Mutation]:
    """Yield every change of a trace that it has something for."""
    events = original["traceEvents"]
    work = sorted((event for event in events if is_work(event)), key=lambda event: float(event["ts"]))
    if not work:
        return
    yield from _left_out(original, work)
    for shift_us in (-30_000.0, -1_000.0, 1_000.0, 30_000.0):
        yield _moved(original, shift_us)
    yield _zeroed(original, work)
    yield _lengthened(original, work)
    host_only = [event for event in events if not is_work(event) and category(event) != "gpu_user_annotation"]
    yield Mutation("host without device", _with(original, host_only), is_host_only=True)
    yield from _emptied_graphs(original)


def _with(original: dict[str, Any], events: list[Event]) -> dict[str, Any]:
    return {**original, "traceEvents": events}


def _left_out(original: dict[str, Any], work: list[Event]) -> Iterator[Mutation]:
    chance = random.Random(SEED)  # noqa: S311 - a choice of events, the same in every run
    quarter = max(len(work) // 4, 1)
    streams = Counter(stream(event) for event in work)
    choices: dict[str, list[Event]] = {
        "first quarter": work[:quarter],
        "last quarter": work[-quarter:],
        "every 10th": work[::10],
        "30 % at random": [event for event in work if chance.random() < 0.3],
    }
    if len(streams) > 1:
        least = min(streams, key=lambda one: streams[one])
        choices["one stream"] = [event for event in work if stream(event) == least]
    if (of_step := _of_middle_step(original["traceEvents"], work)) is not None:
        choices["one step"] = of_step
    for name, chosen in choices.items():
        gone = {id(event) for event in chosen}
        kept = [event for event in original["traceEvents"] if id(event) not in gone]
        yield Mutation(name, _with(original, kept), missing=losses(original["traceEvents"], kept))


def _of_middle_step(events: list[Event], work: list[Event]) -> list[Event] | None:
    """Return the work that was launched in the middle one of at least three steps."""
    steps = [e for e in events if e.get("ph") == "X" and str(e.get("name", "")).startswith("ProfilerStep#")]
    steps = sorted((e for e in steps if category(e) != "gpu_user_annotation"), key=lambda event: float(event["ts"]))
    if len(steps) < 3:
        return None
    step = steps[len(steps) // 2]
    begin, end = float(step["ts"]), float(step["ts"]) + float(step["dur"])
    launched = {correlation(e) for e in events if category(e) in CALLS and begin <= float(e["ts"]) < end}
    return [event for event in work if correlation(event) in launched]


def _moved(original: dict[str, Any], shift_us: float) -> Mutation:
    events = [
        {**event, "ts": float(event["ts"]) + shift_us}
        if is_work(event) or category(event) == "gpu_user_annotation"
        else event
        for event in original["traceEvents"]
    ]
    return Mutation(f"clock {shift_us / 1000:+.0f} ms", _with(original, events), shift_us=shift_us)


def _zeroed(original: dict[str, Any], work: list[Event]) -> Mutation:
    chosen = {id(event) for event in work[::2]}
    events = [{**event, "ts": 0, "dur": 0} if id(event) in chosen else event for event in original["traceEvents"]]
    kept = [event for event in original["traceEvents"] if id(event) not in chosen]
    lost = losses(original["traceEvents"], kept)
    return Mutation("half at zero", _with(original, events), missing=lost, zeroed=len(chosen))


def _lengthened(original: dict[str, Any], work: list[Event]) -> Mutation:
    """Return the trace with one kernel of the middle as long as a thousand recordings."""
    events = original["traceEvents"]
    first, last = float(work[0]["ts"]), float(work[-1]["ts"])
    middle = work[len(work) // 2]
    long = {**middle, "dur": max(last - first, 1_000.0) * 1_000}
    changed = [long if event is middle else event for event in events]
    return Mutation("long duration", _with(original, changed), lengthened=1)


def _emptied_graphs(original: dict[str, Any]) -> Iterator[Mutation]:
    events = original["traceEvents"]
    replays = {correlation(e) for e in events if category(e) in CALLS and "GraphLaunch" in str(e.get("name"))}
    with_work = [number for number in dict.fromkeys(map(correlation, filter(is_work, events))) if number in replays]
    if not with_work:
        return
    emptied = set(with_work[1:] or with_work)
    kept = [event for event in events if not (is_work(event) and correlation(event) in emptied)]
    yield Mutation(
        "graph replays emptied", _with(original, kept), missing=losses(events, kept), emptied_graphs=len(emptied)
    )


def written(mutation: Mutation, folder: Path) -> Path:
    """Write a mutation to a file, and return its path."""
    path = folder / "mutated.pt.trace.json"
    path.write_text(json.dumps(mutation.trace))
    return path
