"""Failures around a running cell, in a real kernel: rows 22 to 32 of docs/failures.md.

Each test checks what the user sees, what survives, and that the next cell is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from aftermath import LOOP, SETUP, assert_ended_well, assert_off_and_usable, problems
from amount import sampled, thorough
from kernels import Kernel, started

STEPS = "print(run.steps['number'].to_list(), run.steps['complete'].to_list())"
COUNTS = "print({n: c for n, c in run.ops[['name', 'calls']].rows()})"


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with started(SETUP) as found:
        yield found


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("for i in range(8):\n    work()\n    await asyncio.sleep(0)\nawait asyncio.sleep(0, 42)", "42"),
        ("async for i in items():\n    work()\nawait asyncio.sleep(0, i)", "7"),
    ],
)
def test_a_cell_that_awaits_runs_whole_and_is_recorded(kernel: Kernel, body: str, value: str) -> None:
    """Row 22: an async cell runs and shows its value."""
    kernel.run("async def items():\n    for i in range(8):\n        yield i\n")
    cell = kernel.run(f"%%torchprof -o run\n{body}")
    assert_ended_well(cell)
    assert cell.values == [value]
    assert kernel.run(STEPS).text == "[2, 3, 4] [True, True, True]\n"
    assert_off_and_usable(kernel)


def test_a_cell_that_cannot_be_awaited_does_not_even_begin(kernel: Kernel) -> None:
    """Row 22: below another magic, an async cell is refused before it runs."""
    kernel.run("ran = False")
    cell = kernel.run("%%time\n%%torchprof\nran = True\nawait asyncio.sleep(0)")
    assert cell.reply["ename"] == "UsageError"
    assert "put %%torchprof first" in cell.reply["evalue"]
    assert kernel.run("print(ran)").text == "False\n"
    assert_off_and_usable(kernel)


def test_ranges_of_tasks_that_take_turns_are_all_shown_and_said_to_overlap(kernel: Kernel) -> None:
    """Row 23: ranges of two tasks overlap without nesting; the shared time is in the self time of both."""
    body = """
turn = [asyncio.Event() for _ in range(4)]
async def first():
    with record_function("first"):
        work(); turn[0].set(); await turn[1].wait(); work()
    turn[2].set()
async def second():
    await turn[0].wait()
    with record_function("second"):
        work(); turn[1].set(); await turn[2].wait(); work()
await asyncio.gather(first(), second())
"""
    cell = kernel.run(f"%%torchprof --step cell -o run\n{body}")
    assert_ended_well(cell)
    said = problems(kernel)
    assert "chrome.partial_overlap Events partly overlap another event on the same thread" in said
    assert "self time of both in the table of ops" in said
    picked = "run.ops.filter(run.ops['kind'] == 'user_annotation').sort('name')[['name', 'calls', 'overlapping_calls']]"
    assert kernel.run(f"print({picked}.rows())").text == "[('first', 1, 0), ('second', 1, 1)]\n"
    assert "'aten::mul': 4" in kernel.run(COUNTS).text
    assert_off_and_usable(kernel)


def test_a_task_of_an_earlier_cell_is_named_as_not_of_this_cell(kernel: Kernel) -> None:
    """Row 24: a background task of another cell runs at the same time; the report names it, and it continues."""
    kernel.run("""
rounds = 0
async def background():
    global rounds
    while True:
        torch.ones(3).cos()
        rounds += 1
        await asyncio.sleep(0)
