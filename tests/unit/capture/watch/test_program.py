"""What a run notes of the step that ends."""

from __future__ import annotations

import time

from torchprof_magic.capture.parts import Parts
from torchprof_magic.capture.problems import ProblemLog
from torchprof_magic.capture.watch.program import ProgramWatch


def test_what_is_done_after_the_users_code_ended_a_step_is_none_of_its_cpu_time() -> None:
    problems = ProblemLog()
    watch = ProgramWatch(problems, Parts(problems))
    watch.begin_step(is_watched=False)
    time.sleep(0.02)
    ended_ns = time.perf_counter_ns()
    while time.perf_counter_ns() < ended_ns + 100_000_000:  # at work, or ready to
        pass
    cpu_ns = watch.end_step(ended_ns, is_recorded=False)
    watch.finish()
    assert cpu_ns is not None
    assert cpu_ns < 50_000_000  # a few of them, where it had to queue for a core
