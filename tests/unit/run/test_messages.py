"""One-line messages say where the recording is when there is no report."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from made_snapshots import at, entry, frame, segment, snapshot_of
from support import recording

from torchprof_magic.capture import Unfinished
from torchprof_magic.model.meta import Problem
from torchprof_magic.model.recording import Cycle, Recording
from torchprof_magic.report.trace_report import Report
from torchprof_magic.run.messages import say_holders, say_unfinished, say_unread, say_waiting

FOLDER = Path("/t/torchprof a")


def run(cycles: int, *problems: Problem) -> Recording:
    paths = [FOLDER / f"cycle-{number}.pt.trace.json" for number in range(cycles)]
    return recording(
        FOLDER, *(Cycle(number=0, path=path, steps=(), start_unix_ns=None) for path in paths), problems=problems
    )


@pytest.mark.parametrize(
    ("cycles", "is_magic", "said"),
    [
        (1, True, "Open it with: %torchprof load '/t/torchprof a/cycle-0.pt.trace.json'"),
        (1, False, "Open it with: torchprof_magic.load('/t/torchprof a/cycle-0.pt.trace.json')"),
        (3, True, "Open it with: %torchprof load '/t/torchprof a/cycle-0.pt.trace.json' (the first of 3 cycles)"),
    ],
)
def test_a_trace_that_was_not_read_is_named_with_the_way_to_open_it(
    capsys: pytest.CaptureFixture[str], cycles: int, said: str, *, is_magic: bool
) -> None:
    say_unread(run(cycles), is_remembered=False, is_magic=is_magic)
    expected = f"torchprof: Analysis interrupted. The trace is kept in /t/torchprof a. {said}\n"
    assert capsys.readouterr().out == expected


def test_a_report_that_was_made_but_not_shown_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    say_unread(run(1), is_remembered=True, is_magic=True)
    assert (
        capsys.readouterr().out == "torchprof: Interrupted before the report was shown. Show it with: %torchprof last\n"
    )


def test_a_missing_trace_is_explained_by_the_problems(capsys: pytest.CaptureFixture[str]) -> None:
    lost = Problem(code="a", severity="data_loss", count=1, message="It was given up.")
    info = Problem(code="b", severity="info", count=1, message="Something else.")
    say_unread(run(0, info, lost), is_remembered=True, is_magic=True)
    said = capsys.readouterr().out
    assert said == "torchprof: No trace was saved. It was given up.\n"


@pytest.mark.parametrize(
    ("paths", "left"),
    [
        ((), "Nothing was saved."),
        (("/a/cycle-0.json",), "One cycle was saved. Open it with: %torchprof load /a/cycle-0.json"),
        (("/a/0", "/a/1"), "2 cycles were saved. Open the first with: %torchprof load /a/0"),
    ],
)
def test_a_run_that_did_not_finish_is_named_with_what_is_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, paths: tuple[str, ...], left: str
) -> None:
    monkeypatch.setattr(time, "localtime", time.gmtime)
    run = Unfinished(title="In [5]\x1b[31m", began_unix_s=86400.0, paths=tuple(map(Path, paths)))
    say_unfinished([run])
    expected = f"The run In [5]\\x1b[31m of 1970-01-02 00:00:00 did not finish, because its process ended. {left}\n"
    assert capsys.readouterr().out == f"torchprof: {expected}"


def test_each_waiting_interrupt_prints_what_the_next_one_does(capsys: pytest.CaptureFixture[str]) -> None:
    say_waiting(1)
    say_waiting(2)
    first, second = capsys.readouterr().out.splitlines()
    assert first == "torchprof: Saving the recording. Interrupt again to skip the report."
    assert second == "torchprof: Report skipped. Interrupt again to discard the recording."


def test_who_held_the_memory_of_a_device_that_ran_out_is_printed_the_largest_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = [[frame("/u/project/train.py", number, "step")] for number in range(7)]
    blocks = [at(number, 10 * number, *lines[number]) for number in range(1, 7)]
    history = [entry("alloc", 0, 5, 99), entry("oom", 1, 500, device_free=0)]
    say_holders(Report(snapshot_of(*history, segments=(segment(400, *blocks, at(50, 100)),))))
    assert capsys.readouterr().out.splitlines() == [
        "torchprof: Out of memory on cuda:0. In use: 315 B in 8 blocks, of 400 B reserved:",
        "torchprof:      105 B  allocated before the history was recorded, or without stacks (2 blocks)",
        "torchprof:       60 B  project/train.py:6 step (1 block)",
        "torchprof:       50 B  project/train.py:5 step (1 block)",
        "torchprof:       40 B  project/train.py:4 step (1 block)",
        "torchprof:       30 B  project/train.py:3 step (1 block)",
        "torchprof:   and 2 other places; report.snapshot.by_line('end') lists all",
    ]


def test_nothing_is_printed_about_a_device_that_did_not_run_out(capsys: pytest.CaptureFixture[str]) -> None:
    say_holders(Report(snapshot_of(entry("alloc", 0, 5))))
    assert capsys.readouterr().out == ""
