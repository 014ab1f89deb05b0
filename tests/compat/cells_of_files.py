"""Cells that keep, export, compare and query reports, and open files."""

from __future__ import annotations

from case import Case

# Times in microseconds: step 0 takes 100, its op 60, of which the inner one takes 20.
TRACE = """\
events = [
    ("ProfilerStep#0", "user_annotation", 0, 100),
    ("aten::linear", "cpu_op", 10, 60),
    ("aten::addmm", "cpu_op", 30, 20),
]
(folder / "rank0.pt.trace.json").write_text(json.dumps({
    "schemaVersion": 1,
    "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
    "traceEvents": [
        {"ph": "X", "name": name, "cat": cat, "ts": ts, "dur": dur, "pid": 7, "tid": 7, "args": {}}
        for name, cat, ts, dur in events
    ],
}))
"""

FILES = (
    Case(
        name="to record",
        code="%%torchprof -o first --memory --shapes -q\nfor batch in loader:\n    train(batch)",
    ),
    Case(
        name="save and load",
        code="first.save(folder / 'first.torchprof')\nagain = tp.load(folder / 'first.torchprof')\n"
        "(again.ops.equals(first.ops), again.trace.meta.title == first.trace.meta.title)",
        value="(True, True)",
    ),
    Case(
        name="export",
        code="""\
for name in ("a.json.gz", "a.speedscope.json", "a.collapsed", "a.csv"):
    first.export(folder / name)
opened = tp.load(folder / "a.json.gz")
{row["name"]: row["calls"] for row in opened.ops.to_dicts()}["aten::addmm"], \\
    all((folder / name).stat().st_size > 500 for name in ("a.speedscope.json", "a.collapsed", "a.csv"))""",
        value="(6, True)",
    ),
    Case(
        name="compare",
        code="%%torchprof --compare first -o second -q\nfor batch in loader:\n    train(batch)",
    ),
    Case(name="compare()", code="type(second.compare(first)).__name__", value="'Comparison'"),
    Case(
        name="sql",
        code="""first.sql("SELECT name, calls FROM ops WHERE name = 'aten::addmm'").rows()""",
        value="[('aten::addmm', 6)]",
    ),
    Case(
        name="to_pandas",
        code="frame = first.to_pandas('ops')\nint(frame.loc[frame['name'] == 'aten::addmm', 'calls'].iloc[0])",
        value="6",
    ),
    Case(
        name="summary",
        code="text = first.summary()\nsummary = json.loads(first.summary('json'))\n"
        "('aten::addmm' in text, isinstance(summary, dict))",
        value="(True, True)",
    ),
    Case(
        name="to_html",
        code="page = first.to_html(folder / 'first.html').read_text()\n(len(page) > 50_000, 'aten::addmm' in page)",
        value="(True, True)",
    ),
    Case(
        name="figure",
        code="figures = [first.figure(name) for name in ('ops', 'flame', 'memory')]\n"
        "[type(figure).__name__ for figure in figures]",
        value="['Figure', 'Figure', 'Figure']",
    ),
    Case(
        name="a report as value",
        code="first",
        shows_report=True,
    ),
    Case(
        name="load a run saved by polars 2",
        code="kept = tp.load('by_polars_2.torchprof')\n"
        "(addmm,) = kept.ops.filter(name='aten::addmm').to_dicts()\n"
        "(addmm['calls'], addmm['self_alloc_bytes'], kept.steps['number'].to_list(), kept.memory.height > 0)",
        value="(6, 864, [2, 3, 4], True)",
    ),
    Case(
        name="load a Chrome trace",
        code=TRACE + "given = tp.load(folder / 'rank0.pt.trace.json')\n"
        "[(row['name'], row['calls'], row['self_cpu_ns'], row['total_cpu_ns']) for row in given.ops.to_dicts()]",
        value="[('aten::linear', 1, 40000, 60000), ('aten::addmm', 1, 20000, 20000)]",
    ),
    Case(
        name="load what is no trace",
        code="(folder / 'no.json').write_text('{}')\ntp.load(folder / 'no.json')",
        error="NotATraceError",
    ),
    Case(
        name="--save and history",
        code="%%torchprof --save kept -q\nfor batch in loader:\n    train(batch)",
    ),
    Case(
        name="JupyterLab finds the widget",
        code="""\
import subprocess
command = [sys.executable, "-m", "jupyter", "labextension", "list"]
listed = subprocess.run(command, capture_output=True, text=True, check=True)
lines = (listed.stdout + listed.stderr).splitlines()
[sum(name in line and "enabled" in line and "OK" in line for line in lines)
    for name in ("anywidget", "jupyterlab-manager")]""",
        value="[1, 1]",
    ),
    Case(
        name="--remote",
        code="""\
%%torchprof --trace-dir uploaded --remote memory://uploaded -q
for batch in loader:
    train(batch)""",
        then="""\
import time, fsspec
end, there = time.monotonic() + 60, []
while not there and time.monotonic() < end:
    time.sleep(0.1)
    there = [path for path in fsspec.filesystem("memory").find("/uploaded") if path.endswith(".json")]
assert len(there) == 1, there
""",
    ),
    Case(name="%torchprof history", code="%torchprof history", prints=r"[\s\S]*kept[\s\S]*"),
    Case(
        name="--trace-dir",
        code="%%torchprof --trace-dir traces --run-name kept --gzip -q\nfor batch in loader:\n    train(batch)",
        then="(kept,) = os.listdir('traces')\nassert 'kept' in kept and kept.endswith('.gz'), kept",
    ),
)
