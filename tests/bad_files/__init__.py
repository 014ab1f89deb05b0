"""Bad inputs by name, each with what reading it must give; worked out by hand, not taken from output."""

from bad_files import cut, grammar, other_kinds, packing, shape, values
from bad_files.making import BadFile

ALL: tuple[BadFile, ...] = (
    *cut.FILES,
    *packing.FILES,
    *grammar.FILES,
    *values.FILES,
    *shape.FILES,
    *other_kinds.FILES,
)

__all__ = ["ALL", "BadFile"]
