"""Under the magic, a cell shows what it shows without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

import torchprof_magic as tp
from torchprof_magic.history import this_process
from torchprof_magic.ipython import extension

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
