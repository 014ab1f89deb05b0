"""Run one command in the foreground and others beside it, one after the other, and fail if any of them fails.

    beside.py "COMMAND" ... -- FOREGROUND COMMAND

What a command beside it prints is shown as a whole, below what the one in the foreground prints. If the latter takes
longer than LIMIT_S, it is ended, and its Python processes write where they are.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

import psutil

LIMIT_S = 2700.0
_TO_WRITE_S = 10.0


@dataclass(frozen=True)
class Done:
    """A command that has ended, with all that it printed."""

    command: str
    status: int
    output: str
    seconds: float

    @property
    def headline(self) -> str:
        """What became of the command, in a line."""
        return f"{'passed' if self.status == 0 else 'FAILED'} in {self.seconds:.0f} s: {self.command}"


def run(command: str) -> Done:
    """Run a command of the shell to its end."""
    begun = time.monotonic()
    ended = subprocess.run(  # noqa: S602 - the commands are those of the Makefile
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return Done(command, ended.returncode, ended.stdout, time.monotonic() - begun)


def run_in_foreground(command: list[str], limit_s: float) -> int:
    """Run a command that prints as it goes; return its status."""
    running = subprocess.Popen(command)
    try:
        return running.wait(limit_s)
    except subprocess.TimeoutExpired:
        print(f"\nit did not end within {limit_s:.0f} s; where its processes are:", flush=True)
        process = psutil.Process(running.pid)
        # Below the workers are programs of tests, which end with them.
        own = [*process.children(), process]
        every = [*process.children(recursive=True), process]
        for ending, processes in ((signal.SIGABRT, own), (signal.SIGKILL, every)):
            for each in processes:
                with suppress(psutil.NoSuchProcess):
                    each.send_signal(ending)
            psutil.wait_procs(processes, timeout=_TO_WRITE_S)
        running.wait()
        return 1


def main() -> int:
    """Run all commands; return 1 if one of them fails."""
    split = sys.argv.index("--")
    beside, foreground = sys.argv[1:split], sys.argv[split + 1 :]
    done: list[Done] = []

    def run_beside() -> None:
        for command in beside:
            done.append(run(command))
            if done[-1].status:  # no need to wait for the others to hear of it
                print(f"\n{done[-1].headline}; its output is below", flush=True)

    thread = threading.Thread(target=run_beside)
    thread.start()
    status = run_in_foreground(foreground, LIMIT_S)
    thread.join()
    for each in done:
        print(f"\n{'=' * 8} {each.command}\n{each.output}", end="")
    print()
    for each in done:
        print(each.headline)
    print(f"{'passed' if status == 0 else 'FAILED'}: {' '.join(foreground)}")
    return int(status != 0 or any(each.status for each in done))


if __name__ == "__main__":
    sys.exit(main())
