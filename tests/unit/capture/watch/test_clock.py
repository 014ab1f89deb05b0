"""Our clock is compared with the time since 1970, also where that goes on in ticks of milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchprof_magic.capture.watch import cpu_time, program
from torchprof_magic.capture.watch.cpu_time import CpuTime
from torchprof_magic.capture.watch.program import unix_offset_ns

if TYPE_CHECKING:
    from collections.abc import Callable

OFFSET_NS = 1_700_000_000_123_456_789
TICK_NS = 15_625_000
CALL_NS = 300


class Clocks:
    """Two clocks that go on with each reading: one fine, and one since 1970 that may tick."""

    def __init__(self, tick_ns: int, *, pause: Callable[[int], int] = lambda _: 0) -> None:
        self.now_ns = 777
        self.readings = 0
        self._tick_ns = tick_ns
        self._pause = pause

    def _read(self) -> int:
        self.readings += 1
        self.now_ns += CALL_NS + self._pause(self.readings)
        return self.now_ns

    def fine(self) -> int:
        return self._read()

    def unix(self) -> int:
        unix_ns = self._read() + OFFSET_NS
        return unix_ns // self._tick_ns * self._tick_ns


def offset_with(clocks: Clocks, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(program, "perf_counter_ns", clocks.fine)
    monkeypatch.setattr(program, "time_ns", clocks.unix)
    return unix_offset_ns()


@pytest.mark.parametrize("start_ns", range(0, TICK_NS, 1_234_567))
def test_a_clock_with_ticks_of_15_ms_is_read_as_it_ticks(start_ns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(TICK_NS)
    clocks.now_ns = start_ns
    assert abs(offset_with(clocks, monkeypatch) - OFFSET_NS) <= 3 * CALL_NS


def test_a_tick_during_which_the_thread_was_paused_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks_after = 1_000_000 // CALL_NS
    pauses = {40: TICK_NS}  # the first tick is seen 15 ms late
    clocks = Clocks(TICK_NS, pause=lambda reading: pauses.get(reading, 0))
    assert abs(offset_with(clocks, monkeypatch) - OFFSET_NS) <= 3 * CALL_NS
    assert clocks.readings > ticks_after


def test_a_fine_clock_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(100)  # as Windows has it since Python 3.13
    assert abs(offset_with(clocks, monkeypatch) - OFFSET_NS) <= 2 * CALL_NS
    assert clocks.readings == 27


def test_a_clock_that_stands_still_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(10**19)
    offset_with(clocks, monkeypatch)
    assert clocks.readings * CALL_NS < 70_000_000


def test_the_cpu_time_of_a_short_step_is_not_known_where_it_ticks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cpu = CpuTime()
    reading_ns = cpu.read_ns()
    assert cpu.since_ns(reading_ns, 1) is not None
    monkeypatch.setattr(cpu_time, "TICK_NS", TICK_NS)
    assert cpu.since_ns(reading_ns, 9 * TICK_NS) is None
    assert cpu.since_ns(reading_ns, 10 * TICK_NS) is not None
    cpu.close()
