from __future__ import annotations

import pytest
from support import annotation, make_trace, span

from torchprof_magic.analysis.op_groups import ops_grouped


def thread(tid: int, name: str) -> dict[str, object]:
    return {"ph": "M", "name": "thread_name", "pid": 7, "tid": tid, "args": {"name": name}}


@pytest.mark.parametrize("names", [("", "a"), ("a", "a\nop")])
def test_a_group_holds_its_own_ops_whatever_it_is_called(names: tuple[str, str]) -> None:
    trace = make_trace(
        *(thread(tid, name) for tid, name in enumerate(names, 1)),
        annotation("ProfilerStep#1", 0, 100, tid=3),
        *(span("op", 5, 10 * tid, tid=tid) for tid in (1, 2)),
    )
    frame = ops_grouped(trace, "thread").frame
    name_of = dict(frame.filter(frame["above"] == "").select("id", "name").rows())
    held = frame.filter(frame["above"] != "")
    times = {(name_of[above], ns) for above, ns in held.select("above", "self_cpu_ns").rows()}
    assert times >= {(names[0], 10_000), (names[1], 20_000)}
    assert set(name_of).isdisjoint(held["id"])
    assert "" not in name_of
