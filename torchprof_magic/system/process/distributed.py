"""The rank of this process in a distributed job, from torch.distributed or the launcher's environment variables."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_SHOWN_CHARS = 20


class Ranks(NamedTuple):
    """The ranks and world sizes of this process; a single process is rank 0 of 1."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    node_rank: int = 0


# The environment variables of each launcher, in the order of ``Ranks``. The first launcher that sets the rank or the
# world size is used: torchrun may itself be started by one of the others.
LAUNCHERS: Final = {
    "torchrun": ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
    "Open MPI": (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "",
    ),
    "MPICH": ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS", ""),
    # Only srun sets the number of tasks of a step. A batch script or a shell in an allocation is a single process.
    "SLURM": ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", "", "SLURM_NODEID"),
}


def ranks(environ: Mapping[str, str] = os.environ) -> Ranks:
    """Return the ranks of this process. A variable that is missing or not a number counts as rank 0 of 1."""
    names = _names(environ)
    found = [_number(environ, name) for name in names]
    if names[-1] == "GROUP_RANK" and (node_rank := _number(environ, "NODE_RANK")) is not None:
        found[-1] = node_rank  # set by hand, or by Lightning
    rank, local_rank, world_size, local_world_size, node_rank = found
    known = _process_group()
    if known is not None:
        rank, world_size = known
    return Ranks(rank or 0, local_rank or 0, world_size or 1, local_world_size or 1, node_rank or 0)


def rank_flaw(environ: Mapping[str, str] = os.environ) -> str:
    """Return why the rank of this process is unknown, or an empty string."""
    name, _, size_name, _, _ = _names(environ)
    text, world_size = environ.get(name, "").strip(), _number(environ, size_name) or 1
    rank = _number(environ, name)
    if _process_group() is not None or (rank is not None and rank < world_size):
        return ""
    if not text:
        return f"{name} is not set, although {size_name} is {world_size}" if world_size > 1 else ""
    return f"{name} is {text[:_SHOWN_CHARS]!a}, and {size_name} is {world_size}"


def _names(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables of this process's launcher, or torchrun's without a launcher."""
    found = (names for names in LAUNCHERS.values() if environ.get(names[0]) or environ.get(names[2]))
    return next(found, LAUNCHERS["torchrun"])


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "").strip()
    return int(text) if _NUMBER.fullmatch(text) else None


def _process_group() -> tuple[int, int] | None:
    """Return rank and world size of the default process group, or ``None``. Does not import torch."""
    group = sys.modules.get("torch.distributed")
    if group is None or not group.is_available() or not group.is_initialized():
        return None
    return group.get_rank(), group.get_world_size()
