"""The examples of README.md and docs/ run as they are written, and print what stands below them."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from amount import thorough
from forking import forked_python

from torchprof_magic.__main__ import _check_parser, _mcp_parser, _parser

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "pages.py"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# One with what is printed and no training, which is quick; the others take longer.
QUICK = ("docs/questions/gpu-is-idle.md",)


def _run(*pages: str) -> None:
    run = subprocess.run(forked_python(str(SCRIPT), *pages), capture_output=True, text=True, check=False, cwd=ROOT)
    assert run.returncode == 0, run.stdout + run.stderr[-2_000:]
    assert run.stdout.endswith("All examples run.\n")


def test_examples_about_recordings_run_and_print_what_the_page_says() -> None:
    _run(*QUICK)


@thorough
def test_the_examples_of_all_pages_run() -> None:
    _run()


def test_commands_in_examples_have_arguments_that_there_are() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES).replace("\\\n", " ")
    commands = re.findall(r"^(?:\$ )?python -m torchprof_magic (.*)$", text, re.MULTILINE)
    commands += re.findall(r"`python -m torchprof_magic (\S[^`]*)`", text)
    assert len(commands) >= 5
    for command in commands:
        words = [word for word in shlex.split(command.partition(" || ")[0]) if word != "..."]
        parsers = {"check": _check_parser, "mcp": _mcp_parser}
        make = parsers.get(words[0])
        if make is None:
            _parser().parse_args(words)
        elif words[1:]:
            make().parse_args(words[1:])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_of_code_name_their_language(page: Path) -> None:
    fences = re.findall(r"^ *```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    opened = fences[::2]
    if page.name != "architecture.md":  # it has drawings
        assert all(opened), f"{page.name}: a block without a language"
