"""Memory timelines of torch open as a curve with categories."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import torchprof_magic as tp
from torchprof_magic.model.errors import IngestError, NotATraceError

START_US = 1_700_000_000_000_000
CURVE = [
    [START_US, START_US, START_US + 5, START_US + 7],
    [
        [0, 100, 0, 0, 0, 0, 0, 0, 0],
        [0, 100, 0, 0, 0, 40, 0, 0, 0],
        [0, 100, 20, 0, 0, 0, 30, 0, 0],
        [0, 100, 20, 0, 0, 0, 0, 0, 1],
    ],
]
RAW = [
    [-1, 1, 100, 0],
    [START_US * 1000, 2, 40, 4],
    [START_US * 1000 + 5000, 3, -40, 4],
    [START_US * 1000 + 5000, 3, 40, 6],
    [START_US * 1000 + 9001, 4, -40, 6],
]


def write(folder: Path, value: object, name: str = "timeline.json") -> Path:
    text = value if isinstance(value, str) else json.dumps(value)
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def last_of_each_time(report: tp.Report) -> list[dict[str, int]]:
    """Return the bands that are not 0 after the last change of each time."""
    rows = report.memory.group_by("time_ns", maintain_order=True).last().to_dicts()
    return [{name: value for name, value in row.items() if value and name != "device"} for row in rows]


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "any name"])
def test_the_bytes_of_each_category_are_those_of_the_file_at_every_time(tmp_path: Path, name: str) -> None:
    report = tp.load(write(tmp_path, CURVE, name))
    assert last_of_each_time(report) == [
        {"total_bytes": 140, "parameter_bytes": 100, "activation_bytes": 40},
        {
            "time_ns": 5000,
            "total_bytes": 150,
            "parameter_bytes": 100,
            "optimizer_state_bytes": 20,
            "gradient_bytes": 30,
        },
        {"time_ns": 7000, "total_bytes": 121, "parameter_bytes": 100, "optimizer_state_bytes": 20, "unknown_bytes": 1},
    ]
    assert report.trace.meta.start_unix_ns == START_US * 1000
    assert report.problems == []
    assert report.memory["device"].unique().to_list() == ["device"]


@pytest.mark.parametrize("name", ["a.raw.json.gz", "a.json"])
def test_a_raw_timeline_has_what_was_there_before_and_what_changed_its_category(tmp_path: Path, name: str) -> None:
    assert last_of_each_time(tp.load(write(tmp_path, RAW, name))) == [
        {"total_bytes": 140, "parameter_bytes": 100, "activation_bytes": 40},
        {"time_ns": 5000, "total_bytes": 140, "parameter_bytes": 100, "autograd_bytes": 40},
        {"time_ns": 9001, "total_bytes": 100, "parameter_bytes": 100},
    ]


def test_an_empty_timeline_is_an_empty_report(tmp_path: Path) -> None:
    report = tp.load(write(tmp_path, [[], []]))
    assert report.memory.height == 0
    assert report.summary()


def test_an_opened_timeline_survives_saving_and_exporting(tmp_path: Path) -> None:
    report = tp.load(write(tmp_path, CURVE))
    again = tp.load(report.save(tmp_path / "a.torchprof"))
    assert again.memory.equals(report.memory)
    third = tp.load(report.export_memory_timeline(tmp_path / "b.raw.json.gz"))
    assert last_of_each_time(third) == last_of_each_time(report)


def test_more_released_than_allocated_is_counted(tmp_path: Path) -> None:
    report = tp.load(write(tmp_path, [[START_US * 1000, 2, 5, 0], [START_US * 1000 + 1, 4, -9, 0]]))
    (problem,) = report.problems
    assert (problem.code, problem.message) == (
        "timeline.below_zero",
        "More memory is released than was allocated: 4 B were left out.",
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (json.dumps(CURVE)[:-20], "cut off or damaged"),
        ([[1, 2], [[0] * 9]], "9 numbers for each time"),
        ([[1], [[0] * 8]], "9 numbers for each time"),
        ([[1, 7, 5, 0]], "unknown action or category"),
        ([[1, 2, 5, 8]], "unknown action or category"),
        ([[1, 2, 2**60, 0]], "out of range"),
        ([[2**62, 2, 5, 0]], "out of range"),
        ([[1, 2, 2**49, 0]] * 9000, "impossible"),
        ("[[1, 2, 3.5, 0]]", "damaged"),
        ("[[1" + "0" * 400 + ", 2, 3, 0]]", "damaged"),
        ('[[1, "x"]]', "damaged"),
        ("[[-1, " + "[" * 5000, "damaged"),
    ],
)
def test_a_damaged_timeline_says_so(tmp_path: Path, value: object, said: str) -> None:
    with pytest.raises(IngestError, match=said):
        tp.load(write(tmp_path, value))


def test_a_page_of_torch_is_named_as_a_picture_without_numbers(tmp_path: Path) -> None:
    page = '<html>\n<head><meta charset="utf-8" /><title>GPU Memory Timeline HTML</title></head>\n<body>'
    with pytest.raises(NotATraceError, match=r"torch's picture of a memory timeline.*\.raw\.json\.gz"):
        tp.load(write(tmp_path, page, "a.html"))


def test_a_page_of_ours_without_its_numbers_says_so(tmp_path: Path) -> None:
    page = '<!DOCTYPE html><meta name="generator" content="torchprof-magic memory timeline">'
    with pytest.raises(IngestError, match="it has no numbers"):
        tp.load(write(tmp_path, page, "a.html"))


def test_a_trace_that_is_a_bare_list_of_events_is_still_a_trace(tmp_path: Path) -> None:
    report = tp.load(
        write(tmp_path, [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 0, "dur": 1}])
    )
    assert report.ops["name"].to_list() == ["a"]
