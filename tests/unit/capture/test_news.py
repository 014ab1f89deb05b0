"""What is shown of a run while it goes on, with a clock that the test sets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from torchprof_magic.capture import news
from torchprof_magic.capture.parts import Parts
from torchprof_magic.capture.problems import ProblemLog
from torchprof_magic.capture.schedule import AnySchedule, Schedule, WatchSchedule

if TYPE_CHECKING:
    import pytest

TENTH_NS = 100_000_000


def shown_at(monkeypatch: pytest.MonkeyPatch, schedule: AnySchedule, seconds: int) -> list[float]:
    """Return when, in s, a run is shown anew after its first cycle, whose steps take 0.1 s."""
    clock, shown = [5 * TENTH_NS], []
    monkeypatch.setattr(news, "perf_counter_ns", lambda: clock[0])
    told = news.News(Parts(ProblemLog()), None, lambda _: None)  # type: ignore[arg-type, return-value]
    told.on_cycle = lambda *_: shown.append((clock[0] - 5 * TENTH_NS) / 1e9)
    recorder: Any = SimpleNamespace(cycles=[SimpleNamespace(number=0)], schedule=schedule)
    for _ in range(seconds * 10 + 1):
        told.tell_cycles(recorder)
        clock[0] += TENTH_NS
    return shown


def test_the_strip_of_a_run_is_shown_anew_when_the_run_has_doubled_and_then_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert shown_at(monkeypatch, WatchSchedule(), 40) == [0, 2, 4, 8, 16, 26, 36]


def test_a_run_that_is_not_watched_is_shown_anew_with_the_next_cycle_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown_at(monkeypatch, Schedule(), 40) == [0]