task = asyncio.create_task(background())""")
    cell = kernel.run("%%torchprof -o run\nfor i in range(8):\n    work()\n    await asyncio.sleep(0.002)")
    assert_ended_well(cell)
    said = problems(kernel)
    assert "capture.other_tasks The task background was started before this code and ran while it awaited" in said
    assert "Cancel the task, or let it finish" in said
    assert "aten::cos" in kernel.run(COUNTS).text
    assert kernel.run("before = rounds\nawait asyncio.sleep(0.01)\nprint(rounds > before)").text == "True\n"
    kernel.run("task.cancel()")
    assert_off_and_usable(kernel)


def test_compilation_in_a_recorded_step_is_said_with_how_long_it_took(kernel: Kernel) -> None:
    """Row 25: the first recorded step includes torch.compile; the report shows the time and what to do."""
    body = "f = torch.compile(lambda a: (a @ a).relu(), backend='eager')\n"
    body += "for i in range(4):\n    y = f(torch.ones(4, 4))\n"
    cell = kernel.run(f"%%torchprof --wait 0 --warmup 0 --active 3 -o run\n{body}y.sum().item()")
    assert_ended_well(cell)
    assert cell.values == ["64.0"]
    said = problems(kernel)
    assert "run.compiled torch.compile was compiling for " in said
    assert "add steps with --warmup or --skip-first" in said
    assert "torch.compile was compiling" in cell.static[0]
    assert "'aten::mm': " in kernel.run(COUNTS).text
    assert_off_and_usable(kernel)


def test_compilation_with_stacks_is_not_lost(kernel: Kernel) -> None:
    """Row 25: with stacks, torch writes names that it cannot read back; the trace is kept."""
    body = "f = torch.compile(lambda a: (a @ a).sin(), backend='aot_eager')\n"
    body += "for i in range(3):\n    y = f(torch.ones(4, 4))\n"
    cell = kernel.run(f"%%torchprof --stack --wait 0 --warmup 0 --active 2 -o run\n{body}")
    assert_ended_well(cell)
    said = problems(kernel)
    assert "run.compiled torch.compile was compiling for " in said
    assert "capture.not_saved" not in said
    assert "'aten::sin': " in kernel.run(COUNTS).text
    assert_off_and_usable(kernel)


@pytest.mark.parametrize("call", ["tp.step()", "p.step()"])
def test_a_step_within_a_compiled_function_counts_warns_and_leaves_the_numbers_alone(kernel: Kernel, call: str) -> None:
    """Row 26: step() in a compiled function causes graph breaks; results and steps are correct."""
    body = f"""
@torch.compile(backend="eager")
def f(a):
    b = a * 2
    {call}
    return b + 1
for i in range(6):
    r = f(torch.full((3,), 2.0))
"""
    if call == "tp.step()":
        cell = kernel.run(
            f"%%torchprof --step manual --wait 1 --warmup 1 --active 2 --repeat 1 -o run\n{body}r.tolist()"
        )
        assert_ended_well(cell)
    else:
        indented = body.replace("\n", "\n    ")
        cell = kernel.run(
            f"with tp.profile(wait=1, warmup=1, active=2, repeat=1) as p:{indented}\nrun = p.report\nr.tolist()"
        )
    assert cell.values == ["[5.0, 5.0, 5.0]"]
    assert "Dynamo does not know" not in cell.text
    said = problems(kernel)
    assert "capture.compiled_step step() is called in a function that torch.compile compiles" in said
    assert "Call step() outside the compiled function" in said
    assert kernel.run(STEPS).text == "[2, 3] [True, True]\n"
    assert "'aten::mul': 2" in kernel.run(COUNTS).text
    assert_off_and_usable(kernel)


def test_what_torch_writes_to_descriptor_2_is_not_in_the_cell_and_what_the_user_writes_is(kernel: Kernel) -> None:
    """Row 27: with --memory, the output has every line of the user and none of Kineto or the allocator."""
    body = """
blocks = [torch.ones(9) for _ in range(400)]
for i in range(12):
    work()
    blocks = blocks[30:]
    _ = os.write(2, f"by hand {i}\\n".encode())
print("by Python", file=sys.stderr)
"""
    cell = kernel.run(f"%%torchprof --memory --active 3 --repeat 2 -o run\n{body}")
    assert_ended_well(cell)
    # The end of a line may come after a line of the other stream.
    rest = cell.text
    for line in [*(f"by hand {number}" for number in reversed(range(12))), "by Python"]:
        assert line in rest
        rest = rest.replace(line, "", 1)
    assert rest.strip() == ""
    assert_off_and_usable(kernel)


def test_names_that_the_cell_takes_from_us_and_itself_change_nothing(kernel: Kernel) -> None:
    """Row 28: the cell redefines torch, tp, get_ipython and built-in functions."""
    spoil = "torch = tp = get_ipython = print = len = range = None\n'own value'"
    cell = kernel.run(f"%%torchprof -o run\n{LOOP}{spoil}")
    assert_ended_well(cell)
    assert cell.values == ["'own value'"]
    kernel.run(
        "import builtins as __builtins__\ndel print, len, range, get_ipython\nimport torch, torchprof_magic as tp"
    )
    assert kernel.run("run.steps['number'].to_list()").values == ["[2, 3, 4]"]
    assert_off_and_usable(kernel)


@pytest.mark.parametrize("flags", sampled(["", "--wait 0 --warmup 0 --repeat 1", "--memory --shapes --stack"], 2))
def test_warnings_that_are_errors_come_from_the_users_code_only(kernel: Kernel, flags: str) -> None:
    """Row 29: with simplefilter("error"), no warning of torch or this package ends the cell; the user's own does."""
    kernel.run("warnings.simplefilter('error')")
    cell = kernel.run(f"%%torchprof {flags} -o run\n{LOOP}'done'")
    assert_ended_well(cell)
    assert (cell.values, cell.text) == (["'done'"], "")
    assert kernel.run("print(run.steps.height, warnings.filters[0][0])").text == "3 error\n"
    cell = kernel.run(f"%%torchprof {flags} -o run\n{LOOP}warnings.warn('mine')")
    assert (cell.reply["ename"], cell.reply["evalue"]) == ("UserWarning", "mine")
    assert kernel.run("print(run.steps.height)").text == "3\n"
    kernel.run("warnings.resetwarnings()")
    assert_off_and_usable(kernel)


