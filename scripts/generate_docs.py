"""Write the pages of docs/ that list what the package's tables hold. Run it after changing a table.

Each page is one function that returns Markdown, and one entry of ``PAGES``.
"""

from __future__ import annotations

import string
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "compat"))
from lines import LINES
from results import OK, REFUSED, read_results

from torchprof_magic.exporters import EXPORTERS
from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.facts.ops.formulas import ALL as ALL_FORMULAS
from torchprof_magic.findings.advice import CERTAINTY_TEXT, RULES
from torchprof_magic.findings.verdict.decision import (
    LEAST_CAUSE,
    LEAST_LIMIT,
    LEAST_SECOND,
    LOUD_OPTIMIZER,
    LOUD_PYTHON,
    MOSTLY_WORK,
)
from torchprof_magic.ingest import READERS
from torchprof_magic.jobs.views import VIEWS as RANK_VIEWS
from torchprof_magic.model import trace
from torchprof_magic.model.dtypes import KINDS
from torchprof_magic.model.outliers import OUTLIER_RATIO
from torchprof_magic.model.peaks import PEAKS
from torchprof_magic.model.problems import PROBLEMS
from torchprof_magic.model.vendors import COLLECTIVE_KERNELS, VENDORS
from torchprof_magic.options import AUTO, OPTIONS, PRESET_COSTS_US, PRESETS, QUICK
from torchprof_magic.report.changed_views import VIEWS as CHANGED_VIEWS
from torchprof_magic.report.views import VIEWS
from torchprof_magic.tables.memory import memory_at
from torchprof_magic.tables.ops import averages, groups
from torchprof_magic.tables.snapshot import frames as snapshot_tables
from torchprof_magic.tables.timeline.counter_lanes import MOST_CURVES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lines import Line
    from results import Result

    from torchprof_magic.model.shapes import Column
    from torchprof_magic.model.trace import FrameColumn
    from torchprof_magic.options import Option
    from torchprof_magic.render.view import View

