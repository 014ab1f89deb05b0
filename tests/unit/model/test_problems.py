from __future__ import annotations

import ast
import re
import string
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from torchprof_magic.model.problems import PROBLEMS, problem

PACKAGE = Path(__file__).parents[3] / "torchprof_magic"
TABLE = PACKAGE / "model" / "problems.py"
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if path != TABLE)
CODE = re.compile(rf"(?:{'|'.join(sorted({code.partition('.')[0] for code in PROBLEMS}))})\.[a-z0-9_]+")
# Names of files look like codes.
FILENAMES = {"snapshot.pickle", "run.torchprof"}


class Report(NamedTuple):
    """A call in the package that reports a problem."""

    place: str
    code: str
    values: set[str]


@cache
def strings_and_calls() -> tuple[list[tuple[Path, str]], list[tuple[Path, ast.Call]]]:
    """Return every string and every call in every module of the package but the table's own."""
    strings, calls = [], []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings.append((path, node.value))
            elif isinstance(node, ast.Call):
                calls.append((path, node))
    return strings, calls


def literals() -> dict[str, str]:
    """Return every string in the package that has the form of a code, with a place where it stands."""
    found = {value: path.name for path, value in strings_and_calls()[0] if CODE.fullmatch(value)}
    return {code: place for code, place in found.items() if code not in FILENAMES}


def reports() -> list[Report]:
    """Return every call that reports a problem with a literal code and literal names of its values."""
    found = []
    for path, call in strings_and_calls()[1]:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        is_report = name in ("problem", "note", "_give_up") and bool(call.args)
        if not is_report or not isinstance(call.args[0], ast.Constant):
            continue
        names = [keyword.arg for keyword in call.keywords]
        if None not in names:
            code = call.args[0].value
            found.append(Report(f"{path.name}:{call.lineno}", code, {str(name) for name in names} - {"count"}))
    return found


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def test_every_code_in_the_package_is_in_the_table() -> None:
    assert {code: place for code, place in literals().items() if code not in PROBLEMS} == {}


def test_every_code_of_the_table_is_used() -> None:
    assert set(PROBLEMS) - set(literals()) == set()


def test_every_report_of_a_problem_gives_the_values_of_its_text_and_no_others() -> None:
    found = reports()
    assert len(found) > 50
    for place, code, values in found:
        kind = PROBLEMS[code]
        assert values == fields(kind.message) | fields(kind.fix), f"{place}: {code}"


def test_problems_are_made_from_the_table_only() -> None:
    makers = {
        path.relative_to(PACKAGE).as_posix()
        for path, call in strings_and_calls()[1]
        if getattr(call.func, "id", "") == "Problem"
    }
    # It says of which ranks a problem is that their recordings have.
    assert makers == {"jobs/load.py"}


@pytest.mark.parametrize("code", PROBLEMS)
def test_a_problem_is_written_in_sentences_and_data_loss_says_what_to_do(code: str) -> None:
    kind = PROBLEMS[code]
    assert kind.message.endswith((".", "}")), "an error or a warning of others ends as it ends"
    assert kind.fix.endswith(".") or (kind.fix == "" and kind.severity != "data_loss")
    assert kind.when.endswith(".")
    names = fields(kind.message) | fields(kind.fix)
    assert all(name.isidentifier() for name in names)
    assert "count" not in names, "it would set the count of the problem"


def test_values_with_braces_are_shown_as_they_are() -> None:
    hostile = "{0.__class__} {code} {{"
    found = problem("store.note", file=hostile, note="{note}")
    assert found.message == f"{hostile} was stored, but {{note}}."


def test_the_count_and_the_severity_come_with_the_problem() -> None:
    found = problem("run.no_kernels", count=3, signs="the host made 3 launches")
    assert (found.code, found.severity, found.count) == ("run.no_kernels", "data_loss", 3)


def test_an_unknown_code_or_a_missing_value_is_an_error_of_the_programmer() -> None:
    with pytest.raises(KeyError, match=r"run\.unknown"):
        problem("run.unknown")
    with pytest.raises(KeyError, match="note"):
        problem("store.note", file="a")
