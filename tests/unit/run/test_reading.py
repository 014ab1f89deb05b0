"""Does a recording become a report when there is not enough memory for all of it, or its files are not as recorded?"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support import annotation, chrome, frame, recording, span

import torchprof_magic as tp
from torchprof_magic.capture import Cycle, Recording
from torchprof_magic.capture.output.validate import find_flaw
from torchprof_magic.model.meta import StepMark
from torchprof_magic.run import reading
from torchprof_magic.run.cleanup import sweep


def recording_of(folder: Path, cycles: int) -> Recording:
    made = []
    for number in range(cycles):
        path = folder / f"cycle-{number}.json"
        path.write_bytes(chrome(span(f"op{number}", 0, 10)).ljust(1000))
        marks = (StepMark(number=number, cycle=number, is_complete=True),)
        made.append(Cycle(number=number, path=path, steps=marks, start_unix_ns=None))
    return recording(folder, *made)


def test_cycles_that_there_is_no_memory_for_stay_files_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def lacks(file_bytes: int) -> tuple[int, int] | None:
        asked.append(file_bytes)
        return (2 * file_bytes, 5000) if 2 * file_bytes > 5000 else None

    monkeypatch.setattr(reading, "lacks_room_for", lacks)
    folder = tmp_path / "torchprof-run"
    folder.mkdir()
    report = reading.read_recording(recording_of(folder, 3))
    assert asked == [1000, 2000, 3000]
    assert report.ops["name"].sort().to_list() == ["op0", "op1"]
    (problem,) = report.problems
    assert (problem.code, problem.severity) == ("run.too_large", "data_loss")
    assert problem.message == (
        "cycle-2.json was saved, and is too large to analyse here: that takes about 6 kB of memory, and 5 kB are free."
    )
    assert str(folder / "cycle-2.json") in problem.fix
    del report
    sweep()
    assert (folder / "cycle-2.json").exists()


def test_memory_that_runs_out_while_reading_leaves_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = reading.read_chrome

    def read(files: list[Path | bytes], *rest: object, **more: object) -> object:
        if isinstance(files[0], bytes):  # the report of nothing
            return real(files, *rest, **more)  # type: ignore[arg-type]
        raise MemoryError

    monkeypatch.setattr(reading, "read_chrome", read)
    folder = tmp_path / "torchprof-run"
    folder.mkdir()
    report = reading.read_recording(recording_of(folder, 2))
    assert [problem.code for problem in report.problems] == ["run.too_large", "run.too_large"]
    assert report.events.height == 0
    del report
    sweep()
    assert sorted(path.name for path in folder.iterdir()) == ["cycle-0.json", "cycle-1.json"]


def test_only_the_cells_that_occur_in_a_recording_are_remembered_with_it(tmp_path: Path) -> None:
    path = tmp_path / "cycle-0.json"
    path.write_bytes(
        chrome(frame("/cells/7.py(1): <module>", 0, 50), frame("lib.py(8): forward", 2, 20), span("mm", 3, 9))
    )
    labels = (("/cells/6.py", "In [6]"), ("/cells/7.py", "In [7]"), ("mm", "no file"))
    report = reading.read_recording(
        recording(tmp_path, Cycle(number=0, path=path, steps=(), start_unix_ns=None)), cell_labels=labels
    )
    assert report.trace.meta.cell_labels == (("/cells/7.py", "In [7]"),)


def recording_in(path: Path, content: bytes) -> Recording:
    """Return a recording of one cycle whose file holds this."""
    path.write_bytes(content)
    return recording(path.parent, Cycle(number=0, path=path, steps=(), start_unix_ns=None))


def is_checked(recording: Recording) -> bool:
    """Read, and return whether the reader had a doubt about what it found."""
    asked: list[bool] = []
    reading.read_recording(recording, check=lambda: asked.append(True))
    return bool(asked)


@pytest.mark.parametrize(
    ("events", "is_doubtful"),
    [
        ([span("aten::mm", 0, 10), annotation("epoch 1", 0, 20)], False),
        ([span("aten::mm", 0, 10), frame("lib/a.py(3): forward", 0, 20)], False),
        ([frame("f", 0, 10), frame("g", 5, 10)], False),  # Python calls that overlap come so out of torch
        ([span("unknown", 0, 10)], True),
        ([frame("unknown", 0, 10)], True),
        ([annotation("data/load", 0, 20)], True),
        ([span("aten::mm", 0, 10), {"ph": "X"}], True),
    ],
)
def test_only_what_torch_may_have_changed_is_checked(
    tmp_path: Path, events: list[object], *, is_doubtful: bool
) -> None:
    assert is_checked(recording_in(tmp_path / "cycle-0.json", chrome(*events))) is is_doubtful


def test_a_file_that_cannot_be_read_is_checked(tmp_path: Path) -> None:
    assert is_checked(recording_in(tmp_path / "cycle-0.json", b"no JSON"))


def test_a_file_that_was_written_anew_is_read_again_with_what_the_check_has_found(tmp_path: Path) -> None:
    before = recording_in(tmp_path / "cycle-0.json", chrome(span("unknown", 0, 10)))
    first, second = (tp.meta.Problem(code=code, severity="info", count=1, message=code, fix="") for code in "ab")
    before = replace(before, problems=(first,))

    def check() -> Recording:
        other = tmp_path / "other.json"
        other.write_bytes(chrome(span("\u00e9", 0, 10)))
        return replace(before, cycles=(replace(before.cycles[0], path=other),), problems=(first, second))

    report = reading.read_recording(replace(before, torch_version="9"), check=check)
    assert report.ops["name"].to_list() == ["\u00e9"]
    assert [problem.code for problem in report.problems] == ["a", "b"]
    assert report.trace_paths == (tmp_path / "other.json",)
    assert report.trace.meta.torch_version == "9"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What torch has written of a small recording."""
    folder = tmp_path_factory.mktemp("whole")
    with tp.profile(preset="full", folder=folder), torch.profiler.record_function("mine"):
        torch.ones(4, 4).sum()
    (path,) = folder.glob("*.json")
    return path.read_bytes()


def damaged(text: bytes, chance: random.Random) -> bytes:
    """Return the text with something changed in one place, as a name that is not escaped or a disk would."""
    at = chance.randrange(len(text))
    piece = chance.choice(
        [b'"', b"\\", b"\n", b"\0", b"{", b"}", b"[", b"]", b",", b":", b"\xff", b"nan", b"a", b"0", b"/*"]
    )
    kind = chance.randrange(4)
    if kind == 0:
        return text[:at] + piece + text[at:]
    if kind == 1:
        return text[:at] + piece + text[at + len(piece) :]
    if kind == 2:
        return text[:at] + text[at + chance.randrange(1, 20) :]
    return text[:at]


def test_no_file_that_is_no_json_passes_for_what_was_recorded(whole: bytes, tmp_path: Path) -> None:
    chance = random.Random(0)  # noqa: S311 - damage, not a secret
    assert not is_checked(recording_in(tmp_path / "cycle-0.json", whole))
    found = 0
    for _ in range(400):
        path = tmp_path / "damaged.json"
        path.write_bytes(text := damaged(whole, chance))
        if find_flaw(path, None):
            found += 1
            assert is_checked(recording_in(tmp_path / "cycle-0.json", text)), text
    assert found > 200