ROOT = Path(__file__).parents[1]
# Tables that take arguments, and those of the snapshot.
OTHER_TABLES: tuple[tuple[str, str, tuple[Column, ...]], ...] = (
    ("`report.ops_by(...)`", "The columns that split the rows of `report.ops`.", tuple(groups.KEYS.values())),
    ("`report.snapshot.devices`", "One row per device of a memory snapshot.", snapshot_tables.DEVICE_COLUMNS),
    ("`report.snapshot.pools`", "One row per device and memory pool.", snapshot_tables.POOL_COLUMNS),
    (
        "`report.snapshot.peak` and `report.snapshot.alive(at)`",
        "One row per block in use at a moment, the largest first.",
        snapshot_tables.ALIVE_COLUMNS,
    ),
    (
        "`report.memory_at(...)`",
        "One row per block in use at the peak or at another moment. The sizes add up to the total.",
        memory_at.COLUMNS,
    ),
    ("`report.key_averages()`", "torch's own definitions, to check against its table.", averages.ALL_COLUMNS),
)
# Frames of the recording that are no tables of a report.
OTHER_FRAMES: tuple[tuple[str, str, tuple[FrameColumn, ...]], ...] = (
    ("`report.trace.graph_ops`", "One row per call in an execution trace.", trace.GRAPH_OPS_COLUMNS),
    (
        "`report.trace.graph_tensors`",
        "One row per tensor that a call in an execution trace gets or gives back.",
        trace.GRAPH_TENSORS_COLUMNS,
    ),
    ("`report.trace.segments`", "One row per segment of a memory snapshot.", trace.SEGMENTS_COLUMNS),
    ("`report.trace.blocks`", "One row per block of these segments.", trace.BLOCKS_COLUMNS),
    ("`report.snapshot.annotations`", "One row per range that ran meanwhile.", trace.ANNOTATIONS_COLUMNS),
    ("`report.trace.steps`", "One row per recorded step, as it was recorded.", trace.STEPS_COLUMNS),
    (
        "`report.trace.tags`",
        "One row each time that a tensor was seen whose use is known, in a live run with --memory.",
        trace.TAGS_COLUMNS,
    ),
    (
        "`report.trace.storages`",
        "One row per storage of the host that Python can reach before or after a cycle, in a live run with --memory.",
        trace.STORAGES_COLUMNS,
    ),
    (
        "`report.trace.waits`",
        "One row per time in which the thread of the steps waited or collected garbage, in a live run.",
        trace.WAITS_COLUMNS,
    ),
    (
        "`report.trace.host_lines`",
        "One row per import of the thread of the steps, and per moment at which its line was looked at, in a live run.",
        trace.HOST_LINES_COLUMNS,
    ),
    ("`report.trace.arrows`", "One row per category of arrows that the file itself draws.", trace.ARROWS_COLUMNS),
)
DEFINITIONS_HEAD = f"""# What every number means

The definitions below are also shown in the column headers. In Python, times are int64 ns from the first recorded
event, and sizes are bytes. Memory is shown in binary units (1 KiB = 1024 B, so a card of 80 GB holds at most 80 GiB),
files and bandwidths in decimal ones (1 kB = 1000 B), and ratios (between 0 and 1) as percentages. A number in a
sentence has three significant digits, or all digits before the point, and no decimals that are all zero: 1.50 ms,
3 ms, 40,573. The numbers of a column have one unit and one number of decimals, and the sentence above a table writes
them alike. Halves are rounded away from zero, what is too small to be shown is below the last digit (<0.01 %), and what
is not known is a dash (–).

**Names.** A number with a dimension says its unit in the name of its column, as its last word or before `_per_`:
`dur_ns`, `size_bytes`, `flops`, `sum_ratio`, `bytes_per_s`. Shares are ratios between 0 and 1. Times on a clock are
ns, too, and say where: `freed_at_ns`. A number of things is called after them (`calls`, `kernels`), and numbers of
steps, lines, ranks or rows after what they number. All frames keep to this: those of a report, of ranks, of a
comparison and of a snapshot.

**Parts of the time.** A step, a range that is chosen in the page, and `report.between(start_ns, end_ns)` are the same.
Times are cut at the edges; a call counts in each part that has any of it, and bytes and FLOPs count where they begin.
What belongs to what is found in the whole recording. So times of parts that follow one another add up to the whole.

**Nesting.** An op is inside another if its interval is inside the other's on the same thread. Ops and annotations are
nested among themselves, as in torch: Python frames and runtime calls do not reduce the self time of an op. An event
that only partly overlaps another is not inside it, and is counted in the notes. In the flame graph and in what is told
of waits, each moment of a thread belongs to one event. An annotation that outlives the call or line that enters it
begins where that ends. Of ranges that take turns, the one that began last has the time that they share. A call that
outlives what it began in, as one that never returned and was recorded until the end, is cut off there. In the flame
graph, an op that outlives a call is a range too, as those of torch.compile are.

**Device time.** A kernel belongs to the innermost op around the runtime call that launched it, which is found by the
correlation number of the call. One call can launch many kernels. Device events without a launch in the file were queued
before the recording began. They belong to no op, and are counted in the notes.

**Graphs.** All kernels of a CUDA or HIP graph are started by one call. They belong to the op, module and line of the
launch that was captured, if the capture is in the recording and ended before, or was loaded with it
(`load(path, capture=...)`). The work of each replay, in order of time, is aligned with the launches of each capture in
their order. Kernels fit launches of the same name, and the same grid and block where these are known of all kernels of
both sides; copies and fills fit those of any size. What is left on both sides, because streams ran in another order,
belongs together in its order where both have equally many of a name. A replay is of the capture that most of its work
fits, if that is half of it or more; of equal ones, of that with the fewest launches, then the last, and if their ops
differ, a note says so. Calls of CUDA do not say which kernels they launch: there, a graph must have exactly as many
kernels, copies and fills as were captured, in the same order and on one stream, and a note says that only the order
was compared. What fits nothing belongs to the op around the launch of the graph, and its share is told.
The call of an op counts once per replay, and so do those of lines and modules. They have no time on the host, except
for the capture itself if that is in the recording. The rows of a capture from another file are in `events`, on lanes of
their own that the timeline and exported traces leave out; only the order of their times has a meaning. Captured ops
have the FLOPs of the replays.
Where no capture fits, or several fit equally well, work has what annotations say of its node (`graph_node`): launches
are made up for the nodes of each graph, one for each, and the ranges, modules, functions and ops that are said of nodes
that follow one another are one. A `name` is a range, and work with `autograd_phase` has that behind the name.

**Phases.** {", ".join(PHASES)}. The phase of an event is that of the nearest event at or around it that torch itself
names: autograd nodes and `aten::*_backward` are backward; `Optimizer.step` and `Optimizer.zero_grad` are optimizer;
collectives are communication; `enumerate(DataLoader)` is data. The closure of `optimizer.step(closure)`, in which
Lightning trains, is no part of the optimizer: it lasts from the begin of the step, or from the next op that makes a
node there, until no more nodes run backward. An op that made an autograd node is forward, whatever range it is in. Only
then do the words backward and optimizer in the names of the user's ranges count, and other ops are forward. When a step
is split by phase, the thread that runs the step decides at every moment; where it only waits for other threads, what
they do counts. Blocking calls are waiting. The rest is Python, so the parts add up to the step exactly. Pictures and
the page show idle, in which the thread sleeps or waits, as part of waiting. Work of a device has the phase of the op
that launched it; of what no op launched, or was launched before the recording, it is not known. In tables, the timeline
and the flame graph, an op, a frame or a range that spends more than half of its time on work that is done once has the
phase of that: compile or initialisation.

**Step.** Whatever is given per step is a sum over the steps that count, divided by their number: in the verdict, the
phases, the tables of the page, the flame graph, the text, the advice, a comparison, the history and `report.step_ns`.
Those count that are complete, but for outliers, which take more than {OUTLIER_RATIO} times the median of three or
more, and for few that launch less than half of what the others do; if none is complete, all count. The mean of those
that count is the typical step, so its parts add up. What runs between two steps, or after the last one, belongs to
the step before. The column `left_out` of `report.steps` says why a step does not count, and the page crosses it out;
a click there takes it in or out. `report.counted` has the tables of the steps that count, and other tables of the
report are of the whole recording.

**Verdict.** The verdict compares everything that the steps that count spend time on, by shares of their time. With a
device, a step consists of the time in which it computes, copies or only communicates, and of its idle time by cause.
The device's own work, together with idle time in which work was queued already, is the limit from {MOSTLY_WORK:.0%}
on, or if nothing else has
{LEAST_CAUSE:.0%}; otherwise the largest other cause is. While the device idles for a tenth or more, the critical path
decides between them: a device with less than {LEAST_CAUSE:.0%} of it works beside a host that does not wait for it, and
is not the limit; and where data or communication takes about as much as the host's ops and Python together (by
{LEAST_SECOND:.0%}), the one with more of the path is. A path that rests on what the file does not say decides nothing.
Nothing is called the limit below {LEAST_LIMIT:.0%}, nor if
more time than it takes is not known; every other cause from {LEAST_SECOND:.0%} on is named. Without a device, the ops
of forward, backward and optimizer are the work, by the same rule; Python is the limit from {LOUD_PYTHON:.0%} on, and
the optimizer from
{LOUD_OPTIMIZER:.0%} on if neither forward nor backward is longer. If most time of ops is in calls that last less than
20 us, calling them is what costs (dispatch); if most is in ops that only copy or fill, it is memory traffic.

**Complete.** Every launch is looked up: of a kernel, a graph, a copy or a fill. Its work is in the file, or it is
missing. It is not missing if it was captured into a graph, if it fills nothing (as libraries do; no fill in that place
has work, while the kernels beside it do), or if it is among the last ones, no wait for the device follows, and the
recording ended within the time that other work took. `report.coverage` counts them in all, per device and per step.
A launch that is lost together with its work leaves no trace by itself. Such losses are told by the arrows between them,
where these are left, and by steps that repeat: ops that launch less than most do at the same place of other steps,
among as many ops of that name, lack the rest, if three ops do and it is 5% of all launches or more.
A step that misses work is not complete, and is left out where others are. The cause of an idle time in which lost work
was launched is missing: the device may have been busy.

**Silent.** Where for 10 ms or more no thread has an op, a call or a range of the user's own, a file does not say
whether the host ran Python, waited, or did what was not recorded. This is called unknown, not Python, unless Python
calls, lines or waits were recorded or the CPU time of the steps was measured.

**Possible.** Work begins after its launch and ends before the wait for it returns, and a stream runs its work in turn.
Work that lasts over all of the next one of its stream, beyond a wait for it, or several steps and 10 times as
long as its like, is cut off there. If nearly all work of a device is early, or none reaches the idle device within
0.5 ms, its clock is off: by the smallest delay, less 5 µs, by which all its work is moved. Less, from 60 µs on, is
enough where many delays are alike or work ends after a wait for it; no delay is where waits return right after their
work. Tables and findings are of
the recording with these corrections; `report.trace`, `report.save()` and exports of the trace are as in the file, and
so is all of `report.as_recorded()`.

**Waits of the host.** In a live run, a second thread looks at the thread that runs the steps: each millisecond while it
waits, and from every 10 ms to twice a second where it works; not at all in a step after one that waited less than 2 %.
Where the CPU time of the thread has stood still, and it was not ready to run either, it waits. Begin and end of a wait
follow from the CPU time, not from the moments at which it was looked at. The line is the innermost one of the user's on
its stack, or the one that its task awaits while the event loop waits. The call is the function that this line has
called; if that is written in C, the call in the source of the instruction that runs. Waits inside ops belong to the
ops, and those while a loop fetches its next item are data. Where the system does not tell the CPU time of another
thread (macOS, Windows), or nothing was seen, a line of the cell is named by its only call, or the only one that may
wait. Collections of garbage are measured by a callback of `gc`, and are Python; a collection of a few milliseconds or
less has the line of the cell alone.

**Once.** Starting the driver, loading kernels at their first launch, imports, compilation, the capture of graphs, the
start of worker processes and the first call of an op are done once, however often the program repeats the rest. They
are recognised by name; or as the first call of a name that takes 20 times as long as later ones, and at least 1 ms (of
an op 10 ms, without what it waits for, where a device was recorded). They are a cause of their own
(initialisation), and never counted as what a change would save. On the CPU, an op counts in the first step if it takes
10 times as long as in others; in a live run 4 times, and never if the process had recorded it before. In the table of
steps, compilation and the capture of graphs are the phase compile, and the rest is the phase initialisation.

A live run notes the imports of the thread that runs the steps, each from when Python looks for the module that is asked
for until it is loaded, with all imports in it. Its line is the innermost one of the user's on the stack. An import
during compilation is part of it, and a module that is imported more than once is not done once. Other work that is done
once has the line of the cell that ran, as all events have. Where no line was watched, it has one in which the thread
was seen meanwhile: a live run looks 2 ms after a step has begun, and then the more rarely the longer the step takes,
and not at all while steps do not wait.

**Memory.** An allocation is paired with the next release at its address on its device; cycles are counted apart. Its
category is that of a live object, if one was seen at its address meanwhile: parameters and buffers of modules,
gradients before and state after a step of an optimizer, arguments of the outermost modules. For all other blocks, and
for all blocks of a file that another program recorded, the rules in the definitions of the columns decide, in the
order input (DataLoader), temporary, gradient, autograd, temporary (optimizer), optimizer state, input, activation. So
in such a file parameters, buffers and what else was alive before are unknown. Where no optimizer of torch steps,
gradients follow from the rule. Of a snapshot only the stacks tell: what the node AccumulateGrad allocates is gradient,
what else a backward pass does is autograd, and all else is unknown. What was alive before is in the curve. On
accelerators it is what the allocator reports. On the CPU, torch's total goes on from one recording of the process to
the next and keeps what was released in between, so it is not used: a live run with --memory looks at its tensors, their
gradients and what their graphs keep just before each cycle, and adds up their storages. torch does not report when
these are released; the live run notes when they go, and the curve has a row for each. With more than 100,000 tensors,
and in a file that another program recorded, only the tensors of models and optimizers are known, or only what was
released in the recording, and the overview says so; such a block ends when its address is used again, or when its
parameter has another gradient or state. Memory that a thread releases which is not recorded (see --all-threads) counts
until its address is used again.

**Names of tensors.** Parameters, buffers, gradients and state are called by the path of the parameter. Other tensors
are called by what the user's code calls them: a live run with --memory looks at the variables of the user's functions
and of the notebook at the end of each step and before each step of an optimizer, and with --lines as a function
returns; the last name that is seen counts. Elements of lists, tuples, deques and dictionaries and attributes of
objects are found up to two steps from a variable, 100 of each, the last ones of a list. Shapes are also those of what
modules return. What is in no variable then, such as an intermediate result, has its module and its op. The line that
keeps what grows is one that puts something into the container of that name (`kept.append(loss)`, `cache[key] = x`,
`self.total += loss`), by its last name, in the cell, in recorded lines, and for `report.holders()` in all cells that
ran and the user's modules; no code of the user's runs for any of this.

**Growth.** What a step allocates and is in use at the end may take the place of something older, as in a buffer of
fixed size that was full before. So a block does not count as growth if one of its size, from before the recording, was
released in the same step, and if that is so in at least half of the steps of its place. On accelerators these releases
are recorded. On the CPU a live run with --memory looks at its tensors, and at what their graphs keep, before and after
each cycle, and notes when an older one goes. In a file that another program recorded, growth on the CPU is therefore
only possible, and is said with doubt.

**FLOPs.** They are counted for each op from the recorded shapes of its inputs, by the formulas of
`torch.utils.flop_counter`: products of matrices, convolutions, and scaled dot product attention, forward and backward;
also that of the CPU, which torch's counter lacks. An op inside another one with known FLOPs has none of its own, so
sums count each operation once: a linear layer is its `aten::addmm`, a convolution the `aten::convolution` in it. A
multiplication and an addition are two. [formulas.md](formulas.md) lists all formulas. A causal mask saves nothing, and
what was computed in a compiled kernel, a CUDA graph whose capture is not known, or another library is not known. The
overview says which share of the time is in ops with known FLOPs: of the time of all kernels, copies and fills if a
device was recorded, otherwise of the self CPU time of all ops. Convolutions also need the values of their other inputs,
which older versions of torch did not record.

**Roof.** What ops have to do, in operations and in bytes, stands in [formulas.md](formulas.md), with what devices can
do at most. At the roof, work takes the longer of two times: that of its operations at the peak of their type, and that
of its bytes at the bandwidth of the memory. The share of the roof is that time divided by the time that the work took:
that of its kernels, or without a device that of the op on the host. It can exceed 100 %, where caches hold what counts
as moved, kernels save operations (Winograd, FFT), or there was less to do than the shapes say: `report.roofline` says
which (`beyond`). What is above the roof is what faster kernels could save at most; fewer operations and bytes can save
more. Of a piece that is cut by a part of the time, so much counts as of its time lies inside. The
roof is not known without the bytes and the bandwidth, nor for products without the peak of their type. The verdict
calls a busy device compute-bound if arithmetic limits more than half of the time of its kernels in the steps that
count, and memory-bound if the memory does, unless the work whose roof is known reaches less than 10 % of it. Otherwise
it is device-bound: the device is busy, and what limits most of its work is something else, or not known from the
recording. `verdict.kind` is `compute` for all three.

**Counters.** A trace file can hold values over time: the power, clocks and activity of a device that torch 2.15
samples, or whatever another program counts. They are kept as the file has them, in its unit. The unit is what stands in
brackets behind a name, as in `Power (W)`, or the name of the only series of an event, as in `{{"MHz": 1650}}`; names
that end in `_bytes`, `_ms`, `_percent` or a percentage of NVIDIA's metrics have that unit too. An event with several
series makes several counters, `name: series`; an id is added as `name[id]`. The device is the number in the id, name
or label of the counter's process, such as `GPU 0 Counters`. The timeline draws each counter as steps from 0, or from
its least value if that is negative, to its largest; percentages up to 100. At most {MOST_CURVES} per device are drawn,
those with the most values. Counters are never added to allocations, also if they count memory.

**Busy and sum.** Busy time is the union over all streams of a device: time during which at least one kernel, copy or
fill ran. Summed time adds streams up, and can exceed busy time. Work that was queued before the recording began has no
launch in the file; the busy time without this work is shown separately, and can be much less.
"""
FRAMES_HEAD = """## What was recorded

The frames below hold the recording before anything is computed from it. A column with the unit `row` holds row numbers,
counted from 0, of the frame that its definition names. In `report.sql()` the tables `events`, `lanes` and `stacks` have
a column `row` with that number.
"""
PROBLEMS_HEAD = """# Problems

Everything that a report can say about what went wrong, by the stable code that `report.problems` and the Notes view
show beside it. `data_loss` means that something is missing from the report, `warning` that something in it may differ
from what you expect, and `info` that nothing is wrong. Words in *italics* are replaced by names and numbers.

A problem that occurs several times is listed once, with its count. What the magic does when something fails is
described in [failures.md](failures.md).
"""
# The sections of the page, with the first parts of the codes in each.
PROBLEM_GROUPS = (
    ("While recording", "", ("capture",)),
    ("In the recorded run", "", ("run",)),
    ("In rules for advice", "", ("advice",)),
    ("While keeping traces", "", ("store",)),
    (
        "In trace files",
        "Found while a file is read. The message adds where the first one is, as a byte of the unpacked text.\n",
        ("file", "text", "json", "chrome", "memory"),
    ),
    ("In memory snapshots", "", ("snapshot",)),
    ("In memory timelines", "", ("timeline",)),
    ("In compiled code", "", ("compiled",)),
    ("In logs of torch.compile", "", ("compile_log",)),
    ("With many ranks", "", ("ranks",)),
)
ADVICE_HEAD = """# What to change

`report.advice` lists changes of the program in the order in which they are best carried out: the one first that makes a
step shortest, then the one that saves most after it; then those that lower memory, and last those without a number. The
same list stands in the overview, in `report.summary()` and in the static copy. A saving is that of one step, or of the
whole recording without steps. What would save less than 1 % of a step, or less than 10 µs, is left out: no run of a
program shows that. One cause is one card, also where there are two ways to do without it.

## What a change saves

A rule says what its change does: which time of threads or devices is gone, or which share of it is left, as of an op by
one that does the same sooner; which calls wait no more; how many workers load. What that saves, no rule says: the model
of [what_if.md](what_if.md) replays the steps with it, one change after the other. So `saving_ns` is what a card saves
once those before it are carried out, and `alone_ns` what it saves without them; where they differ, the evidence says
both. Once workers load as fast as they can, say, a sleep less saves “nothing more”. Time that two pieces of advice
would save is counted for the larger one alone.

So time of the host counts where a step waits for it, and time of a device where a step waits for that. If a change
saves something in every step, the median of these counts. If steps also ran without the profiler, what recording each
event takes is not saved. Where the model cannot tell, all of the time that is gone is the saving, on the host that in
which the busiest device idles: if the graph has no launches, work is missing in steps, more than a fifth of the path is
inferred or assumed, the replay of the steps as they are is off by more than a tenth, or the recording has more than
600,000 pieces. A rule of your own that gives `saving_ns` says the most that it can be, and where it gives no `spans`,
what it is.

```python
for advice in report.advice:
    print(advice, advice.saving_ns, advice.alone_ns, advice.certainty, advice.evidence)

report.advice_with(mute=["channels_last"], threshold=0.05)  # only what saves 5 % of a step
report.try_advice(1)  # measures card 1 on this machine, if it needs none of your data
```

Cards are numbered from 1, in the page, in `report.summary()` and for `try_advice`, which also takes the name of a rule,
a title, or an entry of `report.advice`.

A trial runs the most expensive ops again as they were called: with their scalars, keywords and `out=`, on contiguous
tensors of random numbers, in turns as they are and changed. What cannot be run again is named with the reason: texts
and lists of tensors, which torch does not record, indices and other whole numbers that decide what an op does, and ops
that this torch lacks.

`%config TorchProfMagics.advice = {"mute": ["autocast"], "threshold": 0.02, "thresholds": {"python_loop": 0.1}}` sets
the same for all reports. A rule of your own is a function that gets a trace, and returns `Advice`, several of them, or
None. One that raises becomes a problem of the report.

```python
@tp.rules.add
def no_dropout(trace):
    calls = trace.events.filter(trace.events["name"] == "aten::dropout")
    if calls.height:
        return tp.Advice(rule="no_dropout", title="Do without dropout", evidence=f"{calls.height} calls")
```
"""
FORMATS_HEAD = """# Formats and devices

This page lists the files that can be opened and written, and the devices whose traces are understood.
"""
READERS_HEAD = """## Files that can be opened

`tp.load(path)` and `%torchprof load FILE` decide by the content of a file, not by its name. A file that matches no
other row is read as a Chrome trace, and the error message says what is wrong with it.
"""
EXPORTERS_HEAD = """## Files that can be written

`report.export(path)` and `%torchprof export FILE` choose the format by the ending of the path; if several
match, the longest one is used. `report.export(path, format=...)` overrides it. A file is written completely or not at
all.
"""
FORMULAS_HEAD = """# What ops have to do

The columns *Operations* and *Moved* of the tables of ops, kernels, modules and lines, and all that is made of them, go
by the formulas below, from the recorded shapes and types of inputs. A multiplication and an addition are two
operations. Each tensor is read once and written once, also where caches hold it, so bytes are what has to be moved at
least. An op that lies in another one with known work has none of its own. The work of a call belongs to its kernels, in
proportion to their time. Collectives, and copies that leave the memory of a device, have neither: what limits them is
the way between. Of lists of tensors, as `cat` and optimizers take them, torch records the shapes but not the types: a
device's kernels have them in their names, while on a CPU the bytes of these ops, and so their roofs, are not known.

`flops` is what `torch.utils.flop_counter` counts. What it counts differs in two ways from what has to be done: it has
no elementwise ops, norms and reductions, and a causal mask saves nothing.

An op that is none of torch's is added by its name, for all reports that are made from then on:

```python
tp.formulas.add(
    "mylib::fused_mlp",
    flops=lambda call: 4 * call.shapes[0][0] * call.shapes[1][0] * call.shapes[1][1],
    is_matrix=True,
)
```

`bytes` is a function like `flops`; without it, all tensors count once. `tp.formulas.remove(op)` takes one away, and
`tp.formulas.known()` lists all.
"""
PEAKS_HEAD = """## What devices can do at most

The roof of work is the longer of two times: that of its operations at the peak of their type, and that of its bytes at
the bandwidth of the memory. Figures are the makers' own, dense, and of one device as torch sees it. The last column
names a public table of others that has the same figures, as far as it has them; where none was found, the overview of a
report says so as well. A type that units
for matrices do not know is computed as `f32` by the others. Products of `f32` that the name of their kernel calls TF32
count as `tf32`. A device that is not in the table has no roof, and the report says so.

`tp.peaks.add("MI300X", bytes_per_s=4.0e12, flops_per_s={"bf16": 6.5e14})` replaces figures of all devices with that
text in their names, or adds a device; `%config TorchProfMagics.peaks = {"MI300X": {"bytes_per_s": 4.0e12}}` does so
for all reports. For a CPU, `tp.measure_peak()` measures products of matrices and a copy for about two seconds, and
keeps what it found on this machine. Where other programs took the cores meanwhile, it says that the figures are too
low. A recording that does not name its CPU, such as an export of torch's, has no roof for it, as it may be of another
machine.
"""
OPTIONS_HEAD = """# Options

Every option is a flag of `%%torchprof`. Those with an entry in the second column are also keywords of
`torchprof_magic.profile()`. All except `-o` and `-q` also have a default that
`%config TorchProfMagics.NAME = VALUE` sets; NAME is the flag with `_` for `-`.
An option that you pass takes precedence over a
preset that you pass, and that preset over `%config`. To turn a switch off, write `--no-NAME`, such as `--no-memory`.
"""
PRESETS_HEAD = """## Presets

The switches of each preset, and its overhead per op, measured on two cores without an accelerator.
"""
VENDORS_HEAD = """## Devices

What is known of each type of device. An empty cell means that nothing is known, not that it does not work: kernels,
copies and fills are recognised by categories that all vendors share. A trace whose device work has neither these
categories nor the names below says so ([chrome.unknown_device_work](problems.md)).
"""
COLLECTIVES_HEAD = """## Kernels of collectives

Beside those of the libraries above, whose kernels begin with the name of the library. Namespaces in front are ignored.
"""


