"""Arguments of devices and of collectives are read wherever they come in a file."""

import json

import pytest

from tests.support import kernel, launch, make_trace, span
from torchprof_magic.ingest.json import blocks


@pytest.mark.parametrize("block_bytes", [100, 1 << 20])
def test_what_devices_say_is_read_after_many_events_of_the_host(
    block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block_bytes)
    ops = [span(f"aten::op{number}", 20 * number, 10, **{"Sequence number": number}) for number in range(20)]
    events = (*ops, launch(400, 5, correlation=3), kernel("k", 410, 7, correlation=3), span("aten::last", 500, 1))
    trace = make_trace(*events)
    assert trace.events.filter(trace.events["name"] == "k")["correlation"].item() == 3
    assert trace.events["sequence"].drop_nulls().to_list() == list(range(20))
    assert trace.flows.filter(trace.flows["kind"] == "launch").height == 1


def test_a_collective_among_ops_of_the_host_keeps_its_size_and_type() -> None:
    args = {"Collective name": "allreduce", "In msg nelems": 8, "Out msg nelems": 8, "dtype": "Float"}
    trace = make_trace(span("aten::add", 0, 10), span("record_param_comms", 40, 10, **args))
    found = trace.events.filter(trace.events["name"] == "record_param_comms")["collective"].item()
    assert json.loads(found)[:4] == ["allreduce", 8, 8, "Float"]
