"""How many cores the process may use, by files of control groups that are made for the test."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from torchprof_magic.system.process import cores
from torchprof_magic.system.process.cores import usable_cores

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight cores that the process may use, and no control groups yet."""
    monkeypatch.delattr(os, "process_cpu_count", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(cores, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(cores, "OWN_GROUPS", tmp_path / "own")
    (tmp_path / "groups").mkdir()
    return tmp_path


def write(groups: Path, own: str, **files: str) -> None:
    (groups / "own").write_text(own)
    for name, text in files.items():
        file = groups / "groups" / name.replace("__", "/").replace("_max", ".max").replace("cpu_cfs", "cpu.cfs")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_without_control_groups_the_affinity_counts() -> None:
    assert usable_cores() == 8


def test_python_is_asked_first_where_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "process_cpu_count", lambda: 3, raising=False)
    assert usable_cores() == 3
    monkeypatch.setattr(os, "process_cpu_count", lambda: None, raising=False)
    assert usable_cores() == 1


@pytest.mark.parametrize(("quota", "count"), [("250000 100000", 2), ("50000 100000", 1), ("max 100000", 8), ("?", 8)])
def test_a_quota_of_the_own_group_counts_in_whole_cores(groups: Path, quota: str, count: int) -> None:
    write(groups, "0::/job\n", job__cpu_max=quota)
    assert usable_cores() == count


def test_the_smallest_quota_of_the_groups_around_counts(groups: Path) -> None:
    write(groups, "0::/slice/job\n", slice__cpu_max="300000 100000", slice__job__cpu_max="500000 100000")
    assert usable_cores() == 3


def test_in_a_container_the_quota_stands_at_the_top(groups: Path) -> None:
    write(groups, "0::/../../docker/x\n", cpu_max="200000 100000")
    assert usable_cores() == 2


def test_groups_of_the_first_version_have_two_files(groups: Path) -> None:
    own = "5:cpu,cpuacct:/docker/x\n3:cpuset:/\n"
    write(groups, own, cpu__docker__x__cpu_cfs_quota_us="400000\n", cpu__docker__x__cpu_cfs_period_us="100000\n")
    assert usable_cores() == 4
    write(groups, own, cpu__docker__x__cpu_cfs_quota_us="-1\n")
    assert usable_cores() == 8