COMPATIBILITY_HEAD = """# Where it runs

torchprof-magic needs Python 3.10 or newer and torch 2.4 or newer.

| system | what holds |
| --- | --- |
| Linux on x86-64 | All that this page lists was run there. |
| Linux on arm64, macOS on Apple silicon | There are wheels of torch and of everything else. Not run by us. |
| Windows | There are wheels of torch. What differs there was considered by reading. Not run by us. |
| macOS on Intel, Linux with musl (Alpine) | No torch that is new enough has wheels there. |

## What was run

`make compat` builds the wheel, installs it into a new environment for each line of `tests/compat/lines.py`, and runs
cells in ipykernel. Each cell has an expected value, output, exception and report; nothing else may be written to
stderr, and torch's hooks and state must be as before. The lines with *lowest* in their names have the lowest version of
every package that `pyproject.toml` allows and that has a wheel for that Python; the others have the newest.
"""
BOUNDED = (
    *("ipython", "ipywidgets", "anywidget", "matplotlib", "pillow", "polars", "numpy", "msgspec", "isal", "psutil"),
    *("tqdm", "jupyterlab", "ipykernel", "pandas", "fsspec"),
)
BOUNDS_HEAD = """## The lowest versions

What the lines with *lowest* in their names had. A package without a wheel of its lowest version for a Python has the
next one that has.
"""
LACKS_HEAD = """## What some versions of torch lack

Each was asked of the torch itself on these lines. `%torchprof doctor` lists what the installed torch lacks.
"""
CELLS_HEAD = """## Every cell

*refused*: this torch lacks what the cell asks for, and an error before the cell says so.
"""


