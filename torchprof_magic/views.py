"""The views of a report, in the order of its tabs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchprof_magic.analysis.flame import flame_tree
from torchprof_magic.analysis.kernels import kernels_table
from torchprof_magic.analysis.memory import memory_series
from torchprof_magic.analysis.notes import problem_list
from torchprof_magic.analysis.ops import ops_table
from torchprof_magic.analysis.overview import overview_facts
from torchprof_magic.analysis.steps import steps_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.model.shapes import Shape
    from torchprof_magic.model.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One tab: its name, its title, the shape that it shows, and the sentence for when there is nothing to show."""

    name: str
    title: str
    build: Callable[[Trace], Shape]
    empty: str
    is_counted: bool = False


VIEWS = (
    View(name="overview", title="Overview", build=overview_facts, empty="Nothing was recorded."),
    View(
        name="ops",
        title="Ops",
        build=ops_table,
        is_counted=True,
        empty="No torch op ran while the recording was on.",
    ),
    View(
        name="flame",
        title="Flame",
        build=flame_tree,
        empty="No torch op ran while the recording was on, so there is no call tree.",
    ),
    View(
        name="memory",
        title="Memory",
        build=memory_series,
        empty="Memory was not recorded. Add --memory to %%torchprof, or profile_memory=True to profile().",
    ),
    View(
        name="kernels",
        title="Kernels",
        build=kernels_table,
        is_counted=True,
        empty="No work on an accelerator was recorded: the program ran on the CPU, or the device was not traced.",
    ),
    View(
        name="steps",
        title="Steps",
        build=steps_table,
        is_counted=True,
        empty="The recording has no steps. Let the cell hold a training loop, or call step() in it.",
    ),
    View(name="notes", title="Notes", build=problem_list, is_counted=True, empty="Nothing odd was met."),
)
