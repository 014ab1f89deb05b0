"""The numbers of many ranks, worked out by hand; and those of eight real ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from made_ranks import LATE_LINE, device_step, host_step, write_job, write_rank
from support import Event, annotation, kernel, launch

import torchprof_magic as tp
from torchprof_magic.findings.ranks.shown import collectives_view, ranks_view, stragglers_view, timeline_view

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000
# The last two digits of the sketch of the eight real ranks, in ms: what each waits in each collective.
DLRM_WAITS_US = {
    0: [2136, 1024, 169, 124, 160, 504, 581, 883],
    1: [7625, 1017, 162, 125, 221, 535, 581, 853],
    7: [0, 0, 0, 0, 0, 347, 448, 734],
}


def test_waiting_is_the_length_less_the_shortest_among_the_ranks(tmp_path: Path) -> None:
    write_job(tmp_path, {3: 200.0})  # rank 3 comes 200 us later in each of three steps
    report = tp.load(tmp_path)
    assert report.collectives["wait_ns"].to_list() == [600_000] * 3
    assert report.collectives["skew_ns"].to_list() == [200_000] * 3
    assert report.collectives["last_rank"].to_list() == [3, 3, 3]
    assert report.collectives["transfer_ns"].to_list() == [200_000] * 3
    assert report.collectives["step"].to_list() == [1, 2, 3]
    assert report.ranks["wait_ns"].to_list() == [200_000, 200_000, 200_000, 0]
    assert report.ranks["caused_wait_ns"].to_list() == [0, 0, 0, 600_000]
    assert report.ranks["last_in"].to_list() == [0, 0, 0, 3]


def test_the_parts_of_a_rank_add_up_to_its_step(tmp_path: Path) -> None:
    write_job(tmp_path, {3: 200.0})
    ranks = tp.load(tmp_path).ranks
    assert ranks["step_ns"].to_list() == [MS] * 4
    assert ranks["compute_ns"].to_list() == [100_000] * 4
    assert ranks["exposed_comm_ns"].to_list() == [400_000, 400_000, 400_000, 200_000]
    assert ranks["hidden_comm_ns"].to_list() == [0] * 4
    parts = sum(ranks[name] for name in ("compute_ns", "exposed_comm_ns", "copy_ns", "idle_ns"))
    assert parts.to_list() == ranks["step_ns"].to_list()  # type: ignore[union-attr]


def test_each_part_of_the_bars_that_waits_is_a_column_beside_them_called_as_in_the_legend(tmp_path: Path) -> None:
    write_job(tmp_path, {3: 200.0})
    view = ranks_view(tp.load(tmp_path)._job)
    assert view.ranks is not None
    columns = {column.name: column.title for column in view.columns}
    parts = {part.column: part.title for part in view.ranks.parts}
    assert {"own_comm_ns", "idle_ns"} <= set(view.ranks.beside)
    assert (columns["idle_ns"], parts["idle_ns"]) == ("Waits for host", "GPU waits for the host")
    assert (columns["own_comm_ns"], parts["own_comm_ns"]) == ("Communication", "communication")
    assert list(parts)[-1] == "waited_ns"
    assert view.frame["waited_ns"].to_list() == [200_000, 200_000, 200_000, 0]
    assert view.frame["own_comm_ns"].to_list() == [200_000] * 4
    assert sum(view.frame[part.column] for part in view.ranks.parts).to_list() == view.frame["step_ns"].to_list()
    # 1000 us of a step less 100 of a kernel, and 400 or 200 of the collective.
    assert view.frame["idle_ns"].to_list() == [500_000, 500_000, 500_000, 700_000]


def test_the_timeline_begins_with_the_rank_that_is_late(tmp_path: Path) -> None:
    write_job(tmp_path, {2: 200.0})
    view = timeline_view(tp.load(tmp_path)._job)
    assert [lane.group for lane in view.lanes[::3]] == ["rank 2 ▲", "rank 0", "rank 1", "rank 3"]
    # Its collectives, of which it does not wait in any, are in its second lane.
    assert set(view.frame.filter(pl.col("lane") == 1)["note"]) == {"comes last"}
    # The three others wait for 200 us each, in each of the three steps.
    assert view.answer.startswith(
        "For rank 2 the others wait 1.80 ms together in all steps, 600 µs of it in collective 1, `all_reduce`, which "
    )


def long_step(number: int, late_us: float) -> list[Event]:
    """A step of 5 ms, far longer than others, with a collective for which the others wait."""
    at, one = number * 1000, 10 * number
    return [
        annotation(f"ProfilerStep#{number}", at, 5000),
        launch(at + 10, 5, one + 1),
        kernel("gemm", at + 20, 2000, one + 1),
        launch(at + 3000 + late_us, 5, one + 2),
        kernel("ncclDevKernel_AllReduce", at + 3010 + late_us, 1800 - late_us, one + 2, stream=20),
    ]


def test_the_tables_of_collectives_and_stragglers_say_where_and_for_whom_most_of_the_waiting_is(tmp_path: Path) -> None:
    write_job(tmp_path, {2: 200.0})
    job = tp.load(tmp_path)._job
    # Three others wait for 200 us each, in each of the three steps.
    assert collectives_view(job).answer == (
        "The ranks wait longest in collective 1, `all_reduce`, for rank 2: 600 µs of 1.80 ms in all steps."
    )
    assert stragglers_view(job).answer == "For rank 2 the others wait 600 µs together per step: all of the waiting."


def test_ranks_that_keep_up_leave_no_sentence_about_waiting(tmp_path: Path) -> None:
    write_job(tmp_path, {})
    job = tp.load(tmp_path)._job
    assert collectives_view(job).answer == ""
    assert stragglers_view(job).answer == ""


def test_devices_that_wait_longer_for_their_hosts_than_for_ranks_are_told_of(tmp_path: Path) -> None:
    write_job(tmp_path, {3: 200.0})
    # 500 us of three steps and 700 of the fourth are idle; three ranks wait 200 us each for the last one.
    assert "A device also waits for its own host, 550 µs per step on average." in str(tp.load(tmp_path).verdict)


def test_steps_that_do_not_count_are_not_in_the_times_of_a_rank(tmp_path: Path) -> None:
    for rank in range(4):
        late_us = 200 if rank == 3 else 0
        steps = [event for number in (1, 2, 8, 9) for event in device_step(number, late_us)]
        write_rank(tmp_path, rank, *steps, *long_step(3, 1500 if rank == 1 else 0))
    report = tp.load(tmp_path)
    assert report.ranks["steps"].to_list() == [4] * 4
    assert report.ranks["step_ns"].to_list() == [MS] * 4 == [report.rank(rank).step_ns for rank in range(4)]
    assert report.ranks["compute_ns"].to_list() == [100_000] * 4
    assert report.ranks["exposed_comm_ns"].to_list() == [400_000, 400_000, 400_000, 200_000]
    parts = [report.ranks[name] for name in ("compute_ns", "exposed_comm_ns", "copy_ns", "idle_ns")]
    assert sum(parts).to_list() == [MS] * 4  # type: ignore[union-attr]
    # Rank 1 is late by 1.5 ms, but only in the step that does not count.
    assert report.ranks["wait_ns"].to_list() == [200_000, 200_000, 200_000, 0]
    assert report.ranks["caused_wait_ns"].to_list() == [0, 0, 0, 600_000]
    assert report.ranks["last_in"].to_list() == [0, 1, 0, 4]
    assert report.collectives.height == 5
    row = report.stragglers.row(0, named=True)
    assert (row["rank"], row["line"], row["cause_ns"]) == (3, 12, 200_000)


def test_the_straggler_is_named_with_what_it_does_meanwhile(tmp_path: Path) -> None:
    write_job(tmp_path, {2: 200.0})
    report = tp.load(tmp_path)
    row = report.stragglers.row(0, named=True)
    assert report.stragglers.height == 1
    assert (row["rank"], row["cause"], row["file"], row["line"]) == (2, "python", "train.py", 12)
    assert row["cause_ns"] == 200_000
    assert row["share_ratio"] == 1.0
    assert (report.verdict.kind, report.verdict.rank, report.verdict.line) == ("straggler", 2, 12)
    assert report.verdict.certainty == "sure"
    said = str(report.verdict)
    assert said.startswith("Rank 2 is late. Its host runs Python, most at line 12 of train.py")
    assert ": 200 \N{MICRO SIGN}s more per step than the median of the others. The others wait " in said
    # Three wait 200 us each, so that none of them waits longest.
    assert "wait 600 \N{MICRO SIGN}s for it together per step, 200 \N{MICRO SIGN}s each on average." in said


def test_the_page_begins_with_who_waits_longest_and_has_the_sums_behind_it(tmp_path: Path) -> None:
    # Rank 3 comes 200 us late: rank 2 waits all of that, rank 0 waits 150 and rank 1 waits 100.
    write_job(tmp_path, {0: 50.0, 1: 100.0, 3: 200.0})
    report = tp.load(tmp_path)
    verdict = json.loads(report.widget._header)["verdict"]
    said, more = ("".join(span["text"] for span in verdict[name]) for name in ("text", "more"))
    assert said.endswith(" than the median of the others; rank 2 waits the longest for others, 200 µs per step.")
    # Each device waits 500 us, and as long as it is late: 550, 600, 500 and 700.
    assert more == (
        " The others wait 450 µs for it together per step, 150 µs each on average. A device also waits for "
        "its own host, 588 µs per step on average."
    )
    assert report.verdict.statement == f"Rank 3 is late. {said}{more}"


def test_advice_on_a_straggler_saves_what_it_comes_after_the_last_but_one(tmp_path: Path) -> None:
    write_job(tmp_path, {1: 50.0, 2: 200.0})
    report = tp.load(tmp_path)
    (advice,) = report.advice
    assert (advice.rule, advice.certainty, advice.file, advice.line) == ("straggler", "measured", "train.py", 12)
    assert advice.title == "Let rank 2 keep up"
    assert advice.saving_ns == 150_000  # it comes 200 us after two ranks, and 150 us after rank 1
    assert "Last in 3 of 3 collectives" in advice.evidence
    assert "Let rank 2 keep up: do this on all ranks alike" in report.summary()
    assert "What to change" in report._repr_html_()
    assert json.loads(report.summary("json"))["advice"][0]["saving_ns"] == 150_000


def test_ranks_that_keep_up_get_no_advice_and_a_muted_rule_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "even").mkdir()
    write_job(tmp_path / "even")
    assert tp.load(tmp_path / "even").advice == []
    (tmp_path / "late").mkdir()
    write_job(tmp_path / "late", {2: 200.0})
    report = tp.load(tmp_path / "late")
    assert report.advice
    try:
        tp.rules.configure({"mute": ["straggler"]})
        assert report.advice == []
        tp.rules.configure({"thresholds": {"straggler": 0.5}})  # it would save a fifth of a step
        assert report.advice == []
    finally:
        tp.rules.configure({})


def test_a_rank_whose_device_computes_longer_is_named_with_its_kernel(tmp_path: Path) -> None:
    write_job(tmp_path)
    events = []
    for number in (1, 2, 3):
        step = device_step(number, 200.0)
        busy = step[3] | {"name": "slow_kernel", "dur": 200, "ts": step[3]["ts"] + 100}
        # Its launch is in the step, and its host does what that of the others does.
        busy["args"] = busy["args"] | {"correlation": 100 + number}
        call = step[2] | {"ts": step[2]["ts"] + 6, "args": {"correlation": 100 + number}}
        frame = step[4] | {"dur": 250}
        events += [*step[:4], call, busy, frame, *step[5:]]
    write_rank(tmp_path, 1, *events)
    row = tp.load(tmp_path).stragglers.row(0, named=True)
    assert (row["rank"], row["cause"], row["name"], row["cause_ns"]) == (1, "compute", "slow_kernel", 200_000)


def test_ranks_that_are_late_in_turn_are_told_apart_from_one_that_is_always(tmp_path: Path) -> None:
    for rank in range(4):
        events = [event for number in range(1, 5) for event in device_step(number, 200.0 if number == rank + 1 else 0)]
        write_rank(tmp_path, rank, *events)
    report = tp.load(tmp_path)
    assert report.verdict.kind == "uneven"
    assert report.verdict.rank is None
    assert report.ranks["last_in"].to_list() == [1, 1, 1, 1]


def test_a_balanced_job_has_no_straggler(tmp_path: Path) -> None:
    write_job(tmp_path)
    report = tp.load(tmp_path)
    assert report.verdict.kind == "balanced"
    assert report.stragglers.height == 0


def test_clocks_are_set_by_the_ends_that_all_share(tmp_path: Path) -> None:
    write_job(tmp_path, {3: 200.0})
    events = [event for number in (1, 2, 3) for event in device_step(number, 200.0)]
    write_rank(tmp_path, 3, *events, clock_us=350)
    report = tp.load(tmp_path)
    assert report.ranks["clock_offset_ns"].to_list() == [0, 0, 0, 350_000]
    assert report.ranks["clock_error_ns"].to_list() == [0, 0, 0, 0]
    came = report.arrivals.filter(pl.col("number") == 1).sort("rank")["start_ns"].to_list()
    assert [at - came[0] for at in came] == [0, 0, 0, 200_000]


def test_the_error_of_a_clock_is_what_its_collectives_disagree_by(tmp_path: Path) -> None:
    write_job(tmp_path, ranks=3)
    events = []
    for number, off in ((1, -30), (2, 0), (3, 20)):
        step = device_step(number)
        step[-1] = step[-1] | {"ts": step[-1]["ts"] + off}
        events += step
    write_rank(tmp_path, 2, *events, world_size=3)
    ranks = tp.load(tmp_path).ranks
    assert ranks["clock_offset_ns"].to_list() == [0, 0, 0]
    assert ranks["clock_error_ns"].to_list() == [0, 0, 30_000]


def test_gloo_on_the_host_is_read_alike(tmp_path: Path) -> None:
    for rank in range(4):
        events = [event for number in (1, 2, 3) for event in host_step(number, 200.0 if rank == 1 else 0.0)]
        write_rank(tmp_path, rank, *events, deviceProperties=[])
    report = tp.load(tmp_path)
    assert report.collectives["wait_ns"].to_list() == [600_000] * 3
    assert report.collectives["bytes"].to_list() == [1000] * 3
    assert report.ranks["exposed_comm_ns"].to_list() == [400_000, 200_000, 400_000, 400_000]
    row = report.stragglers.row(0, named=True)
    assert (row["rank"], row["cause"], row["file"], row["line"]) == (1, "python", "train.py", 12)
    assert row["name"] == LATE_LINE


def test_bytes_and_bandwidths_are_those_of_nccl_tests(tmp_path: Path) -> None:
    told = {"Collective name": "allreduce", "In msg nelems": 500, "Out msg nelems": 500, "dtype": "BFloat16"}
    for rank in range(4):
        events = [event for number in (1, 2) for event in device_step(number, details=told)]
        write_rank(tmp_path, rank, *events)
    row = tp.load(tmp_path).collectives.row(0, named=True)
    assert (row["name"], row["bytes"]) == ("all_reduce", 1000)
    assert row["bytes_per_s"] == pytest.approx(1000 / 400e-6)
    assert row["bus_bytes_per_s"] == pytest.approx(1000 / 400e-6 * 2 * 3 / 4)


def test_only_steps_that_all_ranks_recorded_are_compared(tmp_path: Path) -> None:
    for rank, numbers in ((0, (1, 2, 3)), (1, (2, 3, 4))):
        write_rank(tmp_path, rank, *(event for each in numbers for event in device_step(each)), world_size=2)
    assert tp.load(tmp_path).collectives["step"].to_list() == [2, 3]


def test_sequence_numbers_join_what_the_order_would_not(tmp_path: Path) -> None:
    def events(numbers: tuple[int, ...]) -> list[Any]:
        return [
            event
            for each in numbers
            for event in device_step(
                each, details={"Collective name": "allreduce", "Process Group Name": "0", "Seq": 40 + each}
            )
            if not event["name"].startswith("ProfilerStep")
        ]

    write_rank(tmp_path, 0, *events((1, 2, 3)), world_size=2)
    write_rank(tmp_path, 1, *events((2, 3, 4)), world_size=2)
    report = tp.load(tmp_path)
    assert report.collectives.height == 2
    assert report.ranks["clock_offset_ns"].to_list() == [0, 0]


def test_a_step_in_which_a_rank_has_one_more_is_left_out_and_told(tmp_path: Path) -> None:
    write_job(tmp_path, ranks=2)
    more = device_step(2)[-1]
    events = [event for number in (1, 2, 3) for event in device_step(number)]
    write_rank(tmp_path, 1, *events, more | {"ts": more["ts"] + 450, "dur": 20}, world_size=2)
    report = tp.load(tmp_path)
    assert report.collectives["step"].to_list() == [1, 3]
    assert [(each.code, each.count) for each in report.problems if each.code == "ranks.unmatched"] == [
        ("ranks.unmatched", 3)
    ]


def test_groups_are_kept_apart(tmp_path: Path) -> None:
    for rank in range(4):
        pair = "[0, 1]" if rank < 2 else "[2, 3]"
        told = {"Collective name": "allgather", "Process Group Name": "9", "Process Group Ranks": pair, "Group size": 2}
        late = 200.0 if rank == 3 else 0.0
        write_rank(tmp_path, rank, *device_step(1, late, details=told))
    found = tp.load(tmp_path).collectives.sort("wait_ns")
    assert found.select("ranks", "wait_ns", "last_rank", "name").rows()[1] == (2, 200_000, 3, "all_gather")
    assert found["wait_ns"].to_list() == [0, 200_000]


def test_eight_real_ranks_have_the_numbers_of_an_independent_count(traces: Path, facts: dict[str, Any]) -> None:
    report = tp.load(traces / "06_v100_dlrm_8ranks")
    assert report.problems == [each for each in report.problems if not each.code.startswith("ranks.")]
    for row in report.ranks.iter_rows(named=True):
        device = facts[f"rank{row['rank']}.json.gz"]["devices"][str(row["rank"])]
        hidden = device["comm_hidden_by_compute_ns"]
        assert row["hidden_comm_ns"] == hidden
        assert row["exposed_comm_ns"] == device["comm_union_ns"] - hidden
    waits = report.arrivals.sort("number").group_by("rank").agg(pl.col("wait_ns") // 1000)
    assert {rank: values for rank, values in waits.rows() if rank in DLRM_WAITS_US} == DLRM_WAITS_US
    assert report.ranks["clock_error_ns"].max() <= 10_000  # type: ignore[operator]
    assert (report.verdict.kind, report.verdict.rank) == ("straggler", 7)
    assert report.stragglers.row(0, named=True)["caused_wait_ns"] == 35_543_000
    assert report.collectives.filter(pl.col("last_rank") == 7).height == 5