def advice() -> str:
    """Return docs/advice.md: every rule, and what the words of certainty mean."""
    words = ((f"`{name}`", text) for name, text in CERTAINTY_TEXT.items())
    rules = ((f"`{rule.name}`", rule.speaks, rule.needs) for rule in RULES)
    return "\n".join(
        (
            ADVICE_HEAD,
            "## How sure it is\n",
            table(("certainty", "meaning"), words),
            "## Rules\n",
            table(("rule", "when it speaks", "what must be recorded"), rules),
        )
    )


def definitions() -> str:
    """Return docs/definitions.md: what every column means."""
    sections = [
        *(view_section("report", view) for view in VIEWS if not _is_recorded(view)),
        *(section(title, text, columns) for title, text, columns in OTHER_TABLES),
        *(view_section("ranks", view) for view in RANK_VIEWS if view.columns),
        *(view_section("comparison", view) for view in CHANGED_VIEWS if view.frame is not None),
        FRAMES_HEAD,
        *(view_section("report", view, "###") for view in VIEWS if _is_recorded(view)),
        *(section(title, text, columns, "###") for title, text, columns in OTHER_FRAMES),
    ]
    return "\n".join((DEFINITIONS_HEAD, *sections))


def view_section(owner: str, view: View[Any], mark: str = "##") -> str:
    """Return the section of a table or a tab."""
    python = f"`{view.python or f'{owner}.{view.table_name}'}`"
    is_tab = owner == "report" and view.title
    name = view.title if is_tab else python
    text = f"{python}: {view.sentence[0].lower()}{view.sentence[1:]}" if view.frame and is_tab else view.sentence
    return section(name, " ".join(filter(None, (text, view.details))), view.columns, mark)


