"""One worker process: ``python -m torchprof_magic.jobs.worker`` reads sources from its input and writes frames."""

from __future__ import annotations

import os
import signal
import sys
from typing import IO

import msgspec

from torchprof_magic.jobs.work import frames_of

LENGTH_BYTES = 8


def serve(asked: IO[bytes], answers: IO[bytes]) -> None:
    """Answer each line, a source as JSON, with the length of a message and the message."""
    for line in asked:
        answer = msgspec.msgpack.encode(frames_of(msgspec.json.decode(line, type=str)))
        answers.write(len(answer).to_bytes(LENGTH_BYTES, "little") + answer)
        answers.flush()


def main() -> None:
    """Serve the process that started this one, until it closes the input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for that process, which then ends this one
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not be taken for an answer
        serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
