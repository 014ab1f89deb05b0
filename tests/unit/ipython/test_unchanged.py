"""Under the magic, a cell shows what it shows without it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

import torchprof_magic as tp
from torchprof_magic.capture import CaptureSession
from torchprof_magic.ipython import extension
from torchprof_magic.runs import this_process

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOP = "for i in range(8):\n    y = torch.ones(3).sum()\n"


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    InteractiveShell.clear_instance()
    found = InteractiveShell.instance()
    found.push({"torch": torch, "tp": tp})
    extension.load(found)
    yield found
    extension.unload(found)
    InteractiveShell.clear_instance()


def test_a_warning_that_is_shown_once_is_shown_once(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(
        "warnings.filters", [("error", None, SyntaxWarning, None, 0), ("default", None, Warning, None, 0)]
    )
    monkeypatch.setattr("warnings.showwarning", lambda message, *_, **__: shown.append(str(message)))
    shell.run_cell("import warnings\ndef f():\n    warnings.warn('mine')\n")
    for flags in ("", "%%torchprof -q --memory\n"):
        shown.clear()
        shell.run_cell(f"{flags}{LOOP}    f()\n")
        assert shown.count("mine") <= 1
    shell.run_cell(f"%%torchprof -q\ndef g():\n    warnings.warn('ours')\n{LOOP}    g()\n")
    assert shown.count("ours") == 1


@pytest.mark.parametrize("body", ["for i in range(3) print(i)", "return 5", "await = 3", "x = (1,\n"])
def test_a_syntax_error_is_shown_as_without_the_magic(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], body: str
) -> None:
    shell.run_cell(f"\nx = 1\n{body}")
    plain = capsys.readouterr()
    result = shell.run_cell(f"%%torchprof -q\nx = 1\n{body}")
    said = capsys.readouterr()
    assert isinstance(result.error_before_exec or result.error_in_exec, SyntaxError)
    lines = said.out.splitlines() + said.err.splitlines()
    assert not any("torchprof_magic" in line or "run_cell_magic" in line for line in lines)
    assert lines[1:] == (plain.out.splitlines() + plain.err.splitlines())[1:]


@pytest.mark.parametrize(
    "line", ["%reset -f", "for name in [n for n in globals() if n[0] == '_']: del globals()[name]"]
)
def test_a_cell_may_empty_its_namespace(shell: InteractiveShell, line: str) -> None:
    gc.freeze()  # what there is, because IPython collects twice in each reset, and looks at all objects of all tests
    error = shell.run_cell(
        f"%%torchprof -q\nfor i in range(8):\n    {line}\n    import torch; torch.ones(3).sum()"
    ).error_in_exec
    assert error is None
    report = this_process.last()
    assert report is not None
    assert report.steps["complete"].to_list() == [True] * 3


@pytest.mark.parametrize("flags", ["--active 1", "--repeat 2", "--wait 0", "--active 2 --repeat 0"])
@pytest.mark.parametrize("cell", ["y = torch.ones(3).sum()", "y = 1"])
def test_a_cell_that_is_one_step_is_recorded_with_any_schedule(shell: InteractiveShell, flags: str, cell: str) -> None:
    shell.run_cell(f"%%torchprof -q {flags}\n{cell}")
    report = this_process.last()
    assert report is not None
    assert report.steps.height == 1
    assert "capture.nothing_recorded" not in [problem.code for problem in report.problems]


def test_an_optimizer_on_another_thread_is_no_step_and_no_problem(shell: InteractiveShell) -> None:
    shell.run_cell(
        "%%torchprof -q --step optimizer\nimport threading\n"
        "def train():\n    w = torch.ones(2, requires_grad=True)\n    w.sum().backward(); torch.optim.SGD([w]).step()\n"
        "t = threading.Thread(target=train); t.start(); t.join(); torch.ones(3).sum()"
    )
    report = this_process.last()
    assert report is not None
    assert "capture.other_thread" not in [problem.code for problem in report.problems]


def test_a_cell_can_add_metadata_to_its_recording(shell: InteractiveShell) -> None:
    shell.run_cell(
        "%%torchprof -q\n"
        "for number in range(5):\n    torch.ones(3).sum()\n    tp.add_metadata('last', {'step': number})\n"
        "tp.add_metadata('note', 'done')"
    )
    assert tp.last is not None
    assert tp.last.metadata.items() >= {"last": '{"step": 4}', "note": "done"}.items()


@pytest.mark.parametrize(
    ("cell", "plain"),
    [
        ("%torchprof x=", "x="),
        ("a = 1\n%torchprof -q --memory x = (1,", "a = 1\nx = (1,"),
        ("if True:\n    %torchprof 1 +", "if True:\n    1 +"),
        ("é = 1\ny = %torchprof 5 5", "é = 1\ny = 5 5"),
        ("%torchprof for i in range(3) print(i)", "for i in range(3) print(i)"),
        ("%torchprof return 5", "return 5"),
        ("%torchprof await = 3\n%torchprof -q 1 + 1", "await = 3\n%torchprof -q 1 + 1"),
    ],
)
def test_a_syntax_error_in_a_statement_is_shown_as_without_the_magic(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], cell: str, plain: str
) -> None:
    shell.run_cell(plain)
    expected = capsys.readouterr()
    result = shell.run_cell(cell)
    said = capsys.readouterr()
    assert isinstance(result.error_before_exec, SyntaxError)
    assert (said.out, said.err) == (expected.out, expected.err)


def test_a_statement_that_is_wrong_only_under_the_magic_is_not_run_without_it(shell: InteractiveShell) -> None:
    result = shell.run_cell("def f():\n    %torchprof -q return 5\nf()")
    assert isinstance(result.error_in_exec, SyntaxError)


@pytest.mark.parametrize("line", ["save a b", "dance now", "--wat x", "last", "load"])
def test_commands_and_wrong_flags_are_no_syntax_errors(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    shell.run_cell(f"%torchprof {line}")
    said = capsys.readouterr()
    assert "SyntaxError" not in said.out + said.err


@pytest.mark.parametrize(
    ("name", "says"),
    [
        *(
            (name, "Python itself uses names like this")
            for name in ("__builtins__", "__name__", "__x__", "＿＿doc＿＿")
        ),
        *(
            (name, "IPython itself uses this name")
            for name in ("In", "Out", "_", "__", "___", "_i", "_12", "_i3", "_oh")
        ),
        *((name, "IPython itself uses this name") for name in ("get_ipython", "exit", "quit", "_dh", "_ih", "_ii")),
        *((name, f"this would replace Python's {name}") for name in ("print", "len", "open", "ValueError", "type")),
        *((name, "needs a valid variable name") for name in ("None", "class", "1x", "a.b", "x y", "ﬁnally")),
    ],
)
def test_a_report_does_not_replace_what_python_or_ipython_need(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], name: str, says: str
) -> None:
    shell.push({"ran": False})
    before = dict(shell.user_ns)
    for cell in (
        f"%%torchprof -q -o '{name}'\nran = True",
        f"%torchprof -q -o '{name}' ran",
        f"%torchprof load x -o '{name}'",
    ):
        shell.run_cell(cell)
        assert says in capsys.readouterr().err
    assert shell.user_ns == before


def test_the_name_of_a_report_is_what_python_makes_of_it(shell: InteractiveShell) -> None:
    shell.run_cell("%%torchprof -q -o ﬁrst\ny = torch.ones(3).sum()")  # with a ligature, which Python takes apart
    assert shell.run_cell("first.steps").error_in_exec is None


@pytest.mark.parametrize("terms", [100, 800])
def test_a_cell_that_is_nested_too_deeply_to_be_rewritten_runs(shell: InteractiveShell, terms: int) -> None:
    total = "+".join(["1"] * terms)
    result = shell.run_cell(f"%%torchprof -q\nx = {total}\n{LOOP}x")
    assert (result.result, result.error_in_exec, result.error_before_exec) == (terms, None, None)
    report = this_process.last()
    assert report is not None
    assert report.ops.height > 0


def test_a_cell_runs_and_says_so_where_torchprof_fails_before_it(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ArithmeticError("no such option")

    monkeypatch.setattr("torchprof_magic.ipython.magics.profile_options", fail)
    result = shell.run_cell(f"%%torchprof -q\n{LOOP}int(y)")
    assert (result.result, result.error_in_exec) == (3, None)
    assert "runs without a recording, because torchprof failed (ArithmeticError: no such option)" in (
        capsys.readouterr().out
    )


def test_an_error_of_a_cell_that_is_not_recorded_is_that_of_the_cell(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchprof_magic.ipython.magics.profile_options", lambda _: 1 / 0)
    result = shell.run_cell("%%torchprof -q\nx = 1\n{}['mine']")
    assert isinstance(result.error_in_exec, KeyError)
    assert "torchprof_magic" not in capsys.readouterr().out.partition("KeyError")[2]


@pytest.mark.parametrize("flags", ["", "--preset quick", "--memory", "--lines", "--stack --snapshot"])
def test_nothing_of_a_run_stays_in_memory_after_its_cell(shell: InteractiveShell, flags: str) -> None:
    def sessions() -> int:
        gc.collect()
        return sum(type(one) is CaptureSession for one in gc.get_objects())

    shell.run_cell(f"%%torchprof -q {flags}\n{LOOP}")
    before = sessions()
    for _ in range(3):
        shell.run_cell(f"%%torchprof -q {flags}\n{LOOP}")
    assert sessions() < before + 3  # the last one may still be held
