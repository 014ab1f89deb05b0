"""The progress bar is never drawn while torch records, which would add time and events to the user's steps."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import comm
import pytest
import torch._inductor.config  # torch imports it at the first prepare; its warnings are not ours
from torch.autograd import profiler as autograd_profiler
from tqdm.notebook import tqdm_notebook
from tqdm.std import tqdm as tqdm_console

from torchprof_magic.capture import CaptureSession, Progress
from torchprof_magic.ipython import progress
from torchprof_magic.ipython.progress import ProgressBar
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import ProfileOptions, ScheduleOptions

DRAWN, STEPPED = "drawn", "stepped"


@dataclass
class Diary:
    """What happened, in order, each with whether torch was recording in any thread."""

    entries: list[tuple[str, bool]] = field(default_factory=list)

    def note(self, what: str) -> None:
        # The flag of the process; that of the thread, _profiler_enabled(), is False in a thread that only draws.
        self.entries.append((what, bool(autograd_profiler._is_profiler_enabled)))

    def moments(self, what: str) -> list[bool]:
        return [is_recording for entry, is_recording in self.entries if entry == what]


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture(params=["console", "widget"])
def _screen(request: pytest.FixtureRequest, diary: Diary, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw at every update, and note everything that is written to the screen or sent to the notebook."""

    class Screen(io.StringIO):
        def write(self, text: str) -> int:
            diary.note(DRAWN)
            return len(text)

    class Page(comm.DummyComm):
        def publish_msg(self, *_arguments: Any, **_keys: Any) -> None:
            diary.note(DRAWN)

    kind = tqdm_notebook if request.param == "widget" else tqdm_console

    class EagerBar(kind):  # type: ignore[misc, valid-type]
        def __init__(self, **options: Any) -> None:
            super().__init__(file=Screen(), mininterval=0, **options)

    monkeypatch.setattr(progress, "tqdm", EagerBar)
    monkeypatch.setattr(progress, "display", lambda *_arguments, **_options: None)
    monkeypatch.setattr(comm, "create_comm", Page)


def train(session: CaptureSession, diary: Diary, how: str, steps: int, *, fail_at: int | None = None) -> None:
    """Train a small model under ``session``, and note for each step whether it is recorded."""
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session.start()
    for number in range(steps):
        model(torch.ones(2, 4)).sum().backward()
        diary.note(STEPPED)
        if number == fail_at:
            raise ValueError
        optimizer.step()  # ends the step, if how is "optimizer"
        if how == "manual":
            session.step()


def record(diary: Diary, folder: Path, how: str, schedule: ScheduleOptions, steps: int, **more: int) -> None:
    """Do what the magic does: record with a bar, always stop, close the bar."""
    bar = ProgressBar()
    options = ProfileOptions(schedule=schedule, activities=("cpu",))
    session = CaptureSession(options, stepping=Stepping(how=how), folder=folder, on_progress=bar)
    try:
        with contextlib.suppress(ValueError):
            train(session, diary, how, steps, **more)
    finally:
        session.stop()
        bar.close()


def cycles(wait: int, warmup: int, active: int, repeat: int) -> ScheduleOptions:
    return ScheduleOptions(wait=wait, warmup=warmup, active=active, repeat=repeat)


@pytest.mark.usefixtures("_screen")
@pytest.mark.parametrize(
    ("how", "schedule", "recorded"),
    [
        ("manual", ScheduleOptions(), "..###..."),
        ("manual", cycles(1, 1, 2, 2), "..##..##."),
        ("manual", cycles(0, 0, 1, 3), "###.."),
        ("manual", cycles(0, 1, 9, 1), ".###"),
        ("optimizer", ScheduleOptions(), "####.."),
        ("cell", ScheduleOptions(), "###"),
    ],
)
def test_the_bar_is_drawn_only_while_torch_does_not_record(
    diary: Diary, tmp_path: Path, how: str, schedule: ScheduleOptions, recorded: str
) -> None:
    record(diary, tmp_path, how, schedule, len(recorded))
    assert diary.moments(STEPPED) == [mark == "#" for mark in recorded]
    assert len(diary.moments(DRAWN)) >= 2  # it came and went
    assert not any(diary.moments(DRAWN))


@pytest.mark.usefixtures("_screen")
def test_the_bar_is_closed_only_after_the_step_that_failed(diary: Diary, tmp_path: Path) -> None:
    record(diary, tmp_path, "manual", ScheduleOptions(), 8, fail_at=3)
    assert diary.moments(STEPPED) == [False, False, True, True]
    assert diary.entries[-1] == (DRAWN, False)
    assert not any(diary.moments(DRAWN))


@pytest.mark.usefixtures("_screen")
def test_each_phase_is_drawn_before_its_first_step(diary: Diary, tmp_path: Path) -> None:
    record(diary, tmp_path, "manual", ScheduleOptions(), 8)
    order = [what for what, _ in diary.entries]
    runs = "".join(what[0] for at, what in enumerate(order) if at == 0 or what == STEPPED or what != order[at - 1])
    assert runs == "dsdsdsssdsss"  # d: drawn, s: a step; wait, warm-up, three recorded, done


@pytest.mark.usefixtures("_screen")
def test_the_monitor_thread_of_tqdm_does_not_draw() -> None:
    bar = ProgressBar()
    for step, phase in ((0, "wait"), (300, "active")):
        bar(Progress(phase=phase, step=step, total=303))
    assert bar._bar is not None
    # tqdm's monitor thread redraws a bar that has not changed for 10 s if this is more than 1.
    assert bar._bar.tqdm.miniters <= 1
    bar.close()


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the descriptions that bars in a terminal are given."""
    given: list[str] = []

    class Bar(tqdm_console):  # type: ignore[type-arg]
        def __init__(self, **options: Any) -> None:
            super().__init__(file=io.StringIO(), **options)

        def set_description_str(self, desc: str | None = None, refresh: bool = True) -> None:
            given.append(f"{desc}{'' if refresh else ' (later)'}")
            super().set_description_str(desc, refresh)

    monkeypatch.setattr(progress, "tqdm", Bar)
    return given


def test_the_bar_says_what_there_is_to_say_of_a_phase_at_once(texts: list[str]) -> None:
    bar = ProgressBar()
    bar(Progress(phase="wait", step=0, total=5))
    bar(Progress(phase="active", step=1, total=5, note="stacks end after 300,000 Python calls"))
    bar(Progress(phase="ending", step=3, total=5, note="80,000 Python calls"))
    assert texts == [
        "torchprof: waiting (later)",
        "torchprof: recording (stacks end after 300,000 Python calls)",
        "torchprof: ending and saving the recording (80,000 Python calls)",
    ]


def test_the_stages_of_a_report_are_shown_after_the_bar_of_the_recording(texts: list[str]) -> None:
    bar = ProgressBar()
    bar(Progress(phase="active", step=0, total=1))
    bar.close()
    bar(Progress(phase="active", step=0, total=1))  # too late
    bar(Progress(phase="reading", step=0, total=None))
    assert texts == ["torchprof: recording (later)", "torchprof: reading the trace"]
    assert bar._bar is not None
    bar(Progress(phase="showing", step=0, total=None))  # which would be written into the same line of a terminal
    assert bar._bar is None
    bar(Progress(phase="done", step=0, total=None))
    assert bar._bar is None
