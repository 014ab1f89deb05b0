from __future__ import annotations

import time

from torchprof_magic.capture.watch.cpu_time import CpuTime


def test_work_counts_and_sleep_does_not() -> None:
    cpu = CpuTime()
    before, slept = cpu.read_ns(), time.perf_counter_ns()
    time.sleep(0.05)
    asleep = cpu.read_ns() - before
    # After the sleep, a busy machine may let the thread wait for a processor, and that counts.
    uncounted = time.perf_counter_ns() - slept - asleep
    began = time.perf_counter_ns()
    while time.perf_counter_ns() - began < 50_000_000:
        pass
    awake = cpu.read_ns() - before - asleep
    cpu.close()
    assert uncounted > 45_000_000
    assert awake > 25_000_000


def test_without_the_systems_file_the_cpu_time_is_read() -> None:
    cpu = CpuTime()
    cpu.close()
    first = cpu.read_ns()
    assert cpu.read_ns() >= first > 0
