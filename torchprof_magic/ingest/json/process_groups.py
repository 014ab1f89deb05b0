"""The process groups of a distributed job, from the ``distributedInfo`` of a trace."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from torchprof_magic.model.meta import ProcessGroup

if TYPE_CHECKING:
    from torchprof_magic.ingest.json.schema import DistributedInfo

# More than any real job lists; a file can hold anything.
MAX_GROUPS = 1_000
MAX_RANKS = 1_000_000
_MOST = 1 << 31


class _Group(msgspec.Struct, gc=False):
    pg_name: str | int = ""
    pg_desc: str = ""
    backend_config: str = ""
    pg_size: int | None = None
    ranks: list[int] = []


def process_groups_of(info: DistributedInfo) -> tuple[ProcessGroup, ...]:
    """Return the groups in the order of the file, without those that cannot be read."""
    try:
        rows = msgspec.json.decode(info.pg_config, type=list[msgspec.Raw]) if bytes(info.pg_config) else []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    groups, ranks = [], 0
    for row in rows[:MAX_GROUPS]:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            group = msgspec.json.decode(row, type=_Group)
            ranks += len(group.ranks)
            if ranks <= MAX_RANKS and all(0 <= number < _MOST for number in (*group.ranks, group.pg_size or 0)):
                groups.append(_named(group))
    return tuple(groups)


def _named(group: _Group) -> ProcessGroup:
    return ProcessGroup(
        name=str(group.pg_name),
        description=group.pg_desc,
        backend=group.backend_config,
        size=len(group.ranks) if group.pg_size is None else group.pg_size,
        ranks=tuple(group.ranks),
    )
