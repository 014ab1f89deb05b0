"""The magics in a real kernel, as a front end uses them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import Kernel, started

WIDGET = "application/vnd.jupyter.widget-view+json"
FLAGS = (
    "--preset", "--wait", "--warmup", "--active", "--repeat", "--skip-first", "--skip-first-wait", "--shapes",
    "--memory", "--stack", "--flops", "--modules", "--all-threads", "--sync-events", "--trace-only", "--two-pass",
    "--activities", "--budget", "--execution-trace", "--snapshot", "--no-snapshot", "--trace-dir", "--filename",
    "--run-name", "--remote", "--keep-last", "--gzip", "--overwrite", "--tensorboard", "--metadata", "--step", "--out",
    "--display", "--quiet", "--schedule", "--on-trace-ready", "--experimental-config", "--custom-trace-id-callback",
    "--post-processing-timeout-s",
)  # fmt: skip
LOOP = "for i in range(8):\n    torch.ones(16).mul(2).sum()\n"
NAMED = "for i in range(6):\n    with torch.profiler.record_function('模型 ☃'):\n        torch.ones(9).sum()\n"


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with started("%load_ext torchprof_magic\n%config TorchProfMagics.preset = 'quick'\nimport torch") as found:
        yield found


@pytest.fixture(scope="module")
def own() -> Iterator[Kernel]:
    """Return a kernel that has shown nothing before, in which tests may change torch."""
    with started("%load_ext torchprof_magic\nimport sys, torch") as found:
        yield found


def names_in(path: Path) -> list[str]:
    """Return the names of a trace's events."""
    return [event["name"] for event in json.loads(path.read_bytes())["traceEvents"]]