def section(name: str, text: str, columns: Sequence[Column | FrameColumn], mark: str = "##") -> str:
    """Return a heading, what it is about, and its columns with their definitions."""
    heading = f"{mark} {name}\n\n{text}\n"
    if not columns:
        return heading
    if not isinstance(columns[0], trace.FrameColumn):
        rows = [(f"`{each.name}`", each.title, each.unit, each.definition) for each in columns]
        return f"{heading}\n{table(('column', 'title', 'unit', 'definition'), rows)}"
    rows = [(f"`{each.name}`", type_name(each.dtype), each.unit, each.definition) for each in columns]
    return f"{heading}\n{table(('column', 'type', 'unit', 'definition'), rows)}"


def _is_recorded(view: View[Any]) -> bool:
    """Return whether a table holds what was recorded, before anything is computed from it."""
    return bool(view.columns) and isinstance(view.columns[0], trace.FrameColumn)


def options() -> str:
    """Return docs/options.md: every option of a run."""
    presets = (
        (
            f"`{name}`",
            "as the loop affords it" if name == AUTO else codes([OPTIONS[each].dashed for each in switches]),
            _preset_cost(name),
        )
        for name, switches in PRESETS.items()
    )
    groups = groupby(OPTIONS.values(), key=lambda option: option.group)
    return "\n".join(
        [
            OPTIONS_HEAD,
            *(f"## {group}\n\n{_option_table(found)}" for group, found in groups),
            PRESETS_HEAD,
            table(("preset", "switches", "adds per op"), presets),
        ]
    )


