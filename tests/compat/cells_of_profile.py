"""Cells that use ``profile()``: as a block, a decorator, with a schedule, and in place of torch's own profiler."""

from __future__ import annotations

from case import OF_TORCH, Case

SIX = 'assert last.ops.filter(name="aten::addmm")["calls"].to_list() == [6], last.ops\n'

PROFILE = (
    Case(
        name="with profile()",
        code="with tp.profile(profile_memory=True) as p:\n    for batch in p.steps(loader):\n        train(batch)",
        then=SIX + 'assert p.report is last and last.steps["number"].to_list() == [2, 3, 4]',
    ),
    Case(
        name="@profile()",
        code="@tp.profile()\ndef evaluate(batch):\n    return model(batch).shape\nevaluate(loader[0])",
        value="torch.Size([4, 2])",
        then='assert last.ops.filter(name="aten::addmm")["calls"].to_list() == [2], last.ops',
    ),
    Case(
        name="an exception in profile()",
        code="with tp.profile():\n    train(loader[0])\n    raise LookupError('mine')",
        error="LookupError: mine",
        problems=("capture.partial",),
        then='assert last.ops.filter(name="aten::addmm")["calls"].to_list() == [2], last.ops',
    ),
    Case(
        name="schedule and handler",
        code="""\
from torch.profiler import schedule
seen = []
with tp.profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
                on_trace_ready=lambda prof: seen.append(prof.step_num)) as p:
    for batch in loader:
        train(batch)
        p.step()
seen""",
        value="[4, 8]",
        then='assert last.cycles == [0, 1] and last.steps["number"].to_list() == [2, 3, 6, 7], last.steps',
    ),
    Case(
        name="steps()",
        code="with tp.profile() as p:\n    for batch in tp.steps(loader):\n        train(batch)",
        then=SIX,
    ),
)

DROP_IN = (
    Case(
        name="key_averages, events",
        code="""\
with torch.profiler.profile(record_shapes=True) as theirs:
    train(loader[0])
with tp.profile(record_shapes=True) as ours:
    train(loader[0])
counted = [{row.key: row.count for row in prof.key_averages()} for prof in (theirs, ours)]
named = [sorted(event.name for event in prof.events()) for prof in (theirs, ours)]
counted[0] == counted[1], named[0] == named[1], counted[0]["aten::addmm"]""",
        value="(True, True, 2)",
        stderr=OF_TORCH,
        then='assert "aten::addmm" in ours.key_averages(group_by_input_shape=True).table(sort_by="cpu_time_total")',
    ),
    Case(
        name="export_chrome_trace",
        code="ours.export_chrome_trace(str(folder / 'ours.json'))\n"
        "sum(event.get('name') == 'aten::addmm' for event in json.loads((folder / 'ours.json').read_bytes())"
        "['traceEvents'])",
        value="2",
        then="assert tp.load(folder / 'ours.json').ops.filter(name='aten::addmm')['calls'].to_list() == [2]",
    ),
    Case(
        name="export_stacks",
        code="""\
from torch._C._profiler import _ExperimentalConfig
with tp.profile(with_stack=True, experimental_config=_ExperimentalConfig(verbose=True)) as ours:
    train(loader[0])
ours.export_stacks(str(folder / 'stacks.txt'), 'self_cpu_time_total')
lines = (folder / 'stacks.txt').read_text().splitlines()
len(lines) > 3 and all(line.rpartition(' ')[2].isdigit() for line in lines)""",
        value="True",
    ),
    Case(
        name="acc_events",
        code="""\
with tp.profile(acc_events=True, wait=0, warmup=1, active=1, repeat=2) as p:
    for batch in loader:
        train(batch)
        p.step()
sum(event.name == 'aten::addmm' for event in p.events())""",
        value="4",
        needs="acc_events",
    ),
    Case(
        name="torch's own profiler afterwards",
        code="""\
with torch.profiler.profile(schedule=torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)) as theirs:
    for batch in loader:
        train(batch)
        theirs.step()
{row.key: row.count for row in theirs.key_averages()}['aten::addmm']""",
        value="4",
        stderr=OF_TORCH,
    ),
)
