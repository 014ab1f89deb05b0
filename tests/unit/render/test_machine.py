from __future__ import annotations

from support import allocation, make_trace, span

from torchprof_magic.render.text import machine_of


def test_a_recording_is_as_large_as_its_events() -> None:
    assert machine_of(make_trace(span("aten::mm", 0, 9), allocation(1, 512))).endswith(" · 1 event")


def test_one_of_memory_alone_is_as_large_as_the_events_of_memory() -> None:
    assert machine_of(make_trace(allocation(1, 512), allocation(2, -512))).endswith(" · 2 memory events")
