"""Write the page's checks and types of its header from the structs in ``torchprof_magic/render/header.py``.

Run it after changing one of them, or a shape that they hold, and then ``npx biome check --write`` in ``js``.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import inspect as types

from torchprof_magic.render import header

if TYPE_CHECKING:
    from collections.abc import Sequence

TARGET = Path(__file__).parents[1] / "js" / "src" / "wire" / "header.generated.ts"
_TOP = """\
/**
 * The checks and types of a report's header. Written by `scripts/generate_header.py` from the structs in
 * `torchprof_magic/render/header.py`: change those.
 */

import { type Checked, flag, listOf, mapOf, number, oneOf, orNull, record, scalar, text, tupleOf } from "./check";
"""
# Classes whose fields others begin with.
_BASES = (header.TabHeader, header.FramedHeader)
_WIDTH = 96
_SIMPLE: dict[type, str] = {
    types.StrType: "text",
    types.IntType: "number",
    types.FloatType: "number",
    types.BoolType: "flag",
}


def written() -> str:
    """Return the text of the file."""
    made: dict[str, str] = {}
    for base in _BASES:
        _add(made, types.type_info(base))
    _add(made, types.type_info(header.ReportHeader))
    views = types.type_info(header.ViewHeader)
    assert isinstance(views, types.UnionType)
    each = ", ".join(f"{view.tag}: {_name(view.cls)}" for view in views.types if isinstance(view, types.StructType))
    shapes = f"/** The checks of a view by its shape. */\nconst VIEWS = {{ {each} }};\n"
    report = made.pop(header.ReportHeader.__name__)
    # The check of any view chooses one of them by its shape.
    chosen = (
        "const shaped = record({ shape: oneOf(...(Object.keys(VIEWS) as readonly Shape[])) });\n"
        "export type Shape = keyof typeof VIEWS;\n"
        "export type ViewHeader = { [S in Shape]: Checked<(typeof VIEWS)[S]> }[Shape];\n"
        "export const view = (value: unknown, at: string): ViewHeader => VIEWS[shaped(value, at).shape](value, at);\n"
    )
    return "\n".join([_TOP, *made.values(), shapes, chosen, report])


def compact(text: str) -> str:
    """Return a text of TypeScript without what a formatter chooses: blanks, line breaks and commas at the end."""
    return re.sub(r",(?=[)}])", "", re.sub(r"\s+", "", text))


def _add(made: dict[str, str], found: types.StructType | types.DataclassType | Any) -> str:
    """Add a class, and before it all that it holds; return the name of its check."""
    name = _name(found.cls)
    if found.cls.__name__ in made:
        return name
    base = found.cls.__mro__[1] if found.cls.__mro__[1] in _BASES else None
    known = {field.name for field in types.type_info(base).fields} if base else set()  # type: ignore[union-attr, attr-defined]
    own = [f"{field.name}: {check_of(made, field.type)}" for field in found.fields if field.name not in known]
    if getattr(found, "tag", None):
        own.insert(0, f"shape: oneOf({json.dumps(found.tag)})")
    fields = ", ".join(([f"...{_name(base)}"] if base else []) + own)
    if found.cls in _BASES:
        text = f"{_comment(found.cls)}const {name} = {{ {fields} }};\n"
    else:
        text = (
            f"{_comment(found.cls)}export const {name} = record({{ {fields} }});\n"
            f"export type {found.cls.__name__} = Checked<typeof {name}>;\n"
        )
    made[found.cls.__name__] = text
    return name


def check_of(made: dict[str, str], found: types.Type) -> str:
    """Return the check of a type."""
    match found:
        case types.LiteralType():
            return f"oneOf({', '.join(json.dumps(value) for value in found.values)})"
        case types.StructType() | types.DataclassType():
            return _add(made, found)
        case types.UnionType():
            return _check_of_union(made, found.types)
        case types.VarTupleType() | types.TupleType() | types.DictType():
            return _check_of_many(made, found)
    if (simple := _SIMPLE.get(type(found))) is None:
        raise TypeError(f"no check is known for {found}")
    return simple


def _check_of_many(made: dict[str, str], found: types.VarTupleType | types.TupleType | types.DictType) -> str:
    match found:
        case types.VarTupleType():
            return f"listOf({check_of(made, found.item_type)})"
        case types.TupleType():
            return f"tupleOf({', '.join(check_of(made, item) for item in found.item_types)})"
        case _:
            return f"mapOf({check_of(made, found.value_type)})"


def _check_of_union(made: dict[str, str], members: Sequence[types.Type]) -> str:
    some = [member for member in members if not isinstance(member, types.NoneType)]
    if all(isinstance(member, types.StructType) and member.tag for member in some):
        for member in some:
            _add(made, member)
        return "view"
    checks = sorted({check_of(made, member) for member in some})
    check = "scalar" if checks == ["number", "text"] else checks[0]
    if check != "scalar" and len(checks) > 1:
        raise TypeError(f"no check is known for one of {checks}")
    return check if len(some) == len(members) else f"orNull({check})"


def _name(cls: type) -> str:
    return cls.__name__[:1].lower() + cls.__name__[1:]


def _comment(cls: type) -> str:
    """Return the docstring of a class as a comment, in which names stand between single backticks."""
    paragraphs = re.sub(r"``", "`", inspect.cleandoc(cls.__doc__ or "")).split("\n\n")
    lines = [line for part in paragraphs for line in (*textwrap.wrap(part.replace("\n", " "), _WIDTH), "")][:-1]
    if len(lines) == 1:
        return f"/** {lines[0]} */\n"
    return "/**\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */\n"


if __name__ == "__main__":
    TARGET.write_text(written(), encoding="utf-8")
