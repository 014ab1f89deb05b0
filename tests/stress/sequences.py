"""Checks that no sequence of profiler operations leaves the profiler on or loses a recording.

    python tests/stress/sequences.py --runs 1000 [--first 0]

Each run is one session with random options and up to 25 random operations: steps, steps from other threads and from
inside backward(), pauses, ranges that cross steps, other profilers with and without a schedule, code that stops the
recording silently, interrupts, exceptions. Afterwards the profiler must be off, no patch of this package may be left in
torch or Python, every completely recorded step must be in a file or reported as lost, and the next session must record.
The exit status is 1 if a run fails; its number repeats it.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import multiprocessing.process
import random
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch._inductor.config  # torch imports it in the first prepare, with warnings
from torch.profiler import ProfilerActivity, record_function

from torchprof_magic.capture import CaptureSession, busy_profiler, live_session
from torchprof_magic.capture.torch_api import compat
from torchprof_magic.capture.watch.pauses import Pause
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import ProfileOptions, ScheduleOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.capture import Progress
    from torchprof_magic.model.recording import Recording

MOST_DEEDS, MOST_FLAWS = 25, 5
PRESENT = 0.2  # probability of a rare option


class UserError(Exception):
    """An exception of the user's code."""


def work(name: str) -> None:
    """Run one operation under an annotation."""
    with record_function(name):
        torch.ones(4, 4).sum()


def fail(*_: object) -> None:
    """Fail as the user's code may."""
    raise UserError


