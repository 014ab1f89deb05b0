"""Cells behave under the magic as without it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from IPython.core.displayhook import DisplayHook
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import output_can_be_silenced
from kernels import started

from torchprof_magic.capture import CaptureSession, busy_profiler, switch_off
from torchprof_magic.ipython.cell import CompiledCell, compile_cell, run_cell
from torchprof_magic.model.errors import OptionsError, ProfilerBusyError
from torchprof_magic.options import ProfileOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from IPython.core.interactiveshell import ExecutionResult
    from kernels import Kernel

STEP = "import torch\nfor i in range(7):\n    torch.ones(3).sum()\n"


class Runs:
    """Runs cells under a minimal magic, ``%%prof [--step value]``, and keeps the compiled cells and recordings."""

    def __init__(self, shell: InteractiveShell, folder: Path) -> None:
        self.shell = shell
        self.folder = folder
        self.compiled: CompiledCell | None = None
        self.session: CaptureSession | None = None
        shell.register_magic_function(self.prof, "cell", "prof")

    @output_can_be_silenced
    def prof(self, line: str, cell: str) -> object:
        __tracebackhide__ = True
        self.compiled = compile_cell(self.shell, cell, step=line.strip() or "auto")
        stepping = self.compiled.plan.stepping
        session = self.session = CaptureSession(ProfileOptions(), stepping=stepping, folder=self.folder)
        try:
            return run_cell(self.shell, self.compiled, session)
        finally:
            session.release()

    def __call__(self, cell: str) -> ExecutionResult:
        return self.shell.run_cell(cell, store_history=True)

    def traceback_lines(self, result: ExecutionResult) -> list[str]:
        """Return the ``Cell In[n], line k`` labels of the error's traceback."""
        error = result.error_in_exec
        assert error is not None
        shown = self.shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
        text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(shown))
        return re.findall(r"Cell In\[\d+\], line \d+", text)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.run_cell("1", store_history=True)
    yield Runs(shell, tmp_path)
    InteractiveShell.clear_instance()
    assert busy_profiler() is None


def test_value_of_the_last_expression_is_the_result(runs: Runs) -> None:
    assert runs("%%prof\nx = 20\nx + 22").result == 42
    assert runs.shell.user_ns["_"] == 42


def test_semicolon_silences_the_value(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    monkeypatch.setattr(DisplayHook, "write_format_data", lambda _self, data, _md=None: shown.append(data))
    runs("%%prof\n43")
    runs("%%prof\n44;")
    assert [data["text/plain"] for data in shown] == ["43"]  # type: ignore[index]


def test_statement_at_the_end_has_no_value(runs: Runs) -> None:
    assert runs("%%prof\nx = 1").result is None


def test_interactivity_setting_is_honoured(runs: Runs) -> None:
    runs.shell.ast_node_interactivity = "last_expr_or_assign"
    assert runs("%%prof\nx = 5").result == 5
    runs.shell.ast_node_interactivity = "none"
    assert runs("%%prof\n5").result is None


def test_variables_are_kept_and_the_helper_is_removed(runs: Runs) -> None:
    before = set(runs.shell.user_ns)
    runs("%%prof\nseen = [name for name in get_ipython().run_line_magic('who_ls', '')]\n" + STEP)
    assert set(runs.shell.user_ns) - before == {"seen", "torch", "i", "_i", "_ii", "_iii", "_i2"} - before
    assert not any("torchprof" in name for name in runs.shell.user_ns["seen"])


def test_helper_is_removed_after_an_error_too(runs: Runs) -> None:
    runs("%%prof\nfor i in range(3):\n    1 / 0")
    assert not any("torchprof" in name for name in runs.shell.user_ns)


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        ("%%prof\nfor i in range(3):\n    a = 1\n    1 / 0\n", 4),
        ("%%prof\n\n\nfor i in range(3):\n    1 / 0\n", 5),
        ("%%prof\n1 / 0", 2),
        ("%%time\n%%prof\nfor i in range(3):\n    1 / 0\n", 4),
        ("%%prof\ns = '''\n%%not a magic\n'''\nwhile True:\n    1 / 0\n", 6),
        ("%%prof cell\ndef f():\n    1 / 0\nf()\n", 3),
    ],
)
def test_error_names_the_line_of_the_visible_cell(runs: Runs, cell: str, line: int) -> None:
    result = runs(cell)
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    number = runs.shell.execution_count - 1
    assert runs.traceback_lines(result)[-1] == f"Cell In[{number}], line {line}"


def test_frames_of_this_package_are_not_in_the_traceback(runs: Runs) -> None:
    result = runs("%%prof\nfor i in range(3):\n    1 / 0\n")
    error = result.error_in_exec
    assert error is not None
    shown = "\n".join(runs.shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__))
    assert "torchprof_magic" not in shown


def test_exception_object_is_the_users_own_and_the_recording_is_kept(runs: Runs) -> None:
    runs.shell.user_ns["error"] = error = LookupError("mine")
    result = runs("%%prof\nimport torch\nfor i in range(7):\n    torch.ones(3).sum()\n    if i == 3: raise error\n")
    assert result.error_in_exec is error
    assert runs.session is not None
    assert runs.session.recording is not None
    assert runs.session.recording.ended_in == "active"
    assert len(runs.session.recording.cycles) == 1