def test_the_cell_keeps_its_value_prints_and_variables(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof\nprint('before')\n{LOOP}answer = 41\nanswer + 1")
    assert cell.reply["status"] == "ok"
    assert [content["data"]["text/plain"] for content in cell.of("execute_result")] == ["42"]
    assert cell.text == "before\n"
    left = kernel.run("print(answer, [name for name in globals() if 'torchprof' in name.lower()])").text
    assert left == "41 []\n"


def test_a_live_view_and_a_static_copy_of_the_same_run_are_shown(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof -o run\n{LOOP}")
    views = [data for data in cell.shown if "torchprof report" in data.get("text/plain", "")]
    assert [WIDGET in data for data in views] == [True]
    run_id = kernel.run("print(run.run_id)").text.strip()
    (static,) = cell.static
    assert f'data-tp-static="{run_id}"' in static
    for part in ("steps 2–4 recorded, ", "stepped by line 2", "aten::mul", "data:image/png;base64,"):
        assert part in static


def test_the_live_view_stands_before_the_static_copy_is_made_and_the_cell_does_without_matplotlib(own: Kernel) -> None:
    own.run(
        "from torchprof_magic.report.trace_report import Report\n"
        "made = Report._repr_mimebundle_\n"
        "def noted(self, *args, **more):\n"
        "    print('static copy begins')\n"
        "    return made(self, *args, **more)\n"
        "Report._repr_mimebundle_ = noted"
    )
    cell = own.run(f"%%torchprof --memory --shapes\n{LOOP}")
    own.run("Report._repr_mimebundle_ = made")
    kinds = [
        "begins" if "static copy begins" in content.get("text", "") else "view" if WIDGET in data else "static"
        for content in (message["content"] for message in cell.messages)
        if (data := content.get("data", {})) or "static copy begins" in content.get("text", "")
    ]
    assert kinds[-3:] == ["view", "begins", "static"]
    assert own.run("print('matplotlib' in sys.modules)").text == "False\n"


def test_an_interrupt_while_the_static_copy_is_made_leaves_the_live_view_and_says_where_the_report_is(
    own: Kernel,
) -> None:
    own.run(
        "from torchprof_magic.report.trace_report import Report\n"
        "made = Report._repr_mimebundle_\n"
        "def interrupted(self, *args, **more):\n"
        "    raise KeyboardInterrupt\n"
        "Report._repr_mimebundle_ = interrupted"
    )
    cell = own.run(f"%%torchprof -o run\n{LOOP}")
    own.run("Report._repr_mimebundle_ = made")
    views = [data for data in cell.shown if "torchprof report" in data.get("text/plain", "")]
    assert [WIDGET in data for data in views] == [True]
    assert cell.static == []
    assert "%torchprof last" in cell.text
    assert cell.reply["ename"] == "KeyboardInterrupt"
    assert own.run("print(run.steps.height)").text == "3\n"


def test_a_report_that_is_the_last_line_of_a_cell_is_shown_and_one_in_a_list_is_named(kernel: Kernel) -> None:
    shown = kernel.run(f"%%torchprof -o run\n{LOOP}")
    again = kernel.run("run")
    assert len(again.static) == 1
    assert again.static[0] == shown.static[0]
    assert [WIDGET in data for data in again.shown if "torchprof report" in data.get("text/plain", "")] == [True]
    assert kernel.run("_ is run").of("execute_result")[0]["data"] == {"text/plain": "True"}
    (listed,) = kernel.run("[run]").of("execute_result")
    assert re.fullmatch(r"\[<Report .*: \d+ events, 3 steps>\]", listed["data"]["text/plain"])
    assert kernel.run("run;").static == []


def test_a_with_block_is_named_by_its_cell(kernel: Kernel) -> None:
    kernel.run("import torch, torchprof_magic as tp\nwith tp.profile() as p:\n    torch.ones(3).sin()")
    number = int(kernel.run("print(len(In) - 2)").text)
    assert kernel.run("print(p.report.trace.meta.title)").text == f"In [{number}]\n"


def test_the_progress_bar_leaves_nothing_behind(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof\n{LOOP}")
    place = {content["transient"].get("display_id"): content["data"] for content in cell.of("display_data")}
    for content in cell.of("update_display_data"):
        place[content["transient"]["display_id"]] = content["data"]
    bars = [data for key, data in place.items() if key is not None]
    assert bars == [{}]  # not even an empty line


def test_what_is_done_after_the_loop_is_said_in_the_place_of_the_bar(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof\n{LOOP}")
    bar, *_ = (content["transient"]["display_id"] for content in cell.of("display_data") if content["transient"])
    updates = cell.of("update_display_data")
    assert {content["transient"]["display_id"] for content in updates} == {bar}
    words = [content["data"]["text/plain"].partition("torchprof: ")[2] for content in updates if content["data"]]
    stages = ["ending the recording", "saving the trace", "checking the trace", "reading the trace", "analysing"]
    assert [stage for stage in stages for text in words if text.startswith(stage)] == stages
    assert updates[-1]["data"] == {}


def test_a_saved_notebook_grows_by_less_than_200_kb_a_run(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof --memory --stack\n{LOOP}")
    assert len(json.dumps(cell.shown)) < 200_000


def test_two_passes_of_a_training_loop_show_the_times_of_one_and_the_details_of_the_other(kernel: Kernel) -> None:
    setup = (
        "model = torch.nn.Linear(8, 2)\nopt = torch.optim.SGD(model.parameters(), 0.1)\n"
        "losses, loader = [], [torch.ones(4, 8)] * 12"
    )
    kernel.run(setup)
    loop = (
        "for batch in loader:\n    loss = model(batch).square().mean()\n"
        "    loss.backward(); opt.step(); opt.zero_grad()\n    losses.append(loss.item())\n"
    )
    cell = kernel.run(f"%%torchprof --two-pass -o run\n{loop}len(losses)")
    assert cell.reply["status"] == "ok"
    assert cell.values == ["12"]
    (static,) = cell.static
    assert "steps 2–4 recorded, details from 6–8, stepped by line 2" in static
    note = "Note: Times are from steps 2–4, shapes, memory and stacks from steps 6–8; all ops were found in both."
    assert kernel.run("print(run.summary())").text.splitlines().count(note) == 1
    asked = (
        "import polars as pl\nmine = run.ops_by('shapes', 'stack').filter(pl.col('name') == 'aten::addmm')\n"
        "print(mine['calls'].to_list(), mine['shapes'][0], mine['self_cpu_bytes'][0] > 0, mine['stack'][0])"
    )
    assert kernel.run(asked).text == ("[3] [[2], [4, 8], [8, 2], [], []] True <built-in function linear>\n")


def test_two_passes_can_be_the_default_and_need_steps(kernel: Kernel) -> None:
    kernel.run("%config TorchProfMagics.two_pass = True")
    try:
        cell = kernel.run("%%torchprof --display text\nx = torch.ones(3).sum()")
        assert "Warning: Only times were recorded: everything was one step" in cell.text
        cell = kernel.run("%%torchprof --display text --step cell\nx = torch.ones(3).sum()")
        assert "Warning: Only one pass was recorded, because there are no steps to repeat" in cell.text
        cell = kernel.run("%%torchprof --display text\nfor i in range(3):\n    torch.ones(3).sum()")
        assert "Warning: Only one pass was recorded, because the loop has 3 steps" in cell.text
        assert "two_pass" not in kernel.run(f"%%torchprof --no-two-pass -o run\n{LOOP}").text
        assert kernel.run("print(run.trace.meta.two_pass)").text == "None\n"
    finally:
        kernel.run("%config TorchProfMagics.two_pass = False")


def test_rules_for_advice_are_muted_by_config_and_wrong_names_are_refused(kernel: Kernel) -> None:
    kernel.run(f"%%torchprof -q --display none -o told\n{LOOP}")
    kernel.run(
        "import torchprof_magic as tp\n@tp.rules.add\ndef own(trace):\n    return tp.Advice(rule='own', title='Less')"
    )
    asked = "print([advice.rule for advice in told.advice if advice.rule == 'own'])"
    try:
        assert kernel.run(asked).text == "['own']\n"
        kernel.run("%config TorchProfMagics.advice = {'mute': ['own']}")
        assert kernel.run(asked).text == "[]\n"
        wrong = kernel.run("%config TorchProfMagics.advice = {'mute': ['no_such']}")
        assert "no rule 'no_such'; choose from dataloader_workers" in str(wrong.reply) + wrong.text
    finally:
        kernel.run("%config TorchProfMagics.advice = {}\ntp.rules.remove('own')")


def test_two_passes_step_with_an_optimizer_too(kernel: Kernel) -> None:
    kernel.run(
        "model = torch.nn.Linear(8, 2)\nopt = torch.optim.SGD(model.parameters(), 0.1)\n"
        "def fit(steps):\n    for _ in range(steps):\n"
        "        model(torch.ones(4, 8)).sum().backward()\n        opt.step()"
    )
    cell = kernel.run("%%torchprof --two-pass -o run --display text\nfit(8)")
    assert "steps 0–2 recorded, details from 4–6, one per call of optimizer.step()" in cell.text
    assert kernel.run("print(run.ops.filter(run.ops['name'] == 'aten::addmm')['calls'].item())").text == "3\n"


def test_an_interrupt_in_the_second_pass_leaves_the_first(kernel: Kernel) -> None:
    looping = (
        "import time\nfor k in range(50):\n    torch.ones(8).sum()\n"
        "    if k == 11: print('here', flush=True); time.sleep(60)"
    )
    cell = kernel.run(f"%%torchprof --two-pass -o run\n{looping}", interrupt_at="here")
    assert cell.reply["ename"] == "KeyboardInterrupt"
    assert len(cell.static) == 1
    assert kernel.run("print(run.steps['number'].to_list(), run.trace.meta.two_pass.detail_steps)").text == (
        "[2, 3, 4] (10, 11)\n"
    )


def test_an_exception_of_the_cell_is_unchanged_and_comes_with_the_partial_report(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof\n{LOOP}    if i == 5: raise KeyError('mine')")
    assert (cell.reply["status"], cell.reply["ename"]) == ("error", "KeyError")
    assert len(cell.of("error")) == 1
    plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(cell.reply["traceback"]))
    assert re.search(r"Cell In\[\d+\], line 4\n", plain)
    assert "torchprof_magic" not in plain
    assert len(cell.static) == 1
    assert kernel.run(f"%%torchprof -q -o after\n{LOOP}").reply["status"] == "ok"
    assert kernel.run("print(after.ops.height > 0)").text == "True\n"


def test_an_interrupt_ends_the_cell_with_a_partial_report_and_the_next_cell_records(kernel: Kernel) -> None:
    # It rests in each step, so that the recording is small when the interrupt comes.
    forever = "for i in iter(int, 1):\n    torch.ones(8).sum(); time.sleep(0.01)\n"
    forever += "    if k == 3: print('here', flush=True)\n    k += 1\n"
    begin = "%%torchprof --active 100000000 --wait 0 --warmup 0\nimport time\nk = 0\n"
    cell = kernel.run(f"{begin}{forever}", interrupt_at="here")
    assert (cell.reply["status"], cell.reply["ename"]) == ("error", "KeyboardInterrupt")
    assert len(cell.of("error")) == 1
    assert len(cell.static) == 1
    assert kernel.run(f"%%torchprof -q -o after\n{LOOP}").reply["status"] == "ok"
    assert kernel.run("print(after.steps['number'].to_list())").text == "[2, 3, 4]\n"


@pytest.mark.parametrize(
    ("flags", "widgets", "statics"),
    [
        ("-q", 0, 0),
        ("--display none", 0, 0),
        ("--display widget", 1, 0),
        ("--display static", 0, 1),
        ("--display text", 0, 0),
    ],
)
def test_display_says_what_is_shown(kernel: Kernel, flags: str, widgets: int, statics: int) -> None:
    cell = kernel.run(f"%%torchprof {flags}\n{LOOP}")
    views = [data for data in cell.shown if "torchprof report" in data.get("text/plain", "")]
    assert (len(views), len(cell.static)) == (widgets, statics)
    assert ("Mean step" in cell.text) == ("text" in flags)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--active 0", "--active must be at least 1 (got 0)"),
        ("--wait -1", "--wait must be at least 0 (got -1)"),
        ("--activities gpu", "unknown gpu; choose from cpu, cuda"),
        ("--nonsense", "unrecognized arguments: --nonsense"),
        ("-o 1x", "-o needs a valid variable name"),
        ("--step often", "choose one of auto, loop, optimizer, model, cell, manual or line:N"),
        ("--two-pass --repeat 2", "--repeat 2 and --two-pass cannot be combined"),
        ("--two-pass --no-shapes --no-memory --no-stack", "--two-pass has no details to record"),
        ("--step line:99", "no for or while loop begins on that line of the cell"),
    ],
)
def test_a_wrong_flag_is_refused_before_the_cell_runs(kernel: Kernel, flags: str, says: str) -> None:
    kernel.run("ran = False")
    cell = kernel.run(f"%%torchprof {flags}\nran = True\n{LOOP}")
    assert cell.reply["status"] == "error"
    assert cell.reply["ename"] == "UsageError"
    assert says in cell.reply["evalue"]
    assert kernel.run("print(ran)").text == "False\n"


def test_an_error_while_showing_does_not_replace_the_result_of_the_cell(kernel: Kernel) -> None:
    fail = "magics.show = lambda *_, **__: 1 / 0"
    kernel.run(f"import torchprof_magic.ipython.magics as magics; shown = magics.show\n{fail}")
    cell = kernel.run(f"%%torchprof\n{LOOP}raise KeyError('mine')")
    assert cell.reply["ename"] == "KeyError"
    assert (
        "The report could not be shown (ZeroDivisionError: division by zero). Show it with: %torchprof last"
        in cell.text
    )
    kernel.run("magics.show = shown")


def test_an_error_before_the_report_is_made_names_the_raw_trace(kernel: Kernel) -> None:
    kernel.run(
        "import torchprof_magic.run.conductor as run; read = run.read_recording\n"
        "run.read_recording = lambda *_, **__: 1 / 0\n"
        "say = run.say_unread; files = []\n"
        "def say_unread(recording, **how):\n"
        "    files.append(recording.cycles[0].path.stat().st_ino); say(recording, **how)\n"
        "run.say_unread = say_unread"
    )
    cell = kernel.run(f"%%torchprof\n{NAMED}6 * 7")
    kernel.run("run.read_recording, run.say_unread = read, say")
    assert cell.reply["status"] == "ok"
    assert "The report could not be made (ZeroDivisionError: division by zero). The trace is kept in " in cell.text
    path = re.search(r"Open it with: %torchprof load (\S+)", cell.text)
    assert path is not None
    assert "模型 ☃" in names_in(Path(path[1]))
    assert kernel.run("print(files)").text == f"[{Path(path[1]).stat().st_ino}]\n"  # as it was when the handler ran


def test_an_interrupt_while_showing_is_raised_unless_the_cell_raised(kernel: Kernel) -> None:
    stop = "def stop(*_, **__): raise KeyboardInterrupt"
    kernel.run(f"import torchprof_magic.ipython.magics as magics; shown = magics.show\n{stop}\nmagics.show = stop")
    assert kernel.run(f"%%torchprof\n{LOOP}").reply["ename"] == "KeyboardInterrupt"
    cell = kernel.run(f"%%torchprof\n{LOOP}raise KeyError('mine')")
    assert cell.reply["ename"] == "KeyError"
    assert "Interrupted before the report was shown. Show it with: %torchprof last" in cell.text
    kernel.run("magics.show = shown")


def test_names_of_any_alphabet_leave_the_output_clean(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof\n{NAMED}")
    assert cell.text == ""
    assert "模型 ☃" in cell.static[0]


def test_names_of_any_alphabet_are_in_the_copy_that_is_kept(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run(f"%%torchprof -o run --trace-dir {tmp_path}\n{NAMED}")
    copy = Path(kernel.run("print(run.trace_paths[0])").text.strip())
    assert copy.parent == tmp_path
    assert "模型 ☃" in names_in(copy)


def test_help_lists_every_flag(kernel: Kernel) -> None:
    reply = kernel.run("%%torchprof?").reply
    text = reply["payload"][0]["data"]["text/plain"]
    for flag in FLAGS:
        assert flag in text


NO_MEMORY_LEFT = """
import torch
history = []
torch.cuda.is_available = lambda: True
torch._C._cuda_isHistoryEnabled = lambda: bool(history)
def record(enabled="all", context="all", stacks="all", max_entries=0):
    history[:] = [] if enabled is None else [{"action": "alloc", "size": 5, "addr": 1, "time_us": 1}]
def full():
    history.append({"action": "oom", "size": 20 << 20, "device_free": 0, "time_us": 2})
    raise torch.OutOfMemoryError("CUDA out of memory. " + "Tried to" + " allocate 20.00 MiB.")
torch.cuda.memory._record_memory_history = record
torch.cuda.memory._snapshot = lambda: {"segments": [], "device_traces": [list(history)]}
"""


def test_a_cell_that_runs_out_of_device_memory_keeps_its_snapshot_and_its_own_error(
    own: Kernel, tmp_path: Path
) -> None:
    own.run(NO_MEMORY_LEFT)
    target = tmp_path / "snapshot.pickle"
    flags = f"--activities cpu --snapshot {target} -o run"
    cell = own.run(f"%%torchprof {flags}\nkept = 1\nfor i in range(9):\n    torch.ones(4)\n    if i == 2: full()")
    assert cell.reply["ename"] == "OutOfMemoryError"
    assert "\n".join(cell.reply["traceback"]).count("Tried to allocate 20.00 MiB") == 1
    assert "torchprof_magic" not in "\n".join(cell.reply["traceback"])
    said = own.run("print(kept, history, *(p.message for p in run.problems if 'memory' in p.code), sep='|')").text
    kept, history, at_step, in_snapshot = said.strip().split("|")
    assert (kept, history) == ("1", "[]")
    assert at_step == "The device ran out of memory at step 2, allocating 20.00 MiB."
    assert "requested 20 MiB while the device had 0 B free" in in_snapshot
    opened = own.run(f"%torchprof load {target} -o opened").reply["status"]
    assert opened == "ok"
    said = own.run("print([p.message for p in opened.problems if p.code == 'snapshot.out_of_memory'])").text
    assert "requested 20 MiB while the device had 0 B free" in said


def test_raw_files_of_a_run_are_deleted_once_the_next_run_replaced_its_report(kernel: Kernel) -> None:
    where = "print(tp.last.trace_paths[0])"
    paths = []
    for _ in range(3):
        kernel.run(f"import torchprof_magic as tp\n%torchprof -q {LOOP.splitlines()[-1].strip()}")
        paths.append(Path(kernel.run(where).text.strip()))
    assert [path.exists() for path in paths] == [False, False, True]


def test_the_line_magic_shows_opens_and_switches_off(kernel: Kernel) -> None:
    kernel.run(f"%%torchprof -q\n{LOOP}")
    assert len(kernel.run("%torchprof last").static) == 1
    assert "No profiler is running." in kernel.run("%torchprof off").text
    assert "%torchprof load FILE" in kernel.run("%torchprof").text
    cell = kernel.run("%torchprof load /nowhere/trace.json")
    assert (cell.reply["ename"], "no such file" in cell.reply["evalue"]) == ("UsageError", True)
    assert kernel.run("%torchprof dance").reply["ename"] == "UsageError"


def test_a_report_is_saved_exported_and_opened_again(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run(f"%%torchprof -q\n{LOOP}")
    kernel.run("import torchprof_magic as tp")
    saved, exported = tmp_path / "my run.torchprof", tmp_path / "run.json.gz"
    assert f"written to {saved}" in kernel.run(f"%torchprof save '{saved}'").text
    assert f"written to {exported}" in kernel.run(f"%torchprof export {exported}").text
    calls = kernel.run("print(sum(tp.last.ops['calls']))").text
    assert int(calls) > 0
    for file in (saved, exported):
        assert len(kernel.run(f"%torchprof load '{file}'").static) == 1
        assert kernel.run("print(sum(tp.last.ops['calls']))").text == calls
    assert "load takes FILE" in kernel.run("%torchprof load").reply["evalue"]


def test_a_large_file_is_read_with_a_bar_that_is_removed(kernel: Kernel, tmp_path: Path) -> None:
    file = tmp_path / "large.json"
    event = b'{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": %d, "dur": 1}'
    file.write_bytes(b"[" + b", ".join(event % (2 * number) for number in range(300_000)) + b"]")
    cell = kernel.run(f"%torchprof load {file}")
    places = [content["data"] for content in cell.of("update_display_data")]
    assert {} in places
    assert "300,000" in kernel.run("import torchprof_magic as tp; print(tp.last)").text


def test_a_profiler_that_was_left_on_is_named_and_can_be_switched_off(kernel: Kernel) -> None:
    kernel.run("left = torch.profiler.profile(); left.start()")
    cell = kernel.run(f"%%torchprof\n{LOOP}")
    assert cell.reply["ename"] == "UsageError"
    assert "%torchprof off" in cell.reply["evalue"]
    assert "was stopped" in kernel.run("%torchprof off").text
    assert kernel.run(f"%%torchprof -q\n{LOOP}").reply["status"] == "ok"


@pytest.mark.parametrize("above", ["%%time", "%%capture out"])
def test_other_cell_magics_can_be_above(kernel: Kernel, above: str) -> None:
    cell = kernel.run(f"{above}\n%%torchprof -o run\n{LOOP}")
    assert cell.reply["status"] == "ok"
    assert kernel.run("print(run.steps.height, run.trace.meta.stepping.line)").text == "3 3\n"


def test_requests_of_the_page_are_answered_in_chunks_and_invalid_ones_are_refused(kernel: Kernel) -> None:
    kernel.run(f"%%torchprof -q -o run\n{LOOP}")
    code = """
sent = []
run.widget.send = lambda content, buffers=None: sent.append((content, buffers))
asked = {"kind": "get", "id": 1, "name": "export:html", "chunk": 0}
odd = (asked | {"id": 2, "name": "/etc/passwd"}, asked | {"id": 3, "chunk": 99}, {"eval": "1"}, [1], "x")
for content in (asked, *odd):
    run.widget._answer(run.widget, content, [])
print([(content["kind"], content["id"]) for content, _ in sent], sent[0][1][0][:15])
"""
    said = kernel.run(code).text
    assert said.startswith(
        "[('chunk', 1), ('error', 2), ('error', 3), ('error', None), ('error', None), ('error', None)]"
    )
    assert "<!DOCTYPE html>" in said


def test_unloading_removes_the_magics_and_loading_restores_them(kernel: Kernel) -> None:
    assert kernel.run("%unload_ext torchprof_magic").reply["status"] == "ok"
    assert kernel.run(f"%%torchprof\n{LOOP}").reply["ename"] == "UsageError"
    assert kernel.run("%load_ext torchprof_magic\n%reload_ext torchprof_magic").reply["status"] == "ok"
    assert kernel.run(f"%%torchprof -q\n{LOOP}").reply["status"] == "ok"


@pytest.mark.parametrize("asked", ["-h", "--help"])
def test_help_lists_the_flags_and_does_not_run_the_cell(kernel: Kernel, asked: str) -> None:
    cell = kernel.run(f"%%torchprof {asked}\nprint('ran')")
    assert cell.reply["status"] == "ok"
    assert "--skip-first" in cell.text
    assert "ran\n" not in cell.text
