from __future__ import annotations

import pytest
import torch

from torchprof_magic.system.process.distributed import Ranks, rank_flaw, ranks


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, Ranks()),
        (
            {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1"},
            Ranks(5, 1, 8, 4, 1),
        ),
        ({"RANK": "5", "WORLD_SIZE": "8", "GROUP_RANK": "1", "NODE_RANK": "0"}, Ranks(5, 0, 8, 1, 0)),
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, Ranks(3, 1, 4)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, Ranks(1, 0, 2)),
        ({"SLURM_PROCID": "6", "SLURM_STEP_NUM_TASKS": "8", "SLURM_NODEID": "1"}, Ranks(6, 0, 8, 1, 1)),
        # torchrun, started once on each node by srun
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "RANK": "9", "WORLD_SIZE": "16"}, Ranks(9, 0, 16)),
        # a notebook in an allocation of four tasks
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, Ranks()),
    ],
)
def test_each_launcher_sets_the_rank_in_its_own_variables(environ: dict[str, str], expected: Ranks) -> None:
    assert ranks(environ) == expected
    assert rank_flaw(environ) == ""


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "9" * 5000, "٣", "0x1"])
def test_a_rank_that_is_not_a_number_counts_as_rank_0_of_1(text: str) -> None:
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK")
    assert ranks(dict.fromkeys(names, text)) == Ranks()


@pytest.mark.parametrize(
    ("environ", "flaw"),
    [
        ({"RANK": "0"}, ""),
        ({"RANK": " 1 ", "WORLD_SIZE": "2"}, ""),
        ({"WORLD_SIZE": "1"}, ""),
        ({"WORLD_SIZE": "2"}, "RANK is not set, although WORLD_SIZE is 2"),
        ({"RANK": "", "WORLD_SIZE": "4"}, "RANK is not set, although WORLD_SIZE is 4"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK is '2', and WORLD_SIZE is 2"),
        ({"RANK": "3"}, "RANK is '3', and WORLD_SIZE is 1"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "RANK is '-1', and WORLD_SIZE is 2"),
        ({"RANK": "é" * 99}, f"RANK is {'é' * 20!a}, and WORLD_SIZE is 1"),
        ({"PMI_SIZE": "2"}, "PMI_RANK is not set, although PMI_SIZE is 2"),
    ],
)
def test_an_impossible_rank_is_reported(environ: dict[str, str], flaw: str) -> None:
    assert rank_flaw(environ) == flaw


def test_the_process_group_takes_precedence_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    for environ in ({}, {"WORLD_SIZE": "4", "RANK": "3"}, {"WORLD_SIZE": "2"}):
        assert ranks(environ) == Ranks(rank=1, world_size=2)
        assert rank_flaw(environ) == ""