def _preset_cost(name: str) -> str:
    if name != AUTO:
        return f"{PRESET_COSTS_US[name]} us"
    return f"{PRESET_COSTS_US[QUICK]} us; in the steps with details about {PRESET_COSTS_US['full']} us"


def _option_table(options: Iterable[Option]) -> str:
    rows = (
        (
            codes(filter(None, (option.short, option.dashed))),
            "" if option.is_of_cell else f"`{option.name}`",
            "" if option.default in (None, "", (), {}) else f"`{option.default}`",
            option.help,
        )
        for option in options
    )
    return table(("flag", "keyword", "default", "meaning"), rows)


def formats() -> str:
    """Return docs/formats.md: what can be opened and written, and which devices are known."""
    readers = ((f"`{reader.name}`", codes(reader.endings), reader.description) for reader in READERS)
    exporters = ((f"`{exporter.name}`", codes(exporter.endings), exporter.description) for exporter in EXPORTERS)
    vendors = (
        (
            vendor.title,
            f"`{vendor.device}`",
            "" if vendor.device_type is None else str(vendor.device_type),
            codes((*vendor.runtime_categories, *vendor.call_processes)),
            codes((*vendor.work_categories, *vendor.work_processes)),
            codes((*vendor.launch_calls, *vendor.graph_launch_calls)),
            ", ".join(vendor.collective_libraries),
            codes(vendor.collective_ranges),
        )
        for vendor in VENDORS
    )
    collectives = ((library, codes(starts)) for library, starts in COLLECTIVE_KERNELS.items())
    columns = (
        "platform",
        "device",
        "`DeviceType`",
        "category or process of runtime calls",
        "category or process of device work, beside the common ones",
        "names of launches contain",
        "collective libraries",
        "ranges of collectives begin with",
    )
    return "\n".join(
        (
            FORMATS_HEAD,
            READERS_HEAD,
            table(("name", "usual endings", "what it is"), readers),
            EXPORTERS_HEAD,
            table(("name", "endings", "what it is"), exporters),
            VENDORS_HEAD,
            table(columns, vendors),
            COLLECTIVES_HEAD,
            table(("library", "names of kernels begin with"), collectives),
        )
    )


