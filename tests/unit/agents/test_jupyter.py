"""The tools as Jupyter's own MCP server finds and calls them."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import subprocess
import sys
import time
import typing
from importlib.metadata import entry_points
from pathlib import Path

import anyio
import pytest
from amount import thorough
from support import chrome, span

from torchprof_magic.agents import jupyter
from torchprof_magic.agents.arguments import arguments_of
from torchprof_magic.agents.folders import Folders
from torchprof_magic.agents.tools import Tools


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "small.json").write_bytes(chrome(span("aten::mm", 0, 30)))
    monkeypatch.chdir(tmp_path)
    jupyter._tools.cache_clear()
    return tmp_path


def test_every_tool_is_named_as_a_function_of_a_module_with_the_same_arguments(folder: Path) -> None:
    own = Tools(Folders([folder])).all
    names = jupyter.tools()
    assert len(names) == len(own)
    for name, tool in zip(names, own, strict=True):
        module, _, function = name.rpartition(":")
        found = getattr(importlib.import_module(module), function)
        assert found.__name__ == f"torchprof_{tool.__name__}"
        assert found.__doc__ == inspect.getdoc(tool)
        assert list(inspect.signature(found).parameters) == list(arguments_of(tool))
        hints = typing.get_type_hints(found, include_extras=True)
        assert all(hint.__metadata__[0].description for hint in hints.values())


def test_a_tool_answers_about_the_current_folder_and_those_of_the_variable(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "other.json").write_bytes((folder / "small.json").read_bytes())
    monkeypatch.setenv(jupyter.FOLDERS_VARIABLE, str(other))
    run = jupyter.torchprof_open_file
    for name in ("small.json", "other.json"):
        assert f"`{name}`" in anyio.run(lambda name=name: run(run=name))


def test_what_is_no_tool_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'torchprof_nothing'"):
        _ = jupyter.torchprof_nothing


def test_the_package_has_the_entry_point() -> None:
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points."jupyter_server_mcp.tools"]' in project
    assert 'torchprof_magic = "torchprof_magic.agents.jupyter:tools"' in project


@thorough
def test_jupyters_server_lists_and_calls_them(folder: Path) -> None:
    pytest.importorskip("jupyter_server_mcp", reason="make thorough installs it")
    if not entry_points(group="jupyter_server_mcp.tools"):
        pytest.skip("the package was installed before it had this entry point")
    records = folder / "runtime"
    environment = {**os.environ, "JUPYTER_RUNTIME_DIR": str(records), "JUPYTER_CONFIG_DIR": str(records)}
    command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--port=0", "--allow-root"]
    command += ["--MCPExtensionApp.mcp_port=0", f"--ServerApp.root_dir={folder}", "--ServerApp.token=x"]
    command += ["--ServerApp.jpserver_extensions=jupyter_server_mcp=True"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as server:
        try:
            anyio.run(_asked, _address(records))
        finally:
            server.terminate()


def _address(records: Path) -> str:
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        for file in records.rglob("*.json"):
            address = json.loads(file.read_text() or "{}").get("url", "")
            if address.endswith("/mcp"):
                return str(address)
        time.sleep(0.1)
    raise TimeoutError("the server did not start")


async def _asked(address: str) -> None:
    from mcp import Client  # noqa: PLC0415 - only for this test

    async with Client(address) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"torchprof_summary", "torchprof_sql", "torchprof_picture"} <= names
        found = await client.call_tool("torchprof_verdict", {"run": "small.json"})
        assert not found.is_error
        assert "## Verdict" in found.content[0].text  # type: ignore[union-attr]
        refused = await client.call_tool("torchprof_summary", {"run": "/etc/passwd"})
        assert refused.is_error
        assert "is not in the folders" in refused.content[0].text  # type: ignore[union-attr]
