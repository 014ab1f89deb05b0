"""Is work that is done once named in a cold recording, and not mentioned in a warm one?

    python tests/cold/cold_run.py [--only NAME]

Each program runs in a process of its own, whose first calls of its step are recorded: five steps. They are recorded
twice more, because some of what is done once depends on the recording, and the last time they are warm. What counts is
what `report.verdict` says in its sentence and its doubts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import NamedTuple

STEPS = 5
# How one-time work is spoken of.
WORDS = ("done once", "ompilation", "ompiling", "nitialisation")
MOST_S = 120


class Said(NamedTuple):
    """What is said of a program when it is cold, and when it is warm."""

    cold: str
    warm: str

    @property
    def is_named(self) -> bool:
        """Whether one-time work is named in the cold recording."""
        return any(word in self.cold for word in WORDS)

    @property
    def is_quiet(self) -> bool:
        """Whether it is not mentioned in the warm one."""
        return not any(word in self.warm for word in WORDS)


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
        verdict = p.report.verdict
        texts.append(" ".join((verdict.kind, str(verdict), *verdict.doubts)))
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
        print(f"{'named' if said.is_named else '-----'}  {'quiet' if said.is_quiet else 'LOUD '}  {name}")
        if not said.is_named:
            print(f"       cold: {said.cold}")
        if not said.is_quiet:
            print(f"       warm: {said.warm}")
    named, quiet = (sum(getattr(said, what) for said in found.values()) for what in ("is_named", "is_quiet"))
    print(f"named when cold: {named} of {len(found)}; not mentioned when warm: {quiet} of {len(found)}")
    return 0 if named == quiet == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
