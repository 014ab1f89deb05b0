"""The tabs of a report, in display order, one entry each. A new tab is a new entry of ``VIEWS`` and its function."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from torchprof_magic.findings import notes, overview
from torchprof_magic.findings.ranks import job as jobs
from torchprof_magic.findings.ranks import shown, stragglers
from torchprof_magic.findings.savings import table as savings
from torchprof_magic.render.view import View
from torchprof_magic.tables import execution_trace as graph
from torchprof_magic.tables import steps
from torchprof_magic.tables.flame.shown_stacks import flame_view, flame_view_in, has_calls
from torchprof_magic.tables.memory import block_table, holders, leaks
from torchprof_magic.tables.memory import in_use as memory
from torchprof_magic.tables.ops import kernels, op_groups
from torchprof_magic.tables.ops import op_table as ops
from torchprof_magic.tables.source import lines, modules
from torchprof_magic.tables.source.module_outline import modules_view, modules_view_in
from torchprof_magic.tables.timeline.slices import timeline_slices

if TYPE_CHECKING:
    from torchprof_magic.findings.ranks.job import Job
    from torchprof_magic.model.trace import Trace


def has_memory(trace: Trace) -> bool:
    """Return whether changes of memory were recorded."""
    return trace.memory.height > 0


def has_leaks(trace: Trace) -> bool:
    """Return whether some place leaves blocks behind in nearly every step."""
    return has_memory(trace) and leaks.leaks_table(trace).frame.height > 0


def _grouping(key: str, group: str) -> View[Trace]:
    """Return the ops grouped by one of the keys of ``report.ops_by``."""
    return View(
        name=f"ops_{key}",
        title=f"Ops by {group.lower()}",
        description=f"`report.ops_by({key!r})`: the ops by {group.lower()}.",
        build=partial(op_groups.ops_grouped, key=key),
        empty="Nothing was recorded to group by.",
        place="group",
        tab="ops",
        group=group,
        is_there=partial(op_groups.can_group, key=key),
    )


VIEWS: tuple[View[Trace], ...] = (
    View(
        name="overview",
        title="Overview",
        description="The headline numbers: steps, phases, devices, top ops, memory, and what was recorded.",
        build=overview.overview_facts,
        empty="Nothing was recorded.",
    ),
    View(
        name="graph_ops",
        title="Calls",
        description="`report.graph_ops`: one row per call in an execution trace, in order.",
        build=graph.graph_ops_table,
        empty="This is not an execution trace.",
        columns=graph.OP_COLUMNS,
        is_counted=True,
        is_there=graph.has_graph,
    ),
    View(
        name="graph_tensors",
        title="Tensors",
        description="`report.graph_tensors`: one row per tensor in an execution trace.",
        build=graph.graph_tensors_table,
        empty="No op takes or returns a tensor.",
        columns=graph.TENSOR_COLUMNS,
        is_counted=True,
        is_there=graph.has_graph,
    ),
    View(
        name="timeline",
        title="Timeline",
        description="Every thread and stream over time, with the steps and their phases above, for each device why it "
        "waited, as in `report.idle`, and the counters of the file, as in `report.counters`.",
        build=timeline_slices,
        empty="No op and no work on a device was recorded.",
    ),
    View(
        name="ops",
        title="Ops",
        description="`report.ops`: one row per op or annotation, summed over the recorded steps. Columns of what was "
        "not recorded are absent: device time without an accelerator, memory without `profile_memory`, device memory "
        "when only the host allocated. In `report.key_averages()` the same holds for memory.",
        build=op_groups.ops_view,
        empty="No torch op ran during the recording.",
        columns=ops.COLUMNS,
        is_counted=True,
        group="Op",
    ),
    View(
        name="flame",
        title="Flame",
        description="The call tree of all threads, with equal paths merged: from the lines, modules and Python frames "
        "that are known down to ops and kernels. Where any of these is known, nodes of autograd are in a box called "
        "backward at the line and module of their forward op. Boxes are as wide as their host time, their device time "
        "or their calls. For a memory snapshot: the stacks that allocated what was in use at the peak, as wide as "
        "their bytes.",
        build=flame_view,
        empty="No torch op ran during the recording, so there is no call tree.",
        is_there=has_calls,
        in_range=flame_view_in,
    ),
    View(
        name="source",
        title="Source",
        description="`report.lines`: the cell as it was written, with the time of each line. Lines of functions "
        "follow, if they were watched.",
        build=lines.source_view,
        empty="Lines are known for cells that are recorded with %%torchprof, and where Python frames were recorded "
        "(--stack).",
        columns=lines.COLUMNS,
        flag="--stack",
        in_range=lines.source_view_in,
    ),
    View(
        name="modules",
        title="Modules",
        description="`report.modules`: the modules that ran, as a tree. Three or more siblings of one class are "
        "merged into a row that opens.",
        build=modules_view,
        empty="No nn.Module ran in the recorded steps, or they were not watched. Add --modules to %%torchprof, or "
        "record Python frames with --stack.",
        columns=modules.COLUMNS,
        flag="--modules",
        in_range=modules_view_in,
    ),
    View(
        name="memory",
        title="Memory",
        description="Memory over time, divided by what it is used for, and what is in use at the peak or at another "
        "moment: `report.memory` and `report.memory_at()`.",
        build=memory.memory_series,
        empty="Memory was not recorded. Add --memory to %%torchprof, or profile_memory=True to profile().",
        columns=(*memory.BANDS, *memory.CATEGORY_BANDS),
        group="Over time",
        flag="--memory",
    ),
    View(
        name="allocations",
        title="Allocations",
        description="`report.allocations`: one row per block of memory, from its allocation to its release.",
        build=block_table.allocations_view,
        empty="Memory was not recorded.",
        columns=block_table.COLUMNS,
        place="group",
        tab="memory",
        group="Allocations",
        is_there=has_memory,
    ),
    View(
        name="leaks",
        title="Growing places",
        description="`report.leaks`: the places whose blocks pile up from step to step.",
        build=leaks.leaks_view,
        empty="No place leaves blocks behind in nearly every step.",
        columns=leaks.COLUMNS,
        place="group",
        tab="memory",
        group="Growth",
        is_there=has_leaks,
    ),
    View(
        name="holders",
        title="Holders",
        description="`report.holders()`: the variables and attributes that keep what piles up alive, looked for when "
        "this is first shown. A file has those that were found last in the process that recorded.",
        build=holders.nothing_held,
        empty="No variable or attribute of this process holds it any more.",
        columns=holders.COLUMNS,
        place="group",
        tab="memory",
        group="Holders",
        is_there=has_leaks,
        is_live=True,
    ),
    View(
        name="savings",
        title="Savings",
        description="`report.savings`: changes that would lower the peak of memory by at least 1 %, each by itself, "
        "with an estimate of the bytes and of the time that they add.",
        build=savings.savings_view,
        empty="No change that is known would lower the peak.",
        columns=savings.COLUMNS,
        place="group",
        tab="memory",
        group="What if",
        is_there=savings.has_savings,
    ),
    View(
        name="kernels",
        title="Kernels",
        description="`report.kernels`: one row per name of a kernel, copy or fill.",
        build=kernels.kernels_table,
        empty="No work on an accelerator was recorded: the program ran on the CPU, or the device was not traced.",
        columns=kernels.COLUMNS,
        is_counted=True,
        place="group",
        tab="ops",
        group="Kernel",
    ),
    _grouping("module", "Module"),
    _grouping("line", "Line"),
    _grouping("shapes", "Shape"),
    _grouping("dtypes", "Type"),
    _grouping("overload", "Overload"),
    _grouping("phase", "Phase"),
    _grouping("stack", "Stack"),
    _grouping("thread", "Thread"),
    _grouping("step", "Step"),
    View(
        name="steps",
        title="Steps",
        description="`report.steps`: one row per recorded step.",
        build=steps.steps_table,
        empty="The recording has no steps. Put a training loop into the cell, or call step() in it.",
        columns=steps.COLUMNS,
        is_counted=True,
        place="strip",
    ),
    View(
        name="notes",
        title="Notes",
        description="`report.problems`: the kinds of problems of recording and reading, the most severe first.",
        build=notes.problem_list,
        empty="No problems were found.",
        is_counted=True,
        place="about",
    ),
)

# The tabs of a report of many ranks.
RANK_VIEWS: tuple[View[Job], ...] = (
    View(
        name="ranks",
        title="Ranks",
        description="`ranks.ranks`: one row per rank of the job, with the mean of its steps, and below it the waiting "
        "in the collectives with the most of it.",
        build=shown.ranks_view,
        empty="No rank could be read.",
        columns=jobs.RANK_COLUMNS,
        is_counted=True,
        group="Ranks",
    ),
    View(
        name="collectives",
        title="Collectives",
        description="`ranks.collectives`: one row per collective that several ranks share.",
        build=shown.collectives_view,
        empty="The ranks share no collective.",
        columns=jobs.COLLECTIVE_COLUMNS,
        is_counted=True,
    ),
    View(
        name="stragglers",
        title="Stragglers",
        description="`ranks.stragglers`: one row per rank for which the others wait noticeably: at least 1 % of a step "
        "each, and a tenth of all waiting. With what it does more of than they do.",
        build=shown.stragglers_view,
        empty="No rank keeps the others waiting noticeably.",
        columns=stragglers.COLUMNS,
        is_counted=True,
    ),
    View(
        name=shown.WAITS_VIEW,
        title="Waiting",
        description="`ranks.arrivals`: one row per collective and rank.",
        build=shown.waits_view,
        empty="The ranks share no collective.",
        columns=jobs.ARRIVAL_COLUMNS,
        place="strip",
    ),
    View(
        name="timeline",
        title="Timeline",
        description="The steps, collectives and computation of all ranks, on the common clock.",
        build=shown.timeline_view,
        empty="There is too much for one picture. A rank's own report has its timeline.",
    ),
    View(
        name="notes",
        title="Notes",
        description="`ranks.problems`: the problems of the job, and of the files of its ranks.",
        build=shown.problems_view,
        empty="No problems were found.",
        is_counted=True,
    ),
)
