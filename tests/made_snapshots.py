"""Memory snapshots of a caching allocator, in the form in which torch writes them."""

from __future__ import annotations

import random
from typing import Any

from torchprof_magic.ingest.snapshot.reader import snapshot_trace
from torchprof_magic.model.meta import Meta
from torchprof_magic.model.trace import Trace

BEGIN_US = 1_783_874_495_854_988
MB = 1_000_000
Entry = dict[str, Any]


def entry(action: str, at_us: int, size: int, addr: int = 4096, **more: Any) -> Entry:
    place = {"addr": addr} if action != "oom" else {}
    return {"action": action, "size": size, "stream": 0, "time_us": BEGIN_US + at_us, "frames": [], **place, **more}


def block(size: int, state: str = "active_allocated", *frames: Entry) -> Entry:
    return {"size": size + 512, "requested_size": size, "address": 0, "state": state, "frames": list(frames)}


def frame(filename: str, line: int, name: Any) -> Entry:
    return {"filename": filename, "line": line, "name": name}


def segment(total: int, *blocks: Entry, device: int = 0) -> Entry:
    return {"device": device, "address": 0, "total_size": total, "blocks": list(blocks)}


def snapshot(*traces: list[Entry], segments: tuple[Entry, ...] = (), **more: Any) -> Entry:
    return {"segments": list(segments), "device_traces": list(traces), **more}


def snapshot_of(*history: Entry, segments: tuple[Entry, ...] = (), **more: Any) -> Trace:
    """The trace of a snapshot of one device."""
    return snapshot_trace(snapshot(list(history), segments=segments, **more), Meta(), most_entries=100_000)


def at(address: int, size: int, *frames: Entry, state: str = "active_allocated") -> Entry:
    """A block at an address, of exactly its size."""
    return {"size": size, "requested_size": size, "address": address, "state": state, "frames": list(frames)}


def random_history(seed: int, actions: int = 300) -> tuple[list[Entry], list[dict[int, int]], list[Entry]]:
    """What an allocator does that reuses addresses, what is in use after each action, and the blocks at the end."""
    chance = random.Random(seed)  # noqa: S311 - the same ones in every run
    in_use = {4096 * (number + 1): chance.randrange(1, 1000) for number in range(20)}
    free = [4096 * (number + 21) for number in range(40)]
    entries, after = [], []
    for at_us in range(actions):
        if in_use and (chance.random() < 0.5 or not free):
            gone = chance.choice(list(in_use))
            entries.append(entry("free_completed", at_us, in_use.pop(gone), gone))
            free.append(gone)
        else:
            address = free.pop(chance.randrange(len(free)))
            in_use[address] = chance.randrange(1, 1000)
            entries.append(entry("alloc", at_us, in_use[address], address))
        after.append(dict(in_use))
    return entries, after, [at(address, size) for address, size in in_use.items()]