class Run:
    """One session, its operations, and the checks afterwards."""

    def __init__(self, number: int) -> None:
        self.chance = random.Random(number)  # noqa: S311 - a sequence, not a secret
        self.done: list[object] = []
        self.whole: set[int] = set()
        self.folder = Path(tempfile.mkdtemp(prefix="torchprof-stress-"))
        self.ranges: list[record_function] = []
        self.pauses: list[Pause] = []
        self.model = torch.nn.Linear(3, 3)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.session = self.make_session()
        self.deeds: dict[Callable[[], None], float] = {
            self.work: 6,
            self.step: 8,
            self.leave_step: 0.5,
            self.train: 2,
            self.open_range: 1,
            self.close_range: 1,
            self.work_elsewhere: 0.3,
            self.step_elsewhere: 0.3,
            self.step_in_backward: 0.3,
            self.pause: 0.8,
            self.resume: 0.8,
            self.begin_epoch: 0.3,
            self.use_profiler: 0.3,
            self.use_scheduled_profiler: 0.3,
            self.use_legacy_profiler: 0.3,
            self.end_from_outside: 0.2,
            self.finish: 0.2,
            self.interrupt: 0.2,
            fail: 0.2,
        }

    def make_session(self) -> CaptureSession:
        """Return a session with random options."""
        chance = self.chance
        how = chance.choice(["manual", "loop", "optimizer", "cell"])
        numbers = {"wait": chance.randrange(2), "warmup": chance.randrange(2), "active": chance.randrange(1, 4)}
        schedule = ScheduleOptions(**numbers, repeat=chance.randrange(4), skip_first=chance.randrange(2))
        switches = ("with_stack", "profile_memory", "record_shapes")
        flags: dict[str, Any] = {name: chance.random() < PRESENT for name in switches}
        rare: dict[str, Any] = {
            "budget_bytes": chance.choice([1, 100_000, 1_000_000_000]),
            "budget_s": chance.choice([1e-6, 1e-3, 10.0]),
            "execution_trace": str(self.folder / "graph.json"),
            "on_trace_ready": chance.choice([fail, lambda profiler: profiler.export_chrome_trace("/dev/null")]),
        }
        flags |= {name: value for name, value in rare.items() if chance.random() < PRESENT}
        flags["all_threads"] = not flags["profile_memory"] and chance.random() < PRESENT
        self.done += [how, schedule, flags]
        bar: list[Callable[[Progress], None]] = [fail, self.done.append]
        return CaptureSession(
            ProfileOptions(schedule=schedule, activities=("cpu",), **flags),
            stepping=Stepping(how=how),
            folder=self.folder / "run",
            on_progress=chance.choice(bar),
        )

    def work(self) -> None:
        """Run some ops."""
        work("user")

    def step(self) -> None:
        """End a step, and remember it if it was recorded completely."""
        recorder = self.session._recorder
        if recorder is not None and recorder.is_recording and compat.is_any_profiler_on():
            self.whole.add(recorder.step)
        self.session.step()

    def leave_step(self) -> None:
        """End a step as ``break`` does."""
        self.session.cut()

    def train(self) -> None:
        """Train; ends a step when the optimizer steps."""
        self.model(torch.ones(2, 3)).sum().backward()
        self.optimizer.step()

    def open_range(self) -> None:
        """Begin a range that may end in another step."""
        self.ranges.append(record_function("range").__enter__())

    def close_range(self) -> None:
        """End one of the ranges, not always the innermost."""
        if self.ranges:
            self.ranges.pop(self.chance.randrange(len(self.ranges))).__exit__(None, None, None)

    def work_elsewhere(self) -> None:
        """Work on another thread."""
        self._elsewhere(self.work)

    def step_elsewhere(self) -> None:
        """Step from another thread, which is not allowed."""
        self._elsewhere(self.session.step)

    def _elsewhere(self, deed: Callable[[], None]) -> None:
        thread = threading.Thread(target=deed)
        thread.start()
        thread.join()

    def step_in_backward(self) -> None:
        """Step inside backward(), where torch cannot stop."""
        leaf = torch.ones(3, requires_grad=True)
        leaf.register_hook(lambda _grad: self.session.step())  # type: ignore[no-untyped-call]
        (leaf * 2).sum().backward()

    def pause(self) -> None:
        """Pause some activities."""
        self.pauses.append(Pause(frozenset(self.chance.sample(["cpu", "cuda"], k=self.chance.randrange(1, 3)))))
        self.session.pause(self.pauses[-1])

    def resume(self) -> None:
        """End one of the pauses."""
        if self.pauses:
            self.session.resume(self.pauses.pop(self.chance.randrange(len(self.pauses))))

    def begin_epoch(self) -> None:
        """Enter the loop again."""
        self.session.start(self.chance.choice([None, 3]))

    def use_profiler(self) -> None:
        """Use torch's profiler inside."""
        with torch.profiler.profile(activities=[ProfilerActivity.CPU]):
            self.work()

    def use_scheduled_profiler(self) -> None:
        """Use torch's profiler inside, and steps of either in any order."""
        numbers = {"wait": self.chance.randrange(2), "warmup": self.chance.randrange(2), "active": 1, "repeat": 1}
        schedule = torch.profiler.schedule(**numbers)
        with torch.profiler.profile(activities=[ProfilerActivity.CPU], schedule=schedule) as theirs:
            for _ in range(self.chance.randrange(5)):
                self.work()
                self.chance.choice([theirs.step, self.session.step])()

    def use_legacy_profiler(self) -> None:
        """Use torch's older profiler inside."""
        with torch.autograd.profiler.profile():
            self.work()

    def end_from_outside(self) -> None:
        """Stop the recording silently."""
        compat.switch_off()

    def finish(self) -> None:
        """End the recording here."""
        self.session.finish(is_between=self.chance.choice([False, True]))

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        signal.raise_signal(signal.SIGINT)

    def flaw(self) -> str:
        """Run the sequence and return what is wrong, or an empty string."""
        before = left_behind()
        recording = self._record()
        if isinstance(recording, str):
            return recording
        for range_ in self.ranges:
            range_.__exit__(None, None, None)
        self.optimizer.zero_grad()
        checks = (what_is_on(), self._unlisted(recording), self._untidy(recording), self._next_flaw())
        if left_behind() != before:
            return "something is left behind in torch or Python"
        return next(filter(None, checks), "")

    def _record(self) -> Recording | str:
        """Return the recording of the sequence, or the unexpected exception."""
        try:
            if self.chance.choice([False, True]):
                self.session.open()
            try:
                self.session.start(self.chance.choice([None, 0, 3, 12]))
                for deed in self.chance.choices(
                    list(self.deeds), list(self.deeds.values()), k=self.chance.randrange(MOST_DEEDS + 1)
                ):
                    self.done.append(deed.__name__)
                    deed()
            finally:
                self.session.stop()
        except (UserError, KeyboardInterrupt):
            pass
        except BaseException as exc:  # noqa: BLE001 - the verdict depends on its type
            return f"{type(exc).__name__}: {exc}"
        return self.session.recording or "there is no recording"

    def _unlisted(self, recording: Recording) -> str:
        """Return which steps of files and list differ, or were lost without a problem."""
        numbers = [mark.number for cycle in recording.cycles for mark in cycle.steps]
        if numbers != sorted(set(numbers)):
            return f"steps are listed as {numbers}"
        for cycle in recording.cycles:
            names = {event.get("name") for event in json.loads(cycle.path.read_bytes())["traceEvents"]}
            unseen = [mark.number for mark in cycle.steps if f"ProfilerStep#{mark.number}" not in names]
            if unseen:
                return f"steps {unseen} are not in {cycle.path.name}"
        lost = self.whole - set(numbers)
        is_told = any(problem.severity == "data_loss" for problem in recording.problems)
        return f"steps {sorted(lost)} are lost without a problem" if lost and not is_told else ""

    def _untidy(self, recording: Recording) -> str:
        """Return what is in the folder and belongs to no cycle."""
        known = {cycle.path for cycle in recording.cycles}
        extra = sorted(str(path) for path in self.folder.rglob("*") if path.is_file() and path not in known)
        return f"files are left: {extra}" if set(extra) - {str(self.folder / "graph.json"), *self._graphs()} else ""

    def _graphs(self) -> set[str]:
        return {str(path) for path in self.folder.glob("graph-*.json")}

    def _next_flaw(self) -> str:
        """Return what is wrong with the next recording."""
        session = CaptureSession(ProfileOptions(), stepping=Stepping(how="cell"), folder=self.folder / "again")
        session.start()
        work("again")
        recording = session.stop()
        is_whole = len(recording.cycles) == 1 and b'"again"' in recording.cycles[0].path.read_bytes()
        return "" if is_whole and not recording.problems else f"the next recording is not whole: {recording.problems}"


def what_is_on() -> str:
    """Return which profiler is on."""
    busy = busy_profiler() or ("a session is still the live one" if live_session() else "")
    compat.switch_off()
    return busy


def left_behind() -> tuple[object, ...]:
    """Return the state that a session changes and must restore."""
    prepare = torch.autograd.profiler.profile._prepare_trace
    ranges = record_function.__enter__, record_function.__exit__
    starts = threading.Thread.start, multiprocessing.process.BaseProcess.start
    return (*ranges, prepare, signal.getsignal(signal.SIGINT), threading.active_count(), *starts)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    arguments = parser.parse_args()
    faulthandler.enable()
    warnings.simplefilter("ignore")
    flaws = done = 0
    for number in range(arguments.first, arguments.first + arguments.runs):
        run = Run(number)
        flaw = run.flaw()
        shutil.rmtree(run.folder)
        if flaw:
            print(f"run {number}: {flaw}", *run.done, sep="\n  ")
        flaws += bool(flaw)
        done += 1
        if flaws >= MOST_FLAWS:
            break
    print(f"{done} sequences, {flaws} flaws")
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main())
