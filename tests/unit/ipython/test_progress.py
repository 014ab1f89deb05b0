"""The progress bar is never drawn while torch records, which would add time and events to the user's steps."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import comm
import pytest
import torch._inductor.config  # torch imports it at the first prepare; its warnings are not ours
from torch.autograd import profiler as autograd_profiler
from tqdm.notebook import tqdm_notebook
from tqdm.std import tqdm as tqdm_console

from torchprof_magic.capture import STAGES, CaptureSession, Progress
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
    bar(Progress(phase="ending", step=3, total=5, note="80,000 Python calls", is_long=True))
    assert texts == [
        "torchprof: waiting (later)",
        "torchprof: recording (stacks end after 300,000 Python calls)",
        "torchprof: ending the recording (80,000 Python calls), 1 of 5",
    ]


def test_a_terminal_says_what_is_known_to_take_long_after_the_bar_of_the_recording(texts: list[str]) -> None:
    bar = ProgressBar()
    bar(Progress(phase="active", step=0, total=1))
    bar.close()
    bar(Progress(phase="active", step=0, total=1))  # too late
    bar(Progress(phase="checking", step=0, total=None))
    bar(Progress(phase="reading", step=0, total=None, note="9 MB", is_long=True))
    assert texts == ["torchprof: recording (later)", "torchprof: reading the trace (9 MB), 4 of 5"]
    assert bar._bar is not None
    bar(Progress(phase="showing", step=0, total=None))  # which would be written into the same line of a terminal
    assert bar._bar is None
    bar(Progress(phase="done", step=0, total=None))
    assert bar._bar is None


def test_a_terminal_says_what_is_done_when_that_has_taken_long(texts: list[str], clock: list[float]) -> None:
    bar = ProgressBar()
    for number, stage in enumerate(STAGES[:4]):
        clock[0] = number / 5  # 0, 0.2, 0.4 and 0.6 s after the loop
        bar(Progress(phase=stage, step=0, total=None))
    assert texts == ["torchprof: checking the trace, 3 of 5", "torchprof: reading the trace, 4 of 5"]


def test_a_terminal_counts_from_the_end_of_the_loop_where_that_went_on(texts: list[str], clock: list[float]) -> None:
    bar = ProgressBar()
    for at_s, phase in ((0.0, "ending"), (0.1, "done"), (9.0, "reading"), (9.1, "done")):
        clock[0] = at_s
        bar(Progress(phase=phase, step=0, total=None))
    assert texts == []


class Place:
    """An output of a notebook; what it has been given."""

    def __init__(self) -> None:
        self.given: list[dict[str, str]] = []

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.given.append(data)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the seconds at which everything happens; a test changes them."""
    now_s = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s[0])
    return now_s


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return the output of the bar in a notebook."""
    shown = Place()
    monkeypatch.setattr(progress, "tqdm", tqdm_notebook)
    monkeypatch.setattr(progress, "display", lambda *_arguments, **_options: shown)
    return shown


def shown_after_ms(data: dict[str, str]) -> int:
    """Return when a front end shows a text."""
    found = re.search(r"visibility: hidden; animation: torchprof-late 0s linear ([0-9]+)ms forwards", data["text/html"])
    return int(found[1]) if found else 0


def test_a_notebook_says_what_is_done_from_300_ms_after_the_loop_and_in_the_place_of_the_bar(
    place: Place, clock: list[float]
) -> None:
    bar = ProgressBar()
    bar(Progress(phase="active", step=0, total=1))
    for at_s, stage in zip((10.0, 10.1, 10.25, 10.31, 14.0), STAGES, strict=True):
        clock[0] = at_s
        bar(Progress(phase=stage, step=0, total=None, note="9 MB" if stage == "reading" else ""))
    bar(Progress(phase="done", step=0, total=None))
    *stages, last = place.given
    assert [shown_after_ms(data) for data in stages] == [300, 200, 50, 0, 0]
    assert [data["text/plain"] for data in stages] == [
        "torchprof: ending the recording, 1 of 5",
        "torchprof: saving the trace, 2 of 5",
        "torchprof: checking the trace, 3 of 5",
        "torchprof: reading the trace (9 MB), 4 of 5",
        "torchprof: analysing the trace and making the report, 5 of 5",
    ]
    assert last == {}
    bar.close()
    assert place.given[-1] == {}
    assert len(place.given) == 6


def test_the_300_ms_go_on_where_the_recording_ends_with_the_loop_and_begin_anew_after_further_steps(
    place: Place, clock: list[float]
) -> None:
    bar = ProgressBar()
    bar(Progress(phase="active", step=0, total=1))
    for at_s, phase in ((0.0, "ending"), (0.1, "done"), (0.15, "reading"), (0.2, "done"), (9.0, "reading")):
        clock[0] = at_s
        bar(Progress(phase=phase, step=0, total=None))
    assert [shown_after_ms(data) for data in place.given if data] == [300, 150, 300]


def test_an_interrupted_report_leaves_nothing_in_the_output(place: Place) -> None:
    bar = ProgressBar()
    bar(Progress(phase="active", step=0, total=1))
    bar.end()
    bar(Progress(phase="reading", step=0, total=None))
    bar.close()
    assert [bool(data) for data in place.given] == [False, True, False]


def test_a_report_takes_the_place_of_the_bar_after_something_that_is_no_widget() -> None:
    # JupyterLab shows two widgets in turn in one box, which it hides when the first is closed, with the second in it.
    shown: list[object] = []

    class Output:
        def update(self, what: object, **_: bool) -> None:
            shown.append(what)

    class Report:
        def tell(self, progress: str) -> None:
            """Say nothing."""

    bar, report = ProgressBar(), Report()
    bar._place = Output()
    assert bar.give_place_to(report)
    between, last = shown
    assert set(between) == {"text/plain", "text/html"}  # type: ignore[call-overload]
    assert last is report
