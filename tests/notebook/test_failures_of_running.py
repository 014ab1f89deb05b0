"""Failures of recorded cells while they run, in a real kernel: rows 10 to 21 of docs/failures.md.

Each test checks what the user sees and what survives, and ends with ``assert_recovered``: the profiler is off, and the
next cell is recorded as usual. Only one variant of row 11 needs a GPU.
"""

from __future__ import annotations

import html
import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from amount import thorough
from kernels import Kernel, started
from recovering import (
    FIRST,
    LOOP,
    assert_recovered,
    let_torch_finish_talking,
    notes,
    op_names,
    ops,
    outcome,
    steps,
    warned,
)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with started(FIRST, TMPDIR=str(tmp_path_factory.mktemp("runs"))) as found:
        yield found


# -- other profilers ----------------------------------------------------------------------------------------------


def test_row_10_a_magic_within_a_recorded_cell(kernel: Kernel) -> None:
    nested = "    if i == 3: get_ipython().run_cell_magic('torchprof', '', 'inner = 1')"
    cell = kernel.run(f"%%torchprof\n{LOOP}{nested}")
    assert outcome(cell) == "UsageError"
    assert "torchprof is already recording. Recordings cannot be nested" in cell.reply["evalue"]
    assert kernel.run("print('inner' in globals())").text == "False\n"
    assert steps(kernel) == "[(2, True), (3, False)]"
    assert_recovered(kernel)


def test_row_10_a_cell_that_catches_the_refusal_is_recorded_whole(kernel: Kernel) -> None:
    nested = "    try:\n        with tp.profile(): inner = 1\n    except tp.ProfilerBusyError: refused = i\n"
    kernel.run("import torchprof_magic.model.errors")
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
    let_torch_finish_talking(kernel)
    cell = kernel.run(f"%%torchprof\nran = True\n{LOOP}")
    assert outcome(cell) == "UsageError"
    assert who in cell.reply["evalue"]
    assert "%torchprof off" in cell.reply["evalue"]
    assert kernel.run("torch.ones(3).cos(); print(ran)").text == "False\n"
    assert "True\n" in kernel.run(stop).text  # torch's own log line may come before it
    let_torch_finish_talking(kernel)
    assert_recovered(kernel)


def test_row_11_a_profiler_that_nobody_can_stop_is_switched_off(kernel: Kernel) -> None:
    kernel.run("torch.profiler.profile().start()")
    let_torch_finish_talking(kernel)
    assert outcome(kernel.run(f"%%torchprof\n{LOOP}")) == "UsageError"
    assert "The running profiler was stopped.\n" in kernel.run("%torchprof off").text
    let_torch_finish_talking(kernel)
    assert_recovered(kernel)


def test_row_12_the_cell_uses_a_profiler_of_its_own(kernel: Kernel) -> None:
    own = "    if i == 3:\n        with torch.profiler.profile() as own: torch.ones(3).cos()\n"
    cell = kernel.run(f"%%torchprof\n{LOOP}{own}")
    assert outcome(cell) == "ok"
    assert warned(
        cell, "Another profiler started at step 3 and ended this recording: what was recorded before is kept."
    )
    let_torch_finish_talking(kernel)
    assert steps(kernel) == "[(2, True), (3, False)]"
    assert "aten::mul" in ops(kernel)
    assert kernel.run("print('aten::cos' in [e.name for e in own.events()])").text == "True\n"
    assert_recovered(kernel)


# -- missing and unexpected steps -----------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", ["--wait 1 --warmup 1 --active 2", "--wait 0 --warmup 1 --active 3"])
def test_row_13_step_is_never_called(kernel: Kernel, flags: str) -> None:
    cell = kernel.run(f"%%torchprof --step manual {flags}\n{LOOP}")
    assert outcome(cell) == "ok"
    assert warned(cell, "No step was recorded, because step() was never called.")
    assert warned(cell, "Call step() at the end of every step, or use --step auto.")
    assert_recovered(kernel)


def test_row_13_step_is_never_called_in_a_with_block(kernel: Kernel) -> None:
    kernel.run(f"with tp.profile(wait=1, warmup=1, active=2) as p:\n    {LOOP.replace(chr(10), chr(10) + '    ')}")
    assert notes(kernel) == ["No step was recorded, because step() was never called."]
    assert_recovered(kernel)


@pytest.mark.parametrize(
    ("flags", "words", "kept"),
    [
        ("--wait 2 --warmup 6 --active 2", "the run ended during the warm-up, after 3 of 10 steps.", "[]"),
        ("--wait 1 --warmup 1 --active 8", "Partial: 1 of 8 steps are complete. The run ended while", "[(2, True)]"),
    ],
)
def test_row_14_the_schedule_is_longer_than_the_loop(kernel: Kernel, flags: str, words: str, kept: str) -> None:
    cell = kernel.run(f"%%torchprof {flags}\n{LOOP.replace('range(8)', 'range(3)')}")
    assert outcome(cell) == "ok"
    assert warned(cell, words)
    assert steps(kernel) == kept
    assert_recovered(kernel)


@pytest.mark.parametrize(
    ("flags", "body", "kept"),
    [
        ("", "pass", "[(0, True)]"),
        ("", "for i in range(8): pass", "[(0, True)]"),
        (" --step loop", "for i in range(8): pass", "[(2, True), (3, True), (4, True)]"),
    ],
)
def test_row_15_no_torch_op_runs(kernel: Kernel, flags: str, body: str, kept: str) -> None:
    cell = kernel.run(f"%%torchprof{flags}\n{body}")
    assert (outcome(cell), cell.text) == ("ok", "")
    (static,) = cell.static
    # On a busy machine an empty step can take so long that the verdict says where its time went.
    for shown in (notes(kernel), html.unescape(static)):
        assert "No torch operation ran in the recorded steps." in shown
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

UNSEEN = "Their ops were not recorded."


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
    assert "cannot be combined" in refused.reply["evalue"]
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
        "A DataLoader used worker processes. Their work is not recorded, only the time spent waiting for them."
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


@thorough
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
