"""Write docs/definitions.md from the columns themselves, so that page, tooltip and documentation say the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchprof_magic.analysis import averages, devices, groups, kernels, memory, ops, steps
from torchprof_magic.analysis.phases import PHASES
from torchprof_magic.ingest.findings import KINDS
from torchprof_magic.model import trace

if TYPE_CHECKING:
    from torchprof_magic.model.shapes import Column
    from torchprof_magic.model.trace import FrameColumn

TARGET = Path(__file__).parents[1] / "docs" / "definitions.md"
SECTIONS: tuple[tuple[str, str, tuple[Column, ...]], ...] = (
    (
        "`report.ops`",
        (
            "One row per op or annotation, summed over the recorded steps. Columns of what was not recorded are "
            "absent: device time without an accelerator, memory without `profile_memory`, device memory when only the "
            "host allocated. In `report.key_averages()` the same holds for memory."
        ),
        ops.COLUMNS,
    ),
    ("`report.ops_by(...)`", "The columns that split the rows of `report.ops`.", tuple(groups.KEYS.values())),
    ("`report.steps`", "One row per recorded step.", steps.COLUMNS),
    ("`report.kernels`", "One row per kernel, copy or fill.", kernels.COLUMNS),
    ("`report.devices`", "One row per device.", devices.COLUMNS),
    ("Memory over time", "One row per change, per device.", memory.BANDS),
    ("`report.key_averages()`", "torch's own definitions, to check against its table.", averages.COLUMNS),
)
FRAMES: tuple[tuple[str, str, tuple[FrameColumn, ...]], ...] = (
    ("`report.events`", "One row per event, by lane, start and falling duration.", trace.EVENTS_COLUMNS),
    ("`report.lanes`", "One row per thread or stream.", trace.LANES_COLUMNS),
    ("`report.flows`", "One row per link between two events.", trace.FLOWS_COLUMNS),
    ("`report.memory`", "One row per allocation or release.", trace.MEMORY_COLUMNS),
    ("`report.stacks`", "One row per Python frame and way to it, below its caller.", trace.STACKS_COLUMNS),
    ("`report.trace.steps`", "One row per recorded step, as it was recorded.", trace.STEPS_COLUMNS),
    ("`report.trace.arrows`", "One row per category of arrows that the file itself draws.", trace.ARROWS_COLUMNS),
)
FRAMES_HEAD = """## What was recorded

The frames below hold what was read, before anything is computed. A unit of `row` is the number of a row, from 0, of the
frame that the definition names. `report.sql()` gives `events`, `lanes` and `stacks` a column `row` with that number.
"""
PROBLEMS_HEAD = """## Oddities of files

What reading found odd is counted in `report.problems`, once a code, with the byte of the unpacked text where it was
first met. `data_loss` means that something of the file is missing in the report, `warning` that something was read
otherwise than it is written, `info` that nothing is wrong.
"""
HEAD = f"""# What every number means

The texts below are the ones that the column headers show. Times are int64 ns from the start of the run in Python;
sizes are bytes, written in decimal units (1 kB = 1000 B). A ratio is between 0 and 1 and shown as a percentage.

**Nesting.** An op lies inside another when its interval lies inside the other's on the same thread. Ops and annotations
are nested among themselves, as torch nests them; Python frames and runtime calls do not cut into an op's self time.
An event that only partly overlaps another is not inside it and is counted in the notes.

**Device time.** A kernel belongs to the innermost op around the runtime call that launched it, found by the correlation
number of the call. One call can launch many kernels. Device events without a launch in the file were queued before the
recording; they belong to no op and are counted in the notes.

**Phases.** {", ".join(PHASES)}: the nearest event at or around an op whose name says so decides. Autograd's nodes,
`aten::*_backward` and annotations with the word backward are backward; `Optimizer.step` and `Optimizer.zero_grad` are
optimizer; collectives are communication; `enumerate(DataLoader)` is data; other ops are forward. In a step's split the
time in which threads overlap goes to the first of communication, optimizer, backward, data, forward; what none of them
covers is other, so the parts add up to the step exactly.

**Busy and sum.** Busy time is the union over all streams of a device: time in which at least one kernel, copy or fill
ran. Summed time adds streams up and can exceed it. Work that was queued before the recording began has no launch in the
file; how long the device was busy without it is shown apart, and can be far less.
"""


def definitions() -> str:
    """Return the whole page as Markdown."""
    parts = [HEAD]
    for title, text, columns in SECTIONS:
        parts.append(f"## {title}\n\n{text}\n\n| column | title | unit | definition |\n|---|---|---|---|\n")
        parts += [f"| `{c.name}` | {c.title} | {c.unit} | {c.definition} |\n" for c in columns]
        parts.append("\n")
    parts.append(FRAMES_HEAD + "\n")
    for title, text, frame_columns in FRAMES:
        parts.append(f"### {title}\n\n{text}\n\n| column | type | unit | definition |\n|---|---|---|---|\n")
        parts += [f"| `{c.name}` | {_type_name(c.dtype)} | {c.unit} | {c.definition} |\n" for c in frame_columns]
        parts.append("\n")
    parts.append(PROBLEMS_HEAD + "\n| code | severity | what happened | what to do |\n|---|---|---|---|\n")
    parts += [f"| `{code}` | {kind.severity} | {kind.message} | {kind.fix} |\n" for code, kind in KINDS.items()]
    return "".join(parts).rstrip() + "\n"


def _type_name(dtype: trace.DType) -> str:
    return dtype.__name__ if isinstance(dtype, type) else type(dtype).__name__


if __name__ == "__main__":
    TARGET.write_text(definitions(), encoding="utf-8")
    sys.exit(0)