def test_system_exit_passes_and_the_recording_is_kept(runs: Runs) -> None:
    with pytest.warns(UserWarning, match="To exit"):
        result = runs("%%prof\n" + STEP + "raise SystemExit(3)")
    assert isinstance(result.error_in_exec, SystemExit)
    assert runs.session is not None
    assert runs.session.recording is not None
    assert runs.session.recording.ended_in == "done"


def test_ipython_syntax_works_in_the_body(runs: Runs) -> None:
    assert runs("%%prof\nwords = !echo hello\n%precision 3\nwords[0]").result == "hello"


def test_users_ast_transformers_are_applied(runs: Runs) -> None:
    import ast  # noqa: PLC0415 - used here only

    class Double(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.Constant:
            return ast.copy_location(ast.Constant(node.value * 2), node) if node.value == 21 else node

    runs.shell.ast_transformers.append(Double())
    assert runs("%%prof cell\n21").result == 42


def test_source_of_functions_in_the_cell_can_be_read(runs: Runs) -> None:
    result = runs("%%prof\nimport inspect\nfor i in range(1): pass\ndef f():\n    return 7\ninspect.getsource(f)")
    assert result.result == "def f():\n    return 7\n"


def test_syntax_error_is_an_ordinary_one(runs: Runs) -> None:
    assert isinstance(runs("%%prof\nfor for").error_in_exec, SyntaxError)


def test_top_level_await_is_refused_before_anything_runs(runs: Runs) -> None:
    result = runs("%%prof\nran = True\nawait something")
    assert isinstance(result.error_in_exec, OptionsError)
    assert "with tp.profile() as p" in str(result.error_in_exec)
    assert "ran" not in runs.shell.user_ns


def test_nested_magic_is_refused_before_its_cell_runs(runs: Runs) -> None:
    result = runs("%%prof\nget_ipython().run_cell_magic('prof', '', 'inner_ran = True')")
    assert isinstance(result.error_in_exec, ProfilerBusyError)
    assert "inner_ran" not in runs.shell.user_ns


def test_busy_profiler_is_refused_before_the_cell_runs(runs: Runs) -> None:
    runs("import torch\np = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])\np.start()")
    result = runs("%%prof\nran = True")
    assert isinstance(result.error_in_exec, ProfilerBusyError)
    assert "ran" not in runs.shell.user_ns
    assert switch_off()
    assert runs("%%prof\nran = True\nran").result is True


def test_cell_source_is_what_the_report_needs(runs: Runs) -> None:
    runs("%%prof\n" + STEP)
    assert runs.compiled is not None
    source, plan = runs.compiled.source, runs.compiled.plan
    assert source.label == f"In [{runs.shell.execution_count - 1}]"
    assert source.source == "%%prof\n" + STEP.rstrip("\n")
    assert source.source.splitlines()[(plan.line or 0) - 1] == plan.code == "for i in range(7):"


def test_last_statement_may_redefine_torch(runs: Runs) -> None:
    runs("%%prof\n" + STEP + "torch = None")
    assert runs.session is not None
    assert runs.session.recording is not None
    assert runs.session.recording.ended_in == "done"


def test_run_counts_the_steps_of_the_loop(runs: Runs) -> None:
    runs("%%prof\n" + STEP)
    assert runs.session is not None
    recording = runs.session.recording
    assert recording is not None
    assert [mark.number for mark in recording.cycles[0].steps] == [2, 3, 4]


# -- in a real kernel ---------------------------------------------------------------------------------------------

KERNEL_SETUP = """
from pathlib import Path
import tempfile
from torchprof_magic.capture import CaptureSession, busy_profiler
from torchprof_magic.ipython.cell import compile_cell, run_cell
from torchprof_magic.options import ProfileOptions
def prof(line, cell):
    __tracebackhide__ = True
    global session
    shell = get_ipython()
    compiled = compile_cell(shell, cell)
    session = CaptureSession(ProfileOptions(), stepping=compiled.plan.stepping)
    try:
        return run_cell(shell, compiled, session)
    finally:
        session.release()
get_ipython().register_magic_function(prof, "cell", "prof")
import torch, torch._inductor.config
"""
ENDLESS = """%%prof
import time
for step in range(10**9):
    torch.ones(3).sum()
    if step == 20: print("running", flush=True)
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with started(KERNEL_SETUP, is_new=True) as kernel:
        yield kernel


def test_interrupt_in_a_kernel_ends_the_cell_and_keeps_the_recording(kernel: Kernel) -> None:
    cell = kernel.run(ENDLESS, interrupt_at="running")
    assert (cell.reply["status"], cell.reply["ename"]) == ("error", "KeyboardInterrupt")
    state = kernel.run("print(session.recording.ended_in, len(session.recording.cycles), busy_profiler())")
    assert state.text == "done 1 None\n"
    again = kernel.run("%%prof\ntorch.ones(3).sum()\nlen('again')")
    assert (again.reply["status"], again.values) == ("ok", ["5"])


def test_error_in_a_kernel_makes_the_reply_an_error(kernel: Kernel) -> None:
    cell = kernel.run("%%prof\nfor i in range(3):\n    1 / 0")
    assert (cell.reply["status"], cell.reply["ename"]) == ("error", "ZeroDivisionError")


def test_nothing_but_the_users_output_is_in_the_cell(kernel: Kernel) -> None:
    cell = kernel.run("%%prof\nfor i in range(7):\n    torch.ones(3).sum()\n'only this'")
    assert cell.reply["status"] == "ok"
    assert [message["msg_type"] for message in cell.messages] == ["status", "execute_input", "execute_result"]
    assert cell.values == ["'only this'"]
