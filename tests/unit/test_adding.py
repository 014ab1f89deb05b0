"""The examples of docs/architecture.md add what they say they add."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from amount import thorough
from examples import NAMES, ROOT, copy_with, examples, run_in
from support import chrome, span

if TYPE_CHECKING:
    from pathlib import Path

OPENED = "import json; import torchprof_magic as tp; report = tp.load('trace'); "


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return an empty folder for a copy, with a trace in it."""
    (tmp_path / "trace").write_bytes(chrome(span("aten::linalg_inv_ex", 0, 5), span("aten::add", 10, 20)))
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_less_than_40_lines(name: str) -> None:
    assert len(examples()[name].splitlines()) < 40


def test_the_code_of_the_examples_passes_the_checks_of_style(tmp_path: Path) -> None:
    copy = copy_with(tmp_path, *NAMES)
    ruff = [sys.executable, "-m", "ruff"]
    settings = ["--no-cache", "--config", str(ROOT / "pyproject.toml"), str(copy)]
    for command in (["check"], ["format", "--check"]):
        ran = subprocess.run([*ruff, *command, *settings], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout


def test_a_table_is_a_property_a_table_of_sql_pandas_and_csv_and_a_section_of_the_docs(copy: Path) -> None:
    pytest.importorskip("pandas")
    found = run_in(
        copy_with(copy, "table"),
        OPENED  # noqa: S608 - a program, not a query
        + "from generate_docs import PAGES; report.export('longest.csv', table='longest'); print(json.dumps(["
        "report.longest.rows(), report.sql('SELECT name FROM longest').rows(), list(report.to_pandas('longest').name), "
        "open('longest.csv').read(), tp.Report.longest.__doc__, PAGES['docs/definitions.md'](), tp.__file__]))",
    )
    rows, queried, pandas, csv, doc, definitions, file = found
    assert file.startswith(str(copy))
    assert rows == [["aten::add", 20_000], ["aten::linalg_inv_ex", 5_000]]
    assert queried == [["aten::add"], ["aten::linalg_inv_ex"]]
    assert pandas == ["aten::add", "aten::linalg_inv_ex"]
    assert csv == "name,dur_ns\naten::add,20000\naten::linalg_inv_ex,5000\n"
    assert "One row per event, the longest first." in doc
    assert "\n## `report.longest`\n\nOne row per event, the longest first.\n" in definitions
    assert "| `dur_ns` | Duration | ns | How long it ran. |" in definitions


def test_a_tab_is_in_the_page_with_its_rows(copy: Path) -> None:
    header = json.loads(run_in(copy_with(copy, "table", "tab"), OPENED + "print(json.dumps(report.widget._header))"))
    view = next(view for view in header["views"] if view["title"] == "Longest")
    assert view["place"] == "tab"
    assert view["shape"] == "table"
    assert [column["name"] for column in view["columns"]] == ["name", "dur_ns"]


@thorough  # that a table and a tab can be added is in the sample
def test_a_rule_gives_a_card_a_line_of_text_and_an_entry_of_the_docs(copy: Path) -> None:
    advice, text, html, header, page = run_in(
        copy_with(copy, "rule"),
        OPENED + "from generate_docs import PAGES; print(json.dumps([[each.rule for each in report.advice], "
        "report.summary(), report._repr_html_(), report.widget._header, PAGES['docs/advice.md']()]))",
    )
    assert advice == ["matrix_inverse"]
    assert "Solve equations directly: torch.linalg.solve(a, b) instead of torch.linalg.inv(a) @ b [guess]" in text
    assert "Solve equations directly" in html
    overview = next(view for view in json.loads(header)["views"] if view["name"] == "overview")
    assert [card["title"] for card in overview["cards"]] == ["Solve equations directly"]
    assert "`matrix_inverse`" in page


def test_a_reader_opens_its_file_and_leaves_others_to_theirs(copy: Path) -> None:
    (copy / "log").write_text("".join(f"{json.dumps(span(name, 0, 5))}\n" for name in ("aten::mm", "aten::add")))
    ops, others, page = run_in(
        copy_with(copy, "reader"),
        OPENED + "from generate_docs import PAGES; print(json.dumps([list(tp.load('log').ops['name']), "
        "list(report.ops['name']), PAGES['docs/formats.md']()]))",
    )
    assert sorted(ops) == ["aten::add", "aten::mm"]
    assert sorted(others) == ["aten::add", "aten::linalg_inv_ex"]
    assert "Events, by line." in page