def problems() -> str:
    """Return docs/problems.md: every problem that a report can show."""
    parts = [PROBLEMS_HEAD]
    for title, text, rooms in PROBLEM_GROUPS:
        rows = (
            (f"`{code}`", kind.severity, template(kind.message), kind.when, template(kind.fix))
            for code, kind in PROBLEMS.items()
            if code.partition(".")[0] in rooms
        )
        heads = ("code", "severity", "what happened", "when", "what to do")
        parts += [f"## {title}\n", *([text] if text else []), table(heads, rows)]
    return "\n".join(parts)


def compatibility() -> str:
    """Return docs/compatibility.md: what ``make compat`` ran, with the result of each cell."""
    results = read_results(ROOT / "tests" / "compat" / "results.json")
    ran = {line: results[line.name] for line in LINES if line.name in results and results[line.name].cells}
    return "\n".join(
        (
            COMPATIBILITY_HEAD,
            _lines_that_ran(ran),
            BOUNDS_HEAD,
            _lowest(ran),
            LACKS_HEAD,
            _lacks(ran.values()),
            CELLS_HEAD,
            _every_cell(ran),
        )
    )


def _lines_that_ran(ran: Mapping[Line, Result]) -> str:
    packages = ("python", "torch", "polars", "numpy", "ipython", "ipykernel", "ipywidgets", "anywidget", "matplotlib")
    rows = (
        (
            f"`{line.name}`",
            *(result.versions[package] for package in packages),
            f"{len(result.cells) - len(result.failed)} of {len(result.cells)}",
        )
        for line, result in ran.items()
    )
    return table(("line", *packages, "cells as expected"), rows)


