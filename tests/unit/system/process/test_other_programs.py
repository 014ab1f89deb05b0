from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import psutil
import pytest

from torchprof_magic.system.process import other_programs
from torchprof_magic.system.process.other_programs import OtherPrograms


class Machine(NamedTuple):
    user: float
    nice: float
    system: float
    idle: float
    iowait: float
    guest: float


class Own(NamedTuple):
    user: float
    system: float
    children_user: float
    children_system: float


class FakeProcess:
    def __init__(self, times: Own, children: list[FakeProcess]) -> None:
        self._times = times
        self._children = children

    def cpu_times(self) -> Own:
        return self._times

    def children(self, *, recursive: bool) -> list[FakeProcess]:
        assert recursive
        return self._children


class EndedProcess(FakeProcess):
    def cpu_times(self) -> Own:
        raise psutil.NoSuchProcess(1)


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Callable[[Machine, FakeProcess], None]:
    def show(machine: Machine, process: FakeProcess) -> None:
        monkeypatch.setattr(other_programs.psutil, "cpu_times", lambda: machine)
        monkeypatch.setattr(other_programs.psutil, "Process", lambda: process)
        monkeypatch.setattr(other_programs.psutil, "cpu_count", lambda: 2)

    return show


def process(user: float, *, ended_children: float = 0.0, children: tuple[FakeProcess, ...] = ()) -> FakeProcess:
    return FakeProcess(Own(user, 0.0, ended_children, 0.0), list(children))


def test_what_others_take_is_the_work_of_the_machine_without_that_of_this_process(show: Any) -> None:
    show(Machine(100, 0, 10, 1000, 5, 0), process(50))
    others = OtherPrograms()
    # 10 s on two cores: 12 s of work, 4 s of them here and in its children, so 8 of 20 s are of others.
    show(
        Machine(108, 1, 13, 1006, 7, 3),
        process(51, ended_children=1, children=(process(2), EndedProcess(Own(9, 9, 9, 9), []))),
    )
    assert others.share() == pytest.approx(0.4)


def test_a_moment_is_too_short_to_tell(show: Any) -> None:
    show(Machine(100, 0, 10, 1000, 5, 0), process(50))
    others = OtherPrograms()
    show(Machine(100.1, 0, 10, 1000.09, 5, 0), process(50))
    assert others.share() is None


def test_ticks_of_the_system_do_not_give_less_than_nothing(show: Any) -> None:
    show(Machine(100, 0, 10, 1000, 5, 0), process(50))
    others = OtherPrograms()
    show(Machine(101, 0, 10, 1001, 5, 0), process(51.02))
    assert others.share() == 0


def test_a_system_that_does_not_tell_is_no_failure(show: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Machine:
        raise PermissionError("/proc/stat")

    show(Machine(100, 0, 10, 1000, 5, 0), process(50))
    monkeypatch.setattr(other_programs.psutil, "cpu_times", refuse)
    assert OtherPrograms().share() is None


def test_the_real_system_gives_a_part_of_the_whole() -> None:
    others = OtherPrograms()
    share = others.share()
    while share is None:
        share = others.share()
    assert 0 <= share <= 1
