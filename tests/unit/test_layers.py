"""Imports go one way, from layer to layer."""

from __future__ import annotations

import ast
import graphlib
import re
from functools import cache
from pathlib import Path

import torchprof_magic

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "torchprof_magic"

# The layers from top to bottom. A module imports only from the layers below its own.
MAY_IMPORT = {
    "__main__": {"agents", "loading", "report", "model"},
    "agents": {"jobs", "report", "runs", "render", "ingest", "system", "model"},
    "ipython": {
        "run",
        "runs",
        "store",
        "loading",
        "jobs",
        "report",
        "render",
        "capture",
        "options",
        "system",
        "model",
    },
    "pytest_plugin": {"profiling"},
    "trainers": {"ipython", "profiling", "run", "capture", "system", "model"},
    "profiling": {"run", "capture", "options", "model"},
    "run": {"runs", "report", "exporters", "ingest", "store", "capture", "options", "system", "model"},
    "loading": {"jobs", "report", "system"},
    "jobs": {"report", "runs", "render", "exporters", "findings", "facts", "system", "model"},
    "report": {"runs", "trials", "render", "exporters", "findings", "tables", "facts", "ingest", "system", "model"},
    "render": {"findings", "tables", "facts", "system", "model"},
    "runs": {"ingest", "store", "system", "model"},
    "trials": {"findings"},
    "findings": {"tables", "facts", "model"},
    "tables": {"facts", "model"},
    "facts": {"model"},
    "exporters": {"system", "model"},
    "ingest": {"system", "model"},
    "store": {"system", "model"},
    "capture": {"options", "system", "model"},
    "options": {"model"},
    "system": {"model"},
    "model": set(),
}
# Heavy libraries, and the only layers that may import them.
OWNERS = {
    "torch": {"capture", "trials"},
    "IPython": {"ipython", "render"},
    "anywidget": {"render"},
    "ipywidgets": {"ipython", "render"},
    "tqdm": {"ipython"},
    "matplotlib": {"render"},
    "pandas": {"exporters"},
    "PIL": {"render"},
    "fsspec": {"system", "store"},
    "msgspec": {"ingest", "capture", "render", "store", "jobs", "runs", "run"},
    "mcp": {"agents"},
    "mcp_types": {"agents"},
    "anyio": {"agents"},
    "fastmcp": {"agents"},
    "pydantic": {"agents"},
    "accelerate": {"trainers"},
    "lightning": {"trainers"},
    "pytorch_lightning": {"trainers"},
    "transformers": {"trainers"},
}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def layer_of(path: Path) -> str:
    part = path.relative_to(PACKAGE).parts[0]
    return part.removesuffix(".py")


@cache
def imports_of(path: Path) -> list[str]:
    """Return every module that is imported when the code runs, at the top or inside a function."""
    tree = ast.parse(path.read_text())
    for_types = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for child in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "torchprof_magic" else []
            found += names or [node.module]
    return found


def test_a_module_imports_only_from_the_layers_below_it() -> None:
    wrong = []
    for path in MODULES:
        layer = layer_of(path)
        for name in imports_of(path):
            package, _, inside = name.partition(".")
            if package == "torchprof_magic" and inside and inside.split(".")[0] not in {layer, *MAY_IMPORT[layer]}:
                wrong.append(f"{path.relative_to(PACKAGE)} must not import {name}")
    assert wrong == []


def test_no_room_has_the_name_of_something_public() -> None:
    """Importing a room would put it in the place of the function."""
    assert not {layer_of(path) for path in MODULES} & set(torchprof_magic.__all__)


def test_the_layers_have_no_cycle() -> None:
    seen: list[str] = []
    for layer in graphlib.TopologicalSorter(MAY_IMPORT).static_order():  # raises CycleError
        assert MAY_IMPORT[layer] <= set(seen)
        seen.append(layer)


def test_a_heavy_library_is_imported_only_by_its_layer() -> None:
    wrong = []
    for path in MODULES:
        layer = layer_of(path)
        for name in imports_of(path):
            owners = OWNERS.get(name.split(".")[0])
            if owners is not None and layer not in owners:
                wrong.append(f"{path.relative_to(PACKAGE)} must not import {name}")
    assert wrong == []


SCRIPT_LAYERS = ("views", "draw", "layout", "state", "wire", "base")
SCRIPT_MAY_IMPORT = {
    "views": {"draw", "layout", "state", "wire", "base"},
    "draw": {"layout", "wire", "base"},
    "layout": {"wire", "base"},
    "state": {"wire", "base"},
    "wire": {"base"},
    "base": set(),
}
SCRIPTS = sorted((ROOT / "js" / "src").rglob("*.ts*"))
WIDGETS = sorted((ROOT / "widgets").rglob("*.ts"))


def targets_of(path: Path) -> list[str]:
    """Return what a script imports or exports from elsewhere, as it is written."""
    return re.findall(r"""^\s*(?:import|export)[^;]*?from\s+["']([^"']+)["']""", path.read_text(), re.MULTILINE)


def may_import(path: Path, target: str) -> bool:
    """Whether a script of the library may import something, by its own path and by what it writes."""
    source = ROOT / "js" / "src"
    layer = path.relative_to(source).parts[0]
    if layer not in SCRIPT_LAYERS or ".test." in path.name or not target.startswith("."):
        return True
    resolved = (path.parent / target).resolve()
    if source not in resolved.parents:
        return resolved.name == "palette.json"
    other = resolved.relative_to(source).parts[0]
    return other == layer or other in SCRIPT_MAY_IMPORT[layer]


def test_typescript_imports_go_one_way() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} must not import {target}"
        for path in SCRIPTS
        for target in targets_of(path)
        if not may_import(path, target)
    ]
    assert wrong == []


def test_a_widget_uses_the_library_and_never_an_npm_package() -> None:
    found = {path.name: [target for target in targets_of(path) if target[0] != "."] for path in WIDGETS}
    assert {name: targets for name, targets in found.items() if targets} == {}