@pytest.mark.parametrize("last", sampled(["x.shape", "x", "x.shape;", "None", "y = x.shape"], 2))
def test_the_last_expression_is_displayed_as_without_the_magic(kernel: Kernel, last: str) -> None:
    """Row 30: the same Out, the same _, and display hooks of the user's own."""
    body = f"x = torch.ones(2, 3)\n{LOOP}{last}"
    show = "repr(_), get_ipython().displayhook.__class__.__name__"
    kernel.run("'before'")
    plain, after_plain = kernel.run(body), kernel.run(f"print({show})").text
    kernel.run("'before'")
    cell, after = kernel.run(f"%%torchprof\n{body}"), kernel.run(f"print({show})").text
    assert_ended_well(cell)
    assert (cell.values, after) == (plain.values, after_plain)
    assert_off_and_usable(kernel)


LIMITED = """
import resource
def limit(_profiler):
    pages = int(open('/proc/self/statm').read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf('SC_PAGE_SIZE') + 30_000_000, resource.RLIM_INFINITY))
"""
TOO_LARGE = f"""{LIMITED}
with tp.profile(on_trace_ready=limit) as p:
    for i in range(6000):
        work()
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
run = p.report
"""


@pytest.mark.skipif("sys.platform != 'linux'", reason="the addresses of a process can be limited on Linux alone")
def test_a_trace_that_is_too_large_to_analyse_is_kept_and_the_kernel_lives(kernel: Kernel) -> None:
    """Row 31: not enough memory to read the trace, which would kill the kernel; the raw file is kept."""
    kernel.run("with tp.profile():\n    work()")  # starts the threads of polars, which take addresses, too
    cell = kernel.run(TOO_LARGE)
    assert (cell.reply["status"], cell.of("error")) == ("ok", [])
    said = problems(kernel)
    assert "run.too_large cycle-0.pt.trace.json was saved, but is too large to analyse here: that takes about " in said
    assert "The trace is kept at " in said
    path = said.partition("The trace is kept at ")[2].partition(". Open it")[0]
    dropped = kernel.run(
        "from torchprof_magic.runs import this_process\nfrom torchprof_magic.run import cleanup\nimport gc\n"
        "del run, p; this_process._reports.clear(); gc.collect(); cleanup.sweep(); print(tp.last)"
    )
    assert dropped.text == "None\n"
    opened = kernel.run(f"found = tp.load({path!r})\nprint({{n: c for n, c in found.ops[['name', 'calls']].rows()}})")
    assert "'aten::mul': 6000" in opened.text
    assert_off_and_usable(kernel)


@pytest.mark.skipif("sys.platform != 'linux'", reason="the addresses of a process can be limited on Linux alone")
@thorough
def test_a_trace_is_kept_where_the_threads_of_polars_do_not_fit() -> None:
    """Row 31: a limit of addresses in which polars would abort the kernel; the cell keeps its result."""
    with started(SETUP) as fresh:
        limited = LIMITED.replace("30_000_000", "300_000_000")
        cell = fresh.run(f"%%torchprof --step cell\n{limited}work()\nlimit(None)\n'mine'")
        fresh.run("resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))")
        assert (cell.reply["status"], cell.of("error")) == ("ok", [])
        assert cell.values == ["'mine'"]
        said = cell.text
        assert "The report could not be made (MemoryError: it takes about " in said
        command = "%torchprof load " + said.partition("Open it with: %torchprof load ")[2].strip()
        fresh.run(command)
        assert "'aten::mul': 1" in fresh.run("print({n: c for n, c in tp.last.ops[['name', 'calls']].rows()})").text
        assert_off_and_usable(fresh)


