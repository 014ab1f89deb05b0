"""Measures how long reading a large file continues after an interrupt at a random moment; see ``--help``.

Every run reads the file in a separate process, which gets a SIGINT at a random moment and prints how much later
``load`` raised the KeyboardInterrupt.
"""

from __future__ import annotations

import argparse
import random
import signal
import statistics
import subprocess
import sys
import time

_READER = """
import signal, sys, time
sent = []
def note(number, frame):
    raise KeyboardInterrupt
signal.signal(signal.SIGINT, note)
from torchprof_magic.loading import load
print("begin", time.monotonic(), flush=True)
try:
    load(sys.argv[1]).ops
    print("finished", time.monotonic(), flush=True)
except KeyboardInterrupt:
    print("interrupted", time.monotonic(), flush=True)
"""


def _said(process: subprocess.Popen[str], what: str) -> tuple[str, float]:
    assert process.stdout is not None
    word, _, moment = process.stdout.readline().strip().partition(" ")
    if what and word != what:
        raise SystemExit(f"the reader said {word!r} and not {what!r}")
    return word, float(moment)


def _start(path: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", _READER, path], stdout=subprocess.PIPE, text=True)


def whole_seconds(path: str) -> float:
    """Read the file once without an interrupt."""
    with _start(path) as process:
        begun = _said(process, "begin")[1]
        return _said(process, "finished")[1] - begun


def delay_after(path: str, wait_seconds: float) -> float | None:
    """Return the seconds between an interrupt and its exception, or ``None`` when reading had ended before."""
    with _start(path) as process:
        _said(process, "begin")
        time.sleep(wait_seconds)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        word, moment = _said(process, "")
        return moment - sent if word == "interrupted" else None


def main() -> None:
    """Print the distribution of the delays."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", help="a large trace; benchmarks/make_trace.py makes one")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    whole, chance = whole_seconds(args.trace), random.Random(args.seed)  # noqa: S311 - no secret
    found = [(wait, delay_after(args.trace, wait)) for wait in (chance.uniform(0, whole) for _ in range(args.runs))]
    delays = sorted((delay, wait) for wait, delay in found if delay is not None)
    print(f"reading takes {whole:.1f} s; {len(delays)} of {args.runs} runs were interrupted")
    if delays:
        median = statistics.median(delay for delay, _ in delays)
        print(f"until the interrupt came out: median {median * 1e3:.0f} ms, longest {delays[-1][0] * 1e3:.0f} ms")
        late = [f"{delay * 1e3:.0f} ms at {wait:.1f} s" for delay, wait in delays if delay > 0.2]
        print(f"{len(late)} took more than 200 ms: {', '.join(late[:20])}")


if __name__ == "__main__":
    main()
