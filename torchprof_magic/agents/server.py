"""The MCP server over standard input and output, by the reference library ``mcp``."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING, Any

import torchprof_magic
from torchprof_magic.agents.answers import Picture
from torchprof_magic.agents.arguments import description_of, schema_of
from torchprof_magic.agents.calling import called
from torchprof_magic.agents.errors import ToolError
from torchprof_magic.agents.folders import Folders
from torchprof_magic.agents.tools import Tools
from torchprof_magic.render.markdown import DATA_NOTE

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

NAME = "torchprof-magic"
INSTRUCTIONS = (
    "Reads recordings of the PyTorch profiler. Begin with list_runs and summary; verdict says what limits the program, "
    "advice what to change, lines where, and table, sql and list_tables have all numbers. Times are in ns, memory in "
    f"bytes. {DATA_NOTE}"
)
_NEEDS_MCP = "the MCP server needs the package mcp; install it with: pip install 'torchprof-magic[mcp]'"


def serve(folders: Iterable[str | os.PathLike[str]]) -> None:
    """Answer a client on standard input and output until it closes them.

    Args:
        folders: The folders whose files it may ask about; nothing else is read, but for kept runs.

    Raises ``OptionsError`` for what is no folder, and ``ImportError`` without the package ``mcp``.
    """
    tools = Tools(Folders(folders))
    try:
        import anyio  # noqa: PLC0415 - an extra
        from mcp.server.stdio import stdio_server  # noqa: PLC0415
    except ImportError as exc:
        raise ImportError(_NEEDS_MCP) from exc

    async def run() -> None:
        server = server_of(tools)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)


def server_of(tools: Tools) -> Any:
    """Return the server of some tools."""
    import anyio.to_thread  # noqa: PLC0415 - an extra
    import mcp_types as types  # noqa: PLC0415
    from mcp.server import Server  # noqa: PLC0415

    known = {tool.__name__: tool for tool in tools.all}

    async def list_tools(_context: object, _params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(types, tool) for tool in tools.all])

    async def call_tool(_context: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = known.get(params.name)
        if tool is None:
            return _failed(types, f"there is no tool {params.name[:100]!r}; the tools are: {', '.join(known)}")
        try:
            answer = await anyio.to_thread.run_sync(partial(called, tool, params.arguments or {}))
        except ToolError as exc:
            return _failed(types, str(exc))
        return types.CallToolResult(content=_content(types, answer))

    return Server(
        NAME,
        version=torchprof_magic.__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _described(types: Any, tool: Callable[..., object]) -> Any:
    hints = types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    return types.Tool(
        name=tool.__name__, description=description_of(tool), input_schema=schema_of(tool), annotations=hints
    )


def _content(types: Any, answer: str | Picture) -> list[Any]:
    if not isinstance(answer, Picture):
        return [types.TextContent(type="text", text=answer)]
    data = base64.b64encode(answer.png).decode("ascii")
    return [
        types.ImageContent(type="image", data=data, mime_type="image/png"),
        types.TextContent(type="text", text=answer.text),
    ]


def _failed(types: Any, message: str) -> Any:
    return types.CallToolResult(content=[types.TextContent(type="text", text=message)], is_error=True)
