"""Names from a file, a folder or another program cannot take control of a terminal, whatever prints them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from IPython.core.interactiveshell import InteractiveShell
from support import allocation, annotation, chrome, frame, kernel, launch, span

import torchprof_magic as tp
from torchprof_magic.__main__ import main
from torchprof_magic.capture.checks import doctor
from torchprof_magic.ingest import read_chrome
from torchprof_magic.ipython import commands
from torchprof_magic.ipython.extension import load, unload
from torchprof_magic.model import errors
from torchprof_magic.model.meta import CellSource, Problem, Stepping
from torchprof_magic.model.units import printable, printable_lines
from torchprof_magic.render import widget
from torchprof_magic.render.display import show
from torchprof_magic.report.trace_report import Report
from torchprof_magic.run import messages
from torchprof_magic.runs import this_process
from torchprof_magic.store.upload import UploadStatus
from torchprof_magic.system.files.redaction import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Colours, a window title, C1, a carriage return over the line, deletion, right-to-left overrides and isolates.
HOSTILE = "\x1b[31mred\x1b]0;title\x07\x9b2J\r\b\x7f\u202eright\u2066left\u200b\u2028\x00\ue000end"
# A name of a file holds no NUL, and no slash.
HOSTILE_NAME = HOSTILE.replace("\x00", "")


def assert_printable(text: str) -> None:
    """Assert that a text holds lines of printable characters and nothing else."""
    bad = {char for char in text if not (char.isprintable() or char == "\n")}
    assert not bad, f"{bad} in {text!r}"


def report(name: str = HOSTILE) -> Report:
    """Return a report in which every text is hostile."""
    text = chrome(
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 1, "args": {"name": name}},
        {"ph": "M", "name": "process_name", "pid": 7, "tid": 1, "args": {"name": name}},
        annotation("ProfilerStep#2", 0, 100),
        annotation(name, 1, 98),
        frame(name, 2, 80),
        span(name, 5, 60),
        span(f"{name}2", 70, 20),
        launch(10, 2, correlation=1),
        kernel(name, 20, 70, correlation=1),
        allocation(12, 512, 512),
        deviceProperties=[{"id": 0, "name": name}],
        PT_VERSION=name,
        mine=name,
        **{f"my {name}": name},
    )
    found = read_chrome([text])
    problems = tuple(
        Problem(code="file.odd", severity=severity, count=2, message=f"lost {name}", fix=f"do {name}")
        for severity in ("info", "warning", "data_loss")
    )
    meta = replace(
        found.meta,
        title=name,
        torch_version=name,
        backend=name,
        device_names=(name,),
        cell=CellSource(label=name, filename=name, source=name),
        stepping=Stepping(how=name, line=3, code=name),
        extra=((name, name),),
    )
    memory = found.memory.with_columns(device=pl.lit(name).cast(found.memory.schema["device"]))
    return Report(replace(found, meta=meta, memory=memory, problems=problems))


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(this_process, "_reports", [])
    monkeypatch.setattr(this_process, "_entries", type(this_process._entries)(maxlen=3))
    yield
    while widget._open:
        widget._open[0].close()


def widget_text(report: Report) -> str:
    bundle: Any = report.widget._repr_mimebundle_()
    return str((bundle[0] if isinstance(bundle, tuple) else bundle)["text/plain"])


OUTPUTS: dict[str, Callable[[Report], str]] = {
    "summary": lambda report: report.summary(),
    "json summary": lambda report: report.summary("json"),
    "repr": repr,
    "verdict": lambda report: f"{report.verdict} {report.verdict!r}",
    "problems": lambda report: " ".join(f"{one} {one.message} {one.fix}" for one in report.problems),
    "widget": lambda report: repr(report.widget),
    "widget as text": widget_text,
    "static copy": lambda report: report._repr_html_(),
    "cycle": lambda report: repr(report.cycle(0)),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_text_of_a_report_is_printable(name: str) -> None:
    text = OUTPUTS[name](report())
    assert_printable(text)
    assert len(text) > 20


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    found: Any = InteractiveShell()
    load(found)
    yield found
    unload(found)


@pytest.mark.parametrize(
    "line", ["last", "history", "doctor", "config", "traces {folder}", "uploads", "help", "save {file}"]
)
def test_every_command_prints_only_printable_lines(
    shell: InteractiveShell,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    line: str,
) -> None:
    status = UploadStatus(path=tmp_path / HOSTILE_NAME, remote=HOSTILE, state="failed", attempt=1, error=HOSTILE)
    checks = [doctor.Check(HOSTILE), doctor.Check(HOSTILE, HOSTILE)]
    monkeypatch.setattr(commands, "upload_statuses", lambda: [status])
    monkeypatch.setattr(commands, "examine", lambda: checks)
    folder = tmp_path / HOSTILE_NAME
    folder.mkdir()
    this_process.remember(report())
    shell.user_ns |= {"folder": folder, "file": folder / "a.torchprof", "text": HOSTILE}
    shell.run_line_magic("config", "TorchProfMagics.run_name = text")
    capsys.readouterr()
    shell.run_line_magic(
        "torchprof", line.replace("{folder}", f"'{folder}'").replace("{file}", f"'{folder}/a.torchprof'")
    )
    said = capsys.readouterr()
    assert_printable(said.out + said.err)
    assert len(said.out) > 20


def test_a_report_in_a_terminal_is_printable(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    show(report(), shell)
    assert_printable(capsys.readouterr().out)


@pytest.mark.parametrize("flags", [[], ["--json"], ["--sql", "SELECT * FROM ops"], ["--sql", "SELECT x FROM ops"]])
def test_the_command_line_prints_only_printable_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    path = report().save(tmp_path / f"{HOSTILE_NAME}.torchprof")
    main([str(path), *flags])
    main([str(path), "-o", str(tmp_path / f"{HOSTILE_NAME}.html")])
    main([str(path), "--sql", "SELECT CAST(name AS INT) FROM ops"])
    main([str(tmp_path / f"{HOSTILE_NAME}.missing")])
    said = capsys.readouterr()
    assert_printable(said.out + said.err)
    assert said.err.count("error:") >= 2


def test_messages_that_take_the_place_of_a_report_are_printable(capsys: pytest.CaptureFixture[str]) -> None:
    messages.say(HOSTILE)
    assert_printable(capsys.readouterr().out)


@pytest.mark.parametrize("name", [name for name in tp.__all__ if name.endswith("Error")])
def test_the_text_of_an_error_is_printable_and_keeps_its_lines(name: str) -> None:
    error = getattr(errors, name)(f"one {HOSTILE}\ntwo")
    assert_printable(str(error))
    assert str(error).endswith("\ntwo")


def entered(**options: Any) -> None:
    with tp.profile(**options):
        pytest.fail("this should not run")


def test_errors_about_files_and_options_are_printable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / f"{HOSTILE_NAME}.json"
    actions: list[Callable[[], object]] = [
        lambda: tp.load(path),
        lambda: report().export(path / "a.csv"),
        lambda: report().save("\x00"),
        lambda: report().sql("SELECT CAST(name AS INT) FROM ops"),
        lambda: report().sql(HOSTILE),
        lambda: report().figure(HOSTILE),
        lambda: report().export(HOSTILE),
        lambda: report().export("a.csv", table=HOSTILE),
        lambda: report().ops_by(HOSTILE),
        lambda: entered(run_name=HOSTILE, trace_dir=tmp_path),
        lambda: entered(filename=HOSTILE, trace_dir=tmp_path),
        lambda: entered(trace_dir=tmp_path / "file" / HOSTILE_NAME),
        lambda: entered(activities=(HOSTILE,)),
    ]
    for action in actions:
        with pytest.raises((errors.TorchProfError, ValueError)) as caught:
            action()
        assert_printable(str(caught.value))


def test_errors_of_other_libraries_are_printable() -> None:
    assert_printable(told(OSError(HOSTILE), frozenset()))


def test_control_and_bidirectional_characters_are_escaped_and_letters_stay() -> None:
    assert printable("\x1b[31m\x9b\u202e\n") == r"\x1b[31m\x9b\u202e\n"
    assert printable_lines("a\x1b\nb\r\n") == "a\\x1b\nb\\r\n"
    for text in ("aten::mm", "模型 😀 é", "שלום", "a — b · c …", "\\"):
        assert printable(text) == text
