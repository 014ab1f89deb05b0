"""Arguments of tools: their schemas, and what does not fit them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import pytest
from jsonschema import Draft202012Validator

from torchprof_magic.agents.arguments import MOST_CHARS, Bounds, checked, schema_of
from torchprof_magic.agents.errors import ToolError
from torchprof_magic.agents.folders import Folders
from torchprof_magic.agents.tools import Tools

if TYPE_CHECKING:
    from pathlib import Path


def tool(
    name: Annotated[str, "A name."],
    way: Annotated[Literal["up", "down"], "Where to."] = "up",
    rows: Annotated[int, "How many.", Bounds(1, 9)] = 3,
    columns: Annotated[list[str], "Which."] = [],  # noqa: B006 - never changed
    is_deep: Annotated[bool, "Whether."] = True,
) -> str:
    return f"{name} {way} {rows} {columns} {is_deep}"


def test_the_schema_is_that_of_the_signature() -> None:
    assert schema_of(tool) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "A name."},
            "way": {"type": "string", "description": "Where to.", "enum": ["up", "down"], "default": "up"},
            "rows": {"type": "integer", "description": "How many.", "minimum": 1, "maximum": 9, "default": 3},
            "columns": {"type": "array", "description": "Which.", "items": {"type": "string"}, "default": []},
            "is_deep": {"type": "boolean", "description": "Whether.", "default": True},
        },
        "required": ["name"],
        "additionalProperties": False,
    }


def test_what_fits_is_passed_on_and_a_whole_number_may_be_written_as_a_fraction() -> None:
    given = {"name": "x", "way": "down", "rows": 4.0, "columns": ["a"], "is_deep": False}
    assert checked(tool, given) == {**given, "rows": 4}
    assert isinstance(checked(tool, given)["rows"], int)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "the argument name is missing. A name."),
        ({"name": None}, "name must be a text"),
        ({"name": ["x"]}, "name must be a text"),
        ({"name": {"x": 1}}, "name must be a text"),
        ({"name": "x" * (MOST_CHARS + 1)}, "name must be a text"),
        ({"name": "x", "way": "left"}, "way must be one of up, down"),
        ({"name": "x", "way": ["up"]}, "way must be a text"),
        ({"name": "x", "rows": 0}, "rows must be from 1 to 9"),
        ({"name": "x", "rows": 10**400}, "rows must be from 1 to 9"),
        ({"name": "x", "rows": "4"}, "rows must be a whole number"),
        ({"name": "x", "rows": 1.5}, "rows must be a whole number"),
        ({"name": "x", "rows": float("nan")}, "rows must be a whole number"),
        ({"name": "x", "rows": float("inf")}, "rows must be a whole number"),
        ({"name": "x", "rows": True}, "rows must be a whole number"),
        ({"name": "x", "columns": "a"}, "columns must be a list of texts"),
        ({"name": "x", "columns": [1]}, "columns must be a list of texts"),
        ({"name": "x", "columns": ["a"] * 201}, "columns must be a list of texts"),
        ({"name": "x", "is_deep": 1}, "is_deep must be true or false"),
        ({"name": "x", "self": 1}, "there is no argument 'self'"),
        ({"name": "x", "__class__": 1}, "there is no argument '__class__'"),
        ({"name": "x", "y" * 500: 1}, "there is no argument"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(given: dict[str, object], says: str) -> None:
    with pytest.raises(ToolError) as error:
        checked(tool, given)
    assert says in str(error.value)
    assert len(str(error.value)) < 300


def test_every_tool_has_a_valid_schema_and_says_what_it_and_its_arguments_are(tmp_path: Path) -> None:
    for each in Tools(Folders([tmp_path])).all:
        schema = schema_of(each)
        Draft202012Validator.check_schema(schema)
        assert each.__doc__
        assert all(one["description"] for one in schema["properties"].values())  # type: ignore[attr-defined]
