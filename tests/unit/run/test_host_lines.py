from __future__ import annotations

from array import array
from dataclasses import replace
from pathlib import Path

from support import annotation, make_trace, recording, span

from torchprof_magic.model.recording import HostLine, ProgramMarks, WaitSite
from torchprof_magic.run.host_lines import with_host_lines

BASE = 10**15
TRACE = make_trace(annotation("ProfilerStep#5", 0, 100), span("aten::mm", 10, 5))
SITES = (WaitSite(kind="wait", call="torch.load", file="train.py", line=8),)


def host_lines(*looks_us: int, clock: bool = True, **imports: tuple[str, int, int, int]) -> list[tuple[object, ...]]:
    """Rows of lines: moments in us by our own clock, which is BASE ahead; modules with file, line, start and end."""
    marks = ProgramMarks(
        cycle=0,
        clock=((5, BASE, BASE),) if clock else (),
        lines=array("q"),
        calls=array("q"),
        functions=array("q"),
        looks=array("q", [number for at in looks_us for number in (BASE + at * 1000, 1)]),
        imports=tuple(
            HostLine(module=name, file=file, line=line, start_ns=BASE + start * 1000, end_ns=BASE + end * 1000)
            for name, (file, line, start, end) in imports.items()
        ),
    )
    run = replace(recording(Path()), program=(marks,), wait_sites=SITES)
    return with_host_lines(TRACE, run).host_lines.rows()


def test_imports_and_seen_lines_are_on_the_clock_of_the_trace_and_within_its_steps() -> None:
    assert host_lines(30, 130, sqlite3=("cell", 3, 40, 60), late=("cell", 4, 90, 120), after=("cell", 5, 110, 120)) == [
        (None, "torch.load", "train.py", 8, 0, 30_000, 0, 0),
        ("sqlite3", None, "cell", 3, 0, 40_000, 20_000, 0),
        ("late", None, "cell", 4, 0, 90_000, 10_000, 0),
    ]


def test_an_import_without_code_of_the_user_has_no_line() -> None:
    assert host_lines(sqlite3=("", 0, 40, 60)) == [("sqlite3", None, None, None, 0, 40_000, 20_000, 0)]


def test_without_a_common_clock_there_are_no_lines() -> None:
    assert host_lines(30, clock=False, sqlite3=("cell", 3, 40, 60)) == []
