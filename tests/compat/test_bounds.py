"""The bounds in pyproject.toml, compared with what ``make compat`` ran and wrote to ``results.json``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from environments import EXTRAS, LOWEST_BACKEND
from lines import LINES, TESTED_LINE
from packaging.requirements import Requirement
from packaging.specifiers import Specifier
from packaging.version import Version
from results import read_results

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 reads TOML")
PROJECT: dict[str, Any] = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
OPTIONAL = PROJECT["project"]["optional-dependencies"]
NEEDED = [
    Requirement(text)
    for text in [*PROJECT["project"]["dependencies"], *(text for extra in EXTRAS for text in OPTIONAL[extra])]
]
RESULTS = read_results(Path(__file__).with_name("results.json"))


def bound_of(needed: Requirement) -> Version:
    (bound,) = needed.specifier
    assert isinstance(bound, Specifier)
    assert bound.operator == ">=", f"{needed} is no lower bound"
    return Version(bound.version)


@pytest.mark.parametrize("needed", NEEDED, ids=str)
def test_the_lowest_version_that_is_allowed_was_run(needed: Requirement) -> None:
    ran = {result.versions[needed.name] for result in RESULTS.values() if needed.name in result.versions}
    assert bound_of(needed) in {Version(version) for version in ran}, f"run `make compat`; it ran {sorted(ran)}"


def test_the_docs_have_the_lowest_version_of_every_package() -> None:
    page = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z]+)` \| [0-9]", page, re.MULTILINE)
    assert {*rows, "torch"} == {needed.name for needed in NEEDED}


def test_the_wheel_is_built_with_the_lowest_backend_that_is_allowed() -> None:
    asked = {needed.name: bound_of(needed) for needed in map(Requirement, PROJECT["build-system"]["requires"])}
    pinned = {needed.name: Version(next(iter(needed.specifier)).version) for needed in map(Requirement, LOWEST_BACKEND)}
    assert pinned == asked


def test_every_line_is_in_the_results_and_no_cell_failed() -> None:
    assert list(RESULTS) == [line.name for line in LINES]
    assert [(name, result.failed) for name, result in RESULTS.items() if result.failed] == []


def test_a_python_is_declared_if_and_only_if_a_line_ran_on_it() -> None:
    prefix = "Programming Language :: Python :: 3."
    declared = {text.removeprefix(prefix) for text in PROJECT["project"]["classifiers"] if text.startswith(prefix)}
    ran = {Version(result.versions["python"]).minor for result in RESULTS.values() if result.versions}
    assert declared == {str(minor) for minor in ran}


def test_both_ends_of_the_bounds_are_run_and_the_tests_run_one_of_the_lowest() -> None:
    by_name = {line.name: line for line in LINES}
    assert by_name[TESTED_LINE].is_lowest
    assert {line.is_lowest for line in LINES} == {True, False}
