"""Real traces against an account of what limits each of them, which another program made from the raw files."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from torchprof_magic.facts.device.idle_pieces import DETAILS, idle_pieces
from torchprof_magic.facts.device.window import windows_of
from torchprof_magic.facts.host.blocking import blocking_calls
from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.host_states import STATES, pieces_of, thread_timelines
from torchprof_magic.findings.verdict.accounts import device_account
from torchprof_magic.loading import load
from torchprof_magic.model.intervals import covered_ns
from torchprof_magic.tables.host.host_times import host_table
from torchprof_magic.tables.steps import device_intervals
from torchprof_magic.tables.waiting.queue import launch_totals

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.model.trace import Trace
    from torchprof_magic.report.trace_report import Report

FILES = (
    "01_cpu_gloo_rank34.json.gz",
    "02_a100_ddp_rank0of2.json.gz",
    "03_h100_qwen_stacks_memory.json.gz",
    "04_amd_vllm_decode_graph.json.gz",
    "05_v100_resnet50_old_schema.json.gz",
    *(f"06_v100_dlrm_8ranks/rank{rank}.json.gz" for rank in range(8)),
    "07_mi300_flux_triton_large.json.gz",
    "08_mtia_inference_rank0.json.gz",
)
# Groups of waits that the account leaves out are below this.
LEAST_LISTED_NS = 20_000
NAMES = {
    "launch_call": "launch call",
    "launch_latency": "launch latency",
    "queued_not_started": "queued, not started",
    "queued_short": "queued, short gap",
    "graph_internal": "inside a graph",
    "no_launch_record": "not recorded",
    "python_or_other": "python or other",
    "op_dispatch": "op dispatch",
    "runtime_call": "runtime call",
    "no_host_activity": "no host activity",
    "data_loading": "data",
    "compile_capture": "compile",
    "host_comm": "host communication",
    "profiler": "profiler",
}
BLOCKED = {
    "sync": "wait",
    "copy": "wait",
    "queue full": "wait",
    "alloc": "alloc",
    "init": "init",
    "slow launch": "slow_launch",
}
KINDS = {
    "communication": "communication",
    "launch/host dispatch": "dispatch",
    "device compute": "compute",
    "data": "data",
    "compile/capture/initialisation": "compile",
    "python": "python",
    "memory traffic": "memory_traffic",
    "none": "none",
}
CATEGORIES = {
    "op": "cpu_op",
    "annotation": "user_annotation",
    "python": "python_function",
    "runtime": "runtime",
}


class Case:
    """A trace with its report and the account of it."""

    def __init__(self, report: Report, account: dict[str, Any]) -> None:
        self.report = report
        self.trace: Trace = report.trace
        self.account = account


@pytest.fixture(scope="module", params=FILES)
def case(request: pytest.FixtureRequest, traces: Path) -> Case:
    accounts = {account["file"]: account for account in json.loads((traces / "limits.json").read_text())}
    return Case(load(traces / request.param), accounts[request.param])


def sums(labels: list[str], ns: np.ndarray) -> dict[str, int]:
    found: Counter[str] = Counter()
    for label, part in zip(labels, ns.tolist(), strict=True):
        found[label] += part
    return {label: part for label, part in found.items() if part}


def label_of(trace: Trace, name: str, cause: int) -> str:
    """The label that the account gives to a state, with the call where one blocks."""
    if name != "blocked":
        return name
    row = int(host_nest(trace).row[cause])
    calls = blocking_calls(trace)
    rule = dict(zip(calls["row"].to_list(), calls["rule"].to_list(), strict=True))[row]
    return f"{BLOCKED[rule]}:{trace.events['name'][row]}"


def wanted(states: dict[str, int]) -> dict[str, int]:
    return {NAMES.get(name, name): ns for name, ns in states.items()}


def test_the_window_is_from_the_first_to_the_last_step(case: Case) -> None:
    assert windows_of(case.trace).whole_ns == case.account["window_ns"]


def test_every_wait_is_found_with_its_rule_thread_count_and_busy_device(case: Case) -> None:
    keys = ["call", "rule", "thread"]
    found = (
        case.report.waits.with_columns(pl.col("rule").cast(pl.String))
        .group_by(keys)
        .agg(pl.col("count", "total_ns", "device_busy_ns").sum(), pl.col("longest_ns").max())
    )
    ours = {row[:3]: row[3:] for row in found.select(*keys, "count", "total_ns", "device_busy_ns", "longest_ns").rows()}
    theirs = {
        (wait["call"], wait["rule"], wait["thread"]): (
            wait["count"], wait["total_ns"], wait["device_busy_ns"], wait["max_ns"],
        )
        for wait in case.account["waits"]
    }  # fmt: skip
    assert {key: ours.get(key) for key in theirs} == theirs
    assert all(ours[key][1] < LEAST_LISTED_NS for key in ours.keys() - theirs.keys())


def test_every_wait_is_charged_to_the_op_and_annotation_around_it(case: Case) -> None:
    for wait in case.account["waits"]:
        mine = case.report.waits.filter((pl.col("call") == wait["call"]) & (pl.col("thread") == wait["thread"]))
        ours = mine.group_by("op", "annotation").agg(pl.col("total_ns").sum()).rows()
        theirs: Counter[tuple[Any, Any]] = Counter()
        for cause in wait["causes"]:
            theirs[cause["op"], cause["annotation"]] += cause["ns"]
        listed = {(op, annotation): ns for op, annotation, ns in ours if (op, annotation) in theirs}
        assert listed == dict(theirs)


def test_busy_and_idle_time_of_each_device_add_up_to_the_window(case: Case) -> None:
    windows = windows_of(case.trace)
    busy = {
        device: int(covered_ns(start, end, windows.start_ns, windows.end_ns).sum())
        for device, start, end in device_intervals(case.trace)
    }
    assert busy == {int(device["device"]): device["busy_ns"] for device in case.account["devices"]}
    idle = dict(case.report.idle.group_by("device").agg(pl.col("idle_ns").sum()).rows())
    assert idle == {device: windows.whole_ns - ns for device, ns in busy.items()}


@pytest.mark.parametrize(
    ("key", "which"), [("idle_by_cause", "detail"), ("idle_by_host_state", "host")], ids=["cause", "host"]
)
def test_idle_time_is_split_exactly(case: Case, key: str, which: str) -> None:
    pieces = idle_pieces(case.trace)
    cause = pieces.cause
    for device in case.account["devices"]:
        here = np.flatnonzero(pieces.device == int(device["device"]))
        numbers = getattr(pieces, which)[here].tolist()
        labels = [label_of(case.trace, DETAILS[n], c) for n, c in zip(numbers, cause[here].tolist(), strict=True)]
        assert sums(labels, (pieces.end_ns - pieces.start_ns)[here]) == wanted(device[key])


def test_exposed_communication_is_that_which_runs_alone(case: Case) -> None:
    account = device_account(case.trace)
    exposed = [device["exposed_comm_ns"] for device in case.account["devices"]]
    assert ([] if account is None else [account.exposed_ns]) == exposed


def test_launch_delays_and_the_queue_are_as_counted(case: Case) -> None:
    theirs, ours = case.account["launch"], launch_totals(case.trace)._asdict()
    exact = (
        "kernels", "with_launch", "delay_max_ns", "kernel_before_launch", "queue_max", "queue_max_at_ns",
        "queue_calls_max", "short_kernels",
    )  # fmt: skip
    assert {name: ours[name] for name in exact} == {name: theirs[name] for name in exact}
    for name in ("queue_mean", "queue_calls_mean"):
        assert int(ours[name]) == theirs[name]
    for name in ("delay_mean_ns", "delay_median_ns", "delay_p90_ns"):
        # Of an even number of delays, the median lies between two.
        assert ours[name] == (None if theirs[name] is None else pytest.approx(theirs[name], rel=0.02, abs=2))
    for name in ("short_share", "short_time_share"):
        assert ours[name] == (None if theirs[name] is None else pytest.approx(theirs[name], abs=1e-4))


def test_self_time_on_the_host_is_counted_over_all_categories(case: Case) -> None:
    frame = host_table(case.trace).frame
    by_category = dict(frame.group_by("category").agg(pl.col("self_ns").sum()).rows())
    theirs = {CATEGORIES[name]: ns for name, ns in case.account["host_self_by_category"].items()}
    assert {name: by_category.get(name, 0) for name in theirs} == theirs
    ours = {(row["name"], row["category"]): (row["self_ns"], row["count"]) for row in frame.to_dicts()}
    for top in case.account["host_top"]:
        assert ours[top["name"], CATEGORIES[top["category"]]][0] == top["self_ns"]


def test_the_states_of_each_thread_are_as_counted(case: Case) -> None:
    windows, lines = windows_of(case.trace), thread_timelines(case.trace)
    names = dict(enumerate((case.trace.lanes["pid"] + "/" + case.trace.lanes["tid"]).to_list()))
    found = {}
    for lane, line in lines.items():
        pieces = pieces_of(line, windows.start_ns, windows.end_ns)
        labels = [
            label_of(case.trace, STATES[state], cause)
            for state, cause in zip(pieces.state.tolist(), pieces.cause.tolist(), strict=True)
        ]
        found[names[lane]] = sums(labels, pieces.end_ns - pieces.start_ns)
    for thread in case.account["host_threads"]:
        theirs = wanted(thread["state_ns"])  # the six largest
        assert {state: found[thread["thread"]].get(state) for state in theirs} == theirs


def test_the_verdict_is_of_the_right_kind_and_names_what_it_must(case: Case) -> None:
    verdict, theirs = case.report.verdict, case.account["verdict"]
    kinds = {KINDS[kind] for kind in (theirs["kind"], *theirs["also_acceptable_kinds"])}
    assert verdict.kind in kinds
    assert [name for name in theirs["must_name"] if name not in str(verdict)] == []


def test_the_verdict_blames_nothing_that_only_waits(case: Case) -> None:
    verdict = case.report.verdict
    blamed = [verdict.name, verdict.second.name if verdict.second else ""]
    for name in case.account["verdict"]["must_not_blame"]:
        assert name.partition(" (")[0].partition(" as ")[0].partition(" self time")[0] not in blamed