def test_memory_that_runs_out_while_the_report_is_made_is_said_with_where_the_trace_is(kernel: Kernel) -> None:
    """Row 31: a MemoryError in the middle of the analysis; the cell keeps its result, the file stays."""
    kernel.run("""
import torchprof_magic.run.recorded_trace as reading
real = reading.read_chrome
def fail(*_, **__): raise MemoryError
""")
    cell = kernel.run(
        "%%torchprof -o run\nreading.read_chrome = lambda paths, *rest, **more: "
        f"real(paths, *rest, **more) if isinstance(paths[0], bytes) else fail()\n{LOOP}'mine'"
    )
    kernel.run("reading.read_chrome = real")
    assert_ended_well(cell)
    assert cell.values == ["'mine'"]
    said = problems(kernel)
    assert "too large to analyse here: memory ran out" in said
    path = said.partition("The trace is kept at ")[2].partition(". Open it")[0]
    assert kernel.run(f"print(tp.load({path!r}).steps.height)").text == "3\n"
    assert_off_and_usable(kernel)


# Each block allocates new memory: memory that the process has free already would not make it grow.
BALLAST = """
import mmap
ballast, full = [], b"x" * 8_000_000
for i in range(40):
    work()
    ballast.append(mmap.mmap(-1, len(full), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    ballast[-1].write(full)
"""


def test_a_recording_that_takes_too_much_ends_with_its_step_and_the_loop_goes_on(kernel: Kernel) -> None:
    """Row 32: the budget ends the recording before the system ends the kernel."""
    cell = kernel.run(f"%%torchprof --wait 0 --warmup 1 --active 30 --budget 400MB -o run\n{BALLAST}len(ballast)")
    assert_ended_well(cell)
    assert cell.values == ["40"]
    said = problems(kernel)
    assert "capture.budget Recording stopped after step " in said
    assert "(budget 400 MB)" in said
    assert "or raise --budget" in said
    assert "Recording stopped after step " in cell.static[0]
    steps = int(kernel.run("print(run.steps.height)").text)
    # Ending takes 8 times the growth, so that is a bit more than 6 steps of 8 MB; other allocations add some noise.
    assert 3 <= steps <= 9
    assert kernel.run("print(run.steps['complete'].all())").text == "True\n"
    assert_off_and_usable(kernel)


def test_a_cycle_that_takes_too_much_ends_and_later_ones_leave_out_python_calls_then_shapes(kernel: Kernel) -> None:
    """Row 32: with further cycles, details are omitted before recording stops."""
    flags = "--wait 0 --warmup 1 --active 9 --repeat 0 --stack --shapes --budget 240MB -o run"
    cell = kernel.run(f"%%torchprof {flags}\n{BALLAST}len(ballast)")
    assert_ended_well(cell)
    assert cell.values == ["40"]
    said = problems(kernel)
    assert [said.count(code) for code in ("capture.degraded", "capture.budget ")] == [2, 1]
    assert "Later cycles leave out Python calls (--stack)." in cell.static[0]
    assert "Later cycles leave out Python calls (--stack) and shapes (--shapes)." in cell.static[0]
    found = kernel.run(
        "events = run.trace.events\nprint([(n, 'python_function' in c['category'].to_list(), "
        "c['shapes'].null_count() < c.height) for n in run.cycles for c in [events.filter(events['cycle'] == n)]])"
    )
    assert found.text == "[(0, True, True), (1, False, True), (2, False, False)]\n"
    assert kernel.run("print(run.steps['complete'].all())").text == "True\n"
    assert_off_and_usable(kernel)


def test_a_recording_that_lasts_too_long_ends_with_its_step(kernel: Kernel) -> None:
    """Row 32: a budget of time counts the recorded steps alone."""
    body = "import time\nfor i in range(8):\n    work()\n    time.sleep(0.06)\ni"
    cell = kernel.run(f"%%torchprof --wait 1 --warmup 1 --active 5 --budget 1GB,0.05s -o run\n{body}")
    assert_ended_well(cell)
    assert cell.values == ["7"]
    said = problems(kernel)
    assert "capture.budget Recording stopped after step 2: recording took " in said
    assert "(budget 50 ms)" in said
    assert kernel.run(STEPS).text == "[2] [True]\n"
    assert_off_and_usable(kernel)


def test_the_users_exception_comes_first_when_the_budget_is_spent_too(kernel: Kernel) -> None:
    """Row 32: an exception in the cell is shown, whatever happens to the recording."""
    body = f"{BALLAST}    if i == 20: raise MemoryError('CUDA out of memory')\n"
    cell = kernel.run(f"%%torchprof --wait 0 --warmup 1 --active 30 --budget 400MB -o run\n{body}")
    assert (cell.reply["ename"], cell.reply["evalue"]) == ("MemoryError", "CUDA out of memory")
    assert len(cell.of("error")) == 1
    assert len(cell.static) == 1
    assert "capture.budget Recording stopped after step " in problems(kernel)
    assert_off_and_usable(kernel)
