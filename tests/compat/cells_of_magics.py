"""Cells that record with ``%%torchprof`` and ``%torchprof``: every flag, and everything that a cell may do.

Expected numbers: the loop has eight steps, of which 2 to 4 are recorded. A step multiplies [4, 8] by [8, 16] and
[4, 16] by [16, 2], so three steps have 6 calls of addmm, 3 * 2 * 4 * (8 * 16 + 16 * 2) = 3,840 floating-point
operations, and results of 3 * 4 * 4 * (16 + 2) = 864 bytes.
"""

from __future__ import annotations

from case import Case

LOOP = "for batch in loader:\n    train(batch)\n"
RECORDED = """\
assert last.steps["number"].to_list() == [2, 3, 4], last.steps
assert last.steps["complete"].to_list() == [True] * 3
(addmm,) = last.ops.filter(name="aten::addmm").to_dicts()
assert addmm["calls"] == 6, addmm
"""


def flag(name: str, *flags: str, then: str = "", needs: str = "", problems: tuple[str, ...] = ()) -> Case:
    """Return a cell that trains with these flags."""
    code = f"%%torchprof {' '.join(flags)}\n{LOOP}"
    return Case(name=name, code=code, shows_report=True, then=RECORDED + then, needs=needs, problems=problems)


PLAIN = (
    Case(
        name="%%torchprof",
        code=f"%%torchprof -o run\nprint('begin')\n{LOOP}answer = 41\nanswer + 1",
        value="42",
        prints="begin\n",
        shows_report=True,
        then=RECORDED
        + """
assert run is last and answer == 41
assert last.verdict.kind and "aten::addmm" in last.summary()
(line,) = last.lines.filter(line=4).to_dicts()
assert (line["source"].strip(), line["hits"]) == ("train(batch)", 3), line
assert last.modules["class_name"].to_list() == ["Sequential", "Linear", "ReLU", "Linear"], last.modules
assert last.modules["calls"].to_list() == [3] * 4, last.modules
assert set(last.ops["phase"]) >= {"forward", "backward", "optimizer"}, last.ops
passes = last.trace.meta.two_pass
if passes.detail_steps:  # two steps are left for details, unless they cost too much
    assert set(passes.detail_steps) <= {6, 7} and addmm["self_alloc_bytes"] == 288 * len(passes.detail_steps), addmm
""",
    ),
    Case(
        name="--preset quick",
        code=f"%%torchprof --preset quick\n{LOOP}",
        shows_report=True,
        then=RECORDED + "assert last.trace.meta.two_pass is None and not last.trace.meta.has_memory",
    ),
    Case(
        name="%torchprof statement",
        code="%torchprof -o run model(loader[0]).shape",
        value="torch.Size([4, 2])",
        shows_report=True,
        then='assert run.ops.filter(name="aten::addmm")["calls"].to_list() == [2]',
    ),
    Case(name="-q", code=f"%%torchprof -q\n{LOOP}", then=RECORDED),
    Case(
        name="--display text",
        code=f"%%torchprof --display text\n{LOOP}",
        prints=r"[\s\S]*aten::addmm[\s\S]*",
        then=RECORDED,
    ),
    Case(
        name="--step optimizer",
        code="""\
%%torchprof --step optimizer
def fit():
    count = 0
    while count < 8:
        train(loader[0])
        count += 1
fit()""",
        shows_report=True,
        then="""
calls = last.ops.filter(name="aten::addmm")["calls"].to_list()
assert last.steps.height >= 3 and calls == [2 * last.steps.height], (last.steps, calls)
""",
    ),
    Case(
        name="%torchprof doctor",
        code="%torchprof doctor",
        prints=r"[\s\S]*torch \S+ can record these activities: cpu[\s\S]*No other profiler is running[\s\S]*",
    ),
)

