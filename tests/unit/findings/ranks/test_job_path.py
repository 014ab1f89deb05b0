"""The critical path of a job, worked out by hand: four ranks whose hosts wait for a collective in each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from made_ranks import COMES_US, ENDS_US, device_step, host_step, write_job, write_rank
from support import Event, annotation, span

import torchprof_magic as tp

if TYPE_CHECKING:
    from pathlib import Path


def waiting_step(number: int, late_us: float) -> list[Event]:
    """A step whose host waits for its collective, until 5 us after its end."""
    since = COMES_US + late_us - 1
    wait = span("cudaStreamSynchronize", number * 1000 + since, ENDS_US + 5 - since, cat="cuda_runtime", correlation=0)
    return [*device_step(number, late_us), wait | {"args": {"correlation": 900 + number}}]


def sums(frame: pl.DataFrame, step: int) -> dict[tuple[int, str], int]:
    """Return how long each rank and kind is on the path of a step, in us."""
    found = frame.filter(step=step).group_by("rank", "kind").agg(pl.col("dur_ns").sum() // 1000)
    return {(rank, kind): us for rank, kind, us in found.sort("rank", "kind").iter_rows()}


def write(folder: Path, late_us: dict[int, float], *, clock_us: float = 0.0) -> None:
    for rank in range(4):
        events = [event for number in (1, 2, 3) for event in waiting_step(number, late_us.get(rank, 0.0))]
        write_rank(folder, rank, *events, clock_us=clock_us * rank)


def test_the_path_goes_on_with_the_rank_that_the_others_wait_for(tmp_path: Path) -> None:
    write(tmp_path, {3: 200.0})
    found = tp.load(tmp_path).critical_path
    assert found["step"].unique().to_list() == [1, 2, 3]
    # All end at 1,000 us. The collective has begun on rank 3 at 600 us, and then takes 200; there, the line of train.py
    # takes 450 us. After it come 5 us until its end is known, and 195 us of the first rank.
    parts = sums(found, 2)
    assert parts.pop((3, "communication")) == 200
    assert sum(us for (rank, _), us in parts.items() if rank == 3) == 600
    assert sum(us for (rank, _), us in parts.items() if rank == 0) == 200
    assert found.filter(step=2)["dur_ns"].sum() == 1_000_000
    (top,) = found.filter((pl.col("step") == 2) & (pl.col("rank") == 3)).sort("dur_ns").tail(1).to_dicts()
    assert (top["kind"], top["name"], top["file"], top["line"]) == ("python", "train.py(12): load", "train.py", 12)
    assert top["dur_ns"] >= 450_000
    assert found.filter(step=2)["order"].to_list() == list(range(found.filter(step=2).height))
    assert found.filter(kind="communication")["collective"].to_list() == [1, 2, 3]


def test_clocks_that_differ_change_nothing_of_the_path(tmp_path: Path) -> None:
    (tmp_path / "same").mkdir()
    (tmp_path / "apart").mkdir()
    write(tmp_path / "same", {2: 100.0})
    write(tmp_path / "apart", {2: 100.0}, clock_us=-7_000.0)
    same, apart = tp.load(tmp_path / "same").critical_path, tp.load(tmp_path / "apart").critical_path
    assert sums(same, 2) == sums(apart, 2)
    assert sums(same, 2)[2, "communication"] == 300


def test_ranks_that_wait_for_nobody_have_a_path_of_their_own(tmp_path: Path) -> None:
    write_job(tmp_path, {3: 200.0})  # whose hosts never wait for a collective
    found = tp.load(tmp_path).critical_path
    assert found["rank"].unique().to_list() == [0]
    assert sums(found, 1) == {(0, "calls"): 10, (0, "ops"): 15, (0, "python"): 975}


def test_on_the_host_the_path_goes_on_with_the_last_rank_as_well(tmp_path: Path) -> None:
    for rank in range(4):
        late_us = 300.0 if rank == 1 else 0.0
        after = [annotation("rest", number * 1000 + ENDS_US, 190) for number in (1, 2, 3)]
        write_rank(tmp_path, rank, *(e for number in (1, 2, 3) for e in host_step(number, late_us)), *after)
    found = tp.load(tmp_path).critical_path
    parts = sums(found, 2)
    assert parts[1, "communication"] == 100  # from 700 to 800 us
    assert sum(us for (rank, _), us in parts.items() if rank == 1) == 800
    assert found.filter(step=2)["dur_ns"].sum() == 1_000_000


def test_eight_real_ranks_wait_for_the_one_that_comes_last(traces: Path) -> None:
    found = tp.load(traces / "06_v100_dlrm_8ranks").critical_path
    # Rank 4 ends last, and waits for the first all_to_all, to which rank 7 comes last: it takes 10 us there.
    assert found["rank"].unique().to_list() == [4, 7]
    assert found.filter(kind="communication").select("rank", "collective", "name", "dur_ns").rows() == [
        (7, 1, "all_to_all", 10_000)
    ]
    assert found.row(0, named=True)["name"] == "DistributedDataParallel.forward"
