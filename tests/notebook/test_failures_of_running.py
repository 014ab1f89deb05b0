"""Each way in which running a recorded cell can fail, in a real kernel: rows 1 to 21 of docs/failures.md.

Every test provokes the failure, says what the user must see and what must survive, and ends with ``assert_recovered``:
the profiler is off, and the next cell is recorded as ever. All of it runs without a GPU, but one variant of row 11.
"""

from __future__ import annotations

import html
import json
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import Cell, Kernel, started

FIRST = """
%load_ext torchprof_magic
import os, signal, sys, threading, time
import torch, torch._inductor.config
import torchprof_magic as tp
from concurrent.futures import ThreadPoolExecutor
from torchprof_magic.capture import busy_profiler, live_session
handler = signal.getsignal(signal.SIGINT)

def hang():
    print("here", flush=True)
    while True:
        time.sleep(0.001)

def interrupt_in(owner, name, times=1):
    "Send Ctrl-C to this kernel when a function is called the next time, before it does anything."
    original = getattr(owner, name)
    def interrupted(*arguments, **named):
        setattr(owner, name, original)
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
        return original(*arguments, **named)
    setattr(owner, name, interrupted)
"""
LOOP = "for i in range(8):\n    y = torch.ones(16).mul(2).sum()\n"
# Without flags a loop of eight steps waits in step 0, warms up in step 1 and is recorded in steps 2, 3 and 4.
RECORDED = "[2, 3, 4]"
TORCH = "torch.profiler.profiler._KinetoProfile"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with started(FIRST, TMPDIR=str(tmp_path_factory.mktemp("runs"))) as found:
        yield found


def assert_recovered(kernel: Kernel) -> None:
    """Assert that no profiler is on, no session is live and Ctrl-C works, and that the next cell is recorded."""
    state = "torch.autograd._profiler_enabled(), busy_profiler(), live_session()"
    assert kernel.run(f"print({state}, signal.getsignal(signal.SIGINT) is handler)").text == "False None None True\n"
    cell = kernel.run(f"%%torchprof -q -o following\n{LOOP}")
    assert (cell.reply["status"], cell.text) == ("ok", "")
    asked = "following.steps.filter('complete')['number'].to_list(), 'aten::mul' in list(following.ops['name'])"
    assert kernel.run(f"print({asked})").text == f"{RECORDED} True\n"


def warnings_of(cell: Cell) -> list[str]:
    """Return the warnings in the report that a cell shows."""
    (static,) = cell.static
    return [html.unescape(text).strip() for text in re.findall(r"<p>⚠ (.*?)</p>", static)]


def warned(cell: Cell, words: str) -> bool:
    return any(words in text for text in warnings_of(cell))


def notes(kernel: Kernel) -> list[str]:
    """Return the messages of the last report's Notes."""
    return json.loads(kernel.run("import json; print(json.dumps([p.message for p in tp.last.problems]))").text)


def steps(kernel: Kernel) -> str:
    """Return the steps of the last report, and whether each was complete."""
    return kernel.run("print(tp.last.steps['number', 'complete'].rows())").text.strip()


def ops(kernel: Kernel, report: str = "tp.last") -> set[str]:
    return set(json.loads(kernel.run(f"import json; print(json.dumps({report}.ops['name'].to_list()))").text))


def outcome(cell: Cell) -> str:
    """Return the name of the one error that the cell shows, or ``ok``. A UsageError is printed without a traceback."""
    name = str(cell.reply.get("ename", cell.reply["status"]))
    assert len(cell.of("error")) == (name not in ("ok", "UsageError"))
    return name


# -- exceptions and interrupts in the cell ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "phase"), [pytest.param(0, "wait", id="row 1"), pytest.param(1, "warm-up", id="row 2")]
)
def test_row_1_and_2_an_exception_before_anything_is_recorded(kernel: Kernel, step: int, phase: str) -> None:
    cell = kernel.run(f"%%torchprof\n{LOOP}    if i == {step}: raise KeyError('mine')")
    assert (outcome(cell), cell.reply["evalue"], cell.error_lines) == ("KeyError", "'mine'", [1, 4])
    assert warned(cell, f"No step was recorded: the run ended during the {phase}, after {step} of 5 steps.")
    assert kernel.run("print(i, y.item())").text == f"{step} 32.0\n"
    assert_recovered(kernel)


