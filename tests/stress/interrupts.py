"""Checks that Ctrl-C at a random moment never kills the process, hangs it, or leaves the profiler on.

    python tests/stress/interrupts.py --runs 200          # this project's session
    python tests/stress/interrupts.py --runs 200 --raw    # torch.profiler.profile with a handler, for comparison

torch is imported once; every run is a forked child that steps a tight loop until it is interrupted, then checks that
the profiler is off and that another profile works. The parent sends one SIGINT at a random moment. The exit status is
1 when anything but a clean end was seen.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
import torch._inductor.config  # takes 2 s in the first prepare; imported here once for all children

from torchprof_magic.capture import CaptureSession, busy_profiler
from torchprof_magic.model.meta import Stepping
from torchprof_magic.options import ProfileOptions, ScheduleOptions

# (wait, warmup, active, repeat): the endless one has a transition at every step, the other is the default.
SCHEDULES = {"endless": (0, 1, 1, 0), "default": (1, 1, 3, 1)}
# Work per step; small, so that transitions are a large part of the time and are hit often.
MATRIX = 8
STEPS = {"endless": 400, "default": 40}
# The approximate duration of a run; interrupts are distributed evenly over it.
WINDOW_S = {"endless": 0.35, "default": 0.02}
STUCK_S = 30.0
# The meaning of a child's exit status.
CLEAN, FINISHED, WRONG_EXCEPTION, STILL_ON, NEXT_FAILED = 0, 10, 11, 12, 13
VERDICTS = {
    CLEAN: "clean KeyboardInterrupt",
    FINISHED: "finished before it",
    WRONG_EXCEPTION: "another exception",
    STILL_ON: "profiler left on",
    NEXT_FAILED: "next profile failed",
}
GOOD = {VERDICTS[CLEAN], VERDICTS[FINISHED]}


def work() -> None:
    """Run a few operations."""
    left = torch.ones(MATRIX, MATRIX)
    for _ in range(3):
        left = (left @ left).relu()


def run_ours(name: str, folder: Path) -> None:
    """Step the loop under this project's session."""
    wait, warmup, active, repeat = SCHEDULES[name]
    schedule = ScheduleOptions(wait=wait, warmup=warmup, active=active, repeat=repeat)
    session = CaptureSession(ProfileOptions(schedule=schedule), stepping=Stepping(how="manual"), folder=folder)
    try:
        session.start()
        for _ in range(STEPS[name]):
            work()
            session.step()
    finally:
        session.stop()


def run_raw(name: str, folder: Path) -> None:
    """Step the loop under torch's own profiler, with a handler that saves each cycle."""
    wait, warmup, active, repeat = SCHEDULES[name]

    def save(profiler: torch.profiler.profile) -> None:
        profiler.export_chrome_trace(str(folder / f"{profiler.step_num}.json"))

    schedule = torch.profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=repeat)
    with torch.profiler.profile(schedule=schedule, on_trace_ready=save) as profiler:
        for _ in range(STEPS[name]):
            work()
            profiler.step()


def works_again(folder: Path) -> bool:
    """Return whether a new profile, after the interrupted one, has the operations of its cell."""
    session = CaptureSession(ProfileOptions(), stepping=Stepping(how="cell"), folder=folder / "again")
    session.start()
    work()
    recording = session.stop()
    return len(recording.cycles) == 1 and b"aten::relu" in recording.cycles[0].path.read_bytes()


def child(name: str, *, raw: bool, ready: int) -> int:
    """Run once and return the verdict as an exit status."""
    folder = Path(tempfile.mkdtemp(prefix="torchprof-stress-"))
    verdict = FINISHED
    try:
        try:
            os.write(ready, b"1")
            (run_raw if raw else run_ours)(name, folder)
            time.sleep(0)  # a pending interrupt is raised here
        except KeyboardInterrupt:
            verdict = CLEAN
        except BaseException as exc:  # noqa: BLE001 - the verdict depends on its type
            print(f"  {type(exc).__name__}: {exc}", file=sys.stderr)
            verdict = WRONG_EXCEPTION
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if busy_profiler() is not None:
            return STILL_ON
        return verdict if works_again(folder) else NEXT_FAILED
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fork_child(name: str, *, raw: bool) -> tuple[int, int]:
    """Fork one run; return its pid and a descriptor that becomes readable when it begins."""
    begin, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(begin)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 2)
        status = NEXT_FAILED
        try:
            status = child(name, raw=raw, ready=ready)
        finally:
            os._exit(status)
    os.close(ready)
    return pid, begin


def await_child(pid: int) -> str:
    """Wait for a run to end, kill it if it hangs, and return its verdict."""
    deadline = time.monotonic() + STUCK_S
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            if os.WIFSIGNALED(status):
                return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
            return VERDICTS.get(os.WEXITSTATUS(status), "unknown end")
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "stuck"


def one_run(name: str, *, raw: bool, chance: random.Random) -> str:
    """Fork, interrupt at a random moment, and return the verdict."""
    pid, begin = fork_child(name, raw=raw)
    os.read(begin, 1)
    os.close(begin)
    time.sleep(chance.uniform(0, WINDOW_S[name]))
    os.kill(pid, signal.SIGINT)
    return await_child(pid)


def run_all(runs: int, *, raw: bool, seed: int) -> Counter[str]:
    """Run half of ``runs`` on each schedule and count the verdicts."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    verdicts: Counter[str] = Counter()
    for name, schedule in SCHEDULES.items():
        counts = Counter(one_run(name, raw=raw, chance=chance) for _ in range(runs // len(SCHEDULES)))
        print(f"{'raw torch' if raw else 'torchprof'}, {name} schedule {schedule}: {dict(counts)}", flush=True)
        verdicts += counts
    return verdicts


def main() -> int:
    """Parse the command line and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--raw", action="store_true", help="plain torch.profiler.profile instead")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    verdicts = run_all(arguments.runs, raw=arguments.raw, seed=arguments.seed)
    return 0 if set(verdicts) <= GOOD else 1


if __name__ == "__main__":
    sys.exit(main())
