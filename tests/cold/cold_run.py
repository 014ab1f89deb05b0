"""Is work that is done once named in a cold recording, with its line, and not mentioned in a warm one?

    python tests/cold/cold_run.py [--only NAME]

Each program runs in a process of its own, whose first calls of its step are recorded: five steps. They are recorded
twice more, because some of what is done once depends on the recording, and the last time they are warm. What counts is
what `report.summary()` says: the verdict, its sentence and its doubts. Work that is done once has a line if one of its
sentences names a line of `cold_programs.py`; nothing marks lines there, as no cell is run.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from typing import NamedTuple

STEPS = 5
# How one-time work is spoken of.
WORDS = ("done once", "ompilation", "ompiling", "nitialisation")
MOST_S = 120
LINE = re.compile(r"cold_programs\.py:[0-9]+")


class Said(NamedTuple):
    """What is said of a program when it is cold, and when it is warm, in sentences."""

    cold: list[str]
    warm: list[str]

    @property
    def is_named(self) -> bool:
        """Whether one-time work is named in the cold recording."""
        return bool(_of_one_time_work(self.cold))

    @property
    def has_line(self) -> bool:
        """Whether that has a line."""
        return any(LINE.search(sentence) for sentence in _of_one_time_work(self.cold))

    @property
    def marks(self) -> tuple[bool, bool, bool]:
        """Whether it is named, has a line, and is not mentioned when warm."""
        return self.is_named, self.has_line, self.is_quiet

    @property
    def is_quiet(self) -> bool:
        """Whether it is not mentioned in the warm one."""
        return not _of_one_time_work(self.warm)


def _of_one_time_work(sentences: list[str]) -> list[str]:
    return [sentence for sentence in sentences if any(word in sentence for word in WORDS)]


def record(name: str) -> Said:
    """Record a program of this process, cold and warm."""
    # A process of its own imports torch; the one that starts it does not.
    from cold_programs import PROGRAMS  # noqa: PLC0415
    from torch.profiler import schedule  # noqa: PLC0415

    import torchprof_magic as tp  # noqa: PLC0415

    step = PROGRAMS[name]()
    texts = []
    for _ in range(3):
        with tp.profile(schedule=schedule(wait=0, warmup=0, active=STEPS, repeat=1)) as p:
            for _ in range(STEPS):
                step()
                p.step()
        verdict, summary = p.report.verdict, p.report.summary()
        sentences = [verdict.statement, *verdict.doubts]
        texts.append([each for each in sentences if each in summary])
    return Said(texts[0], texts[-1])


def said_of(name: str) -> Said:
    """Return what is said of a program that runs in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, "--record", name]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=MOST_S)
    return Said(*json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    """Print a line per program, and how many are right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--record", default="")
    given = parser.parse_args()
    if given.record:
        print(json.dumps(record(given.record)))
        return 0
    from cold_programs import PROGRAMS  # noqa: PLC0415

    names = [name for name in PROGRAMS if given.only in name]
    found = {}
    for name in names:
        said = found[name] = said_of(name)
        words = ("named", "line ", "quiet")
        shown = (word if is_so else "-----" for word, is_so in zip(words, said.marks, strict=True))
        print(f"{'  '.join(shown)}  {name}", flush=True)
        if not (said.is_named and said.has_line):
            print("       cold:", *said.cold)
        if not said.is_quiet:
            print("       warm:", *said.warm)
    counts = [sum(marks) for marks in zip(*(said.marks for said in found.values()), strict=True)]
    print("of {}: named when cold {}, with a line {}; not mentioned when warm {}".format(len(found), *counts))
    return 0 if set(counts) == {len(found)} else 1


if __name__ == "__main__":
    sys.exit(main())