def test_row_3_an_exception_in_a_recorded_step(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof\n{LOOP}    if i == 3: raise KeyError('mine')")
    assert (outcome(cell), cell.error_lines) == ("KeyError", [1, 4])
    assert warned(cell, "Partial: 1 of 3 steps are complete; the run ended while recording, after 3 of 5 steps.")
    assert steps(kernel) == "[(2, True), (3, False)]"
    assert "aten::mul" in ops(kernel)
    assert_recovered(kernel)


@pytest.mark.parametrize(
    ("step", "words", "kept"),
    [
        (0, "the run ended during the wait, after 0 of 5 steps.", "[]"),
        (1, "the run ended during the warm-up, after 1 of 5 steps.", "[]"),
        (3, "Partial: 1 of 3 steps are complete; the run ended while recording", "[(2, True), (3, False)]"),
    ],
    ids=["wait", "warm-up", "active"],
)
def test_row_4_an_interrupt_in_each_phase(kernel: Kernel, step: int, words: str, kept: str) -> None:
    cell = kernel.run(f"%%torchprof\n{LOOP}    if i == {step}: hang()", interrupt_at="here")
    assert (outcome(cell), cell.error_lines[:2]) == ("KeyboardInterrupt", [1, 4])
    assert warned(cell, words)
    assert steps(kernel) == kept
    assert_recovered(kernel)


@pytest.mark.parametrize(
    ("moment", "begun", "kept"),
    [
        # Even steps warm up, odd ones are cycles of their own; the interrupt is armed in step 2.
        ("start_trace", [0, 1, 2], "[(1, True)]"),
        ("stop_trace", [0, 1, 2, 3], "[(1, True), (3, True)]"),
        ("prepare_trace", [0, 1, 2, 3], "[(1, True), (3, True)]"),
    ],
)
def test_row_5_an_interrupt_inside_a_transition(kernel: Kernel, moment: str, begun: list[int], kept: str) -> None:
    armed = f"    begun.append(i)\n    if i == 2: interrupt_in({TORCH}, '{moment}')"
    cell = kernel.run(f"%%torchprof --wait 0 --warmup 1 --active 1 --repeat 0\nbegun = []\n{LOOP}{armed}")
    assert (outcome(cell), cell.error_lines) == ("KeyboardInterrupt", [1, 3])
    assert kernel.run("print(begun)").text == f"{begun}\n"
    assert steps(kernel) == kept
    assert_recovered(kernel)


def test_row_5_an_interrupt_in_a_handler_of_the_users(kernel: Kernel) -> None:
    once = "    calls.append(p)\n    if len(calls) == 1: os.kill(os.getpid(), signal.SIGINT); print('not reached')\n"
    block = "with tp.profile(wait=0, warmup=0, active=1, repeat=0, on_trace_ready=ready) as p:\n"
    cell = kernel.run(
        f"calls = []\ndef ready(p):\n{once}{block}    for i in p.steps(range(8)): y = torch.ones(16).mul(2).sum()"
    )
    assert (outcome(cell), cell.text) == ("KeyboardInterrupt", "")
    assert steps(kernel).startswith("[(0, True)")
    assert_recovered(kernel)


# -- interrupts afterwards ----------------------------------------------------------------------------------------

FINISHING = "torchprof: the recording is being finished; interrupt again to do without its report\n"
SKIPPED = "torchprof: there will be no report; interrupt again to give up the recording, too\n"


def test_row_6_one_interrupt_while_the_recording_is_finished(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof --step cell\ninterrupt_in({TORCH}, 'stop_trace')\ny = torch.ones(16).mul(2)")
    assert (outcome(cell), cell.text) == ("KeyboardInterrupt", FINISHING)
    assert len(cell.static) == 1
    assert steps(kernel) == "[(0, True)]"
    assert "aten::mul" in ops(kernel)
    assert_recovered(kernel)


def test_row_6_a_second_interrupt_does_without_the_report(kernel: Kernel) -> None:
    armed = f"interrupt_in({TORCH}, 'stop_trace')\ninterrupt_in({TORCH}, 'export_chrome_trace')\n"
    cell = kernel.run(f"%%torchprof --step cell\n{armed}y = torch.ones(16).mul(2)")
    assert outcome(cell) == "KeyboardInterrupt"
    assert cell.text.startswith(FINISHING + SKIPPED)
    assert cell.static == []
    assert_recovered(kernel)
    assert_opens(kernel, cell)


def test_row_6_a_third_interrupt_gives_the_recording_up(kernel: Kernel) -> None:
    armed = f"interrupt_in({TORCH}, 'stop_trace')\ninterrupt_in({TORCH}, 'export_chrome_trace', times=2)\n"
    cell = kernel.run(f"%%torchprof --step cell\n{armed}y = torch.ones(16).mul(2)")
    assert outcome(cell) == "KeyboardInterrupt"
    given_up = "cycle-0.pt.trace.json was not saved: it was given up, because of repeated interrupts."
    assert cell.text == f"{FINISHING}{SKIPPED}torchprof: the analysis was stopped, and there is no trace. {given_up}\n"
    assert_recovered(kernel)


def assert_opens(kernel: Kernel, cell: Cell) -> None:
    """Assert that the line a cell ended with names a command that opens its trace."""
    found = re.search(r"the raw trace is in (\S+) and opens with: (%torchprof load .*)\n", cell.text)
    assert found is not None
    assert Path(found[1]).is_dir()
    opened = kernel.run(found[2])
    assert outcome(opened) == "ok"
    assert "aten::mul" in ops(kernel)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("torchprof_magic.reading", "read_chrome"),
        ("torchprof_magic.ipython.magics.TorchProfMagics", "_keep"),  # the report is made, and nobody has it yet
    ],
)
def test_row_7_an_interrupt_while_the_trace_is_read(kernel: Kernel, owner: str, name: str) -> None:
    kernel.run(f"import torchprof_magic.reading, torchprof_magic.ipython.magics\ninterrupt_in({owner}, '{name}')")
    cell = kernel.run(f"%%torchprof\n{LOOP}")
    assert (outcome(cell), cell.static) == ("KeyboardInterrupt", [])
    assert cell.text.startswith("torchprof: the analysis was stopped; the raw trace is in ")
    assert_recovered(kernel)
    assert_opens(kernel, cell)


