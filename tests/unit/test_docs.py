from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from generate_docs import PAGES

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
CODE = ("torchprof_magic", "js/src", "widgets", "scripts", "benchmarks")


@pytest.mark.parametrize(("path", "page"), PAGES.items())
def test_generated_pages_are_up_to_date(path: str, page: Callable[[], str]) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == page(), "run scripts/generate_docs.py"


def test_table_cells_of_generated_pages_cannot_break_their_row() -> None:
    for path in PAGES:
        text = (ROOT / path).read_text(encoding="utf-8")
        for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            assert len({line.count("|") for line in block.splitlines()}) == 1, block


def test_links_between_the_documents_have_a_target() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_failure_of_running_has_a_row_and_a_test() -> None:
    page = (ROOT / "docs" / "failures.md").read_text()
    files = (f"test_failures_of_{name}.py" for name in ("ending", "running"))
    source = "".join((ROOT / "tests" / "notebook" / name).read_text(encoding="utf-8") for name in files)
    tests = re.findall(r"^def (test_row_\w+)", source, re.MULTILINE)
    rows = {
        int(row): re.findall(r"`(test_row_\w+)`", line)
        for row, line in re.findall(r"^\| (\d+) (.*)$", page, re.MULTILINE)
    }
    assert set(range(1, 22)) <= rows.keys()
    running = {row: named for row, named in rows.items() if row <= 21}
    for row, named in running.items():
        assert named, f"row {row} has no test"
        assert all(f"_{row}_" in name for name in named)
    assert {name for named in running.values() for name in named} == set(tests)


def test_every_other_failure_has_a_row_whose_tests_are_there() -> None:
    page = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
    files = (f"test_failures_{name}.py" for name in ("around_the_cell", "of_keeping", "of_uploading"))
    source = "".join((ROOT / "tests" / "notebook" / name).read_text(encoding="utf-8") for name in files)
    tests = set(re.findall(r"^def (test_\w+)", source, re.MULTILINE))
    rows = {int(row): line for row, line in re.findall(r"^\| (\d+) (.*)$", page, re.MULTILINE)}
    assert rows.keys() == set(range(1, 43))
    for row in range(22, 43):
        named = re.findall(r"`(test_\w+)`", rows[row])
        assert named, f"row {row} has no test"
        assert set(named) <= tests, f"row {row} names a test that is not there"


def test_every_name_in_the_page_about_the_architecture_is_in_the_code() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    words = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    files = [path for place in CODE for path in (ROOT / place).rglob("*") if path.suffix in {".py", ".ts", ".tsx"}]
    paths = [path.relative_to(ROOT).as_posix() for path in (*files, *(ROOT / "tests").rglob("*.py"))]
    code = {word for path in files for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    known = {*code, *(part for path in paths for part in re.findall(r"\w+", path))}
    names = [name.split()[-1] for name in re.findall(r"`([^`]+)`", words)]
    missing = [name for name in names if not set(re.findall(r"\w{2,}", name)) <= known]
    folders = [name for name in names if "/" in name and not (ROOT / name).exists()]
    missing += [name for name in folders if not any(name in path for path in paths)]
    assert len(names) > 200
    assert missing == []