FLAGS = (
    flag("--shapes", "--shapes", then='assert "[[16], [4, 8], [8, 16], [], []]" in last.ops_by("shapes")["shapes"]'),
    flag(
        "--memory",
        "--memory",
        then="""
assert addmm["self_alloc_bytes"] == 864, addmm
assert {"activation", "gradient"} <= set(last.allocations["category"]), last.allocations["category"].unique()
assert last.memory["parameter_bytes"].max() == 4 * (8 * 16 + 16 + 16 * 2 + 2)
""",
    ),
    flag(
        "--stack",
        "--stack",
        then='assert "<built-in function linear>" in last.ops_by("stack")["stack"].to_list()',
    ),
    flag("--flops", "--flops", then='assert addmm["flops"] == 3840, addmm'),
    flag(
        "--modules",
        "--modules",
        then='assert last.modules["path"].to_list() == ["", "0", "1", "2"] and last.modules["calls"][1] == 3',
    ),
    flag(
        "--lines",
        "--lines",
        then='assert last.lines.filter(source="    loss.backward()")["hits"].to_list() == [3], last.lines',
    ),
    flag("--all-threads", "--all-threads", needs="profile_all_threads"),
    flag(
        "--overloads",
        "--overloads",
        needs="capture_overload_names",
        then='assert "overload" in last.ops_by("overload").columns',
    ),
    flag("--trace-only", "--trace-only", needs="trace_only"),
    flag("--sync-events", "--sync-events"),
    flag("--preset full", "--preset full", then='assert addmm["flops"] == 3840 and addmm["self_alloc_bytes"] == 864'),
    Case(
        name="--wait --active --repeat",
        code=f"%%torchprof --wait 1 --warmup 1 --active 2 --repeat 2\n{LOOP}",
        shows_report=True,
        then='assert last.steps["number"].to_list() == [2, 3, 6, 7] and last.cycles == [0, 1], last.steps',
    ),
    Case(
        name="--two-pass",
        code="%%torchprof --two-pass\nfor batch in loader * 2:\n    train(batch)\n",
        shows_report=True,
        problems=("run.two_pass",),
        then=RECORDED + 'assert addmm["self_alloc_bytes"] == 864, addmm',
    ),
)

RUNNING = (
    Case(
        name="an exception",
        code="%%torchprof\nfor i, batch in enumerate(loader):\n    train(batch)\n    if i == 3: raise KeyError('mine')",
        error="KeyError: 'mine'",
        shows_report=True,
        problems=("capture.partial",),
        then='assert last.ops.filter(name="aten::addmm")["calls"].to_list() == [4], last.ops',
    ),
    Case(
        name="an interrupt",
        code="%%torchprof\nimport time\nfor i in range(10_000):\n    train(loader[0])\n    if i == 3:\n"
        "        print('now', flush=True)\n        time.sleep(60)",
        interrupt_at="now",
        prints="now\n",
        error="KeyboardInterrupt",
        shows_report=True,
        problems=("capture.partial",),
        then='assert last.ops.filter(name="aten::addmm")["calls"].to_list() == [4], last.ops',
    ),
    Case(
        name="await",
        code="%%torchprof\nimport asyncio\nfor batch in loader:\n    train(batch); await asyncio.sleep(0)\n'awaited'",
        value="'awaited'",
        shows_report=True,
        then=RECORDED,
    ),
    Case(
        name="DataLoader with workers",
        code="%%torchprof\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        "data = TensorDataset(torch.ones(32, 8))\n"
        "for (batch,) in DataLoader(data, batch_size=4, num_workers=2):\n    train(batch)",
        shows_report=True,
        problems=("run.workers_unseen",),
        then=RECORDED + "assert last.loaders.height >= 1, last.loaders",
    ),
    Case(
        name="a user's own warning",
        code="%%torchprof -q\nimport warnings\nfor batch in loader:\n    train(batch)\nwarnings.warn('mine')",
        stderr=r".*UserWarning: mine\n.*\n",
        then=RECORDED,
    ),
    Case(
        name="torch.compile",
        code="%%torchprof\ncompiled = torch.compile(model, backend='eager')\n"
        "for batch in loader:\n    compiled(batch).sum().backward()",
        stderr=r"(?:.*RuntimeWarning: Guards may run slower on Python 3\.13\.0.*\n.*\n)?",  # torch's own
        shows_report=True,
        then='assert last.ops.filter(name="aten::addmm")["calls"].to_list() == [6], last.ops',
    ),
    Case(
        name="hooks on an optimizer and a module",
        code="%%torchprof\nseen = []\nhandles = [\n"
        "    model.register_forward_hook(lambda *_: seen.append('forward')),\n"
        "    opt.register_step_post_hook(lambda *_: seen.append('step')),\n]\n"
        "for batch in loader:\n    train(batch)\n"
        "for handle in handles:\n    handle.remove()\n(len(seen), seen[:2])",
        value="(16, ['forward', 'step'])",
        shows_report=True,
        then=RECORDED,
    ),
    Case(
        name="wrong flag",
        code=f"%%torchprof --active 0\n{LOOP}",
        error="UsageError",
        stderr=r"UsageError: --active must be at least 1 \(got 0\)\n",
    ),
)