def test_row_7_an_interrupt_while_the_report_is_shown(kernel: Kernel) -> None:
    kernel.run("import torchprof_magic.ipython.display\ninterrupt_in(torchprof_magic.ipython.display, 'static_html')")
    cell = kernel.run(f"%%torchprof\n{LOOP}")
    assert (outcome(cell), cell.static) == ("KeyboardInterrupt", [])
    assert cell.text == "torchprof: the report is not shown; see it with: %torchprof last\n"
    assert len(kernel.run("%torchprof last").static) == 1
    assert_recovered(kernel)


# -- the end of the process ---------------------------------------------------------------------------------------


def test_row_8_sys_exit_in_a_recorded_step(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof\n{LOOP}    if i == 3: sys.exit(3)")
    assert (outcome(cell), cell.reply["evalue"]) == ("SystemExit", "3")
    assert "To exit: use 'exit', 'quit', or Ctrl-D." in cell.text
    assert warned(cell, "Partial: 1 of 3 steps are complete")
    assert steps(kernel) == "[(2, True), (3, False)]"
    assert_recovered(kernel)


@pytest.mark.slow
def test_row_8_exit_ends_the_kernel_when_the_trace_is_flushed(tmp_path: Path) -> None:
    with started(FIRST) as kernel:
        cell = kernel.run(f"%%torchprof --trace-dir {shlex.quote(str(tmp_path))} --filename kept.json\n{LOOP}exit()")
        assert (outcome(cell), cell.reply["payload"][0]["source"]) == ("ok", "ask_exit")
        assert len(cell.static) == 1
        wait_until_dead(kernel)
    assert "aten::mul" in op_names(tmp_path / "kept.json")


def wait_until_dead(kernel: Kernel) -> None:
    deadline = time.monotonic() + 60
    while kernel.manager.is_alive():
        assert time.monotonic() < deadline, "the kernel goes on"
        time.sleep(0.05)


def op_names(path: Path) -> set[str]:
    events = json.loads(path.read_bytes())["traceEvents"]
    return {event["name"] for event in events if event.get("cat") == "cpu_op"}


@pytest.mark.slow
def test_row_9_a_kernel_that_is_killed_in_a_recorded_step(tmp_path: Path) -> None:
    kept = f"--trace-dir {shlex.quote(str(tmp_path / 'kept'))} --filename {{run_name}}-{{cycle}}.json"
    runs = tmp_path / "runs"
    runs.mkdir()
    with started(FIRST, TMPDIR=str(runs)) as kernel:
        assert outcome(kernel.run(f"%%torchprof -q {kept} --run-name earlier\n{LOOP}")) == "ok"
        # Every step is a cycle; in step 2 the cycles of steps 0 and 1 are recorded, and with idle steps also saved.
        flags = "--wait 1 --warmup 0 --active 1 --repeat 3"
        kernel.client.execute(f"%%torchprof {flags} {kept}\n{LOOP}    if i == 5: os.kill(os.getpid(), signal.SIGKILL)")
        wait_until_dead(kernel)
    with started(FIRST.replace("%load_ext torchprof_magic\n", ""), TMPDIR=str(runs)) as kernel:
        told = kernel.run("%load_ext torchprof_magic").text
        found = re.fullmatch(
            r"torchprof: the run In \[3\] of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d did not finish, because its process ended; "
            r"2 cycles of it were saved, and the first opens with: (%torchprof load .*)\n",
            told,
        )
        assert found is not None, told
        assert kernel.run("%reload_ext torchprof_magic").text == ""
        assert outcome(kernel.run(found[1])) == "ok"
        assert "aten::mul" in ops(kernel)
        assert "earlier-0.json" in kernel.run(f"%torchprof traces {shlex.quote(str(tmp_path / 'kept'))}").text
        assert outcome(kernel.run(f"%%torchprof -q {kept} --run-name later\n{LOOP}")) == "ok"
        assert sorted(path.name for path in (tmp_path / "kept").glob("*-0.json")) == ["earlier-0.json", "later-0.json"]
        assert_recovered(kernel)


# -- other profilers ----------------------------------------------------------------------------------------------


def test_row_10_a_magic_within_a_recorded_cell(kernel: Kernel) -> None:
    nested = "    if i == 3: get_ipython().run_cell_magic('torchprof', '', 'inner = 1')"
    cell = kernel.run(f"%%torchprof\n{LOOP}{nested}")
    assert outcome(cell) == "UsageError"
    assert "torchprof is already recording: sessions cannot be nested" in cell.reply["evalue"]
    assert kernel.run("print('inner' in globals())").text == "False\n"
    assert steps(kernel) == "[(2, True), (3, False)]"
    assert_recovered(kernel)


def test_row_10_a_cell_that_catches_the_refusal_is_recorded_whole(kernel: Kernel) -> None:
    nested = "    try:\n        with tp.profile(): inner = 1\n    except tp.errors.ProfilerBusyError: refused = i\n"
    kernel.run("import torchprof_magic.errors")
    assert outcome(kernel.run(f"%%torchprof\n{LOOP}{nested}")) == "ok"
    assert kernel.run("print('inner' in globals(), refused)").text == "False 7\n"
    assert steps(kernel) == "[(2, True), (3, True), (4, True)]"
    assert_recovered(kernel)


OTHERS = {
    "torch.profiler": (
        "other = torch.profiler.profile(); other.start()",
        "a torch profiler is already running on this thread",
        "other.stop(); print('aten::cos' in [e.name for e in other.events()])",
    ),
    "in its warm-up": (
        "other = torch.profiler.profile(schedule=torch.profiler.schedule(wait=0, warmup=1, active=1)); other.start()",
        "a torch.profiler.profile is in its warm-up",
        "other.step(); torch.ones(3).cos(); other.stop(); print('aten::cos' in [e.name for e in other.events()])",
    ),
    "autograd.profiler": (
        "other = torch.autograd.profiler.profile(); other.__enter__()",
        "a torch profiler is already running on this thread",
        "other.__exit__(None, None, None); print('aten::cos' in [e.name for e in other.function_events])",
    ),
    "emit_nvtx": (
        "other = torch.autograd.profiler.emit_nvtx(); other.__enter__()",
        "a torch profiler is already running on this thread",
        "other.__exit__(None, None, None); print(True)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHERS)
def test_row_11_another_profiler_is_on(kernel: Kernel, kind: str) -> None:
    start, who, stop = OTHERS[kind]
    if kind == "emit_nvtx" and kernel.run("print(torch.cuda.is_available())").text != "True\n":
        pytest.skip("emit_nvtx needs a torch with CUDA and a GPU: it raises at once without")
    kernel.run(f"ran = False\n{start}")
    cell = kernel.run(f"%%torchprof\nran = True\n{LOOP}")
    assert outcome(cell) == "UsageError"
    assert who in cell.reply["evalue"]
    assert "%torchprof off" in cell.reply["evalue"]
    assert kernel.run("torch.ones(3).cos(); print(ran)").text == "False\n"
    assert kernel.run(stop).text.startswith("True\n")
    assert_recovered(kernel)


def test_row_11_a_profiler_that_nobody_can_stop_is_switched_off(kernel: Kernel) -> None:
    kernel.run("torch.profiler.profile().start()")
    assert outcome(kernel.run(f"%%torchprof\n{LOOP}")) == "UsageError"
    assert kernel.run("%torchprof off").text.startswith("A profiler was on and is off now.\n")
    assert_recovered(kernel)


def test_row_12_the_cell_uses_a_profiler_of_its_own(kernel: Kernel) -> None:
    own = "    if i == 3:\n        with torch.profiler.profile() as own: torch.ones(3).cos()\n"
    cell = kernel.run(f"%%torchprof\n{LOOP}{own}")
    assert outcome(cell) == "ok"
    assert warned(cell, "Another profiler took over at step 3: what was recorded up to there is kept.")
    assert steps(kernel) == "[(2, True), (3, False)]"
    assert "aten::mul" in ops(kernel)
    assert kernel.run("print('aten::cos' in [e.name for e in own.events()])").text == "True\n"
    assert_recovered(kernel)


# -- steps that do not come, or not as planned --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "phase", "total"),
    [("--wait 1 --warmup 1 --active 2", "wait", 4), ("--wait 0 --warmup 1 --active 3", "warm-up", 4)],
)
def test_row_13_step_is_never_called(kernel: Kernel, flags: str, phase: str, total: int) -> None:
    cell = kernel.run(f"%%torchprof --step manual {flags}\n{LOOP}")
    assert outcome(cell) == "ok"
    assert warned(cell, f"No step was recorded: the run ended during the {phase}, after 0 of {total} steps.")
    assert warned(cell, "step() was never called: call it at the end of every step, or use --step auto.")
    assert_recovered(kernel)


def test_row_13_step_is_never_called_in_a_with_block(kernel: Kernel) -> None:
    kernel.run(f"with tp.profile(wait=1, warmup=1, active=2) as p:\n    {LOOP.replace(chr(10), chr(10) + '    ')}")
    assert notes(kernel) == ["No step was recorded: the run ended during the wait, after 0 of 4 steps."]
    assert_recovered(kernel)


@pytest.mark.parametrize(
    ("flags", "words", "kept"),
    [
        ("--wait 2 --warmup 6 --active 2", "the run ended during the warm-up, after 3 of 10 steps.", "[]"),
        ("--wait 1 --warmup 1 --active 8", "Partial: 1 of 8 steps are complete; the run ended while", "[(2, True)]"),
    ],
)
def test_row_14_the_schedule_is_longer_than_the_loop(kernel: Kernel, flags: str, words: str, kept: str) -> None:
    cell = kernel.run(f"%%torchprof {flags}\n{LOOP.replace('range(8)', 'range(3)')}")
    assert outcome(cell) == "ok"
    assert warned(cell, words)
    assert steps(kernel) == kept
    assert_recovered(kernel)


@pytest.mark.parametrize(
    ("body", "kept"), [("pass", "[(0, True)]"), ("for i in range(8): pass", "[(2, True), (3, True), (4, True)]")]
)
def test_row_15_no_torch_op_runs(kernel: Kernel, body: str, kept: str) -> None:
    cell = kernel.run(f"%%torchprof\n{body}")
    assert (outcome(cell), cell.text) == ("ok", "")
    assert "No torch operation ran in the recorded steps." in notes(kernel)
    (static,) = cell.static
    assert "No torch op ran while the recording was on." in html.unescape(static)
    assert steps(kernel) == kept
    assert_recovered(kernel)


def test_row_16_every_cycle_is_kept(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof --wait 1 --warmup 1 --active 1 --repeat 2 -o cycles\n{LOOP}")
    assert outcome(cell) == "ok"
    assert kernel.run("print(cycles.steps['cycle', 'number'].rows())").text == "[(0, 2), (1, 5)]\n"
    paths = json.loads(kernel.run("import json; print(json.dumps([str(path) for path in cycles.trace_paths]))").text)
    assert ["aten::mul" in op_names(Path(path)) for path in paths] == [True, True]
    assert_recovered(kernel)


# -- threads and processes ----------------------------------------------------------------------------------------

UNSEEN = "their ops are not in the recording."


@pytest.mark.parametrize("cell", ["{pool}", "for i in range(8):\n    {pool}"], ids=["whole cell", "each step"])
def test_row_17_threads_of_a_pool_that_ends_before_the_step_does(kernel: Kernel, cell: str) -> None:
    pool = "with ThreadPoolExecutor(2, 'mine') as pool: list(pool.map(lambda n: torch.ones(9).cos(), range(4)))"
    shown = kernel.run(f"%%torchprof\n{cell.format(pool=pool)}")
    assert outcome(shown) == "ok"
    assert warned(shown, UNSEEN)
    assert warned(shown, "(mine_0")
    assert "aten::cos" not in ops(kernel)
    assert_recovered(kernel)


def test_row_17_all_threads_records_them_and_excludes_memory(kernel: Kernel) -> None:
    pool = "    with ThreadPoolExecutor(2) as pool: list(pool.map(lambda n: torch.ones(9).cos(), range(4)))"
    shown = kernel.run(f"%%torchprof --all-threads\n{LOOP}{pool}")
    assert not warned(shown, UNSEEN)
    assert {"aten::cos", "aten::mul"} <= ops(kernel)
    refused = kernel.run(f"%%torchprof --all-threads --memory\n{LOOP}")
    assert outcome(refused) == "UsageError"
    assert "exclude each other" in refused.reply["evalue"]
    assert_recovered(kernel)


def test_row_18_stop_from_another_thread_is_refused(kernel: Kernel) -> None:
    code = """
refused = []
def stop():
    try: p.__exit__(None, None, None)
    except Exception as error: refused.append(str(error))
with tp.profile() as p:
    torch.ones(3).sum()
    thread = threading.Thread(target=stop)
    thread.start()
    thread.join()
    torch.ones(3).cos()
print(refused)
"""
    cell = kernel.run(code)
    assert outcome(cell) == "ok"
    assert "stop() must be called on the thread that started the recording" in cell.text
    assert {"aten::sum", "aten::cos"} <= ops(kernel, "p.report")
    assert_recovered(kernel)


def test_row_19_workers_of_a_data_loader(kernel: Kernel) -> None:
    loader = "torch.utils.data.DataLoader(torch.arange(16.).reshape(8, 2), num_workers=2)"
    cell = kernel.run(f"%%torchprof\nfor batch in {loader}:\n    batch.mul(2)")
    assert outcome(cell) == "ok"
    assert (
        "A DataLoader fetched from worker processes. What they do is not recorded, only the waiting for them."
        in notes(kernel)
    )
    assert "aten::mul" in ops(kernel)
    assert_recovered(kernel)


def test_row_20_the_cell_forks(kernel: Kernel, tmp_path: Path) -> None:
    flags = f"--trace-dir {shlex.quote(str(tmp_path))} --filename kept.json"
    fork = """
    if i == 3 and not (child := os.fork()): is_child = True
    if is_child: torch.ones(3).sin()
if is_child: os._exit(0)
os.waitpid(child, 0)
"""
    cell = kernel.run(f"%%torchprof {flags}\nis_child = False\n{LOOP}{fork}")
    assert outcome(cell) == "ok"
    assert len(cell.static) == 1
    assert steps(kernel) == "[(2, True), (3, True), (4, True)]"
    assert sorted(path.name for path in tmp_path.glob("kept*")) == ["kept.json"]
    found = op_names(tmp_path / "kept.json")
    assert ("aten::mul" in found, "aten::sin" in found) == (True, False)
    assert_recovered(kernel)


@pytest.mark.slow
def test_row_21_two_ranks_write_one_file_each(tmp_path: Path) -> None:
    place = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [place | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)]
    with started(FIRST, **ranks[0]) as zero, started(FIRST, **ranks[1]) as one:
        kernels = (zero, one)
        where = f"init_method={(tmp_path / 'meet').as_uri()!r}, world_size=2"
        asked = [
            kernel.ask(f"torch.distributed.init_process_group('gloo', {where}, rank={rank})")
            for rank, kernel in enumerate(kernels)
        ]
        for kernel, message in zip(kernels, asked, strict=True):
            assert outcome(kernel.answer(message)) == "ok"
        flags = f"--trace-dir {shlex.quote(str(tmp_path / 'kept'))} --filename run.json"
        work = f"%%torchprof {flags}\n{LOOP}    torch.distributed.all_reduce(y)\n"
        asked = [kernel.ask(f"{work}    y.{own}()") for kernel, own in zip(kernels, ("cos", "sin"), strict=True)]
        for kernel, message in zip(kernels, asked, strict=True):
            cell = kernel.answer(message)
            assert (outcome(cell), len(cell.static)) == ("ok", 1)
        files = sorted((tmp_path / "kept").glob("run*"))
        assert [file.name for file in files] == ["run-rank0.json", "run-rank1.json"]
        assert [op_names(file) & {"aten::cos", "aten::sin"} for file in files] == [{"aten::cos"}, {"aten::sin"}]
        for kernel in kernels:
            assert_recovered(kernel)


def test_an_optimizer_that_steps_inside_backward_leaves_the_profiler_off(kernel: Kernel) -> None:
    """No row: torch undoes within backward() what is stopped there, and the profiler then stayed on for good."""
    kernel.run(
        "net = torch.nn.Linear(16, 16)\n"
        "optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in net.parameters()}\n"
        "def hook(p):\n    optimizers[p].step()\n    optimizers[p].zero_grad()\n"
        "for p in net.parameters():\n    p.register_post_accumulate_grad_hook(hook)\n"
        "def epoch():\n    for _ in range(8):\n        net(torch.ones(4, 16)).sum().backward()\n"
    )
    for _ in range(2):
        cell = kernel.run("%%torchprof -o report\nepoch()")
        assert cell.reply["status"] == "ok"
        found = "print(report.steps.height, report.ops.filter(name='aten::addmm')['calls'][0])"
        assert kernel.run(found).text == "1 8\n"
        assert "inside backward()" in kernel.run("print(*(problem.message for problem in report.problems))").text
    assert_recovered(kernel)
