"""What a report has, one row each: its tables in Python and the tabs of its page, in display order.

A new table is a new row of ``VIEWS`` and its function; with a title, it is shown by the page as well.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.findings import notes, overview
from torchprof_magic.findings.deciding_time import on_deciding_time
from torchprof_magic.findings.hottest_modules import modules_shown
from torchprof_magic.findings.hottest_rows import answered
from torchprof_magic.findings.nearest_roof import below_roofs
from torchprof_magic.findings.savings import table as savings
from torchprof_magic.model import trace as model
from torchprof_magic.render.view import View, shown, tables
from torchprof_magic.tables import budget, compilations, coverage, devices, process_groups, steps, watched
from torchprof_magic.tables import collectives as links
from torchprof_magic.tables import critical_path as path
from torchprof_magic.tables import execution_trace as graph
from torchprof_magic.tables import serving as server
from torchprof_magic.tables.flame.shown_stacks import flame_view, has_calls
from torchprof_magic.tables.host import host_times
from torchprof_magic.tables.memory import block_table, holders, leaks
from torchprof_magic.tables.memory import in_use as memory
from torchprof_magic.tables.ops import kernels, op_groups, ranking
from torchprof_magic.tables.ops import op_table as ops
from torchprof_magic.tables.ops import roofline as rooflines
from torchprof_magic.tables.snapshot import frames as snapshot
from torchprof_magic.tables.source import events, lines, modules
from torchprof_magic.tables.source.source_view import source_view
from torchprof_magic.tables.timeline.slices import timeline_slices
from torchprof_magic.tables.waiting import idle, loaders, queue, waits

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


def has_memory(trace: Trace) -> bool:
    """Return whether changes of memory were recorded."""
    return trace.memory.height > 0


def has_leaks(trace: Trace) -> bool:
    """Return whether some place leaves blocks behind in nearly every step."""
    return has_memory(trace) and leaks.leaks_table(trace).frame.height > 0


def metadata_table(trace: Trace) -> pl.DataFrame:
    """Return the metadata of the run, one row per key."""
    return pl.DataFrame(list(trace.meta.extra), schema={"key": pl.String, "value": pl.String}, orient="row")


def _grouping(key: str, group: str) -> View[Trace]:
    """Return the ops grouped by one of the keys of ``report.ops_by``."""
    return View(
        name=f"ops_{key}",
        sentence=f"`report.ops_by({key!r})`: the ops by {group.lower()}.",
        build=on_deciding_time(partial(op_groups.ops_grouped, key=key)),
        title=f"Ops by {group.lower()}",
        empty="Nothing was recorded to group by.",
        place="group",
        tab="ops",
        group=group,
        is_there=partial(op_groups.can_group, key=key),
        follows_range=True,
        is_per_step=True,
    )


VIEWS: tuple[View[Trace], ...] = (
    View(
        name="overview",
        sentence="The headline numbers: steps, phases, devices, top ops, memory, and what was recorded.",
        build=overview.overview_facts,
        title="Overview",
        empty="Nothing was recorded.",
        follows_range=True,
    ),
    View(
        name="graph_ops",
        sentence="One row per call of an op or range in an execution trace, in order; empty for any other file.",
        columns=graph.OP_COLUMNS,
        frame=graph.graph_ops_table,
        title="Calls",
        empty="This is not an execution trace.",
        is_counted=True,
        is_there=graph.has_graph,
    ),
    View(
        name="graph_tensors",
        sentence="One row per tensor in an execution trace, the largest first, in bytes; empty for any other file.",
        columns=graph.TENSOR_COLUMNS,
        frame=graph.graph_tensors_table,
        title="Tensors",
        empty="No op takes or returns a tensor.",
        is_counted=True,
        is_there=graph.has_graph,
    ),
    View(
        name="timeline",
        sentence="Every thread and stream over time, with the steps and their phases above.",
        details="For each device it shows why it waited, as in `report.idle`, and the counters of the file, as in "
        "`report.counters`.",
        build=timeline_slices,
        title="Timeline",
        empty="No op and no work on a device was recorded.",
    ),
    View(
        name="ops",
        sentence="One row per op or annotation, summed over the recorded steps: calls, time, memory and FLOPs.",
        details="Columns of what was not recorded are absent: device time without an accelerator, memory without "
        "`profile_memory`, device memory when only the host allocated. In `report.key_averages()` the same holds for "
        "memory.",
        columns=ops.COLUMNS,
        frame=ops.ops_table,
        build=answered(op_groups.ops_view),
        title="Ops",
        empty="No torch op ran during the recording.",
        is_counted=True,
        group="Op",
        follows_range=True,
        is_per_step=True,
    ),
    View(
        name="flame",
        sentence="The call tree of all threads, with equal paths merged.",
        details="It goes from the lines, modules and Python frames that are known down to ops and kernels. Where any "
        "of these is known, nodes of autograd are in a box called backward at the line and module of their forward op. "
        "Boxes are as wide as their host time, their device time or their calls. The host time of a thread adds up to "
        "the steps, without what lies between them, such as the work of recording itself. For a memory snapshot: the "
        "stacks that allocated what was in use at the peak, as wide as their bytes.",
        build=on_deciding_time(flame_view),
        title="Flame",
        empty="No torch op ran during the recording, so there is no call tree.",
        is_there=has_calls,
        follows_range=True,
        is_per_step=True,
    ),
    View(
        name="source",
        table="lines",
        sentence="One row per line of the cell, and of the functions that were watched, with its times in ns.",
        details="For a trace of another program: one row per function of the user's, if Python frames were recorded.",
        columns=lines.COLUMNS,
        frame=lines.lines_table,
        build=answered(source_view),
        title="Source",
        empty="Lines are known for cells that are recorded with %%torchprof, and where Python frames were recorded "
        "(--stack).",
        flag="--stack",
        follows_range=True,
        is_per_step=True,
    ),
    View(
        name="modules",
        sentence="One row per nn.Module that ran, by its path of attributes, with the times of forward and backward.",
        details="The tab shows them as a tree, in which three or more siblings of one class are merged into a row that "
        "opens.",
        columns=modules.COLUMNS,
        frame=modules.modules_table,
        build=modules_shown,
        title="Modules",
        empty="No nn.Module ran in the recorded steps, or they were not watched. Add --modules to %%torchprof, or "
        "record Python frames with --stack.",
        flag="--modules",
        follows_range=True,
        is_per_step=True,
    ),
    View(
        name="memory",
        sentence="The bytes in use on each device after every recorded change, in all and by category.",
        details="Rows are in order of time. `total_bytes` is the sum of all categories in every row. It includes what "
        "was alive before the recording, as far as that is known. Empty if memory was not recorded. The records of "
        "torch are `report.trace.memory`. The tab draws the curves, with what the caching allocator has reserved, and "
        "lists what is in use at a moment, as `report.memory_at()` does.",
        columns=memory.FRAME_COLUMNS,
        frame=memory.memory_frame,
        build=memory.memory_series,
        title="Memory",
        empty="Memory was not recorded. Add --memory to %%torchprof, or profile_memory=True to profile().",
        group="Over time",
        flag="--memory",
    ),
    View(
        name="allocations",
        sentence="One row per block of memory: its allocation with its release, in the order of allocation.",
        details="`allocated_at_ns` is null for a block from before the recording, and `freed_at_ns` for one that is "
        "alive at its end. Empty if memory was not recorded. The single records of torch are `report.trace.memory`.",
        columns=block_table.COLUMNS,
        frame=block_table.allocations_table,
        build=block_table.allocations_view,
        title="Allocations",
        empty="Memory was not recorded.",
        place="group",
        tab="memory",
        group="Allocations",
        is_there=has_memory,
        follows_range=True,
    ),
    View(
        name="leaks",
        sentence="One row per place whose blocks pile up from step to step, by `bytes_per_step`, the most first.",
        details="Such blocks are allocated in at least four of five complete steps, and are in use at the end of the "
        "recording. Empty with fewer than three complete steps. `holders()` says who keeps them.",
        columns=leaks.COLUMNS,
        frame=leaks.leaks_table,
        build=leaks.leaks_view,
        title="Growing places",
        empty="No place leaves blocks behind in nearly every step.",
        place="group",
        tab="memory",
        group="Growth",
        is_there=has_leaks,
    ),
    View(
        name="holders",
        sentence="`report.holders()`: one row per variable or attribute that keeps alive what piles up.",
        details="They are looked for when this is first shown. A file has those that were found last in the process "
        "that recorded.",
        columns=holders.COLUMNS,
        build=holders.nothing_held,
        title="Holders",
        empty="No variable or attribute of this process holds it any more.",
        place="group",
        tab="memory",
        group="Holders",
        is_there=has_leaks,
        is_live=True,
    ),
    View(
        name="savings",
        sentence="One row per change that would lower the peak of memory by at least 1 %, the largest saving first.",
        details="Activation checkpointing and offload of modules, `set_to_none`, 16-bit parameters, gradients and "
        "optimizer state, half the batch, and the release of memory that grows, whose saving is `bytes_per_step` more "
        "with every further step. `saved_bytes` is an estimate by `arithmetic`, and `added_time_ns` is the time that "
        "it adds to a step. Empty if memory was not recorded.",
        columns=savings.COLUMNS,
        frame=savings.savings_table,
        build=savings.savings_view,
        title="Savings",
        empty="No change that is known would lower the peak.",
        place="group",
        tab="memory",
        group="What if",
        is_there=savings.has_savings,
    ),
    View(
        name="roofline",
        sentence="One row per op with known work: how fast it ran, and how near the roof of the device that is.",
        details="The tab draws them below the roofs of the device: operations per second over operations per byte, "
        "both axes by factors of ten, as large as their time. Work counts at the op with a formula, which can be "
        "around the one with its time in `ops`: that of `aten::cudnn_convolution` at `aten::convolution`. Empty "
        "without recorded shapes and types. See [formulas.md](formulas.md).",
        columns=rooflines.COLUMNS,
        frame=below_roofs(rooflines.roofline_table),
        title="Roofline",
        empty="The work of no op is known: add --shapes to %%torchprof.",
        is_there=rooflines.has_points,
        group="Op",
        flag="--shapes",
        follows_range=True,
        is_per_step=True,
    ),
    View(
        name="roofline_kernels",
        sentence="The same by kernel: one row per kernel with known work.",
        columns=rooflines.COLUMNS,
        frame=below_roofs(rooflines.roofline_of_kernels),
        title="Roofline of kernels",
        empty="The work of no kernel is known.",
        place="group",
        tab="roofline",
        group="Kernel",
        is_there=rooflines.has_kernels,
        follows_range=True,
        is_per_step=True,
    ),
    View(
        name="kernels",
        sentence="One row per name of a kernel, copy or fill, with its time summed over all streams.",
        columns=kernels.COLUMNS,
        frame=kernels.kernels_table,
        build=answered(kernels.kernels_table),
        title="Kernels",
        empty="No work on an accelerator was recorded: the program ran on the CPU, or the device was not traced.",
        is_counted=True,
        place="group",
        tab="ops",
        group="Kernel",
        follows_range=True,
        is_per_step=True,
    ),
    _grouping("module", "Module"),
    _grouping("line", "Line"),
    _grouping("fx_node", "FX node"),
    _grouping("model_line", "Model line"),
    _grouping("shapes", "Shape"),
    _grouping("dtypes", "Type"),
    _grouping("overload", "Overload"),
    _grouping("phase", "Phase"),
    _grouping("stack", "Stack"),
    _grouping("thread", "Thread"),
    _grouping("step", "Step"),
    View(
        name="strip",
        sentence="One row per step of the whole run, or stretch of steps, if it was watched (`--watch`).",
        columns=watched.STRIP_COLUMNS,
        frame=watched.strip_table,
    ),
    View(
        name="slow_steps",
        sentence="One row per step of a watched run that took far longer than usual, with the line that ran in it.",
        columns=watched.SLOW_COLUMNS,
        frame=watched.slow_steps_table,
    ),
    View(
        name="compilations",
        sentence="One row per compilation of `torch.compile` during a live run: why it was compiled, and how long.",
        details="Also those before and after the recorded steps. A compilation of a function that had been compiled "
        "before says which guard failed, and one whose graph broke says where and why. Empty in files of other "
        "programs, of which only the times are known.",
        columns=compilations.COLUMNS,
        frame=compilations.compilations_table,
        title="Compilations",
        empty="torch.compile compiled nothing during the run.",
        is_counted=True,
        place="group",
        tab="ops",
        group="Compilation",
        is_there=compilations.has_compilations,
    ),
    View(
        name="steps",
        sentence="One row per recorded step: start, duration, and time per phase; the phases add up to the duration.",
        columns=steps.COLUMNS,
        frame=steps.steps_table,
        title="Steps",
        empty="The recording has no steps. Put a training loop into the cell, or call step() in it.",
        is_counted=True,
        place="strip",
    ),
    View(
        name="budget",
        sentence="One row per step: its time in parts that add up to it, with work at and above the roof, MFU and HFU.",
        details="With a device, each moment belongs to what the busiest device does: to computation first, then to "
        "collectives, then to copies; where it idles, to what the host does before the next launch. Without one, to "
        "what the thread of the steps does. Work is split at its roof: see `ops` and [formulas.md](formulas.md).",
        columns=budget.COLUMNS,
        frame=budget.budget_table,
    ),
    View(
        name="serving",
        sentence="One row per step of an inference server: its kind, requests, tokens, time, and the parts of that.",
        details="Steps are told by the ranges of vLLM and SGLang, such as "
        "`execute_32_context_0(...)_generation_32(...)` and `step[DECODE bs=32]`. The parts are those of `budget`, and "
        "add up to the duration. Empty for recordings of something else.",
        columns=server.COLUMNS,
        frame=server.serving_table,
    ),
    View(
        name="serving_kinds",
        sentence="The steps of an inference server by kind: prefill, decode or mixed, with what limits each.",
        columns=server.KIND_COLUMNS,
        frame=server.serving_kinds_table,
    ),
    View(
        name="notes",
        sentence="`report.problems`: the kinds of problems of recording and reading, the most severe first.",
        build=notes.problem_list,
        title="Notes",
        empty="No problems were found.",
        is_counted=True,
        place="about",
    ),
    View(
        name="coverage",
        sentence="How many launches have the work that they started in the file, in all, per device and per step.",
        details="The first row is for the whole recording, the first of each device for all steps. Empty if nothing "
        "was launched.",
        columns=coverage.COLUMNS,
        frame=coverage.coverage_table,
    ),
    View(
        name="devices",
        sentence="One row per device: busy and idle time, and communication time not overlapped by computation.",
        columns=devices.COLUMNS,
        frame=devices.devices_table,
        follows_range=True,
    ),
    View(
        name="critical_path",
        sentence="What decided how long each step took, one after the other, from its begin to its end.",
        details="What is not on the path can become faster, and the step takes as long as before. Times of a step add "
        "up to it. What follows from order and times alone, and is not in the file, is an edge of kind `event`, "
        "`workers` or `assumed`.",
        columns=path.COLUMNS,
        frame=path.critical_path_table,
    ),
    View(
        name="waits",
        sentence="One row per blocking call and its cause: how long it held the host while a device worked or idled.",
        details="Only calls within the recorded steps count. A live run also lists where its thread slept, waited or "
        "collected garbage between ops, by line and call.",
        columns=waits.COLUMNS,
        frame=waits.waits_table,
        follows_range=True,
    ),
    View(
        name="idle",
        sentence="Every idle time of every device in the recorded steps, by what the host did before the next launch.",
        columns=idle.COLUMNS,
        frame=idle.idle_table,
        follows_range=True,
    ),
    View(
        name="loaders",
        sentence="One row per kind of DataLoader and line: time in fetching batches, and how often none was ready.",
        columns=loaders.COLUMNS,
        frame=loaders.loaders_table,
        follows_range=True,
    ),
    View(
        name="host",
        sentence="One row per name of an op, annotation, Python function or runtime call: its own time on the host.",
        details="Unlike in `ops`, events of all categories are nested in one another.",
        columns=host_times.COLUMNS,
        frame=host_times.host_table,
        follows_range=True,
    ),
    View(
        name="queue",
        sentence="How much launched work, and how many launch calls, had not begun on the device, over time.",
        details="One row per change, per stream and for all together.",
        columns=queue.FRAME_COLUMNS,
        frame=queue.queue_series,
    ),
    View(
        name="launches",
        sentence="One row per kernel name: the delay from its launch call to its start, and how many runs are short.",
        columns=queue.LAUNCH_COLUMNS,
        frame=queue.launches_table,
        follows_range=True,
    ),
    View(
        name="ranking",
        sentence="The events that ran while the launch queue emptied, the most likely cause first.",
        details="They are ops, annotations and Python calls. The score is that of torch's `BasicEvaluation`: high idle "
        "time and self time. Empty without a device, or if the queue never held at least four kernels.",
        columns=ranking.COLUMNS,
        frame=ranking.ranking_table,
    ),
    View(
        name="collectives",
        sentence="One row per kind of collective, process group and size: its time, and the bandwidth of the bus.",
        columns=links.COLUMNS,
        frame=links.collectives_table,
    ),
    View(
        name="process_groups",
        sentence="One row per process group of torch.distributed that the recording process belongs to.",
        columns=process_groups.COLUMNS,
        frame=process_groups.process_groups_table,
    ),
    View(
        name="events",
        sentence="One row per event, sorted by lane, start and descending duration.",
        details="`parent` is the row of the enclosing event, or -1.",
        columns=events.COLUMNS,
        frame=events.events_table,
    ),
    View(
        name="lanes",
        sentence="One row per thread or stream; the `lane` of an event is a row of this frame.",
        columns=model.LANES_COLUMNS,
        frame=attrgetter("lanes"),
    ),
    View(
        name="flows",
        sentence="One row per link between two rows of `events`: launch call to device event, forward op to backward.",
        columns=model.FLOWS_COLUMNS,
        frame=attrgetter("flows"),
    ),
    View(
        name="memory_records",
        sentence="One row per allocation or release, as torch recorded it.",
        columns=model.MEMORY_COLUMNS,
        frame=attrgetter("memory"),
        python="report.trace.memory",
    ),
    View(
        name="counters",
        sentence="One row per value of a counter in the file, such as the power of a device, in order of time.",
        details="Values are in `unit` as the file writes it. `device` is null for counters that are about no device. "
        "`report.trace.counters` also has the recording cycle of each. Empty if the file has no counters.",
        columns=tuple(column for column in model.COUNTERS_COLUMNS if column.name != "cycle"),
        frame=lambda trace: trace.counters.drop("cycle"),
    ),
    View(
        name="stacks",
        sentence="One row per Python frame and call path to it, after its caller.",
        details="The `stack` of an event is a row of this frame.",
        columns=model.STACKS_COLUMNS,
        frame=attrgetter("stacks"),
    ),
    View(
        name="metadata",
        sentence="One row per key of the metadata that the file holds, including `--metadata`, with its value as text.",
        frame=metadata_table,
        python="report.metadata",
    ),
    View(
        name="segments",
        sentence="One row per segment of a memory snapshot, in its order.",
        columns=snapshot.SEGMENT_COLUMNS,
        frame=snapshot.segments_table,
        python="report.snapshot.segments",
    ),
    View(
        name="blocks",
        sentence="One row per block of a segment of a memory snapshot.",
        columns=snapshot.BLOCK_COLUMNS,
        frame=snapshot.blocks_table,
        python="report.snapshot.blocks",
    ),
    View(
        name="history",
        sentence="One row per action of an allocator, from a memory snapshot.",
        columns=model.HISTORY_COLUMNS,
        frame=attrgetter("history"),
        python="report.snapshot.history",
    ),
)
TABS = shown(VIEWS)
TABLES = tables(VIEWS)
