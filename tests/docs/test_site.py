"""The site of the documentation: its questions, its links, and what it loads."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from amount import thorough
from build_docs import loaded_from_elsewhere

import torchprof_magic

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def headings(page: Path) -> set[str]:
    """Return the names by which headings of a page are linked to, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


def test_links_to_pages_and_headings_have_a_target() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        for target, heading in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
            other = (page.parent / target) if target else page
            assert other.exists(), f"{page.name}: {target}"
            assert not heading or heading in headings(other), f"{page.name}: {target}#{heading}"


def test_every_page_is_in_the_contents_and_questions_come_first() -> None:
    contents = re.findall(r"^```\{toctree\}\n(.*?)^```", (DOCS / "index.md").read_text(), re.MULTILINE | re.DOTALL)
    entries = [line for part in contents for line in part.splitlines() if line and not line.startswith(":")]
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")} - {"index"}
    assert set(entries) == pages
    assert len(entries) == len(pages)
    is_question = [entry.startswith("questions/") for entry in entries]
    assert is_question == sorted(is_question, reverse=True)


def test_all_that_is_public_is_in_the_reference() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    named = set(re.findall(r"torchprof_magic\.([\w.]+)$", page, re.MULTILINE))
    errors = {name for name in torchprof_magic.__all__ if name.endswith("Error")}
    modules = {"callbacks": "trainers.callbacks", **{name: f"report.{name}" for name in ("formulas", "peaks", "rules")}}
    others = {"__version__", "last", *modules}
    assert {*modules.values(), "model.errors"} <= named
    assert set(torchprof_magic.__all__) - errors - others <= named


@thorough
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    for name in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(name, reason="make thorough installs it")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(DOCS), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert loaded_from_elsewhere(tmp_path) == []
    index = (tmp_path / "searchindex.js").read_text(encoding="utf-8")
    assert "caused_wait_n" in index  # by its stem
    assert 'id="torchprof_magic.Report.idle"' in (tmp_path / "api.html").read_text(encoding="utf-8")


def test_what_a_page_loads_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<script src="https://cdn.example/a.js"></script><img src="b.png"><a href="https://x">'
    )
    (tmp_path / "a.css").write_text("@font-face {src: url('//fonts.example/f.woff')} b {background: url(data:x)}")
    found = sorted(loaded_from_elsewhere(tmp_path))
    assert found == ["a.css loads //fonts.example/f.woff", "a.html loads https://cdn.example/a.js"]


def test_pictures_of_the_pages_are_made_by_the_script_or_kept_by_the_tests() -> None:
    shots = {f"{shot.name}.png" for shot in importlib.import_module("make_screenshots").SHOTS}
    assert {path.name for path in (DOCS / "images").iterdir()} - {"report-light.png"} == shots
