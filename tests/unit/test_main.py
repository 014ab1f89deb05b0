"""``python -m torchprof_magic`` on a small trace."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support import chrome, span

from torchprof_magic.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "small.json"
    path.write_bytes(chrome(span("aten::mm", 0, 30), span("aten::add", 40, 10), span("aten::mm", 60, 30)))
    return str(path)


def test_the_summary_is_printed_by_default(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([trace]) == 0
    said = capsys.readouterr()
    assert "aten::mm" in said.out
    assert said.err == ""
    assert main([trace, "--summary"]) == 0
    assert capsys.readouterr().out == said.out


def test_the_summary_comes_as_json_too(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([trace, "--json"]) == 0
    assert [op["name"] for op in json.loads(capsys.readouterr().out)["ops"]] == ["aten::mm", "aten::add"]


def test_the_summary_comes_as_markdown_of_as_many_tokens_as_asked_for(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([trace, "--markdown"]) == 0
    whole = capsys.readouterr().out
    assert whole.startswith("# Profile of `small.json`")
    assert main([trace, "--markdown", "--max-tokens", "300"]) == 0
    assert len(capsys.readouterr().out) < len(whole)
    assert main([trace, "--markdown", "--max-tokens", "10"]) == 1
    assert "max_tokens must be at least 200" in capsys.readouterr().err


def test_a_file_is_written_and_nothing_else_is_printed(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "report.html"
    assert main([trace, "-o", str(target)]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"Wrote {target}\n")
    assert target.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_query_is_answered_as_a_table_or_as_json(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT name, calls FROM ops WHERE calls > 1"
    assert main([trace, "--sql", query]) == 0
    assert "aten::mm" in capsys.readouterr().out
    assert main([trace, "--sql", query, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "aten::mm", "calls": 2}]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.json"], "nowhere.json: "),
        (["{trace}", "--sql", "SELECT nothing FROM ops"], "nothing"),
        (["{trace}", "-o", "{trace}/x.html"], "could not be written"),
        (["{trace}", "-o", "x.exe"], "x.exe"),
    ],
)
def test_an_error_is_one_line_on_stderr(
    trace: str, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([argument.format(trace=trace) for argument in arguments]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("python -m torchprof_magic: error: ")
    assert says in said.err


def test_help_names_every_argument_and_the_module_runs(trace: str) -> None:
    command = [sys.executable, "-m", "torchprof_magic"]
    shown = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout
    assert all(word in shown for word in ("TRACE", "--output", "--sql", "--summary", "--json", "'check'", "'mcp'"))
    with subprocess.Popen([*command, trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.close()  # as `| head` does when it has seen enough
        assert run.stderr.read() == ""