def _lowest(ran: Mapping[Line, Result]) -> str:
    lowest = {line: result for line, result in ran.items() if line.is_lowest}
    rows = ((f"`{package}`", *(result.versions[package] for result in lowest.values())) for package in BOUNDED)
    return table(("package", *(f"Python {line.python}, torch {line.torch}" for line in lowest)), rows)


def _lacks(results: Iterable[Result]) -> str:
    found: dict[tuple[str, str], set[str]] = {}
    for result in results:
        for instead, names in result.lacks.items():
            for name in names:
                found.setdefault((name, instead), set()).add(result.versions["torch"].partition("+")[0])
    rows = (
        (f"`{name}`", ", ".join(sorted(torches, key=_release)), instead) for (name, instead), torches in found.items()
    )
    return table(("feature, by torch's name", "missing in torch", "what happens there"), rows)


def _every_cell(ran: Mapping[Line, Result]) -> str:
    cells = dict.fromkeys(name for result in ran.values() for name in result.cells)
    rows = ((name, *(_outcome(result.cells.get(name, "")) for result in ran.values())) for name in cells)
    return table(("cell", *(f"{line.python}, {line.torch}{', lowest' * line.is_lowest}" for line in ran)), rows)


def _release(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _outcome(outcome: str) -> str:
    if outcome.startswith(REFUSED):
        return REFUSED
    return outcome if outcome in {OK, ""} else "**failed**"


def formulas() -> str:
    """Return docs/formulas.md: what every op has to do, and what devices can do at most."""
    groups = groupby(ALL_FORMULAS, key=lambda formula: formula.group)
    parts = [FORMULAS_HEAD]
    for title, found in groups:
        rows = ((codes(each.ops), each.flops, each.moves) for each in found)
        parts += [f"## {title}\n", table(("ops", "operations", "bytes of"), rows)]
    peaks = (
        (
            peak.title,
            ", ".join(f"{kind} {rate:,g}" for kind, rate in peak.matrix.items()),
            ", ".join(f"{kind} {rate:,g}" for kind, rate in peak.vector.items()),
            f"{peak.memory:g}",
            f"{peak.note} {peak.source}.".strip(),
            peak.compared or "nothing",
        )
        for peak in PEAKS
    )
    kinds = ((f"`{kind}`", text) for kind, text in KINDS.items())
    heads = ("device", "matrices, TFLOP/s", "others, TFLOP/s", "memory, TB/s", "source", "compared with")
    return "\n".join((*parts, PEAKS_HEAD, table(("type", "meaning"), kinds), table(heads, peaks)))


PAGES: dict[str, Callable[[], str]] = {
    "docs/advice.md": advice,
    "docs/compatibility.md": compatibility,
    "docs/definitions.md": definitions,
    "docs/formats.md": formats,
    "docs/formulas.md": formulas,
    "docs/options.md": options,
    "docs/problems.md": problems,
}


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def template(text: str) -> str:
    """Return a template of ``str.format`` with the names of its fields in italics, apart from the text before them."""
    shown = ""
    for literal, field, _, _ in string.Formatter().parse(text):
        shown += literal
        if field:
            shown += f"*{field}*" if not shown or shown[-1] in " (" else f" *{field}*"
    return shown


def codes(names: Iterable[str]) -> str:
    """Return names as code, separated by commas."""
    return ", ".join(f"`{name}`" for name in names)


def type_name(dtype: trace.DType) -> str:
    """Return what polars calls a type."""
    return dtype.__name__ if isinstance(dtype, type) else type(dtype).__name__


if __name__ == "__main__":
    for path, page in PAGES.items():
        (ROOT / path).write_text(page(), encoding="utf-8")
