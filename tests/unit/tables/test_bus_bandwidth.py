"""The bandwidth of collectives, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from support import kernel, launch, make_trace, span

from torchprof_magic.tables.collectives import collectives_table


def collective(kind: str, at: float, dur: float, number: int, size: int | None = 4) -> list[dict[str, Any]]:
    told: dict[str, Any] = {"Collective name": kind, "In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "Float"}
    if size is not None:
        told |= {"Group size": size, "Process Group Name": "0", "Process Group Description": "all"}
    return [
        span("record_param_comms", at, 5, **told),
        launch(at + 1, 1, number),
        kernel(f"ncclDevKernel_{kind}", at + 10, dur, number),
    ]


def rows(*events: list[dict[str, Any]], **head: Any) -> list[dict[str, Any]]:
    return collectives_table(make_trace(*(each for some in events for each in some), **head)).frame.to_dicts()


@pytest.mark.parametrize(
    ("kind", "passing"),
    [("allreduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75), ("all_to_all", 0.75), ("broadcast", 1.0)],
)
def test_the_bandwidth_of_the_bus_goes_by_what_has_to_pass_a_link(kind: str, passing: float) -> None:
    # 4,000 bytes in 10 and in 30 us.
    (row,) = rows(collective(kind, 0, 10, 1), collective(kind, 100, 30, 2))
    assert (row["calls"], row["size_bytes"], row["group_size"], row["sum_ns"]) == (2, 4000, 4, 40_000)
    assert row["size_bytes_per_s"] == pytest.approx(2e8)
    assert row["bus_bytes_per_s"] == pytest.approx(2e8 * passing)
    assert row["best_bus_bytes_per_s"] == pytest.approx(4e8 * passing)


def test_without_a_group_the_ranks_are_those_of_the_job_or_unknown() -> None:
    (row,) = rows(collective("allreduce", 0, 10, 1, size=None), distributedInfo={"rank": 0, "world_size": 2})
    assert row["bus_bytes_per_s"] == pytest.approx(4e8)
    (row,) = rows(collective("allreduce", 0, 10, 1, size=None))
    assert (row["group_size"], row["bus_bytes_per_s"]) == (None, None)


def test_one_rank_alone_sends_nothing() -> None:
    (row,) = rows(collective("allreduce", 0, 10, 1, size=1))
    assert row["bus_bytes_per_s"] == 0


def test_a_recording_without_collectives_has_none() -> None:
    assert collectives_table(make_trace(span("aten::mm", 0, 10))).frame.height == 0
